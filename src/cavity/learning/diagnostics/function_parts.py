r"""A sparse function as a sum of two: what can be learned, and what cannot.

$f = g + h$, independent. $g(\mathbf x) = m(\mathbf x) + \mathbf a(\mathbf x)^\top \mathbf v$ is in
the span of the inducing variables $\mathbf v$; $h$ has mean zero and the covariance
$k - \mathbf a^\top \mathbf a$, which no data make smaller.
"""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.graph.rows import Rows
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.results.result import Inference, posterior_of
from cavity.models.posterior import AbstractPosterior
from cavity.models.process import SparseProcess
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float
from cavity.numerics.validation import check_columns, check_finite, float_array

# Rows whose loadings are held at a time.
ROWS = 4096


class FunctionParts(NamedTuple):
    """Moments of both parts of a sparse function; those of f are their sums.

    Attributes:
        mean: posterior mean of g, which is that of f; (n,) or (n, P).
        var: posterior variance of g, which data make smaller; (n,) or (n, P).
        prior_var: prior variance of g, (n,).
        unlearnable_var: variance of h, before and after any data, (n,).
    """

    mean: np.ndarray
    var: np.ndarray
    prior_var: np.ndarray
    unlearnable_var: np.ndarray


@with_one_blas_thread
def function_parts(posterior: AbstractPosterior | Inference, X: ArrayLike) -> FunctionParts:
    """Split a function into the part that inducing variables can learn and the part they cannot.

    Args:
        posterior: of a sparse GP with one latent function; or the result that it is of.
        X: inputs, (n, D).

    Returns:
        Moments of both parts.

    Raises:
        ValueError: for other posteriors, and inputs that do not suit.

    References:
        van der Wilk (2018), item 27 (eqs 2.22 to 2.24).
    """
    known = posterior_of(posterior)
    inputs = float_array("X", X)
    check_columns("X", inputs, known.n_inputs)
    check_finite("X", inputs)
    process = getattr(known, "process", None)
    starts = range(0, len(inputs), ROWS)
    parts = [_parts(process, jnp.asarray(inputs[i : i + ROWS])) for i in starts]
    mean, var, prior, left = (
        np.concatenate([np.asarray(part) for part in each]) for each in zip(*parts, strict=True)
    )
    if known.vector:
        mean, var = mean[:, 0], var[:, 0]
    return FunctionParts(mean, var, prior, left)


@functools.singledispatch
def _parts(process: object, X: Array) -> tuple[Array, Array, Array, Array]:
    raise ValueError(
        "only the function of a GP with inducing variables and one latent function has a part "
        f"that cannot be learned, given {type(process).__name__}"
    )


@_parts.register
@compiled
def _(process: SparseProcess, X: Float[Array, "n D"]) -> tuple[Array, Array, Array, Array]:
    view = process.view
    nothing = jnp.zeros((X.shape[0], view.mean.outputs), X.dtype)
    seen = view.project(Rows(X, nothing, nothing))
    assert seen.loadings is not None
    mean, var = process.belief.marginal(seen)
    return mean + seen.offset, var, jnp.sum(seen.loadings**2, axis=0), seen.residual
