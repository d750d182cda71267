r"""Orthant probabilities of correlated Gaussians, by expectation propagation.

$\log \mathbb E_{\mathcal N(\mathbf z; \mathbf m, \mathbf V)} \prod_j \Phi(-z_j)$, the probability
that $z_j$ plus noise of unit variance is below zero for all j. In one dimension EP is exact.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from cavity.numerics.site_arithmetic import cavity, log_normaliser_ratio, moment_match
from cavity.numerics.special import log_ndtr_derivatives
from cavity.numerics.types import Array, Float


@dataclasses.dataclass(frozen=True)
class OrthantSettings:
    """Settings of EP for orthant probabilities.

    Attributes:
        max_sweeps: largest number of sweeps over the variables.
        tolerance: change of a moment, in standard deviations, below which sweeps end.
    """

    max_sweeps: int = 60
    tolerance: float = 1e-10


class _State(NamedTuple):
    """Sites, moments of the belief, the largest change in a sweep, and the sweep count."""

    shift: Array
    precision: Array
    mean: Array
    cov: Array
    change: Array
    count: Array


def log_orthant(
    mean: Float[Array, "... K"],
    cov: Float[Array, "... K K"],
    included: Float[Array, "... K"],
    settings: OrthantSettings = OrthantSettings(),
) -> Float[Array, "..."]:
    """Log orthant probability of noisy Gaussian variables.

    Args:
        mean: means.
        cov: covariances, without the noise.
        included: 1 for variables that must be below zero, 0 for variables to ignore.
        settings: number of sweeps and tolerance.

    References:
        Jylanki (2013), S74 and S75.
    """

    def sweep(state: _State) -> _State:
        def visit(state: _State, j: Array) -> tuple[_State, None]:
            return _update_site(state, j, included[..., j]), None

        start = state._replace(change=jnp.zeros_like(state.change), count=state.count + 1)
        return jax.lax.scan(visit, start, jnp.arange(mean.shape[-1]))[0]

    def unfinished(state: _State) -> Array:
        converged = jnp.max(state.change) <= settings.tolerance
        return (state.count < settings.max_sweeps) & ~converged

    zero = jnp.zeros_like(mean)
    infinite = jnp.full(mean.shape[:-1], jnp.inf, mean.dtype)
    start = _State(zero, zero, mean, cov, infinite, jnp.zeros((), int))
    end = jax.lax.while_loop(unfinished, sweep, start)
    return _log_mass(end, mean, cov, included)


def _log_mean_factor(m: Array, v: Array) -> tuple[Array, Array, Array]:
    """Log mean of Φ(-z) under N(z; m, v), its slope and curvature in m."""
    scale = jnp.sqrt(1.0 + v)
    log_mass, first, second = log_ndtr_derivatives(-m / scale)
    return log_mass, -first / scale, second / (1.0 + v)


def _update_site(state: _State, j: Array, included: Array) -> _State:
    """Moment matching of site j, and the belief after it."""
    column = state.cov[..., :, j]
    m, v = state.mean[..., j], column[..., j]
    nu, tau = state.shift[..., j], state.precision[..., j]
    cavity_mean, cavity_var, _ = cavity(m, v, nu, tau, 1.0)
    _, slope, curvature = _log_mean_factor(cavity_mean, cavity_var)
    new_nu, new_tau = moment_match(cavity_mean, cavity_var, slope, curvature, 1.0)
    new_nu, new_tau = included * new_nu, included * new_tau
    precision_step, shift_step = new_tau - tau, new_nu - nu
    # rank one: V - V_j V_jᵀ g / (1 + g v)
    denominator = 1.0 + precision_step * v
    weight = (precision_step / denominator)[..., None, None]
    cov = state.cov - weight * column[..., :, None] * column[..., None, :]
    mean_step = (shift_step - precision_step * m) / denominator
    change = jnp.maximum(
        jnp.abs(precision_step) * v, jnp.abs(mean_step) * jnp.sqrt(jnp.maximum(v, 0.0))
    )
    return _State(
        state.shift.at[..., j].set(new_nu),
        state.precision.at[..., j].set(new_tau),
        state.mean + column * mean_step[..., None],
        cov,
        jnp.maximum(state.change, change),
        state.count,
    )


def _log_mass(state: _State, mean: Array, cov: Array, included: Array) -> Array:
    """EP approximation of the log probability at a fixed point."""
    shift, precision = state.shift, state.precision
    root = jnp.sqrt(jnp.maximum(precision, 0.0))
    eye = jnp.eye(mean.shape[-1], dtype=mean.dtype)
    L = jnp.linalg.cholesky(eye + root[..., :, None] * cov * root[..., None, :])
    half_log_det = jnp.sum(jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)), axis=-1)
    # log of the integral of prior times sites, expanded at the prior mean
    at_mean = jnp.sum((shift - 0.5 * precision * mean) * mean, axis=-1)
    gradient = shift - precision * mean
    log_gaussian = at_mean + 0.5 * jnp.sum(gradient * (state.mean - mean), axis=-1) - half_log_det
    var = jnp.diagonal(state.cov, axis1=-2, axis2=-1)
    cavity_mean, cavity_var, _ = cavity(state.mean, var, shift, precision, 1.0)
    log_mass, _, _ = _log_mean_factor(cavity_mean, cavity_var)
    ratio = log_normaliser_ratio(state.mean, var, shift, precision, 1.0)
    return log_gaussian + jnp.sum(included * (log_mass + ratio), axis=-1)
