"""Every family and method gives what it gave, at given sites and after sweeps."""

import json

import numpy as np
import pytest

from tests.recorded import commands
from tests.recorded.cases import CASES
from tests.recorded.evaluation import after_inference, at_sites, recorded

# Shares of the sum of absolute terms by which energies may differ; and of the largest entry, for
# gradients and marginals at given sites, and for all that sweeps find to a tolerance.
ENERGY, AT_SITES, SWEPT = 1e-12, 1e-9, 1e-7

RECORDED = recorded()


def close(found, expected, share, unit=None):
    unit = np.max(np.abs(expected), initial=1e-3) if unit is None else unit
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=share * unit)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_what_was_is(name):
    case, was = CASES[name](), RECORDED[name]
    leaves = [was[f"sites {i}"] for i in range(sum(key.startswith("sites ") for key in was))]
    found = at_sites(case, leaves)
    close(found["energy"], was["energy"], ENERGY, was["size"])
    at = {key for key in was if key.startswith("gradient of ")} | {"mean", "variance"}
    assert {key for key in found if key.startswith("gradient of ")} == at - {"mean", "variance"}
    for key in sorted(at):
        close(found[key], was[key], AT_SITES)
    again = after_inference(case)
    for key in ("evidence", "mean after sweeps", "variance after sweeps"):
        assert (key in was) == (key in again)
        if key in was:
            close(again[key], was[key], SWEPT)


@pytest.mark.slow
def test_what_commands_print_is_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, expected = commands.ran(tmp_path), json.loads(commands.FILE.read_text())
    assert list(found) == list(expected)
    for name, was in expected.items():
        assert found[name]["code"] == was["code"], name
        for part in ("text", "said", "record"):
            pair = (json.dumps(each[part], sort_keys=True) for each in (found[name], was))
            assert commands.alike(*pair), (name, part, found[name][part], was[part])


def test_numbers_count_to_six_digits_and_words_in_full():
    assert commands.alike("a is 1.0000001 of 3", "a is 1.0 of 3")
    assert not commands.alike("a is 1.00001 of 3", "a is 1.0 of 3")
    assert not commands.alike("a is 1 of 3", "a was 1 of 3")
