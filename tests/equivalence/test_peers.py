"""Numbers of other libraries, to their last printed digit, at their jitter."""

import json
import pathlib

import numpy as np
import pytest

import cavity
from tests.oracle.test_dense import peers_data

PEERS = json.loads(
    (pathlib.Path(__file__).parents[1] / "oracle" / "peers.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def sparse():
    X, y = peers_data(12000, 10000)
    Z = X[np.random.RandomState(0).permutation(10000)[:200]]
    kernel = cavity.kernels.RBF(1.0, np.ones(8))
    model = cavity.GP(kernel, cavity.likelihoods.Gaussian(1.0), cavity.inducing.Points(Z))
    known = {}

    def evidence(power, jitter):
        if (power, jitter) not in known:
            result = cavity.infer(model, X, y, power=power, jitter=jitter)
            assert result.jitter == jitter
            known[power, jitter] = result.log_evidence
        return known[power, jitter]

    return evidence


OBJECTIVES = [row for row in PEERS["sparse"] if "power" in row]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "row", OBJECTIVES, ids=lambda row: f"{row['library']}-{row['objective']}-{row['jitter']}"
)
def test_sparse_evidence(sparse, row):
    """The prior variance is 1, so that a share of it is an absolute jitter, as theirs is.

    10000 rows are beyond one chunk, so this is also the chunked evaluation.
    """
    value = sparse(row["power"], row["jitter"]) - row.get("differs_by", 0.0)
    assert value == pytest.approx(row["log_evidence"], abs=0.51 * 10.0 ** -row["digits"])


@pytest.mark.parametrize("row", PEERS["exact"], ids=lambda row: row["library"])
@pytest.mark.slow
def test_exact_evidence(row):
    X, y = peers_data(row["rows"], row["rows"])
    model = cavity.GP(cavity.kernels.RBF(1.0, np.ones(8)), cavity.likelihoods.Gaussian(1.0))
    value = cavity.infer(model, X, y).log_evidence
    assert value == pytest.approx(row["log_evidence"], abs=0.51 * 10.0 ** -row["digits"])
