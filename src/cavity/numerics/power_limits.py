"""Functions of the power that keep their limit at zero."""

import math
from collections.abc import Callable
from typing import TypeVar, cast

import jax
import jax.numpy as jnp

from cavity.numerics.types import Array, Float

Tree = TypeVar("Tree")
Power = float | Float[Array, ""] | Float[Array, "..."]


def is_exactly(power: Power, value: float) -> bool:
    """True if the power is this Python number, so that the limit is known when tracing."""
    return isinstance(power, int | float) and power == value


def with_limit_at_zero(
    power: Power, limit: Callable[[], Tree], at_power: Callable[[Power], Tree]
) -> Tree:
    """A pytree of functions of the power, entry by entry, with its limit where powers are zero.

    Args:
        power: one number, or one per entry.
        limit: the values at power zero.
        at_power: the values at powers above zero.
    """
    if is_exactly(power, 0.0):
        return limit()
    if isinstance(power, int | float):
        return at_power(power)
    zero = jnp.asarray(power) <= 0.0
    above = at_power(jnp.where(zero, 1.0, power))
    return jax.tree.map(lambda at_zero, x: jnp.where(zero, at_zero, x), limit(), above)


def log1p_ratio(power: Power, x: Array) -> Array:
    r"""$\log(1 + a x) / a$, which is $x$ at $a = 0$ and 0 at infinity; accurate everywhere."""
    if is_exactly(power, 0.0):
        return x
    if is_exactly(power, math.inf):
        return jnp.zeros_like(x)
    if is_exactly(power, 1.0):
        return jnp.log1p(x)
    ax = power * x
    small = jnp.abs(ax) < 1e-5
    # log(1 + ax)/a = x (1 - ax/2 + (ax)²/3 - ...)
    series = x * (1.0 - ax / 2.0 + ax**2 / 3.0)
    safe = jnp.where(small, 1.0, power)
    return jnp.where(small, series, jnp.log1p(jnp.where(small, 0.0, ax)) / safe)


def log_determinant_ratio(power: Power, S: Float[Array, "B B"]) -> Float[Array, ""]:
    r"""$\log |I + a S| / a$, at $a = 0$ the trace of S; NaN for a negative determinant."""
    if is_exactly(power, 0.0):
        return jnp.trace(S)
    if is_exactly(power, math.inf):
        return jnp.zeros((), S.dtype)
    eye = jnp.eye(S.shape[-1], dtype=S.dtype)

    def direct(a: Power, S: Array) -> Array:
        sign, log_det = jnp.linalg.slogdet(eye + a * S)
        return cast(Array, jnp.where(sign > 0.0, log_det, jnp.nan)) / a

    if is_exactly(power, 1.0):
        return direct(1.0, S)
    # tr S - a tr S²/2 + a² tr S³/3 where the next term is below the rounding of the determinant
    small = power * jnp.sqrt(jnp.sum(S * S)) < (4.0 * jnp.finfo(S.dtype).eps) ** 0.25
    SS = S @ S
    series = jnp.trace(S) - power * jnp.trace(SS) / 2.0 + power**2 * jnp.sum(SS * S.T) / 3.0
    masked = direct(jnp.where(small, 1.0, power), jnp.where(small, 0.0, S))
    return jnp.where(small, series, masked)


def frozen(tree: Tree) -> Tree:
    """The same values, constant under differentiation; Python numbers stay what they are."""
    return jax.tree.map(
        lambda x: jax.lax.stop_gradient(x) if isinstance(x, jax.Array) else x, tree
    )
