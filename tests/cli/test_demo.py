"""`cavity demo`, whole and in small."""

import json

import polars as pl
import pytest

from cavity.cli import demo
from tests.cli.conftest import run


def check(here, done):
    record = done.json
    assert done.code == 0, done.err
    assert sorted(record) == [
        "command",
        "files",
        "folder",
        "results",
        "seconds",
        *("version", "warnings"),
    ]
    keys = ["n_inducing", "name", "nlpd", "power", "rmse", "seconds"]
    assert all(sorted(result) == keys for result in record["results"])
    assert all((here / name).exists() for name in record["files"])
    names = [name.rsplit("/", 1)[1] for name in record["files"]]
    assert names == ["diabetes.csv", "model.cavity", "predictions.csv", "report.html"]
    return record


@pytest.mark.slow
def test_demo_in_small(here, monkeypatch):
    small = [{**c, "n_inducing": 4} for c in demo.CANDIDATES[:2]]
    monkeypatch.setattr(demo, "CANDIDATES", small)
    monkeypatch.setattr(demo, "FOLDS", 2)
    X, y, names = demo.diabetes()
    monkeypatch.setattr(demo, "diabetes", lambda: (X[:40, :3], y[:40], names[:3]))
    record = check(here, run("demo --folder out --json"))
    assert record["folder"] == "out"
    assert pl.read_csv("out/predictions.csv").height == 40


@pytest.mark.slow
def test_demo(here):
    record = check(here, run("demo --json"))
    assert record["folder"] == "cavity-demo"
    powers = [result["power"] for result in record["results"]]
    assert powers == [0.0, 0.5, 1.0, None]
    assert all(result["rmse"] < 65 for result in record["results"])
    json.dumps(record, allow_nan=False)
