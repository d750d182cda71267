"""Special functions in the form that the hot paths need."""

import math

import jax
import jax.numpy as jnp

from cavity.numerics.gaussian import LOG_2PI
from cavity.numerics.types import Array, Float

LOG_HALF = math.log(0.5)

# Chebyshev coefficients, in 2t - 1 with t = 2 / (2 + z), of log erfc(z) + z² - log t for z >= 0.
_ERFC = (
    -0.6513268598908546,
    0.6419697923564902,
    0.019476473204185787,
    -0.009561514786808747,
    -0.0009465953444818754,
    0.00036683949785269124,
    4.2523324806829076e-05,
    -2.0278578112566947e-05,
    -1.624290004625939e-06,
    1.3036558355583593e-06,
    1.5626441836058546e-08,
    -8.523809634564117e-08,
    6.52905445708285e-09,
    5.059343615165801e-09,
    -9.913641296765974e-10,
    -2.2736548199731032e-10,
    9.646806631291582e-11,
    2.3940494031648996e-12,
    -6.885988446114766e-12,
    8.941913876014951e-13,
    3.1318336812802274e-13,
    -1.1271872324414289e-13,
    8.08242361927114e-16,
    6.985523270941485e-15,
)


@jax.custom_jvp
def log_ndtr(x: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""$\log \Phi(x)$ for any x, to a relative error below $10^{-12}$.

    Half the time of `jax.scipy.special.log_ndtr`, and accurate far above zero too, where that
    function loses digits.
    """
    z = jnp.abs(x) * math.sqrt(0.5)
    t = 2.0 / (2.0 + z)
    u = 2.0 * t - 1.0
    # Clenshaw's recurrence
    after, later = jnp.full_like(u, _ERFC[-1]), jnp.zeros_like(u)
    for c in _ERFC[-2:0:-1]:
        after, later = 2.0 * u * after - later + c, after
    # log Φ(-|x|) = log ½ erfc(z)
    below = LOG_HALF + jnp.log(t) - z**2 + (u * after - later + _ERFC[0])
    tail = jnp.exp(jnp.minimum(below, LOG_HALF))
    # log(1 - tail)
    above = jnp.where(tail < 1e-4, -tail * (1.0 + tail * (0.5 + tail / 3.0)), jnp.log(1.0 - tail))
    return jnp.where(x < 0.0, below, above)


@log_ndtr.defjvp
def _log_ndtr_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (change,) = primals, tangents
    value = log_ndtr(x)
    # φ(x) / Φ(x)
    return value, jnp.exp(-0.5 * (x**2 + LOG_2PI) - value) * change


def log_ndtr_derivatives(x: Float[Array, "..."]) -> tuple[Array, Array, Array]:
    r"""$\log \Phi(x)$ and its first two derivatives, $r = \phi / \Phi$ and $-r (r + x)$."""
    value = log_ndtr(x)
    r = jnp.exp(-0.5 * (x**2 + LOG_2PI) - value)
    return value, r, -r * (r + x)
