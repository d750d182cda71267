"""A baseline: Gaussian process regression of outputs on earlier ones, simulated freely."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cavity

PATHS = 200


def lagged(u: np.ndarray, y: np.ndarray, lags: int) -> np.ndarray:
    """Rows of the last outputs, newest first, and of the inputs up to the row's own."""
    return np.array(
        [
            np.r_[y[t - lags : t][::-1], u[t - lags + 1 : t + 1][::-1, 0]]
            for t in range(lags, len(y))
        ]
    )


def learn(u: np.ndarray, y: np.ndarray, lags: int) -> Any:
    """The posterior of the regression: a linear function of the lags and a smooth one."""
    kernel = cavity.kernels.Linear(np.ones(2 * lags)) + cavity.kernels.RBF(
        1.0, np.full(2 * lags, 3.0)
    )
    model = cavity.GP(kernel, cavity.likelihoods.Gaussian(0.01))
    return cavity.fit(model, lagged(u, y, lags), y[lags:]).posterior


def simulate(
    posterior: Any, u: np.ndarray, y: np.ndarray, u_test: np.ndarray, lags: int, *, sampled: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of f along simulated paths, (paths, steps).

    Args:
        posterior: of the regression.
        u: inputs before.
        y: outputs before.
        u_test: inputs of the steps.
        lags: of the regression.
        sampled: whether outputs that are fed back are samples of 200 paths, or means of one.
    """
    count = PATHS if sampled else 1
    noise = posterior.model.likelihood.variance
    inputs = np.concatenate([u[len(u) - lags + 1 :], u_test])[:, 0]
    windows = np.array([inputs[t : t + lags][::-1] for t in range(len(u_test))])

    def step(past: Any, row: tuple[Any, Any]) -> tuple[Any, Any]:
        window, key = row
        X = jnp.concatenate([past, jnp.broadcast_to(window, (count, lags))], axis=1)
        mean, var = (a[:, 0] for a in posterior.moments(X))
        z = jax.random.normal(key, (count,), mean.dtype)
        out = mean + jnp.sqrt(var + noise) * z if sampled else mean
        return jnp.concatenate([out[:, None], past[:, :-1]], axis=1), (mean, var)

    past = jnp.broadcast_to(jnp.asarray(y[-lags:][::-1]), (count, lags))
    keys = jax.random.split(jax.random.key(0), len(windows))
    simulated = jax.jit(lambda *a: jax.lax.scan(step, *a)[1])
    mean, var = simulated(past, (jnp.asarray(windows), keys))
    return np.asarray(mean).T, np.asarray(var + noise).T
