"""Kernels that know a centre: functions of the inner product of two inputs seen from it."""

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.kernels.base import AbstractKernel, Values, check_columns
from cavity.numerics.linalg import safe_sqrt
from cavity.numerics.types import Array, Float
from cavity.parameters import fixed, positive


def inner_product(
    X: Float[Array, "N D"],
    Z: Float[Array, "M D"],
    weight: Float[Array, "..."],
    centre: Float[Array, "..."],
) -> Float[Array, "N M"]:
    r"""Weighted inner products $\sum_d w_d (x_d - c_d)(z_d - c_d)$.

    Raises:
        ValueError: if weights or centre are neither one number nor one per column.
    """
    check_columns(X, Z, weight=weight, centre=centre)
    return jnp.matmul((X - centre) * weight, (Z - centre).T)


def squared_norm(
    X: Float[Array, "N D"], weight: Float[Array, "..."], centre: Float[Array, "..."]
) -> Float[Array, " N"]:
    """The inner product of each row with itself."""
    check_columns(X, X, weight=weight, centre=centre)
    return jnp.sum((X - centre) ** 2 * weight, axis=1)


def wedge(
    X: Float[Array, "N D"],
    Z: Float[Array, "M D"],
    bias: Float[Array, "..."],
    weight: Float[Array, "..."],
    centre: Float[Array, "..."],
) -> Float[Array, "N M"]:
    r"""The squared areas $s(x, x)\, s(z, z) - s(x, z)^2$ of $s(x, z) = b + \sum_d w_d x_d z_d$.

    With $\mathbf u = (\sqrt b, \sqrt{w_d}\, x_d)$ and the same of z they are $|\mathbf u|^2$ times
    the squared length of what $\mathbf z - \mathbf x$ has at right angles to $\mathbf u$. No
    digit cancels in that where angles vanish, as it does in the difference of products.
    """
    check_columns(X, Z, weight=weight, centre=centre)
    weights = jnp.broadcast_to(weight, X.shape[1:])
    radius = bias + squared_norm(X, weight, centre)  # |u|², N

    def along(total: Array, columns: tuple[Array, Array, Array]) -> tuple[Array, None]:
        x, z, w = columns
        return total + w * x[:, None] * (z[None, :] - x[:, None]), None

    columns = (X - centre).T, (Z - centre).T, weights
    zero = jnp.zeros((X.shape[0], Z.shape[0]), jnp.result_type(radius, *columns))
    # z - x = share u + what is at right angles
    share = jax.lax.scan(jax.checkpoint(along), zero, columns)[0] / radius[:, None]

    def across(total: Array, columns: tuple[Array, Array, Array]) -> tuple[Array, None]:
        x, z, w = columns
        return total + w * (z[None, :] - x[:, None] - share * x[:, None]) ** 2, None

    # one matrix is kept for the way back, not one per column
    return radius[:, None] * jax.lax.scan(jax.checkpoint(across), bias * share**2, columns)[0]


class Linear(AbstractKernel):
    r"""Covariance of linear functions with independent random slopes, zero at the centre.

    $$k(\mathbf x, \mathbf x') = \sum_d \sigma_d^2 (x_d - c_d)(x'_d - c_d)$$

    Add `Constant` for an unknown height at the centre.

    Args:
        variance: $\sigma_d^2$, the variance of a slope, in squared units of the output per
            squared unit of the input; one number, or one per column.
        centre: $\mathbf c$, a place in input space; not learned by default.

    References:
        Bui (2017), inventory S1, S2; Rasmussen and Williams (2006), table 4.1.
    """

    variance: Float[Array, "..."] = positive(output=2, input=-2)
    centre: Float[Array, "..."] = fixed(input=1, location=True)

    def __init__(self, variance: Values = 1.0, centre: Values = 0.0):
        self.variance = variance
        self.centre = centre

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        return inner_product(X, Z, self.variance, self.centre)

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return squared_norm(X, self.variance, self.centre)


