"""Text, categories and dates of data frames in estimators, as on the command line."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import cavity
from cavity.estimators.encoding import learn_inputs, numbers_of
from cavity.persistence.errors import DataError

COLOURS = ["red", "blue", "red", "green", "blue", "red"]
CELLS = {"x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "colour": COLOURS}
Y = np.array([0.0, 2.0, 0.5, 1.0, 2.5, 0.2])
HOT = np.array([[c == level for level in ("blue", "green", "red")] for c in COLOURS], float)
EXPECTED = np.column_stack([CELLS["x"], HOT])
FRAMES = {
    "pandas": pd.DataFrame(CELLS),
    "pandas objects": pd.DataFrame(CELLS).astype({"colour": object}),
    "pandas string": pd.DataFrame(CELLS).astype({"colour": "string"}),
    "pandas category": pd.DataFrame(CELLS).astype({"colour": "category"}),
    "polars": pl.DataFrame(CELLS),
    "polars category": pl.DataFrame(CELLS).with_columns(pl.col("colour").cast(pl.Categorical)),
}
ESTIMATORS: list[Any] = [
    cavity.GPRegressor(max_iterations=0),
    cavity.GPClassifier(max_iterations=0),
    cavity.DeepGPRegressor(steps=0, random_state=0),
    cavity.LinearRegressor(prior="gaussian", max_iterations=0),
    cavity.NetworkRegressor(prior="gaussian", hidden=2, max_iterations=0, random_state=0),
]


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_text_becomes_a_column_for_each_category(frame):
    encoder, numbers = learn_inputs(frame)
    assert encoder is not None
    assert list(numbers.columns) == ["x", "colour=blue", "colour=green", "colour=red"]
    np.testing.assert_array_equal(np.asarray(numbers, float), EXPECTED)
    assert encoder.groups == (0, 1, 1, 1)
    np.testing.assert_array_equal(np.asarray(numbers_of(frame[:2], encoder), float), EXPECTED[:2])


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_every_estimator_takes_text(estimator):
    """Fitted to one library and asked in the other."""
    y = np.where(Y > 1.0, "high", "low") if isinstance(estimator, cavity.GPClassifier) else Y
    fitted = clone(estimator).fit(FRAMES["pandas"], y)
    assert fitted.encoder_.names == ("x", "colour")
    assert fitted.feature_names_in_.tolist()[1:] == ["colour=blue", "colour=green", "colour=red"]
    np.testing.assert_array_equal(
        fitted.predict(FRAMES["polars"]), fitted.predict(FRAMES["pandas"])
    )
    numbers = clone(estimator).fit(EXPECTED, y)
    assert numbers.encoder_ is None


def test_one_lengthscale_for_a_column_and_columns_by_name():
    fitted = cavity.GPRegressor(max_iterations=0).fit(FRAMES["pandas"], Y)
    assert fitted.kernel_.groups == (0, 1, 1, 1)
    assert fitted.kernel_.lengthscale.shape == (2,)
    own = cavity.GPRegressor("rbf[colour] + linear[x]", max_iterations=0).fit(FRAMES["polars"], Y)
    assert own.kernel_.first.dims == (1, 2, 3)
    assert own.kernel_.first.kernel.lengthscale.shape == (1,)
    given = cavity.GPRegressor(cavity.kernels.RBF(), max_iterations=0)
    assert given.fit(FRAMES["pandas"], Y).kernel_.groups is None


def test_unknown_categories_are_none_of_the_known_ones():
    encoder, _ = learn_inputs(FRAMES["pandas"])
    new = FRAMES["polars"][:2].with_columns(colour=pl.Series(["red", "pink"]))
    with pytest.warns(UserWarning, match=r"'colour': 1 of 2 rows holds .*\('pink'\)"):
        numbers = numbers_of(new, encoder)
    np.testing.assert_array_equal(np.asarray(numbers, float), [[0, 0, 0, 1], [1, 0, 0, 0]])


def test_refusals_name_cells_and_no_options_of_the_command_line():
    encoder, _ = learn_inputs(FRAMES["pandas"])

    def refusal(X, known=encoder):
        with pytest.raises(DataError) as caught:
            numbers_of(X, known) if known is not None else learn_inputs(X)
        assert "--" not in str(caught.value)
        return str(caught.value)

    missing = pd.DataFrame({"x": [0.0, 1.0], "colour": ["red", None]})
    text = refusal(missing)
    assert text.startswith("column 'colour', row 1 (counted from 0): the cell is missing (1 of 2")
    assert text.endswith("fill them in, or leave such rows out")
    assert "give a data frame with the same columns, x, colour" in refusal(np.zeros((2, 2)))
    wrong = FRAMES["pandas"].astype({"x": str}).assign(x="much")
    assert "row 0 (counted from 0): 'much' is not a number" in refusal(wrong)
    many = pd.DataFrame({"name": [f"n{i}" for i in range(12)]})
    assert "a different text in every row of 12" in refusal(many, None)
    assert "leave it out, or turn it into numbers" in refusal(many, None)
    with pytest.raises(
        DataError, match="'colour' holds text, and the model was fitted to numbers"
    ):
        numbers_of(FRAMES["polars"], None)


@pytest.mark.parametrize("kind", [object, "U4"])
def test_arrays_of_text_are_refused(kind):
    X = np.array([["1", "red"], ["2", "blue"]], dtype=kind)
    with pytest.raises(ValueError, match="array with text, such as 'red': give a data frame"):
        cavity.GPRegressor(max_iterations=0).fit(X, [0.0, 1.0])


def test_truth_values_numbers_and_dates_that_are_text():
    """Read as in a csv file; dates are days since 1970-01-01, as typed ones are."""
    frame = pd.DataFrame(
        {
            "sold": ["true", "false", "true"],
            "price": ["1,5", "2", "3,25"],
            "day": ["2020-01-01", "2020-01-03", "2020-02-08"],
            "typed": [dt.date(2020, 1, 1), dt.date(2020, 1, 3), dt.date(2020, 2, 8)],
            "flag": [True, False, True],
        }
    )
    encoder, numbers = learn_inputs(frame)
    assert encoder is not None
    days = [18_262.0, 18_264.0, 18_300.0]
    expected = np.column_stack([[1, 0, 1], [1.5, 2, 3.25], days, days, [1, 0, 1]])
    np.testing.assert_array_equal(np.asarray(numbers, float), expected)
    assert encoder.groups is None


def test_numbers_pass_as_they_are():
    for X in (EXPECTED, pd.DataFrame(EXPECTED), pl.DataFrame({"x": [1.0]}), [[1.0]]):
        encoder, numbers = learn_inputs(X)
        assert encoder is None
        assert numbers is X


def test_text_in_a_pipeline():
    fitted = make_pipeline(cavity.GPRegressor(max_iterations=0)).fit(FRAMES["pandas"], Y)
    assert fitted.predict(FRAMES["pandas"]).shape == (6,)
