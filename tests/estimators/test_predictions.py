"""What each method of a fitted regressor gives, for one output and for several."""

import warnings

import jax
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score

import cavity
from tests.estimators.problem import problem

pytestmark = pytest.mark.x32

SPARSE = {"n_inducing": 10, "random_state": 0}
SETTINGS = pytest.mark.parametrize("setting", [{}, SPARSE], ids=["full", "sparse"])
NEW = problem(seed=9, rows=25)[0]


def test_defaults_are_good():
    X, y = problem()
    model = cavity.GPRegressor().fit(X, y)
    assert model.fit(X, y) is model
    test_X, test_y = problem(seed=1)
    assert model.score(test_X, test_y) > 0.95
    assert model.score(X, y) == pytest.approx(r2_score(y, model.predict(X)))
    assert model.converged_
    assert not model.interrupted_
    assert model.n_iter_ <= model.n_evaluations_
    assert model.inducing_ is None
    assert model.jitter_ == 0.0
    assert model.sites_.finished_by == "exact"
    assert model.n_features_in_ == 2
    assert model.message_


# ------------------------------------------------------------------------------ methods


@SETTINGS
def test_the_ways_to_predict_agree(setting):
    X, y = problem()
    model = cavity.GPRegressor(**setting).fit(X, y)
    noise = float(model.likelihood_.variance)
    mean, std = model.predict(NEW, return_std=True)
    same, cov = model.predict(NEW, return_cov=True)
    latent, latent_std = model.predict_latent(NEW, return_std=True)
    _, latent_cov = model.predict_latent(NEW, return_cov=True)
    for other in (same, latent, model.predict(NEW), model.predict_latent(NEW)):
        np.testing.assert_allclose(other, mean, rtol=1e-12)
    assert mean.shape == std.shape == (25,)
    assert cov.shape == latent_cov.shape == (25, 25)
    np.testing.assert_allclose(std**2, latent_std**2 + noise, rtol=1e-10)
    np.testing.assert_array_equal(np.diagonal(cov), std**2)
    np.testing.assert_allclose(np.diagonal(latent_cov), latent_std**2, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(cov - latent_cov, noise * np.eye(25), atol=1e-8)
    assert np.linalg.eigvalsh(cov)[0] > 0.0


@SETTINGS
def test_quantiles_are_normal_and_in_order(setting):
    X, y = problem()
    model = cavity.GPRegressor(**setting).fit(X, y)
    mean, std = model.predict(NEW, return_std=True)
    levels = [0.05, 0.5, 0.8413447460685429]
    found = model.predict_quantiles(NEW, levels)
    assert found.shape == (25, 3)
    assert np.all(np.diff(found, axis=1) > 0)
    np.testing.assert_allclose(found[:, 1], mean, rtol=1e-10)
    np.testing.assert_allclose(found[:, 2], mean + std, rtol=1e-8)
    np.testing.assert_array_equal(model.predict_quantiles(NEW, 0.5)[:, 0], found[:, 1])


def test_log_predictive_density_integrates_to_one():
    X, y = problem()
    model = cavity.GPRegressor(**SPARSE).fit(X, y)
    mean, std = model.predict(NEW[:1], return_std=True)
    grid = np.linspace(mean[0] - 10 * std[0], mean[0] + 10 * std[0], 2001)
    density = np.exp(model.log_predictive_density(np.repeat(NEW[:1], 2001, axis=0), grid))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-6)


@SETTINGS
def test_samples_follow_the_predictive_distribution(setting):
    X, y = problem()
    model = cavity.GPRegressor(**setting).fit(X, y)
    mean, cov = model.predict(NEW[:4], return_cov=True)
    draws = model.sample_y(NEW[:4], 20_000, random_state=1)
    assert draws.shape == (4, 20_000)
    spread = np.sqrt(np.diagonal(cov))
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 0.05 * spread)
    np.testing.assert_allclose(np.cov(draws), cov, atol=0.05 * np.max(cov))
    np.testing.assert_array_equal(draws, model.sample_y(NEW[:4], 20_000, random_state=1))
    assert not np.array_equal(draws, model.sample_y(NEW[:4], 20_000, random_state=2))
    assert model.sample_y(NEW[:4]).shape == (4, 1)


