"""Columns by name and kind, and cells as numbers: what is understood, and what is said if not."""

import datetime
import json

import numpy as np
import polars as pl
import pytest

from cavity.persistence.errors import DataError
from cavity.tables import files as tables
from cavity.tables import schema
from cavity.tables.class_labels import class_values
from cavity.tables.roles import Roles, learn_schema, with_classes

CSV = """width,colour,open,y,noise,note
1.5,red,true,10,0.1,a
2,blue,FALSE,20,0.2,b
 3 ,red,true,30,0.3,c
"""


@pytest.fixture
def read(tmp_path):
    def read(content):
        path = tmp_path / "table.csv"
        path.write_text(content)
        return tables.read_table(path)

    return read


@pytest.fixture
def learned(read):
    return learn_schema(read(CSV), Roles(["y"], ["note"], "noise"))


def column(name, cells):
    """A csv's worth of one text column beside a target."""
    return pl.DataFrame({name: cells, "y": [str(float(i)) for i in range(len(cells))]})


def test_kinds_and_names(learned):
    assert [(c.name, c.kind) for c in learned.inputs] == [
        ("width", "numeric"),
        ("colour", "categorical"),
        ("open", "boolean"),
    ]
    assert learned.features == ("width", "colour=blue", "colour=red", "open")
    assert [c.name for c in learned.targets] == ["y"]
    assert (learned.noise_column, learned.ignored) == ("noise", ("note",))


def test_json_round_trip(learned):
    assert schema.Schema.from_dict(json.loads(json.dumps(learned.to_dict()))) == learned


def test_encoding(read, learned):
    encoded = schema.encode(read(CSV), learned)
    expected = [[1.5, 0, 1, 1], [2, 1, 0, 0], [3, 0, 1, 1]]
    np.testing.assert_array_equal(encoded.X, expected)
    np.testing.assert_array_equal(encoded.y, [[10], [20], [30]])
    np.testing.assert_array_equal(encoded.noise, [0.1, 0.2, 0.3])
    assert encoded.X.dtype == encoded.y.dtype == np.float64
    assert encoded.kept.all()
    assert encoded.warnings == ()
    assert encoded.features == learned.features


def test_order_and_extra_columns_make_no_difference(read, learned):
    table = read(CSV)
    other = table.select(reversed(table.columns)).with_columns(pl.lit("?").alias("extra"))
    np.testing.assert_array_equal(schema.encode(other, learned).X, schema.encode(table, learned).X)


def test_csv_and_parquet_agree(read, tmp_path, learned):
    typed = pl.DataFrame(
        {
            "width": [1.5, 2.0, 3.0],
            "colour": pl.Series(["red", "blue", "red"], dtype=pl.Categorical),
            "open": [True, False, True],
            "y": [10, 20, 30],
            "noise": [0.1, 0.2, 0.3],
        }
    )
    typed.write_parquet(tmp_path / "t.parquet")
    table = tables.read_table(tmp_path / "t.parquet")
    assert learn_schema(table, Roles(["y"], [], "noise")).inputs == learned.inputs
    np.testing.assert_array_equal(
        schema.encode(table, learned).X, schema.encode(read(CSV), learned).X
    )


def test_targets_may_be_absent_in_prediction(read, learned):
    table = read(CSV).drop("y")
    assert schema.encode(table, learned, need_targets=False).y is None
    with pytest.raises(DataError, match="no column 'y'"):
        schema.encode(table, learned)


def test_unseen_category_is_all_zeros_and_a_warning(read, learned):
    encoded = schema.encode(read(CSV.replace("blue", "green")), learned)
    np.testing.assert_array_equal(encoded.X[1], [2, 0, 0, 0])
    (warning,) = encoded.warnings
    assert "'colour': 1 of 3 rows" in warning
    assert "'green'" in warning


@pytest.mark.parametrize("cell", ["", "NaN", " "])
def test_missing_cells(read, learned, cell):
    table = read(CSV.replace("20,0.2", f"{cell},0.2"))
    with pytest.raises(DataError, match=r"'y', row 2: the cell is missing \(1 of 3.*drop-missing"):
        schema.encode(table, learned)
    encoded = schema.encode(table, learned, drop_missing=True)
    np.testing.assert_array_equal(encoded.kept, [True, False, True])
    assert encoded.X.shape == (2, 4)
    np.testing.assert_array_equal(encoded.y[:, 0], [10, 30])
    assert schema.encode(table, learned, need_targets=False).kept.all()


