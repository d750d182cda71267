"""Slots: the stored site that each row of a factor uses.

Rows with `Private` slots store a site each. With a `Tied` slot one site t stands for all rows, to
the power of their number: the store is the belief that it makes of the prior, whose mean and
root an optimiser moves; `tied_states.py` has such slots for states in time. With `Variational`
slots a row has its belief itself, which an optimiser moves or an encoder gives, and which no
cavity takes anything out of; with `Conditional` slots it is the conditional of hidden values given
functions that is the row's own. What differs between them is only where cavities come from, and
where what they remove from the log-partition is counted.
"""

import abc
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar, cast

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.factors.tied import TiedCavity, TiedSite, tied_cavity
from cavity.inference.graph.base import AbstractBelief, AbstractSiteView, AbstractView
from cavity.inference.graph.marginals import Moments
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites
from cavity.inference.variables.chain import ChainMoments
from cavity.inference.variables.chain_sites import ChainSites
from cavity.inference.variables.hidden_values import HiddenSites, SitedConditional
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inputs import InputBelief, InputMoments, divergence, no_beliefs
from cavity.inference.variables.layered import LayeredMoments
from cavity.numerics.power_limits import Power
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Int, Scalar

# A store of sites, the site of every row, and what rows see marginals of.
Store = TypeVar("Store")
RowSite = TypeVar("RowSite")
Source = TypeVar("Source")
Belief = TypeVar("Belief", bound=AbstractBelief)
# The beliefs that a search starts from.
Started = TypeVar("Started", covariant=True)


class AbstractSlots(eqx.Module, Generic[Store, RowSite, Source]):
    """A map from rows to stored sites.

    To implement:
        `empty(view, rows)`, `row_sites(store)`, `message(store)`, `source(store, belief, power)`,
        `log_scale(source)`, `cavity(site, moments, power)`,
        `log_normaliser_ratio(site, moments, power)`.

    Attributes:
        private: whether every row stores a site of its own, which sweeps move.
    """

    private: eqx.AbstractClassVar[bool]

    @abc.abstractmethod
    def empty(self, view: AbstractView, rows: Rows) -> Store:
        """The store that a search starts from: sites of precision zero, where rows own them."""

    @abc.abstractmethod
    def row_sites(self, store: Store) -> RowSite:
        """The site of every row; None where rows share one."""

    def at_rows(self, index: Int[Array, " n"]) -> "AbstractSlots[Store, RowSite, Source]":
        """The slots of some rows; the same slots where they hold nothing per row."""
        return self

    @abc.abstractmethod
    def message(self, store: Store) -> AbstractBelief | None:
        """The message of what an optimiser moves; None where rows or another edge send it."""

    @abc.abstractmethod
    def source(self, store: Store, belief: AbstractBelief, power: Power) -> Source:
        """The belief or cavity whose marginals rows see."""

    @abc.abstractmethod
    def log_scale(self, source: Source) -> Scalar | float:
        """Terms of the energy that belong to a shared site as a whole, in nats."""

    @abc.abstractmethod
    def cavity(self, site: RowSite, moments: Moments, power: Power) -> tuple[Array, Array, Array]:
        """Cavity mean and variance of rows, and whether the cavity is proper."""

    @abc.abstractmethod
    def log_normaliser_ratio(self, site: RowSite, moments: Moments, power: Power) -> Array:
        r"""$D_a = [\Phi(q / t^a) - \Phi(q)] / a$ per row, where messages do not carry it."""


class Private(AbstractSlots[AbstractSites, AbstractSites, AbstractBelief]):
    """A site of its own for every row."""

    private: ClassVar[bool] = True

    def empty(self, view: AbstractView, rows: Rows) -> AbstractSites:
        return cast(AbstractSiteView, view).empty_sites(rows)

    def row_sites(self, store: AbstractSites) -> AbstractSites:
        return store

    def message(self, store: AbstractSites) -> None:
        return None

    def source(self, store: AbstractSites, belief: AbstractBelief, power: Power) -> AbstractBelief:
        return belief

    def log_scale(self, source: AbstractBelief) -> float:
        return 0.0

    def cavity(
        self, site: AbstractSites, moments: Moments, power: Power
    ) -> tuple[Array, Array, Array]:
        return site.cavity(*moments, power)

    def log_normaliser_ratio(self, site: AbstractSites, moments: Moments, power: Power) -> Array:
        return site.log_normaliser_ratio(*moments, power)


