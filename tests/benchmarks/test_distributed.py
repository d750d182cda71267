"""Identities of fits over parts: what is not the same is counted, and told by the exit code."""

import sys

import numpy as np
import pytest
from benchmarks import results
from benchmarks.distributed import __main__ as distributed
from benchmarks.distributed import errors
from benchmarks.distributed.errors import Said


def test_numbers_with_other_bits_are_counted():
    a = {"x": np.array([0.0, 1.0, np.nan]), "n": 3.0}
    assert errors.differing(a, {"x": a["x"].copy(), "n": 3.0}) == 0
    other = {"x": np.array([-0.0, np.nextafter(1.0, 2.0), np.nan]), "n": 3}
    assert errors.differing(a, other) == 3
    assert errors.differing(a, a | {"x": np.zeros(2)}) == 3


def test_errors_are_relative_to_the_largest_number():
    assert errors.relative([1.0, 200.0], [0.0, 200.0]) == pytest.approx(1 / 200)
    assert errors.relative(0.0, 0.0) == 0.0
    assert np.isnan(errors.relative([np.nan, 1.0], [1.0, 1.0]))
    assert np.isnan(errors.relative([1.0], [1.0, 2.0]))


@pytest.mark.parametrize(("error", "code"), [(1e-9, 0), (2e-8, 1), (np.nan, 1)])
def test_an_identity_that_fails_is_told(monkeypatch, tmp_path, error, code):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    table = results.Table("found.csv", errors.TABLE.keys)
    monkeypatch.setattr(errors, "TABLE", table)
    said = [Said("evidence", "probit", 0.5, 1, error, 1e-8)]
    monkeypatch.setattr(distributed, "IDENTITIES", {"exact": lambda: said})
    monkeypatch.setattr(sys, "argv", ["distributed", "--identities"])
    assert distributed.main() == code
    assert table.rows()[0]["holds"] == str(code == 0)
