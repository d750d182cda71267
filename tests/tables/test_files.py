"""Tables on disk: what can be read, what is said of what cannot, and files that appear whole."""

import os
import resource

import numpy as np
import pandas as pd
import polars as pl
import pytest

from cavity.persistence.errors import DataError
from cavity.tables import files as tables
from cavity.tables.batched import WholeTable, long_table


@pytest.fixture
def write(tmp_path):
    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refusal(path, kind):
    with pytest.raises(DataError) as caught:
        tables.read_table(path)
    assert caught.value.kind == kind
    return str(caught.value)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "content",
    ["a,b\n1,x\n2,y\n", "a,b\r\n1,x\r\n2,y", "\ufeffa,b\n1,x\n2,y\n\n\n", ' a, b\n1,"x"\n2,y\n'],
    ids=["plain", "windows", "mark and blank lines", "blanks and quotes"],
)
def test_csv_dialects(write, content):
    table = tables.read_table(write(content))
    assert table.columns == ["a", "b"]
    assert table.rows() == [("1", "x"), ("2", "y")]


def test_parquet_keeps_its_types(tmp_path):
    frame = pl.DataFrame({"a": [1.5, None], "b": [True, False]})
    frame.write_parquet(tmp_path / "t.PARQUET")
    assert tables.read_table(tmp_path / "t.PARQUET").equals(frame)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_marks_between_cells(write, mark):
    content = mark.join(["a", '"b, b"', "c"]) + "\n" + mark.join(["1", '"2,5"', "3"])
    assert tables.read_table(write(content)).columns == ["a", "b, b", "c"]
    assert tables.read_table(write(content)).rows() == [("1", "2,5", "3")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,b\n", "no rows below its header"),
        ("a,b,a\n1,2,3\n", "two columns named 'a'"),
        ("a,,b\n1,2,3\n", "column 2 has no name"),
        ('""\n1\n', "column 1 has no name"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 cells, the header 2"),
        (b"a,b\nm\xfcnchen,2\n", "byte 6 is not UTF-8"),
        (b"\x00\xff\xfe\x81\x00garbage", "not UTF-8"),
    ],
)
def test_csv_that_is_no_table(write, content, said):
    assert said in refusal(write(content), "data")


def test_unclosed_quote(write):
    assert "cannot be read as csv" in refusal(write('a,b\n1,"x\n2,y\n'), "data")


def test_paths_that_cannot_be_read(tmp_path, write):
    assert "no such file" in refusal(tmp_path / "none.csv", "io")
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in refusal(tmp_path / "folder.csv", "io")
    assert "ends in '.xlsx'; a table is a .csv or a .parquet" in refusal(
        write("a\n1\n", "t.xlsx"), "data"
    )
    assert "has no ending" in refusal(write("a\n1\n", "table"), "data")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(write):
    path = write("a\n1\n")
    path.chmod(0)
    assert "permission denied" in refusal(path, "io")


def test_damaged_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": np.arange(20.0), "b": ["x"] * 20}).write_parquet(path)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"a,b\n1,2\n"):
        path.write_bytes(damaged)
        assert "not a whole parquet file" in refusal(path, "data")


def test_predictions_round_trip(tmp_path):
    columns = {
        "mean": np.array([1 / 3, np.nan, 1e-300]),
        "std": np.array([0.5, np.nan, np.inf]),
        "label": ["red", None, "a,b"],
    }
    for name in ("out.csv", "out.parquet"):
        tables.write_predictions(tmp_path / name, columns)
    typed = pl.read_parquet(tmp_path / "out.parquet")
    assert typed["mean"].to_list() == [1 / 3, None, 1e-300]
    assert typed["label"].to_list() == ["red", None, "a,b"]
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "mean,std,label"
    assert lines[2] == ",,"
    assert float(lines[1].split(",")[0]) == 1 / 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "out.parquet"]


