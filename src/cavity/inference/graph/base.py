"""Gaussian variables, their beliefs, and views: marginals of rows and messages of sites.

A model is Gaussian variables with priors, and factors that each touch a few variables. A row of
a factor depends on a marginal of a variable, often of a low-dimensional linear projection; the
variable receives Gaussian messages. A variable with all its messages makes a belief. A view owns
both directions: the marginal that rows depend on, and the messages of their sites.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.graph.marginals import (
    AbstractMarginal,
    Latent,
    Marginal,
    Moments,
    Projection,
    TermArgument,
    projected_marginal,
)
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites, empty_row_sites, masked
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Int, Scalar

# The change of a belief: of its mean, and of its covariance or variances.
Change = tuple[Array, Array]


class AbstractMessages(eqx.Module):
    """The product of Gaussian factors of a variable, with its scale.

    Messages to a variable add. Their shapes are the variable's own business: sums over rows
    for `WhitenedInducing`, one entry per row for `FunctionValues`.
    """

    shift: eqx.AbstractVar[Array]
    precision: eqx.AbstractVar[Array]
    log_scale: eqx.AbstractVar[Array]


class Messages(AbstractMessages):
    """A product of Gaussian factors by its shift and precision alone."""

    shift: Array
    precision: Array
    log_scale: Array


class AbstractResponse(eqx.Module):
    """The first-order change of a belief with its messages.

    To implement:
        `change(messages)`, for small messages whose shifts are taken about the belief's mean,
        and `marginal(change, projection)`.
    """

    @abc.abstractmethod
    def change(self, messages: Messages) -> Change:
        """The change of the belief, before it is projected."""

    @abc.abstractmethod
    def marginal(
        self, change: Change, projection: Projection
    ) -> tuple[Float[Array, "*rows P"], Float[Array, "*rows P"]]:
        """Changes of the mean and variance of the projected variable."""


class AbstractBelief(eqx.Module):
    """The approximate posterior of a variable.

    To implement:
        the field `log_normaliser`, log of the integral of prior times messages, in nats.
    """

    log_normaliser: eqx.AbstractVar[Scalar]


class AbstractProjectedBelief(AbstractBelief):
    """A belief that rows see through linear projections.

    To implement:
        `log_normaliser`, `marginal(projection)`, `response()` and `dense()`.
    """

    @abc.abstractmethod
    def marginal(
        self, projection: Projection
    ) -> tuple[Float[Array, "*rows P"], Float[Array, "..."]]:
        """Mean and (co)variance of the projected variable, residual and offset left out."""

    @abc.abstractmethod
    def response(self) -> AbstractResponse:
        """The first-order change of the belief with its messages."""

    @abc.abstractmethod
    def dense(self) -> tuple[Float[Array, "P M"], Float[Array, "P M M"]]:
        """Means and covariances of the whole variable, per output."""


class AbstractVariable(eqx.Module):
    """A Gaussian variable and its prior; P outputs are P copies with the same prior.

    To implement:
        `belief(messages)`.

    Attributes:
        holds_values: whether the variable is a `FunctionValues`, the function at the data.
        chained: whether what rows have sites on depends on the sites of their neighbours.
        flat: whether the prior is flat, so that sites of a factor must make the belief proper.
    """

    holds_values: ClassVar[bool] = False
    chained: ClassVar[bool] = False
    flat: ClassVar[bool] = False

    @abc.abstractmethod
    def belief(self, messages: Any) -> AbstractBelief:
        """The posterior under these messages; NaN where it is not a proper Gaussian."""


class AbstractProjectedVariable(AbstractVariable):
    """A variable that rows see through linear projections.

    To implement:
        `belief(messages)`, `messages_from_sites(shift, precision, log_scale, projection)` and
        `replace_rows(messages, index, change)`.
    """

    @abc.abstractmethod
    def messages_from_sites(
        self,
        shift: Float[Array, "..."],
        precision: Float[Array, "..."],
        log_scale: Float[Array, " rows"],
        projection: Projection,
    ) -> Messages:
        """The messages of a chunk of rows (or blocks) with these sites."""

    @abc.abstractmethod
    def replace_rows(
        self, messages: Messages, index: Int[Array, " rows"], change: Messages
    ) -> Messages:
        """The messages after the sites of some rows have changed."""


# The belief (or cavity) and the variable that a view is of.
Source = TypeVar("Source", contravariant=True)
Variable = TypeVar("Variable", contravariant=True)


@runtime_checkable
class HasMarginals(Protocol):
    """A belief or cavity that rows see through linear projections."""

    def marginal(
        self, projection: Projection
    ) -> tuple[Float[Array, "*rows P"], Float[Array, "..."]]:
        """Mean and (co)variance of the projected variable, residual and offset left out."""
        ...


class AbstractView(eqx.Module, Generic[Source]):
    """View of a variable that the rows of a factor have.

    To implement:
        `presence(rows)`, `marginal(belief, rows, sites)` and `at(moments, rows)`.

    Attributes:
        scalar: whether each site is a scalar Gaussian on a function value.
        layered: whether a row sees weights of several layers, whose sites depend on each other.
        whitened: whether it is an `AbstractWhitenedView`, whose projections rows may carry.
    """

    scalar: ClassVar[bool] = True
    layered: ClassVar[bool] = False
    whitened: ClassVar[bool] = False

    @abc.abstractmethod
    def presence(self, rows: Rows) -> Array:
        """The power that a site counts with: the weight of its row, 0 for a missing output."""

    @abc.abstractmethod
    def marginal(
        self, belief: Source, rows: Rows, sites: AbstractSites | None = None
    ) -> AbstractMarginal:
        """The marginal that these rows see.

        Args:
            belief: the variable's posterior.
            rows: the rows.
            sites: their own sites, for views whose marginals depend on them.
        """

    @abc.abstractmethod
    def at(self, moments: Moments, rows: Rows) -> AbstractMarginal:
        """The marginal that these rows see where its moments are given."""


class AbstractSiteView(AbstractView[Source], Generic[Source, Variable]):
    """A view of rows that have sites of their own, and how these become messages.

    To implement:
        what every view needs, `empty_sites(rows)`, `messages(variable, rows, sites)` and
        `without_site(belief, rows, sites)`.
    """

    @abc.abstractmethod
    def empty_sites(self, rows: Rows) -> AbstractSites:
        """Sites of precision zero for these rows."""

    def own_sites(self, rows: Rows, sites: AbstractSites) -> AbstractSites:
        """Sites as `messages` and `without_site` take them: to the power that they count with."""
        return masked(sites, self.presence(rows))

    @abc.abstractmethod
    def messages(self, variable: Variable, rows: Rows, sites: AbstractSites) -> AbstractMessages:
        """The messages of `own_sites` of these rows."""

    @abc.abstractmethod
    def without_site(
        self, belief: Source, rows: Rows, sites: AbstractSites
    ) -> tuple[TermArgument, Array]:
        """The distribution of f without all of a row's `own_sites`, and whether it is proper."""


