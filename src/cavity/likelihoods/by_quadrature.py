"""Power means and tilted moments of a density of one latent value, by quadrature."""

import functools
import typing
from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.likelihoods.base import ONE_LATENT, AbstractLikelihood, LatentFunction
from cavity.likelihoods.capabilities import (
    HasAnalyticStrip,
    HasDistributionFunction,
    capability,
    features,
)
from cavity.likelihoods.predictive.base import NONE, AbstractPredictive, Side
from cavity.likelihoods.predictive.latent import LatentPredictive
from cavity.likelihoods.predictive.tabulated import grid_predictive
from cavity.numerics import quadrature
from cavity.numerics.chunking import map_over_entries
from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Measure, Tilted
from cavity.numerics.types import Array, Bool, Float

Result = TypeVar("Result")
# A likelihood, outputs and their side data.
Density = tuple[AbstractLikelihood, Array, Side]

# A variance is small up to so many rounding errors: under a smooth density, and one with kinks.
ROUNDINGS = (100.0, 1.0)
# Derivatives at the mean replace nodes where a small variance, times the sum of the log density's
# curvature and squared slope, is below this share of the square root of a rounding error.
SHARE = 0.1


class AbstractQuadratureLikelihood(AbstractLikelihood):
    r"""A density of one latent value; moments and predictions follow from it by quadrature.

    To implement:
        `support` and `log_prob(f, y)`. `features` makes the quadrature sharp and
        `analytic_strip` makes it fast; `cdf` with `predictive_moments`, `sample` and
        `initial_latents` replace what is otherwise computed from tables of the density.
    """

    latent_functions: ClassVar[tuple[LatentFunction, ...]] = ONE_LATENT

    @typing.final
    def log_power_mean(
        self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE
    ) -> Array:
        return quadrature_log_power_mean(self, mean, var, y, power, side)

    @typing.final
    def tilted(self, mean: Array, var: Array, y: Array, power: Power, side: Side = NONE) -> Tilted:
        return quadrature_tilted(self, mean, var, y, power, side)

    @typing.final
    def predictive(self, mean: Array, var: Array, side: Side = NONE) -> AbstractPredictive:
        return latent_predictive(self, mean, var, side)


def latent_predictive(
    likelihood: AbstractLikelihood, mean: Array, var: Array, side: Side
) -> AbstractPredictive:
    """The predictive distribution by the distribution function given f, or by a table of y."""
    with_cdf = capability(likelihood, HasDistributionFunction)
    if with_cdf is None:
        return grid_predictive(likelihood, mean, var, side)
    moments = with_cdf.predictive_moments(mean, var, **side)
    return LatentPredictive(*moments, likelihood, mean, var, dict(side))


def quadrature_log_power_mean(
    likelihood: AbstractLikelihood, mean: Array, var: Array, y: Array, power: Power, side: Side
) -> Float[Array, "..."]:
    """The log power mean of a density of one latent value, elementwise."""
    return _log_power_mean((likelihood, y, side), power, *jnp.broadcast_arrays(mean, var))


@eqx.filter_jit
def quadrature_tilted(
    likelihood: AbstractLikelihood, mean: Array, var: Array, y: Array, power: Power, side: Side
) -> Tilted:
    """The log power mean with its slope and curvature in the mean, elementwise."""

    def part_moments(mean: Array, var: Array, y: Array, side: Side, exponent: Power) -> Tilted:
        narrow, limit = _small_variance_limit((likelihood, y, side), mean, var, exponent)
        usable = _usable(narrow, var)

        def from_nodes(measure: Measure) -> Tilted:
            value = likelihood.log_prob(measure.nodes, y, **side)
            return quadrature.tilted_moments(value, measure, mean, usable, exponent)

        found = _quadrature_value((likelihood, y, side), from_nodes, mean, usable, exponent)
        return jax.tree.map(lambda a, b: jnp.where(narrow, a, b), limit, found)

    return _map_parts(part_moments, mean, var, y, power, side)


