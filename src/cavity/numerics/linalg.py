"""Cholesky factors, their inverses, and one jitter policy.

The policy: a covariance that is to be factorised gets `jitter` times the mean of its diagonal
added to the diagonal. A factorisation that fails gives NaN, never an exception; whoever runs
the computation sees the NaN and runs it again with more jitter, `escalate` at a time.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.custom_batching import sequential_vmap
from jax.scipy.linalg import solve_triangular

from cavity.numerics.types import Array, Float, Scalar

T = TypeVar("T")

# Ten-fold steps from the caller's jitter up to this share of the mean variance.
MOST_JITTER = 1e-3


def jittered(
    K: Float[Array, "M M"], jitter: float | Scalar, diag: Float[Array, " M"]
) -> Float[Array, "M M"]:
    """K with its diagonal set to `diag` plus `jitter` times the mean of `diag`."""
    index = jnp.arange(K.shape[0])
    return K.at[index, index].set(diag + jitter * jnp.mean(diag))


def escalate(jitter: float) -> float | None:
    """The next jitter to try after a failed factorisation, None when there is none left."""
    following = max(jitter * 10.0, 1e-10)
    return following if following <= MOST_JITTER * 1.001 else None


def with_escalating_jitter(
    attempt: Callable[[float], tuple[T, bool]], jitter: float
) -> tuple[T, float | None]:
    """Repeat an attempt with growing jitter until it succeeds.

    Args:
        attempt: takes a jitter, and gives a value and whether it is usable.
        jitter: the jitter to begin with.

    Returns:
        The value, and the jitter; the last value and None where no jitter up to `MOST_JITTER`
        makes it usable.
    """
    while True:
        value, usable = attempt(jitter)
        if usable:
            return value, jitter
        following = escalate(jitter)
        if following is None:
            return value, None
        jitter = following


def cholesky(K: Float[Array, "... M M"]) -> Float[Array, "... M M"]:
    """The lower Cholesky factor; NaN where K is not numerically positive definite."""
    return jnp.linalg.cholesky(K)


def remainder(variance: Array, explained: Array, terms: int) -> Array:
    """Variances minus the sum of terms that explains them, not less than its rounding error."""
    rounding = terms * jnp.finfo(variance.dtype).eps * variance
    return jnp.maximum(variance - explained, rounding)


def semidefinite_root(K: Float[Array, "... D D"]) -> Float[Array, "... D D"]:
    """A lower triangular root of a matrix that may be singular: zero columns where it is.

    For few columns: they are computed one after another.
    """
    tiny = jnp.finfo(K.dtype).eps * K.shape[-1]
    floors = tiny * jnp.diagonal(K, axis1=-2, axis2=-1)

    def step(remainder: Array, j: Array) -> tuple[Array, Array]:
        pivot = remainder[..., j, j]
        usable = pivot > floors[..., j]
        scale = jnp.where(usable, 1.0 / jnp.sqrt(jnp.where(usable, pivot, 1.0)), 0.0)
        column = remainder[..., :, j] * scale[..., None]
        return remainder - column[..., :, None] * column[..., None, :], column

    _, columns = jax.lax.scan(step, K, jnp.arange(K.shape[-1]))
    return jnp.tril(jnp.moveaxis(columns, 0, -1))


# Triangles up to this size are inverted by one solve.
WHOLE_INVERSE = 128
# On a GPU matrices are cut into blocks of this size or more: each block is kernels to be compiled
# and started, and those of small ones leave it idle.
WHOLE_ON_GPU = 2048


def _whole(size: int, most: int) -> bool:
    """True for matrices small enough to work on in one piece, on this device."""
    return size <= (most if jax.default_backend() == "cpu" else max(most, WHOLE_ON_GPU))


def inverse_lower(L: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """The inverse of a lower triangular matrix.

    Multiplying N columns by it replaces a triangular solve against N columns, which is many
    times slower. Its error is of the order of the condition number of L times the rounding
    unit: with a jitter of 1e-8 (a condition of K below 1e11), products agree with solves to
    1e-9 relative.
    """
    size = L.shape[0]
    if _whole(size, WHOLE_INVERSE):
        return solve_triangular(L, jnp.eye(size, dtype=L.dtype), lower=True)
    # [A 0; C D]⁻¹ = [A⁻¹ 0; -D⁻¹CA⁻¹ D⁻¹]: most of the work is then in products
    half = size // 2
    A, D = inverse_lower(L[:half, :half]), inverse_lower(L[half:, half:])
    zero = jnp.zeros((half, size - half), L.dtype)
    return jnp.block([[A, zero], [-D @ (L[half:, :half] @ A), D]])


# Triangles up to this size are inverted all at once where there is a batch of them.
WHOLE_BATCH = 4 * WHOLE_INVERSE


@sequential_vmap
def _inverse_in_turn(L: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """`inverse_lower`, of one matrix of a batch after another.

    With three or more levels of blocks in a batch, XLA's emitters of fused loops for the CPU give
    code that takes minutes.
    """
    return inverse_lower(L)


@jax.custom_jvp
def cholesky_and_inverse(
    K: Float[Array, "M M"],
) -> tuple[Float[Array, "M M"], Float[Array, "M M"]]:
    r"""The lower Cholesky factor L and its inverse R; derivatives are products, without solves.

    $\dot{\mathbf L} = \mathbf L \boldsymbol\Phi$, $\dot{\mathbf R} = -\boldsymbol\Phi \mathbf R$
    with $\boldsymbol\Phi$ the lower triangle, its diagonal halved, of
    $\mathbf R \dot{\mathbf K} \mathbf R^\top$.
    """
    L = cholesky(K)
    return L, _inverse_in_turn(L) if K.shape[0] > WHOLE_BATCH else inverse_lower(L)


@cholesky_and_inverse.defjvp
def _cholesky_and_inverse_jvp(primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    (K,), (moved,) = primals, tangents
    L, R = cholesky_and_inverse(K)
    half = jnp.tril(R @ (0.5 * (moved + moved.T)) @ R.T)
    half = half - 0.5 * jnp.diag(jnp.diagonal(half))
    return (L, R), (L @ half, -half @ R)


@jax.custom_jvp
def with_slopes(value: Scalar, slopes: Any, at: Any) -> Scalar:
    """A value whose derivatives are known, where going through its computation costs more.

    Args:
        value: the value, a function of `at` alone; how it was computed is not differentiated.
        slopes: its derivatives in `at`, a pytree like it. Second derivatives are theirs.
        at: what it depends on.
    """
    return value


@with_slopes.defjvp
def _with_slopes_jvp(primals: tuple, tangents: tuple) -> tuple[Scalar, Scalar]:
    value, slopes, _ = primals
    products = jax.tree.map(lambda slope, moved: jnp.sum(slope * moved), slopes, tangents[2])
    return value, sum(jax.tree.leaves(products), jnp.zeros_like(value))


@jax.custom_jvp
def quadratic_forms(G: Float[Array, "F M M"], A: Float[Array, "M n"]) -> Float[Array, "F n"]:
    r"""$\mathbf a^\top \mathbf G \mathbf a$ of every column of A with every symmetric matrix.

    The derivative in A is $2 \mathbf G \mathbf a$, from the product that the value needs as well:
    value and gradient take two products with n columns and not three.
    """
    return jnp.sum(A * (G @ A), axis=1)


@quadratic_forms.defjvp
def _quadratic_forms_jvp(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (G, A), (moved_G, moved_A) = primals, tangents
    B = G @ A
    by_A, by_G = jnp.sum(B * moved_A, axis=1), jnp.sum(A * (moved_G @ A), axis=1)
    return jnp.sum(A * B, axis=1), 2.0 * by_A + by_G


def gram_weighted(A: Float[Array, "M n"], weights: Float[Array, " n"]) -> Float[Array, "M M"]:
    """A diag(weights) Aᵀ, of which one triangle is computed."""
    size = A.shape[0]
    if _whole(size, WHOLE_INVERSE):
        return (A * weights) @ A.T
    half = size // 2
    across = (A[half:] * weights) @ A[:half].T
    first, last = gram_weighted(A[:half], weights), gram_weighted(A[half:], weights)
    return jnp.block([[first, across.T], [across, last]])


# Triangles up to this size are multiplied by as if they were full.
WHOLE_PRODUCT, STRIPS = 512, 4


def product_lower(R: Float[Array, "M M"], B: Float[Array, "M n"]) -> Float[Array, "M n"]:
    """R B of a lower triangular matrix, without most of what its zeros would cost."""
    size = R.shape[0]
    if _whole(size, WHOLE_PRODUCT):
        return R @ B
    ends = [size * i // STRIPS for i in range(STRIPS + 1)]
    strips = [R[start:end, :end] @ B[:end] for start, end in pairwise(ends)]
    return jnp.concatenate(strips)


def gram_lower(R: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """Rᵀ R of a lower triangular matrix, at a third of the cost of the product."""
    size = R.shape[0]
    if _whole(size, WHOLE_INVERSE):
        return R.T @ R
    # [A 0; C D]: AᵀA + CᵀC, CᵀD and DᵀD
    half = size // 2
    C, D = R[half:, :half], R[half:, half:]
    across = C.T @ D
    first = gram_lower(R[:half, :half]) + C.T @ C
    return jnp.block([[first, across], [across.T, gram_lower(D)]])


def log_determinant(L: Float[Array, "... M M"]) -> Float[Array, "..."]:
    """log |K| from the Cholesky factor of K."""
    return 2.0 * jnp.sum(jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)), axis=-1)


def lower_root(
    below: Float[Array, "... M M"], log_diagonal: Float[Array, "... M"]
) -> Float[Array, "... M M"]:
    """Lower triangular matrices with positive diagonals; on and above these `below` is ignored."""
    diagonal = jnp.exp(log_diagonal)[..., None] * jnp.eye(below.shape[-1])
    return jnp.tril(below, -1) + diagonal


def safe_sqrt(x: Array) -> Array:
    """Square root of values at or above zero, with a zero gradient at zero instead of infinity."""
    inside = jnp.where(x > 0.0, x, 1.0)
    return jnp.where(x > 0.0, jnp.sqrt(inside), 0.0)


def root_of(cov: Array) -> Float[Array, "B F F"]:
    """Roots of covariances: one for each function, or one for all dependent ones."""
    if cov.ndim == 4:
        size = cov.shape[0] * cov.shape[1]
        cov = cov.reshape(1, size, size)
    # an eigendecomposition, because covariances of near points are singular to rounding
    values, vectors = jnp.linalg.eigh(cov)
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))[:, None, :]
