r"""Beliefs about the rows' own variables, as stores: sites at power 0.

The inputs of a latent-variable model, states in time and the hidden values of layers have a belief
q that an optimiser moves, or natural-gradient steps. With the site t that it makes of their prior,
$\Phi(q) - \Phi(p)$ of the variable and $D_0 = -\langle \mathbf t, \mathbb E_q \mathbf s
\rangle$ of the site are together minus the divergence of q from p, or the entropy of q where p is
flat; neither is needed alone. Terms that depend on these variables alone are expected log
densities under q: log power means at power 0.

References:
    Bui (2017), S34, S40 and S47; Chamberlin (2016), S10.
"""

import abc
import typing
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.factors.averaged import AbstractSight
from cavity.inference.factors.base import SiteUpdate, Stores
from cavity.inference.factors.layer_sight import present
from cavity.inference.factors.slots import Variational
from cavity.inference.graph.base import AbstractBelief, AbstractView
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.chain import ChainBelief, ChainMoments, Links
from cavity.inference.variables.chain_sites import ChainSites, as_moments, as_sites, sites_of
from cavity.inference.variables.inputs import InputBelief, InputMoments
from cavity.inference.variables.layered import LayeredBelief, LayeredMoments
from cavity.likelihoods.base import AbstractLikelihood
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Scalar

# Terms that depend on the variables of the rows alone.
Density = Callable[[Any, Rows], Scalar]


class ExpectedDensity(eqx.Module):
    """Expected log densities of outputs, given a Gaussian belief about their functions.

    Attributes:
        likelihood: the density of an output given its function.
        sight: means and variances of the functions under the belief; those that are not present
            do not count.
    """

    likelihood: AbstractLikelihood
    sight: AbstractSight

    def __call__(self, belief: AbstractBelief, rows: Rows) -> Scalar:
        seen = self.sight(belief, rows)
        assert seen.var is not None
        each = self.likelihood.log_power_mean(seen.mean, seen.var, rows.y, 0.0, rows.columns)
        return jnp.sum(seen.presence * each)


class AbstractStoredBelief(eqx.Module):
    """The belief about the variable of the rows, and the terms that depend on it alone.

    To implement:
        the fields, `empty()`, `adopted(store)`, `belief(store)` and `negative_divergence(belief)`.

    Attributes:
        rows: the data.
        densities: the terms.
    """

    rows: eqx.AbstractVar[Rows]
    densities: eqx.AbstractVar[tuple[Density, ...]]

    @abc.abstractmethod
    def empty(self) -> Any:
        """The store that a search starts from."""

    @abc.abstractmethod
    def adopted(self, store: Any) -> Any:
        """A store that another approximation left, in the form that this one has."""

    @abc.abstractmethod
    def belief(self, store: Any) -> AbstractBelief:
        """The belief itself."""

    @abc.abstractmethod
    def negative_divergence(self, belief: Any) -> Scalar:
        """Minus the divergence of the belief from the prior, in nats."""

    def log_scale(self, belief: AbstractBelief) -> Scalar:
        """All terms of the variable, in nats."""
        return self.negative_divergence(belief) + self.log_densities(belief)

    def log_densities(self, belief: AbstractBelief) -> Scalar:
        """The terms that depend on it alone."""
        total = jnp.zeros((), self.rows.y.dtype)
        return sum((density(belief, self.rows) for density in self.densities), total)


class StoredInputs(AbstractStoredBelief):
    """A belief for every row's own input, moved by an optimiser or given by an encoder.

    Attributes:
        view: how rows see their inputs.
        slots: the form of the beliefs.
        rows: the data.
        densities: none.
    """

    view: AbstractView
    slots: Variational
    rows: Rows
    densities: tuple[Density, ...] = ()

    def empty(self) -> InputMoments | None:
        return self.slots.empty(self.view, self.rows)

    def adopted(self, store: InputMoments | None) -> InputMoments | None:
        return store

    def belief(self, store: InputMoments | None) -> InputBelief:
        return self.slots.message(store)

    def negative_divergence(self, belief: InputBelief) -> Scalar:
        moments = self.view.marginal(belief, self.rows).moments
        ratio = self.slots.log_normaliser_ratio(None, moments, 0.0)
        return jnp.sum(self.view.presence(self.rows) * ratio)


class StoredLayers(AbstractStoredBelief):
    """The hidden values of layers that do not depend on inducing variables.

    Attributes:
        start: where a search starts.
        chained: whether values depend on those of the layer below.
        rows: the data.
        densities: none.
    """

    start: LayeredMoments
    chained: bool = eqx.field(static=True)
    rows: Rows
    densities: tuple[Density, ...] = ()

    def empty(self) -> LayeredMoments:
        return self.start

    def adopted(self, store: LayeredMoments) -> LayeredMoments:
        return store

    def belief(self, store: LayeredMoments) -> LayeredBelief:
        return store.belief(present(self.rows), chained=self.chained)

    def negative_divergence(self, belief: LayeredBelief) -> Scalar:
        return belief.log_normaliser


class AbstractStoredChain(AbstractStoredBelief):
    """States in time, of which a store knows the chain that they are.

    To implement:
        the fields, `empty()` and `adopted(store)`.

    Attributes:
        start: states that a search starts from.
        links: how rows follow each other.
        rows: the data.
        densities: terms of first states, and of outputs.
    """

    start: ChainMoments
    links: Links
    rows: Rows
    densities: tuple[Density, ...] = ()

    @typing.final
    def belief(self, store: ChainMoments | ChainSites) -> ChainBelief:
        return store.belief(self.links)

    @typing.final
    def negative_divergence(self, belief: ChainBelief) -> Scalar:
        return belief.log_normaliser


class StoredChain(AbstractStoredChain):
    """States in time, by moments that an optimiser moves."""

    def empty(self) -> ChainMoments:
        return self.start

    def adopted(self, store: ChainMoments | ChainSites) -> ChainMoments:
        return as_moments(store, self.links)


class NaturalChain(AbstractStoredChain):
    """States in time, by natural parameters that natural-gradient steps move."""

    def empty(self) -> ChainSites:
        return sites_of(self.start, self.links)

    def adopted(self, store: ChainMoments | ChainSites) -> ChainSites:
        return as_sites(store, self.links)

    def update(
        self,
        belief: ChainBelief,
        sites: Stores,
        expected: Callable[[ChainBelief], Scalar],
        step: Power,
    ) -> SiteUpdate:
        """A natural-gradient step of the share `step`.

        Args:
            belief: the belief at these sites.
            sites: the store.
            expected: the terms of the energy less the entropy, as a function of the belief.
            step: the share.
        """
        (store,) = sites
        matched = store.matched(belief, jax.grad(expected)(belief), self.links)
        units = store.fisher_scale(belief)
        moves = jax.tree.map(lambda old, new: step * (new - old), store, matched)
        sizes = jax.tree.map(lambda move, unit: jnp.max(jnp.abs(move * unit)), moves, units)
        residual = jnp.max(jnp.stack(jax.tree.leaves(sizes))) / step
        new = jax.tree.map(jnp.add, store, moves)
        return SiteUpdate((new,), residual, jnp.zeros(()), (units,))
