"""Mean functions: values, shapes, units and refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.means import BayesianLinear, Constant, Linear, Zero
from cavity.parameters import FIXED, Real, Units, bijections, units
from tests.tolerances import assert_close

RNG = np.random.default_rng(14)
X = RNG.normal(size=(6, 3))
W = RNG.normal(size=(3, 2))
CENTRE = np.array([0.5, -1.0, 2.0])

MEANS = [
    (Zero(), np.zeros(6)),
    (Constant(), np.zeros(6)),
    (Constant(2.5), np.full(6, 2.5)),
    (Constant(np.array([1.0, 2.0])), np.tile([1.0, 2.0], (6, 1))),
    (Linear(W[:, 0]), X @ W[:, 0]),
    (Linear(W[:, 0], 0.3, CENTRE), (X - CENTRE) @ W[:, 0] + 0.3),
    (Linear(W), X @ W),
    (Linear(W, 0.3), X @ W + 0.3),
    (Linear(W, np.array([0.3, -1.0]), 2.0), (X - 2.0) @ W + [0.3, -1.0]),
    (BayesianLinear(W[:, 0], 0.3, 2.0, 1.0, CENTRE), (X - CENTRE) @ W[:, 0] + 0.3),
]


@pytest.mark.parametrize(("mean", "expected"), MEANS)
def test_values(mean, expected):
    actual = mean(jnp.array(X))
    assert actual.shape == expected.shape
    assert_close(actual, expected)


@pytest.mark.parametrize(
    ("deviations", "why"),
    [
        ({"bias_deviation": 0.0}, "above 0"),
        ({"weight_deviations": np.array([1.0, -1.0, 1.0])}, "above 0"),
        ({"weight_deviations": np.ones(2)}, "for each column"),
        ({"bias_deviation": np.ones(2)}, "for each column"),
    ],
)
def test_impossible_deviations_are_refused(deviations, why):
    with pytest.raises(ValueError, match=why):
        BayesianLinear(W[:, 0], 0.3, **deviations)


@pytest.mark.parametrize("mean", [mean for mean, _ in MEANS])
def test_gradients_are_finite(mean):
    gradient = jax.grad(lambda x: jnp.sum(mean(x)))(jnp.array(X))
    assert np.all(np.isfinite(gradient))
    leaves, structure = jax.tree.flatten(mean)
    loss = lambda leaves: jnp.sum(jax.tree.unflatten(structure, leaves)(jnp.array(X)) ** 2)  # noqa: E731
    assert all(np.all(np.isfinite(g)) for g in jax.grad(loss)(list(map(jnp.asarray, leaves))))


@pytest.mark.x32
@pytest.mark.parametrize(("mean", "expected"), MEANS)
def test_single_precision(mean, expected):
    actual = mean(jnp.asarray(X, np.float32))
    assert actual.dtype == np.float32
    assert_close(actual, expected)


def test_changing_all_units_changes_no_mean_but_by_them():
    mean = Linear(W, np.array([0.3, -1.0]), CENTRE)

    def move(value, unit):
        value = value * 7.0**unit.input * 3.0**unit.output
        return value + 100.0 if unit.location else value

    moved = jax.tree.map(move, mean, units(mean))
    assert_close(moved(jnp.array(7.0 * X + 100.0)), 3.0 * mean(jnp.array(X)))
    assert units(Constant()).value == Units(output=1)


def test_domains():
    domains = bijections(Linear(W))
    assert (domains.weights, domains.bias, domains.centre) == (Real(), Real(), FIXED)
    assert bijections(Constant()).value == Real()
    assert not jax.tree.leaves(eqx.filter(Zero(), eqx.is_array_like))


def test_parts_that_do_not_belong_together_are_refused():
    with pytest.raises(ValueError, match=r"weights of shape \(3, 2\) and a bias of shape \(3,\)"):
        Linear(W, np.zeros(3))
    with pytest.raises(ValueError, match=r"weights of shape \(\)"):
        Linear(1.0)
    with pytest.raises(ValueError, match="weights for 3 columns, the inputs have 2"):
        Linear(W)(jnp.array(X[:, :2]))
