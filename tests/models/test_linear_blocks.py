"""Blocks of weights that share a scale: against enumerated models and the plain prior."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import likelihoods, weights
from tests.tolerances import assert_close

THREES = tuple((3 * i, 3 * i + 1, 3 * i + 2) for i in range(5))
UNEQUAL = ((0, 4), (1,), (2, 3, 5, 7))
SHARE, SLAB, NOISE = 0.3, 1.0, 0.25


def table(columns, rows=25, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns))
    w = np.zeros(columns)
    w[:3] = 0.8, -0.5, 0.3
    return X, X @ w + np.sqrt(NOISE) * rng.standard_normal(rows)


def enumerated(X, y, units):
    """Evidence, inclusion of each column, and means, over all sets of units."""
    logs, means, sets = [], [], []
    for chosen in itertools.product([False, True], repeat=max(units) + 1):
        inside = np.array(chosen)[units]
        A = X[:, inside]
        K = SLAB * A @ A.T + NOISE * np.eye(len(y))
        prior = np.sum(np.where(chosen, np.log(SHARE), np.log1p(-SHARE)))
        logs.append(prior + stats.multivariate_normal(np.zeros(len(y)), K).logpdf(y))
        mean = np.zeros(X.shape[1])
        mean[inside] = SLAB * A.T @ np.linalg.solve(K, y)
        means.append(mean)
        sets.append(inside)
    log_z = np.logaddexp.reduce(logs)
    odds = np.exp(np.array(logs) - log_z)
    return log_z, odds, np.array(sets), odds @ np.array(means)


def model(blocks, prior=None, **settings):
    prior = weights.SpikeSlab(SHARE, SLAB) if prior is None else prior
    noise = likelihoods.Gaussian(NOISE)
    return cavity.LinearModel(prior, noise, intercept=False, blocks=blocks, **settings)


@pytest.mark.parametrize(("blocks", "columns"), [(THREES, 15), (UNEQUAL, 9)])
def test_blocks_against_all_models(blocks, columns):
    """Five blocks of three; three of unequal widths, beside two columns without one."""
    X, y = table(columns)
    made = model(blocks)
    units = made.units(columns)
    log_z, odds, sets, mean = enumerated(X, y, units)
    result = cavity.infer(made, X, y, power=1.0)
    found: Any = cavity.coefficients(result.posterior)
    assert result.converged
    assert abs(result.log_evidence - log_z) < 0.03
    np.testing.assert_allclose(found.inclusion, odds @ sets, atol=0.01)
    np.testing.assert_allclose(found.mean, mean, atol=0.005)
    for block in blocks:
        np.testing.assert_allclose(
            found.inclusion[list(block)], found.inclusion[block[0]], rtol=1e-9
        )
    assert_close(found.negative + found.positive, found.inclusion)
    out = [*blocks[0], *blocks[2]]
    zero = odds @ ~np.any(sets[:, out], axis=1)
    assert abs(cavity.probability_zero(result, out) - zero) < 0.01
    print(result.log_evidence, log_z, found.inclusion - odds @ sets, found.mean - mean)
