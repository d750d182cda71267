"""scikit-learn's own checks of an estimator, and its tools at work on ours."""

from unittest import SkipTest

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import cavity
from tests.estimators.problem import problem

pytestmark = pytest.mark.x32


# without a search they agree, and with one to its tolerance: see `test_row_weights`
SEARCHED = {
    "check_sample_weight_equivalence_on_dense_data": "two searches end within their tolerance"
}


@pytest.mark.slow
@parametrize_with_checks([cavity.GPRegressor(max_iterations=0)])
def test_own_checks(estimator, check):
    passes(estimator, check)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:not converged")
@parametrize_with_checks(
    [cavity.GPRegressor(), cavity.GPClassifier()], expected_failed_checks=lambda _: SEARCHED
)
def test_own_checks_with_learning(estimator, check):
    passes(estimator, check)


def passes(estimator, check):
    """Only what needs the array-API switch of scipy may be left out."""
    try:
        check(estimator)
    except SkipTest as reason:
        if "SCIPY_ARRAY_API" not in str(reason):
            pytest.fail(f"left out: {reason}")
        raise


def test_clone_keeps_the_settings_and_drops_what_was_learned():
    X, y = problem()
    kernel = cavity.kernels.RBF(2.0, [1.0, 3.0])
    fitted = cavity.GPRegressor(kernel=kernel, power=0.2).fit(X, y)
    copy = clone(fitted)
    assert not hasattr(copy, "posterior_")
    assert copy.power == 0.2
    np.testing.assert_array_equal(copy.kernel.lengthscale, kernel.lengthscale)
    np.testing.assert_array_equal(copy.fit(X, y).predict(X), fitted.predict(X))


def test_pipeline_with_a_scaler_changes_nothing():
    """The estimator does not depend on units, so a scaler before it is idle."""
    X, y = problem()
    X = X * [1e-3, 50.0] + [7.0, -3.0]
    plain = cavity.GPRegressor().fit(X, y)
    scaled = make_pipeline(StandardScaler(), cavity.GPRegressor()).fit(X, y)
    np.testing.assert_allclose(scaled.predict(X), plain.predict(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scaled[-1].log_evidence_, plain.log_evidence_, rtol=1e-6)


def test_cross_validation_scores_well():
    X, y = problem()
    scores = cross_val_score(cavity.GPRegressor(), X, y, cv=3)
    assert np.all(scores > 0.9)


def test_grid_search_in_two_processes():
    X, y = problem()
    noise = np.full(len(y), 0.01)
    search = GridSearchCV(cavity.GPRegressor(), {"kernel": ["rbf", "linear"]}, cv=2, n_jobs=2)
    search.fit(X, y, noise_variance=noise)
    assert search.best_params_ == {"kernel": "rbf"}
    here = cavity.GPRegressor().fit(X, y, noise_variance=noise)
    np.testing.assert_allclose(search.predict(X), here.predict(X), rtol=1e-8)


def frame(library, X):
    return library.DataFrame({"height": X[:, 0], "weight": X[:, 1]})


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_data_frames(library):
    X, y = problem()
    expected = cavity.GPRegressor().fit(X, y).predict(X)
    table = frame(library, X)
    fitted = cavity.GPRegressor().fit(table, library.Series(y))
    assert list(fitted.feature_names_in_) == ["height", "weight"]
    np.testing.assert_array_equal(fitted.predict(table), expected)
    with pytest.raises(ValueError, match=r"(?i)feature names"):
        fitted.predict(table[["weight", "height"]])
    with pytest.raises(ValueError, match=r"(?i)feature names"):
        fitted.predict(table.rename({"height": "size"}, **_columns(library)))


def _columns(library):
    return {"axis": 1} if library is pd else {}


def test_frames_of_integers_and_booleans():
    X, y = problem()
    table = pd.DataFrame({"count": (X[:, 0] * 5).astype(int), "yes": X[:, 1] > 0})
    fitted = cavity.GPRegressor().fit(table, y)
    same = cavity.GPRegressor().fit(table.to_numpy(dtype=float), y)
    np.testing.assert_array_equal(fitted.predict(table), same.predict(table.to_numpy(float)))


def test_kernels_name_the_columns_of_a_frame():
    X, y = problem()
    named = cavity.GPRegressor(kernel="rbf[height] + linear[weight]").fit(frame(pd, X), y)
    numbered = cavity.GPRegressor(kernel="rbf[0] + linear[1]").fit(X, y)
    assert named.kernel_.first.dims == (0,)
    np.testing.assert_array_equal(named.predict(frame(pd, X)), numbered.predict(X))
    with pytest.raises(ValueError, match="heigth"):
        cavity.GPRegressor(kernel="rbf[heigth]").fit(frame(pd, X), y)
