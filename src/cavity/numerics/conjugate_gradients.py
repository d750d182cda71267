"""Conjugate gradients with a preconditioner, and bounds of the quadratic form on the way."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from cavity.numerics.types import Array, Float, Int, Scalar

Columns = Float[Array, "N P"]


class QuadraticBounds(NamedTuple):
    r"""Bounds of $\mathbf y^\top \mathbf A^{-1} \mathbf y$, summed over columns.

    Attributes:
        solution: $\mathbf v$, about $\mathbf A^{-1} \mathbf y$.
        residual: $\mathbf r = \mathbf y - \mathbf A \mathbf v$.
        lower: the largest $2 \mathbf y^\top \mathbf v - \mathbf v^\top \mathbf A \mathbf v$.
        upper: the smallest $\text{lower} + \mathbf r^\top \mathbf B^{-1} \mathbf r$.
        products: how many times columns were multiplied by A.
    """

    solution: Columns
    residual: Columns
    lower: Scalar
    upper: Scalar
    products: Int[Array, ""]


class _State(NamedTuple):
    v: Columns
    r: Columns
    direction: Columns
    error: Float[Array, " P"]  # rᵀB⁻¹r
    upper: Float[Array, " P"]
    products: Int[Array, ""]


def bound_quadratic(
    multiply: Callable[[Columns], Columns],
    solve: Callable[[Columns], Columns],
    y: Columns,
    *,
    enough: Scalar,
    products: int | Int[Array, ""],
) -> QuadraticBounds:
    r"""Bounds of $\mathbf y^\top \mathbf A^{-1} \mathbf y$ for $\mathbf A \succeq \mathbf B$.

    For every $\mathbf v$, $\mathbf y^\top \mathbf A^{-1} \mathbf y = 2 \mathbf y^\top \mathbf v -
    \mathbf v^\top \mathbf A \mathbf v + \mathbf r^\top \mathbf A^{-1} \mathbf r$, whose last term
    lies between 0 and $\mathbf r^\top \mathbf B^{-1} \mathbf r$. The search starts at zero, from
    which its first direction is $\mathbf B^{-1} \mathbf y$.

    Args:
        multiply: columns times A.
        solve: columns times the inverse of B, the preconditioner.
        y: the columns.
        enough: the search stops where the bounds, summed over columns, are this close.
        products: multiplications at the most.

    References:
        Shewchuk (1994), section 12; `docs/theory/bracket.md`.
    """

    def unfinished(state: _State) -> Array:
        return (state.products < products) & (jnp.sum(state.error) > enough)

    def step(state: _State) -> _State:
        moved = multiply(state.direction)
        curvature = jnp.sum(state.direction * moved, axis=0)
        length = _ratio(state.error, curvature)
        v, r = state.v + length * state.direction, state.r - length * moved
        z = solve(r)
        error = jnp.sum(r * z, axis=0)
        direction = z + _ratio(error, state.error) * state.direction
        upper = jnp.minimum(state.upper, jnp.sum(v * (y + r), axis=0) + error)
        return _State(v, r, direction, error, upper, state.products + 1)

    first = solve(y)
    error = jnp.sum(y * first, axis=0)
    start = _State(jnp.zeros_like(y), y, first, error, error, jnp.zeros((), int))
    end = jax.lax.while_loop(unfinished, step, start)
    # 2 yᵀv - vᵀAv = vᵀ(y + r), which conjugate gradients make larger at every step
    lower = jnp.sum(end.v * (y + end.r))
    return QuadraticBounds(end.v, end.r, lower, jnp.sum(end.upper), end.products)


def _ratio(a: Array, b: Array) -> Array:
    """a / b, and 0 where b is: a column that has converged moves no further."""
    return jnp.where(b > 0.0, a / jnp.where(b > 0.0, b, 1.0), 0.0)
