"""The regressor with noise that is not Gaussian, and with outputs that are no real numbers."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

import cavity
from cavity import likelihoods
from tests.estimators.counts import Counts
from tests.estimators.problem import problem

pytestmark = pytest.mark.x32

FAST = {"max_iterations": 0, "random_state": 0}
NEW = problem(seed=9, rows=25)[0]
X, Y = problem()
OUTLIERS = Y + np.where(np.arange(60) % 10 == 3, 8.0, 0.0)
EXPOSURE = np.random.default_rng(1).uniform(0.5, 9.0, 60)
COUNTS = np.random.default_rng(2).poisson(EXPOSURE * np.exp(Y)).astype(float)
ROBUST = pytest.mark.parametrize("likelihood", ["student_t", "laplace"])
SLOWER = pytest.mark.parametrize(
    "likelihood", ["student_t", pytest.param("laplace", marks=pytest.mark.slow)]
)


@pytest.fixture(scope="module")
def counts():
    return cavity.GPRegressor(likelihood=Counts(), **FAST).fit(X, COUNTS, exposure=EXPOSURE)


@pytest.mark.slow
@ROBUST
def test_outliers_do_not_draw_the_function(likelihood):
    setting = {"max_iterations": 8, "random_state": 0}
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        robust = cavity.GPRegressor(likelihood=likelihood, **setting).fit(X, OUTLIERS)
        plain = cavity.GPRegressor(**setting).fit(X, OUTLIERS)
    error = np.abs(robust.predict_latent(X) - Y)
    assert np.median(error) < 0.2
    assert np.mean(error) < 0.5 * np.mean(np.abs(plain.predict_latent(X) - Y))
    assert robust.log_evidence_ > plain.log_evidence_ + 10.0


@pytest.mark.slow
@SLOWER
def test_starting_scales_are_those_of_the_bulk(likelihood):
    """Outliers a hundred times larger move the start no further."""
    far = Y + (OUTLIERS - Y) * 100.0
    near, other = (
        cavity.GPRegressor(likelihood=likelihood, **FAST).fit(X, y) for y in (OUTLIERS, far)
    )
    assert float(other.likelihood_.scale) == pytest.approx(float(near.likelihood_.scale), rel=0.1)
    assert float(near.likelihood_.scale) < 2.0
    assert abs(float(near.mean_.value) - np.mean(Y)) < 1.0


def test_starting_values_have_the_units_of_the_data():
    plain = cavity.GPRegressor(likelihood="student_t", **FAST).fit(X, Y)
    other = cavity.GPRegressor(likelihood="student_t", **FAST).fit(X * 1e4, Y * 1e4 + 1e4)
    scales = [float(m.likelihood_.scale) for m in (plain, other)]
    assert scales[1] == pytest.approx(1e4 * scales[0], rel=1e-6)
    assert float(other.likelihood_.df) == float(plain.likelihood_.df)
    np.testing.assert_allclose(other.kernel_.lengthscale, 1e4 * plain.kernel_.lengthscale)
    np.testing.assert_allclose(other.predict(NEW * 1e4), 1e4 * plain.predict(NEW) + 1e4, rtol=1e-6)


@pytest.mark.slow
@SLOWER
def test_the_ways_to_predict_agree(likelihood):
    model = cavity.GPRegressor(likelihood=likelihood, **FAST).fit(X, Y)
    mean, std = model.predict(NEW, return_std=True)
    latent, latent_std = model.predict_latent(NEW, return_std=True)
    np.testing.assert_allclose(mean, latent, rtol=1e-9)
    assert np.all(std > latent_std)
    same, cov = model.predict(NEW, return_cov=True)
    np.testing.assert_allclose(same, mean, rtol=1e-9)
    np.testing.assert_allclose(np.diagonal(cov), std**2, rtol=1e-9)
    low, middle, high = model.predict_quantiles(NEW[:4], [0.05, 0.5, 0.95]).T
    np.testing.assert_allclose(middle, mean[:4], atol=1e-6)
    assert np.all((low < middle) & (middle < high))
    draws = model.sample_y(NEW[:4], 4000, random_state=1)
    assert draws.shape == (4, 4000)
    below = np.mean(draws < low[:, None], axis=1)
    np.testing.assert_allclose(below, 0.05, atol=0.02)
    np.testing.assert_array_equal(draws, model.sample_y(NEW[:4], 4000, random_state=1))
    grid = np.linspace(mean[0] - 30 * std[0], mean[0] + 30 * std[0], 4001)
    density = np.exp(model.log_predictive_density(np.repeat(NEW[:1], 4001, axis=0), grid))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("df", "finite"), [(0.7, False), (2.0, False), (3.0, True)])
def test_variances_that_do_not_exist(df, finite):
    """The mean is that of the function, the deviation infinite, and quantiles finite."""
    heavy = likelihoods.StudentT(scale=0.1, df=df)
    model = cavity.GPRegressor(likelihood=heavy, **FAST).fit(X, Y)
    mean, std = model.predict(NEW[:3], return_std=True)
    np.testing.assert_allclose(mean, model.predict_latent(NEW[:3]), rtol=1e-9)
    assert np.all(np.isfinite(std) == finite)
    assert np.all(np.isfinite(model.predict_quantiles(NEW[:3], [0.01, 0.99])))
    assert np.all(np.isfinite(model.sample_y(NEW[:3], 5)))


@pytest.mark.slow
def test_several_outputs_of_different_scale():
    both = np.column_stack([Y, 300.0 * Y[::-1]])
    model = cavity.GPRegressor(likelihood="laplace", **FAST).fit(X, both)
    np.testing.assert_allclose(model.output_scale_, [300**-0.5, 300**0.5], rtol=1e-9)
    mean, std = model.predict(NEW, return_std=True)
    assert mean.shape == std.shape == (25, 2)
    np.testing.assert_allclose(std[:, 1] / std[:, 0], 300.0, rtol=0.2)
    assert model.predict_quantiles(NEW[:2], [0.1, 0.9]).shape == (2, 2, 2)
    assert model.log_predictive_density(NEW, mean).shape == (25,)
    assert model.sample_y(NEW[:2], 3).shape == (2, 2, 3)


@pytest.mark.slow
def test_missing_outputs():
    holes = np.where(np.arange(60) % 5 == 0, np.nan, Y)
    model = cavity.GPRegressor(likelihood="laplace", missing="skip", **FAST).fit(X, holes)
    assert np.mean(np.abs(model.predict(X) - Y)) < 0.3


# ----------------------------------------------------------------------------- counts


@pytest.mark.slow
def test_counts_and_their_exposures(counts):
    mean, std = counts.predict(X, return_std=True, exposure=EXPOSURE)
    assert np.all(std**2 > mean)
    twice = counts.predict(X, exposure=2 * EXPOSURE)
    np.testing.assert_allclose(twice, 2 * mean, rtol=1e-3)
    assert counts.score(X, COUNTS, exposure=EXPOSURE) > 0.8
    assert np.mean(np.abs(counts.predict_latent(X) - Y)) < 0.35
    quantiles = counts.predict_quantiles(X, [0.1, 0.9], exposure=EXPOSURE)
    assert np.all(quantiles == np.round(quantiles))
    assert np.mean(quantiles[:, 0] <= COUNTS) > 0.9
    draws = counts.sample_y(X, 1000, exposure=EXPOSURE)
    assert np.all((draws >= 0) & (draws == np.round(draws)))
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.2 * std.max())
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.2)
    low = int(np.argmin(mean))
    density = counts.log_predictive_density(
        np.repeat(X[[low]], 60, axis=0), np.arange(60.0), exposure=np.full(60, EXPOSURE[low])
    )
    assert np.exp(density).sum() == pytest.approx(1.0, abs=1e-6)


def test_the_start_takes_exposures_into_account(counts):
    """Rates, not counts, set the mean of the function."""
    assert float(counts.mean_.value) == pytest.approx(
        np.mean(np.log((COUNTS + 0.5) / EXPOSURE)), abs=1e-9
    )


@pytest.mark.slow
def test_poisson_by_name(counts):
    """The same model as the likelihood of one's own, from closed forms and features."""
    named = cavity.GPRegressor(likelihood="poisson", **FAST).fit(X, COUNTS, exposure=EXPOSURE)
    assert named.log_evidence_ == pytest.approx(counts.log_evidence_, rel=1e-6)
    mean, std = named.predict(X, return_std=True, exposure=EXPOSURE)
    np.testing.assert_allclose(mean, counts.predict(X, exposure=EXPOSURE), rtol=1e-3)
    np.testing.assert_allclose(named.predict(X, exposure=2 * EXPOSURE), 2 * mean, rtol=1e-9)
    assert np.all(std**2 > mean)
    assert named.score(X, COUNTS, exposure=EXPOSURE) > 0.8
    quantiles = named.predict_quantiles(X[:4], [0.1, 0.9], exposure=EXPOSURE[:4])
    assert np.all((quantiles == np.round(quantiles)) & (quantiles >= 0.0))
    with pytest.raises(ValueError, match=r"fitted with a known exposure"):
        named.score(X, COUNTS)


