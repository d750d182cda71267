"""The likelihood interface: the density of an output given its latent values."""

import abc
import dataclasses
import typing
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from cavity.likelihoods.capabilities import (
    AveragesOverPoints,
    GaussianInLatent,
    HasClassProbabilities,
    HasGaussianBound,
    HasNoiseParameter,
    capability,
    number_of_classes,
)
from cavity.likelihoods.predictive.base import NONE, AbstractPredictive, Side
from cavity.likelihoods.support import Support
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.quadrature import Tilted
from cavity.numerics.types import Array, Bool, Float
from cavity.parameters import Units
from cavity.parameters.table import Tabled

_RENAMED = {"landmarks": "features", "guess": "initial_latents", "opens": "analytic_in_cone"}


@dataclasses.dataclass(frozen=True)
class LatentFunction:
    """Name, unit and prior mean of one latent function of a likelihood.

    Attributes:
        name: what its values are, in a word or two.
        units: the units of its values; without an output unit they are pure numbers.
        log_output: where values are the logarithm of a quantity, the power of the output's unit
            in which that quantity is measured.
        start: its prior mean to start from, given the noise variance of a regression on the
            first function; None for zero. The first function starts from `initial_latents`.
        prior: of a parameter of the likelihood that is integrated out, which is a function of the
            same value in all rows: mean and standard deviation of its Gaussian prior. None for
            functions of the inputs.
    """

    name: str = "f"
    units: Units = Units(output=1)
    log_output: int = 0
    start: Callable[[float], float] | None = None
    prior: tuple[Any, Any] | None = None

    def prior_mean(self, noise_variance: float) -> float:
        """The prior mean to start from, given the noise variance of the first function."""
        return 0.0 if self.start is None else float(self.start(noise_variance))


ONE_LATENT = (LatentFunction(),)


