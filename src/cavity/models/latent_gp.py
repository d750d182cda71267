"""One latent function: its prior, and how it is laid out for inference."""

import dataclasses
from typing import Any, cast

import equinox as eqx

from cavity import means
from cavity.inducing.base import AbstractInducing, covariance, variances_from
from cavity.inducing.features import Features
from cavity.inference.graph.base import AbstractBelief, AbstractVariable, AbstractView
from cavity.inference.graph.rows import SLOPES, Rows
from cavity.inference.variables.function_values import (
    FunctionValues,
    FunctionValuesBelief,
    Identity,
)
from cavity.inference.variables.given import Given
from cavity.inference.variables.inducing import InducingBelief, WhitenedInducing
from cavity.inference.variables.inducing_view import (
    InducingView,
    OutputMean,
    inducing_view,
    observed,
)
from cavity.kernels.base import AbstractKernel
from cavity.kernels.stationary import Constant
from cavity.likelihoods.base import AbstractLikelihood
from cavity.means import AbstractMean
from cavity.models.process import AbstractProcess, FullProcess, SparseProcess
from cavity.numerics.linalg import jittered
from cavity.numerics.types import Scalar


def shared_parameters(likelihood: AbstractLikelihood) -> tuple["LatentGP", ...]:
    """The parameters that a likelihood has integrated out, as constant functions."""
    return tuple(
        LatentGP(Constant(deviation**2), means.Constant(location), Features(1))
        for location, deviation in likelihood.shared_priors
    )


class LatentGP(eqx.Module):
    r"""A latent function with a Gaussian process prior, $f \sim \mathcal{GP}(m, k)$.

    Attributes:
        kernel: covariance function, with what is not known of the mean.
        mean: prior mean function.
        inducing: inducing variables; None where rows see the function's own values.
    """

    kernel: AbstractKernel
    mean: AbstractMean
    inducing: AbstractInducing | None

    @property
    def size(self) -> int:
        """The number of inducing variables.

        Raises:
            ValueError: where there are none.
        """
        if self.inducing is None:
            raise ValueError("a full GP has no inducing variables")
        return self.inducing.size

    def lay_out(
        self,
        rows: Rows,
        jitter: float | Scalar,
        *,
        tied: bool,
        mixed: bool,
        number: int | None = None,
    ) -> tuple[AbstractVariable, AbstractView]:
        """The Gaussian variable that stands for the function, and how rows see it.

        Args:
            rows: padded data.
            jitter: share of the mean prior variance added to the diagonal of a covariance.
            tied: whether all rows share one site.
            mixed: whether sites may have negative precisions.
            number: under which rows carry their projection on inducing variables.
        """
        outputs = rows.y.shape[-1]
        if self.inducing is None:
            seen = observed(rows)
            prior = covariance(self.kernel, seen, seen)
            prior = jittered(prior, jitter, variances_from(seen, self.kernel))
            return FunctionValues(prior, mixed), Identity(self.output_mean(outputs))
        variable, view = self.sparse_layout(outputs, jitter)
        view = dataclasses.replace(view, number=number)
        return Given() if tied else variable, view

    def lay_out_like(
        self, laid_out: tuple[AbstractVariable, AbstractView], outputs: int
    ) -> tuple[AbstractVariable, AbstractView]:
        """Variable and view of another function with the same kernel and inducing variables."""
        variable, view = laid_out
        described: Any = view
        return variable, dataclasses.replace(described, mean=self.output_mean(outputs))

    def sparse_layout(
        self, outputs: int, jitter: float | Scalar
    ) -> tuple[WhitenedInducing, InducingView]:
        """The inducing variables of outputs that have a function each, and how rows see them."""
        assert self.inducing is not None
        mean = self.output_mean(outputs)
        view = inducing_view(self.kernel, self.inducing, mean, jitter)
        return WhitenedInducing(self.inducing.size), view

    def output_mean(self, outputs: int) -> OutputMean:
        """The prior mean with a column for each output."""
        return OutputMean(self.mean, outputs)

    def process(self, view: AbstractView, belief: AbstractBelief, rows: Rows) -> AbstractProcess:
        """The posterior process, from the view that `lay_out` gave and the variable's belief."""
        if self.inducing is not None:
            return SparseProcess(cast(InducingView, view), cast(InducingBelief, belief))
        values = cast(FunctionValuesBelief, belief)
        mean = self.output_mean(rows.y.shape[-1])
        inputs = observed(rows) if SLOPES in rows.side else rows.x
        return FullProcess(self.kernel, mean, inputs, values.weights, values.root, values.raised)