@pytest.mark.slow
def test_gamma_by_name():
    """Starts and predictions follow the unit of the outputs."""
    y = np.exp(Y)
    plain, other = (
        cavity.GPRegressor(likelihood="gamma", **FAST).fit(X, y * unit) for unit in (1.0, 1e3)
    )
    assert plain.log_evidence_ - other.log_evidence_ == pytest.approx(60 * np.log(1e3), rel=1e-6)
    mean, std = plain.predict(NEW, return_std=True)
    np.testing.assert_allclose(other.predict(NEW), 1e3 * mean, rtol=1e-6)
    assert plain.score(X, y) > 0.7
    low, high = plain.predict_quantiles(NEW[:4], [0.05, 0.95]).T
    assert np.all((low > 0.0) & (low < mean[:4]) & (mean[:4] < high))
    draws = plain.sample_y(NEW[:4], 4000, random_state=1)
    np.testing.assert_allclose(draws.mean(axis=1), mean[:4], atol=0.1 * std[:4].max())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "y", "side"),
    [
        ("negative_binomial", COUNTS, {"exposure": EXPOSURE}),
        ("exponential", np.exp(Y), {}),
        ("beta", 1.0 / (1.0 + np.exp(-Y)), {}),
    ],
)
def test_other_outputs_by_name(likelihood, y, side):
    model = cavity.GPRegressor(likelihood=likelihood, **FAST).fit(X, y, **side)
    assert model.score(X, y, **side) > 0.7
    low, high = model.predict_quantiles(X, [0.05, 0.95], **side).T
    assert np.mean((low <= y) & (y <= high)) > 0.85
    assert np.all(np.isfinite(model.log_predictive_density(X, y, **side)))
    draws = model.sample_y(X, 500, random_state=1, **side)
    np.testing.assert_allclose(np.median(draws, axis=1), np.median(draws), atol=np.ptp(y))
    assert np.all((np.mean(draws <= low[:, None], axis=1) < 0.2) | (low == 0.0))