def _map_parts(
    of_part: Callable[[Array, Array, Array, Side, Power], Result],
    mean: Array,
    var: Array,
    y: Array,
    power: Power,
    side: Side,
) -> Result:
    """Apply `of_part` to a few rows at a time.

    Their nodes stay in the processor's cache, and only parts with wide cavities take many nodes.
    """

    def some(rows: tuple[Array, Array, Array, Side, Side]) -> Result:
        mean, var, y, side, powers = rows
        return of_part(mean, var, y, side, powers.get("power", power))

    powers = {"power": power} if jnp.ndim(power) else {}
    rows = (mean, var, y, dict(side), powers)
    shape = jnp.broadcast_shapes(jnp.shape(mean), jnp.shape(var), jnp.shape(y))
    return map_over_entries(some, jax.tree.map(lambda x: jnp.broadcast_to(x, shape), rows))


def _quadrature_value(
    density: Density,
    from_nodes: Callable[[Measure], Result],
    mean: Array,
    var: Array,
    power: Power,
) -> Result:
    """The value of `from_nodes` on the smallest set of nodes that is accurate for all entries."""
    likelihood, y, side = density
    mean, var, y = jnp.broadcast_arrays(mean, var, y)

    def graded() -> Result:
        return from_nodes(quadrature_measure(likelihood, mean, var, y, power, side))

    with_strip = capability(likelihood, HasAnalyticStrip)
    if with_strip is None:
        return graded()
    strip = with_strip.analytic_strip(y, **side)

    def even(counts: Sequence[int]) -> Result:
        if not counts:
            return graded()
        stretched = likelihood.analytic_in_cone and counts[0] > quadrature.EVEN_RULE.counts[0]
        rule = functools.partial(quadrature.even_measure, stretched=stretched)
        measure, fine = rule(mean, var, *strip, counts[0])
        return jax.lax.cond(fine, lambda: from_nodes(measure), lambda: even(counts[1:]))

    return even(quadrature.EVEN_RULE.counts)


def quadrature_measure(
    likelihood: AbstractLikelihood, mean: Array, var: Array, y: Array, power: Power, side: Side
) -> Measure:
    """Nodes that resolve the Gaussian and the density at these outputs."""
    mean, var, y = jnp.broadcast_arrays(mean, var, y)
    constant = jax.tree.map(jax.lax.stop_gradient, (likelihood, mean, var, y, side))
    density, m, v, outputs, columns = constant
    known_features = features(density, m, v, outputs, power, columns)
    if known_features is not None:
        edges = quadrature.feature_edges(m, v, known_features)
    else:
        edges = quadrature.searched_edges(
            lambda f: density.log_prob(f, outputs, **columns), m, v, power
        )
    return quadrature.gaussian_measure(mean, var, edges)


def _plain_log_power_mean(density: Density, power: Power, mean: Array, var: Array) -> Array:
    """The log power mean, differentiated through the weights of its nodes."""
    likelihood, y, side = density

    # derivatives compute the nodes of each part again, rather than keep those of all
    @eqx.filter_checkpoint
    def part_log_mean(mean: Array, var: Array, y: Array, side: Side, exponent: Power) -> Array:
        def from_nodes(measure: Measure) -> Array:
            value = likelihood.log_prob(measure.nodes, y, **side)
            return quadrature.log_power_mean(value, measure.log_weight, exponent)

        narrow, limit = _small_variance_limit((likelihood, y, side), mean, var, exponent)
        usable = _usable(narrow, var)
        found = _quadrature_value((likelihood, y, side), from_nodes, mean, usable, exponent)
        return jnp.where(narrow, limit.log_mean, found)

    return _map_parts(part_log_mean, mean, var, y, power, side)


def _usable(narrow: Bool[Array, "..."], var: Array) -> Array:
    """Variances that nodes can be placed by, where derivatives do not replace them."""
    least = float(jnp.finfo(var.dtype).eps) ** 2
    return jnp.where(narrow, 1.0, quadrature.at_least(var, least))


