"""Legitimate data that are hard on arithmetic: finite, sensible results and not one warning."""

import numpy as np
import pytest

import cavity
from tests.estimators.problem import problem, wave

pytestmark = pytest.mark.x32

X, Y = wave()
R = np.random.default_rng(3)
WIDE = R.normal(size=(40, 200))
SCALED, STEEP = problem(rows=40)[0] * [1e-6, 1e6], problem(rows=40)[1]
OUTLIER = np.where(np.arange(40) == 7, 1e4, Y)

# inputs, outputs, and the least R² on the training rows (None: nothing can be explained)
CASES = {
    "a constant column": (np.column_stack([X, np.full(40, 3.3)]), Y, 0.9),
    "only constant columns": (np.full((40, 2), 3.3), Y, None),
    "constant outputs": (X, np.full(40, 5.0), None),
    "constant outputs of no exact mean": (X, np.full(40, 0.1), None),
    "outputs all zero": (X, np.zeros(40), None),
    "duplicated rows": (np.repeat(X[:20], 2, axis=0), np.repeat(Y[:20], 2), 0.9),
    "duplicated rows that disagree": (
        np.repeat(X[:20], 2, axis=0),
        Y + np.repeat(Y, 2)[:40],
        None,
    ),
    "all rows identical": (np.ones((40, 2)), np.ones(40), None),
    "all rows identical but not the outputs": (np.ones((40, 2)), R.normal(size=40), None),
    "one row": (X[:1], Y[:1], None),
    "two rows": (X[:2], Y[:2], None),
    "two equal rows": (X[[0, 0]], Y[[0, 0]], None),
    "two equal rows that disagree": (X[[0, 0]], Y[:2], None),
    "tiny outputs": (X, Y * 1e-9, 0.9),
    "huge outputs": (X, Y * 1e9, 0.9),
    "tiny inputs": (X * 1e-9, Y, 0.9),
    "huge inputs": (X * 1e9, Y, 0.9),
    "inputs far from zero": (X + 1e6, Y, 0.9),
    "columns of very different scales": (SCALED, STEEP, 0.9),
    "outputs far from zero": (X, Y + 1e6 * np.std(Y), 0.9),
    "200 columns": (np.column_stack([X, WIDE[:, 1:]]), Y, None),
    "200 columns that matter": (WIDE, WIDE @ np.ones(200), 0.5),
    "a huge outlier": (X, OUTLIER, None),
    "a distant row": (np.where(np.arange(40)[:, None] == 7, 1e4, X), Y, 0.9),
    "whole numbers": (np.arange(40)[:, None], np.sin(np.arange(40) / 5) + 0.1 * WIDE[:, 0], 0.9),
    "whole outputs": (X, np.round(5 * Y).astype(int), 0.9),
    "booleans": (WIDE[:, :2] > 0, WIDE[:, 0] * 1.0, 0.4),
    "pure noise": (X, WIDE[:, 0], None),
    "a straight line": (X, 3 * X[:, 0] + 0.01 * WIDE[:, 0], 0.99),
    "no noise": (X, np.sin(2 * X[:, 0]), 0.999),
    "a step": (X, np.sign(X[:, 0]), 0.9),
    "a constant output beside another": (X, np.column_stack([Y, np.full(40, 0.1)]), None),
}
ROUNDING = pytest.mark.filterwarnings("ignore:not converged. no step lowers")


