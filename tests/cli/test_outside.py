"""Rows outside the range of the fit are counted and told of, by the commands that use a model."""

import numpy as np
import polars as pl

from cavity.persistence import model_file as storage
from tests.cli.conftest import run

FIT = "fit train.csv --target y --out m.cavity --max-iterations 1"


def days(start, n, seed):
    """A table of n days from a start on, in no order."""
    random = np.random.default_rng(seed)
    day = np.datetime64("2024-01-01") + start + random.permutation(n)
    frame = {"date": day, "x": random.standard_normal(n), "kind": random.choice(["a", "b"], n)}
    return pl.DataFrame(frame | {"y": random.standard_normal(n)})


def test_later_dates_are_told_of(here):
    days(0, 40, 0).write_csv("train.csv")
    days(30, 20, 1).write_csv("later.csv")
    assert run(FIT).code == 0
    done = run("evaluate m.cavity later.csv --json").json
    assert done["outside"]["date"] == 10
    (warning,) = done["warnings"]
    assert "10 of 20 rows lie outside the range of the fit in 'date'" in warning
    said = run("predict m.cavity later.csv --out p.csv").err
    assert "warning: later.csv: 10 of 20 rows lie outside the range of the fit in 'date'" in said
    assert run("report m.cavity later.csv --out r.html --json").json["outside"]["date"] == 10
    assert "10 of 20 rows lie outside the range" in (here / "r.html").read_text()
    again = run("evaluate m.cavity train.csv --json").json
    assert (again["outside"], again["warnings"]) == ({}, [])
    # in parts the same is said once, of the whole table
    parts = run("evaluate m.cavity later.csv --batch-rows 7 --json").json
    assert (parts["outside"], parts["warnings"]) == (done["outside"], done["warnings"])


def test_files_of_before_have_no_ranges_and_no_word(here):
    days(0, 40, 0).write_csv("train.csv")
    days(100, 20, 1).write_csv("later.csv")
    assert run(FIT).code == 0
    posterior, about = storage.load_module("m.cavity")
    assert set(about["schema"].pop("ranges")) == {"date", "x"}
    storage.save_module("m.cavity", posterior, about)
    done = run("evaluate m.cavity later.csv --json").json
    assert "outside" not in done
    assert done["warnings"] == []


def test_ranges_grow_with_updates(here):
    days(0, 40, 0).write_csv("train.csv")
    days(30, 20, 1).write_csv("later.csv")
    assert run(f"{FIT} --inducing 5").code == 0
    done = run("update m.cavity later.csv --out n.cavity --max-iterations 1")
    assert done.code == 0
    assert "outside" not in done.err
    assert run("evaluate n.cavity later.csv --json").json["outside"] == {}
