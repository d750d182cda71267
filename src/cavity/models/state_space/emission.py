"""Emissions: the functions of a state that outputs are observations of."""

import abc
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.local_terms import PowerMeanTerm
from cavity.inference.factors.averaged import AveragedRegression
from cavity.inference.factors.stored import ExpectedDensity
from cavity.inference.graph.rows import Rows
from cavity.inference.propagation import AbstractPropagation
from cavity.inference.variables.chain import Links
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inducing_view import InducingView, OutputMean
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import GaussianInLatent, capability
from cavity.means import AbstractMean
from cavity.models.deep.layer import Layer, LayerProcess
from cavity.models.deep.regression import regression
from cavity.models.inputs.views import principal_components
from cavity.models.state_space.conditional import (
    AbstractPathEmission,
    AffinePaths,
    FunctionPaths,
)
from cavity.models.state_space.site_graph import EmissionSites
from cavity.models.state_space.site_terms import AffineTerm, EmissionTerm
from cavity.models.state_space.site_views import AffineStateView, OneStateView
from cavity.models.state_space.start import STATE_SHARE, affine_start, interpolated
from cavity.models.state_space.views import AffineEmissions, Emissions
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Scalar


class EmissionParts(NamedTuple):
    """The terms of outputs under Gaussian states.

    Attributes:
        regressions: of outputs on states.
        densities: expected log densities of outputs.
    """

    regressions: tuple[AveragedRegression, ...]
    densities: tuple[ExpectedDensity, ...]


class AbstractEmission(eqx.Module):
    """Functions of a state, one for each output.

    To implement:
        `controlled`, `layers`, `width(states)`, `check(states, controls)`,
        `closed_form(likelihood)`, `parts(likelihood, first, jitter, rows, power)`,
        `site_parts(likelihood, outputs, states, propagation, jitter)`,
        `path_parts(likelihood, outputs, jitter)`, `functions(views, beliefs)` and
        `start(likelihood, rows, links, states)`.
    """

    @property
    @abc.abstractmethod
    def controlled(self) -> bool:
        """True if the functions take controls."""

    @property
    @abc.abstractmethod
    def layers(self) -> tuple[Layer, ...]:
        """The functions with Gaussian process priors, if any."""

    @abc.abstractmethod
    def width(self, states: int) -> int:
        """The number of functions."""

    @abc.abstractmethod
    def check(self, states: int, controls: int) -> None:
        """Raises ValueError where parts have other numbers of columns than the states."""

    @abc.abstractmethod
    def closed_form(self, likelihood: AbstractLikelihood) -> bool:
        """True if expected log densities under Gaussian states have a closed form."""

    @abc.abstractmethod
    def parts(
        self,
        likelihood: AbstractLikelihood,
        first: int,
        jitter: float | Scalar,
        rows: Rows,
        power: Power,
    ) -> "EmissionParts":
        """The terms of the outputs under Gaussian states.

        Args:
            likelihood: the density of an output given its function.
            first: the index of the first variable that is to be used.
            jitter: share of the mean prior variance added to the diagonal of a covariance.
            rows: the data.
            power: the power of all rows.
        """

    @abc.abstractmethod
    def path_parts(
        self, likelihood: AbstractLikelihood, outputs: int, jitter: float | Scalar
    ) -> tuple[AbstractPathEmission, tuple[InducingView, ...]]:
        """The terms of outputs along paths of states, and how they see inducing variables.

        Args:
            likelihood: the density of an output given its function.
            outputs: their number.
            jitter: share of the mean prior variance added to the diagonal of a covariance.
        """

    @abc.abstractmethod
    def site_parts(
        self,
        likelihood: AbstractLikelihood,
        outputs: int,
        states: int,
        propagation: AbstractPropagation,
        jitter: float | Scalar,
    ) -> EmissionSites:
        """The terms of the outputs where states have sites.

        Args:
            likelihood: the density of an output given its function.
            outputs: their number.
            states: coordinates of a state.
            propagation: how Gaussians go through functions.
            jitter: share of the mean prior variance added to the diagonal of a covariance.
        """

    @abc.abstractmethod
    def functions(
        self, views: Sequence[InducingView], beliefs: Sequence[InducingBelief]
    ) -> "LayerProcess | AbstractMean":
        """The functions under beliefs about their inducing variables, if they have any."""

    @abc.abstractmethod
    def start(
        self, likelihood: AbstractLikelihood, rows: Rows, links: Links, states: int
    ) -> tuple[Float[Array, "T D"], Float[Array, "D D"]]:
        """Means of states at which a search starts, and a covariance that all have."""


