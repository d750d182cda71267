"""State-space models learned with sites on states: slopes, families, likelihoods, refusals."""

import numpy as np
import pytest

import cavity
from cavity import fitting, inducing, kernels, likelihoods, means
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from tests.models import chain_toy as toy
from tests.oracle import kalman
from tests.tolerances import assert_close

SERIES = np.array([0, 0, 0, 0, 0, 1, 2, 2, 2, 2])


def method(propagation, hidden="chain"):
    return cavity.TiedPowerEP(propagation=propagation, input_sites=True, hidden=hidden)


def layer(columns, width, seed=0, **parts):
    Z = np.random.default_rng(seed).normal(size=(3, columns))
    return cavity.Layer(kernels.RBF(0.8, 1.2), inducing.Points(Z), width=width, **parts)


def outputs():
    rng = np.random.default_rng(1)
    Y = np.column_stack([np.sin(np.arange(10.0)), np.cos(np.arange(10.0))])
    Y += 0.2 * rng.normal(size=Y.shape)
    Y[2] = Y[7, 1] = np.nan
    return Y, rng.normal(size=(10, 1))


def data_of(model, X, Y, power):
    side = model.row_data({"series": SERIES}, len(Y))
    return prepare(X, Y, power=power, rows=side, missing="skip")


def two_states(emission, likelihood):
    transition = layer(
        3, 2, noise_variance=np.array([0.2, 0.3]), mean=means.Identity(2), skip_connection=True
    )
    return cavity.GPSSM(transition, likelihood, emission)


WEIGHTS = np.array([[1.0, -0.3], [0.2, 0.8]])
CASES = {
    "moments": (means.Linear(WEIGHTS), likelihoods.Gaussian(0.3), fitting.Moments(), "chain"),
    "nodes": (means.Linear(WEIGHTS), likelihoods.StudentT(0.5, 4.0), fitting.Nodes(9), "chain"),
    "layer": (layer(2, 2, 3), likelihoods.Gaussian(0.3), fitting.Linearised(), "factorised"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_slopes_are_finite_differences(case):
    """Of all parameters, inducing points and tied sites, sites on states found anew."""
    emission, likelihood, propagation, hidden = CASES[case]
    Y, X = outputs()
    model = two_states(emission, likelihood)
    data = data_of(model, X, Y, 0.5)
    how = method(propagation, hidden)
    objective = Objective(as_dtype(model, data), data, method=how, jitter=1e-9)
    random = np.random.default_rng(8)
    x = objective.first + 0.05 * random.standard_normal(objective.size)
    _, slope = objective(x)
    for _ in range(2):
        step = 1e-4 * random.standard_normal(objective.size)
        change = 0.5 * (objective(x + step)[0] - objective(x - step)[0])
        assert_close(slope @ step, change, "gradient", scale=1e-3)


# ---- a known linear model, as a user would meet it


def known():
    """A linear model with functions of next to no variance, and its series."""
    linear, y, controls = toy.linear(2)
    transition = toy.transition_layer(linear, 1e-14)
    model = cavity.GPSSM(
        transition,
        likelihoods.Gaussian(linear.R[0]),
        means.Linear(linear.C.T, linear.d),
        initial_mean=linear.m0,
        initial_variance=linear.v0,
    )
    series = np.cumsum(1.0 - toy.LINK[: toy.ROWS])
    return model, controls, y, {"series": series}, linear


@pytest.mark.slow
def test_a_known_linear_model_is_the_kalman_smoother():
    model, X, Y, rows, linear = known()
    how = method(fitting.Moments())
    result = cavity.infer(model, X, Y, power=0.5, rows=rows, missing="skip", method=how)
    expected = kalman.smooth(linear, Y, toy.LINK[: toy.ROWS], X)
    # tied sites start from the exact messages, which here are those of nothing but the prior
    assert result.log_evidence == pytest.approx(expected.log_evidence, abs=1e-6)
    states = result.posterior.states
    np.testing.assert_allclose(states.mean, expected.mean, atol=1e-7)
    np.testing.assert_allclose(states.cov, expected.cov, atol=1e-7)
    np.testing.assert_allclose(states.cross, expected.cross, atol=1e-7)


def test_what_no_cavity_is_left_for_is_refused_by_name():
    model, X, Y, rows, _ = known()
    Y = Y.copy()
    Y[3, 0] = np.nan
    how = method(fitting.Moments())
    with pytest.raises(ValueError, match=r"at power 1 row 3.*2 states, and has 1.*such as 0\.9"):
        cavity.infer(model, X, Y, power=1.0, rows=rows, missing="skip", method=how)


# ---- sites of every row on inducing variables


@pytest.mark.slow
def test_sites_of_every_row_end_at_the_collapsed_bound():
    """At power 0, by the descent that follows where sweeps fail."""
    Y, _ = outputs()
    transition = layer(1, 1, noise_variance=0.3, mean=means.Identity(1))
    model = cavity.GPSSM(transition, likelihoods.Gaussian(0.3), means.Linear([[1.0, -0.5]]))
    options = {"rows": {"series": SERIES}, "power": 0.0, "missing": "skip"}
    collapsed = cavity.infer(model, None, Y, method=cavity.PowerEP(), **options)
    sites = cavity.infer(model, None, Y, method=cavity.PowerEP(exact=False), **options)
    # the chain of the first is found to a thousandth of a nat
    assert sites.log_evidence == pytest.approx(collapsed.log_evidence, abs=2e-3)
    assert sites.log_evidence > collapsed.log_evidence - 1e-6


def test_sites_beyond_memory_are_refused_with_their_bytes():
    Y, _ = outputs()
    points = inducing.Points(np.linspace(-2.0, 2.0, 600)[:, None])
    transition = cavity.Layer(kernels.RBF(), points, 1, noise_variance=0.1)
    model = cavity.GPSSM(transition, likelihoods.Gaussian(0.1))
    how = cavity.PowerEP(exact=False)
    with pytest.raises(ValueError, match=r"\d{10} bytes .*TiedPowerEP\(input_sites=True\)"):
        cavity.infer(model, None, Y[:, 0], missing="skip", method=how)
