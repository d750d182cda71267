"""Predictive distributions of outputs whose latent value has a Gaussian marginal."""

import abc
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from cavity.likelihoods.support import Support
from cavity.numerics import quadrature
from cavity.numerics.jit import compiled
from cavity.numerics.quadrature import gaussian_measure, landmark_edges
from cavity.numerics.types import Array, Float

# Side data by name, one value per row, in shapes that broadcast against rows and outputs.
Side = Mapping[str, Array]

# Halvings of the bracket of a quantile, and Newton steps that polish it.
HALVINGS, POLISHES = 40, 3
# The bracket reaches this many times its unit, as a power of e.
REACH = 60.0
# No quantile of counts is larger: half of them would be lost in rounding.
LARGEST_COUNT = 2.0**50
# Counts that a distribution without a closed form is summed over.
COUNTED = 1024
# Panels and rounds of the search for the mass of a density without a closed form.
FARTHEST, ROUNDS = 1e7, 9


class AbstractPredictive(eqx.Module):
    """The predictive distribution of outputs, one per row (and output).

    To implement:
        fields `mean` and `var`, `log_density(y)` and `quantile(p)`.
    """

    mean: eqx.AbstractVar[Float[Array, "..."]]
    var: eqx.AbstractVar[Float[Array, "..."]]

    @abc.abstractmethod
    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Log predictive density of y, in nats per unit of y, entry by entry."""

    @abc.abstractmethod
    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        """The values below which y falls with probability p; a leading axis for several p."""


class ClassPredictive(AbstractPredictive):
    """Probabilities of classes.

    Mean and variance are those of the number of the class, which say something where classes are
    ordered.
    """

    mean: Float[Array, "..."]
    var: Float[Array, "..."]
    log_probabilities: Float[Array, "... C"]

    @property
    def probabilities(self) -> Float[Array, "... C"]:
        """The probability of every class, along the last axis."""
        return jnp.exp(self.log_probabilities)

    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        check_outputs(y, self.mean)
        count = self.log_probabilities.shape[-1]
        known = (y >= 0.0) & (y < count) & (y % 1.0 == 0.0)
        index = jnp.where(known, y, 0.0).astype(int)[..., None]
        found = jnp.take_along_axis(self.log_probabilities, index, axis=-1)[..., 0]
        return jnp.where(known, found, -jnp.inf)

    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        level = levels(p, self.mean)
        below = jnp.cumsum(self.probabilities, axis=-1)[..., :-1]
        return jnp.sum(below < level[..., None], axis=-1).astype(self.mean.dtype)


def class_predictive(log_probabilities: Float[Array, "... C"]) -> ClassPredictive:
    """The predictive distribution with these log probabilities."""
    p = jnp.exp(log_probabilities)
    numbers = jnp.arange(p.shape[-1], dtype=p.dtype)
    average = jnp.sum(p * numbers, axis=-1)
    spread = jnp.sum(p * (numbers - average[..., None]) ** 2, axis=-1)
    return ClassPredictive(average, spread, log_probabilities)


class LatentPredictive(AbstractPredictive):
    """Outputs of a likelihood that knows its distribution function given the latent value.

    Attributes:
        mean: means of y.
        var: variances of y.
        likelihood: has `cdf(y, f)`.
        latent_mean: means of f.
        latent_var: variances of f.
        side: side data of the rows.
    """

    mean: Float[Array, "..."]
    var: Float[Array, "..."]
    likelihood: Any
    latent_mean: Float[Array, "..."]
    latent_var: Float[Array, "..."]
    side: dict[str, Array]

    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return _within(self.likelihood, self.latent_mean, self.latent_var, y, self.side)

    def cdf(self, y: Float[Array, "..."], *, sharp: bool = True) -> Float[Array, "..."]:
        """Probability that outputs are at most y."""
        m, v = self.latent_mean, self.latent_var
        marks = self.likelihood.landmarks(m, v, y, 1.0, **self.side) if sharp else ()
        f, log_weight = gaussian_measure(m, v, landmark_edges(m, v, marks))
        return jnp.sum(jnp.exp(log_weight) * self.likelihood.cdf(y, f, **self.side), axis=0)

    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        check_levels(p)
        return _quantiles(self, jnp.asarray(p, self.mean.dtype))

    def _quantile(self, p: Array) -> Array:
        if self.likelihood.support.discrete:
            return self._count(p)
        # y = centre + unit sinh(t) on the line, y = unit e^t above zero
        to_y, unit_slope = line_to_support(self.likelihood.support, self.mean, self.latent_var)
        reach = jnp.full_like(self.latent_mean, REACH)

        def halve(_: Array | int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = 0.5 * (low + high)
            below = self.cdf(to_y(middle), sharp=False) < p
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        low, high = jax.lax.fori_loop(0, HALVINGS, halve, (-reach, reach))

        def polish(_: Array | int, t: Array) -> Array:
            y = to_y(t)
            density = jnp.exp(self.log_density(y)) * unit_slope(t)
            step = (self.cdf(y) - p) / jnp.maximum(density, 1e-300)
            return t - jnp.clip(step, -0.5, 0.5)

        return to_y(jax.lax.fori_loop(0, POLISHES, polish, 0.5 * (low + high)))

    def _count(self, p: Array) -> Array:
        """The smallest count with at least this probability below or at it."""
        low = jnp.full_like(self.latent_mean, -1.0)
        # at most mean + deviation √(p / (1 - p)), by Cantelli's inequality
        most = self.mean + jnp.sqrt(self.var * p / (1.0 - p))
        high = jnp.where(most < LARGEST_COUNT, jnp.ceil(most) + 1.0, LARGEST_COUNT)

        def between(low: Array, high: Array) -> Array:
            return jnp.floor(0.5 * (low + high))

        def apart(ends: tuple[Array, Array]) -> Array:
            return jnp.any((between(*ends) > ends[0]) & (between(*ends) < ends[1]))

        def halve(ends: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = ends
            middle = between(low, high)
            below = self.cdf(middle) < p
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        return jax.lax.while_loop(apart, halve, (low, high))[1]


def check_outputs(y: Array, mean: Array) -> None:
    """Raises ValueError unless there is one output for each distribution."""
    if jnp.shape(y) != mean.shape:
        raise ValueError(
            f"y must have the shape of the predictions, {mean.shape}, given shape {jnp.shape(y)}"
        )


def check_levels(p: float | Array) -> None:
    """Raises ValueError for numbers that are no probabilities strictly between 0 and 1."""
    if isinstance(p, Tracer):
        return
    values = np.asarray(p, float)
    if not np.all((values > 0.0) & (values < 1.0)):
        raise ValueError(f"quantiles are asked for by probabilities in (0, 1), given {p}")


def levels(p: float | Array, mean: Array) -> Array:
    """Probabilities, checked, with axes that broadcast against the predictions."""
    check_levels(p)
    found = jnp.asarray(p, mean.dtype)
    return found.reshape(found.shape + (1,) * mean.ndim)


@compiled
def _quantiles(predictive: Any, level: Array) -> Array:
    """Quantiles at one probability, or at several along a leading axis."""
    one = predictive._quantile
    return one(level) if level.ndim == 0 else jax.lax.map(one, level)


def line_to_support(support: Support, centre: Array, var: Array) -> tuple[Any, Any]:
    """A map from the line to the support, and its derivative."""
    if support is Support.REAL:
        unit = jnp.sqrt(var) + 1e-3 * (1.0 + jnp.abs(centre))
        return lambda t: centre + unit * jnp.sinh(t), lambda t: unit * jnp.cosh(t)
    if support is Support.UNIT:
        limits = jnp.finfo(centre.dtype)
        inside = float(limits.tiny), 1.0 - 0.5 * float(limits.eps)
        to_share = lambda t: jnp.clip(jax.nn.sigmoid(t), *inside)  # noqa: E731
        return to_share, lambda t: jax.nn.sigmoid(t) * jax.nn.sigmoid(-t)
    return jnp.exp, jnp.exp


def possible(likelihood: Any, y: Array) -> tuple[Array, Array]:
    """Whether outputs are possible, and the outputs with possible ones in the place of others."""
    inside = likelihood.accepts(y)
    return inside, jnp.where(inside, y, 0.5 if likelihood.support is Support.UNIT else 1.0)


@compiled
def _within(likelihood: Any, mean: Array, var: Array, y: Array, side: Side) -> Array:
    """Log predictive density; minus infinity for an output outside the support."""
    check_outputs(y, mean)
    inside, safe = possible(likelihood, y)
    return jnp.where(inside, likelihood.log_power_mean(mean, var, safe, 1.0, side), -jnp.inf)


class GridPredictive(AbstractPredictive):
    """Outputs of any likelihood, through the predictive density on a grid of outputs.

    Attributes:
        mean: means of y.
        var: variances of y, of what the grid covers.
        grid: outputs, ascending along the first axis.
        cumulative: the probability of an output at or below each.
        likelihood: gives the density.
        latent_mean: means of f.
        latent_var: variances of f.
        side: side data of the rows.
    """

    mean: Float[Array, "..."]
    var: Float[Array, "..."]
    grid: Float[Array, "S ..."]
    cumulative: Float[Array, "S ..."]
    likelihood: Any
    latent_mean: Float[Array, "..."]
    latent_var: Float[Array, "..."]
    side: dict[str, Array]

    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return _within(self.likelihood, self.latent_mean, self.latent_var, y, self.side)

    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        check_levels(p)
        return _quantiles(self, jnp.asarray(p, self.mean.dtype))

    def cdf(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Probability that outputs are at most y, between the outputs of the grid."""
        after = jnp.clip(jnp.sum(self.grid <= y, axis=0)[None], 1, self.grid.shape[0] - 1)
        y1, c1 = (jnp.take_along_axis(x, after, axis=0)[0] for x in (self.grid, self.cumulative))
        before = after - 1
        y0, c0 = (jnp.take_along_axis(x, before, axis=0)[0] for x in (self.grid, self.cumulative))
        share = jnp.clip((y - y0) / jnp.where(y1 > y0, y1 - y0, 1.0), 0.0, 1.0)
        share = jnp.floor(share) if self.likelihood.support.discrete else share
        return jnp.where(y < self.grid[0], 0.0, c0 + share * (c1 - c0))

    def _quantile(self, level: Array) -> Array:
        index = jnp.sum(self.cumulative < level, axis=0)[None]
        last = self.grid.shape[0] - 1
        at = jnp.clip(index, 0, last)
        y, c = (jnp.take_along_axis(x, at, axis=0)[0] for x in (self.grid, self.cumulative))
        before = jnp.clip(index - 1, 0, last)
        y0, c0 = (jnp.take_along_axis(x, before, axis=0)[0] for x in (self.grid, self.cumulative))
        share = jnp.where(c > c0, (level - c0) / jnp.where(c > c0, c - c0, 1.0), 0.0)
        within = jnp.clip(share, 0.0, 1.0) * (y - y0)
        if not self.likelihood.support.discrete:
            return y0 + within
        # a count that stands for its neighbours has half of them on either side
        return jnp.where(y - y0 > 1.0, jnp.round(y0 + 0.5 * (y - y0) + within), y)


