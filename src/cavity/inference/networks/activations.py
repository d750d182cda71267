"""Activations of hidden units: their moments where what enters them is Gaussian."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, ndtr

from cavity.numerics.gauss_hermite import gauss_hermite
from cavity.numerics.linalg import safe_sqrt
from cavity.numerics.types import Array, Float

# Nodes of the integral over an angle, and of Gauss-Hermite quadrature in one and two dimensions.
ANGLES, ANGLES_OF_PAIRS, NODES, NODES_OF_PAIRS = 16, 24, 48, 24


Pair = tuple[Float[Array, "..."], Float[Array, "..."]]


class AbstractActivation(eqx.Module):
    """Activation function of a hidden unit of input h, and its moments.

    To implement:
        `__call__(h)`, `mean(m, v)` and `covariance(...)`.
    """

    @abc.abstractmethod
    def __call__(self, h: Float[Array, "..."]) -> Float[Array, "..."]:
        """The output of the unit."""

    @abc.abstractmethod
    def mean(self, m: Float[Array, "..."], v: Float[Array, "..."]) -> Float[Array, "..."]:
        r"""$\mathbb E\, g(h)$ under $\mathcal N(m, v)$, elementwise."""

    @abc.abstractmethod
    def variance(self, m: Float[Array, "..."], v: Float[Array, "..."]) -> Float[Array, "..."]:
        r"""$\operatorname{Var} g(h)$, never negative."""

    @abc.abstractmethod
    def covariance(self, m: Pair, v: Pair, c: Float[Array, "..."]) -> Float[Array, "..."]:
        """Covariance of the outputs at two inputs with these means, variances and covariance."""


class Erf(AbstractActivation):
    r"""$g(h) = \operatorname{erf}(h / \sqrt 2)$, with moments in closed form and by one integral.

    References:
        Jylanki (2013), S89, S99 and S110; Price (1958).
    """

    def __call__(self, h: Float[Array, "..."]) -> Float[Array, "..."]:
        return erf(h * 0.5**0.5)

    def mean(self, m: Float[Array, "..."], v: Float[Array, "..."]) -> Float[Array, "..."]:
        return 2.0 * ndtr(m / jnp.sqrt(1.0 + v)) - 1.0

    def variance(self, m: Float[Array, "..."], v: Float[Array, "..."]) -> Float[Array, "..."]:
        a = m / jnp.sqrt(1.0 + v)
        # of the angle arcsin(v / (1 + v)), without its infinite slope at 1
        half = v / (1.0 + v + jnp.sqrt(1.0 + 2.0 * v))
        return _angle_integral(lambda sine, _: -(a**2) / (1.0 + sine), half, ANGLES)

    def covariance(self, m: Pair, v: Pair, c: Float[Array, "..."]) -> Float[Array, "..."]:
        a, b = (mean / jnp.sqrt(1.0 + var) for mean, var in zip(m, v, strict=True))
        sine = c / jnp.sqrt((1.0 + v[0]) * (1.0 + v[1]))
        half = sine / (1.0 + jnp.sqrt((1.0 - sine) * (1.0 + sine)))

        def exponent(sine: Array, cosine: Array) -> Array:
            return -0.5 * (a**2 - 2.0 * a * b * sine + b**2) / cosine**2

        return _angle_integral(exponent, half, ANGLES_OF_PAIRS)


def _angle_integral(
    exponent: Callable[[Array, Array], Array], half: Float[Array, "..."], count: int
) -> Float[Array, "..."]:
    r"""$\tfrac 2 \pi \int_0^{top} \exp(e(\theta))\, d\theta$, e a function of sine and cosine.

    Over $t = \tan(\theta / 2)$, where both are rational and take less time to compute.

    Args:
        exponent: $e$.
        half: the tangent of half the last angle.
        count: of Gauss and Legendre's nodes.
    """
    points, weights = np.polynomial.legendre.leggauss(count)
    total = jnp.zeros_like(half)
    for point, w in zip(0.5 * (points + 1.0), weights, strict=True):
        t = point * half
        scale = 1.0 / (1.0 + t**2)
        values = jnp.exp(exponent(2.0 * t * scale, (1.0 - t**2) * scale))
        total = total + w * scale * values
    return 2.0 / np.pi * half * total


class Straight(AbstractActivation):
    """$g(h) = h$, which makes the network a product of linear models."""

    def __call__(self, h: Float[Array, "..."]) -> Float[Array, "..."]:
        return h

    def mean(self, m: Float[Array, "..."], v: Float[Array, "..."]) -> Float[Array, "..."]:
        return m

    def variance(self, m: Float[Array, "..."], v: Float[Array, "..."]) -> Float[Array, "..."]:
        return v

    def covariance(self, m: Pair, v: Pair, c: Float[Array, "..."]) -> Float[Array, "..."]:
        return c


class ByQuadrature(AbstractActivation):
    """Any smooth activation, with moments by Gauss-Hermite quadrature.

    Attributes:
        function: g, elementwise.
    """

    function: Callable[[Array], Array] = eqx.field(static=True)

    def __call__(self, h: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.function(h)

    def mean(self, m: Float[Array, "..."], v: Float[Array, "..."]) -> Float[Array, "..."]:
        values, weights = self._values(m, v)
        return jnp.tensordot(weights, values, axes=1)

    def variance(self, m: Float[Array, "..."], v: Float[Array, "..."]) -> Float[Array, "..."]:
        values, weights = self._values(m, v)
        mean = jnp.tensordot(weights, values, axes=1)
        return jnp.tensordot(weights, (values - mean) ** 2, axes=1)

    def covariance(self, m: Pair, v: Pair, c: Float[Array, "..."]) -> Float[Array, "..."]:
        x, log_weights = gauss_hermite(NODES_OF_PAIRS)
        w = np.exp(log_weights)
        s = jnp.maximum(v[0], jnp.finfo(jnp.asarray(c).dtype).tiny)
        slope, left = c / jnp.sqrt(s), safe_sqrt(jnp.maximum(v[1] - c**2 / s, 0.0))
        means = self.mean(m[0], v[0]), self.mean(m[1], v[1])
        total = jnp.zeros_like(c)
        for a, p in zip(x, w, strict=True):
            first = self.function(m[0] + jnp.sqrt(s) * a) - means[0]
            second = [
                q * self.function(m[1] + slope * a + left * b) for b, q in zip(x, w, strict=True)
            ]
            total = total + p * first * (sum(second) - means[1])
        return total

    def _values(self, m: Array, v: Array) -> tuple[Float[Array, "S ..."], Float[Array, " S"]]:
        x, log_weights = gauss_hermite(NODES)
        nodes = jnp.asarray(x, m.dtype).reshape(-1, *[1] * jnp.ndim(m))
        return self.function(m + safe_sqrt(v) * nodes), jnp.asarray(np.exp(log_weights), m.dtype)


# Activations by name.
ACTIVATIONS: dict[str, AbstractActivation] = {
    "erf": Erf(),
    "tanh": ByQuadrature(jnp.tanh),
    "sine": ByQuadrature(jnp.sin),
    "softplus": ByQuadrature(jax.nn.softplus),
    "identity": Straight(),
}


def activation_of(name: str | Callable[[Array], Array]) -> AbstractActivation:
    """The activation with a name, or of a function.

    Raises:
        ValueError: for an unknown name.
    """
    if callable(name):
        return ByQuadrature(name)
    if name not in ACTIVATIONS:
        raise ValueError(
            f"activation must be one of {', '.join(ACTIVATIONS)}, or a smooth function of an "
            f"array, such as jax.numpy.tanh; given {name!r}"
        )
    return ACTIVATIONS[name]
