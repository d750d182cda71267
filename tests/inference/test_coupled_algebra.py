"""What rows of coupled classes send, and their posterior, against dense elimination of u."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import block_diag

from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.sites import ScalarSites, class_precision
from cavity.inference.variables.class_contrasts import Contrasts
from cavity.inference.variables.coupled_classes import CoupledClassInducing, CoupledClassValues
from tests.inference.test_coupled_classes import PRIVATE, SHARED, C, N, Y
from tests.oracle import nested_ep
from tests.tolerances import assert_close


def random_contrasts():
    """Contrasts of the rows, and positive precisions and shifts for them."""
    random = np.random.default_rng(5)
    precision, shift = random.uniform(0.1, 3.0, (N, C)), random.standard_normal((N, C))
    seen = jnp.asarray(np.eye(C)[Y])
    variance = jnp.asarray(random.uniform(0.5, 2.0, N))
    return Contrasts(seen, variance), jnp.asarray(shift), jnp.asarray(precision)


def eliminated(prior, loadings=None):
    """Moments of the functions (or what they load on) and of z, and the log normaliser, densely.

    u is a variable like the others here, one for each row.
    """
    contrasts, shift, precision = random_contrasts()
    pick = nested_ep.others(Y, C)
    beta, alpha = (np.take_along_axis(np.asarray(x), pick, 1).ravel() for x in (shift, precision))
    B = nested_ep.contrast_matrix(Y, C)
    if loadings is not None:
        B = B @ block_diag(*np.swapaxes(loadings, 1, 2), np.eye(N))
    P = block_diag(*prior, np.diag(contrasts.variance))
    V = np.linalg.inv(np.linalg.inv(P) + (B.T * alpha) @ B)
    w, S, size = V @ B.T @ beta, B @ P @ B.T, len(P) - N
    value = 0.5 * beta @ B @ w - 0.5 * np.linalg.slogdet(np.eye(len(B)) + S * alpha)[1]
    z = (B @ w).reshape(N, -1), np.diag(B @ V @ B.T).reshape(N, -1)
    return w[:size], V[:size, :size], z, value


def test_jylanki_43_what_rows_send():
    """jylanki 43: T 1 = 0, rank C - 1, and the Schur complement of u."""
    contrasts, shift, precision = random_contrasts()
    _, weights, _ = contrasts.sent(shift, precision)
    T = np.asarray(class_precision(weights))
    np.testing.assert_allclose(T.sum(axis=2), 0.0, atol=1e-14)
    values = np.linalg.eigvalsh(T)
    assert np.all(np.abs(values[:, 0]) < 1e-14)
    assert np.all(values[:, 1] > 1e-3)
    for i in range(N):
        b = np.stack([np.append(np.eye(C)[j] - np.eye(C)[Y[i]], 1.0) for j in range(C)])
        b[Y[i]] = np.append(np.zeros(C), 1.0)
        Q = (b.T * np.where(np.arange(C) == Y[i], 1.0 / contrasts.variance[i], precision[i])) @ b
        assert_close(T[i], Q[:C, :C] - np.outer(Q[:C, C], Q[C, :C]) / Q[C, C])


@pytest.mark.parametrize("prior", [SHARED[:1], PRIVATE], ids=["shared", "private"])
def test_jylanki_44_full_posterior_is_dense_elimination(prior):
    """jylanki 44: moments, log determinant, and what sites see of them."""
    contrasts, shift, precision = random_contrasts()
    zeros = jnp.zeros((N, C))
    seen = Projection(None, zeros, zeros)
    variable = CoupledClassValues(jnp.asarray(prior), C)
    belief = variable.belief(
        variable.messages_from_classes(*contrasts.sent(shift, precision), seen)
    )
    mean, cov, z, value = eliminated(np.broadcast_to(prior, (C, N, N)))
    assert_close(belief.log_normaliser, value, "factorised")
    assert_close(belief.dense()[0][0], mean, "factorised")
    assert_close(belief.dense()[1][0], cov, "factorised")
    found = belief.functions(seen)
    assert_close(found[0], mean.reshape(C, N).T, "factorised")
    assert_close(found[1], np.einsum("kili->ikl", cov.reshape(C, N, C, N)), "factorised")
    pick = nested_ep.others(Y, C)
    for got, expected in zip(
        belief.contrasts(seen, contrasts, ScalarSites(shift, precision)), z, strict=True
    ):
        assert_close(np.take_along_axis(np.asarray(got), pick, 1), expected, "factorised")


@pytest.mark.parametrize("groups", [1, C])
def test_jylanki_44_sparse_posterior_is_dense_elimination(groups):
    """The same for whitened inducing variables."""
    contrasts, shift, precision = random_contrasts()
    zeros = jnp.zeros((N, C))
    A = 0.7 * np.random.default_rng(6).standard_normal((groups, 4, N))
    seen = Projection(jnp.asarray(A), zeros, zeros)
    variable = CoupledClassInducing(4, C)
    belief = variable.belief(
        variable.messages_from_classes(*contrasts.sent(shift, precision), seen)
    )
    loadings = np.broadcast_to(A, (C, 4, N))
    mean, cov, z, value = eliminated([np.eye(4)] * C, loadings)
    assert_close(belief.log_normaliser, value, "factorised")
    assert_close(belief.dense()[0][0], mean, "factorised")
    assert_close(belief.dense()[1][0], cov, "factorised")
    pick = nested_ep.others(Y, C)
    for got, expected in zip(
        belief.contrasts(seen, contrasts, ScalarSites(shift, precision)), z, strict=True
    ):
        assert_close(np.take_along_axis(np.asarray(got), pick, 1), expected, "factorised")
