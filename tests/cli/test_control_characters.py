r"""What stands in tables and files never moves a terminal's cursor: it is shown as `\x1b`."""

import numpy as np
import polars as pl
import pytest

from tests.cli.conftest import run

RED = "\x1b[31mred\x1b]0;title\x07"
LONG = "x" * 1_000_000


def write(name, *, column="weight", cells=()):
    n = 12
    numbers = pl.Series(column, [*map(str, np.arange(n))])
    values = [*cells, *["a", "b"] * n][:n]
    pl.DataFrame({"height": np.arange(n) / n, "kind": values, column: numbers}).write_csv(name)


def quiet(done):
    """No control characters, and nothing long."""
    said = done.out + done.err
    assert not [letter for letter in said if not letter.isprintable() and letter != "\n"]
    assert len(said) < 20_000
    return said


@pytest.mark.parametrize("cell", [RED, LONG, "\u202eevil", "\x9b2J"])
def test_cells_and_names_of_tables(here, model, cell):
    """Of a target that is a number, of an input of the fit, and of columns."""
    write("t.csv", column=cell)
    fitted = run("fit", "t.csv", "--target", cell, "--out", "m.cavity", "--max-iterations", 1)
    assert fitted.code == 0
    for command in (("show", "m.cavity"), ("evaluate", "m.cavity", "t.csv")):
        done = run(*command)
        assert done.code == 0
        if len(cell) < 100:
            quiet(done)
    write("other.csv", cells=[cell])
    new = run("evaluate", "m.cavity", "other.csv")
    assert new.code == 1
    assert "has no column" in quiet(new)
    pl.read_csv("t.csv").with_columns(kind=pl.lit(cell)).write_csv("new.csv")
    unseen = run("evaluate", "m.cavity", "new.csv")
    assert unseen.code == 0
    assert "not there in fitting" in quiet(unseen)
    pl.DataFrame(
        {"height": [cell], "smoker": [True], "colour": ["red"], "weight": [1.0]}
    ).write_csv("cell.csv")
    wrong = run("evaluate", model, "cell.csv", "--json")
    assert wrong.code == 1
    assert "is not a number" in quiet(wrong)
    assert "row 1" in wrong.json["error"]["message"]


def test_escapes_say_what_was_there(here, model):
    pl.DataFrame(
        {"height": [RED], "smoker": [True], "colour": ["red"], "weight": [1.0]}
    ).write_csv("t.csv")
    done = run("evaluate", model, "t.csv")
    assert r"'\x1b[31mred\x1b]0;title\x07' is not a number" in done.err
