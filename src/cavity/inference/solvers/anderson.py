r"""Anderson acceleration: fixed points from the differences of the last few iterations.

With iterates x and residuals $\mathbf r = G(\mathbf x) - \mathbf x$, and the differences
$\Delta\mathbf X$, $\Delta\mathbf R$ of the last ones, the next iterate is
$\mathbf x + \beta \mathbf r - (\Delta\mathbf X + \beta \Delta\mathbf R) \boldsymbol\gamma$ with
the $\boldsymbol\gamma$ that makes $|\mathbf r - \Delta\mathbf R \boldsymbol\gamma|$ least, every
coordinate in its own unit: in the sites' numbers as they are, rows with large precisions would
hide all others. Where that is far away, less of the way is made.

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
        slot = jnp.maximum(self.count - 1, 0) % self.settings.depth
        extended = (
            self.iterate_differences.at[slot].set(x - self.iterate),
            self.residual_differences.at[slot].set(residual - self.residual),
        )
        usable = extrapolate & (self.count > 0)
        dX, dR = (jnp.where(usable, new, jnp.zeros_like(new)) for new in extended)
        unit = ravel_pytree(units)[0]
        unit = jnp.where(jnp.isfinite(unit), unit, 0.0)
        gamma = _least_squares(dR * unit, residual * unit, self.settings.ridge)
        change = step * residual - gamma @ (dX + step * dR)
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
    empty = jnp.zeros((settings.depth, x.size), x.dtype)
    return AndersonHistory(empty, empty, zero, zero, jnp.zeros((), int), settings)


def _least_squares(
    differences: Float[Array, "D S"], residual: Float[Array, " S"], ridge: float
) -> Float[Array, " D"]:
    gram = differences @ differences.T
    # zero rows, of no difference, get no share
    diagonal = ridge * jnp.trace(gram) + jnp.where(jnp.diagonal(gram) > 0.0, 0.0, 1.0)
    return jax.scipy.linalg.solve(
        gram + jnp.diag(diagonal), differences @ residual, assume_a="pos"
    )
