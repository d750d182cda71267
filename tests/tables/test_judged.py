"""Metrics of a table in parts are sums over them; models go to other processes by pickle."""

import dataclasses
import itertools
import operator
import pickle

import numpy as np
import polars as pl
import pytest

import cavity
from cavity.engines import InProcess, Part
from cavity.persistence.errors import DataError
from tests.report.fitting import fitted_to

RANDOM = np.random.default_rng(4)
X = RANDOM.uniform(0.0, 6.0, (58, 2))
Y = np.sin(X[:, 0]) + 0.2 * RANDOM.normal(size=58)
CUTS = [0, 1, 1, 20, 39, 58]
# Counts are costly: their predictive distributions are tabulated.
KINDS = (
    ("regression", None),
    ("regression", 8),
    ("outputs", 8),
    ("classes", None),
    ("classes", 8),
    pytest.param(("counts", 8), marks=pytest.mark.slow),
)


@pytest.fixture(scope="module", params=KINDS)
def judged(request):
    """A model, full or sparse, and rows to judge it by."""
    kind, size = request.param
    columns = {"a": X[:, 0], "b": X[:, 1], "y": Y}
    targets, likelihood = ["y"], None
    if kind == "outputs":
        columns["z"], targets = Y**2, ["y", "z"]
    if kind == "counts":
        columns["y"], likelihood = np.round(np.exp(Y)), cavity.likelihoods.Poisson()
    if kind == "classes":
        columns["y"] = np.where(Y > 0.1, "high", "low")
        likelihood = cavity.likelihoods.Bernoulli()
    table = pl.DataFrame(columns)
    model, encoded = fitted_to(table, targets, n_inducing=size, likelihood=likelihood)
    return model, encoded


def cut(table, weights):
    """The rows of a table in parts, one of which is empty."""
    for start, stop in itertools.pairwise(CUTS):
        rows = slice(start, stop)
        heavy = None if weights is None else weights[rows]
        own = {"X": table.X[rows], "y": table.y[rows], "weight": heavy}
        yield dataclasses.replace(table, **own, kept=table.kept[rows], first=start)


def flat(metrics):
    """Metrics by name, those of single targets too."""
    each = metrics.get("per_target", {})
    own = {f"{name} {key}": v for name, found in each.items() for key, v in found.items()}
    return {key: v for key, v in metrics.items() if key != "per_target"} | own


@pytest.mark.parametrize("weights", [None, RANDOM.uniform(0.5, 2.0, 58)])
def test_sums_of_parts_are_those_of_the_table(judged, weights):
    model, table = judged
    whole = model.metrics(dataclasses.replace(table, weight=weights))
    assert flat(model.metrics(cut(table, weights))) == pytest.approx(flat(whole), rel=1e-12)
    parts = [Part(i, "", part) for i, part in enumerate(cut(table, weights))]
    sums = InProcess().sum(lambda part: model.judged(part.source), parts, operator.add)
    assert model.metrics_of(pickle.loads(pickle.dumps(sums))) == model.metrics(cut(table, weights))


def test_a_model_that_was_pickled_predicts_with_the_same_bits(judged):
    model, table = judged
    twin = pickle.loads(pickle.dumps(model))
    assert twin.schema == model.schema
    assert twin.metrics(table) == model.metrics(table)
    if model.classes:
        pairs = [(m.log_probabilities(table.X),) for m in (model, twin)]
    else:
        pairs = [(p.mean, p.std) for p in (m.predictive(table.X) for m in (model, twin))]
    for ours, theirs in zip(*pairs, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_no_rows_are_refused(judged):
    model, table = judged
    (empty,) = [part for part in cut(table, None) if not len(part.X)]
    assert model.judged(empty) is None
    for nothing in (empty, [empty, empty], []):
        with pytest.raises(DataError, match="every row has weight 0"):
            model.metrics(nothing)
