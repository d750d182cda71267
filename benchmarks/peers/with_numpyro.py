"""NumPyro, Markov chains by NUTS: see the package for what the functions are."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import erf, logsumexp
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS

numpyro.enable_x64()
Problem = dict[str, np.ndarray]
# Warm-up steps, and draws: enough that compiling, which every run does, counts for little.
WARMUP, DRAWS = 500, 1000
# Steps of a trajectory of a network: 2 to this power at the most, which is the library's default.
DEPTH = 10


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


def _function(X: Any, drawn: dict[str, Any]) -> Any:
    """The function of a network with a linear part at rows, with these weights."""
    w = jnp.concatenate([drawn["w"] * drawn["scale"][:, None], drawn["intercept"]])
    units = erf(jnp.append(X, jnp.ones((X.shape[0], 1)), axis=1) @ w * 0.5**0.5)
    f = units @ drawn["v"] / w.shape[1] ** 0.5 + drawn["bias"]
    return f + X @ (drawn["u"] * drawn["linear_scale"])


def _network_model(X: Any, y: Any, units: int) -> None:
    """The network that cavity learns, of outputs in units of their deviation.

    Deviations of the weights of each column, which cavity learns by their evidence, and of the
    noise have half-normal priors; weights are not centred.
    """
    normal, columns = dist.Normal, X.shape[1]
    drawn = {
        "scale": numpyro.sample("scale", dist.HalfNormal(jnp.ones(columns))),
        "linear_scale": numpyro.sample("linear_scale", dist.HalfNormal(jnp.ones(columns))),
        "w": numpyro.sample("w", normal(jnp.zeros((columns, units)), 1.0)),
        "intercept": numpyro.sample("intercept", normal(jnp.zeros((1, units)), 1.0)),
        "v": numpyro.sample("v", normal(jnp.zeros(units), (4.0 * units) ** 0.5)),
        "bias": numpyro.sample("bias", normal(0.0, 10.0**0.5)),
        "u": numpyro.sample("u", normal(jnp.zeros(columns), 1.0)),
    }
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    numpyro.sample("y", normal(_function(X, drawn), noise), obs=y)


def network(p: Problem) -> dict[str, Any]:
    """Scores of test rows, and the seconds that 400 effective draws of the function take.

    Weights of units that change places have no effective draws to speak of, so that those count
    of the function at the test row where they are fewest.
    """
    centre, spread = p["X"].mean(axis=0), p["X"].std(axis=0)
    middle, unit = p["y"].mean(), p["y"].std()
    X, new = (jnp.asarray((x - centre) / spread) for x in (p["X"], p["X_test"]))
    data = X, jnp.asarray((p["y"] - middle) / unit), int(p["units"])
    chains = MCMC(
        NUTS(_network_model, max_tree_depth=DEPTH),
        num_warmup=int(p["warmup"]),
        num_samples=int(p["draws"]),
        num_chains=1,
        progress_bar=False,
    )
    start = time.perf_counter()
    chains.warmup(jax.random.key(0), *data)
    warm, processor = time.perf_counter(), time.process_time()
    chains.run(jax.random.key(1), *data, extra_fields=("diverging", "num_steps"))
    drawn = jax.block_until_ready(chains.get_samples())
    seconds, processor = time.perf_counter() - warm, time.process_time() - processor
    f = jax.lax.map(lambda one: _function(new, one), drawn)
    effective = float(np.min(effective_sample_size(np.asarray(f)[None])))
    each = dist.Normal(f, drawn["noise"][:, None]).log_prob((p["y_test"] - middle) / unit)
    density = logsumexp(each, axis=0) - np.log(len(each) * unit)
    wrong = middle + unit * np.asarray(f).mean(axis=0) - p["y_test"]
    fields = chains.get_extra_fields()
    found = {"density": float(jnp.mean(density)), "rmse": float(np.sqrt(np.mean(wrong**2)))}
    found |= {"effective": effective, "divergences": int(np.sum(fields["diverging"]))}
    found |= {"steps": float(np.mean(fields["num_steps"])), "first_seconds": warm - start}
    found |= {"cpu_seconds": processor * 400.0 / effective, "drawing_seconds": seconds}
    return found | {"seconds": seconds * 400.0 / effective}


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
