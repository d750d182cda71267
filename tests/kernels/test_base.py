"""Sums, products, factors and chosen columns of kernels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.kernels import (
    RBF,
    ArcCosine,
    Linear,
    Matern32,
    Matern52,
    NeuralNetwork,
    Periodic,
    RationalQuadratic,
)
from cavity.kernels.base import check_columns
from tests.tolerances import assert_close

RNG = np.random.default_rng(13)
X, Z = jnp.array(RNG.normal(size=(6, 3))), jnp.array(RNG.normal(size=(4, 3)))
ONE, OTHER = RBF(1.3, np.array([0.5, 1.2, 3.0])), Linear(0.7)


def test_sum():
    kernel = ONE + OTHER
    assert_close(kernel.cross(X, Z), ONE.cross(X, Z) + OTHER.cross(X, Z))
    assert_close(kernel.diag(X), ONE.diag(X) + OTHER.diag(X))


def test_product():
    kernel = ONE * OTHER
    assert_close(kernel.cross(X, Z), ONE.cross(X, Z) * OTHER.cross(X, Z))
    assert_close(kernel.diag(X), ONE.diag(X) * OTHER.diag(X))


@pytest.mark.parametrize("kernel", [0.4 * ONE, ONE * 0.4], ids=["left", "right"])
def test_factor(kernel):
    assert_close(kernel.cross(X, Z), 0.4 * ONE.cross(X, Z))
    assert_close(kernel.diag(X), 0.4 * ONE.diag(X))


def test_chosen_columns():
    kernel = Matern32(1.3, np.array([0.5, 2.0])).on(2, 0)
    expected = Matern32(1.3, np.array([2.0, 1.0, 0.5])).cross(X.at[:, 1].set(0), Z.at[:, 1].set(0))
    assert_close(kernel.cross(X, Z), expected)
    assert_close(OTHER.on(1).diag(X), OTHER.diag(X[:, 1:2]))


def test_chosen_columns_of_chosen_columns():
    assert_close(OTHER.on(1).on(2, 0).cross(X, Z), OTHER.cross(X[:, :1], Z[:, :1]))


def test_missing_column_is_refused():
    with pytest.raises(ValueError, match=r"columns \[0, 3\], but the inputs have 3"):
        ONE.on(0, 3).cross(X, Z)


def test_inputs_of_different_widths_are_refused():
    with pytest.raises(ValueError, match="1 and 3 columns; give both the same columns"):
        check_columns(X[:, :1], Z)


def test_no_column_is_refused():
    with pytest.raises(ValueError, match="at least one column"):
        ONE.on()


SMOOTH = [
    RBF(1.3, 0.8),
    Matern32(1.3, 0.8),
    Matern52(1.3, 0.8),
    RationalQuadratic(1.3, 0.8, 0.6),
    Periodic(1.3, 0.8, 2.0),
    NeuralNetwork(1.3, 0.8),
    ArcCosine(1.3, 0.8, order=1),
]


@pytest.mark.sampled(2, "RBF", "Matern52")
@pytest.mark.parametrize("kernel", SMOOTH, ids=lambda kernel: type(kernel).__name__)
def test_covariance_of_slopes_at_zero_distance(kernel):
    """The second derivative in both inputs at x = z is its limit, not lost in a clipped square."""
    mixed = jax.jit(jax.jacfwd(jax.grad(lambda a, b: kernel.cross(a[None], b[None])[0, 0]), 1))
    at, near = mixed(X[0], X[0]), mixed(X[0], X[0] + 1e-5)
    np.testing.assert_allclose(at, near, rtol=1e-3, atol=1e-4)
