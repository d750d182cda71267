"""Model files of earlier versions load, and predict what they did."""

from pathlib import Path

import numpy as np
import pytest

import cavity
from cavity.cli.opened import opened
from tests.conformance.test_files import COSTLY, EXAMPLES, predicted

KEPT = Path(__file__).parent / "kept"
LARGEST = 200_000  # bytes


@pytest.mark.parametrize(
    "key",
    [pytest.param(key, marks=[pytest.mark.slow] if key in COSTLY else []) for key in EXAMPLES],
    ids=" ".join,
)
def test_a_file_that_was_written_once_predicts_what_it_did(key):
    path = KEPT / f"{'-'.join(key)}.cavity"
    estimator = cavity.load(path)
    known = np.loadtxt(path.with_suffix(".csv"), ndmin=2)
    found = np.atleast_2d(predicted(estimator, EXAMPLES[key][1]))
    np.testing.assert_allclose(found, known, rtol=1e-7, atol=1e-9)
    assert estimator.family.word == key[0]
    assert "log evidence" in opened(str(path), "show").in_words


def test_every_family_has_a_file():
    assert {path.stem for path in KEPT.glob("*.cavity")} == {"-".join(key) for key in EXAMPLES}
    assert all(path.stat().st_size < LARGEST for path in KEPT.iterdir() if path.is_file())