class Polynomial(AbstractKernel):
    r"""Covariance of polynomials of up to a given degree.

    $$k(\mathbf x, \mathbf x') =
        \sigma^2 \Big(b + \sum_d w_d (x_d - c_d)(x'_d - c_d)\Big)^{\text{degree}}$$

    The offset is not learned by default: multiplying it and the weights by a number changes
    nothing that the variance does not, so the family is the same at every offset but 0.

    Args:
        variance: $\sigma^2$, in squared units of the output.
        weight_variance: $w$, per squared unit of the inputs; one number, or one per column.
        offset: $b$, no units, not negative; 0 leaves the terms of the highest degree only.
        degree: a whole number, at least 1.
        centre: $\mathbf c$, a place in input space; not learned by default.

    Raises:
        ValueError: if the degree is not a whole number of at least 1.

    References:
        Rasmussen and Williams (2006), section 4.2.2, table 4.1.
    """

    degree: int = eqx.field(static=True)
    variance: Float[Array, ""] = positive(output=2)
    weight_variance: Float[Array, "..."] = positive(input=-2)
    offset: Float[Array, ""] = fixed()
    centre: Float[Array, "..."] = fixed(input=1, location=True)

    def __init__(
        self,
        variance: Values = 1.0,
        weight_variance: Values = 1.0,
        offset: Values = 1.0,
        degree: int = 2,
        centre: Values = 0.0,
    ):
        if int(degree) != degree or degree < 1:
            raise ValueError(
                f"the degree of a polynomial kernel must be a whole number of at least 1, "
                f"given {degree}"
            )
        self.variance = variance
        self.weight_variance = weight_variance
        self.offset = offset
        self.degree = int(degree)
        self.centre = centre

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        inner = inner_product(X, Z, self.weight_variance, self.centre)
        return self.variance * (self.offset + inner) ** self.degree

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        norm = squared_norm(X, self.weight_variance, self.centre)
        return self.variance * (self.offset + norm) ** self.degree


