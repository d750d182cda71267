"""The section on the approximation: verdicts, numbers in the units of the table, its figure."""

import dataclasses

import numpy as np
import polars as pl
import pytest

import cavity
from cavity import likelihoods
from cavity.persistence.errors import DataError
from cavity.report.examination import examine_table
from tests.report.fitting import fitted_to
from tests.report.test_page import one_input, written  # noqa: F401
from tests.report.test_page_kinds import ripeness


@pytest.mark.slow
def test_the_verdicts_and_the_figure_along_the_input_are_on_the_page(written):  # noqa: F811
    fitted, encoded = fitted_to(one_input(), ["y"], n_inducing=7)
    names, page = written(fitted, encoded)
    assert names[-1] == "point_gains"
    found = examine_table(fitted, encoded)
    assert "Is the approximation good enough?" in page.text
    for sentence in found.sentences:
        assert sentence.replace(" %", "\N{NO-BREAK SPACE}%") in page.text.replace(" %", "\xa0%")
    assert "triangles mark" in page.text
    again = cavity.examine(fitted.posterior.model, encoded.X, encoded.y[:, 0], power=0.5)
    assert found.bracket == again.bracket
    assert found.sentences == again.sentences


def test_evidences_are_of_targets_in_their_own_units():
    fitted, encoded = fitted_to(one_input(), ["y"], n_inducing=7)
    plain = examine_table(fitted, encoded)
    scaled = dataclasses.replace(fitted, output_scale=np.array([250.0]))
    found = examine_table(scaled, dataclasses.replace(encoded, y=encoded.y * 250.0))
    nats = len(encoded.X) * np.log(250.0)
    assert found.bracket.lower == pytest.approx(plain.bracket.lower - nats)
    assert found.noise_alone == pytest.approx(plain.noise_alone - nats)
    assert found.terms.log_evidence == pytest.approx(found.bracket.log_evidence)
    assert found.sentences[0] == plain.sentences[0]


@pytest.mark.slow
def test_several_inputs_have_bars_at_the_numbers_of_rows(written):  # noqa: F811
    table = one_input().with_columns(z=pl.Series(np.cos(np.linspace(0.0, 6.0, 40))))
    fitted, encoded = fitted_to(table, ["y"], n_inducing=4)
    names, page = written(fitted, encoded)
    assert names[-1] == "point_gains"
    found = examine_table(fitted, encoded)
    row = encoded.numbers[found.gains.rows[found.gains.best]]
    assert f"at row {row}, of 40 candidates" in page.text


def test_a_full_gp_has_verdicts_without_a_figure(written):  # noqa: F811
    names, page = written(*fitted_to(one_input(), ["y"]))
    assert "point_gains" not in names
    assert "the function is not approximated" in page.text


@pytest.mark.slow
def test_models_that_cannot_be_examined_have_no_section(written):  # noqa: F811
    three = pl.DataFrame({"x": np.linspace(0.0, 1.0, 30), "y": ["a", "b", "c"] * 10})
    fitted, encoded = fitted_to(three, ["y"], likelihood=likelihoods.Softmax(3))
    _, page = written(fitted, encoded)
    assert "approximation good enough" not in page.text
    with pytest.raises(DataError, match="one latent function, and this model has 3"):
        examine_table(fitted, encoded)
    fitted, encoded = fitted_to(ripeness(), ["y"], likelihood=likelihoods.Bernoulli())
    fitted.record["mcmc"] = {}
    with pytest.raises(DataError, match="draws have no evidence"):
        examine_table(fitted, encoded)