class Tied(AbstractSlots[TiedSite, None, TiedCavity]):
    """One site for all rows of a variable with a standard normal prior.

    Attributes:
        size: values of the variable.
        total: the number of observed rows in all the data, per output.
        start: means of the belief that a search starts from, and its standard deviation, or one
            for each value; None for the prior.
        groups: sizes of groups of values that the belief makes independent; None for one group.
    """

    private: ClassVar[bool] = False
    size: int = eqx.field(static=True)
    total: Float[Array, " P"]
    start: tuple[Float[Array, "P M"], float | Float[Array, "P M"]] | None = None
    groups: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def empty(self, view: AbstractView, rows: Rows) -> TiedSite:
        zero = jnp.zeros((self.total.shape[0], self.size), rows.y.dtype)
        mean, deviation = (zero, 1.0) if self.start is None else self.start
        logs = jnp.log(deviation) + zero
        return TiedSite(mean, logs[..., None] * jnp.eye(self.size, dtype=zero.dtype), self.groups)

    def row_sites(self, store: TiedSite) -> None:
        return None

    def message(self, store: TiedSite) -> InducingBelief:
        return store.belief()

    def source(self, store: TiedSite, belief: AbstractBelief, power: Power) -> TiedCavity:
        return tied_cavity(store, power, self.total)

    def log_scale(self, source: TiedCavity) -> Scalar:
        return source.log_scale

    def cavity(self, site: None, moments: Moments, power: Power) -> tuple[Array, Array, Array]:
        return *moments, jnp.ones((), bool)

    def log_normaliser_ratio(self, site: None, moments: Moments, power: Power) -> Array:
        return jnp.zeros((), moments[0].dtype)


class AbstractWithoutCavity(AbstractSlots[Store, RowSite, Belief]):
    """Slots whose rows see the belief itself: no cavity takes their own site out of it.

    To implement:
        `empty(view, rows)`, `row_sites(store)`, `message(store)` and
        `log_normaliser_ratio(site, moments, power)`.
    """

    def source(self, store: Store, belief: AbstractBelief, power: Power) -> Belief:
        return cast(Belief, belief)

    def log_scale(self, source: Belief) -> float:
        return 0.0

    def cavity(self, site: RowSite, moments: Moments, power: Power) -> tuple[Array, Array, Array]:
        return *moments, jnp.ones((), bool)


class Variational(AbstractWithoutCavity[InputMoments | None, None, InputBelief]):
    """A belief for every row's own input, at power 0 whatever the power of the rows.

    Above power 0 a cavity for it would make the energy a saddle in it; without one the energy is
    minimised. The belief is stored, or given by the view as a function of the row.

    Attributes:
        points: whether beliefs are point estimates, which have their prior density in the place of
            a divergence from the prior (maximum a posteriori).
    """

    private: ClassVar[bool] = False
    points: bool = eqx.field(static=True, default=False)

    def empty(self, view: AbstractView, rows: Rows) -> InputMoments | None:
        return cast(StartsBeliefs[InputMoments | None], view).start(rows)

    def row_sites(self, store: InputMoments | None) -> None:
        return None

    def message(self, store: InputMoments | None) -> InputBelief:
        return no_beliefs() if store is None else store.belief()

    def log_normaliser_ratio(self, site: None, moments: Moments, power: Power) -> Array:
        if self.points:
            return -0.5 * (moments[0] ** 2 + LOG_2PI)
        return -divergence(*moments)


class Conditional(AbstractWithoutCavity[HiddenSites, None, SitedConditional]):
    """Sites on the hidden values of every row, which an optimiser moves.

    They make another conditional of hidden values given functions. Its ratio to the model's own
    belongs to the row's term, in the power mean.

    Attributes:
        columns: hidden values of a row.
        start: the sites that a search starts from; None for those that change nothing.
    """

    private: ClassVar[bool] = False
    columns: int = eqx.field(static=True)
    start: HiddenSites | None = None

    def empty(self, view: AbstractView, rows: Rows) -> HiddenSites:
        if self.start is not None:
            return self.start
        zero = jnp.zeros((rows.y.shape[0], self.columns), rows.y.dtype)
        return HiddenSites(zero, zero)

    def row_sites(self, store: HiddenSites) -> None:
        return None

    def message(self, store: HiddenSites) -> SitedConditional:
        return store.belief()

    def log_normaliser_ratio(self, site: None, moments: Moments, power: Power) -> Array:
        return jnp.zeros((), moments[0].dtype)


class StartsBeliefs(Protocol[Started]):
    """A view that says where the search for the beliefs of rows starts."""

    def start(self, rows: Rows) -> Started:
        """Beliefs to start from; None where they are functions of the rows."""
        ...


def is_optimised(x: object) -> bool:
    """True for a store of sites that an optimiser moves."""
    return isinstance(x, TiedSite | InputMoments | ChainMoments | LayeredMoments | HiddenSites)


def is_optimised_per_row(x: object) -> bool:
    """True if an optimiser moves a store that has numbers of every row."""
    return is_optimised(x) and not isinstance(x, TiedSite)


def is_started(x: object) -> bool:
    """True if a store of sites has initial values of its own, not zeros."""
    return isinstance(x, ChainSites) or is_optimised(x)


class ObservedRows(NamedTuple):
    """Numbers of observed rows in all the data, each as often as its weight says.

    Without any observed row they are one.

    Attributes:
        per_output: rows in which an output is observed, for each.
        any_output: rows in which any output is.
    """

    per_output: Float[Array, " P"]
    any_output: Scalar


def observed_rows(rows: Rows) -> ObservedRows:
    """Count the observed rows."""
    presence = jnp.broadcast_to(rows.presence, rows.y.shape)
    counts = jnp.sum(presence, axis=0), jnp.sum(jnp.max(presence, axis=1))
    return ObservedRows(*(jnp.where(count > 0.0, count, 1.0) for count in counts))
