"""How far the mean of a product exceeds the product of means, in quick loops over all pairs.

XLA computes exponentials of a matrix many at a time only where the loop reads whole matrices, and
never sines. So what varies along rows or columns comes as a product of matrices, and sines are
polynomials here.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from cavity.numerics.types import Array, Float

# Where E[ab] / (E[a] E[b]) of two bumps is above e⁶⁰⁰, all three are below e⁻⁶⁰⁰: E[ab] is below
# both means. In single precision the same with e⁷⁵.
MOST = {8: 600.0, 4: 75.0}
# Waves may cancel in both means and not in that of their product: above e³⁰ it is computed alone.
LARGE = 30.0
# Below this size e^x - 1 is a polynomial in x.
NEAR, DEGREE = 0.25, 13
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


def _expm1(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """e^x - 1 to all digits of a small x, in two thirds of the time of `jnp.expm1`."""
    series = jnp.full_like(x, 1.0 / math.factorial(DEGREE))
    for k in range(DEGREE - 1, 0, -1):
        series = series * x + 1.0 / math.factorial(k)
    return jnp.where(jnp.abs(x) < NEAR, series * x, jnp.exp(x) - 1.0)


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
