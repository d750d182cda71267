"""Estimators that learn from batches."""

import jax
import numpy as np
import pytest

import cavity

RNG = np.random.default_rng(4)
X = RNG.uniform(0.0, 5.0, (60, 1)).astype(np.float32)
Y = (np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(60)).astype(np.float32)


def fit(X, y):
    batches = cavity.fitting.Batches([(X[:40], y[:40]), (X[40:], y[40:])])
    gp = cavity.GPRegressor(n_inducing=5, max_iterations=3, random_state=0)
    return gp.fit(np.asarray(X), np.asarray(y), batches=batches)


@pytest.mark.filterwarnings("ignore:not converged")
def test_batches_in_single_precision_are_computed_in_double():
    single, double = fit(X, Y), fit(X.astype(float), Y.astype(float))
    assert single.log_evidence_ == double.log_evidence_
    leaves = [leaf for leaf in jax.tree.leaves(single.posterior_) if isinstance(leaf, np.ndarray)]
    assert {leaf.dtype for leaf in leaves if leaf.dtype.kind == "f"} == {np.dtype(float)}


def test_text_in_a_batch_is_refused_with_its_batch():
    batches = cavity.fitting.Batches([(X, Y), (X, Y.astype(str))])
    gp = cavity.GPRegressor(n_inducing=5, random_state=0)
    with pytest.raises(TypeError, match="batch 2, whose index 0 is row 60 of all: y must hold"):
        gp.fit(X, Y, batches=batches)
