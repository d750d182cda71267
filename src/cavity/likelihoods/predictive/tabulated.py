"""Predictive distributions from a table of the density of y."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.likelihoods.capabilities import number_of_classes
from cavity.likelihoods.predictive.base import AbstractPredictive, Side, check_outputs
from cavity.likelihoods.predictive.latent import log_density_within_support
from cavity.likelihoods.predictive.quantiles import (
    Map,
    inverted_quantile,
    line_to_support,
)
from cavity.likelihoods.support import Support
from cavity.numerics import quadrature
from cavity.numerics.chunking import map_over_entries
from cavity.numerics.types import Array, Float, PRNGKeyArray


@dataclasses.dataclass(frozen=True)
class TableSettings:
    """Settings of tables of a density.

    Attributes:
        counts: entries of a table of counts.
        farthest: how far from zero the search for the mass begins.
        rounds: rounds of that search.
        negligible: log density below its maximum at which counts are left out of the table.
        block: counts that are looked at together.
        nothing: mass of a count after which, where nearly all was seen, none are looked at.
        complete: the share of the mass that a table of the smallest counts must have.
        rounding: rounding errors of interpolated counts.
    """

    counts: int = 1024
    farthest: float = 1e7
    rounds: int = 9
    negligible: float = 16.0
    block: int = 32
    nothing: float = 1e-20
    complete: float = 1.0 - 1e-6
    rounding: float = 1e-6


TABLE = TableSettings()


class DistributionTable(eqx.Module):
    """A distribution on a grid of outputs.

    Attributes:
        support: the values that outputs may take.
        grid: outputs, ascending along the first axis.
        cumulative: the probability of an output at or below each.
        mean: the mean of the distribution.
        var: the variance of what the grid covers.
    """

    support: Support = eqx.field(static=True)
    grid: Float[Array, "S ..."]
    cumulative: Float[Array, "S ..."]
    mean: Float[Array, "..."]
    var: Float[Array, "..."]

    def cdf(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """Probability that outputs are at most y, interpolated on the grid."""
        y = jnp.floor(y) if self.support.discrete else y
        upper = jnp.clip(jnp.sum(self.grid <= y, axis=0), 1, self.grid.shape[0] - 1)
        y0, y1 = _at(self.grid, upper - 1), _at(self.grid, upper)
        c0, c1 = _at(self.cumulative, upper - 1), _at(self.cumulative, upper)
        share = jnp.clip((y - y0) / jnp.where(y1 > y0, y1 - y0, 1.0), 0.0, 1.0)
        return jnp.where(y < self.grid[0], 0.0, c0 + share * (c1 - c0))

    def quantile(self, level: Float[Array, "..."]) -> Float[Array, "..."]:
        """The smallest outputs whose distribution function is at least `level`."""
        last = self.grid.shape[0] - 1
        upper = jnp.clip(jnp.sum(self.cumulative < level, axis=0), 0, last)
        lower = jnp.maximum(upper - 1, 0)
        y0, y1 = _at(self.grid, lower), _at(self.grid, upper)
        c0, c1 = _at(self.cumulative, lower), _at(self.cumulative, upper)
        share = jnp.clip((level - c0) / jnp.where(c1 > c0, c1 - c0, 1.0), 0.0, 1.0)
        y = jnp.where(upper > lower, y0 + share * (y1 - y0), y1)
        return jnp.ceil(y - TABLE.rounding) if self.support.discrete else y


def _at(x: Float[Array, "S ..."], index: Array) -> Float[Array, "..."]:
    return jnp.take_along_axis(x, index[None], axis=0)[0]


class GridPredictive(AbstractPredictive):
    """Outputs of any likelihood, through the predictive density on a grid of outputs.

    Attributes:
        mean: means of y.
        var: variances of y, of what the grid covers.
        table: the distribution function.
        likelihood: gives the density.
        latent_mean: means of f.
        latent_var: variances of f.
        side: side data of the rows.
    """

    mean: Float[Array, "..."]
    var: Float[Array, "..."]
    table: DistributionTable
    likelihood: Any
    latent_mean: Float[Array, "..."]
    latent_var: Float[Array, "..."]
    side: dict[str, Array]

    @property
    def support(self) -> Support:
        return self.likelihood.support

    def log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        check_outputs(y, self.mean)
        return log_density_within_support(
            self.likelihood, self.latent_mean, self.latent_var, y, self.side
        )

    def cdf(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.table.cdf(y)

    def quantile(self, p: float | Float[Array, " Q"]) -> Float[Array, "..."]:
        return inverted_quantile(self, p)


def grid_predictive(likelihood: Any, mean: Array, var: Array, side: Side) -> GridPredictive:
    """The predictive distribution of a likelihood of which only the density is known."""
    like = mean if likelihood.latents == 1 else mean[0]
    table = tabulate(
        lambda y: likelihood.log_power_mean(mean, var, y, 1.0, side), likelihood, like
    )
    return GridPredictive(table.mean, table.var, table, likelihood, mean, var, dict(side))


def sample_from_density(
    likelihood: Any, key: PRNGKeyArray, f: Array, side: Side
) -> Float[Array, "..."]:
    """One output for every latent value, by inverting a table of its distribution function."""
    functions = (f,) if likelihood.latents == 1 else tuple(f)
    like, tiny = functions[0], float(jnp.finfo(f.dtype).eps)
    level = jax.random.uniform(key, like.shape, like.dtype, tiny, 1.0 - tiny)

    def sample_entries(entries: tuple[tuple[Array, ...], Array, dict[str, Array]]) -> Array:
        values, level, side = entries
        at = values[0] if len(values) == 1 else jnp.stack(values)
        table = tabulate(lambda y: likelihood.log_prob(at, y, **side), likelihood, level)
        return table.quantile(level)

    columns = {name: jnp.broadcast_to(x, like.shape) for name, x in side.items()}
    return map_over_entries(sample_entries, (functions, level, columns))


def tabulate(log_density: Map, likelihood: Any, like: Array) -> DistributionTable:
    """The table of a distribution of which only the density is known.

    Args:
        log_density: log densities of outputs, entry by entry.
        likelihood: gives the support of outputs, and the number of classes.
        like: an array with the shape of the outputs.
    """
    grid, share = output_shares(log_density, likelihood, like)
    average = jnp.sum(share * grid, axis=0)
    spread = jnp.sum(share * (grid - average) ** 2, axis=0)
    support = likelihood.support
    cumulative = jnp.cumsum(share, axis=0) - _share_above(share, grid, support)
    return DistributionTable(support, grid, cumulative, average, spread)


def output_shares(
    log_density: Map, likelihood: Any, like: Array
) -> tuple[Float[Array, "S ..."], Float[Array, "S ..."]]:
    """Outputs where a distribution has its mass, and the share of it that each stands for.

    Args:
        log_density: log densities of outputs, entry by entry.
        likelihood: gives the support of outputs, and the number of classes.
        like: an array with the shape of the outputs.
    """
    support = likelihood.support
    if support.discrete:
        count = number_of_classes(likelihood) if support is Support.LABELS else TABLE.counts
        values = jnp.arange(count, dtype=like.dtype).reshape(-1, *(1,) * like.ndim)
        grid = jnp.broadcast_to(values, (count, *like.shape))
        if support is Support.COUNTS:
            mass = _mass_of_counts(log_density, grid)
            smallest = (grid, mass)
            complete = jnp.all(jnp.sum(mass, axis=0) > TABLE.complete)
            grid, mass = jax.lax.cond(
                complete, lambda: smallest, lambda: _larger_counts(log_density, *smallest)
            )
        else:
            mass = jnp.exp(jax.lax.map(log_density, grid))
    else:
        slope = _SLOPES[support]
        to_y = (lambda t: t) if support is Support.REAL else line_to_support(support, like)
        edges = _edges_of_mass(lambda t: log_density(to_y(t)) + jnp.log(slope(t)), like)
        nodes, length = quadrature.panel_rule(edges)
        grid = to_y(nodes)
        mass = jnp.exp(jax.lax.map(log_density, grid)) * slope(nodes) * length
    total = jnp.sum(mass, axis=0)
    return grid, mass / jnp.where(total > 0.0, total, 1.0)


def _mass_of_counts(log_density: Map, grid: Array) -> Array:
    """The mass of counts 0, 1, ..., block by block until what is left is nothing at any entry."""
    blocks = grid.reshape(-1, TABLE.block, *grid.shape[1:])

    def add(seen: tuple[Array, Array], block: Array) -> tuple[tuple[Array, Array], Array]:
        total, last = seen
        # beyond nearly all of the mass it falls from count to count
        done = jnp.all((total > TABLE.complete) & (last < TABLE.nothing))
        mass = jax.lax.cond(
            done,
            lambda: jnp.zeros_like(block),
            lambda: jnp.exp(jax.lax.map(log_density, block)),
        )
        return (total + jnp.sum(mass, axis=0), mass[-1]), mass

    zero = jnp.zeros_like(grid[0])
    return jax.lax.scan(add, (zero, zero), blocks)[1].reshape(grid.shape)


def _share_above(share: Array, grid: Array, support: Support) -> Array:
    """The share of each entry that lies above its grid point."""
    if not support.discrete:
        return 0.5 * share
    # of `gap` counts that one entry stands for, about half lie above it
    gap = grid[1:2] - grid[:1]
    return share * jnp.floor(0.5 * gap) / gap


def _larger_counts(log_density: Map, grid: Array, mass: Array) -> tuple[Array, Array]:
    """A grid of larger counts, and their mass, where the smallest have less of it."""
    larger, step = _thinned_counts(log_density, grid)
    larger_mass = jnp.exp(jax.lax.map(log_density, larger)) * step
    threshold = jnp.minimum(jnp.sum(larger_mass, axis=0), TABLE.complete)
    use_larger = jnp.sum(mass, axis=0) < threshold
    return jnp.where(use_larger, larger, grid), jnp.where(use_larger, larger_mass, mass)


def _thinned_counts(log_density: Map, first: Array) -> tuple[Array, Array]:
    """Counts that cover the mass, all or every so many, and how many each stands for."""
    edges = _edges_of_mass(lambda t: log_density(jnp.exp(t)) + t, first[0])
    value = jax.lax.map(lambda t: log_density(jnp.exp(t)) + t, edges)
    covered = value > jnp.max(value, axis=0) - TABLE.negligible
    low = jnp.floor(jnp.exp(jnp.min(jnp.where(covered, edges, jnp.inf), axis=0)))
    high = jnp.ceil(jnp.exp(jnp.max(jnp.where(covered, edges, -jnp.inf), axis=0)))
    low = jnp.where(high < TABLE.counts, 0.0, low)
    step = jnp.maximum(jnp.ceil((high - low) / (TABLE.counts - 1)), 1.0)
    return low + step * first, step


# By support: the derivative of the map from the real line to outputs.
_SLOPES: dict[Support, Map] = {
    Support.REAL: jnp.ones_like,
    Support.POSITIVE: jnp.exp,
    Support.UNIT: lambda t: jax.nn.sigmoid(t) * jax.nn.sigmoid(-t),
}


def _edges_of_mass(log_density: Map, like: Array) -> Array:
    """Edges of panels on the real line, moved to where a density has its mass."""
    spread = np.arcsinh(TABLE.farthest)
    first = np.sinh(np.linspace(-spread, spread, 2 * quadrature.SEARCH.panels + 1))
    edges = jnp.asarray(first, like.dtype).reshape(-1, *(1,) * like.ndim)
    edges = jnp.broadcast_to(edges, (edges.shape[0], *like.shape))

    def move(edges: Array) -> Array:
        value = jax.lax.map(log_density, edges)
        return quadrature.edges_at_mass(edges, quadrature.bounded(value))

    return quadrature.repeat(move, edges, TABLE.rounds)
