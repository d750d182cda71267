"""Quantiles: roots of a distribution function."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from cavity.likelihoods.predictive.base import AbstractPredictive, check_levels
from cavity.likelihoods.support import Support
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float

Map = Callable[[Array], Array]
# Evaluations, newest point, other end of the bracket, residuals there, and the next step.
State = tuple[Array, Array, Array, Array, Array, Array]


@dataclasses.dataclass(frozen=True)
class RootSettings:
    """Settings of the root search.

    Attributes:
        reach: how far the first bracket reaches on the line, as a power of e.
        tolerance: width of the last bracket on the line.
        steps: evaluations at most.
        largest_count: no quantile of counts is larger: half of them would be lost in rounding.
    """

    reach: float = 60.0
    tolerance: float = 1e-11
    steps: int = 100
    largest_count: float = 2.0**50


ROOT = RootSettings()


def line_to_support(support: Support, centre: Array) -> Map:
    """A map from the real line, on which quantiles are bracketed, to the support."""
    if support is Support.REAL:
        unit = 1e-3 * (1.0 + jnp.abs(centre))
        return lambda t: centre + unit * jnp.sinh(t)
    if support is Support.UNIT:
        limits = jnp.finfo(centre.dtype)
        inside = float(limits.tiny), 1.0 - 0.5 * float(limits.eps)
        return lambda t: jnp.clip(jax.nn.sigmoid(t), *inside)
    return jnp.exp


def inverted_quantile(
    predictive: AbstractPredictive, p: float | Float[Array, " Q"]
) -> Float[Array, "..."]:
    """Quantiles of any distribution at one probability, or at several along a leading axis.

    Args:
        predictive: gives the distribution function, its support and its mean.
        p: probabilities.
    """
    check_levels(p)
    return _quantiles(predictive, jnp.asarray(p, predictive.mean.dtype))


@compiled
def _quantiles(predictive: AbstractPredictive, p: Array) -> Array:
    def at_level(level: Array) -> Array:
        moments = predictive.mean, predictive.var
        return inverse_cdf(predictive.cdf, predictive.support, level, *moments)

    return at_level(p) if p.ndim == 0 else jax.lax.map(at_level, p)


def inverse_cdf(cdf: Map, support: Support, level: Array, mean: Array, var: Array) -> Array:
    """The smallest values whose distribution function is at least `level`.

    Args:
        cdf: the distribution function, entry by entry.
        support: the support of the values.
        level: probabilities, one or one per entry.
        mean: a value in the bulk of each distribution.
        var: variances, which bound the quantiles of counts.
    """
    if not support.discrete:
        to_y = line_to_support(support, mean)
        high = jnp.full_like(mean, ROOT.reach)
        return to_y(_root(lambda t: cdf(to_y(t)) - level, -high, high, ROOT.tolerance))
    # at most mean + deviation √(p / (1 - p)), by Cantelli's inequality
    upper = mean + jnp.sqrt(var * level / (1.0 - level))
    high = jnp.where(upper < ROOT.largest_count, jnp.ceil(upper) + 1.0, ROOT.largest_count)
    # of a step function: the last bracket contains the one count where it passes the level
    low = jnp.full_like(mean, -1.0)
    return jnp.floor(_root(lambda y: cdf(y) - level, low, high, 0.49))


def _root(residual: Map, low: Array, high: Array, tolerance: float) -> Array:
    """The root of an increasing function, by Chandrupatla's method: from above, entry by entry.

    Inverse quadratic interpolation where it is safe, bisection elsewhere.

    References:
        Chandrupatla (1997), A new hybrid quadratic/bisection algorithm for finding the zero of a
        nonlinear function without using derivatives, Advances in Engineering Software 28.
    """
    limit = 4.0 * float(jnp.finfo(low.dtype).eps)

    def relative_tolerance(x1: Array, x2: Array) -> Array:
        width = tolerance + limit * jnp.abs(x1)
        return width / jnp.maximum(jnp.abs(x2 - x1), width)

    def is_wide(state: State) -> Array:
        count, x1, x2, *_ = state
        return (count < ROOT.steps) & jnp.any(relative_tolerance(x1, x2) < 0.5)

    def step(state: State) -> State:
        count, x1, x2, f1, f2, t = state
        x = x1 + t * (x2 - x1)
        f = residual(x)
        same = (f < 0.0) == (f1 < 0.0)
        x3, f3 = jnp.where(same, x1, x2), jnp.where(same, f1, f2)
        x2, f2 = jnp.where(same, x2, x1), jnp.where(same, f2, f1)
        xi, phi = (x - x2) / (x3 - x2), (f - f2) / (f3 - f2)
        is_safe = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
        quadratic = f / (f2 - f) * f3 / (f2 - f3)
        quadratic += (x3 - x) / (x2 - x) * f / (f3 - f) * f2 / (f3 - f2)
        width = relative_tolerance(x, x2)
        t = jnp.where(is_safe, jnp.clip(quadratic, width, 1.0 - width), 0.5)
        return count + 1, x, x2, f, f2, t

    start = (jnp.zeros((), int), low, high, residual(low), residual(high), 0.5 + 0.0 * low)
    _, x1, x2, *_ = jax.lax.while_loop(is_wide, step, start)
    return jnp.maximum(x1, x2)
