"""Excess of the mean of a product over the product of means, in quick loops over all pairs.

XLA computes exponentials of a matrix many at a time only where the loop reads whole matrices, and
never sines. So what varies along rows or columns comes as a product of matrices, and sines are
polynomials here.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from cavity.kernels.expectations.inputs import quadratic, spread
from cavity.numerics.types import Array, Float, Scalar

# Where E[ab] / (E[a] E[b]) of two bumps is above e⁶⁰⁰, all three are below e⁻⁶⁰⁰: E[ab] is below
# both means. In single precision the same with e⁶⁰, so that a product with a matrix is finite.
MOST = {8: 600.0, 4: 60.0}
# Waves may cancel in both means and not in that of their product: above e³⁰ it is computed alone.
LARGE = 30.0
# The degree of the polynomial for e^x - 1 up to half of log 2; below this, e^x - 1 is -1.
DEGREE, LEAST = 13, -40.0
# By the bytes of a number: what is added to a whole one so that its last bits are those of an
# exponent, and by how many bits these are shifted to their place.
EXPONENT = {8: (1.5 * 2.0**52 + 1023.0, jnp.int64, 52), 4: (1.5 * 2.0**23 + 127.0, jnp.int32, 23)}
# The first bits of log 2, and the others.
LOG_2_HIGH = math.floor(math.log(2.0) * 2**15) / 2**15
LOG_2_LOW = 2.3190468138462996e-17 + (math.log(2.0) - LOG_2_HIGH)
# The first bits of π, and the others.
PI_HIGH = math.floor(math.pi * 2**30) / 2**30
PI_LOW = 1.2246467991473532e-16 + (math.pi - PI_HIGH)
# Terms of the series of sine and cosine up to a right angle.
TERMS = 12


@jax.custom_jvp
def excess(
    log_a: Float[Array, " M"], log_b: Float[Array, " K"], log_ratio: Float[Array, "M K"]
) -> Float[Array, "M K"]:
    r"""$e^{\rho_a + \rho_b} (e^L - 1)$ of real logarithms, to all digits of a small L."""
    return outer(jnp.exp(log_a), jnp.exp(log_b)) * _expm1(
        jnp.minimum(log_ratio, MOST[log_ratio.dtype.itemsize])
    )


def log_ratio(
    left: Array, right: Array, fall_a: Array, fall_b: Array, volume: Array
) -> tuple[Array, Array]:
    r"""Two matrices whose product is $\mathbf l_i^\top \mathbf r_j - f_i - g_j + v$.

    All in one product: what follows it is then one quick loop.

    Args:
        left: l (M, D).
        right: r (K, D).
        fall_a: f (M,).
        fall_b: g (K,).
        volume: v.
    """
    rows = [left, (volume - fall_a)[:, None], jnp.ones_like(left[:, :1])]
    columns = [right, jnp.ones_like(right[:, :1]), -fall_b[:, None]]
    return jnp.concatenate(rows, axis=1), jnp.concatenate(columns, axis=1)


class Bump(NamedTuple):
    r"""The logarithm of a bump at one row and all points, and its log ratio with itself.

    $$\rho_i = -\tfrac12 \mathbf x_i^\top \mathbf R \mathbf x_i, \qquad
        L_{ij} = \mathbf x_i^\top \mathbf T \mathbf x_j - \tfrac12 \mathbf x_i^\top \mathbf F
        \mathbf x_i - \tfrac12 \mathbf x_j^\top \mathbf F \mathbf x_j + v$$

    Args:
        away: x, from the points to the mean, a column for each point, (D, M).
        decay: R; all three are symmetric, (D, D), or the diagonals of diagonal ones, (D,).
        link: T.
        fall: F.
        volume: v.
    """

    away: Float[Array, "D M"]
    decay: Float[Array, "D *D"]
    link: Float[Array, "D *D"]
    fall: Float[Array, "D *D"]
    volume: Scalar

    def parts(self) -> tuple[Float[Array, " M"], Float[Array, "M M"]]:
        """The bump at the points, and the excess of its ratio over one."""
        x = self.away.T
        fall = 0.5 * quadratic(self.fall, self.away)
        rows, columns = log_ratio(spread(self.link, x), x, fall, fall, self.volume)
        gained = _expm1(jnp.minimum(rows @ columns.T, MOST[x.dtype.itemsize]))
        return jnp.exp(-0.5 * quadratic(self.decay, self.away)), gained


@jax.custom_jvp
def form_of_excess(W: Float[Array, "M M"], bump: Bump) -> Scalar:
    r"""The sum of $W_{ij} e^{\rho_i + \rho_j} (e^{L_{ij}} - 1)$ with a symmetric W.

    Its derivative takes one exponential and two products for each pair of points, as all is
    symmetric in them: what both sides change is twice what one does.
    """
    a, gained = bump.parts()
    return jnp.sum(W * (gained * outer(a, a)))


@form_of_excess.defjvp
def _form_of_excess_jvp(primals: tuple, tangents: tuple) -> tuple[Scalar, Scalar]:
    (W, bump), (change_w, change) = primals, tangents
    x, (a, gained) = bump.away, bump.parts()
    beside = jnp.concatenate([a * x, a[None]])
    by_gain = beside @ (W * gained)
    near = a * (by_gain + beside @ W)
    kept, total, near = a * by_gain[-1], near[-1], near[:-1]
    slopes = Bump(
        2.0 * (_times(bump.link, near) - _times(bump.fall, x * total))
        - 2.0 * _times(bump.decay, x * kept),
        -_second(bump.decay, x * kept, x),
        _second(bump.link, near, x),
        -_second(bump.fall, x * total, x),
        jnp.sum(total),
    )
    products = jax.tree.map(lambda slope, step: jnp.sum(slope * step), slopes, change)
    return jnp.sum(kept), sum(products) + jnp.sum(outer(a, a) * gained * change_w)


def _times(matrix: Float[Array, "D *D"], x: Float[Array, "D M"]) -> Float[Array, "D M"]:
    return matrix[:, None] * x if matrix.ndim == 1 else matrix @ x


def _second(matrix: Array, x: Float[Array, "D M"], y: Float[Array, "D M"]) -> Float[Array, "D *D"]:
    """The sum over points of the products of x and y, in the form of the matrix."""
    return jnp.sum(x * y, axis=1) if matrix.ndim == 1 else x @ y.T


@jax.custom_jvp
def _wide_excess(
    log_a: Float[Array, " M"], log_b: Float[Array, " K"], log_ratio: Float[Array, "M K"]
) -> Float[Array, "M K"]:
    """`excess` where the product with a large ratio may be large although the means underflow."""
    product, large = outer(jnp.exp(log_a), jnp.exp(log_b)), log_ratio > LARGE
    ones_a, ones_b = jnp.ones_like(log_a), jnp.ones_like(log_b)
    total = log_ratio + jnp.stack([log_a, ones_a], axis=1) @ jnp.stack([ones_b, log_b])
    alone = jnp.exp(jnp.where(large, total, 0.0)) - product
    return jnp.where(large, alone, product * _expm1(jnp.where(large, 0.0, log_ratio)))


def _derivative(function: Callable, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (log_a, log_b, _), (change_a, change_b, change) = primals, tangents
    value = function(*primals)
    whole = value + outer(jnp.exp(log_a), jnp.exp(log_b))
    return value, value * (change_a[:, None] + change_b[None, :]) + whole * change


excess.defjvp(functools.partial(_derivative, excess))
_wide_excess.defjvp(functools.partial(_derivative, _wide_excess))


def excess_of_waves(log_a: Array, log_b: Array, rows: Array, columns: Array) -> Array:
    """`excess` of complex logarithms, with the log ratio as the product of rows and columns."""
    right = _parts(columns, 1.0)
    real, imaginary = _parts(rows, -1.0) @ right.T, _parts(-1j * rows, -1.0) @ right.T
    # e^(x + iy) - 1 = (eˣ - 1) e^(iy) + (e^(iy) - 1)
    gained = _wide_excess(jnp.real(log_a), jnp.real(log_b), real)
    product = outer(jnp.exp(jnp.real(log_a)), jnp.exp(jnp.real(log_b)))
    versine, sine = turn(imaginary)
    along, across = gained * (1.0 - versine) - product * versine, (gained + product) * sine
    a, b = jnp.exp(1j * jnp.imag(log_a))[:, None], jnp.exp(1j * jnp.imag(log_b))[:, None]
    cos, sin = _parts(a, -1.0) @ _parts(b, 1.0).T, _parts(-1j * a, -1.0) @ _parts(b, 1.0).T
    return jax.lax.complex(along * cos - across * sin, along * sin + across * cos)


def _parts(z: Array, sign: float) -> Array:
    """Real and imaginary parts side by side, as the product of two complex matrices needs them."""
    real, imaginary = jnp.real(z), jnp.imag(z)
    return jnp.concatenate([real, sign * imaginary], axis=1)


def outer(a: Array, b: Array) -> Array:
    """The outer product of two vectors, as a product of matrices with two columns.

    XLA takes a plain one into the loop of the exponentials, and then computes those one by one.
    """
    return jnp.stack([a, a], axis=1) @ jnp.stack([0.5 * b, 0.5 * b])


@jax.custom_jvp
def _expm1(x: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$e^x - 1$ to all digits of a small x, in less time than an exponential.

    With $x = k \log 2 + r$ it is $2^k (e^r - 1) + (2^k - 1)$, of which the first is a polynomial.
    """
    x = jnp.maximum(x, LEAST)
    k = jnp.round(x * (1.0 / math.log(2.0)))
    r = (x - k * LOG_2_HIGH) - k * LOG_2_LOW
    series = jnp.full_like(r, 1.0 / math.factorial(DEGREE))
    for i in range(DEGREE - 1, 0, -1):
        series = series * r + 1.0 / math.factorial(i)
    offset, integer, shift = EXPONENT[x.dtype.itemsize]
    bits = jax.lax.bitcast_convert_type(k + offset, integer) << shift
    power = jax.lax.bitcast_convert_type(bits, x.dtype)
    return power * (r * series) + (power - 1.0)


@_expm1.defjvp
def _expm1_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    value = _expm1(*primals)
    return value, (value + 1.0) * tangents[0]


@jax.custom_jvp
def turn(angle: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """1 - cos and sin of an angle, to all digits of a small one; for angles below a million."""
    half = 0.5 * angle
    turns = jnp.round(half / math.pi)
    half = (half - turns * PI_HIGH) - turns * PI_LOW
    square = half**2
    sine = cosine = jnp.zeros_like(half)
    for k in range(TERMS - 1, -1, -1):
        sine = 1.0 / math.factorial(2 * k + 1) - square * sine
        cosine = 1.0 / math.factorial(2 * k) - square * cosine
    sine = half * sine
    return 2.0 * sine**2, 2.0 * sine * cosine


@turn.defjvp
def _turn_jvp(primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    versine, sine = turn(*primals)
    return (versine, sine), (sine * tangents[0], (1.0 - versine) * tangents[0])
