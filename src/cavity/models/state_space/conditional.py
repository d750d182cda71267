r"""States with the model's own conditional times a site, by paths that draw their functions once.

$$q(\mathbf x_t \mid f, \mathbf x_{t-1}) \propto p(\mathbf x_t \mid f, \mathbf x_{t-1})\,
t_t(\mathbf x_t)$$

Given a draw of the inducing variables, every state of a path is Gaussian given the one before,
with the function's residual drawn anew at each step. Averages over paths are over the same
standard normal numbers in every evaluation. Up to that average, and for residuals that steps do
not share, the energy is a variational bound: with sites of precision zero that of the model's own
conditional.

References:
    Bui (2017), S43; Ialongo et al. (2019).
"""

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inducing.base import Points, covariance
from cavity.inference.bounds.base import AbstractOrderedBound, Bounded
from cavity.inference.bounds.layered import negative_divergence
from cavity.inference.energy import Graph
from cavity.inference.factors.base import Stores
from cavity.inference.factors.tied import TiedSite
from cavity.inference.graph.base import Messages
from cavity.inference.graph.rows import Rows
from cavity.inference.hidden_sites import sited_value
from cavity.inference.variables.chain import ChainBelief, Links
from cavity.inference.variables.hidden_values import HiddenSites
from cavity.inference.variables.inducing import InducingBelief, WhitenedInducing
from cavity.inference.variables.inducing_view import InducingView, OutputMean
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.deep.layer import Layer
from cavity.models.state_space.site_graph import starting_site
from cavity.numerics.linalg import safe_sqrt
from cavity.numerics.types import Array, Float

# Paths at the least: sites fit the numbers of fewer.
LEAST_PATHS = 200
# Log widths of sites that a search starts from: the conditional has half the model's deviation.
WIDTH = 1.4


class Paths(NamedTuple):
    """States along paths.

    Attributes:
        mean: of every state given the one before.
        var: its variances.
        state: the states themselves.
        log_ratio: of the two conditionals of a state, averaged.
    """

    mean: Float[Array, "K T D"]
    var: Float[Array, "K T D"]
    state: Float[Array, "K T D"]
    log_ratio: Float[Array, "K T D"]

    def belief(self, links: Links) -> ChainBelief:
        """Means and covariances of states, and of neighbours, over all paths."""
        mean = jnp.mean(self.mean, axis=0)
        away, moved = self.mean - mean, self.state - jnp.mean(self.state, axis=0)
        own = jnp.mean(self.var, axis=0)
        between = jnp.einsum("ktd,kte->tde", away, away) / len(away)
        cov = between + own[:, :, None] * jnp.eye(own.shape[1])
        before = jnp.roll(moved, 1, axis=1)
        cross = jnp.einsum("ktd,kte->tde", before, away) / len(away)
        zero = jnp.zeros((), mean.dtype)
        return ChainBelief(mean, cov, links.linked[:, None, None] * cross, zero)


class AbstractPathEmission(eqx.Module):
    """Expected log densities of outputs along paths.

    To implement:
        `__call__(paths, beliefs, rows)`.
    """

    @abc.abstractmethod
    def __call__(
        self, paths: Paths, beliefs: Sequence[InducingBelief], rows: Rows
    ) -> Float[Array, "K T P"]:
        """Expected log densities.

        Args:
            paths: the states.
            beliefs: about the emission's inducing variables.
            rows: the data.
        """


class AffinePaths(AbstractPathEmission):
    """Outputs of affine functions of states, averaged over a state given the one before.

    Attributes:
        likelihood: the density of an output given its function.
        mean: the functions.
    """

    likelihood: AbstractLikelihood
    mean: OutputMean

    def __call__(
        self, paths: Paths, beliefs: Sequence[InducingBelief], rows: Rows
    ) -> Float[Array, "K T P"]:
        count, times, size = paths.mean.shape
        zero = jnp.zeros((1, size), paths.mean.dtype)
        slopes = jax.jacfwd(lambda x: self.mean(x[None])[0])(zero[0])
        mean = self.mean(paths.mean.reshape(-1, size)).reshape(count, times, -1)
        var = paths.var @ (slopes**2).T
        y = jnp.broadcast_to(rows.y, mean.shape)
        return self.likelihood.log_power_mean(mean, var, y, 0.0, rows.columns)