def _small_variance_limit(
    density: Density, mean: Array, var: Array, power: Power
) -> tuple[Bool[Array, "..."], Tilted]:
    r"""Moments from derivatives at the mean, and the narrow cavities where they replace nodes.

    $\log M_a = \ell + \tfrac v2 (\ell'' + a \ell'^2) + O(v^2)$ with the log density $\ell$ of the
    mean. Differences between nodes lose what is left of $v$.
    """
    likelihood, y, side = density
    shape = jnp.broadcast_shapes(jnp.shape(mean), jnp.shape(var), jnp.shape(y))
    mean, var = jnp.broadcast_to(mean, shape), jnp.broadcast_to(var, shape)
    eps = float(jnp.finfo(var.dtype).eps)
    most = ROUNDINGS[0] if likelihood.smooth else ROUNDINGS[1]
    small = (var >= 0.0) & (var <= most * eps)

    def log_prob(f: Array) -> Array:
        return likelihood.log_prob(f, y, **side)

    dtype = jnp.result_type(jax.eval_shape(log_prob, mean), var)

    def derivatives() -> tuple[Bool[Array, "..."], Tilted]:
        value, slope, curvature = _derivatives(log_prob, mean)
        narrow = small & (var * (jnp.abs(curvature) + slope**2) < SHARE * eps**0.5)
        value = value + 0.5 * var * (curvature + power * slope**2)
        return narrow, Tilted(*(x.astype(dtype) for x in (value, slope, curvature)))

    def none() -> tuple[Bool[Array, "..."], Tilted]:
        zero = jnp.zeros(shape, dtype)
        return jnp.zeros(shape, bool), Tilted(zero, zero, zero)

    return jax.lax.cond(jnp.any(small), derivatives, none)


def _derivatives(fn: Callable[[Array], Array], x: Array) -> tuple[Array, Array, Array]:
    """A function of each entry, with its first and second derivatives.

    Forward, which makes the smallest program, unless a density has a rule of its own for the
    other direction only (`jax.custom_vjp`).
    """
    ones = jnp.ones_like(x)

    def slope(x: Array) -> Array:
        return jax.grad(lambda x: jnp.sum(fn(x)))(x)

    try:
        (value, first), (_, second) = jax.jvp(lambda x: jax.jvp(fn, (x,), (ones,)), (x,), (ones,))
    except (TypeError, NotImplementedError):
        return fn(x), slope(x), jax.grad(lambda x: jnp.sum(slope(x)))(x)
    return value, first, second


@eqx.filter_custom_jvp
def _log_power_mean(density: Density, power: Power, mean: Array, var: Array) -> Array:
    """The log power mean, as tilted moments have it: a few rows at a time."""
    likelihood, y, side = density
    return quadrature_tilted(likelihood, mean, var, y, power, side).log_mean


@_log_power_mean.def_jvp
def _log_power_mean_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """Derivatives in mean and variance from tilted moments, all others through the nodes.

    By the heat equation the derivative in the variance is half of the second one in the mean.
    """
    density, power, mean, var = primals
    *parameter_tangents, d_mean, d_var = tangents
    if jax.tree.leaves(parameter_tangents):
        is_none = lambda x: x is None  # noqa: E731
        varies = jax.tree.map(lambda x: x is not None, tangents, is_leaf=is_none)
        varying, constant = eqx.partition(primals, varies)
        return jax.jvp(
            lambda varying: _plain_log_power_mean(*eqx.combine(varying, constant)),
            (varying,),
            (tangents,),
        )
    likelihood, y, side = density
    moments = quadrature_tilted(likelihood, mean, var, y, power, side)
    change = jnp.zeros_like(moments.log_mean)
    if d_mean is not None:
        change = change + moments.slope * d_mean
    if d_var is not None:
        change = change + 0.5 * (moments.curvature + power * moments.slope**2) * d_var
    return moments.log_mean, change