def check(model, X, y, least):
    """Finite predictions with positive deviations, near the data where they can be."""
    X = np.asarray(X, dtype=float)
    new = np.concatenate([X, X[:1] * 1.5 + 1.0, X[:1] * 0.0])
    mean, std = model.predict(new, return_std=True)
    same, cov = model.predict(new, return_cov=True)
    latent = model.predict_latent(new, return_std=True)[1]
    quantiles = model.predict_quantiles(new, [0.01, 0.99])
    density = model.log_predictive_density(X, y)
    samples = model.sample_y(new, 2)
    for values in (mean, std, cov, latent, quantiles, density, samples):
        assert np.all(np.isfinite(values))
    assert np.all(std > 0.0)
    assert np.all(latent >= 0.0)
    np.testing.assert_allclose(same, mean, rtol=1e-9, atol=1e-9 * np.max(np.abs(y)))
    largest = np.max(np.abs(np.asarray(y, float) - np.mean(y, axis=0)), axis=0)
    assert np.all(np.abs(mean - np.mean(y, axis=0)) <= 3.0 * largest + 1e-6 * np.max(np.abs(y)))
    assert np.isfinite(model.log_evidence_)
    # without noise the evidence rises until rounding hides it, sooner on some machines
    assert model.converged_ or "rounding errors hide the fall" in model.message_
    if least is not None:
        assert model.score(X, y) > least


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "setting",
    [{}, pytest.param({"n_inducing": 10}, marks=pytest.mark.slow)],
    ids=["full", "sparse"],
)
@pytest.mark.parametrize(("inputs", "outputs", "least"), CASES.values(), ids=CASES)
def test_hard_cases(inputs, outputs, least, setting):
    if least is not None and "n_inducing" in setting and inputs.shape[1] > 2:
        least = 0.0
    model = cavity.GPRegressor(random_state=0, **setting).fit(inputs, outputs)
    check(model, inputs, outputs, least)


@ROUNDING
@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [{"power": 0.0}, {"power": 1.0}, {"block_size": 6}],
    ids=str,
)
@pytest.mark.parametrize(("inputs", "outputs", "least"), CASES.values(), ids=CASES)
def test_hard_cases_of_every_approximation(inputs, outputs, least, setting):
    setting = {"n_inducing": 10, "random_state": 0} | setting
    check(cavity.GPRegressor(**setting).fit(inputs, outputs), inputs, outputs, None)


@pytest.mark.slow
def test_more_inducing_points_than_rows():
    for rows in (1, 2, 40):
        model = cavity.GPRegressor(n_inducing=100).fit(X[:rows], Y[:rows])
        assert model.inducing_.size == rows
        check(model, X[:rows], Y[:rows], 0.9 if rows == 40 else None)


def test_a_constant_output_has_the_deviations_that_parameters_start_with_in_its_own_units():
    found = []
    for unit in (1e-9, 1.0, 1e9):
        model = cavity.GPRegressor().fit(X, np.full(40, 5.0 * unit))
        mean, std = model.predict(X, return_std=True)
        np.testing.assert_allclose(mean, 5.0 * unit, rtol=1e-9)
        assert model.undetermined_
        found.append(std / unit)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    np.testing.assert_allclose(found[2], found[1], rtol=1e-6)
    assert np.all(found[1] > 0.1)


@pytest.mark.parametrize("constant", [7.0, pytest.param(0.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "estimator",
    [cavity.GPRegressor, pytest.param(cavity.LinearRegressor, marks=pytest.mark.slow)],
)
def test_constant_outputs_are_certain_and_others_are_as_alone(estimator, constant):
    """They were as uncertain as the others, whose noise they made 1/sqrt(2) of what it is."""
    both = np.column_stack([1e3 * Y, np.full(40, constant)])
    mean, std = estimator().fit(X, both).predict(X, return_std=True)
    np.testing.assert_allclose(mean[:, 1], constant, atol=1e-5)
    assert np.all(std[:, 1] < 1e-4)
    alone = estimator().fit(X, 1e3 * Y).predict(X, return_std=True)
    np.testing.assert_allclose(std[:, 0], alone[1], rtol=0.03)


def test_an_output_without_values_is_named():
    both = np.column_stack([Y, np.full(40, np.nan)])
    with pytest.raises(ValueError, match=r"no row has a value of output 1 \(counted from 0\)"):
        cavity.GPRegressor(missing="skip").fit(X, both)


def test_noise_is_not_remembered():
    """Short lengthscales imitate noise with the same evidence; the fit calls it noise."""
    y = np.random.default_rng(0).normal(size=40)
    assert cavity.GPRegressor().fit(WIDE, y).score(WIDE, y) < 0.5