class FunctionPaths(AbstractPathEmission):
    """Outputs of functions with Gaussian process priors at the states of paths.

    Attributes:
        likelihood: the density of an output given its function.
        layer: the functions.
        views: how rows see their inducing variables.
    """

    likelihood: AbstractLikelihood
    layer: Layer
    views: tuple[InducingView, ...]

    def __call__(
        self, paths: Paths, beliefs: Sequence[InducingBelief], rows: Rows
    ) -> Float[Array, "K T P"]:
        count, times, size = paths.state.shape
        functions = self.layer.process(self.views, beliefs)
        x = jnp.tile(rows.x, (count, 1))
        inputs = functions.with_inputs(paths.state.reshape(-1, size), x)
        mean, var = (a.reshape(count, times, -1) for a in functions.moments(inputs))
        y = jnp.broadcast_to(rows.y, mean.shape)
        return self.likelihood.log_power_mean(mean, var, y, 0.0, rows.columns)


class PathBound(AbstractOrderedBound):
    """Series of states with sites on the model's own conditional, at power 0.

    Attributes:
        transition: the functions that give the next state.
        views: how rows see their inducing variables.
        emission: expected log densities of outputs.
        rows: the data.
        links: how rows follow each other.
        initial: mean and variance of first states.
        count: paths.
        start: beliefs about inducing variables of the transition and then of the emission; last
            the sites on states.
    """

    transition: Layer
    views: tuple[InducingView, ...]
    emission: AbstractPathEmission
    rows: Rows
    links: Links
    initial: tuple[Float[Array, " D"], Float[Array, " D"]]
    count: int = eqx.field(static=True)
    start: tuple[TiedSite | HiddenSites, ...]

    def __call__(self, stores: Stores) -> Bounded:
        """The bound, and beliefs about inducing variables and about states over all paths."""
        *functions, sites = stores
        beliefs = tuple(site.belief() for site in functions)
        paths = self.paths(beliefs, sites)
        own = beliefs[len(self.views) :]
        outputs = self.rows.site_presence * self.emission(paths, own, self.rows)
        states = self.links.present[:, None] * paths.log_ratio
        whole = sum(negative_divergence(site) for site in functions)
        total = whole + (jnp.sum(outputs) + jnp.sum(states)) / self.count
        return Bounded(total, (*beliefs, paths.belief(self.links)))

    def paths(self, beliefs: Sequence[InducingBelief], sites: HiddenSites) -> Paths:
        """States along paths.

        Args:
            beliefs: about the inducing variables; those of the transition first.
            sites: on states.
        """
        size, dtype = self.transition.width, sites.shift.dtype
        keys = jax.random.split(jax.random.key(0), len(self.views) + 1)
        drawn = [
            _drawn(belief, _antithetic(key, self.count, belief.mean.shape[::2], dtype))
            for belief, key in zip(beliefs, keys[1:], strict=False)
        ]
        z = _antithetic(keys[0], self.count, (len(self.rows.y), size), dtype)
        mean, variance = self.initial
        noise = jnp.broadcast_to(cast(Array, self.transition.noise_variance), (size,))

        def step(x: Float[Array, "K D"], row: tuple[Array, ...]) -> tuple[Array, Paths]:
            c, linked, shift, log_width, normal = row
            f, var = self._functions_at(x, c, drawn)
            f, var = jnp.where(linked > 0.0, f, mean), jnp.where(linked > 0.0, var, 0.0)
            own = jnp.where(linked > 0.0, noise, variance)
            site = shift / jnp.sqrt(own), jnp.expm1(log_width) / own
            value = sited_value(f, var, own, *site, 0.0)
            new = value.mean + safe_sqrt(value.var) * normal
            return new, Paths(value.mean, value.var, new, value.log_ratio)

        start = jnp.broadcast_to(mean, (self.count, size)).astype(dtype)
        rows = (self.rows.x, self.links.linked, sites.shift, sites.log_width)
        _, paths = jax.lax.scan(step, start, (*rows, jnp.swapaxes(z, 0, 1)))
        return Paths(*(jnp.swapaxes(a, 0, 1) for a in paths))

    def _functions_at(
        self, x: Float[Array, "K D"], c: Float[Array, " C"], drawn: Sequence[Float[Array, "K P M"]]
    ) -> tuple[Float[Array, "K D"], Float[Array, "K D"]]:
        """Means and variances of the functions of every path, given its inducing variables."""
        inputs = x
        if self.transition.skip_connection:
            inputs = jnp.concatenate([x, jnp.broadcast_to(c, (len(x), len(c)))], axis=1)
        means, variances = [], []
        for view, v in zip(self.views, drawn, strict=True):
            A = view.root @ covariance(view.kernel, view.inducing, Points(inputs))
            residual = jnp.maximum(view.kernel.diag(inputs) - jnp.sum(A**2, axis=0), 0.0)
            means.append(jnp.einsum("mk,kpm->kp", A, v))
            variances.append(jnp.broadcast_to(residual[:, None], means[-1].shape))
        prior = OutputMean(self.transition.mean, self.transition.width)(inputs)
        return jnp.concatenate(means, axis=1) + prior, jnp.concatenate(variances, axis=1)