def grid_predictive(likelihood: Any, mean: Array, var: Array, side: Side) -> GridPredictive:
    """The predictive distribution of a likelihood of which only the density is known."""
    support = likelihood.support
    ones = (1,) * mean.ndim

    def density(y: Array) -> Array:
        return likelihood.log_power_mean(mean, var, y, 1.0, side)

    if support.discrete:
        count = likelihood.classes if support is Support.LABELS else COUNTED
        values = jnp.arange(count, dtype=mean.dtype).reshape(-1, *ones)
        grid = jnp.broadcast_to(values, (count, *mean.shape))
        mass = jnp.exp(jax.lax.map(density, grid))
        if support is Support.COUNTS:
            # the small counts, unless the mass is elsewhere
            near = (grid, mass)
            all_there = jnp.all(jnp.sum(mass, axis=0) > 1.0 - 1e-6)
            grid, mass = jax.lax.cond(all_there, lambda: near, lambda: _elsewhere(density, *near))
    else:
        to_y, slope = _line(support)
        edges = _searched(lambda t: density(to_y(t)) + jnp.log(slope(t)), mean)
        nodes, length = quadrature.panel_rule(edges)
        grid = to_y(nodes)
        mass = jnp.exp(jax.lax.map(density, grid)) * slope(nodes) * length
    total = jnp.sum(mass, axis=0)
    share = mass / jnp.where(total > 0.0, total, 1.0)
    average = jnp.sum(share * grid, axis=0)
    spread = jnp.sum(share * (grid - average) ** 2, axis=0)
    cumulative = jnp.cumsum(share, axis=0)
    if not support.discrete:
        cumulative = cumulative - 0.5 * share
    return GridPredictive(average, spread, grid, cumulative, likelihood, mean, var, dict(side))