class AbstractProjectedView(AbstractSiteView[HasMarginals, AbstractProjectedVariable]):
    """A view of linear projections of a variable, with a scalar or block site per row.

    Messages are linear in the sites, and marginals do not depend on a row's own site, as
    Newton's method needs.

    To implement:
        `project(rows)`, computed anew for each chunk of rows, and `gaussian_messages(...)`.
    """

    @abc.abstractmethod
    def project(self, rows: Rows) -> Projection:
        """The projection of the variable that these rows see."""

    def empty_sites(self, rows: Rows) -> AbstractSites:
        return empty_row_sites(rows)

    def presence(self, rows: Rows) -> Array:
        return rows.site_presence

    def marginal(
        self, belief: HasMarginals, rows: Rows, sites: AbstractSites | None = None
    ) -> Marginal:
        projection = self.project(rows)
        mean, var = belief.marginal(projection)
        if projection.loadings is None and rows.index is not None:
            # without loadings a belief gives the marginals of all its elements
            mean, var = mean[rows.index], var[rows.index]
        return projected_marginal(_outputs_first(mean, rows), var, projection)

    def at(self, moments: Moments, rows: Rows) -> Marginal:
        return projected_marginal(*moments, self.project(rows))

    def messages(
        self, variable: AbstractProjectedVariable, rows: Rows, sites: AbstractSites
    ) -> Messages:
        zero = jnp.zeros(rows.y.shape[0], rows.y.dtype)
        projection = self.project(rows)
        return variable.messages_from_sites(sites.shift, sites.precision, zero, projection)

    def moment_change(self, response: AbstractResponse, change: Change, rows: Rows) -> Moments:
        """Changes of the moments that these rows see, from the change of a belief."""
        return response.marginal(change, self.project(rows))

    def without_site(
        self, belief: HasMarginals, rows: Rows, sites: AbstractSites
    ) -> tuple[Latent, Array]:
        marginal = self.marginal(belief, rows, sites)
        mean, var, proper = sites.cavity(*marginal.moments, 1.0)
        return marginal.latent(mean, var), proper

    @abc.abstractmethod
    def gaussian_messages(
        self,
        variable: AbstractProjectedVariable,
        rows: Rows,
        noise_variance: Callable[..., Array],
        power: Power,
        chunk: int,
        volume: float | None = None,
    ) -> Messages:
        """The messages of rows with Gaussian noise, whose sites are functions of the projection.

        Args:
            variable: the variable that they see.
            rows: all rows.
            noise_variance: of rows, from their side data.
            power: the power of all rows; `rows.power` takes its place where given.
            chunk: rows worked on at a time.
            volume: the power of the volume that residuals take from the evidence; None for that
                of the precision.
        """


class AbstractWhitenedView(AbstractProjectedView):
    r"""A view of whitened inducing variables, $\mathbf L^{-1} \mathbf u$.

    To implement:
        the fields, `covariances(rows)`, `explained(rows)`, and what every projected view needs.

    Attributes:
        number: views with the same number see the same loadings and residuals, which rows carry
            under it; None for a view that shares them with no other.
        factor: Cholesky factor of the covariance of the inducing variables.
        root: its inverse.
    """

    whitened: ClassVar[bool] = True
    number: eqx.AbstractVar[int | None]
    factor: eqx.AbstractVar[Float[Array, "M M"]]  # L
    root: eqx.AbstractVar[Float[Array, "M M"]]  # L⁻¹

    @abc.abstractmethod
    def covariances(
        self, rows: Rows
    ) -> tuple[Float[Array, "M N"], Float[Array, " N"], Float[Array, "N P"]]:
        """Covariances of u with the rows' functions, the prior variances and means of these."""

    @abc.abstractmethod
    def explained(self, rows: Rows) -> tuple[Float[Array, "*rows M"], Float[Array, "..."]]:
        """Loadings with rows in front, and residuals: all of a projection but its offset."""


def _outputs_first(mean: Array, rows: Rows) -> Array:
    """Blocks have their outputs first."""
    return jnp.swapaxes(mean, 1, 2) if rows.blocked else mean
