"""Inputs that are Gaussian variables, and the algebra of their covariances, row by row."""

from collections.abc import Callable
from typing import TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.numerics.chunking import map_over_rows, sum_over_rows
from cavity.numerics.types import Array, Float, PyTree, Scalar

Result = TypeVar("Result")

# Numbers that a chunk of rows may hold at a time: they stay in the processor's cache.
CACHED_NUMBERS = 1 << 16


class GaussianInputs(eqx.Module):
    r"""Independent inputs $\mathbf x_n \sim \mathcal N(\boldsymbol\mu_n, \mathbf S_n)$.

    Columns that are known have variance zero.

    Args:
        mean: $\boldsymbol\mu$ (N, D).
        cov: variances (N, D), or covariances (N, D, D).
        uncertain: the columns that may have variance, None for all; what needs nodes needs fewer
            of them where it is told.

    Raises:
        ValueError: if the shapes do not fit each other.
    """

    mean: Float[Array, "N D"]
    cov: Float[Array, "N D *matrix"]
    uncertain: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        mean, cov = jnp.shape(self.mean), jnp.shape(self.cov)
        if len(mean) != 2 or cov not in (mean, (*mean, mean[1])):
            raise ValueError(
                "uncertain inputs need means (N, D) and variances (N, D) or covariances "
                f"(N, D, D), given shapes {mean} and {cov}"
            )

    @property
    def variances(self) -> Float[Array, "N D"]:
        """The variance of every column, (N, D)."""
        return self.cov if self.cov.ndim == 2 else jnp.diagonal(self.cov, axis1=1, axis2=2)


def map_inputs(
    function: Callable[..., Result], inputs: GaussianInputs, numbers: int, *more: Array
) -> Result:
    """`function` of chunks of rows, its results joined; the backward pass computes them anew.

    Args:
        function: of some rows, to arrays whose leading axis is theirs.
        inputs: the rows.
        numbers: that the function holds for each row.
        more: arrays with a row for each input, further arguments of the function.
    """
    n, (chunk, missing) = len(inputs.mean), _chunk(len(inputs.mean), numbers)
    rows = _padded((inputs, *more), missing)
    out = map_over_rows(jax.checkpoint(lambda rows: function(*rows)), rows, chunk)
    return jax.tree.map(lambda x: x[:n], out)


def sum_inputs(
    function: Callable[[tuple[GaussianInputs, Array]], Result],
    inputs: GaussianInputs,
    weights: Float[Array, "N G"],
    numbers: int,
) -> Result:
    """The sum over chunks of rows of `function((rows, their weights))`, linear in the weights."""
    chunk, missing = _chunk(len(inputs.mean), numbers)
    weights = jnp.pad(weights, [(0, missing), (0, 0)])
    return sum_over_rows(function, (_padded(inputs, missing), weights), chunk)


def _chunk(n: int, numbers: int) -> tuple[int, int]:
    """Rows at a time, and how many more rows make their chunks whole."""
    chunks = max(-(-n * numbers // CACHED_NUMBERS), 1)
    chunk = max(-(-n // chunks), 1)
    return chunk, -n % chunk


def _padded(rows: PyTree, missing: int) -> PyTree:
    def padded(x: Array) -> Array:
        return jnp.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1), mode="edge")

    return jax.tree.map(padded, rows) if missing else rows


def symmetric(matrices: Float[Array, "P M M"]) -> Float[Array, "P M M"]:
    """The symmetric parts of matrices."""
    return 0.5 * (matrices + jnp.swapaxes(matrices, 1, 2))


# What follows is of one row: a covariance is its variances (D,), or a matrix (D, D).


def spread(cov: Array, vectors: Array) -> Array:
    """The covariance times each of some vectors (..., D)."""
    return vectors * cov if cov.ndim == 1 else vectors @ cov.T


def quadratic(matrix: Float[Array, "D *D"], x: Float[Array, "D M"]) -> Float[Array, " M"]:
    r"""The forms $\mathbf x_m^\top \mathbf A \mathbf x_m$ of the columns of x."""
    return matrix @ x**2 if matrix.ndim == 1 else jnp.sum(x * (matrix @ x), axis=0)


def damping(cov: Array, precision: Float[Array, " D"]) -> Array:
    r"""$(\mathbf I + \boldsymbol\Lambda \mathbf S)^{-1}$ with a diagonal $\boldsymbol\Lambda$."""
    if cov.ndim == 1:
        return 1.0 / (1.0 + precision * cov)
    return jnp.linalg.inv(_one_plus(precision[:, None] * cov))


def tilted_cov(cov: Array, precision: Float[Array, " D"]) -> Array:
    r"""$(\mathbf S^{-1} + \boldsymbol\Lambda)^{-1}$, also of an S that has no inverse."""
    product = spread(cov, damping(cov, precision).T)
    return product if cov.ndim == 1 else 0.5 * (product + product.T)


def log_volume(cov: Array, precision: Float[Array, " D"]) -> Scalar:
    r"""$\log |\mathbf I + \boldsymbol\Lambda \mathbf S|$."""
    if cov.ndim == 1:
        return jnp.sum(jnp.log1p(precision * cov))
    return jnp.linalg.slogdet(_one_plus(precision[:, None] * cov))[1]


def log_volume_excess(cov: Array, first: Float[Array, " D"], second: Float[Array, " D"]) -> Scalar:
    r"""The log volumes of two precisions less that of their sum, of second order in S.

    To all digits it is $\log |\mathbf I + \mathbf E|$ with $\mathbf E = (\mathbf S^{-1} +
    \boldsymbol\Lambda_1 + \boldsymbol\Lambda_2)^{-1} \boldsymbol\Lambda_1 \mathbf S
    \boldsymbol\Lambda_2$.
    """
    between = tilted_cov(cov, first + second)
    if cov.ndim == 1:
        return jnp.sum(jnp.log1p(between * first * cov * second))
    E = between @ (first[:, None] * cov * second)
    small = jnp.max(jnp.sum(jnp.abs(E), axis=1)) < 1e-3
    near, far = jnp.where(small, E, 0.0), jnp.where(small, 0.0, E)
    # tr(E - E²/2 + E³/3 - E⁴/4 + E⁵/5)
    series = near / 5.0
    for k in (4.0, 3.0, 2.0, 1.0):
        series = near / k - near @ series
    whole = jnp.linalg.slogdet(_one_plus(far))[1]
    return cast(Array, jnp.where(small, jnp.trace(series), whole))


def _one_plus(matrix: Float[Array, "D D"]) -> Float[Array, "D D"]:
    return jnp.eye(matrix.shape[0], dtype=matrix.dtype) + matrix