@pytest.mark.parametrize("change", [("red,true", ",true"), ("red,true", "red,")])
def test_missing_categories_and_truth_values(read, learned, change):
    table = read(CSV.replace(*change, 1))
    with pytest.raises(DataError, match="row 1: the cell is missing"):
        schema.encode(table, learned)
    assert schema.encode(table, learned, drop_missing=True).kept.tolist() == [False, True, True]


def test_no_row_left(read, learned):
    table = read("width,colour,open,y,noise\n,red,true,1,1\n")
    with pytest.raises(DataError, match="none is left"):
        schema.encode(table, learned, drop_missing=True)


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999"])
def test_infinite_cells(read, learned, cell):
    table = read(CSV.replace("1.5", cell))
    for drop in (False, True):
        with pytest.raises(DataError, match="'width', row 1: the value is infinite"):
            schema.encode(table, learned, drop_missing=drop)


@pytest.mark.parametrize(
    ("cell", "hint"),
    [("12,5", r"decimals with a point: 12\.5"), ("n/a", "leave a missing value empty"), ("x", "")],
)
def test_text_in_a_numeric_column(learned, cell, hint):
    numbers = [str(float(i)) for i in range(9)]
    table = column("width", [*numbers[:4], cell, *numbers[4:]])
    message = rf"'width', row 5: '{cell}' is not a number.*{hint}"
    with pytest.raises(DataError, match=message):
        learn_schema(table, Roles(["y"]))
    one = pl.DataFrame({"width": ["1", cell], "colour": "red", "open": "true", "noise": "1"})
    with pytest.raises(DataError, match=rf"'width', row 2: '{cell}'"):
        schema.encode(one, learned, need_targets=False)


def test_text_in_a_boolean_column(read, learned):
    with pytest.raises(DataError, match="'open', row 1: 'yes' is neither true nor false"):
        schema.encode(read(CSV.replace("true", "yes", 1)), learned)
    assert schema.encode(read(CSV.replace("true", "1", 1)), learned).X[0, 3] == 1.0


def test_half_numeric_text_is_categorical():
    learned = learn_schema(column("size", ["1", "2", "L", "XL", "1", "L"]), Roles(["y"]))
    assert learned.inputs[0].categories == ("1", "2", "L", "XL")


def test_numbers_under_a_categorical_schema():
    learned = learn_schema(column("size", ["1", "2", "L", "XL"]), Roles(["y"]))
    typed = pl.DataFrame({"size": [2, 1]})
    encoded = schema.encode(typed, learned, need_targets=False)
    np.testing.assert_array_equal(encoded.X, [[0, 1, 0, 0], [1, 0, 0, 0]])


def test_unknown_column_and_its_closest(read):
    with pytest.raises(DataError, match=r"no column 'colur' \(did you mean 'colour'\?\); it has:"):
        learn_schema(read(CSV), Roles(["y"], ["colur"]))
    wide = pl.DataFrame({f"x{i}": ["1"] for i in range(30)})
    with pytest.raises(DataError, match="and 10 more"):
        learn_schema(wide, Roles(["zzz"]))


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ((["y"], ["y"]), "'y' is named twice"),
        (([], []), "no target"),
        ((["y"], ["width", "colour", "open", "noise", "note"]), "no input column is left"),
    ],
)
def test_roles_that_cannot_be(read, roles, said):
    with pytest.raises(DataError, match=said):
        learn_schema(read(CSV), Roles(*roles))


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([datetime.timedelta(1), None], "holds durations.*--ignore c"),
        ([None, ""], "empty in every row"),
        ([None, None], "empty in every row"),
        ([[1.0], [2.0]], "type List"),
        ([f"name {i}" for i in range(11)], "a different text in every row"),
        ([f"name {i % 101}" for i in range(300)], "101 different texts"),
    ],
)
def test_columns_that_are_neither_numbers_nor_categories(cells, said):
    with pytest.raises(DataError, match=said):
        learn_schema(column("c", cells), Roles(["y"]))


