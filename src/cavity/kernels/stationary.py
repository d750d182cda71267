"""Stationary kernels: functions of the difference between two inputs."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.kernels.base import (
    AbstractKernel,
    Groups,
    Values,
    check_columns,
    check_groups,
    squared_distance,
)
from cavity.numerics.linalg import safe_sqrt
from cavity.numerics.types import Array, Float
from cavity.parameters import positive, real


def _smooth(r2: Array, near: Array, function: Callable[[Array], Array]) -> Array:
    """`function(r)`, or next to zero its expansion `near` in r², which has all derivatives."""
    is_near = r2 < 1e-10
    return jnp.where(is_near, near, function(jnp.sqrt(jnp.where(is_near, 1.0, r2))))


class AbstractStationary(AbstractKernel):
    r"""A kernel $k(\mathbf x, \mathbf x') = \sigma^2 c(r^2)$ of the squared scaled distance.

    To implement:
        fields `variance` and `lengthscale` (and any other), and `correlation(r2)` with
        $c(0) = 1$.

    Attributes:
        groups: for columns that share lengthscales, as those of one category do: the number of
            each column's lengthscale, from 0. None for one of its own, or one for all.
    """

    variance: eqx.AbstractVar[Float[Array, ""]]
    lengthscale: eqx.AbstractVar[Float[Array, "..."]]
    groups: Groups = eqx.field(static=True, default=None, kw_only=True, metadata={"later": True})

    def __check_init__(self) -> None:
        if self.groups is not None:
            check_groups(self.groups, np.shape(self.lengthscale))

    @property
    def lengthscales(self) -> Float[Array, "..."]:
        """The lengthscale of each column, or the one for all."""
        return self.lengthscale if self.groups is None else self.lengthscale[np.array(self.groups)]

    @abc.abstractmethod
    def correlation(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        """The correlation of two function values at squared scaled distance `r2`."""

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        return self.variance * self.correlation(squared_distance(X, Z, self.lengthscales))

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return jnp.full(X.shape[0], self.variance)


class RBF(AbstractStationary):
    r"""Squared exponential covariance, infinitely smooth.

    $$k(\mathbf x, \mathbf x') =
        \sigma^2 \exp\Big(-\tfrac12 \sum_d (x_d - x'_d)^2 / \ell_d^2\Big)$$

    Args:
        variance: $\sigma^2$, in squared units of the output.
        lengthscale: $\ell$, in units of the inputs; one number, or one per column (relevance
            determination).
        groups: as of `AbstractStationary`.

    References:
        Bui (2017), eq. 1.6; Rasmussen and Williams (2006), eq. 4.9.
    """

    variance: Float[Array, ""] = positive(output=2)
    lengthscale: Float[Array, "..."] = positive(input=1)

    def __init__(
        self, variance: Values = 1.0, lengthscale: Values = 1.0, *, groups: Groups = None
    ):
        self.variance = variance
        self.lengthscale = lengthscale
        self.groups = groups

    def correlation(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(-0.5 * r2)


class Matern12(AbstractStationary):
    r"""Matern covariance of smoothness 1/2: continuous functions without a slope.

    $$k(\mathbf x, \mathbf x') = \sigma^2 e^{-r}, \qquad r^2 = \sum_d (x_d - x'_d)^2 / \ell_d^2$$

    Its covariances agree with this formula to about 1e-7 only: near zero distance, r is the
    square root of a rounding error.

    Args:
        variance: $\sigma^2$, in squared units of the output.
        lengthscale: $\ell$, in units of the inputs; one number, or one per column (relevance
            determination).
        groups: as of `AbstractStationary`.

    References:
        van der Wilk (2018), item 11b, fig. 1.4; Rasmussen and Williams (2006), section 4.2.1.
    """

    variance: Float[Array, ""] = positive(output=2)
    lengthscale: Float[Array, "..."] = positive(input=1)

    def __init__(
        self, variance: Values = 1.0, lengthscale: Values = 1.0, *, groups: Groups = None
    ):
        self.variance = variance
        self.lengthscale = lengthscale
        self.groups = groups

    def correlation(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(-safe_sqrt(r2))


class Matern32(AbstractStationary):
    r"""Matern covariance of smoothness 3/2: functions with one derivative.

    $$k(\mathbf x, \mathbf x') = \sigma^2 \big(1 + \sqrt3\,r\big) e^{-\sqrt3\,r},
    \qquad r^2 = \sum_d (x_d - x'_d)^2 / \ell_d^2$$

    Args:
        variance: $\sigma^2$, in squared units of the output.
        lengthscale: $\ell$, in units of the inputs; one number, or one per column (relevance
            determination).
        groups: as of `AbstractStationary`.

    References:
        Rasmussen and Williams (2006), eq. 4.17.
    """

    variance: Float[Array, ""] = positive(output=2)
    lengthscale: Float[Array, "..."] = positive(input=1)

    def __init__(
        self, variance: Values = 1.0, lengthscale: Values = 1.0, *, groups: Groups = None
    ):
        self.variance = variance
        self.lengthscale = lengthscale
        self.groups = groups

    def correlation(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        # (1 + r) e⁻ʳ = 1 - r²/2 + O(r³)
        r2 = 3.0 * r2
        return _smooth(r2, 1.0 - r2 / 2.0, lambda r: (1.0 + r) * jnp.exp(-r))


class Matern52(AbstractStationary):
    r"""Matern covariance of smoothness 5/2: functions with two derivatives.

    $$k(\mathbf x, \mathbf x') =
        \sigma^2 \big(1 + \sqrt5\,r + \tfrac53 r^2\big) e^{-\sqrt5\,r},
    \qquad r^2 = \sum_d (x_d - x'_d)^2 / \ell_d^2$$

    Args:
        variance: $\sigma^2$, in squared units of the output.
        lengthscale: $\ell$, in units of the inputs; one number, or one per column (relevance
            determination).
        groups: as of `AbstractStationary`.

    References:
        Rasmussen and Williams (2006), eq. 4.17.
    """

    variance: Float[Array, ""] = positive(output=2)
    lengthscale: Float[Array, "..."] = positive(input=1)

    def __init__(
        self, variance: Values = 1.0, lengthscale: Values = 1.0, *, groups: Groups = None
    ):
        self.variance = variance
        self.lengthscale = lengthscale
        self.groups = groups

    def correlation(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        # (1 + r + r²/3) e⁻ʳ = 1 - r²/6 + O(r⁴)
        r2 = 5.0 * r2
        return _smooth(r2, 1.0 - r2 / 6.0, lambda r: (1.0 + r + r**2 / 3.0) * jnp.exp(-r))


class RationalQuadratic(AbstractStationary):
    r"""Rational quadratic covariance: a mixture of squared exponentials of many lengthscales.

    $$k(\mathbf x, \mathbf x') = \sigma^2 \Big(1 + \frac{r^2}{2 a}\Big)^{-a},
    \qquad r^2 = \sum_d (x_d - x'_d)^2 / \ell_d^2$$

    A large shape $a$ gives the squared exponential; a small one adds long lengthscales.

    Args:
        variance: $\sigma^2$, in squared units of the output.
        lengthscale: $\ell$, in units of the inputs; one number, or one per column (relevance
            determination).
        shape: $a$, the shape of the gamma mixture of inverse squared lengthscales, no units.
        groups: as of `AbstractStationary`.

    References:
        Rasmussen and Williams (2006), eq. 4.19.
    """

    variance: Float[Array, ""] = positive(output=2)
    lengthscale: Float[Array, "..."] = positive(input=1)
    shape: Float[Array, ""] = positive()

    def __init__(
        self,
        variance: Values = 1.0,
        lengthscale: Values = 1.0,
        shape: Values = 1.0,
        *,
        groups: Groups = None,
    ):
        self.variance = variance
        self.lengthscale = lengthscale
        self.shape = shape
        self.groups = groups

    def correlation(self, r2: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(-self.shape * jnp.log1p(0.5 * r2 / self.shape))


class Periodic(AbstractKernel):
    r"""Covariance of smooth functions that repeat themselves in every input.

    $$k(\mathbf x, \mathbf x') = \sigma^2 \exp\Big(
        -2 \sum_d \frac{\sin^2(\pi (x_d - x'_d) / p_d)}{\ell_d^2}\Big)$$

    The lengthscale is measured against the sine, not against the inputs: above one, a period
    holds little more than one smooth wave. Multiply by another kernel for waves whose form
    changes slowly.

    Args:
        variance: $\sigma^2$, in squared units of the output.
        lengthscale: $\ell$, no units; one number, or one per column.
        period: $p$, in units of the inputs; one number, or one per column.

    References:
        van der Wilk (2018), item 11c; MacKay (1998), Introduction to Gaussian processes;
        Rasmussen and Williams (2006), eq. 4.31.
    """

    variance: Float[Array, ""] = positive(output=2)
    lengthscale: Float[Array, "..."] = positive()
    period: Float[Array, "..."] = positive(input=1, cycle=True)

    def __init__(self, variance: Values = 1.0, lengthscale: Values = 1.0, period: Values = 1.0):
        self.variance = variance
        self.lengthscale = lengthscale
        self.period = period

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        check_columns(X, Z, lengthscale=self.lengthscale, period=self.period)
        centre = jnp.mean(X, axis=0)
        # 2 sin²((a - b)/2) = 1 - cos a cos b - sin a sin b: half a squared distance of features
        r2 = squared_distance(self._circle(X - centre), self._circle(Z - centre), jnp.ones(()))
        return self.variance * jnp.exp(-0.5 * r2)

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return jnp.full(X.shape[0], self.variance)

    def _circle(self, X: Float[Array, "N D"]) -> Float[Array, "N F"]:
        """Each column as a place on a circle of radius 1 / lengthscale."""
        angle = 2.0 * jnp.pi * X / self.period
        pair = [jnp.cos(angle) / self.lengthscale, jnp.sin(angle) / self.lengthscale]
        return jnp.concatenate(pair, axis=1)


class SpectralMixture(AbstractKernel):
    r"""Covariance whose spectral density is a mixture of Q Gaussians.

    $$k(\mathbf x, \mathbf x') = \sum_q w_q
        \exp\Big(-2 \pi^2 \sum_d b_{qd}^2 (x_d - x'_d)^2\Big)
        \cos\Big(2 \pi \sum_d \mu_{qd} (x_d - x'_d)\Big)$$

    With enough components it comes close to any stationary covariance. Components that start
    equal stay equal, and the evidence has many optima in the frequencies: start them apart.
    The cosine is of the sum over columns, which is what a Gaussian in the frequency plane
    transforms to; the paper's equation has a product of cosines.

    Args:
        weights: $w$ (Q,), the variance of each component, in squared units of the output.
        frequencies: $\mu$ (Q, D) or (Q, 1), in cycles per unit of the inputs.
        bandwidths: $b$ (Q, D) or (Q, 1), standard deviations in the same unit; $1 / (2 \pi b)$
            is the component's lengthscale.

    Raises:
        ValueError: if the three do not have the same number Q of components.

    References:
        Wilson and Adams (2013), eq. 12; Bui (2017), inventory S2.
    """

    weights: Float[Array, " Q"] = positive(output=2)
    frequencies: Float[Array, "Q C"] = real(input=-1, cycle=True)
    bandwidths: Float[Array, "Q B"] = positive(input=-1)

    def __init__(self, weights: Values, frequencies: Values, bandwidths: Values):
        self.weights = weights
        self.frequencies = frequencies
        self.bandwidths = bandwidths

    def __check_init__(self) -> None:
        shapes = [np.shape(x) for x in (self.weights, self.frequencies, self.bandwidths)]
        if [len(shape) for shape in shapes] != [1, 2, 2] or len({s[0] for s in shapes}) != 1:
            raise ValueError(
                "a spectral mixture needs Q weights, Q x D frequencies and Q x D bandwidths, "
                f"given arrays of shapes {shapes[0]}, {shapes[1]} and {shapes[2]}"
            )

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        check_columns(X, Z, frequencies=self.frequencies, bandwidths=self.bandwidths)
        centre = jnp.mean(X, axis=0)

        def component(weight: Array, frequency: Array, bandwidth: Array) -> Array:
            r2 = squared_distance(X, Z, 1.0 / (2.0 * jnp.pi * bandwidth))
            phase_X = 2.0 * jnp.pi * jnp.sum((X - centre) * frequency, axis=1)
            phase_Z = 2.0 * jnp.pi * jnp.sum((Z - centre) * frequency, axis=1)
            return weight * jnp.exp(-0.5 * r2) * jnp.cos(phase_X[:, None] - phase_Z[None, :])

        parameters = self.weights, self.frequencies, self.bandwidths
        return jnp.sum(jax.vmap(component)(*map(jnp.asarray, parameters)), axis=0)

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return jnp.full(X.shape[0], jnp.sum(self.weights))


class Constant(AbstractKernel):
    r"""Covariance of a constant function of unknown height, $k(\mathbf x, \mathbf x') = \sigma^2$.

    Args:
        variance: $\sigma^2$, in squared units of the output.

    References:
        Rasmussen and Williams (2006), table 4.1.
    """

    variance: Float[Array, ""] = positive(output=2)

    def __init__(self, variance: Values = 1.0):
        self.variance = variance

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        check_columns(X, Z)
        return jnp.full((X.shape[0], Z.shape[0]), self.variance)

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return jnp.full(X.shape[0], self.variance)


class White(AbstractKernel):
    r"""Covariance of a function whose values are independent from one input to the next.

    $$k(\mathbf x, \mathbf x') = \sigma^2 \, [\mathbf x = \mathbf x']$$

    Two rows with equal inputs share one value; noise that differs between repeated
    measurements belongs in the likelihood. Inducing points see nothing of this function unless
    they lie exactly on the data, so it suits full GPs best.

    Args:
        variance: $\sigma^2$, in squared units of the output.

    References:
        Rasmussen and Williams (2006), eq. 2.20, there between measurements, not inputs.
    """

    variance: Float[Array, ""] = positive(output=2)

    def __init__(self, variance: Values = 1.0):
        self.variance = variance

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        check_columns(X, Z)

        def compare(equal: Array, columns: tuple[Array, Array]) -> tuple[Array, None]:
            x, z = columns
            return equal & (x[:, None] == z[None, :]), None

        everywhere = jnp.ones((X.shape[0], Z.shape[0]), dtype=bool)
        equal, _ = jax.lax.scan(compare, everywhere, (X.T, Z.T))
        return jnp.where(equal, self.variance, 0.0)

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return jnp.full(X.shape[0], self.variance)
