"""Inducing variables that are weighted sums of other functionals."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import (
    AbstractInducing,
    covariance_from,
    input_columns,
)
from cavity.kernels.base import AbstractKernel
from cavity.numerics.types import Array, Float
from cavity.parameters import real


class Combinations(AbstractInducing):
    r"""Weighted sums of C functionals each: $u_m = \sum_c w_{mc} \, \tilde{\mathcal L}_{mc} f$.

    A posterior mean has M C basis functions while matrices stay M x M. It explains no more
    variance than any M functionals do. Over points, with which it works for any kernel, these
    are sums of deltas. Multiplying all weights of a variable by a number changes nothing.

    Memory is that of one functional per variable: the terms are added one after another, and
    are computed anew on the way back.

    Args:
        base: M C functionals of any kind, those of the first variable first. All their arrays
            have them along their first axis.
        weights: $w$ (M, C).

    Raises:
        ValueError: if the base has another number of functionals than there are weights, or if
            all weights of a variable are zero or one is not finite.

    References:
        van der Wilk (2018), items 53 to 55.
    """

    base: AbstractInducing
    weights: Float[Array, "M C"] = real()

    def __init__(self, base: AbstractInducing, weights: Any):
        shape = np.shape(weights)
        if len(shape) != 2 or 0 in shape:
            raise ValueError(
                "weights must be a matrix (M, C), a row for each inducing variable, given shape "
                f"{shape}"
            )
        if base.size != shape[0] * shape[1]:
            raise ValueError(
                f"weights for {shape[0]} variables of {shape[1]} functionals each need a base of "
                f"{shape[0] * shape[1]}, given {base.size}"
            )
        if not isinstance(weights, jax.Array):
            if not np.all(np.isfinite(np.asarray(weights, float))):
                raise ValueError("weights must be finite numbers")
            empty = np.flatnonzero(~np.any(np.asarray(weights, float) != 0.0, axis=1))
            if len(empty):
                raise ValueError(
                    f"all weights of variable {empty[0]} (counted from 0) are zero: leave it out"
                )
        self.base = base
        self.weights = weights

    def __call__(self, g: Callable[[Float[Array, " D"]], Array]) -> Float[Array, "M ..."]:
        return self._sum(lambda functionals: functionals(g))

    @property
    def size(self) -> int:
        return self.weights.shape[0]

    def functional(self, c: int) -> AbstractInducing:
        """The c-th functional of every variable."""
        return some_of(self.base, np.arange(self.size) * self.weights.shape[1] + c)

    def _sum(self, of_base: Callable[[AbstractInducing], Array]) -> Float[Array, "M ..."]:
        """The weighted sum of what is computed of the functionals, one of each variable a time."""
        M, C = self.weights.shape
        arrays, others = eqx.partition(self.base, eqx.is_array)
        columns = jax.tree.map(
            lambda x: jnp.moveaxis(jnp.asarray(x).reshape(M, C, *x.shape[1:]), 1, 0), arrays
        )

        def term(functionals: AbstractInducing, weight: Float[Array, " M"]) -> Array:
            value = of_base(eqx.combine(functionals, others))
            return jnp.einsum("m...,m->m...", value, weight)

        def step(total: Array, part: tuple[AbstractInducing, Array]) -> tuple[Array, None]:
            # the sum is linear: nothing of it is kept for the way back
            return total + jax.checkpoint(term)(*part), None

        parts = columns, jnp.asarray(self.weights).T
        like = jax.eval_shape(term, *jax.tree.map(lambda x: x[0], parts))
        return jax.lax.scan(step, jnp.zeros(like.shape, like.dtype), parts)[0]


def some_of(functionals: AbstractInducing, index: np.ndarray) -> AbstractInducing:
    """Some functionals of a set, whose arrays have them along their first axis.

    Raises:
        ValueError: for a kind whose arrays have another first axis.
    """
    size = functionals.size
    arrays, others = eqx.partition(functionals, eqx.is_array)
    if any(x.ndim == 0 or x.shape[0] != size for x in jax.tree.leaves(arrays)):
        raise ValueError(
            f"combinations need functionals whose arrays have one entry for each, along the first "
            f"axis; {type(functionals).__name__} has others"
        )
    return eqx.combine(jax.tree.map(lambda x: x[index], arrays), others)


def merged(functionals: AbstractInducing, first: int, second: int, weights: Any) -> Combinations:
    r"""Two inducing variables replaced by one weighted sum of both.

    Learning may place two variables so close together that only their difference matters, with
    huge weights of opposite signs in the posterior mean. Merged with these weights,
    $\boldsymbol\alpha = \mathbf K_{uu}^{-1} \mathbf m$ (`cavity.fitting.compressed(posterior)` has
    them as `process.weights`), they give the same mean, with one variable less.

    Args:
        functionals: M inducing variables; combinations, or functionals whose arrays have them
            along their first axis.
        first: number of one variable, counted from 0.
        second: number of the other.
        weights: of the two in their sum, not both zero; their scale does not matter.

    Returns:
        M - 1 variables, the merged one last.

    Raises:
        ValueError: for variables that are not two of these.

    References:
        van der Wilk (2018), item 56.
    """
    M = functionals.size
    if first == second or not (0 <= first < M and 0 <= second < M):
        raise ValueError(
            f"merging takes two different variables of 0 to {M - 1}, given {first} and {second}"
        )
    pair = np.asarray(weights, float)
    if pair.shape != (2,) or not np.any(pair):
        raise ValueError(f"merging takes two weights that are not both zero, given {weights}")
    combined = isinstance(functionals, Combinations)
    base = functionals.base if combined else functionals
    own = np.asarray(functionals.weights) if combined else np.ones((M, 1))
    C = own.shape[1]
    number = np.arange(M * C).reshape(M, C)
    others = np.setdiff1d(np.arange(M), [first, second])
    pair = pair / np.max(np.abs(pair))
    # all variables have as many functionals: those of the others are repeated with weight zero
    index = [number[others], number[others]], [number[[first]], number[[second]]]
    values = [own[others], 0.0 * own[others]], [pair[0] * own[[first]], pair[1] * own[[second]]]
    places = np.concatenate([np.concatenate(x, axis=1) for x in index])
    return Combinations(
        some_of(base, places.ravel()),
        np.concatenate([np.concatenate(x, axis=1) for x in values]),
    )


@input_columns.register
def _(a: Combinations) -> int | None:
    return input_columns(a.base)


@covariance_from.register
def _(a: Combinations, b: AbstractInducing, kernel: AbstractKernel) -> Float[Array, "M K"]:
    return a._sum(lambda functionals: covariance_from(functionals, b, kernel))
