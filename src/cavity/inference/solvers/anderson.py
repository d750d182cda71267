r"""Anderson acceleration: fixed points from the differences of the last few iterations.

With iterates x and residuals $\mathbf r = G(\mathbf x) - \mathbf x$, and the differences
$\Delta\mathbf X$, $\Delta\mathbf R$ of the last ones, the next iterate is
$\mathbf x + \beta \mathbf r - (\Delta\mathbf X + \beta \Delta\mathbf R) \boldsymbol\gamma$ with
the $\boldsymbol\gamma$ that makes $|\mathbf r - \Delta\mathbf R \boldsymbol\gamma|$ least, every
coordinate in its own unit: in the sites' numbers as they are, rows with large precisions would
hide all others. Steps that are too long are shortened.

References:
    Walker and Ni (2011), Anderson acceleration for fixed-point iterations, eq. 2.3.
"""

from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from cavity.inference.solvers.settings import AndersonSettings
from cavity.numerics.types import Array, Bool, Float, Int, Scalar

T = TypeVar("T")
# Coordinates at a time whose differences are scaled.
PART = 2**16


class AndersonHistory(eqx.Module):
    """Differences of the last iterates and of their residuals, and the last iterate.

    Attributes:
        iterate_differences: the columns of ΔX, as rows.
        residual_differences: the columns of ΔR, as rows.
        iterate: the last iterate.
        residual: its residual.
        count: iterates since the start or the last restart.
        settings: settings of the acceleration.
    """

    iterate_differences: Float[Array, "D S"]
    residual_differences: Float[Array, "D S"]
    iterate: Float[Array, " S"]
    residual: Float[Array, " S"]
    count: Int[Array, ""]
    settings: AndersonSettings = eqx.field(static=True)

    def next_iterate(
        self, iterate: T, image: T, units: T, step: Scalar, extrapolate: Bool[Array, ""]
    ) -> tuple[T, "AndersonHistory"]:
        """The next iterate, and the history with this one.

        Args:
            iterate: the iterate x.
            image: where a full step leads from there, G(x).
            units: what coordinates are multiplied by to be compared; those that are not finite
                count as zero.
            step: the share of a residual that is added, the β above.
            extrapolate: whether to extrapolate; otherwise the history is forgotten and the step
                is plain.
        """
        x, restore = ravel_pytree(iterate)
        residual = ravel_pytree(image)[0] - x
        depth = self.iterate_differences.shape[0]
        slot = jnp.maximum(self.count - 1, 0) % depth
        # rows of before a restart stay, and count for nothing
        used = extrapolate & (jnp.arange(depth) < self.count)
        put = jax.lax.dynamic_update_index_in_dim  # in its place, where `at` makes a copy
        dX = put(self.iterate_differences, x - self.iterate, slot, 0)
        dR = put(self.residual_differences, residual - self.residual, slot, 0)
        unit = ravel_pytree(units)[0]
        unit = jnp.where(jnp.isfinite(unit), unit, 0.0)
        gamma = _least_squares(*_products(dR, residual, unit, used), self.settings.ridge)
        change = _change(gamma, step, residual, dX, dR, used)
        longest = jnp.maximum(self.settings.longest, step * jnp.max(jnp.abs(residual * unit)))
        length = jnp.max(jnp.abs(change * unit))
        new = x + change * jnp.where(length > longest, longest / length, 1.0)
        new = jnp.where(jnp.all(jnp.isfinite(new)), new, x + step * residual)
        count = jnp.where(extrapolate, self.count + 1, 1)
        return restore(new), AndersonHistory(dX, dR, x, residual, count, self.settings)


def empty_history(
    start: PyTree[Array], settings: AndersonSettings = AndersonSettings()
) -> AndersonHistory:
    """The history before the first iterate."""
    x = ravel_pytree(start)[0]
    zero = jnp.zeros_like(x)
    empty = jnp.zeros((settings.depth_for(x.size), x.size), x.dtype)
    return AndersonHistory(empty, empty, zero, zero, jnp.zeros((), int), settings)


def _products(
    differences: Float[Array, "D S"],
    residual: Float[Array, " S"],
    unit: Float[Array, " S"],
    used: Bool[Array, " D"],
) -> tuple[Float[Array, "D D"], Float[Array, " D"]]:
    """Products of the differences that are used, and with the residual, in their units.

    Part by part, without a second copy of all differences.
    """

    def part_products(
        differences: Float[Array, "D s"], residual: Float[Array, " s"], unit: Float[Array, " s"]
    ) -> tuple[Float[Array, "D D"], Float[Array, " D"]]:
        scaled = jnp.where(used[:, None], differences * unit, 0.0)
        return scaled @ scaled.T, scaled @ (residual * unit)

    size = residual.size
    if size <= PART:
        return part_products(differences, residual, unit)

    def further(i: Array, total: tuple[Array, Array]) -> tuple[Array, Array]:
        start = jnp.minimum(i * PART, size - PART)
        # the last part begins within the one before
        fresh = jnp.arange(PART) >= i * PART - start
        d, r, u = (
            jax.lax.dynamic_slice_in_dim(x, start, PART, axis=-1)
            for x in (differences, residual, unit)
        )
        return jax.tree.map(jnp.add, total, part_products(d, r, jnp.where(fresh, u, 0.0)))

    count, dtype = differences.shape[0], residual.dtype
    zero = jnp.zeros((count, count), dtype), jnp.zeros(count, dtype)
    return jax.lax.fori_loop(0, -(-size // PART), further, zero)


def _change(
    gamma: Float[Array, " D"],
    step: Scalar,
    residual: Float[Array, " S"],
    dX: Float[Array, "D S"],
    dR: Float[Array, "D S"],
    used: Bool[Array, " D"],
) -> Float[Array, " S"]:
    """Change of the iterate, part by part as `_products`."""
    size = residual.size

    def part_change(
        r: Float[Array, " s"], x: Float[Array, "D s"], d: Float[Array, "D s"]
    ) -> Array:
        # differences that are not used may be undefined
        return step * r - gamma @ jnp.where(used[:, None], x + step * d, 0.0)

    if size <= PART:
        return part_change(residual, dX, dR)

    def further(i: Array, found: Array) -> Array:
        start = jnp.minimum(i * PART, size - PART)
        cut = jax.lax.dynamic_slice_in_dim
        part = part_change(*(cut(x, start, PART, axis=-1) for x in (residual, dX, dR)))
        return jax.lax.dynamic_update_slice_in_dim(found, part, start, 0)

    return jax.lax.fori_loop(0, -(-size // PART), further, jnp.zeros_like(residual))


def _least_squares(
    gram: Float[Array, "D D"], products: Float[Array, " D"], ridge: float
) -> Float[Array, " D"]:
    # rows of no difference get no share
    diagonal = ridge * jnp.trace(gram) + jnp.where(jnp.diagonal(gram) > 0.0, 0.0, 1.0)
    return jax.scipy.linalg.solve(gram + jnp.diag(diagonal), products, assume_a="pos")