@pytest.mark.slow
def test_predicting_counts_needs_exposures(counts):
    for method in (
        lambda: counts.predict(X),
        lambda: counts.predict(X, return_std=True),
        lambda: counts.predict_quantiles(X, 0.5),
        lambda: counts.log_predictive_density(X, COUNTS),
        lambda: counts.sample_y(X),
        lambda: counts.score(X, COUNTS),
    ):
        with pytest.raises(
            ValueError, match=r"fitted with a known exposure.*pass exposure=\.\.\."
        ):
            method()
    assert counts.predict_latent(X).shape == (60,)
    assert (
        counts.log_predictive_density(X, -COUNTS - 1, exposure=EXPOSURE).tolist() == [-np.inf] * 60
    )
    with pytest.raises(
        ValueError, match=r"return_cov=True needs outputs that are the function pl"
    ):
        counts.predict(X, return_cov=True, exposure=EXPOSURE)


SIDES = {
    "exposure of numbers": ({}, Y, {"exposure": EXPOSURE}, "'gaussian' reads noise_variance only"),
    "noise of counts": (
        {"likelihood": Counts()},
        COUNTS,
        {"noise_variance": EXPOSURE},
        "the likelihood Counts reads exposure only; leave noise_variance=None",
    ),
    "noise of outliers": (
        {"likelihood": "student_t"},
        Y,
        {"noise_variance": EXPOSURE},
        "'student_t' reads no side data",
    ),
    "no exposure": (
        {"likelihood": Counts()},
        COUNTS,
        {"exposure": EXPOSURE - EXPOSURE[0]},
        "exposure must be positive and finite",
    ),
    "below zero": ({"likelihood": Counts()}, Y - 9, {}, r"60 values that the Counts .*first is -"),
    "fractional": ({"likelihood": Counts()}, COUNTS + 0.5, {}, r"it takes counts 0, 1, 2"),
}


@pytest.mark.parametrize(("setting", "y", "side", "message"), SIDES.values(), ids=SIDES)
def test_data_that_do_not_suit_the_likelihood(setting, y, side, message):
    with pytest.raises(ValueError, match=message):
        cavity.GPRegressor(**setting).fit(X, y, **side)
    with pytest.raises(ValueError, match="reads noise_variance only"):
        cavity.GPRegressor(**FAST).fit(X, Y).predict(X, exposure=EXPOSURE)


@pytest.mark.parametrize("df", [0.0, -1.0, np.nan])
def test_impossible_degrees_of_freedom(df):
    for build in (
        lambda: cavity.GPRegressor(likelihood=likelihoods.StudentT(0.1, df)).fit(X, Y),
        lambda: _library(likelihoods.StudentT(0.1, df)),
    ):
        with pytest.raises(ValueError, match=r"likelihood\.df starts at"):
            build()


def _library(likelihood):
    import jax

    with jax.enable_x64(True):
        cavity.fit(cavity.GP(cavity.kernels.RBF(), likelihood), X, Y)


@pytest.mark.slow
def test_samples_of_a_known_distribution():
    from cavity.estimators.sampling import sample_outputs

    random = np.random.RandomState(0)
    found = sample_outputs(likelihoods.StudentT(0.5, 3.0), np.full((1, 4000), 7.0), {}, random)
    law = stats.t(3.0, 7.0, 0.5)
    assert stats.kstest(found[0], law.cdf).pvalue > 1e-3
    many = sample_outputs(Counts(), np.full((1, 4000), np.log(3e4)), {}, random)
    assert np.mean(many) == pytest.approx(3e4, abs=10.0)
    assert np.std(many) == pytest.approx(3e4**0.5, rel=0.05)
