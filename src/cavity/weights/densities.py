"""Priors with a density of their own: Gaussian, Laplace, Student-t and its positive half."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from cavity.likelihoods.heavy_tailed import StudentT as StudentTNoise
from cavity.numerics.power_limits import Power, is_exactly, with_limit_at_zero
from cavity.numerics.quadrature import Tilted, mixed_derivatives
from cavity.numerics.special import (
    LOG_2PI,
    log_ndtr,
    log_ndtr_derivatives,
    log_scaled_ndtr_derivatives,
)
from cavity.numerics.types import Array, Float
from cavity.parameters import fixed, positive
from cavity.weights.base import AbstractScaleMixture, AbstractWeightPrior, aligned

# Nodes in the log of a variance over the square of its scale, in steps that are narrow enough for
# its spread, which is about (2 / df)^(1/2).
_STEP, _SPREADS = 0.35, 1.2
_NODES = np.arange(-35.0, 172.0)


class Gaussian(AbstractScaleMixture):
    r"""$w \sim \mathcal N(0, s)$: ridge regression, and with a variance for each weight ARD.

    Args:
        variance: s, in squared units of a weight; one number, or one for each weight or group.

    References:
        Jylanki (2013), S3 and S93.
    """

    variance: Float[Array, "..."] = positive(output=2)

    gaussian: ClassVar[bool] = True
    any_power: ClassVar[bool] = True

    def __init__(self, variance: Any = 1.0):
        self.variance = variance

    def starting_variance(self) -> Array:
        return self.variance

    def scales(self) -> tuple[Array, Array]:
        s = jnp.asarray(self.variance)[None]
        return jnp.zeros_like(s), s

    def tilted(self, mean: Array, var: Array, power: Power) -> Tilted:
        s = self.variance
        wide = s + power * var
        # ½ log 2πs enters once, whatever the power
        ratio = with_limit_at_zero(power, lambda: var / s, lambda a: jnp.log1p(a * var / s) / a)
        log_mean = -0.5 * (LOG_2PI + jnp.log(s) + ratio + mean**2 / wide)
        return Tilted(log_mean, -mean / wide, -1.0 / wide)


class Laplace(AbstractWeightPrior):
    r"""$p(w) = e^{-|w| / b} / 2b$, of which the lasso is the mode.

    Args:
        scale: b, in units of a weight; the standard deviation is $\sqrt 2\, b$. One number, or one
            for each weight or group.

    References:
        Jylanki (2013), S6 and S92.
    """

    scale: Float[Array, "..."] = positive(output=1)

    any_power: ClassVar[bool] = True
    has_local_scales: ClassVar[bool] = True

    def __init__(self, scale: Any = 0.3):
        self.scale = scale

    def starting_variance(self) -> Array:
        return 2.0 * self.scale**2

    def variance_given_scale(self, local: Array) -> tuple[Array, Array]:
        # variances are exponential, with mean 2b²
        return 2.0 * self.scale**2 * jnp.exp(local), local - jnp.exp(local)

    def tilted(self, mean: Array, var: Array, power: Power) -> Tilted:
        if isinstance(power, int | float) and power == 0:
            raise ValueError(
                "a Laplace prior at power 0 is not supported: give it a power above 0"
            )
        side = _sides(mean, var, jnp.asarray(self.scale / power))
        total = jnp.logaddexp(side.log_mass[0], side.log_mass[1])
        share = jnp.exp(side.log_mass - total)
        slope, curvature = mixed_derivatives(share, side.slope, side.curvature, 1.0)
        log_mean = total / power - jnp.log(2.0 * self.scale)
        return Tilted(log_mean, slope / power, curvature / power)

    def cdf(self, weight: Array, mean: Array, var: Array) -> Array:
        side, size = _sides(mean, var, jnp.asarray(self.scale)), jnp.abs(weight) / jnp.sqrt(var)
        above = jax.nn.sigmoid(side.log_mass[0] - side.log_mass[1])
        beyond = _beyond(side.x, size)
        left, right = (1.0 - above) * beyond[1], above * beyond[0]
        return jnp.where(weight < 0.0, left, 1.0 - right)


class _Sides(NamedTuple):
    """Halves of a Gaussian times a Laplace density, above zero and below, along a first axis.

    Attributes:
        x: how far inside its half the mean of each lies, in deviations.
        log_mass: logs of their integrals, the height of the Laplace density left out.
        slope: derivatives of these in the mean.
        curvature: second derivatives.
    """

    x: Array
    log_mass: Array
    slope: Array
    curvature: Array


def _sides(mean: Array, var: Array, b: Array) -> _Sides:
    deviation = jnp.sqrt(var)
    sign = jnp.array([1.0, -1.0], mean.dtype).reshape(-1, *[1] * mean.ndim)
    x = sign * mean / deviation - deviation / b
    inside, outside = jnp.maximum(x, 0.0), jnp.minimum(x, 0.0)
    value, r, bend = log_ndtr_derivatives(inside)
    near = (
        value + 0.5 * var / b**2 - sign * mean / b,
        sign * (r / deviation - 1.0 / b),
        bend / var,
    )
    # where the half is a tail, the square of x cancels
    g, slope, curvature = log_scaled_ndtr_derivatives(outside)
    far = (
        g - 0.5 * mean**2 / var,
        sign * slope / deviation - mean / var,
        (curvature - 1.0) / var,
    )
    return _Sides(x, *(jnp.where(x > 0.0, *pair) for pair in zip(near, far, strict=True)))


def _beyond(x: Array, size: Array) -> Array:
    r"""$\Phi(x - d) / \Phi(x)$ at sizes d, to all digits far below zero too."""
    outside = jnp.minimum(x, 0.0)
    g = log_scaled_ndtr_derivatives
    tail = g(outside - size)[0] - g(outside)[0] + outside * size - 0.5 * size**2
    return jnp.exp(jnp.where(x < 0.0, tail, log_ndtr(x - size) - log_ndtr(x)))


def _log_inverse_gamma(psi: Array, half: Array) -> Array:
    r"""Log density of the log of $\nu / \chi^2_\nu$, with half the degrees of freedom."""
    return half * (jnp.log(half) - psi - jnp.exp(-psi)) - gammaln(half)


class AbstractStudentT(AbstractWeightPrior):
    """A Student-t density, or its half: Gaussians whose variances are inverse gamma distributed.

    Attributes:
        scale: of the density, in units of a weight.
        df: the degrees of freedom.
    """

    scale: Float[Array, "..."] = positive(output=1)
    df: Float[Array, "..."] = fixed()

    has_local_scales: ClassVar[bool] = True

    def __init__(self, scale: Any, df: Any):
        self.scale, self.df = scale, df

    def __check_init__(self) -> None:
        if not np.all(np.asarray(self.df) > 0.0):
            raise ValueError(f"the degrees of freedom must be positive, given {self.df}")

    def starting_variance(self) -> Array:
        return 10.0 * self.scale**2

    def scales(self) -> tuple[Array, Array]:
        """Logs of the shares, and variances, of the Gaussians, at nodes of the variance."""
        s = jnp.asarray(self.scale**2)[None]
        half = 0.5 * jnp.asarray(self.df)[None]
        step = jnp.minimum(_STEP, _SPREADS / jnp.sqrt(2.0 * half))
        psi = step * jnp.asarray(_NODES, s.dtype).reshape(-1, *[1] * (s.ndim - 1))
        return _log_inverse_gamma(psi, half) + jnp.log(step), s * jnp.exp(psi)

    def variance_given_scale(self, local: Array) -> tuple[Array, Array]:
        half = 0.5 * jnp.asarray(self.df)
        return self.scale**2 * jnp.exp(local), _log_inverse_gamma(local, half)


class StudentT(AbstractStudentT, AbstractScaleMixture):
    r"""A Student-t density about zero: most weights small, a few far from it.

    Args:
        scale: $\sigma$, in units of a weight; one number, or one for each weight or group.
        df: $\nu$, the degrees of freedom, not learned by default; small means heavy tails.

    References:
        Jylanki (2013), S94.
    """

    any_power: ClassVar[bool] = True

    def __init__(self, scale: Any = 0.3, df: Any = 4.0):
        super().__init__(scale, df)

    def log_power_mean(self, mean: Array, var: Array, power: Power) -> Array:
        return self._noise().log_power_mean(mean, var, jnp.zeros_like(mean), power)

    def tilted(self, mean: Array, var: Array, power: Power) -> Tilted:
        return self._noise().tilted(mean, var, jnp.zeros_like(mean), power)

    def _noise(self) -> StudentTNoise:
        return StudentTNoise(self.scale, self.df)


class HalfStudentT(AbstractStudentT):
    r"""The positive half of a Student-t density: $p(w) = 2\, t_\nu(w; 0, \sigma^2)$ for $w \ge 0$.

    For weights whose sign is known, such as the output weights of a network with an odd
    activation, whose signs mean nothing otherwise.

    Args:
        scale: $\sigma$, in units of a weight; one number, or one for each weight or group.
        df: $\nu$, the degrees of freedom, not learned by default; small means heavy tails.

    References:
        Jylanki (2013), S96 and S104.
    """

    nonnegative: ClassVar[bool] = True

    def __init__(self, scale: Any = 0.3, df: Any = 4.0):
        super().__init__(scale, df)

    def tilted(self, mean: Array, var: Array, power: Power) -> Tilted:
        assert is_exactly(power, 1.0)
        half = self._halves(mean, var)
        total = jax.nn.logsumexp(half.log_mass, axis=0)
        share = jnp.exp(half.log_mass - total)
        slope, curvature = mixed_derivatives(share, half.slope, half.curvature, 1.0)
        # in common to all where the mean is negative, and large: added last, so that no digits go
        outside = jnp.minimum(mean, 0.0)
        return Tilted(
            total - 0.5 * outside**2 / var,
            slope - outside / var,
            curvature - jnp.where(mean > 0.0, 0.0, 1.0) / var,
        )

    def cdf(self, weight: Array, mean: Array, var: Array) -> Array:
        half = self._halves(mean, var)
        share = jax.nn.softmax(half.log_mass, axis=0)
        above = _beyond(half.x, jnp.maximum(weight, 0.0) / jnp.sqrt(half.var))
        return jnp.where(weight > 0.0, 1.0 - jnp.sum(share * above, axis=0), 0.0)

    def _halves(self, mean: Array, var: Array) -> "_Halves":
        """The products of the Gaussians of the scale mixture with the cavity, above zero."""
        log_share, s = aligned(self.scales(), mean)
        total = var + s
        unit = jnp.sqrt(s / (var * total))  # of x per mean
        x = unit * mean
        height = log_share + jnp.log(2.0) - 0.5 * (LOG_2PI + jnp.log(total))
        value, r, bend = log_ndtr_derivatives(jnp.maximum(x, 0.0))
        near = value - 0.5 * mean**2 / total, unit * r - mean / total, unit**2 * bend - 1.0 / total
        # far below zero the squares of x and of the mean cancel, and what is left is a sliver
        g, slope, curvature = log_scaled_ndtr_derivatives(jnp.minimum(x, 0.0))
        far = g, unit * slope, unit**2 * curvature
        log_mass, *rest = (jnp.where(mean > 0.0, a, b) for a, b in zip(near, far, strict=True))
        return _Halves(x, var * s / total, height + log_mass, *rest)


class _Halves(NamedTuple):
    """Gaussians cut off below zero, along a first axis.

    Attributes:
        x: means over deviations, of the Gaussians that were cut.
        var: their variances.
        log_mass: logs of the integrals; where the mean of the cavity is negative, without the
            log density of the cavity at zero over that at its mean.
        slope: derivatives of these in the mean of the cavity.
        curvature: second derivatives.
    """

    x: Array
    var: Array
    log_mass: Array
    slope: Array
    curvature: Array
