"""Protocols: what a likelihood or a predictive may offer beside its density; the one test."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from cavity.numerics.power_limits import Power
from cavity.numerics.quadrature import Feature
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.parameters.gaussian_scale import GaussianScales

P = TypeVar("P")


class Bound(NamedTuple):
    r"""A Gaussian lower bound $\exp(c + s (f - f_0) - \tfrac12 \tau (f - f_0)^2)$ of a density.

    Attributes:
        centre: $f_0$.
        slope: $s$.
        precision: $\tau$.
        constant: $c$.
    """

    centre: Float[Array, "..."]
    slope: Float[Array, "..."]
    precision: Float[Array, "..."]
    constant: Float[Array, "..."]


@runtime_checkable
class HasFeatures(Protocol):
    """A density whose features in f are known, so that quadrature need not search for them."""

    def features(
        self, mean: Array, var: Array, y: Array, power: Power, **side: Array
    ) -> tuple[Feature, ...]:
        """Centres and widths of the features of the density in f.

        Args:
            mean: mean of the Gaussian that the density is integrated against.
            var: its variance.
            y: outputs.
            power: the power to which the density is raised.
            **side: side data of the rows.
        """
        ...


@runtime_checkable
class HasAnalyticStrip(Protocol):
    """A density that is analytic in f near the real line, where few even nodes suffice."""

    def analytic_strip(self, y: Array, **side: Array) -> Feature:
        """Centre of the density in f, and half-width of the strip where it is analytic.

        In the strip around the real line the density is not much larger than on the line.

        Args:
            y: outputs.
            **side: side data of the rows.
        """
        ...


@runtime_checkable
class HasGaussianBound(Protocol):
    """A density with a Gaussian lower bound, as local variational methods need it.

    Attributes:
        bounded: whether the bound exists for the settings of this likelihood.
    """

    @property
    def bounded(self) -> bool: ...

    def bound(self, mean: Array, var: Array, y: Array, **side: Array) -> Bound:
        """The Gaussian lower bound with the largest expected logarithm under N(f; mean, var)."""
        ...


@runtime_checkable
class GaussianInLatent(Protocol):
    """Noise that is Gaussian about f: sites and the evidence have closed forms."""

    def noise_variance(self, **side: Array) -> Float[Array, "..."]:
        """The noise variance of each row and output, given the side data of the rows."""
        ...


@runtime_checkable
class HasNoiseParameter(GaussianInLatent, Protocol):
    """Gaussian noise whose variance is a parameter, but for rows with one of their own."""

    @property
    def variance(self) -> Float[Array, "..."]:
        """The parameter."""
        ...


@runtime_checkable
class HasHeldParameters(Protocol):
    """A likelihood with parameters integrated out, which have values all the same.

    Attributes:
        scales: their names, and the scales on which their priors are Gaussian.
    """

    @property
    def scales(self) -> GaussianScales: ...

    def holding(self) -> "HasHeldParameters":
        """The likelihood with priors that are all but points at these values."""
        ...


@runtime_checkable
class HasBlockPowerMean(Protocol):
    """Noise whose power mean over a block of dependent rows has a closed form."""

    def noise_variance(self, **side: Array) -> Float[Array, "..."]:
        """The noise variance of each row and output, given the side data of the rows."""
        ...

    def log_power_mean_block(
        self,
        mean: Float[Array, " B"],
        cov: Float[Array, "B B"],
        y: Float[Array, " B"],
        presence: Float[Array, " B"],
        variance: Float[Array, " B"],
        power: float | Float[Array, ""],
    ) -> Float[Array, ""]:
        """The log power mean of a block of outputs; absent outputs do not count."""
        ...


@runtime_checkable
class HasDistributionFunction(Protocol):
    """Outputs whose distribution function given f has a closed form."""

    def cdf(self, y: Array, f: Array, **side: Array) -> Array:
        """Probability that the output is at most y given f."""
        ...

    def predictive_moments(self, mean: Array, var: Array, **side: Array) -> tuple[Array, Array]:
        """Mean and variance of y where f has this mean and this variance."""
        ...


@runtime_checkable
class HasSampler(Protocol):
    """Outputs that can be drawn given f."""

    def sample(self, key: PRNGKeyArray, f: Array, **side: Array) -> Array:
        """One output for every latent value, drawn independently."""
        ...


@runtime_checkable
class HasHeavyTails(Protocol):
    """Noise that bears outliers."""

    def outlier_weights(self, residuals: np.ndarray) -> np.ndarray | None:
        """Weight with which each output pulls the function, relative to one that fits perfectly.

        It is the weight of iteratively reweighted least squares; below one half the log density
        is convex in f. None where no output pulls harder than any other, however far out it is.

        Args:
            residuals: outputs minus latent values.
        """
        ...


@runtime_checkable
class HasInitialLatents(Protocol):
    """A likelihood with its own rule for latent values to start from."""

    def initial_latents(self, y: np.ndarray, **side: np.ndarray) -> np.ndarray:
        """Rough latent values that would give these outputs, (N,), or (N, L) for L functions.

        Args:
            y: outputs, (N,).
            **side: side data of the rows.
        """
        ...


@runtime_checkable
class Labels(Protocol):
    """Outputs that are class labels 0 to `classes` - 1."""

    @property
    def classes(self) -> int:
        """The number of classes."""
        ...


@runtime_checkable
class HasClassProbabilities(Protocol):
    """Class labels whose probabilities follow from jointly Gaussian functions of the classes."""

    def log_probabilities(
        self, mean: Float[Array, "n C"], cov: Float[Array, "n C C"]
    ) -> Float[Array, "n C"]:
        """Log probabilities of all classes."""
        ...


@runtime_checkable
class HasMultinomialCurvature(HasClassProbabilities, Protocol):
    r"""Class labels whose log density has the Hessian of the softmax.

    It is $-(\mathrm{diag}\,\mathbf p - \mathbf p \mathbf p^\top)$ in the functions of the
    classes, so that Laplace's method keeps these functions dependent.
    """

    def log_shares(self, f: Float[Array, "... C"]) -> Float[Array, "... C"]:
        r"""$\log \mathbf p$, the log probabilities of the classes given their functions."""
        ...


@runtime_checkable
class OrderedLabels(Labels, Protocol):
    """Class labels with an order."""

    @property
    def edges(self) -> Array:
        """The edges between classes on the axis of the latent function, increasing."""
        ...


@runtime_checkable
class AveragesOverPoints(Protocol):
    """Moments that are averages over a fixed set of points, but for some powers.

    Attributes:
        exact_powers: the powers whose moments have a closed form.
    """

    @property
    def exact_powers(self) -> tuple[float, ...]: ...


@runtime_checkable
class ConditionedOnLatent(Protocol):
    """Predictive distributions of outputs that are cheap given the latent value.

    Attributes:
        latent_mean: means of the latent function.
        latent_var: its variances.
    """

    @property
    def latent_mean(self) -> Float[Array, "..."]: ...

    @property
    def latent_var(self) -> Float[Array, "..."]: ...

    def log_density_given(self, f: Array, y: Array) -> Array:
        """Log density of y given f."""
        ...

    def cdf_given(self, f: Array, y: Array) -> Array:
        """Probability that the output is at most y given f."""
        ...


@runtime_checkable
class HasRoughDensity(Protocol):
    """Predictive distributions with a cheap density, for tables of many values of y."""

    def rough_log_density(self, y: Float[Array, "..."]) -> Float[Array, "..."]:
        """`log_density` with an error that a table does not show."""
        ...


def capability(part: object, protocol: type[P]) -> P | None:
    """The likelihood or predictive, where it offers what the protocol says; None otherwise."""
    return part if isinstance(part, protocol) else None


def number_of_classes(likelihood: object) -> int:
    """The number of classes of a likelihood of labels; 2 unless it declares another."""
    labels = capability(likelihood, Labels)
    return 2 if labels is None else labels.classes


def features(
    likelihood: object, mean: Array, var: Array, y: Array, power: Power, side: Mapping[str, Array]
) -> tuple[Feature, ...] | None:
    """The features of a density in f (see `HasFeatures`); None where they are not known."""
    with_features = capability(likelihood, HasFeatures)
    return None if with_features is None else with_features.features(mean, var, y, power, **side)
