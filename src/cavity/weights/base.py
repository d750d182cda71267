r"""Priors of weights: the density of a coefficient, as the one site update sees it.

A prior factor has one row for each weight, which observes nothing: its term is the density of the
weight itself. Most priors are scale mixtures of Gaussians over variances s,
$p(w) = \int h(s)\, \mathcal N(w; 0, s)\, ds$. At power 1 all that inference needs of these is
$M_1(m, v) = \int h(s)\, \mathcal N(0; m, v + s)\, ds$ and its derivatives in m.
"""

import abc
import typing
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr

from cavity.numerics.chunking import map_over_entries
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.quadrature import Tilted, mixed_derivatives
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float
from cavity.parameters.table import Tabled

Prior = TypeVar("Prior", bound="AbstractWeightPrior")
Result = TypeVar("Result")


class AbstractWeightPrior(Tabled, eqx.Module):
    """The prior of single weights.

    To implement:
        `starting_variance()`, `tilted(mean, var, power)` and `cdf(weight, mean, var)`.

    Attributes:
        gaussian: whether the density is a Gaussian, whose sites need no search.
        any_power: whether powers of the density other than 1 have moments here.
        has_local_scales: whether Markov chains draw a scale for each weight, given which it is
            Gaussian.
        nonnegative: whether weights cannot be negative; given its scale, a weight is
            half-Gaussian.
    """

    gaussian: ClassVar[bool] = False
    any_power: ClassVar[bool] = False
    has_local_scales: ClassVar[bool] = False
    nonnegative: ClassVar[bool] = False

    @property
    def lowest(self) -> float:
        """The smallest value that a weight can have."""
        return 0.0 if self.nonnegative else -float("inf")

    @abc.abstractmethod
    def starting_variance(self) -> Float[Array, "..."]:
        """The variance of the Gaussian that a search starts from, positive and finite."""

    @abc.abstractmethod
    def tilted(self, mean: Float[Array, "..."], var: Float[Array, "..."], power: Power) -> Tilted:
        r"""$\log M_a = \tfrac1a \log \int \mathcal N(w; m, v)\, p(w)^a\, dw$ with its derivatives.

        They are its slope and its curvature in m, elementwise.
        """

    def log_power_mean(
        self, mean: Float[Array, "..."], var: Float[Array, "..."], power: Power
    ) -> Float[Array, "..."]:
        r"""$\log M_a$ alone."""
        return self.tilted(mean, var, power).log_mean

    @abc.abstractmethod
    def cdf(
        self, weight: Float[Array, "..."], mean: Float[Array, "..."], var: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        r"""The distribution function of the prior times $\mathcal N(m, v)$, elementwise."""

    def signs(
        self, mean: Float[Array, "..."], var: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        r"""Probabilities of a negative and of a positive weight.

        They are those of the prior times $\mathcal N(m, v)$. A spike at zero counts for neither.
        """
        below = jnp.clip(self.cdf(jnp.zeros_like(mean), mean, var), 0.0, 1.0)
        return below, 1.0 - below

    def inclusion(
        self, mean: Float[Array, "..."], var: Float[Array, "..."]
    ) -> Float[Array, "..."] | None:
        """The probability that a weight is not (nearly) zero; None where no prior says so."""
        return None

    def variance_given_scale(
        self, local: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The variance of a weight given its local scale, and the log density of the scale.

        Args:
            local: logarithms of local variances, up to a constant of the prior. Ignored if the
                prior has no local scales.
        """
        return jnp.broadcast_to(self.starting_variance(), local.shape), jnp.zeros_like(local)

    @typing.final
    def for_weights(self: Prior, groups: Any, count: int) -> Prior:
        """The prior with parameters of its own for every weight, (count, 1).

        Args:
            groups: the group of each weight, whose parameters it has; None where a parameter is
                one number, or has one for each weight.
            count: the number of weights.
        """

        def spread(x: Array) -> Array:
            each = x if jnp.ndim(x) == 0 or groups is None else jnp.asarray(x)[groups]
            return jnp.broadcast_to(jnp.asarray(each), (count,))[:, None]

        return jax.tree.map(spread, self)

    @typing.final
    def sizes(self) -> set[int]:
        """The lengths of the parameters that are not one number for all weights."""
        return {x.shape[0] for x in map(jnp.asarray, jax.tree.leaves(self)) if x.ndim}


class Components(NamedTuple):
    """A mixture of Gaussians for each weight, its components along a first axis.

    Attributes:
        log_share: logs of the shares, which add up to one.
        mean: means.
        var: variances.
    """

    log_share: Float[Array, "S ..."]
    mean: Float[Array, "S ..."]
    var: Float[Array, "S ..."]

    def cdf(self, weight: Float[Array, "..."]) -> Float[Array, "..."]:
        """The distribution functions."""
        below = ndtr((weight - self.mean) / jnp.sqrt(self.var))
        return jnp.sum(jnp.exp(self.log_share) * below, axis=0)


class AbstractScaleMixture(AbstractWeightPrior):
    """A prior that is a sum of Gaussians about zero, or an integral over their variances.

    To implement:
        `starting_variance()` and `scales()`; for powers below 1 `tilted(mean, var, power)`.
    """

    @abc.abstractmethod
    def scales(self) -> tuple[Float[Array, "S ..."], Float[Array, "S ..."]]:
        """Logs of the shares, and variances, of the Gaussians.

        Integrals over variances are sums over nodes.
        """

    def tilted(self, mean: Float[Array, "..."], var: Float[Array, "..."], power: Power) -> Tilted:
        assert is_exactly(power, 1.0)
        return mixture_tilted(mean, var, *aligned(self.scales(), mean))

    def cdf(
        self, weight: Float[Array, "..."], mean: Float[Array, "..."], var: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        return self.components(mean, var).cdf(weight)

    def signs(
        self, mean: Float[Array, "..."], var: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        return self.signs_of(self.components(mean, var))

    def inclusion(
        self, mean: Float[Array, "..."], var: Float[Array, "..."]
    ) -> Float[Array, "..."] | None:
        return self.inclusion_of(self.components(mean, var))

    def signs_of(self, parts: Components) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """`signs` from the mixture that the prior makes of a Gaussian, alone or in a block."""
        below = jnp.clip(parts.cdf(jnp.zeros(())), 0.0, 1.0)
        return below, 1.0 - below

    def inclusion_of(self, parts: Components) -> Float[Array, "..."] | None:
        """`inclusion` from that mixture."""
        return None

    @typing.final
    def components(self, mean: Float[Array, "..."], var: Float[Array, "..."]) -> Components:
        r"""The product of the prior and $\mathcal N(m, v)$, normalised, as Gaussians."""
        log_share, s = aligned(self.scales(), mean)
        kept = s / (var + s)
        return Components(_posterior_shares(mean, var, log_share, s)[0], mean * kept, var * kept)


def aligned(scales: tuple[Array, Array], mean: Float[Array, "..."]) -> tuple[Array, Array]:
    """Scales of a mixture with their own axis before those of the means."""

    def with_leading_axis(x: Array) -> Array:
        return x.reshape(x.shape[0], *[1] * (mean.ndim + 1 - x.ndim), *x.shape[1:])

    return with_leading_axis(scales[0]), with_leading_axis(scales[1])


def mixture_tilted(
    mean: Float[Array, "..."],
    var: Float[Array, "..."],
    log_share: Float[Array, "S ..."],
    s: Float[Array, "S ..."],
) -> Tilted:
    r"""$\log M_1$ of a mixture of Gaussians about zero, with its slope and curvature.

    References:
        Jylanki (2013), S93 and S103.
    """
    log_shares, log_mean = _posterior_shares(mean, var, log_share, s)
    precision = 1.0 / (var + s)
    found = mixed_derivatives(jnp.exp(log_shares), -mean * precision, -precision, 1.0)
    return Tilted(log_mean, *found)


def _posterior_shares(
    mean: Array, var: Array, log_share: Array, s: Array
) -> tuple[Float[Array, "S ..."], Float[Array, "..."]]:
    r"""Logs of the shares of Gaussians about zero after $\mathcal N(m, v)$, and $\log M_1$."""
    total = var + s
    each = log_share - 0.5 * (LOG_2PI + jnp.log(total) + mean**2 / total)
    log_mean = jax.nn.logsumexp(each, axis=0)
    return each - log_mean, log_mean


def weight_by_weight(
    function: Callable[[Prior, Array, Array], Result],
    prior: Prior,
    mean: Float[Array, "p P"],
    var: Float[Array, "p P"],
) -> Result:
    """A function of a prior with parameters for every weight, a few weights at a time.

    Args:
        function: takes the prior, means and variances of some weights, and works elementwise.
        prior: the prior of all weights.
        mean: means of their cavities.
        var: variances of their cavities.
    """

    def along(x: Array) -> Array:
        return jnp.broadcast_to(x, mean.shape)

    return map_over_entries(
        lambda some: function(*some), (jax.tree.map(along, prior), mean, along(var))
    )