class ArcCosine(AbstractKernel):
    r"""Covariance of an infinitely wide layer of step, ramp or squared-ramp units.

    $$k(\mathbf x, \mathbf x') = \frac{\sigma^2}{\pi}
        \big(s(\mathbf x, \mathbf x)\, s(\mathbf x', \mathbf x')\big)^{n/2} J_n(\theta),
    \qquad \cos\theta = \frac{s(\mathbf x, \mathbf x')}
        {\sqrt{s(\mathbf x, \mathbf x)\, s(\mathbf x', \mathbf x')}}$$
    $$s(\mathbf x, \mathbf x') = b + \sum_d w_d (x_d - c_d)(x'_d - c_d)$$
    $$J_0 = \pi - \theta, \qquad J_1 = \sin\theta + (\pi - \theta) \cos\theta, \qquad
    J_2 = 3 \sin\theta \cos\theta + (\pi - \theta)(1 + 2 \cos^2\theta)$$

    Functions are rough at order 0 (like Brownian motion) and gain a derivative with each order.
    At order 0 the covariance has a kink where two inputs coincide: its slope in an input, such as
    an inducing point, is one-sided there and counts as zero. The bias variance is not learned by
    default: multiplying it and the weight variances by a number changes nothing that the
    variance does not.

    Args:
        variance: $\sigma^2$, in squared units of the output.
        weight_variance: $w$, per squared unit of the inputs; one number, or one per column.
        bias_variance: $b$, no units, above 0.
        order: $n$: 0 for steps, 1 for ramps (rectified linear units), 2 for squared ramps.
        centre: $\mathbf c$, a place in input space; not learned by default.

    Raises:
        ValueError: if the order is not 0, 1 or 2.

    References:
        Cho and Saul (2009), Kernel methods for deep learning, eqs. 1 to 7.
    """

    order: int = eqx.field(static=True)
    variance: Float[Array, ""] = positive(output=2)
    weight_variance: Float[Array, "..."] = positive(input=-2)
    bias_variance: Float[Array, ""] = fixed()
    centre: Float[Array, "..."] = fixed(input=1, location=True)

    def __init__(
        self,
        variance: Values = 1.0,
        weight_variance: Values = 1.0,
        bias_variance: Values = 1.0,
        order: int = 1,
        centre: Values = 0.0,
    ):
        if order not in (0, 1, 2):
            raise ValueError(f"the order of an arc-cosine kernel is 0, 1 or 2, given {order}")
        self.variance = variance
        self.weight_variance = weight_variance
        self.bias_variance = bias_variance
        self.order = int(order)
        self.centre = centre

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        parameters = self.weight_variance, self.centre
        cosine = self.bias_variance + inner_product(X, Z, *parameters)
        # of inputs with no angle between them: the slope of the root is infinite, and J has none
        sine = safe_sqrt(wedge(X, Z, self.bias_variance, *parameters))
        return self.variance / jnp.pi * _angular(sine, cosine, self.order)

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        # J₀(0) = J₁(0) = π, J₂(0) = 3π
        angular = 3.0 if self.order == 2 else 1.0
        return self.variance * angular * self._squared_radius(X) ** self.order

    def _squared_radius(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return self.bias_variance + squared_norm(X, self.weight_variance, self.centre)


def _angular(
    sine: Float[Array, "N M"], cosine: Float[Array, "N M"], order: int
) -> Float[Array, "N M"]:
    """The angular dependence J of the arc-cosine kernel, times r**order.

    Args:
        sine: r sin θ.
        cosine: r cos θ.
        order: of the kernel.
    """
    beyond = jnp.pi - jnp.arctan2(sine, cosine)
    if order == 0:
        return beyond
    if order == 1:
        return sine + beyond * cosine
    return 3.0 * sine * cosine + beyond * (sine**2 + 3.0 * cosine**2)


class NeuralNetwork(AbstractKernel):
    r"""Covariance of an infinitely wide layer of sigmoid units (the error function).

    $$k(\mathbf x, \mathbf x') = \sigma^2\, \frac2\pi \arcsin
        \frac{2 s(\mathbf x, \mathbf x')}
        {\sqrt{(1 + 2 s(\mathbf x, \mathbf x))(1 + 2 s(\mathbf x', \mathbf x'))}},
    \qquad s(\mathbf x, \mathbf x') = b + \sum_d w_d (x_d - c_d)(x'_d - c_d)$$

    Functions level out far from the centre, and vary fastest near it.

    Args:
        variance: $\sigma^2$, in squared units of the output; the limit of the function's
            variance far from the centre.
        weight_variance: $w$, per squared unit of the inputs; one number, or one per column.
        bias_variance: $b$, no units.
        centre: $\mathbf c$, a place in input space; not learned by default.

    References:
        Williams (1998), Computation with infinite neural networks; Rasmussen and Williams
        (2006), eq. 4.29.
    """

    variance: Float[Array, ""] = positive(output=2)
    weight_variance: Float[Array, "..."] = positive(input=-2)
    bias_variance: Float[Array, ""] = positive()
    centre: Float[Array, "..."] = fixed(input=1, location=True)

    def __init__(
        self,
        variance: Values = 1.0,
        weight_variance: Values = 1.0,
        bias_variance: Values = 1.0,
        centre: Values = 0.0,
    ):
        self.variance = variance
        self.weight_variance = weight_variance
        self.bias_variance = bias_variance
        self.centre = centre

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        parameters = self.weight_variance, self.centre
        s_XZ = self.bias_variance + inner_product(X, Z, *parameters)
        s_X, s_Z = self._squared_radius(X)[:, None], self._squared_radius(Z)[None, :]
        # arcsin(p / √q) = arctan(p / √(q - p²)), and q - p² >= 1 where 1 - p²/q would round to 0
        gap = 1.0 + 2.0 * (s_X + s_Z) + 4.0 * wedge(X, Z, self.bias_variance, *parameters)
        return self.variance * (2.0 / jnp.pi) * jnp.arctan2(2.0 * s_XZ, jnp.sqrt(gap))

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        s = self._squared_radius(X)
        return self.variance * (2.0 / jnp.pi) * jnp.arctan2(2.0 * s, jnp.sqrt(1.0 + 4.0 * s))

    def _squared_radius(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return self.bias_variance + squared_norm(X, self.weight_variance, self.centre)
