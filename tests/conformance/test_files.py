"""Estimators of every family in files: what `save` writes, `cavity.load` gives back."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import cavity
from cavity.cli.opened import opened
from cavity.families.base import loaded
from cavity.families.table import FAMILIES
from cavity.persistence.errors import DataError, StorageError
from cavity.tables.class_labels import class_column
from cavity.tables.files import read_table
from cavity.tables.schema import encode

RNG = np.random.default_rng(0)
N = 40
X = RNG.standard_normal((N, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(N)
FRAME = pd.DataFrame(
    {"size": X[:, 0], "colour": np.where(X[:, 1] > 0, "red", "blue"), "day": X[:, 1]}
).assign(day=pd.date_range("2020-01-01", periods=N))
LABELS = np.where(Y > 0, "yes", "no")
SHORT = {"max_iterations": 3, "random_state": 0}
DEEP = {"steps": 2, "n_inducing": 6, "random_state": 0}
SERIES = pd.Series(
    np.sin(np.arange(30) / 3), pd.date_range("2020-01-01", periods=30, freq="D"), name="level"
)
IMAGES = RNG.random((20, 5, 5))
# By family and task: settings, and the arguments of fit; the first of rows are predicted.
# The files of `kept` were fitted to these, so that they stay as they are.
EXAMPLES = {
    ("gp", "regression"): (SHORT, (FRAME, pd.Series(Y, name="height"))),
    ("gp", "classification"): (SHORT, (FRAME, LABELS)),
    ("deep", "regression"): (DEEP, (FRAME, Y)),
    ("deep", "classification"): (DEEP, (X, LABELS)),
    ("linear", "regression"): ({"max_iterations": 3}, (FRAME, Y)),
    ("linear", "classification"): ({"max_iterations": 3}, (X, np.digitize(Y, [-0.4, 0.4]))),
    ("network", "regression"): (SHORT | {"hidden": 2}, (FRAME, Y)),
    ("network", "classification"): (SHORT | {"hidden": 2}, (X, Y > 0)),
    ("image-shape", "classification"): (
        SHORT | {"kernel": "conv3", "n_inducing": 6, "parts": "position"},
        (IMAGES, (IMAGES[:, 0].mean(axis=1) > 0.5).astype(int)),
    ),
    ("latent", "embedding"): (
        SHORT | {"n_inducing": 6, "n_components": 1},
        (pd.DataFrame({"a": Y, "b": Y**2, "c": X[:, 1]}),),
    ),
    ("state-space", "forecast"): (SHORT | {"n_inducing": 6, "n_states": 1}, (SERIES,)),
}
COSTLY = {key for key in EXAMPLES if key[0] in ("deep", "network", "image-shape")}
COSTLY |= {("gp", "classification"), ("linear", "regression")}
KEYS = [(family, task) for family in FAMILIES for task in family.estimators]


def key_of(key):
    """A family and a task by the words by which files know them."""
    family, task = key
    return (family.word, task)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(key, marks=[pytest.mark.slow] if key_of(key) in COSTLY else [])
        for key in KEYS
    ],
    ids=lambda key: " ".join(key_of(key)),
)
def saved(request, tmp_path_factory):
    """A fitted estimator, the data of its fit, and its file."""
    family, task = request.param
    settings, data = EXAMPLES[key_of(request.param)]
    path = tmp_path_factory.mktemp("files") / "model.cavity"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator = loaded(family.estimators[task])(**settings).fit(*data)
    estimator.save(path)
    return estimator, data, path


def predicted(estimator, data):
    """Predictions of an estimator of any family."""
    if hasattr(estimator, "transform"):
        return np.hstack(estimator.transform(data[0], return_std=True))
    if hasattr(estimator, "predict_interval"):
        return estimator.predict_interval([1, 4])
    found = estimator.log_predictive_density(*data)
    return np.column_stack([found, estimator.predict(data[0]) == data[1]])


def plain_attributes(estimator):
    """Fitted attributes that are numbers, texts, arrays or None."""
    plain = (int, float, str, bool, np.ndarray, type(None))
    return {k: v for k, v in vars(estimator).items() if isinstance(v, plain)}


def test_every_family_has_an_example():
    assert {key_of(key) for key in KEYS} == {*EXAMPLES}


def test_an_estimator_comes_back(saved):
    """Class, settings, fitted attributes and predictions, to the last bit; and the file again."""
    estimator, data, path = saved
    found = cavity.load(path)
    assert type(found) is type(estimator)
    assert repr(found) == repr(estimator)
    assert set(vars(found)) == set(vars(estimator))
    for name, value in plain_attributes(estimator).items():
        np.testing.assert_array_equal(getattr(found, name), value, err_msg=name)
    np.testing.assert_array_equal(predicted(found, data), predicted(estimator, data))
    again = path.with_name("again.cavity")
    found.save(again)
    assert again.read_bytes() == path.read_bytes()


def test_the_commands_read_it(saved):
    """Contents for commands, in words: what was fitted, to which columns."""
    estimator, data, path = saved
    found = opened(str(path), "show")
    assert found.family is estimator.family
    assert "log evidence" in found.in_words
    columns = [*getattr(data[0], "columns", [])]
    schema = found.model.schema
    assert [c.name for c in (*schema.inputs, *schema.targets)][: len(columns)] == columns


@pytest.mark.slow
def test_a_page_in_one_line(saved):
    """`estimator.report` gives the figures that `cavity report` draws."""
    estimator, data, path = saved
    page = path.with_name("page.html")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a series, that nothing follows it
        figures = estimator.report(page, *data)
    text = page.read_text()
    assert len(figures) > 1
    assert text.count("data:image/svg+xml") == len(figures)


def test_what_files_do_not_hold(tmp_path):
    path = tmp_path / "model.cavity"
    estimator = cavity.GPRegressor()
    with pytest.raises(NotFittedError):
        estimator.save(path)
    cavity.fitting.save_module(path, cavity.kernels.RBF(2.0), {})
    with pytest.raises(StorageError, match="holds a model without its estimator"):
        cavity.load(path)


# ------------------------------------------------------------------------- special data


def quick(estimator=cavity.GPRegressor, **settings):
    return estimator(**{"max_iterations": 1, "n_inducing": None} | settings)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.cavity"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_tables_of_text_are_read_as_the_frame_was(path):
    """Dates and truth values of a frame are text in a csv file, and typed in a parquet file."""
    frame = pl.DataFrame(
        {"x": X[:, 0], "on": X[:, 1] > 0, "day": pd.date_range("2024-01-01", periods=N).to_numpy()}
    )
    estimator = quick().fit(frame, Y)
    estimator.save(path)
    schema = opened(str(path), "predict").model.schema
    assert [c.kind for c in schema.inputs] == ["numeric", "boolean", "numeric"]
    assert schema.dates["day"].since == "days since 1970-01-01"
    expected = estimator.predict(frame)
    for ending in ("csv", "parquet"):
        table = path.with_suffix(f".{ending}")
        getattr(frame, f"write_{ending}")(table)
        encoded = encode(read_table(str(table)), schema, need_targets=False)
        numbers = pd.DataFrame(encoded.X, columns=frame.columns)
        np.testing.assert_array_equal(estimator.predict(numbers), expected)
        assert encoded.noticed.record == {"outside": {}}
    assert cavity.load(path).encoder_ is None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "labels",
    [
        np.array(["u", "v"], object),
        np.array([0, 1], np.int32),
        np.array([1.0, 2.0]),
        np.array([2**53 + 1, 2**53 + 3]),
        np.array([False, True]),
    ],
    ids=lambda labels: f"{labels.dtype} {labels[0]}",
)
def test_labels_keep_their_type(path, labels):
    estimator = quick(cavity.GPClassifier).fit(X[:9], labels[(Y[:9] > 0).astype(int)])
    estimator.save(path)
    found = cavity.load(path).classes_
    assert found.dtype == labels.dtype
    np.testing.assert_array_equal(found, labels)


def test_labels_that_no_table_holds(path):
    days = np.array(["2024-01-01", "2024-01-02"], "M8[D]").astype(object)
    with pytest.raises(StorageError, match="labels that are text, truth values or numbers"):
        class_column("day", days)


class Mine(cavity.kernels.RBF):
    """A kernel of one's own."""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parts_of_ones_own(path):
    """They are settings of what is loaded too, and refused without the name of their class."""
    estimator = quick(kernel=Mine()).fit(X[:9], Y[:9])
    estimator.save(path, classes={"Mine": Mine})
    found = cavity.load(path, classes={"Mine": Mine})
    assert type(found.kernel) is type(found.kernel_) is Mine
    with pytest.raises(StorageError, match="pass classes="):
        cavity.load(path)
    with (
        pytest.raises(StorageError, match="kernel is a Mine"),
        pytest.warns(UserWarning, match="cannot hold the setting kernel"),
    ):
        estimator.save(path)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_are_found_by_name(path):
    frame = pd.DataFrame({"x": X[:9, 0], "colour": ["red", "blue", "red"] * 3})
    estimator = quick().fit(frame, Y[:9])
    estimator.save(path)
    found, other = cavity.load(path), frame[["colour", "x"]].assign(more=1.0)
    np.testing.assert_array_equal(found.predict(other), estimator.predict(frame))
    with pytest.raises(DataError, match="and this one has no 'colour'"):
        found.predict(frame[["x"]])
