"""Functions of the power are accurate at every power, 0 and 1e-12 included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.numerics.power_limits import frozen, is_exactly, log1p_ratio, log_determinant_ratio
from tests.tolerances import assert_close

POWERS = [0.0, 1e-300, 1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5, 1.0]
each_power = pytest.mark.parametrize("power", POWERS)

ratio = jax.jit(log1p_ratio)
volume = jax.jit(log_determinant_ratio)


def log1p_over(power, x):
    """log(1 + a x)/a in extended precision."""
    x = np.asarray(x, np.longdouble)
    if power < 1e-200:
        return x
    return np.log1p(np.longdouble(power) * x) / np.longdouble(power)


@each_power
def test_log1p_ratio(power):
    x = np.concatenate([-(10.0 ** np.arange(-12.0, 0.0)), [-0.99, 0.0], 10.0 ** np.arange(-12, 9)])
    expected = np.asarray(log1p_over(power, x), float)
    assert_close(ratio(jnp.asarray(power), x), expected, scale=0.0)
    assert_close(log1p_ratio(power, jnp.asarray(x)), expected, scale=0.0)


@each_power
def test_slope_of_log1p_ratio(power):
    """1 / (1 + a x), also where the series takes over."""
    x = np.array([-0.5, -1e-6, 0.0, 1e-6, 1.0, 1e4])
    slopes = jax.vmap(jax.grad(ratio, 1), (None, 0))(jnp.asarray(power), x)
    assert_close(slopes, 1.0 / (1.0 + power * x), "factorised", scale=0.0)


@each_power
@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0, 1e4])
def test_log_determinant_ratio(power, size):
    """By eigenvalues in extended precision; the same for V T, which is not symmetric."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    S = size * root @ root.T
    values = np.linalg.eigvalsh(S)
    expected = float(np.sum(log1p_over(power, values)))
    assert_close(volume(jnp.asarray(power), S), expected, "factorised", scale=0.0)
    assert_close(log_determinant_ratio(power, jnp.asarray(S)), expected, "factorised", scale=0.0)
    # similar matrices have the same determinant
    twist = np.diag([1.0, 3.0, 0.5, 2.0])
    similar = twist @ S @ np.linalg.inv(twist)
    assert_close(volume(jnp.asarray(power), similar), expected, "factorised", scale=0.0)


@each_power
def test_slope_of_log_determinant_ratio(power):
    """(I + a S)⁻¹, also for repeated eigenvalues, where those of an eigendecomposition fail."""
    for S in (np.zeros((3, 3)), np.diag([0.5, 0.5, 2.0]), 1e-7 * np.ones((3, 3))):
        slope = jax.grad(volume, 1)(jnp.asarray(power), jnp.asarray(S))
        assert_close(slope, np.linalg.inv(np.eye(3) + power * S).T, "factorised", scale=1.0)


@pytest.mark.parametrize("power", [1e-4, 1e-3, 1e-2, 0.1, 1.0])
def test_log_determinant_ratio_in_single_precision(power):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    S = root @ root.T
    expected = np.sum(log1p_over(power, np.linalg.eigvalsh(S)))
    found = volume(jnp.asarray(power, jnp.float32), jnp.asarray(S, jnp.float32))
    assert_close(found, float(expected), scale=0.0)


def test_a_negative_determinant_is_not_a_number():
    S = jnp.diag(jnp.array([-3.0, 0.5]))
    for power in (1.0, jnp.asarray(0.5)):
        assert np.isnan(log_determinant_ratio(power, S))


def test_is_exactly_knows_python_numbers_only():
    assert is_exactly(0.0, 0.0)
    assert is_exactly(1, 1.0)
    assert not is_exactly(jnp.asarray(0.0), 0.0)
    assert not is_exactly(0.5, 0.0)


def test_frozen_keeps_values_and_stops_gradients():
    def f(x):
        return jnp.sum(frozen({"a": x, "b": 2.0 * x})["b"] * x)

    assert_close(jax.grad(f)(jnp.array([1.0, 3.0])), [2.0, 6.0])


def test_frozen_leaves_python_numbers_alone():
    """An exact power of 0 stays one, so that a likelihood may take its limit."""
    tree = frozen({"power": 0.0, "name": None, "array": np.ones(2)})
    assert is_exactly(tree["power"], 0.0)
    assert isinstance(tree["array"], np.ndarray)
