"""Kernels of sums over parts: convolutional kernels, and kernels of invariant functions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity.kernels.base import AbstractKernel, Active
from cavity.kernels.part_counts import check_inputs, taken_apart
from cavity.kernels.part_sums import weighted_variance
from cavity.kernels.parts import AbstractParts
from cavity.numerics.types import Array, Float
from cavity.parameters import real

# Inputs whose parts a GPU sees at a time; on a CPU those of one stay in the cache.
TOGETHER = 32


class SumOver(AbstractKernel):
    r"""The covariance of a sum over the parts of an input.

    $$f(\mathbf x) = \sum_p w_p\, g(\mathbf x^{[p]}), \quad g \sim \mathcal{GP}(0, k_g), \qquad
        k(\mathbf x, \mathbf x') = \sum_{p, q} w_p w_q\,
        k_g(\mathbf x^{[p]}, \mathbf x'^{[q]})$$

    With `parts=Patches(...)` this is the convolutional GP, with `parts=Orbit(...)` that of
    functions which a group leaves as they are. Sums are not divided by their number of parts.

    A covariance costs P² of those of g. Inducing variables that are values of g,
    `inducing.InBase(inducing.Points(Z))`, make that P, but for the variances of the inputs.
    Inputs are rows with D columns, or counted rows, of which every distinct part is seen once:
    `kernels.count_parts(parts, X)`.

    Args:
        parts: what takes an input apart.
        base: $k_g$, the covariance of the function of one part.
        weights: $w$, (P,), learned; None for 1. The scale of weights and the variance of the base
            kernel do the same, so one of them may be held.

    Raises:
        ValueError: for another number of weights than there are parts.

    References:
        van der Wilk (2018), items 60, 62 and 65, with erratum X-15; van der Wilk, Rasmussen and
        Hensman (2017).
    """

    parts: AbstractParts
    base: AbstractKernel
    weights: Float[Array, " P"] | None = real(optional=True)

    def __init__(self, parts: object, base: object, weights: Any = None):
        if not isinstance(parts, AbstractParts) or not isinstance(base, AbstractKernel):
            raise TypeError(
                "SumOver takes parts, such as Patches((28, 28)), and then the kernel of one part, "
                f"such as RBF(); given {type(parts).__name__} and {type(base).__name__}"
            )
        if weights is not None and np.shape(weights) != (parts.size,):
            raise ValueError(
                f"weights must have one number for each of the {parts.size} parts, given shape "
                f"{np.shape(weights)}"
            )
        self.parts = parts
        self.base = base
        self.weights = weights

    def cross(self, X: Float[Array, "N D"], Z: Float[Array, "M D"]) -> Float[Array, "N M"]:
        # no numbers of numpy within loops: JAX keeps them at the precision of the first call
        kernel = jax.tree.map(jnp.asarray, self)

        def row(base: AbstractKernel, own: Array, weights: Array) -> Float[Array, " M"]:
            def entry(base: AbstractKernel, others: Array, w: Array) -> Float[Array, ""]:
                return weights @ base.cross(own, others) @ w

            return kernel.sums(Z, entry)

        # pairs of many inputs at a time would take much memory
        return kernel.sums(X, row, together=None)

    def diag(self, X: Float[Array, "N D"]) -> Float[Array, " N"]:
        return self.sums(X, weighted_variance)

    def apart(self, x: Float[Array, " D"]) -> tuple[Float[Array, "P E"], Float[Array, " P"]]:
        """The parts of one input and their weights; of a counted row its distinct parts."""
        weights = jnp.ones(self.parts.size, x.dtype) if self.weights is None else self.weights
        return taken_apart(self.parts, x, weights)

    def check(self, X: Float[Array, "N D"]) -> None:
        """Raises ValueError where inputs have another number of columns."""
        check_inputs(self.parts, X)

    def sums(
        self,
        X: Float[Array, "N D"],
        of_parts: Callable[[AbstractKernel, Array, Array], Array],
        together: int | None = TOGETHER,
    ) -> Float[Array, "N ..."]:
        r"""Sums over the parts of every input, recomputed in the backward pass to save memory.

        Args:
            X: the inputs.
            of_parts: the sum of one input, from the base kernel, the parts, (P, E), and the
                weights, (P,).
            together: inputs at a time on a GPU; None for one after the other.

        Raises:
            ValueError: where inputs have another number of columns.
        """
        self.check(X)
        kernel = jax.tree.map(jnp.asarray, self)

        @jax.checkpoint
        def one(x: Float[Array, " D"]) -> Array:
            return of_parts(kernel.base, *kernel.apart(x))

        size = None if jax.default_backend() == "cpu" else together
        return jax.lax.map(one, X, batch_size=size)


def plain_columns(model: Any) -> int | None:
    """The number of input columns in a model's sums; further columns are notes of counted rows.

    Returns:
        Their number, or None for a model without sums of all columns.
    """
    nodes = jax.tree.leaves(model, is_leaf=lambda node: isinstance(node, SumOver | Active))
    found = [node.parts.columns for node in nodes if isinstance(node, SumOver)]
    return min(found, default=None)
