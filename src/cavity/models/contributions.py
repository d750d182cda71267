"""Contributions of the parts of an input to a function that is a sum over them."""

import dataclasses

import jax
import jax.numpy as jnp

from cavity.inducing.sums import PartFunction, part_function
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inducing_view import OutputMean
from cavity.likelihoods.capabilities import capability
from cavity.means import Zero
from cavity.models.process import AbstractProcess, SparseProcess, TakesGaussianInputs
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float


def functions_of_parts(
    process: AbstractProcess, *, sparse: bool
) -> list[tuple[SparseProcess, PartFunction]]:
    r"""The posterior of $g$ of every function $f(\mathbf x) = \sum_p w_p\, g(\mathbf x^{[p]})$.

    Where f is a sum of terms, g is that of the one that is a sum over parts.

    Args:
        process: the functions.
        sparse: whether they have inducing variables.

    Raises:
        ValueError: for functions that are no sums over parts with variables of $g$.
    """
    functions = capability(process, TakesGaussianInputs)
    if not sparse or functions is None:
        raise ValueError(
            "contributions are of independent sparse functions: give the model "
            "inducing.InBase(...), and several classes method=cavity.PowerEP(coupled=False)"
        )
    found = []
    for view, belief in functions.sparse_functions():
        part = part_function(view.inducing, view.kernel)
        # variables of several terms are whitened apart from each other
        own, mean = part.place, OutputMean(Zero(), view.mean.outputs)
        view = dataclasses.replace(
            view,
            kernel=part.kernel,
            inducing=part.inducing,
            mean=mean,
            factor=view.factor[own, own],
            root=view.root[own, own],
            number=None,
        )
        found.append((SparseProcess(view, _partial_belief(belief, own)), part))
    return found


def _partial_belief(belief: InducingBelief, own: slice) -> InducingBelief:
    """The belief about some of the variables."""
    if own == slice(0, belief.mean.shape[-1]):
        return belief
    # columns of the root, in a square matrix with the same product
    root = jnp.linalg.qr(belief.root[..., own], mode="r")
    return InducingBelief(belief.mean[..., own], root, belief.log_normaliser)


@compiled
def contributions(
    process: AbstractProcess, X: Float[Array, "n D"], *, sparse: bool
) -> tuple[Float[Array, "n P F"], Float[Array, "n P F"]]:
    r"""Means and variances of $w_p\, g(\mathbf x^{[p]})$ for every part and every function.

    Args:
        process: the functions.
        X: inputs.
        sparse: whether the functions have inducing variables.

    Raises:
        ValueError: for functions that are no sums over parts with variables of $g$.
    """
    found = [
        _part_moments(*function, X) for function in functions_of_parts(process, sparse=sparse)
    ]
    means, variances = zip(*found, strict=True)
    return jnp.concatenate(means, axis=-1), jnp.concatenate(variances, axis=-1)


def _part_moments(process: SparseProcess, part: PartFunction, X: Array) -> tuple[Array, Array]:
    """The function of one part is a sparse process with the same variables, seen from parts."""
    part.whole.check(X)

    def one(x: Float[Array, " D"]) -> tuple[Array, Array]:
        parts, weights = part.whole.apart(x)
        mean, var = process.moments(parts)
        return weights[:, None] * mean, weights[:, None] ** 2 * var

    return jax.lax.map(one, X)
