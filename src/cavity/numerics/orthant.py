r"""Orthant probabilities of correlated Gaussians, by expectation propagation.

$\log \mathbb E_{\mathcal N(\mathbf z; \mathbf m, \mathbf V)} \prod_j \Phi(-z_j)$, the probability
that $z_j$ plus noise of unit variance is below zero for all j. For one dimension it is exact.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from cavity.numerics.special import log_ndtr_derivatives
from cavity.numerics.types import Array, Float

# Sweeps at the most, and the change of a moment, in deviations, at which they end.
SWEEPS, SETTLED = 60, 1e-10


class _State(NamedTuple):
    shift: Array
    precision: Array
    mean: Array
    cov: Array
    change: Array
    count: Array


def log_orthant(
    mean: Float[Array, "... K"], cov: Float[Array, "... K K"], included: Float[Array, "... K"]
) -> Float[Array, "..."]:
    """Log probability that noisy variables are all below zero.

    Args:
        mean: means.
        cov: covariances, without the noise.
        included: 1 for the variables that matter, 0 for the others.

    References:
        Jylanki (2013), S74 and S75.
    """

    def once(state: _State) -> _State:
        def visit(now: _State, j: Array) -> tuple[_State, None]:
            return _visited(now, j, included[..., j]), None

        begun = state._replace(change=jnp.zeros_like(state.change), count=state.count + 1)
        return jax.lax.scan(visit, begun, jnp.arange(mean.shape[-1]))[0]

    def unfinished(state: _State) -> Array:
        return (state.count < SWEEPS) & (jnp.max(state.change) > SETTLED)

    zero = jnp.zeros_like(mean)
    far = jnp.full(mean.shape[:-1], jnp.inf, mean.dtype)
    start = _State(zero, zero, mean, cov, far, jnp.zeros((), int))
    end = jax.lax.while_loop(unfinished, once, start)
    return _log_mass(end, mean, cov, included)


def _moments(m: Array, v: Array) -> tuple[Array, Array, Array]:
    """Log mean of Φ(-z) under N(z; m, v), its slope and curvature in m."""
    scale = jnp.sqrt(1.0 + v)
    log_mass, first, second = log_ndtr_derivatives(-m / scale)
    return log_mass, -first / scale, second / (1.0 + v)


def _cavity(state: _State, mean: Array, var: Array) -> tuple[Array, Array]:
    left = 1.0 - state.precision * var
    return (mean - var * state.shift) / left, var / left


def _visited(state: _State, j: Array, included: Array) -> _State:
    """The site of one variable matched, and the belief after it."""
    column = state.cov[..., :, j]
    m, v = state.mean[..., j], column[..., j]
    nu, tau = state.shift[..., j], state.precision[..., j]
    left = 1.0 - tau * v
    outer_m, outer_v = (m - v * nu) / left, v / left
    _, slope, curvature = _moments(outer_m, outer_v)
    rest = 1.0 + curvature * outer_v
    new_tau = included * -curvature / rest
    new_nu = included * (slope - curvature * outer_m) / rest
    gain, push = new_tau - tau, new_nu - nu
    # rank one: V - V_j V_jᵀ g / (1 + g v)
    share = gain / (1.0 + gain * v)
    cov = state.cov - share[..., None, None] * column[..., :, None] * column[..., None, :]
    moved = (push - gain * m) / (1.0 + gain * v)
    change = jnp.maximum(jnp.abs(gain) * v, jnp.abs(moved) * jnp.sqrt(jnp.maximum(v, 0.0)))
    return _State(
        state.shift.at[..., j].set(new_nu),
        state.precision.at[..., j].set(new_tau),
        state.mean + column * moved[..., None],
        cov,
        jnp.maximum(state.change, change),
        state.count,
    )


def _log_mass(state: _State, mean: Array, cov: Array, included: Array) -> Array:
    """The log mass at a fixed point: that of the sites, and of each in place of its factor."""
    root = jnp.sqrt(jnp.maximum(state.precision, 0.0))
    inner = (
        jnp.eye(mean.shape[-1], dtype=mean.dtype) + root[..., :, None] * cov * root[..., None, :]
    )
    L = jnp.linalg.cholesky(inner)
    volume = jnp.sum(jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)), axis=-1)
    about = state.shift - state.precision * mean
    # log of the integral of prior times sites, about the prior mean
    at_mean = jnp.sum((state.shift - 0.5 * state.precision * mean) * mean, axis=-1)
    value = at_mean + 0.5 * jnp.sum(about * (state.mean - mean), axis=-1) - volume
    var = jnp.diagonal(state.cov, axis1=-2, axis2=-1)
    m, v = _cavity(state, state.mean, var)
    log_mass, _, _ = _moments(m, v)
    left = 1.0 - state.precision * var
    moved = 0.5 * state.precision * state.mean**2 - state.shift * state.mean
    removal = (moved + 0.5 * state.shift**2 * var) / left - 0.5 * jnp.log(left)
    return value + jnp.sum(included * (log_mass + removal), axis=-1)