def test_intervals_cover_what_they_promise():
    covered = {0.5: [], 0.9: []}
    for seed in range(4):
        X, y = problem(seed)
        test_X, test_y = problem(seed + 100, rows=400)
        model = cavity.GPRegressor().fit(X, y)
        for level, found in covered.items():
            q = model.predict_quantiles(test_X, [0.5 - level / 2, 0.5 + level / 2])
            found.append(np.mean((q[:, 0] <= test_y) & (test_y <= q[:, 1])))
    assert 0.4 < np.mean(covered[0.5]) < 0.6
    assert 0.83 < np.mean(covered[0.9]) < 0.96


# ---------------------------------------------------------------------- several outputs


def outputs(scales=(1.0, 1.0)):
    X, y = problem()
    return X, np.column_stack([y * scales[0], np.cos(X[:, 0]) * scales[1]])


@pytest.mark.slow
@SETTINGS
def test_shapes_with_several_outputs(setting):
    X, Y = outputs()
    model = cavity.GPRegressor(**setting).fit(X, Y)
    mean, std = model.predict(NEW, return_std=True)
    _, cov = model.predict(NEW, return_cov=True)
    assert mean.shape == std.shape == model.predict_latent(NEW).shape == (25, 2)
    assert cov.shape == model.predict_latent(NEW, return_cov=True)[1].shape == (25, 25, 2)
    for p in range(2):
        np.testing.assert_allclose(np.diagonal(cov[..., p]), std[:, p] ** 2, rtol=1e-12)
    quantiles = model.predict_quantiles(NEW, [0.1, 0.5, 0.9])
    assert quantiles.shape == (25, 2, 3)
    np.testing.assert_allclose(quantiles[..., 1], mean, rtol=1e-10)
    assert model.sample_y(NEW, 7).shape == (25, 2, 7)
    density = model.log_predictive_density(NEW, mean)
    normal = -np.log(std) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(density, normal.sum(axis=1), rtol=1e-10)


@pytest.mark.slow
@SETTINGS
def test_outputs_of_different_scales_share_a_kernel(setting):
    """Changing the unit of one output changes its predictions by that factor, no others."""
    X, Y = outputs()
    factors = np.array([1e-3, 40.0])
    plain = cavity.GPRegressor(**setting).fit(X, Y)
    scaled = cavity.GPRegressor(**setting).fit(X, Y * factors)
    mean, std = plain.predict(NEW, return_std=True)
    scaled_mean, scaled_std = scaled.predict(NEW, return_std=True)
    np.testing.assert_allclose(scaled_mean / factors, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scaled_std / factors, std, rtol=1e-4)
    shift = -len(Y) * np.sum(np.log(factors))
    assert scaled.log_evidence_ == pytest.approx(plain.log_evidence_ + shift, abs=1e-4)
    density = scaled.log_predictive_density(NEW, scaled_mean)
    shift = -np.sum(np.log(factors))
    np.testing.assert_allclose(density, plain.log_predictive_density(NEW, mean) + shift, rtol=1e-4)


def test_a_matrix_with_one_column_stays_a_matrix():
    X, y = problem()
    matrix = cavity.GPRegressor().fit(X, y[:, None])
    vector = cavity.GPRegressor().fit(X, y)
    assert matrix.predict(NEW).shape == (25, 1)
    np.testing.assert_allclose(matrix.predict(NEW)[:, 0], vector.predict(NEW), rtol=1e-10)
    assert matrix.log_evidence_ == pytest.approx(vector.log_evidence_, rel=1e-10)


