r"""Anderson acceleration: fixed points from the differences of the last few iterations.

With iterates x and steps $\mathbf r = G(\mathbf x) - \mathbf x$, and the differences
$\Delta\mathbf X$, $\Delta\mathbf R$ of the last ones, the next iterate is
$\mathbf x + \beta \mathbf r - (\Delta\mathbf X + \beta \Delta\mathbf R) \boldsymbol\gamma$ with
the $\boldsymbol\gamma$ that makes $|\mathbf r - \Delta\mathbf R \boldsymbol\gamma|$ least, every
coordinate in its own unit: in the sites' numbers as they are, rows with large precisions would
hide all others. Where that is far away, less of the way is made.

References:
    Walker and Ni (2011), Anderson acceleration for fixed-point iterations, eq. 2.3.
"""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from cavity.numerics.types import Array, Bool, Float, Int, Scalar

T = TypeVar("T")

# Differences that are kept, and the ridge of the least squares, as a share of their mean square.
DEPTH, RIDGE = 8, 1e-10
# How far an extrapolation leads at the most in any unit, if the plain step does not lead farther.
FARTHEST = 0.3


class Past(eqx.Module):
    """The last iterates' differences, and the last iterate with its step.

    Attributes:
        moved: differences of iterates.
        changed: differences of their steps.
        place: the last iterate.
        step: its step.
        count: how many iterates there were since the start or the last disturbance.
    """

    moved: Float[Array, "D S"]
    changed: Float[Array, "D S"]
    place: Float[Array, " S"]
    step: Float[Array, " S"]
    count: Int[Array, ""]

    def extrapolated(
        self, at: T, target: T, units: T, length: Scalar, calm: Bool[Array, ""]
    ) -> tuple[T, "Past"]:
        """The next iterate, and the past with this one.

        Args:
            at: the iterate.
            target: where a full step leads from there.
            units: what coordinates are multiplied by to be compared; those that are not finite
                count as zero.
            length: the share of a step that is made.
            calm: whether to extrapolate; otherwise the past is forgotten and the step is plain.
        """
        x, restore = ravel_pytree(at)
        step = ravel_pytree(target)[0] - x
        slot = jnp.maximum(self.count - 1, 0) % DEPTH
        pushed = (
            self.moved.at[slot].set(x - self.place),
            self.changed.at[slot].set(step - self.step),
        )
        known = calm & (self.count > 0)
        moved, changed = (
            jnp.where(known, new, jnp.zeros_like(old))
            for new, old in zip(pushed, (self.moved, self.changed), strict=True)
        )
        unit = ravel_pytree(units)[0]
        unit = jnp.where(jnp.isfinite(unit), unit, 0.0)
        share = _least_squares(changed * unit, step * unit)
        leap = length * step - share @ (moved + length * changed)
        farthest = jnp.maximum(FARTHEST, length * jnp.max(jnp.abs(step * unit)))
        reach = jnp.max(jnp.abs(leap * unit))
        new = x + leap * jnp.where(reach > farthest, farthest / reach, 1.0)
        count = jnp.where(calm, self.count + 1, 1)
        plain = x + length * step
        good = jnp.all(jnp.isfinite(new))
        return restore(jnp.where(good, new, plain)), Past(moved, changed, x, step, count)


def no_past(start: Any) -> Past:
    """Before the first iterate."""
    x = ravel_pytree(start)[0]
    zero = jnp.zeros_like(x)
    none = jnp.zeros((DEPTH, x.size), x.dtype)
    return Past(none, none, zero, zero, jnp.zeros((), int))


def _least_squares(changed: Float[Array, "D S"], step: Float[Array, " S"]) -> Float[Array, " D"]:
    gram = changed @ changed.T
    size = jnp.trace(gram)
    # zero rows, of no difference, get no share
    ridge = RIDGE * size + jnp.where(jnp.diagonal(gram) > 0.0, 0.0, 1.0)
    return jax.scipy.linalg.solve(gram + jnp.diag(ridge), changed @ step, assume_a="pos")
