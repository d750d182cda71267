"""A baseline: linear state-space models with Gaussian noise, by maximum likelihood."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy import optimize

# The weight of squared parameters, which keeps directions that nothing decides in place.
RIDGE = 1e-3


class Linear(NamedTuple):
    """x_t = A x_(t-1) + B u_t + noise, y_t = C x_t + d u_t + offset + noise; Q = L Lᵀ.

    Attributes:
        A: transition.
        B: of inputs on states.
        C: of states on the output.
        d: of inputs on the output.
        offset: of the output.
        L: root of the covariance of process noise; its diagonal as a logarithm.
        log_noise: logarithm of the observation variance.
        start: mean of the state before the first.
    """

    A: Any
    B: Any
    C: Any
    d: Any
    offset: Any
    L: Any
    log_noise: Any
    start: Any


def autoregression(u: np.ndarray, y: np.ndarray, states: int, random: Any) -> Linear:
    """A start from least squares of outputs on earlier ones, with a little noise."""
    rows = range(states, len(y))
    lags = np.array(
        [np.r_[y[t - states : t][::-1], u[t - states + 1 : t + 1][::-1, 0]] for t in rows]
    )
    weights = np.linalg.lstsq(lags.T @ lags + 1e-3 * np.eye(2 * states), lags.T @ y[states:])[0]
    A = np.eye(states, k=1)
    A[:, 0] = weights[:states]
    # a stable start
    A *= min(1.0, 0.98 / np.abs(np.linalg.eigvals(A)).max())
    noise = 0.05 * random.standard_normal((states, states))
    residual = np.var(y[states:] - lags @ weights)
    L = np.tril(noise, -1) + 0.5 * np.log(residual + 1e-6) * np.eye(states)
    B = weights[states:, None] + 0.05 * random.standard_normal((states, 1))
    C = np.eye(states)[0]
    zero = np.zeros(())
    return Linear(
        A + noise, B, C, np.zeros(1), zero, L, np.log(0.1 * residual + 1e-6), np.zeros(states)
    )


def _root(model: Linear) -> Any:
    return jnp.tril(model.L, -1) + jnp.diag(jnp.exp(jnp.diagonal(model.L)))


def filtered(model: Linear, u: Any, y: Any) -> tuple[Any, tuple[Any, Any]]:
    """The log likelihood, and mean and covariance of the last state."""
    Q, noise = _root(model) @ _root(model).T, jnp.exp(model.log_noise)

    def step(state: tuple[Any, Any], row: tuple[Any, Any]) -> tuple[Any, Any]:
        (mean, cov), (u, y) = state, row
        mean, cov = model.A @ mean + model.B @ u, model.A @ cov @ model.A.T + Q
        along = cov @ model.C
        var = model.C @ along + noise
        away = y - model.C @ mean - model.d @ u - model.offset
        mean, cov = mean + along * away / var, cov - jnp.outer(along, along) / var
        return (mean, 0.5 * (cov + cov.T)), -0.5 * (jnp.log(2.0 * jnp.pi * var) + away**2 / var)

    last, terms = jax.lax.scan(step, (model.start, jnp.eye(len(model.start))), (u, y))
    return jnp.sum(terms), last


@jax.jit
def _loss(model: Linear, u: Any, y: Any) -> Any:
    penalty = sum(jnp.sum(jnp.square(a)) for a in (model.A, model.B, model.C, model.L))
    return -filtered(model, u, y)[0] + RIDGE * penalty


_value_and_slopes = jax.jit(jax.value_and_grad(_loss))


def learn(u: np.ndarray, y: np.ndarray, states: int, seed: int) -> tuple[Linear, float]:
    """A model of outputs, and its log likelihood."""
    start = autoregression(u, y, states, np.random.default_rng(seed))
    x, back = ravel_pytree(start)

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = _value_and_slopes(back(jnp.asarray(x)), u, y)
        slope = np.asarray(ravel_pytree(slopes)[0])
        if not (np.isfinite(value) and np.all(np.isfinite(slope))):
            return 1e10, np.zeros_like(slope)
        return float(value), slope

    end = optimize.minimize(
        objective, np.asarray(x), jac=True, method="L-BFGS-B", options={"maxiter": 500}
    )
    model = back(jnp.asarray(end.x))
    return model, float(filtered(model, u, y)[0])


@jax.jit
def simulate(model: Linear, state: tuple[Any, Any], u: Any) -> tuple[Any, Any]:
    """Means and variances of outputs that follow a state, without looking at them."""
    Q = _root(model) @ _root(model).T

    def step(state: tuple[Any, Any], u: Any) -> tuple[Any, Any]:
        mean, cov = state
        mean, cov = model.A @ mean + model.B @ u, model.A @ cov @ model.A.T + Q
        out = model.C @ mean + model.d @ u + model.offset
        return (mean, cov), (out, model.C @ cov @ model.C + jnp.exp(model.log_noise))

    return jax.lax.scan(step, state, u)[1]