class AffineEmission(AbstractEmission):
    """Affine functions.

    Attributes:
        mean: the functions, such as `cavity.means.Linear(weights)`.
    """

    mean: AbstractMean

    @property
    def controlled(self) -> bool:
        return False

    @property
    def layers(self) -> tuple[Layer, ...]:
        return ()

    def width(self, states: int) -> int:
        shape = np.shape(self.mean(jnp.zeros((1, states))))
        return shape[1] if len(shape) > 1 else 1

    def check(self, states: int, controls: int) -> None:
        x = np.random.default_rng(0).standard_normal((4, states))
        x[2], x[3] = 0.0, x[0] + 2.0 * x[1]
        values = np.asarray(self.mean(jnp.asarray(x)))
        gap = values[3] - values[0] - 2.0 * (values[1] - values[2])
        if np.max(np.abs(gap)) > 1e-5 * (1.0 + np.max(np.abs(values))):
            raise ValueError(
                "an emission by a mean function must be affine, such as "
                "cavity.means.Linear(weights): for others give a cavity.Layer"
            )

    def closed_form(self, likelihood: AbstractLikelihood) -> bool:
        return True

    def parts(
        self,
        likelihood: AbstractLikelihood,
        first: int,
        jitter: float | Scalar,
        rows: Rows,
        power: Power,
    ) -> "EmissionParts":
        sight = AffineEmissions(OutputMean(self.mean, rows.y.shape[-1]))
        return EmissionParts((), (ExpectedDensity(likelihood, sight),))

    def path_parts(
        self, likelihood: AbstractLikelihood, outputs: int, jitter: float | Scalar
    ) -> tuple[AbstractPathEmission, tuple[InducingView, ...]]:
        return AffinePaths(likelihood, OutputMean(self.mean, outputs)), ()

    def site_parts(
        self,
        likelihood: AbstractLikelihood,
        outputs: int,
        states: int,
        propagation: AbstractPropagation,
        jitter: float | Scalar,
    ) -> EmissionSites:
        functions = OutputMean(self.mean, outputs)
        whole = AffineTerm(functions, likelihood, propagation)
        return EmissionSites(
            (), AffineStateView(functions, states), PowerMeanTerm(likelihood), whole
        )

    def functions(
        self, views: Sequence[InducingView], beliefs: Sequence[InducingBelief]
    ) -> AbstractMean:
        return self.mean

    def start(
        self, likelihood: AbstractLikelihood, rows: Rows, links: Links, states: int
    ) -> tuple[Float[Array, "T D"], Float[Array, "D D"]]:
        noise = capability(likelihood, GaussianInLatent)
        if noise is None:
            return component_start(rows, states)
        zero, y = jnp.zeros(states, rows.y.dtype), interpolated(rows, links)
        slopes = jax.jacfwd(lambda x: self.mean(x[None])[0])(zero)
        offset = jnp.reshape(self.mean(zero[None])[0], -1)
        variance = jnp.mean(noise.noise_variance())
        return affine_start(y - offset, jnp.reshape(slopes, (-1, states)), variance, links)


class GPEmission(AbstractEmission):
    """Functions with Gaussian process priors, and Gaussian noise.

    Attributes:
        layer: the functions.
    """

    layer: Layer

    @property
    def controlled(self) -> bool:
        return self.layer.skip_connection

    @property
    def layers(self) -> tuple[Layer, ...]:
        return (self.layer,)

    def width(self, states: int) -> int:
        return self.layer.width

    def check(self, states: int, controls: int) -> None:
        self.layer.check("the emission", states + (controls if self.controlled else 0))

    def closed_form(self, likelihood: AbstractLikelihood) -> bool:
        return capability(likelihood, GaussianInLatent) is not None

    def parts(
        self,
        likelihood: AbstractLikelihood,
        first: int,
        jitter: float | Scalar,
        rows: Rows,
        power: Power,
    ) -> "EmissionParts":
        noise = capability(likelihood, GaussianInLatent)
        assert noise is not None
        sight, views = Emissions(self.controlled), self.layer.views(jitter)
        variance = noise.noise_variance
        own = regression(self.layer, views, sight, variance, rows, power, first)
        return EmissionParts((own,), ())

    def path_parts(
        self, likelihood: AbstractLikelihood, outputs: int, jitter: float | Scalar
    ) -> tuple[AbstractPathEmission, tuple[InducingView, ...]]:
        views = self.layer.views(jitter)
        return FunctionPaths(likelihood, self.layer, views), views

    def site_parts(
        self,
        likelihood: AbstractLikelihood,
        outputs: int,
        states: int,
        propagation: AbstractPropagation,
        jitter: float | Scalar,
    ) -> EmissionSites:
        views = self.layer.views(jitter)
        term = EmissionTerm(self.layer, views, likelihood, propagation)
        return EmissionSites(views, OneStateView(False, states), term, term)

    def functions(
        self, views: Sequence[InducingView], beliefs: Sequence[InducingBelief]
    ) -> LayerProcess:
        return self.layer.process(views, beliefs)

    def start(
        self, likelihood: AbstractLikelihood, rows: Rows, links: Links, states: int
    ) -> tuple[Float[Array, "T D"], Float[Array, "D D"]]:
        return component_start(rows, states)


def component_start(rows: Rows, states: int) -> tuple[Float[Array, "T D"], Float[Array, "D D"]]:
    """Principal components of the outputs as states; where too few, those of rows before too."""
    components = principal_components(rows, min(states, rows.y.shape[1]))
    lags = range(-(-states // components.shape[1]))
    each = [jnp.roll(components, lag, axis=0) for lag in lags]
    mean = jnp.concatenate(each, axis=1)[:, :states]
    return mean, STATE_SHARE**2 * jnp.eye(states, dtype=mean.dtype)
