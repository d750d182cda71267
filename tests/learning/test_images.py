"""Starting values of models of images, and covariances that are computed once."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.inducing.tabulated import Tabulated, TabulatedVariables, tabulated
from cavity.learning.initialisation.images import choose_patches

PARTS = kernels.Patches((4, 4), (2, 2))
RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(size=(12, 16))
KERNEL = kernels.SumOver(PARTS, kernels.RBF(1.0, 0.7))


def dense(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Covariances of patches, and of them with the sums, written out."""

    def rbf(a, b):
        return np.exp(-0.5 * np.sum((a[:, None] - b) ** 2, axis=2) / 0.49)

    patches = np.asarray(PARTS.of(X))
    return rbf(Z, Z), np.stack([rbf(Z, own).sum(axis=1) for own in patches], axis=1)


def test_patches_are_those_that_explain_most_of_the_images():
    Z = RANDOM.uniform(size=(30, 4))
    found, apart = choose_patches(KERNEL, Z, X, 3)
    K, cross = dense(Z)
    chosen: list[int] = []
    for _ in range(3):
        explained = []
        for c in range(len(Z)):
            index = [*chosen, c]
            L = cross[index].T @ np.linalg.pinv(K[np.ix_(index, index)]) @ cross[index]
            explained.append(np.trace(L))
        chosen.append(int(np.argmax(explained)))
    np.testing.assert_array_equal(found, Z[chosen])
    Q = cross[chosen].T @ np.linalg.solve(K[np.ix_(chosen, chosen)], cross[chosen])
    H = np.eye(12) - 1.0 / 12.0
    np.testing.assert_allclose(apart, np.trace(H @ Q @ H) / 12.0, rtol=1e-8)


def test_patches_that_repeat_each_other_are_chosen_once():
    Z = np.repeat(RANDOM.uniform(size=(3, 4)), 2, axis=0)
    found, _ = choose_patches(KERNEL, Z, X, 6)
    assert len(np.unique(found, axis=0)) == len(found) == 3


def test_tabulated_covariances_give_the_same_posterior_at_every_scale():
    Z, y = RANDOM.uniform(size=(5, 4)), RANDOM.normal(size=12)
    noise, patches = likelihoods.Gaussian(0.1), inducing.InBase(inducing.Points(Z))
    cov, rows = tabulated(KERNEL, patches, jnp.asarray(X))
    plain = cavity.GP(2.5 * KERNEL, noise, patches)
    table = cavity.GP(2.5 * Tabulated(), noise, TabulatedVariables(cov))
    expected = cavity.infer(plain, X, y, power=0.5).log_evidence
    found = cavity.infer(table, np.asarray(rows), y, power=0.5).log_evidence
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_tabulated_inputs_have_no_covariances_with_each_other():
    kernel: Any = Tabulated()
    with pytest.raises(ValueError, match="not known"):
        kernel.cross(X, X)
    with pytest.raises(ValueError, match="a Tabulated kernel, given RBF"):
        inducing.covariance(kernels.RBF(), TabulatedVariables(np.eye(2)), inducing.Points(X))


@pytest.mark.parametrize("images", [np.zeros((9, 16)), np.tile(X[:1], (9, 1))])
def test_images_that_are_all_alike_start_with_their_own_variance(images):
    """What tells them apart is rounding."""
    _, apart = choose_patches(KERNEL, np.asarray(PARTS(images[0])), images, 3)
    np.testing.assert_allclose(apart, np.asarray(KERNEL.diag(images[:1]))[0], rtol=1e-9)