def path_graph(
    transition: tuple[Layer, tuple[InducingView, ...]],
    emission: tuple[AbstractPathEmission, tuple[InducingView, ...]],
    rows: Rows,
    links: Links,
    initial: tuple[Float[Array, " D"], Float[Array, " D"]],
    start: tuple[Float[Array, "T D"], Sequence[Messages]],
    count: int,
) -> Graph:
    """A model laid out with sites on states given their functions.

    Args:
        transition: the functions of transitions, and how rows see their inducing variables.
        emission: the terms of outputs, and how rows see their inducing variables.
        rows: the outputs and the controls.
        links: how rows follow each other.
        initial: mean and variance of first states.
        start: states that a search starts from, and what rows with them say of inducing variables.
        count: paths.
    """
    (layer, views), (terms, more), (states, told) = transition, emission, start
    functions = [starting_site(*pair) for pair in zip((*views, *more), told, strict=True)]
    f, noise = starting_functions(layer, views, told[: len(views)], states, rows)
    linked = links.linked[:, None] > 0.0
    f, noise = jnp.where(linked, f, initial[0]), jnp.where(linked, noise, initial[1])
    sites = sites_towards(f, states, jnp.full_like(states, WIDTH), noise)
    begin = (*functions, sites)
    bound = PathBound(
        transition=layer,
        views=views,
        emission=terms,
        rows=rows,
        links=links,
        initial=initial,
        count=count,
        start=begin,
    )
    return Graph(bounds=(bound,), functions=(*views, *more))


def starting_functions(
    layer: Layer,
    views: Sequence[InducingView],
    told: Sequence[Messages],
    states: Float[Array, "T D"],
    rows: Rows,
) -> tuple[Float[Array, "T D"], Float[Array, " D"]]:
    """Values of the functions at the states of the rows before, and the process noise.

    Args:
        layer: the transition.
        views: how rows see its inducing variables.
        told: what rows with these states say of them.
        states: of every row.
        rows: the data, for controls.
    """
    beliefs = [
        WhitenedInducing(view.inducing.size).belief(m) for view, m in zip(views, told, strict=True)
    ]
    before = jnp.concatenate([states[:1], states[:-1]])
    process = layer.process(views, beliefs)
    f, _ = process.moments(process.with_inputs(before, rows.x))
    noise = jnp.broadcast_to(cast(Array, layer.noise_variance), f.shape[1:])
    return jnp.nan_to_num(f), noise


def sites_towards(
    f: Float[Array, "T D"],
    states: Float[Array, "T D"],
    log_width: Float[Array, "T D"],
    noise: Float[Array, "*T D"],
) -> HiddenSites:
    """Sites that make given states the means, where functions have given values."""
    # m = g (f + s · sν), with the gain g = exp(-width)
    return HiddenSites((states * jnp.exp(log_width) - f) / jnp.sqrt(noise), log_width)


def _antithetic(key: Any, count: int, shape: tuple[int, ...], dtype: Any) -> Array:
    """Standard normal numbers for paths, the second half of them the first with the other sign."""
    half = jax.random.normal(key, ((count + 1) // 2, *shape), dtype)
    return jnp.concatenate([half, -half])[:count]


def _drawn(belief: InducingBelief, z: Float[Array, "K P M"]) -> Float[Array, "K P M"]:
    """Inducing variables of every path; the covariance of the belief is rootᵀ root."""
    return belief.mean[:, 0] + jnp.einsum("kpm,pmn->kpn", z, belief.root)
