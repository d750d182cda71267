"""Numbers with marks between thousands and with decimal commas."""

import json

import numpy as np
import polars as pl
import pytest

from cavity.persistence.errors import DataError
from cavity.tables import schema
from cavity.tables.roles import Roles, learn_schema, with_classes


def table(**columns):
    return pl.DataFrame(columns)


WRITTEN = {
    "English": ["1,234.5", "-12", "1,000,000", "0.25"],
    "German": ["1.234,5", "-12", "1.000.000", "0,25"],
    "French": ["1\u202f234,5", "-12", "1 000\u00a0000", "0,25"],
    "Swiss": ["1'234.5", "-12", "1\u2019000'000", "0.25"],
    "commas": ["1234,5", "-12,0", "1000000", ",25"],
}


@pytest.mark.parametrize("cells", WRITTEN.values(), ids=WRITTEN)
@pytest.mark.parametrize("role", ["input", "target", "noise", "exposure"])
def test_numbers_are_read_in_every_role(cells, role):
    cells = [c.replace("-", "") for c in cells] if role in ("noise", "exposure") else cells
    columns = {"c": cells, "x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 2.0, 3.0, 4.0]}
    target = "c" if role == "target" else "y"
    sides = [("c" if role == name else None) for name in ("noise", "exposure")]
    learned = learn_schema(table(**columns), Roles([target], [], *sides))
    assert schema.Schema.from_dict(json.loads(json.dumps(learned.to_dict()))) == learned
    encoded = schema.encode(table(**columns), learned)
    values = {
        "input": encoded.X[:, 0],
        "target": encoded.y[:, 0],
        "noise": encoded.noise,
        "exposure": encoded.exposure,
    }[role]
    expected = np.array([1234.5, -12.0, 1e6, 0.25])
    np.testing.assert_array_equal(
        values, expected if role in ("input", "target") else abs(expected)
    )


def test_new_cells_are_read_as_the_fitted_ones():
    learned = learn_schema(table(c=["1,5", "2,5"], y=[1, 2]), Roles(["y"]))
    new = schema.encode(
        table(c=["1.000,5", "", "7", "NaN"]), learned, need_targets=False, drop_missing=True
    )
    np.testing.assert_array_equal(new.X[:, 0], [1000.5, 7.0])
    assert schema.encode(table(c=[1.5]), learned, need_targets=False).X[0, 0] == 1.5
    with pytest.raises(DataError, match=r"'c', row 2: '1.5' is not a number as .* 1\.234,5"):
        schema.encode(table(c=["1,5", "1.5"]), learned, need_targets=False)


def test_classes_that_are_numbers():
    cells = table(c=["1,5", "2,5", "1,50"], x=[1, 2, 3])
    learned = with_classes(learn_schema(cells, Roles(["c"])), cells)
    assert learned.targets[0].categories == ("1.5", "2.5")
    np.testing.assert_array_equal(schema.encode(cells, learned).y[:, 0], [0, 1, 0])


REFUSED = {
    "thousands or decimals": (
        {"c": ["12", "1,234", "56"]},
        r"'c' holds numbers .* two ways: row 2 \('1,234'\) is 1234 or 1.234; .*--ignore c",
    ),
    "points in a table of decimal commas": (
        {"c": ["1.234", "5.678"], "d": ["0,5", "1,5"]},
        r"'c' holds numbers .* two ways: row 1 \('1.234'\) is 1.234 or 1234",
    ),
    "two conventions": (
        {"c": ["1.5", "2.5", "3.5", "4.5", "1,5"]},
        r"'c', row 5: '1,5' is not a number.*with a point: 1\.5",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_numbers_that_cannot_be_told(name):
    columns, message = REFUSED[name]
    rows = len(columns["c"])
    with pytest.raises(DataError, match=message):
        learn_schema(table(**columns, y=np.arange(float(rows))), Roles(["y"]))


@pytest.mark.parametrize("number", ["0.234", "00.123", "-0.234", "012.345", "0.234.567"])
def test_groups_of_thousands_do_not_begin_with_zero(number):
    """With points between them, and with commas."""
    swapped = number.replace(".", ",")
    commas = learn_schema(table(c=["1,5", "2,5"], y=[1, 2]), Roles(["y"]))
    points = learn_schema(table(c=["1.5", "1,234.5"], y=[1, 2]), Roles(["y"]))
    for learned, cell in ((commas, number), (points, swapped)):
        with pytest.raises(DataError, match=f"'c', row 1: '{cell}' is not a number"):
            schema.encode(table(c=[cell]), learned, need_targets=False)
    zero = schema.encode(table(c=["0,234", "00,5"]), commas, need_targets=False).X[:, 0]
    np.testing.assert_array_equal(zero, [0.234, 0.5])


def test_decimals_below_one_are_read_in_one_way():
    """Decimal points beside a column of decimal commas, and decimal commas alone."""
    cells = table(c=["0.125", "0.250", "0.500"], d=["0,125", "0,250", "0,500"], y=[1, 2, 3])
    encoded = schema.encode(cells, learn_schema(cells, Roles(["y"])))
    np.testing.assert_array_equal(encoded.X, np.array([[1, 1], [2, 2], [4, 4]]) / 8)


def test_plain_points_stay_points():
    """Also in a table of decimal commas, where they cannot stand between thousands."""
    cells = table(c=["1.25", "5.678"], d=["0,5", "1,5"], e=["1.234", "5.678"], y=[1, 2])
    learned = learn_schema(cells, Roles(["y"], ["e"]))
    np.testing.assert_array_equal(schema.encode(cells, learned).X, [[1.25, 0.5], [5.678, 1.5]])
    alone = learn_schema(cells, Roles(["y"], ["c", "d"]))
    assert alone.notations == {}
    np.testing.assert_array_equal(schema.encode(cells, alone).X[:, 0], [1.234, 5.678])


def test_columns_of_many_texts_are_named_together():
    rows = 120
    cells = table(
        name=[f"name {i}" for i in range(rows)],
        city=[f"city {i % 101}" for i in range(rows)],
        price=[f"${i}.00" for i in range(rows)],
        colour=["red", "blue"] * (rows // 2),
        y=np.arange(float(rows)),
    )
    with pytest.raises(DataError) as caught:
        learn_schema(cells, Roles(["y"]))
    message = str(caught.value)
    assert "column 'name' holds a different text in every row of 120 (such as 'name 0')" in message
    assert "column 'city' holds 101 different texts in 120 rows" in message
    assert "--ignore name --ignore city --ignore price" in message
    assert "of 'price': write the numbers alone" in message
    assert "colour" not in message
