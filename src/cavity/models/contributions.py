"""What each part of an input contributes to a function that is a sum over parts."""

import dataclasses

import jax
import jax.numpy as jnp

from cavity.inducing.sums import part_function
from cavity.inference.graph.views import InducingView, OutputMean
from cavity.inference.variables.inducing import InducingBelief
from cavity.means import Zero
from cavity.models.process import AbstractProcess, SparseProcess, TakesGaussianInputs
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float


@compiled
def contributions(
    process: AbstractProcess, X: Float[Array, "n D"]
) -> tuple[Float[Array, "n P F"], Float[Array, "n P F"]]:
    r"""Means and variances of $w_p\, g(\mathbf x^{[p]})$ for every part and every function.

    Raises:
        ValueError: for functions that are no sums over parts with variables of $g$.
    """
    if not isinstance(process, TakesGaussianInputs):
        raise ValueError(
            "contributions are of independent sparse functions: give the model "
            "inducing.InBase(...), and several classes method=cavity.PowerEP(coupled=False)"
        )
    found = [_of_function(*function, X) for function in process.sparse_functions()]
    means, variances = zip(*found, strict=True)
    return jnp.concatenate(means, axis=-1), jnp.concatenate(variances, axis=-1)


def _of_function(view: InducingView, belief: InducingBelief, X: Array) -> tuple[Array, Array]:
    """The function of one part is a sparse process with the same variables, seen from parts."""
    kernel, inner, whole = part_function(view.inducing, view.kernel)
    mean = OutputMean(Zero(), view.mean.outputs)
    own = dataclasses.replace(view, kernel=kernel, inducing=inner, mean=mean, number=None)
    process = SparseProcess(own, belief)
    whole.check(X)

    def one(x: Float[Array, " D"]) -> tuple[Array, Array]:
        parts, weights = whole.apart(x)
        mean, var = process.moments(parts)
        return weights[:, None] * mean, weights[:, None] ** 2 * var

    return jax.lax.map(one, X)
