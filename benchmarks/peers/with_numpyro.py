"""NumPyro, Markov chains by NUTS: see the package for what the functions are."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS

numpyro.enable_x64()
Problem = dict[str, np.ndarray]
# Warm-up steps, and draws: enough that compiling, which every run does, counts for little.
WARMUP, DRAWS = 500, 1000


def _model(X: Any, y: Any) -> None:
    """The horseshoe, not centred, with a half-Cauchy prior of its scale."""
    columns = X.shape[1]
    noise = numpyro.sample("noise", dist.HalfCauchy(1.0))
    scale = numpyro.sample("scale", dist.HalfCauchy(0.1))
    local = numpyro.sample("local", dist.HalfCauchy(jnp.ones(columns)))
    z = numpyro.sample("z", dist.Normal(jnp.zeros(columns), 1.0))
    w = numpyro.deterministic("w", z * local * scale)
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 10.0))
    numpyro.sample("y", dist.Normal(X @ w + intercept, noise), obs=y)


def linear(p: Problem, method: str) -> dict[str, Any]:
    """Means of coefficients, and the seconds that 400 effective draws of the worst take."""
    X, y = jnp.asarray(p["X"]), jnp.asarray(p["y"])
    chains = MCMC(
        NUTS(_model, target_accept_prob=0.95),
        num_warmup=WARMUP,
        num_samples=DRAWS,
        num_chains=1,
        progress_bar=False,
    )
    chains.warmup(jax.random.key(0), X, y)
    start = time.perf_counter()
    chains.run(jax.random.key(1), X, y, extra_fields=("diverging",))
    drawn = {name: np.asarray(value) for name, value in chains.get_samples().items()}
    seconds = time.perf_counter() - start
    effective = float(np.min(effective_sample_size(drawn["w"][None])))
    found = {"coef": drawn["w"].mean(axis=0).tolist()}
    found |= {"intercept": float(drawn["intercept"].mean())}
    divergences = int(np.sum(np.asarray(chains.get_extra_fields()["diverging"])))
    found |= {"effective": effective, "divergences": divergences}
    return found | {"seconds": seconds * 400.0 / effective}
