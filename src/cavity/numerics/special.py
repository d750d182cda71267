"""Special functions in the form that the hot paths need."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.numerics.types import Array, Float

LOG_2PI = 1.8378770664093453

# The polynomial in u = 2t - 1, t = 2 / (2 + z), of log erfc(z) + z² - log t for z >= 0, from its
# Chebyshev expansion; they shrink fast enough that powers lose no digit.
_ERFC = (
    -0.6717940840566905,
    0.6726432239776784,
    0.04734330684150002,
    -0.04689561023224204,
    -0.00987268934653931,
    0.008824938576434675,
    0.0017589331726155422,
    -0.0023458126868447947,
    -0.00014624298642388568,
    0.0006736798615202133,
    -9.375813773090157e-05,
    -0.00017430670091016508,
    7.148871806634815e-05,
    3.17530517349951e-05,
    -3.0408585207624128e-05,
    1.3004093489143996e-07,
    8.937477996369126e-06,
    -2.952884824480861e-06,
    -1.7014106560964138e-06,
    1.2761051766574383e-06,
    1.5487574273720386e-07,
    -2.8666574507951737e-07,
    1.695007085800171e-09,
    2.9299408197402955e-08,
)


@eqx.filter_jit
def log_ndtr(x: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\log \Phi(x)$ for any x, to a relative error below $10^{-12}$.

    Half the time of `jax.scipy.special.log_ndtr`, and accurate far above zero too, where that
    function loses digits.
    """
    return _log_ndtr(x)


@jax.custom_jvp
def _log_ndtr(x: Array) -> Array:
    return _log_of_ndtr(x, *_log_erfcx(x))


def _log_erfcx(x: Float[Array, "..."]) -> tuple[Array, Array]:
    """t and r where erfc(z) is t exp(r - z²), for z = |x| / √2."""
    t = 2.0 / (2.0 + jnp.abs(x) * math.sqrt(0.5))
    u = 2.0 * t - 1.0
    rest = jnp.full_like(u, _ERFC[-1])
    for c in _ERFC[-2::-1]:
        rest = rest * u + c
    return t, rest


def _log_of_ndtr(x: Array, t: Array, rest: Array) -> Array:
    square = 0.5 * x**2
    tail = 0.5 * t * jnp.exp(rest - square)
    # one logarithm, which takes longer than all else: of ½ t, or of 1 - tail
    log = jnp.log(jnp.where(x < 0.0, 0.5 * t, 1.0 - tail))
    far_above = -tail * (1.0 + tail * (0.5 + tail / 3.0))
    return jnp.where(x < 0.0, log + (rest - square), jnp.where(tail < 1e-4, far_above, log))


@_log_ndtr.defjvp
def _log_ndtr_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (change,) = primals, tangents
    value, r, _ = log_ndtr_derivatives(x)
    return value, r * change


@eqx.filter_jit
def log_ndtr_derivatives(x: Float[Array, "..."]) -> tuple[Array, Array, Array]:
    r"""$\log \Phi(x)$ and its first two derivatives, $r = \phi / \Phi$ and $-r (r + x)$."""
    t, rest = _log_erfcx(x)
    _, r, bend = _ndtr_derivatives(x, t, rest)
    return _log_of_ndtr(x, t, rest), r, bend


@eqx.filter_jit
def scaled_ndtr_derivatives(x: Float[Array, "..."]) -> tuple[Array, Array, Array]:
    r"""$\Phi(x)\, e^{\min(x, 0)^2/2}$, and two derivatives of $\log \Phi$.

    The scaled value falls as 1 / |x| below zero. So a product of several such values does not
    underflow, and needs one logarithm, which takes longer than all else.
    """
    return _ndtr_derivatives(x, *_log_erfcx(x))


def _ndtr_derivatives(x: Array, t: Array, rest: Array) -> tuple[Array, Array, Array]:
    below, bell = 0.5 * t * jnp.exp(rest), jnp.exp(-0.5 * x**2)
    value = jnp.where(x < 0.0, below, 1.0 - bell * below)
    r = math.exp(-0.5 * LOG_2PI) * jnp.where(x < 0.0, 1.0, bell) / value
    # far below zero r is -x - 1 / x + ..., and r + x loses all digits
    far = x < (-20.0 if jnp.finfo(x.dtype).bits == 32 else -100.0)
    square = 1.0 / jnp.where(far, x, 1.0) ** 2
    bend = jnp.where(far, square * (1.0 - 6.0 * square) - 1.0, -r * (r + x))
    return value, r, bend


# Below it, the terms of a continued fraction that give all digits, where differences lose them.
_FAR, _TERMS = -3.0, 40


def log_scaled_ndtr_derivatives(x: Float[Array, "..."]) -> tuple[Array, Array, Array]:
    r"""$g(x) = \log \Phi(x) + x^2/2$ and its first two derivatives, accurate far below zero too.

    With $z = -x$ the ratio $\phi / \Phi$ is $z + c$, and $g' = c$ is Laplace's continued fraction
    $1 / (z + 2 / (z + 3 / (z + \dots)))$.
    """
    near, z = jnp.maximum(x, _FAR), jnp.maximum(-x, -_FAR)
    tail = z
    for k in range(_TERMS, 2, -1):
        tail = z + k / tail
    c = 1.0 / (z + 2.0 / tail)
    far = -jnp.log(z + c) - 0.5 * LOG_2PI, c, 2.0 * c / tail - c**2
    value, r, bend = log_ndtr_derivatives(near)
    direct = value + 0.5 * near**2, r + near, bend + 1.0
    g, slope, curvature = (jnp.where(x < _FAR, a, b) for a, b in zip(far, direct, strict=True))
    return g, slope, curvature
