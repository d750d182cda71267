"""Modes of networks keep to what priors allow, and to what is known."""

import numpy as np
import pytest

import cavity
from cavity import likelihoods, weights

NOISE = likelihoods.Gaussian(0.05)


def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (40, 3))
    return X, np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(40)


@pytest.mark.parametrize(
    ("hidden", "linear"),
    [
        (weights.HalfStudentT(1.0), None),
        (weights.Gaussian(np.full(3, 0.5)), weights.HalfStudentT(1.0)),
    ],
    ids=["units", "linear"],
)
def test_modes_have_no_weights_that_a_prior_does_not_allow(hidden, linear):
    """On data that ask for negative ones; the odd activation keeps its signs."""
    X, y = table()
    model = cavity.Network(2, hidden, "erf", NOISE, linear=linear)
    start = cavity.initialisation.network_at_mode(model, X, y - 2.0 * X[:, 0]).start
    assert start is not None
    found = np.asarray(start.hidden)[:-1] if linear is None else np.asarray(start.linear)
    assert np.all(found >= 0.0)
    assert np.any(np.asarray(start.hidden if linear is not None else start.output) < 0.0)


def test_modes_leave_known_output_weights():
    X, y = table()
    known, output = np.array([-1.0, 1.0, 0.0]), weights.HalfStudentT(1.0)
    prior = weights.Gaussian(np.full(3, 0.5))
    model = cavity.Network(2, prior, "erf", NOISE, output=output, output_weights=known)
    start = cavity.initialisation.network_at_mode(model, X, y).start
    assert start is not None
    np.testing.assert_array_equal(start.output, known)