class AbstractLikelihood(Tabled, eqx.Module):
    r"""$p(y \mid f)$ for one datum: moments under a Gaussian cavity, and predictions.

    Likelihoods with closed forms derive from this class. With nothing but a density, derive from
    `AbstractQuadratureLikelihood` (one latent function) or `AbstractCubatureLikelihood` (several).
    What else a likelihood can do is declared by the protocols in `likelihoods/capabilities.py`.

    To implement:
        `support`, `latent_functions`, `log_prob`, `log_power_mean`, `tilted` and `predictive`.
        Parameters are declared as in kernels.

    Attributes:
        support: the values that outputs may take.
        latent_functions: the latent functions on which an output depends. With several, means
            and variances of f have them along a first axis.
        side: names of the side data that `log_prob` takes as keywords.
        log_concave: whether the density is log-concave in f for every y; sites then never have
            negative precisions.
        smooth: whether the log density has two derivatives in f everywhere.
        analytic_in_cone: whether the density stays analytic, and not much larger than on the real
            line, within 45 degrees of the line about the centre of its `analytic_strip`.
        couples: whether inference may leave several latent functions dependent.
        differences: whether the density depends on differences of latent functions alone.
    """

    support: eqx.AbstractClassVar[Support]
    latent_functions: eqx.AbstractVar[tuple[LatentFunction, ...]]
    side: ClassVar[tuple[str, ...]] = ()
    log_concave: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    analytic_in_cone: ClassVar[bool] = False
    couples: ClassVar[bool] = False
    differences: ClassVar[bool] = False

    def __init_subclass__(cls):
        for old in _RENAMED.keys() & vars(cls).keys():
            raise TypeError(f"{cls.__name__}.{old} is called {_RENAMED[old]} now: rename it")
        base = AbstractLikelihood
        missing = {
            "log_power_mean": cls.log_power_mean is base.log_power_mean,
            "tilted": cls.tilted is base.tilted,
            "predictive": cls.predictive is base.predictive,
        }
        absent = [name for name, is_missing in missing.items() if is_missing]
        if absent and not cls.__name__.startswith("Abstract"):
            raise TypeError(
                f"{cls.__name__} defines no {', '.join(absent)}: derive it from "
                "cavity.likelihoods.AbstractQuadratureLikelihood, which computes them from "
                "log_prob (from AbstractCubatureLikelihood for several latent functions)"
            )

    @abc.abstractmethod
    def log_prob(
        self, f: Float[Array, "..."], y: Float[Array, "..."], **side: Array
    ) -> Float[Array, "..."]:
        """Log density of y given the latent value, in nats.

        Args:
            f: latent values.
            y: outputs, within the support.
            **side: side data of the rows.
        """

    @abc.abstractmethod
    def log_power_mean(
        self,
        mean: Float[Array, "..."],
        var: Float[Array, "..."],
        y: Float[Array, "..."],
        power: Power,
        side: Side = NONE,
    ) -> Float[Array, "..."]:
        r"""$\log M_a = \tfrac1a \log \mathbb E_{\mathcal N(f; m, v)}[p(y \mid f)^a]$, elementwise.

        At power 0 this is the limit, $\mathbb E[\log p(y \mid f)]$.
        """

    @abc.abstractmethod
    def tilted(
        self,
        mean: Float[Array, "..."],
        var: Float[Array, "..."],
        y: Float[Array, "..."],
        power: Power,
        side: Side = NONE,
    ) -> Tilted:
        r"""$\log M_a$ with its slope and curvature in the mean, elementwise."""

    @abc.abstractmethod
    def predictive(
        self, mean: Float[Array, "..."], var: Float[Array, "..."], side: Side = NONE
    ) -> AbstractPredictive:
        """The predictive distribution of y where f has these marginals."""

    @property
    @typing.final
    def latents(self) -> int:
        """The number of latent functions."""
        return len(self.latent_functions)

    @property
    @typing.final
    def shared_priors(self) -> tuple[tuple[Any, Any], ...]:
        """Prior means and deviations of the latent values that all rows share.

        These are parameters that are integrated out, after the functions of single rows.
        """
        priors = (latent.prior for latent in self.latent_functions)
        return tuple(prior for prior in priors if prior is not None)

    @typing.final
    def at_shared_means(self, f: Array) -> Array:
        """f, and after it the values that all rows share at their prior means, if there are any.

        Args:
            f: of one latent function.
        """
        shared = [jnp.full_like(f, location) for location, _ in self.shared_priors]
        return jnp.stack([f, *shared]) if shared else f

    @property
    @typing.final
    def has_bound(self) -> bool:
        """True if the density has a Gaussian lower bound, `bound`."""
        with_bound = capability(self, HasGaussianBound)
        return with_bound is not None and with_bound.bounded

    @property
    @typing.final
    def gaussian_noise(self) -> GaussianInLatent | None:
        """The likelihood, where its noise is Gaussian about f; None otherwise."""
        return capability(self, GaussianInLatent)

    @property
    @typing.final
    def noise_parameter(self) -> HasNoiseParameter | None:
        """The likelihood, where the variance of Gaussian noise is a parameter; None otherwise."""
        return capability(self, HasNoiseParameter)

    @property
    @typing.final
    def class_probabilities(self) -> HasClassProbabilities | None:
        """The likelihood, where its functions are those of classes; None otherwise."""
        return capability(self, HasClassProbabilities)

    @typing.final
    def sampled(self, power: Power) -> bool:
        """True if moments are averages over points, whose curvature may have any sign."""
        averages = capability(self, AveragesOverPoints)
        return averages is not None and not any(
            is_exactly(power, exact) for exact in averages.exact_powers
        )

    @typing.final
    def accepts(self, y: Float[Array, "..."]) -> Bool[Array, "..."]:
        """True where a value is a possible output."""
        inside = self.support.contains(y)
        return inside & (y < number_of_classes(self)) if self._is_label else inside

    @property
    @typing.final
    def accepted(self) -> str:
        """The possible outputs, in words."""
        if not self._is_label:
            return self.support.value
        classes = number_of_classes(self)
        return f"the labels 0 {'and' if classes == 2 else 'to'} {classes - 1}"

    @property
    def _is_label(self) -> bool:
        return self.support is Support.LABELS
