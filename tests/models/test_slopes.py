"""Rows that observe slopes of the function, and slopes that are predicted."""

import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods
from tests.oracle import dense
from tests.tolerances import assert_close

RNG = np.random.default_rng(4)
X = RNG.uniform(0, 3, (20, 1))
COLUMN = np.where(np.arange(20) % 2, 0.0, -1.0)
Y = np.where(COLUMN < 0, np.sin(2 * X[:, 0]), 2 * np.cos(2 * X[:, 0]))
KERNEL = kernels.RBF(1.3, 0.9)
Z = np.linspace(0, 3, 5)[:, None]
NEW = np.linspace(-0.5, 3.5, 7)[:, None]
SIDE = {"slope_of": COLUMN}
LIKELIHOOD = likelihoods.Gaussian(0.01)


def entry(a, a_slope, b, b_slope):
    """Covariances of values and slopes of a squared exponential, by their formulas."""
    r, l2 = a[:, None] - b, 0.9**2
    k = 1.3 * np.exp(-0.5 * r**2 / l2)
    first, second = a_slope[:, None], b_slope[None, :]
    one = np.where(first, -r / l2 * k, np.where(second, r / l2 * k, k))
    return np.where(first & second, (1 / l2 - r**2 / l2**2) * k, one)


VALUE = COLUMN < 0
K = entry(X[:, 0], ~VALUE, X[:, 0], ~VALUE)


def infer(functionals, power=0.5, **changes):
    model = cavity.GP(KERNEL, LIKELIHOOD, functionals)
    return cavity.infer(model, X, Y, power=power, rows=SIDE, jitter=0.0, **changes)


def test_a_full_gp_learns_from_slopes():
    result = infer(None)
    expected = dense.exact_log_evidence(K, Y, 0.01)
    assert result.log_evidence == pytest.approx(expected, rel=1e-9)
    value, slope = np.zeros(7, bool), np.ones(7, bool)
    for kind, found in (
        (value, result.posterior.marginals(NEW)),
        (slope, result.posterior.slopes(NEW, 0)),
    ):
        cross = entry(NEW[:, 0], kind, X[:, 0], ~VALUE)
        prior = entry(NEW[:, 0], kind, NEW[:, 0], kind)
        mean, cov = dense.exact_posterior(K, cross, prior, Y, 0.01)
        assert_close(found.mean, mean, "factorised", scale=1.0)
        assert_close(found.var, np.diag(cov), "factorised", scale=1.0)
    predicted = result.posterior.predict(NEW, rows={"slope_of": np.zeros(7)})
    assert_close(predicted.mean, result.posterior.slopes(NEW, 0).mean)
    assert_close(predicted.var, result.posterior.slopes(NEW, 0).var + 0.01)


def test_rows_that_observe_slopes_have_the_slope_of_the_prior_mean():
    mean = cavity.means.Linear([0.7], 0.4)
    prior = np.where(VALUE, 0.4 + 0.7 * X[:, 0], 0.7)
    expected = dense.exact_log_evidence(K, Y - prior, 0.01)
    for inside in (None, inducing.Slopes(X, COLUMN.astype(int))):
        model = cavity.GP(KERNEL, LIKELIHOOD, inside, mean)
        found = cavity.infer(model, X, Y, rows=SIDE, jitter=0.0 if inside is None else 1e-10)
        assert found.log_evidence == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_sparse_models_learn_from_slopes_at_every_power(power):
    result = infer(inducing.Points(Z), power)
    value = np.zeros(5, bool)
    Kuu, Kuf = entry(Z[:, 0], value, Z[:, 0], value), entry(Z[:, 0], value, X[:, 0], ~VALUE)
    expected = dense.power_ep_log_evidence(K, Kuf, Kuu, Y, 0.01, power)
    assert result.log_evidence == pytest.approx(expected, rel=1e-7)
    h = 1e-4
    up, down = (result.posterior.marginals(NEW + s * h).mean for s in (1, -1))
    assert_close(result.posterior.slopes(NEW, 0).mean, (up - down) / 2 / h, "gradient", scale=1.0)


@pytest.mark.slow
def test_blocks_and_learning_take_slopes():
    blocks = np.repeat(np.arange(5), 4)
    result = infer(inducing.Points(Z), 0.5, blocks=blocks)
    value = np.zeros(5, bool)
    Kuu, Kuf = entry(Z[:, 0], value, Z[:, 0], value), entry(Z[:, 0], value, X[:, 0], ~VALUE)
    expected = dense.power_ep_log_evidence(K, Kuf, Kuu, Y, 0.01, 0.5, blocks)
    assert result.log_evidence == pytest.approx(expected, rel=1e-7)
    model = cavity.GP(kernels.Matern52(1.3, 0.9), LIKELIHOOD, inducing.Slopes(Z, 0))
    learned = cavity.fit(model, X, Y, rows=SIDE, max_iterations=3)
    assert learned.log_evidence > cavity.infer(model, X, Y, rows=SIDE).log_evidence


def test_bad_input_is_refused_with_the_reason():
    model = cavity.GP(KERNEL, LIKELIHOOD)
    with pytest.raises(ValueError, match="no column"):
        cavity.infer(model, X, Y, rows={"slope_of": np.ones(20)})
    with pytest.raises(ValueError, match="Matern12"):
        cavity.infer(cavity.GP(kernels.Matern12(), LIKELIHOOD), X, Y, rows=SIDE)
    with pytest.raises(ValueError, match="no column"):
        infer(None).posterior.slopes(NEW, 1)
    three = cavity.GP(KERNEL, likelihoods.Softmax(3))
    with pytest.raises(ValueError, match="slope_of"):
        cavity.infer(three, X, np.arange(20) % 3.0, rows=SIDE)
