"""The abstract factor: terms of the same form, and their Gaussian messages to variables.

A factor touches variables through its edges. Its four methods are all that the energy and the
sweeps need; exact factors, factors with sites, priors on coefficients and layers between
Gaussian variables are implementations of them. Solvers that need the linear response of the
beliefs, and leave-one-out densities, ask for the further methods of `AbstractRowFactor`;
minibatches are of site factors.
"""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, cast

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.factors.slots import AbstractSlots, Private
from cavity.inference.graph.base import (
    AbstractBelief,
    AbstractResponse,
    AbstractSiteView,
    AbstractVariable,
    AbstractView,
    Moments,
)
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites
from cavity.likelihoods.base import AbstractLikelihood
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Scalar

# One store of sites per edge; empty for a factor whose sites are functions of the parameters.
Stores = tuple[Any, ...]
Beliefs = tuple[AbstractBelief, ...]
# The moments that rows see through each edge; empty for a factor without stored sites.
EdgeMoments = tuple[Moments, ...]
# The messages of a factor, with the indices of the variables that they go to.
Sent = tuple[tuple[int, Any], ...]


class Edge(eqx.Module):
    """Connection of a factor to a variable.

    Attributes:
        variable: the index of the variable.
        view: the marginal that a row sees, and the messages that its site sends.
        slots: the stored site that a row uses.
    """

    variable: int = eqx.field(static=True)
    view: AbstractView
    slots: AbstractSlots = Private()

    def own_sites(self, rows: Rows, sites: AbstractSites) -> AbstractSites:
        """Sites of rows in the form that the view takes them."""
        return cast(AbstractSiteView, self.view).own_sites(rows, sites)


class SiteUpdate(NamedTuple):
    """New sites of a factor.

    Attributes:
        sites: the new sites, one store per edge.
        residual: largest change of a moment that a full step would make, in standard deviations.
        skipped: sites that stayed as they were because their cavity or match is not proper.
        fisher_scale: what changes of the sites' numbers are measured in.
    """

    sites: Stores
    residual: Array
    skipped: Array
    fisher_scale: Stores


class PoweredDensity(NamedTuple):
    """Terms that are powers of the density of an output given its function value.

    Attributes:
        likelihood: the density.
        rows: the data.
        power: the power of each row.
        offset: the prior mean of the function values.
    """

    likelihood: AbstractLikelihood
    rows: Rows
    power: Power
    offset: Array


class AbstractFactor(eqx.Module):
    """Alike terms of a model that touch the same variables.

    To implement:
        the field `edges`; `stationary`, `empty_sites()`, `messages(variables, sites)`,
        `log_scale(q, sites, fixed, settled)` and `update(q, sites, step)`.

    Attributes:
        has_rows: whether the factor is an `AbstractRowFactor`.
        samples_paths: whether it averages over sampled paths of hidden states, and has the moments
            of states along them.
        holds_projections: whether it has `with_projections()`.
    """

    edges: eqx.AbstractVar[tuple[Edge, ...]]
    has_rows: ClassVar[bool] = False
    samples_paths: ClassVar[bool] = False
    holds_projections: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def stationary(self) -> bool:
        """True if the energy is stationary in sites and marginals at a fixed point."""

    @abc.abstractmethod
    def empty_sites(self) -> Stores:
        """Sites of precision zero, one store per edge; none where sites need no storage."""

    def adopted(self, sites: Stores) -> Stores:
        """Stores that another approximation left, in the form that the edges' slots have."""
        if len(sites) != len(self.edges):
            return sites
        return tuple(e.slots.adopted(s) for e, s in zip(self.edges, sites, strict=True))

    @abc.abstractmethod
    def messages(self, variables: Sequence[AbstractVariable], sites: Stores) -> Sent:
        """The messages of all sites to the variables."""

    @abc.abstractmethod
    def log_scale(
        self,
        q: Beliefs,
        sites: Stores,
        fixed: EdgeMoments | None = None,
        *,
        settled: bool = False,
    ) -> Scalar:
        """The log scales of all sites, in nats, beyond those that messages carry.

        Args:
            q: the beliefs at these sites.
            sites: the sites.
            fixed: moments to form the cavities from in place of the beliefs' own.
            settled: whether the sites are at a fixed point, where nothing is differentiated
                through the moments of the beliefs.
        """

    @abc.abstractmethod
    def update(self, q: Beliefs, sites: Stores, step: Power) -> SiteUpdate:
        """New sites, all moved in parallel the share `step` of the way to their match."""


class AbstractRowFactor(AbstractFactor):
    """A factor with one term per row of a table.

    To implement:
        the fields `rows` and `chunk`, and for each method its value for the rows of a factor.
    """

    has_rows: ClassVar[bool] = True
    rows: eqx.AbstractVar[Rows]
    chunk: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def site_presence(self) -> tuple[Array, ...]:
        """The powers that sites count with, per edge with stored sites; 0 where none has data."""

    @abc.abstractmethod
    def moments(self, q: Beliefs) -> EdgeMoments:
        """The moments that all rows see through the edges with stored sites."""

    @abc.abstractmethod
    def update_at(self, fixed: EdgeMoments, sites: Stores, step: Power) -> SiteUpdate:
        """`update` from given moments."""

    @abc.abstractmethod
    def powered_density(self) -> PoweredDensity | None:
        """The density of which the rows' terms are powers, at cavities; None for other terms."""

    @abc.abstractmethod
    def moment_changes(
        self, responses: Sequence[AbstractResponse], changes: Sequence[Any]
    ) -> EdgeMoments:
        """Changes of the moments that rows see, from changes of the beliefs."""

    @abc.abstractmethod
    def leave_one_out(self, q: Beliefs, sites: Stores) -> Float[Array, "N P"] | None:
        """Log predictive density of every output given all others; None where rows share sites."""

    @abc.abstractmethod
    def site_precisions(self, q: Beliefs, sites: Stores) -> tuple[Float[Array, "N P"], ...] | None:
        """Precisions of the rows' scalar sites, per edge; None where there are none."""


def no_update() -> SiteUpdate:
    """The update of a factor without stored sites."""
    zero = jnp.zeros(())
    return SiteUpdate((), zero, zero, ())
