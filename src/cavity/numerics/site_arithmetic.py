r"""Arithmetic of scalar sites: cavity, log-normaliser ratio and moment matching.

A site on a value z is $t(z) = \exp(\nu z - \tfrac12 \tau z^2)$ with shift $\nu$ and precision
$\tau$, which may be negative. Under the belief, z has mean m and variance v. All functions work
elementwise.
"""

import jax.numpy as jnp

from cavity.numerics.power_limits import Power, log1p_ratio
from cavity.numerics.types import Array


def cavity(
    mean: Array, var: Array, shift: Array, precision: Array, power: Power
) -> tuple[Array, Array, Array]:
    """Cavity mean and variance, and whether the cavity is a proper distribution."""
    # v₋ = v / (1 - aτv),  m₋ = (m - avν) / (1 - aτv)
    ratio = 1.0 - power * precision * var
    proper = ratio > 0.0
    ratio = jnp.where(proper, ratio, 1.0)
    return (mean - power * var * shift) / ratio, var / ratio, proper


def log_normaliser_ratio(
    mean: Array, var: Array, shift: Array, precision: Array, power: Power
) -> Array:
    r"""Log-normaliser ratio $D_a = [\Phi(q / t^a) - \Phi(q)] / a$, its limit at power 0."""
    # -log(1 - aτv)/2a + (τm²/2 - νm + aν²v/2) / (1 - aτv)
    ratio = 1.0 - power * precision * var
    exponent = 0.5 * precision * mean**2 - shift * mean + 0.5 * power * shift**2 * var
    return exponent / ratio - 0.5 * log1p_ratio(power, -precision * var)


def moment_match(
    mean: Array, var: Array, slope: Array, curvature: Array, power: Power
) -> tuple[Array, Array]:
    """Shift and precision of the moment-matched site.

    Args:
        mean: cavity mean.
        var: cavity variance.
        slope: first derivative G of the log power mean in the cavity mean.
        curvature: second derivative H.
        power: power a of the method.
    """
    # τ = -H / (1 + aHv),  ν = τm + G / (1 + aHv)
    ratio = 1.0 + power * curvature * var
    precision = -curvature / ratio
    return precision * mean + slope / ratio, precision
