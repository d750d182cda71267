"""Checks of arrays from outside: what passes, and what the refusals say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.numerics.validation import check_columns, check_finite, float_array


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        (1.0, 2.0),
        np.array([1, 2]),
        np.array([1, 2], np.uint8),
        np.array([True, False]),
        jnp.array([1, 2]),
        [[1.0], [2.0]],
    ],
    ids=lambda v: f"{type(v).__name__}",
)
def test_numbers_become_floats(value):
    found = float_array("X", value)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(np.asarray(found), np.asarray(value, float))


def test_float32_stays_float32():
    assert float_array("X", np.ones(2, np.float32)).dtype == np.float32
    assert float_array("X", jnp.ones(2, jnp.float32)).dtype == np.float32


@pytest.mark.parametrize(
    "value", [["a", "b"], np.array(["2020-01-01"], "M8[D]"), np.array([{}]), [1 + 2j]]
)
def test_other_values_are_refused(value):
    with pytest.raises(TypeError, match="X must hold numbers, given values of type"):
        float_array("X", value)


@pytest.mark.x32
def test_float64_is_refused_in_32_bit_mode():
    import pandas as pd

    for value in (np.ones(3), pd.Series(np.ones(3)), pd.DataFrame({"a": np.ones(3)})):
        with pytest.raises(TypeError, match=r"y is float64, .* jax\.enable_x64"):
            float_array("y", value)


@pytest.mark.x32
@pytest.mark.parametrize("value", [[1.5, 2.0], np.array([1, 2]), np.ones(2, np.float32)])
def test_other_numbers_are_float32_in_32_bit_mode(value):
    assert float_array("y", value).dtype == np.float32


def test_finite():
    check_finite("X", np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"y has 2 entries .* first at index \[1, 0\]"):
        check_finite("y", np.array([[0.0, 1.0], [np.nan, np.inf]]))
    words = r"X has 1 entry that is NaN or infinite, at index \[2\]; remove or impute that row"
    with pytest.raises(ValueError, match=words):
        check_finite("X", np.array([0.0, 1.0, np.inf]))
    # nothing is known of a traced value
    jax.jit(lambda x: (check_finite("X", x), x)[1])(jnp.array([np.nan]))


def test_columns():
    check_columns("X", np.zeros((2, 3)), 3)
    with pytest.raises(ValueError, match=r"given shape \(4,\).* X\[:, None\]"):
        check_columns("X", np.zeros(4))
    with pytest.raises(ValueError, match="X has no rows"):
        check_columns("X", np.zeros((0, 3)))
    with pytest.raises(ValueError, match="X has 2 columns, the model was fitted with 3"):
        check_columns("X", np.zeros((4, 2)), 3)