@pytest.mark.slow
@SETTINGS
def test_missing_outputs_are_left_out(setting):
    X, y = problem()
    absent = np.arange(60) % 5 == 0
    holes = np.where(absent, np.nan, y)
    model = cavity.GPRegressor(missing="skip", **setting).fit(X, holes)
    without = cavity.GPRegressor(**setting).fit(X[~absent], y[~absent])
    np.testing.assert_allclose(model.predict(NEW), without.predict(NEW), atol=0.02)
    assert model.log_evidence_ == pytest.approx(without.log_evidence_, abs=0.5)


def test_each_output_may_miss_its_own_rows():
    X, Y = outputs((1.0, 100.0))
    holes = Y.copy()
    holes[:20, 0] = np.nan
    holes[40:, 1] = np.nan
    model = cavity.GPRegressor(missing="skip").fit(X, holes)
    error = model.predict(X) - Y
    assert np.all(np.std(error, axis=0) < 0.3 * np.std(Y, axis=0))
    _, std = model.predict_latent(X, return_std=True)
    assert np.mean(std[:20, 0]) > 1.2 * np.mean(std[20:, 0])


# ---------------------------------------------------------------------------- leaving one out


def test_leaving_one_out_is_in_the_units_of_the_data():
    """Multiplying an output by a constant takes its logarithm off each density."""
    X, y = problem()
    both = np.stack([y, 1e3 * y], axis=1)
    gp = cavity.GPRegressor(max_iterations=0, mean="zero", random_state=0).fit(X, both)
    found = gp.leave_one_out(X, both)
    assert found.shape == both.shape
    scale, noise = gp.output_scale_, float(gp.likelihood_.variance)
    with jax.enable_x64(True):
        K = np.asarray(gp.kernel_.cross(X, X)) + noise * np.eye(len(X))
    inverse = np.linalg.inv(K)
    var = 1.0 / np.diag(inverse)
    for i in range(2):
        r = inverse @ (both[:, i] / scale[i]) * var
        expected = -0.5 * (np.log(2 * np.pi * var) + r**2 / var) - np.log(scale[i])
        np.testing.assert_allclose(found[:, i], expected, rtol=1e-5)
    with pytest.raises(ValueError, match="y must have shape"):
        gp.leave_one_out(X, y)


@pytest.mark.slow
def test_rows_of_blocks_are_not_left_out():
    X, y = problem()
    gp = cavity.GPRegressor(n_inducing=5, block_size=5, max_iterations=0, random_state=0)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        gp.fit(X, y)
    with pytest.raises(ValueError, match="block_size=None"):
        gp.leave_one_out(X, y)


@pytest.mark.slow
def test_labels_are_left_out_by_probability():
    X, y = problem()
    labels = np.where(y > np.median(y), "high", "low")
    gp = cavity.GPClassifier(max_iterations=0, random_state=0).fit(X, labels)
    found = gp.leave_one_out(X, labels)
    assert found.shape == y.shape
    assert np.all(found < 0.0)
    assert found.mean() < gp.log_predictive_density(X, labels).mean()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("inducing", [None, 5])
def test_covariances_that_no_memory_holds(inducing):
    """Of a million rows, which would take terabytes; deviations of them are no trouble."""
    X = np.linspace(0.0, 1.0, 12)[:, None]
    model = cavity.GPRegressor(n_inducing=inducing, random_state=0).fit(X, np.sin(5 * X[:, 0]))
    many = np.broadcast_to(X[:1], (1_000_000, 1))
    with jax.enable_x64(True):
        key = jax.random.key(0)
    for work in (
        lambda: model.predict(many, return_cov=True),
        lambda: model.predict_latent(many, return_cov=True),
        lambda: model.sample_y(many),
        lambda: model.posterior_.joint(many),
        lambda: model.posterior_.sample(many, key=key),
    ):
        with jax.enable_x64(True), pytest.raises(MemoryError, match=r"1000000 rows needs .* GB"):
            work()
