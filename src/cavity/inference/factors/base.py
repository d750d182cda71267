"""Edges, and the Gaussian regressions of a graph, which send messages and store nothing.

Regressions and local factors send Gaussian messages to variables. A regression's messages follow
from the parameters, and from what is believed of its rows' inputs and outputs, which is stored
(`stored.py`); a local factor (`local.py`) has stores, which its rows' sites are in.
"""

import abc
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

import equinox as eqx

from cavity.inference.factors.slots import AbstractSlots, Private
from cavity.inference.graph.base import (
    AbstractBelief,
    AbstractSiteView,
    AbstractVariable,
    AbstractView,
)
from cavity.inference.graph.marginals import Moments
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites
from cavity.likelihoods.base import AbstractLikelihood
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float

V = TypeVar("V", bound=AbstractView, covariant=True)

# One store of sites per edge.
Stores = tuple[Any, ...]
Beliefs = tuple[AbstractBelief, ...]
# The moments that rows see through each edge.
EdgeMoments = tuple[Moments, ...]
# Messages, with the indices of the variables that they go to.
Sent = tuple[tuple[int, Any], ...]


class Edge(eqx.Module, Generic[V]):
    """Connection of a factor to a variable.

    Attributes:
        variable: the index of the variable.
        view: the marginal that a row sees, and the messages that its site sends.
        slots: the stored site that a row uses.
    """

    variable: int = eqx.field(static=True)
    view: V
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


class AbstractRegression(eqx.Module):
    """Functions with Gaussian noise, whose rows send exact sites, averaged over their beliefs.

    The messages carry the log scales, so that a regression adds nothing else to the energy.

    To implement:
        the field `edges`; `messages(variables, stored)`, `leave_one_out(q)` and
        `site_precisions(q)`.
    """

    edges: eqx.AbstractVar[tuple[Edge, ...]]

    @abc.abstractmethod
    def messages(
        self, variables: Sequence[AbstractVariable], stored: Sequence[AbstractBelief]
    ) -> Sent:
        """The messages of all rows to the variables.

        Args:
            variables: those of the graph.
            stored: what is believed of the rows' own variables; none where inputs are known.
        """

    @abc.abstractmethod
    def leave_one_out(self, q: Beliefs) -> Float[Array, "N P"] | None:
        """Log predictive density of every output given all others; None where rows share sites."""

    @abc.abstractmethod
    def site_precisions(self, q: Beliefs) -> tuple[Float[Array, "N P"], ...] | None:
        """Precisions of the rows' scalar sites, per edge; None where there are none."""