def test_outputs_that_cannot_be_written(tmp_path):
    cases = {
        tmp_path / "none" / "out.csv": "there is no folder",
        tmp_path: "ending",
        tmp_path / "out.txt": "ends in '.txt'",
    }
    for path, said in cases.items():
        with pytest.raises(DataError, match=said):
            tables.check_output(path)
        with pytest.raises(DataError, match=said):
            tables.write_predictions(path, {"mean": [1.0]})
    with pytest.raises(DataError, match="one length"):
        tables.write_predictions(tmp_path / "out.csv", {"mean": [1.0], "std": [1.0, 2.0]})


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    tables.write_predictions(path, {"mean": [1.0]})

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match="no space left") as caught:
        tables.write_predictions(path, {"mean": [2.0]})
    assert caught.value.kind == "io"
    assert path.read_text() == "mean\n1.0\n"
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def written(parts, path):
    with tables.predictions_file(path) as add:
        for part in parts:
            add({"mean": part})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("parts", [1, 3])
def test_a_disk_that_fills_up(tmp_path, ending, parts):
    """Files of this process may not grow beyond some bytes, as if there were no more room."""
    path = tmp_path / f"out.{ending}"
    tables.write_predictions(path, {"mean": [1.0]})
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    rows = np.random.default_rng(0).random(10_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, limits[1]))
    try:
        with pytest.raises(DataError, match=r"cannot write .*ile too large") as caught:
            written([*np.split(rows[: 100 * parts], parts), rows], path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.kind == "io"
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_headers_of_any_length(write):
    """Reading 192 kB of names as one cell, for another mark, is refused by Python's csv reader."""
    for count, mark in ((12_000, ","), (100_000, ";")):
        names = [f"ENSG{i:011d}" for i in range(count)]
        path = write(mark.join(names) + "\n" + mark.join("1" * count) + "\n")
        with path.open("rb") as file:
            assert tables.csv_header(path, file) == (names, mark)
    assert tables.read_table(write(f"{'a' * 200_000},b\n1,2\n")).width == 2
    long = write(f"a,b\n1,2\n{'x' * 200_000},2\n1,2,3\n")
    assert "line 4 has 3 cells, the header 2" in refusal(long, "data")


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("rate (a;b;c;d),y\n1,2\n3,4\n", ["rate (a;b;c;d)", "y"]),
        ("x, y, z;w\n1,5;2\n", ["x, y, z", "w"]),
        ("a;b,c\n1,5;2,5\n", ["a", "b,c"]),
        ("a\tb;c;d\n1\t2\n", ["a", "b;c;d"]),
        ('"a;b;c",d\n"x;y",1\n', ["a;b;c", "d"]),
        ("a;b,c,d\n", None),
        ("alone\n1\n", ["alone"]),
    ],
)
def test_the_separator_splits_the_rows_too(write, content, columns):
    if columns is None:
        assert "no rows" in refusal(write(content), "data")
    else:
        assert tables.read_table(write(content)).columns == columns


@pytest.mark.parametrize("rows", [None, 2])
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_the_index_of_a_data_frame_is_no_column(tmp_path, name, rows):
    frame = pd.DataFrame({"b": [1, 2, 3], "c": [4, 5, 6]}, index=[7, 9, 8])
    if name == "t.csv":
        frame.to_csv(tmp_path / name)
    else:  # as pandas names an index that has no name
        index = pl.Series("__index_level_0__", frame.index.to_numpy())
        pl.DataFrame(frame).with_columns(index).write_parquet(tmp_path / name)
    path = tmp_path / name
    table = WholeTable(str(path)) if rows is None else long_table(path, rows)
    parts = [part for _, part in table.parts()]
    found = pl.concat(parts).cast(pl.Int64)
    assert found.columns == ["b", "c"]
    assert found["b"].to_list() == [1, 2, 3]
    assert long_table(tmp_path / name, 2).index
