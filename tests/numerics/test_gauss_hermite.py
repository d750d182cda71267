"""Gauss-Hermite quadrature against scipy, at counts where its weights underflow too."""

import numpy as np
import pytest
from scipy import special

from cavity.numerics.gauss_hermite import MOST_NODES, gauss_hermite, gauss_hermite_grid
from tests.tolerances import assert_close


@pytest.mark.parametrize("count", [1, 2, 7, 64, 379, 380, 400, MOST_NODES])
def test_nodes_and_weights_are_those_of_scipy(count):
    x, log_weights = gauss_hermite(count)
    nodes, weights = special.roots_hermitenorm(count)
    np.testing.assert_allclose(x, nodes, atol=1e-12)
    told = weights > 1e-280
    expected = np.log(weights[told]) - 0.5 * np.log(2.0 * np.pi)
    np.testing.assert_allclose(log_weights[told], expected, atol=1e-10)
    assert np.all(np.isfinite(log_weights))
    assert_close(np.exp(log_weights) @ np.stack([x**0, x**2], axis=1), [1.0, float(count > 1)])


def test_grids_have_the_moments_of_a_standard_normal():
    points, log_weights = gauss_hermite_grid(4, 3)
    weights = np.exp(log_weights)
    assert points.shape == (64, 3)
    np.testing.assert_allclose(points.T * weights @ points, np.eye(3), atol=1e-14)
    assert_close(weights @ np.prod(points**2, axis=1), 1.0)


@pytest.mark.parametrize("count", [0, MOST_NODES + 1])
def test_other_counts_are_refused_by_name(count):
    with pytest.raises(
        ValueError, match=rf"from 1 to 1,000 nodes .* given {count}: ask for fewer"
    ):
        gauss_hermite(count)