def _elsewhere(density: Any, grid: Array, mass: Array) -> tuple[Array, Array]:
    """Counts and their mass, at other counts where the given ones have less of it."""
    far, step = _counts(density, grid)
    other = jnp.exp(jax.lax.map(density, far)) * step
    less = jnp.sum(mass, axis=0) < jnp.minimum(jnp.sum(other, axis=0), 1.0 - 1e-6)
    return jnp.where(less, far, grid), jnp.where(less, other, mass)


def _counts(density: Any, first: Array) -> tuple[Array, Array]:
    """Counts where the mass is: all of them, or every so many; and how many each stands for."""
    edges = _searched(lambda t: density(jnp.exp(t)) + t, first[0])
    value = jax.lax.map(lambda t: density(jnp.exp(t)) + t, edges)
    # but for a share of 1e-7
    live = value > jnp.max(value, axis=0) - 16.0
    low = jnp.floor(jnp.exp(jnp.min(jnp.where(live, edges, jnp.inf), axis=0)))
    high = jnp.ceil(jnp.exp(jnp.max(jnp.where(live, edges, -jnp.inf), axis=0)))
    low = jnp.where(high < COUNTED, 0.0, low)
    step = jnp.maximum(jnp.ceil((high - low) / (COUNTED - 1)), 1.0)
    return low + step * first, step


def _line(support: Support) -> tuple[Any, Any]:
    if support is Support.REAL:
        return lambda t: t, jnp.ones_like
    return line_to_support(support, jnp.zeros(()), jnp.ones(()))


def _searched(log_density: Any, like: Array) -> Array:
    """Panel edges where a density on the line has its mass, wherever that is."""
    spread = np.arcsinh(FARTHEST)
    first = np.sinh(np.linspace(-spread, spread, 2 * quadrature.PANELS + 1))
    edges = jnp.asarray(first, like.dtype).reshape(-1, *(1,) * like.ndim)
    edges = jnp.broadcast_to(edges, (edges.shape[0], *like.shape))

    def step(edges: Array) -> Array:
        value = jax.lax.map(log_density, edges)
        return quadrature.moved_to_mass(edges, quadrature.bounded(value))

    return quadrature.again(step, edges, ROUNDS)
