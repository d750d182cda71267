"""The mode of a Gaussian times a power of a log-concave density."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float


def tilted_mode(
    slope: Callable[[Array], Array],
    mean: Float[Array, "..."],
    var: Float[Array, "..."],
    power: Power,
    steps: int = 40,
) -> tuple[Array, Array]:
    r"""Mode and width of $\mathcal N(f; m, v)\, p(f)^a$ for a log-concave p, elementwise.

    Newton's method on the derivative, bisecting where it leaves the bracket or gets slow.

    Args:
        slope: the derivative of log p in f.
        mean: m.
        var: v.
        power: a.
        steps: Newton steps.
    """
    sd = jnp.sqrt(var)

    def both(f: Array) -> tuple[Array, Array]:
        value, curvature = jax.jvp(slope, (f,), (jnp.ones_like(f),))
        return (mean - f) / var + power * value, 1.0 / var - power * curvature

    def step(_: Array | int, state: tuple[Array, ...]) -> tuple[Array, ...]:
        f, low, high, last = state
        g, h = both(f)
        low, high = jnp.where(g > 0.0, f, low), jnp.where(g < 0.0, f, high)
        move, half = g / h, 0.5 * (high - low)
        # an exponential takes Newton's method down by one at a time
        quick = (jnp.abs(move) < 0.5 * last) | (move * g < 1e-6)
        good = quick & (f + move > low) & (f + move < high)
        new = jnp.where(good, f + move, low + half)
        return new, low, high, jnp.where(good, jnp.abs(move), half)

    far = 1e4 * sd + jnp.abs(mean) + 1e3
    start = (mean, mean - far, mean + far, jnp.full_like(mean, jnp.inf))
    f = jax.lax.fori_loop(0, steps, step, start)[0]
    _, h = both(f)
    return f, 1.0 / jnp.sqrt(jnp.where((h > 0.0) & jnp.isfinite(h), h, 1.0 / var))