def test_few_rows_of_different_text_are_categories():
    assert learn_schema(column("c", ["a", "b"]), Roles(["y"])).features == ("c=a", "c=b")


def test_class_targets_become_positions():
    table = pl.DataFrame({"x": ["1", "2", "3"], "y": ["no", "yes", "no"]})
    learned = learn_schema(table, Roles(["y"]))
    assert learned.targets[0].categories == ("no", "yes")
    np.testing.assert_array_equal(schema.encode(table, learned).y[:, 0], [0, 1, 0])
    with pytest.raises(DataError, match=r"row 1: the class 'maybe' was not there.*no, yes"):
        schema.encode(table.with_columns(y=pl.lit("maybe")), learned)


CLASSES = {
    "text": (["no", "yes", "no"], ("no", "yes"), [0, 1, 0]),
    "truth values as text": (["True", "false", "true"], ("false", "true"), [1, 0, 1]),
    "truth values": ([True, False, True], ("false", "true"), [1, 0, 1]),
    "whole numbers as text": (["7", "10", "7.0"], ("7", "10"), [0, 1, 0]),
    "whole numbers": ([10, 7, 7], ("7", "10"), [1, 0, 0]),
    "numbers": ([0.5, -1.0, 0.5], ("-1", "0.5"), [1, 0, 1]),
}


@pytest.mark.parametrize(("cells", "classes", "places"), CLASSES.values(), ids=CLASSES)
def test_targets_of_any_kind_become_classes(cells, classes, places):
    table = pl.DataFrame({"x": ["1", "2", "3"], "y": cells})
    learned = with_classes(learn_schema(table, Roles(["y"])), table)
    assert learned.targets[0].categories == classes
    assert schema.Schema.from_dict(json.loads(json.dumps(learned.to_dict()))) == learned
    np.testing.assert_array_equal(schema.encode(table, learned).y[:, 0], places)
    values = class_values(learned.targets[0].kind, classes)
    assert [values[i] for i in places] == [
        c if kind == "categorical" else _value(c)
        for c, kind in zip(cells, [learned.targets[0].kind] * 3, strict=True)
    ]


def _value(cell):
    return json.loads(cell.lower()) if isinstance(cell, str) else cell


def test_a_number_or_truth_value_that_is_no_class():
    for cells, other, said in (
        ([1, 2], [1, 3], "row 2: the class '3' was not there in fitting; the classes are: 1, 2"),
        (["true"] * 2, [True, False], "row 2: the class 'false' was not there"),
    ):
        table = pl.DataFrame({"x": [1, 2], "y": cells})
        learned = with_classes(learn_schema(table, Roles(["y"])), table)
        with pytest.raises(DataError, match=said):
            schema.encode(table.with_columns(y=pl.Series(other)), learned)


def test_a_missing_class_is_a_missing_cell():
    table = pl.DataFrame({"x": [1, 2, 3], "y": [1.0, None, 2.0]})
    learned = with_classes(learn_schema(table, Roles(["y"])), table)
    with pytest.raises(DataError, match="'y', row 2: the cell is missing"):
        schema.encode(table, learned)
    encoded = schema.encode(table, learned, drop_missing=True)
    np.testing.assert_array_equal(encoded.y[:, 0], [0, 1])
    assert [encoded.table_row(i) for i in range(2)] == [1, 3]


def test_classes_may_be_many():
    """How many a model can tell apart is not the schema's business."""
    cells = [f"name {i}" for i in range(200)]
    table = pl.DataFrame({"x": list(range(200)), "y": cells})
    assert len(learn_schema(table, Roles(["y"])).targets[0].categories) == 200


@pytest.mark.parametrize("value", ["0", "-1"])
def test_noise_variances_are_positive(read, learned, value):
    with pytest.raises(DataError, match=f"'noise', row 2: {value} is not positive"):
        schema.encode(read(CSV.replace("0.2", value)), learned)


def test_exposures(read):
    learned = learn_schema(read(CSV), Roles(["y"], ["note", "colour"], None, "noise"))
    encoded = schema.encode(read(CSV), learned)
    np.testing.assert_array_equal(encoded.exposure, [0.1, 0.2, 0.3])
    assert list(encoded.side) == ["exposure"]
    assert encoded.noise is None
