"""The forecaster: what it adds to the library, and that it refuses what it cannot do."""

import copy
import dataclasses
import pickle
import warnings

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import cavity
from cavity.inference.variables.inducing import InducingBelief
from cavity.learning.free_simulation import FreeSimulation
from cavity.learning.initialisation.state_space import linear_start
from cavity.learning.results.result import FitResult
from cavity.models.state_space import forecast
from tests.tolerances import assert_close

pytestmark = pytest.mark.x32

ROWS, UNIT, CENTRE = 40, 20.0, 300.0
SMALL = {"n_inducing": 6, "max_iterations": 8, "random_state": 0, "propagation": 64}


def system(rows=ROWS + 12, seed=0):
    """A damped swing that a known control drives, in units of its own."""
    random = np.random.default_rng(seed)
    u, x, y = random.standard_normal(rows), np.zeros(2), []
    for control in u:
        x = np.array([[0.9, 0.4], [-0.4, 0.8]]) @ x + np.array([0.0, 0.5 * control])
        y.append(x[0])
    return CENTRE + UNIT * (np.array(y) + 0.1 * random.standard_normal(rows)), u[:, None]


Y, U = system()
PAST, FUTURE = slice(0, ROWS), slice(ROWS, None)
NEXT = np.arange(1, 13)


