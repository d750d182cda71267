"""Cholesky factors, their inverses, and the jitter policy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import solve_triangular

from cavity.numerics.linalg import (
    MOST_JITTER,
    cholesky,
    cholesky_and_inverse,
    escalate,
    gram_weighted,
    inverse_lower,
    jittered,
    log_determinant,
    product_lower,
    quadratic_forms,
    safe_sqrt,
    semidefinite_root,
    with_slopes,
)
from tests.tolerances import assert_close


def with_condition(condition, size=12):
    """A covariance matrix with eigenvalues spread evenly in logarithm, and 40 columns."""
    rng = np.random.default_rng(0)
    vectors, _ = np.linalg.qr(rng.normal(size=(size, size)))
    K = (vectors * np.logspace(0, -np.log10(condition), size)) @ vectors.T
    # columns such as those of Kuf: within the span, as large as K allows
    return jnp.asarray(0.5 * (K + K.T)), K @ rng.normal(size=(size, 40))


@pytest.mark.parametrize("condition", [1e2, 1e6, 1e10])
def test_products_with_the_inverse_are_solves(condition):
    """To 1e-9 relative up to a condition of 1e10, as the docstring says."""
    K, columns = with_condition(condition)
    L = cholesky(K)
    solves = solve_triangular(L, columns, lower=True)
    products = inverse_lower(L) @ columns
    assert np.max(np.abs(products - solves)) < 1e-9 * np.max(np.abs(solves))
    # what it is used for: the variance explained, Σ A²
    explained, expected = (np.sum(np.asarray(a) ** 2, axis=0) for a in (products, solves))
    np.testing.assert_allclose(explained, expected, rtol=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
@pytest.mark.parametrize("size", [3, 300, 515])
def test_products_that_leave_out_what_is_known(size, backend, monkeypatch):
    """Triangular factors and symmetric results, in strips and halves and whole."""
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    rng = np.random.default_rng(0)
    R, B = np.tril(rng.normal(size=(size, size))), rng.normal(size=(size, 40))
    weights = rng.normal(size=40)
    scale = np.abs(R @ B).max()
    np.testing.assert_allclose(product_lower(jnp.asarray(R), B), R @ B, atol=1e-13 * scale)
    found = np.asarray(gram_weighted(jnp.asarray(B), jnp.asarray(weights)))
    np.testing.assert_allclose(found, B @ np.diag(weights) @ B.T, atol=1e-12)


def test_log_determinant():
    K, _ = with_condition(1e6)
    assert_close(log_determinant(cholesky(K)), np.linalg.slogdet(K)[1], "factorised")
    both = jnp.stack([K, 2.0 * K])
    expected = [np.linalg.slogdet(k)[1] for k in both]
    assert_close(log_determinant(cholesky(both)), expected, "factorised")


def test_jitter_is_a_share_of_the_mean_variance():
    """The diagonal is what is given, not what rounding made of it."""
    K = jnp.array([[9.0, 1.0], [1.0, 9.0]])
    found = jittered(K, 0.1, jnp.array([2.0, 4.0]))
    assert_close(found, [[2.3, 1.0], [1.0, 4.3]])


def test_escalation_is_tenfold_and_bounded():
    levels, level = [], 1e-8
    while level is not None:
        levels.append(level)
        level = escalate(level)
    assert_close(levels, [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3])
    assert escalate(0.0) == 1e-10
    assert escalate(MOST_JITTER) is None


def test_a_failed_factorisation_is_not_a_number():
    L = cholesky(jnp.array([[1.0, 2.0], [2.0, 1.0]]))
    assert np.isnan(log_determinant(L))


def test_safe_sqrt():
    x = jnp.array([0.0, 4.0, -1.0])
    assert_close(safe_sqrt(x), [0.0, 2.0, 0.0])
    assert_close(jax.vmap(jax.grad(safe_sqrt))(x), [0.0, 0.25, 0.0])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("condition", [1e2, 1e6, 1e10])
def test_a_factor_and_its_inverse_move_as_solves_say(condition):
    """Slopes through products are those of solves, as far as the condition lets either be."""
    K, _ = with_condition(condition)
    rng = np.random.default_rng(1)
    # a direction in which a covariance of this condition can move: of its own shape
    half = cholesky(K) @ rng.normal(size=K.shape)
    moved = jnp.asarray(half @ half.T)

    def by_solves(K):
        L = cholesky(K)
        return L, solve_triangular(L, jnp.eye(len(K)), lower=True)

    for products, solves in zip(
        jax.jvp(cholesky_and_inverse, (K,), (moved,)),
        jax.jvp(by_solves, (K,), (moved,)),
        strict=True,
    ):
        for one, other in zip(products, solves, strict=True):
            bound = (1e-12 + 1e-16 * condition) * np.max(np.abs(other))
            assert np.max(np.abs(one - other)) < bound
    weights = jnp.asarray(rng.normal(size=K.shape))
    slopes = [
        jax.grad(lambda K, f=f: jnp.sum(weights * (f(K)[0] + K @ f(K)[1])))(K + jnp.eye(len(K)))
        for f in (cholesky_and_inverse, by_solves)
    ]
    assert_close(*slopes)


def test_large_factors_of_a_batch_are_inverted_in_turn(rng):
    """As one program on the whole batch the inverses take minutes to compute."""
    half = rng.standard_normal((2, 704, 20))
    K = half @ half.transpose(0, 2, 1) + 5.0 * np.eye(704)
    program = jax.jit(jax.vmap(cholesky_and_inverse))
    lowered = program.lower(K).as_text()
    assert "stablehlo.while" in lowered
    assert "2x704x704xf64" in lowered
    assert "2x352x352xf64" not in lowered
    L, R = program(K)
    assert_close(L, np.linalg.cholesky(K), "factorised")
    assert_close(R, np.linalg.inv(np.linalg.cholesky(K)), "factorised")


@pytest.mark.slow
def test_known_slopes_stand_for_the_computation():
    """First derivatives are those given, second ones theirs, and nothing else is followed."""

    def known(x):
        broken = jax.lax.stop_gradient(jnp.sum(jnp.sin(x["a"])) * x["b"])
        slopes = {"a": jnp.cos(x["a"]) * x["b"], "b": jnp.sum(jnp.sin(x["a"]))}
        return with_slopes(broken, slopes, x)

    def plain(x):
        return jnp.sum(jnp.sin(x["a"])) * x["b"]

    x = {"a": jnp.array([0.3, -1.0, 2.0]), "b": jnp.array(1.7)}
    assert known(x) == plain(x)
    for derivative in (jax.grad, jax.hessian):
        found, expected = derivative(known)(x), derivative(plain)(x)
        jax.tree.map(assert_close, found, expected)


@pytest.mark.slow
def test_quadratic_forms_and_their_derivatives(rng):
    """Of roots, along which matrices stay symmetric, also in second derivatives."""

    def plain(roots, A):
        return jnp.sum(jnp.cos(jnp.sum((roots @ A) ** 2, axis=1)))

    def formed(roots, A):
        return jnp.sum(jnp.cos(quadratic_forms(jnp.swapaxes(roots, 1, 2) @ roots, A)))

    at = 0.5 * rng.normal(size=(3, 4, 4)), 0.5 * rng.normal(size=(4, 9))
    for derivative in (jax.grad, jax.hessian):
        pairs = (derivative(f, argnums=(0, 1))(*map(jnp.asarray, at)) for f in (formed, plain))
        jax.tree.map(assert_close, *pairs)


def test_root_of_a_singular_matrix():
    """Columns without variance and equal columns; derivatives stay finite."""
    half = np.random.default_rng(3).normal(size=(2, 4, 2))
    half[0, 1] = 0.0
    half[1, 3] = half[1, 0]
    K = jnp.asarray(half @ half.swapaxes(1, 2))
    root = semidefinite_root(K)
    np.testing.assert_allclose(root @ root.swapaxes(1, 2), K, atol=1e-14)
    assert np.all(root == np.tril(root))

    def total(K):
        return jnp.sum(semidefinite_root(K))

    for matrix in (K, jnp.zeros_like(K)):
        assert np.all(np.isfinite(jax.grad(total)(matrix)))
