"""`cavity plot`: one picture of a model file."""

import xml.etree.ElementTree as ElementTree

import pytest

from cavity.plots.kinds import KINDS
from tests.cli.conftest import run


def texts(path):
    """The texts in a picture."""
    root = ElementTree.parse(path).getroot()
    return [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]


def test_slices_of_a_model_on_a_table(here, model, tables):
    table = tables / "test.csv"
    done = run("plot", model, "slices", table, "--column", "height", "--out", "s.svg", "--json")
    assert done.code == 0, done.err
    assert done.json["kind"] == "slices"
    assert done.json["out"] == "s.svg"
    assert {"height", "weight", "90 % of new values"} <= set(texts("s.svg"))
    assert "smoker" not in texts("s.svg")


def test_what_needs_targets_takes_them_from_the_table(here, model, tables):
    done = run("plot", model, "residuals", tables / "test.csv", "--out", "r.png")
    assert done.code == 0, done.err
    assert (here / "r.png").read_bytes()[:4] == b"\x89PNG"


def test_evidence_needs_no_table(here, model):
    assert run("plot", model, "evidence", "--out", "e.svg").code == 0
    assert "iteration" in texts("e.svg")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["pie", "--out", "s.svg"], "there is no picture 'pie'; there are function, slices"),
        (["evidence", "--out", "s.txt"], "must end in .svg, .png or .pdf"),
        (["evidence", "--out", "s.svg", "--steps", "3"], "it is for forecast: leave it out"),
        (["evidence", "--out", "s.svg", "--column", "a"], "it is for slices, partial-effects"),
    ],
)
def test_what_is_typed_wrongly_is_a_usage_error(here, options, said):
    done = run("plot", "none.cavity", *options)
    assert done.code == 2
    assert said in done.err
    assert not [*here.iterdir()]


@pytest.mark.parametrize(
    ("kind", "said"),
    [("slices", "needs X"), ("forecast", "for time series"), ("function", "of one column")],
)
def test_a_picture_that_there_is_not_is_an_error(here, model, kind, said):
    done = run("plot", model, kind, "--out", "s.svg", "--json")
    assert done.code == 1
    assert said in done.json["error"]["message"]
    assert not (here / "s.svg").exists()


def test_a_picture_does_not_take_the_place_of_what_is_read(here, model):
    assert run("plot", model, "evidence", "--out", model).code == 2


def test_the_help_names_every_kind():
    said = "".join(run("plot", "--help").out.split())
    assert all(name.replace("_", "-") in said for name in KINDS)
