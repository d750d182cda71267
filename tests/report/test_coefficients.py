"""Coefficients of linear models on the report's page."""

import dataclasses

import numpy as np
import polars as pl
import pytest

import cavity
from cavity.numerics.tree import to_numpy
from cavity.report.coefficients import coefficient_section
from cavity.report.sections import Paragraph, Table, figure_names, number
from cavity.tables.coefficients import model_coefficients
from cavity.tables.schema import encode
from tests.report.fitting import fitted_to
from tests.report.test_page import written  # noqa: F401


@pytest.fixture(scope="module")
def linear():
    """A linear model of a table with a category, at fixed parameters, and the table."""
    rng = np.random.default_rng(0)
    kind = rng.choice(["a", "b", "c"], 30)
    x, z = rng.standard_normal((2, 30))
    y = 3.0 * x + 2.0 * (kind == "b") + 0.3 * rng.standard_normal(30)
    fitted, encoded = fitted_to(pl.DataFrame({"x": x, "kind": kind, "z": z, "y": y}), ["y"])
    scale = encoded.X.std(axis=0)
    prior = cavity.weights.SpikeSlab(np.array([0.5, 0.4]), 1.0)
    model = cavity.LinearModel(
        prior, cavity.likelihoods.Gaussian(0.1), groups=[0, 1, 1, 1, 0], scale=scale
    )
    assert encoded.y is not None
    result = cavity.infer(model, encoded.X, encoded.y[:, 0], power=1.0)
    record = fitted.record | {"prior": "spike_slab", "power": 1.0}
    record |= {"parameters": {"prior.share": [0.5, 0.4], "likelihood.variance": 0.1}}
    posterior = to_numpy(result.posterior)
    return dataclasses.replace(fitted, posterior=posterior, record=record), encoded


@pytest.mark.slow
def test_the_page_has_table_and_picture(linear, written):  # noqa: F811
    fitted, encoded = linear
    names, page = written(fitted, encoded)
    assert names[-1] == "coefficients"
    assert "relevance" not in names
    assert "Linear regression" in page.text
    assert "prior of the coefficients spike_slab" in page.text
    assert "inducing" not in page.text
    assert "kernel" not in page.text
    assert "prior.share kind 0.4" in page.text
    table = model_coefficients(fitted)
    low, high = number(float(table["lower"][0])), number(float(table["upper"][0]))
    assert f"x {number(float(table['mean'][0]))} {low} to {high}" in page.text
    picture = next(image["alt"] for image in page.all("img") if "Coefficients" in image["alt"])
    assert "the largest: x, kind=b" in picture
    assert "Leave-one-out densities" in page.text


def test_the_largest_per_deviation_come_first(linear):
    fitted, encoded = linear
    section = coefficient_section(fitted)
    assert section is not None
    table = model_coefficients(fitted)
    effect = np.abs(table["mean"]) * encoded.X.std(axis=0)
    order = [str(table["column"][i]) for i in np.argsort(-effect, kind="stable")]
    text, listed, _ = section.parts
    assert isinstance(text, Paragraph)
    assert isinstance(listed, Table)
    assert [row[0] for row in listed.rows] == order
    chosen = {row[0] for row in listed.rows if row[-1] == "yes"}
    assert chosen == set(table["column"][table["selected"]])
    assert f"{len(chosen)} of 5 coefficients" in str(text.words)
    assert figure_names([section]) == ["coefficients"]


def test_a_table_without_targets_has_them_too(linear, written):  # noqa: F811
    fitted, _ = linear
    table = pl.DataFrame({"x": [0.0, 1.0], "kind": ["a", "b"], "z": [1.0, 2.0]})
    names, _ = written(fitted, encode(table, fitted.schema, need_targets=False))
    assert names == ["slices", "coefficients"]


def test_other_models_have_none():
    fitted, _ = fitted_to(pl.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]}), ["y"])
    assert coefficient_section(fitted) is None
