"""Slices: one column moves, the others stay at typical values."""

import numpy as np
import polars as pl
import pytest

from cavity.report.slices import MOST_LEVELS, slices, typical_inputs
from cavity.tables.roles import Roles, learn_schema
from cavity.tables.schema import encode

TABLE = pl.DataFrame(
    {
        "width": [1.0, 2.0, 3.0, 10.0, 4.0],
        "colour": ["red", "blue", "red", "green", "red"],
        "open": [True, False, True, True, False],
        "same": [5.0, 5.0, 5.0, 5.0, 5.0],
        "y": [0.0, 1.0, 2.0, 3.0, 4.0],
    }
)


@pytest.fixture
def learned():
    schema = learn_schema(TABLE, Roles(["y"]))
    return schema, encode(TABLE, schema).X


def test_typical_inputs(learned):
    # width, colour=blue, green, red, open, same
    np.testing.assert_array_equal(typical_inputs(*learned), [3.0, 0.0, 0.0, 1.0, 1.0, 5.0])


@pytest.mark.slow
def test_unknown_categories_may_be_the_most_frequent(learned):
    schema, X = learned
    X = X.copy()
    X[1:, 1:4] = 0.0
    np.testing.assert_array_equal(typical_inputs(schema, X)[1:4], 0.0)


def test_each_slice_moves_one_column(learned):
    schema, X = learned
    typical = typical_inputs(schema, X)
    width, colour, opened = slices(schema, X, points=7)
    assert [cut.column.name for cut in (width, colour, opened)] == ["width", "colour", "open"]
    assert (width.X.shape, width.places[[0, -1]].tolist()) == ((7, 6), [1.0, 10.0])
    assert colour.levels == ("blue", "green", "red")
    np.testing.assert_array_equal(colour.X[:, 1:4], np.eye(3))
    np.testing.assert_array_equal(opened.X[:, 4], [0.0, 1.0])
    for cut, block in ((width, [0]), (colour, [1, 2, 3]), (opened, [4])):
        others = np.delete(np.arange(6), block)
        np.testing.assert_array_equal(cut.X[:, others], np.tile(typical[others], (len(cut.X), 1)))


def test_a_constant_column_has_no_slice(learned):
    schema, X = learned
    assert slices(schema, X[:1], points=5) == []


def test_wild_values_among_many_do_not_stretch_a_slice():
    values = np.append(np.linspace(0.0, 1.0, 400), 1e9)
    table = pl.DataFrame({"x": values, "rare": np.append(np.zeros(400), 1.0), "y": values})
    schema = learn_schema(table, Roles(["y"]))
    x, rare = slices(schema, encode(table, schema).X, points=5)
    assert x.places[-1] < 2.0
    assert rare.places[[0, -1]].tolist() == [0.0, 1.0]


def test_many_categories_are_cut_to_the_frequent_ones():
    names = [f"c{i:02}" for i in range(30)] + ["c29", "c28"]
    table = pl.DataFrame({"colour": names, "y": np.arange(32.0)})
    schema = learn_schema(table, Roles(["y"]))
    (cut,) = slices(schema, encode(table, schema).X, points=5)
    assert len(cut.levels) == MOST_LEVELS
    assert {"c28", "c29"} <= set(cut.levels)
