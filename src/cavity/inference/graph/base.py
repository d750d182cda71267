"""Gaussian variables, and how factors see them.

A model is Gaussian variables with priors, and factors that each touch a few of them. What a
factor sees of a variable is a low-dimensional linear projection; what a variable receives
from a factor are Gaussian messages. A variable and all its messages make a belief.
"""

import abc
from typing import Any

import equinox as eqx

from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites
from cavity.inference.variables.class_contrasts import Contrasts
from cavity.numerics.types import Array, Float, Int, Scalar


class Projection(eqx.Module):
    r"""How rows see a variable: $f_n = o_n + \mathbf a_n^\top \mathbf v + \epsilon_n$.

    Attributes:
        loadings: $\mathbf a$, M x rows (of classes one for each, or for all, G x M x rows); None
            where row n sees the n-th element itself.
        residual: variance of $\epsilon$ given $\mathbf v$: one per row, or per row and output, or
            a covariance per block.
        offset: $o$, the prior mean of f.
        contrasts: the auxiliary variables through which the row sees its classes, if any.
    """

    loadings: Float[Array, "..."] | None
    residual: Float[Array, "..."]
    offset: Float[Array, "*rows P"]
    contrasts: Contrasts | None = None


class AbstractView(eqx.Module):
    """Which marginal of a variable a factor's rows see.

    To implement:
        `project(rows)`, computed anew for each chunk of rows.
    """

    @abc.abstractmethod
    def project(self, rows: Rows) -> Projection:
        """The projection of the variable that these rows see."""


class AbstractWhitenedView(AbstractView):
    r"""A view of whitened inducing variables, $\mathbf L^{-1} \mathbf u$.

    To implement:
        the fields, and `covariances(rows)`.
    """

    factor: eqx.AbstractVar[Float[Array, "M M"]]  # L
    root: eqx.AbstractVar[Float[Array, "M M"]]  # L⁻¹

    @abc.abstractmethod
    def covariances(
        self, rows: Rows
    ) -> tuple[Float[Array, "M N"], Float[Array, " N"], Float[Array, "N P"]]:
        """Covariances of u with the rows' functions, the prior variances and means of these."""


class Messages(eqx.Module):
    """The product of Gaussian factors of a variable, with its scale.

    Messages to a variable add. Their shapes are the variable's own business: sums over rows
    for `WhitenedInducing`, one entry per row for `FunctionValues`.
    """

    shift: Array
    precision: Array
    log_scale: Array


class AbstractResponse(eqx.Module):
    """How a belief changes with its messages, to first order.

    To implement:
        `change(messages)`, of small messages whose shifts are taken about the belief's mean, and
        `marginal(change, projection)`.
    """

    @abc.abstractmethod
    def change(self, messages: Messages) -> Any:
        """What the messages change, before it is projected."""

    @abc.abstractmethod
    def marginal(
        self, change: Any, projection: Projection
    ) -> tuple[Float[Array, "*rows P"], Float[Array, "*rows P"]]:
        """Changes of the mean and variance of the projected variable."""


class AbstractBelief(eqx.Module):
    """A variable's approximate posterior.

    To implement:
        the field `log_normaliser`, log of the integral of prior times messages, in nats,
        `marginal(projection)`, `response()` and `dense()`.
    """

    log_normaliser: eqx.AbstractVar[Scalar]

    @abc.abstractmethod
    def marginal(
        self, projection: Projection, site: AbstractSites | None = None
    ) -> tuple[Float[Array, "*rows P"], Float[Array, "..."]]:
        """Mean and (co)variance of the projected variable, residual and offset left out.

        Args:
            projection: what rows see.
            site: their own sites, which contrasts need; without them contrasts give the classes.
        """

    @abc.abstractmethod
    def response(self) -> AbstractResponse:
        """How the belief changes with its messages."""

    @abc.abstractmethod
    def dense(self) -> tuple[Float[Array, "P M"], Float[Array, "P M M"]]:
        """Means and covariances of the whole variable, per output."""


class AbstractVariable(eqx.Module):
    """A Gaussian variable and its prior; P outputs are P copies with the same prior.

    To implement:
        `scatter(shift, precision, log_scale, projection)`, what sites on projections say about
        the variable, `revise(messages, index, change)`, and `belief(messages)`.
    """

    @abc.abstractmethod
    def scatter(
        self,
        shift: Float[Array, "..."],
        precision: Float[Array, "..."],
        log_scale: Float[Array, " rows"],
        projection: Projection,
    ) -> Messages:
        """The messages of a chunk of rows (or blocks) with the given sites."""

    @abc.abstractmethod
    def revise(self, messages: Messages, index: Int[Array, " rows"], change: Messages) -> Messages:
        """The messages after the sites of some rows, and so what they send, have changed."""

    @abc.abstractmethod
    def belief(self, messages: Messages) -> AbstractBelief:
        """The posterior under these messages; NaN where it is not a proper Gaussian."""