def quietly(method, *data, **options):
    """A fit of too few steps to converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return method(*data, **options)


@pytest.fixture(scope="module")
def fitted():
    y = Y[PAST].copy()
    y[5] = np.nan
    return quietly(cavity.GPForecaster(**SMALL).fit, y, U[PAST])


@pytest.mark.slow
def test_forecasts_are_those_of_the_posterior_in_the_units_of_the_data(fitted):
    mean, var = fitted.predict(NEXT, U[FUTURE]), fitted.predict_var(NEXT, U[FUTURE])
    assert mean.shape == var.shape == (12,)
    u = (U[FUTURE] - U[PAST].mean()) / U[PAST].std()
    with jax.enable_x64(True):
        key = jax.random.key(fitted._seed)
        future = fitted.posterior_.forecast(12, u, paths=64, key=key)
        expected = future.mean[:, 0], future.var[:, 0], future.quantile([0.05, 0.95])[:, :, 0]
    y = np.delete(Y[PAST], 5)
    assert_close(mean, y.mean() + y.std() * expected[0])
    assert_close(var, y.var() * expected[1])
    interval = fitted.predict_interval(NEXT, U[FUTURE])
    assert_close(interval, (y.mean() + y.std() * expected[2]).T)
    # the next steps are near, and the system is not forgotten
    assert np.sqrt(np.mean((mean[:4] - Y[FUTURE][:4]) ** 2)) < 0.7 * Y.std()
    assert fitted.states_.shape == fitted.states_std_.shape == (ROWS, 2)


@pytest.mark.slow
def test_horizons_are_steps_in_any_order(fitted):
    every = fitted.predict(NEXT, U[FUTURE])
    assert_close(fitted.predict([7, 2], U[FUTURE][:7]), every[[6, 1]], "factorised")
    assert fitted.predict(3, U[FUTURE]).shape == (1,)
    quantiles = fitted.predict_quantiles([1, 5], U[FUTURE], [0.1, 0.5, 0.9])
    assert quantiles.shape == (2, 3)
    assert np.all(np.diff(quantiles, axis=1) > 0.0)
    assert fitted.predict_quantiles([1, 5], U[FUTURE]).shape == (2, 2)
    several = fitted.predict_interval([1, 5], U[FUTURE], [0.5, 0.9])
    assert several.shape == (2, 2, 2)
    assert np.all(several[:, 1, 0] < several[:, 0, 0])
    for wrong in (0, [1, -1], 1.5, "next", [[1, 2]], []):
        with pytest.raises(ValueError, match="whole numbers from 1"):
            fitted.predict(wrong, U[FUTURE])
    with pytest.raises(ValueError, match="give horizons fh"):
        fitted.predict(X=U[FUTURE])


def test_densities_are_in_the_units_of_the_data(fitted):
    y = Y[FUTURE].copy()
    y[3] = np.nan
    density = fitted.log_predictive_density(y, U[FUTURE])
    assert np.isnan(density[3])
    assert np.isnan(density).sum() == 1
    mean = fitted.predict(1, U[FUTURE])[0]
    around = mean + 6.0 * np.sqrt(fitted.predict_var(1, U[FUTURE])[0]) * np.linspace(-1, 1, 41)
    first = [fitted.log_predictive_density([v], U[FUTURE][:1])[0] for v in around]
    assert np.trapezoid(np.exp(first), around) == pytest.approx(1.0, abs=0.02)


@pytest.mark.slow
def test_new_rows_are_followed_at_the_same_parameters(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    quietly(copy.update, Y[FUTURE][:4], U[FUTURE][:4], update_params=False)
    assert copy.n_rows_ == ROWS + 4
    assert copy.states_.shape == (ROWS + 4, 2)
    before, after = fitted.model_, copy.model_
    assert_close(after.transition.noise_variance, before.transition.noise_variance)
    assert_close(after.likelihood.variance, before.likelihood.variance)
    # what was seen is known better than what was expected
    known = copy.predict([1], U[FUTURE][4:])
    assert abs(known[0] - Y[ROWS + 4]) < 2.0 * UNIT
    assert np.sqrt(copy.predict_var([1], U[FUTURE][4:])) < np.sqrt(
        fitted.predict_var([5], U[FUTURE])
    )
    quietly(copy.update, Y[FUTURE][4:6], U[FUTURE][4:6])
    assert copy.n_rows_ == ROWS + 6


def test_forecasts_that_may_leave_the_data_say_so(fitted):
    """With linear functions whose largest eigenvalue is known, over as many steps as it takes."""
    copy = pickle.loads(pickle.dumps(fitted))
    weights = np.array([[1.05, 0.3], [0.0, 0.9], [0.0, 0.0]])
    copy.posterior_ = eqx.tree_at(
        lambda p: p.transition.mean.mean.weights, copy.posterior_, weights
    )
    assert copy.time_map.growth(12) == pytest.approx(1.05**12)
    assert copy.time_map.leaving(47) is None
    with pytest.warns(UserWarning, match="by a factor of 10 over 48 steps"):
        copy.predict(48, np.zeros((48, 1)))


def test_a_few_paths_that_leave_the_data_are_set_aside(fitted):
    with jax.enable_x64(True):
        future = fitted.posterior_.forecast(5, np.zeros((5, 1)), paths=50)
        assert future.left == 0
        ranges = np.ptp(fitted.states_, axis=0)

        def strayed(count):
            away = [
                np.concatenate([np.asarray(a)[:count] + 1e3, np.asarray(a)[count:]])
                for a in (future.paths, future.function_mean)
            ]
            parts = {"paths": away[0], "function_mean": away[1]}
            return dataclasses.replace(future, **parts).without_strays(ranges)

        few, many = strayed(7), strayed(26)
        assert (few.left, many.left) == (7, 0)
        np.testing.assert_allclose(
            few.mean[:, 0], np.mean(future.function_mean[7:, 0, :, 0], axis=0)
        )
        np.testing.assert_allclose(few.states.mean[0], np.mean(future.paths[7:, 0], axis=0))
        assert np.all(many.mean > 100.0)


def test_paths_that_left_are_counted(fitted, monkeypatch):
    monkeypatch.setattr(forecast, "LEFT", 0.12)
    copy = pickle.loads(pickle.dumps(fitted))
    with pytest.warns(UserWarning, match="of 64 paths left the data and are set aside"):
        copy.predict(5, np.zeros((5, 1)))
    assert 0 < copy.paths_left_ <= 16


def test_forecasts_are_widened_about_their_means(fitted):
    """By what the end of the series asked for; the model itself stays as it is."""
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.free_simulation_ is None  # 40 rows are too few
    one = (1.0,)
    copy.free_simulation_ = FreeSimulation(8, 2, one, one, one, one, widening=(2.0,))
    ahead = [1, 5], U[FUTURE]
    mean, ends = fitted.predict(*ahead), fitted.predict_interval(*ahead)
    assert_close(copy.predict(*ahead), mean)
    assert_close(copy.predict_var(*ahead), 4.0 * fitted.predict_var(*ahead))
    assert_close(copy.predict_interval(*ahead), mean[:, None] + 2.0 * (ends - mean[:, None]))
    near = mean[:1]
    narrow, wide = (f.log_predictive_density(near, U[FUTURE][:1]) for f in (fitted, copy))
    assert_close(wide, narrow - np.log(2.0))


@pytest.mark.slow
def test_the_end_of_a_series_is_told_from_its_beginning():
    """What came of it is an attribute and a part of the message, and may be left out."""
    y, u = system(120)
    forecaster = cavity.GPForecaster(**SMALL)
    quietly(forecaster.fit, y, u)
    told = forecaster.free_simulation_
    assert told.rows == 24
    assert told.message in forecaster.message_
    assert 1.0 <= told.widening[0] < 2.0
    assert 0.0 < told.crps[0] < 0.5
    assert forecaster.time_map.widening == told.widening
    states = forecaster.states_
    quietly(forecaster.update, y[:4], u[:4], update_params=False)
    assert forecaster.time_map.widening == told.widening
    without = quietly(cavity.GPForecaster(calibrate=False, **SMALL).fit, y, u)
    assert without.free_simulation_ is None
    assert_close(without.states_, states, "factorised")


def test_linear_parts_are_stable_by_construction():
    grows = np.exp(0.1 * np.arange(30.0))[:, None]  # by 1.1 from row to row
    start = linear_start(grows, np.zeros((30, 0)), np.zeros(30), grows / grows.std())
    assert np.max(np.abs(np.linalg.eigvals(start.transition[0]))) == pytest.approx(0.995)


def test_linear_parts_that_grow_are_said_to(fitted):
    """As a linear kernel may make them."""
    assert fitted.growth_ <= 0.995 + 1e-9
    copy = pickle.loads(pickle.dumps(fitted))
    weights = np.array([[1.05, 0.3], [0.0, 0.9], [0.0, 0.0]])
    posterior = eqx.tree_at(lambda p: p.transition.mean.mean.weights, copy.posterior_, weights)
    ended = {"log_evidence": 0.0, "converged": True, "n_iterations": 3, "interrupted": False}
    ended["history"] = (0.0,)
    result = object.__new__(FitResult)
    vars(result).update(posterior=posterior, message="done", **ended)
    copy._keep(result, copy._data)
    assert copy.growth_ == pytest.approx(1.05)
    assert copy.message_.startswith("done; the linear functions that were learned grow")
    assert "a factor of 1.05 from row to row" in copy.message_


def test_growth_counts_what_a_linear_kernel_adds(fitted):
    """Far away the posterior mean has the slopes of the prior mean and those of the linear part
    of the kernel, worked out with numpy; the other part of the kernel leaves none."""
    Z, random = np.eye(3), np.random.default_rng(0)
    distances = ((Z[:, None] - Z[None]) ** 2).sum(axis=-1)
    K = np.exp(-0.5 * distances) + 0.5 * Z @ Z.T
    u = 12.0 * random.standard_normal((3, 2))
    slopes = np.diag([0.3, -0.2, 0.0])[:, :2] + 0.5 * Z.T @ np.linalg.solve(K, u)
    expected = np.max(np.abs(np.linalg.eigvals(slopes[:2].T)))
    with jax.enable_x64(True):
        kernel = cavity.kernels.RBF(1.0, 1.0) + cavity.kernels.Linear(0.5)
        mean = cavity.means.Linear(np.diag([0.3, -0.2, 0.0])[:, :2])
        points = cavity.inducing.Points(Z)
        layer = cavity.Layer(kernel, points, 2, mean, 0.1, skip_connection=True)
        (view,) = layer.views(1e-12)
        whitened = np.linalg.solve(np.linalg.cholesky(K), u).T[None]
        belief = InducingBelief(whitened, 0.1 * np.eye(3)[None], np.zeros(()))
        process = layer.process([view], [belief])
    posterior = dataclasses.replace(fitted.posterior_, transition=process)
    maps = dataclasses.replace(fitted.time_map, posterior=posterior)
    assert maps.growth(3) == pytest.approx(expected**3, rel=1e-5)
    assert expected > 1.0


@pytest.mark.slow
def test_frames_in_time_and_several_outputs():
    """Constant outputs stay constant, and horizons of the fit serve predictions."""
    times = pd.date_range("2024-01-31", periods=ROWS, freq="ME")
    frame = pd.DataFrame({"a": Y[PAST], "b": 5.0, "c": -2.0 * Y[PAST]}, index=times)
    forecaster = cavity.GPForecaster(**(SMALL | {"propagation": "moments"}))
    quietly(forecaster.fit, frame, fh=[1, 3])
    mean = forecaster.predict()
    assert mean.shape == (2, 3)
    assert np.all(mean[:, 1] == 5.0)
    assert np.all(forecaster.predict_var()[:, 1] == 0.0)
    assert forecaster.predict_quantiles().shape == (2, 3, 2)
    assert forecaster.predict_interval().shape == (2, 3, 2)
    with pytest.raises(ValueError, match="1 column, the fit had 0 controls"):
        forecaster.predict(X=U[FUTURE])


@pytest.mark.parametrize(
    ("asked", "expected"), [(64, ("paths", 64)), ("linearised", ("linearised", 500))]
)
def test_forecasts_go_on_as_was_asked(fitted, asked, expected):
    again = copy.copy(fitted).set_params(propagation=asked)
    assert (again.time_map.propagation, again.time_map.paths) == expected


def test_unusable_series_are_named():
    small = cavity.GPForecaster(**SMALL)
    days = pd.date_range("2024-01-01", periods=ROWS, freq="D")
    series = pd.Series(Y[PAST], index=days)
    cases = {
        "sorted by time": (series[::-1],),
        "no rows between 2024-01-04": (series.drop(days[4:6]),),
        "one row has no dynamics": (Y[:1],),
        "y is constant": (np.ones(9),),
        "X has 3 rows, y has 40": (Y[PAST], U[:3]),
        "must not have missing values": (Y[PAST], np.full((ROWS, 1), np.nan)),
        "must hold numbers": (["a", "b"],),
        "has no value in any row": (np.full((ROWS, 1), np.nan),),
        "the same index": (series, pd.DataFrame(U[PAST], index=days + pd.Timedelta("1D"))),
    }
    for match, data in cases.items():
        with pytest.raises(ValueError, match=match):
            small.fit(*data)
    settings = {
        "n_states": 0,
        "n_inducing": 2.5,
        "power": 2.0,
        "emission": "curved",
        "propagation": "nodes",
        "likelihood": "softmax",
        "kernel": "round",
    }
    for name, value in settings.items():
        with pytest.raises(ValueError, match=name if name != "kernel" else "round"):
            cavity.GPForecaster(**(SMALL | {name: value})).fit(Y[PAST])


def test_controls_that_do_not_fit_are_named(fitted):
    with pytest.raises(ValueError, match="end before the forecast does: X has 2 rows"):
        fitted.predict(5, U[FUTURE][:2])
    with pytest.raises(ValueError, match="the fit had 1 control, so X is needed"):
        fitted.predict(5)
    with pytest.raises(ValueError, match="X has 2 columns, the fit had 1 control"):
        fitted.predict(5, np.ones((5, 2)))
    for wrong in (95, "a", [0.5, "b"], None, []):
        with pytest.raises(ValueError, match=r"coverage must be .* probabilities in \(0, 1\)"):
            fitted.predict_interval(1, U[FUTURE], wrong)
    for wrong in (0.0, "x", [[0.1]]):
        with pytest.raises(ValueError, match=r"alpha must be .* probabilities in \(0, 1\)"):
            fitted.predict_quantiles(1, U[FUTURE], wrong)


@pytest.mark.slow
def test_states_may_depend_on_their_functions():
    rng = np.random.default_rng(0)
    x = np.zeros(40)
    for t in range(1, 40):
        x[t] = np.sin(2.0 * x[t - 1]) + 0.3 + 0.2 * rng.normal()
    y = x + 0.3 * rng.normal(size=40)
    settings = {"n_states": 1, "emission": "identity", "n_inducing": 6, "max_iterations": 5}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forecaster = cavity.GPForecaster(hidden="conditional", random_state=0, **settings)
        forecaster.fit(y[:36])
        forecaster.update(y[36:], update_params=False)
    assert np.all(np.isfinite(forecaster.predict([1, 2])))
    assert forecaster.states_.shape == (40, 1)
    with pytest.raises(ValueError, match="power=0"):
        cavity.GPForecaster(hidden="conditional", power=0.5).fit(y)
    with pytest.raises(ValueError, match="hidden"):
        cavity.GPForecaster(hidden="full").fit(y)


@pytest.mark.slow
def test_states_with_one_site_each():
    """Factors are tied, learned from pieces of the series, and rows that follow are added."""
    rng = np.random.default_rng(1)
    y = np.sin(0.4 * np.arange(40)) + 0.1 * rng.normal(size=40)
    forecaster = cavity.GPForecaster(
        *(2, "rbf"), hidden="tied", power=0.5, batch=12, n_inducing=6, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forecaster.set_params(max_iterations=5).fit(y[:36])
        assert forecaster.posterior_.states.mean.shape == (36, 2)
        forecaster.update(y[36:], update_params=False)
    assert forecaster.n_rows_ == 40
    assert np.abs(forecaster.predict([1, 2]) - np.sin([16.0, 16.4])).max() < 0.6
    again = cavity.GPForecaster(hidden="chain", batch=12)
    with pytest.raises(
        ValueError, match='minibatches go with hidden="tied", given hidden="chain"'
    ):
        again.fit(y)
    with pytest.raises(ValueError, match="batch must be"):
        again.set_params(hidden="tied", batch=1).fit(y)


def test_horizons_without_end_are_refused(fitted):
    for fh in (np.inf, 1e20):
        with pytest.raises(ValueError, match="whole numbers from 1"):
            fitted.predict(fh)
