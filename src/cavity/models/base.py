"""What a model is to inference and learning."""

import abc
from typing import Any

import equinox as eqx

from cavity.inducing.base import AbstractInducing
from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.energy import Graph
from cavity.inference.graph.rows import Rows
from cavity.likelihoods.base import AbstractLikelihood
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Scalar


class AbstractModel(eqx.Module):
    """A latent function with a prior, and how outputs depend on it. Holds no data.

    To implement:
        the four fields, `latents`, and `graph`, which lays the model out on data as Gaussian
        variables and factors. Inference, learning and prediction follow.
    """

    kernel: eqx.AbstractVar[Any]  # an AbstractKernel, or a tuple with one per latent function
    likelihood: eqx.AbstractVar[AbstractLikelihood]
    inducing: eqx.AbstractVar[AbstractInducing | None]
    mean: eqx.AbstractVar[Any]  # an AbstractMean, or a tuple with one per latent function

    @property
    @abc.abstractmethod
    def sparse(self) -> bool:
        """Whether rows see variables whose size does not grow with them."""

    @property
    @abc.abstractmethod
    def latents(self) -> tuple[Any, ...]:
        """The model of every latent function, each with one kernel and one mean."""

    @abc.abstractmethod
    def graph(
        self,
        rows: Rows,
        *,
        power: Power,
        approximation: AbstractApproximation,
        jitter: float | Scalar,
        chunk: int,
        total: Float[Array, " P"] | None = None,
        scale: Scalar | float = 1.0,
    ) -> Graph:
        """The model laid out for inference on these rows.

        Args:
            rows: padded data.
            power: the power of all rows (`rows.power` takes its place).
            approximation: what stands in the place of the likelihood terms.
            jitter: share of the mean prior variance added to the diagonal of a covariance.
            chunk: rows worked on at a time.
            total: the number of observed rows in all the data, per output, where these rows are
                some of them.
            scale: rows in all the data for each of these rows.
        """
