"""Mean field between the terms of a sum of kernels, against coordinate ascent in closed form."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.linalg import block_diag

import cavity
from cavity import inducing, kernels, likelihoods
from tests.oracle import dense

RANDOM = np.random.default_rng(3)
NOISE = 0.2
X = RANDOM.uniform(-2.0, 2.0, (30, 2))
Y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + np.sqrt(NOISE) * RANDOM.normal(size=30)
FIRST, SECOND = RANDOM.uniform(-2.0, 2.0, (6, 2)), RANDOM.uniform(-2.0, 2.0, (5, 2))
TERMS = kernels.RBF(1.0, 0.8), kernels.RBF(0.7, 2.5)
JITTER = 1e-6
TIED = cavity.TiedPowerEP(tolerance=1e-10)


def model(likelihood: Any = None, first=TERMS[0], second=TERMS[1]) -> cavity.GP:
    likelihood = likelihoods.Gaussian(NOISE) if likelihood is None else likelihood
    variables = inducing.OfParts((inducing.Points(FIRST), inducing.Points(SECOND)))
    return cavity.GP(first + second, likelihood, variables)


def apart(method=TIED):
    return dataclasses.replace(method, joint=False)


def on_paper():
    """Covariances of the variables, block by block, and of them with the function."""
    pairs = ((FIRST, 1.0, 0.8), (SECOND, 0.7, 2.5))
    nugget = JITTER * (6 * 1.0 + 5 * 0.7) / 11  # a share of the mean variance of all variables
    K = [dense.rbf(Z, Z, v, l) + nugget * np.eye(len(Z)) for Z, v, l in pairs]
    cross = [dense.rbf(Z, X, v, l) for Z, v, l in pairs]
    return K, cross


def bound(K, A, means, covariances):
    """The bound of a Gaussian belief with these blocks, at the projections A of the function."""
    m, S = np.concatenate(means), block_diag(*covariances)
    P = np.concatenate(A)  # loadings of all variables, (M, N)
    prior = block_diag(*K)
    explained = sum(np.sum(a * (k @ a), axis=0) for a, k in zip(A, K, strict=True))
    var = 1.7 - explained + np.sum(P * (S @ P), axis=0)
    fit = -0.5 * np.sum(np.log(2.0 * np.pi * NOISE) + ((Y - m @ P) ** 2 + var) / NOISE)
    divergence = np.trace(np.linalg.solve(prior, S)) + m @ np.linalg.solve(prior, m) - len(m)
    divergence += np.linalg.slogdet(prior)[1] - np.linalg.slogdet(S)[1]
    return fit - 0.5 * divergence


def coordinate_ascent():
    """Mean field in closed form: each block in turn, given the mean of the other."""
    K, cross = on_paper()
    A = [np.linalg.solve(k, c) for k, c in zip(K, cross, strict=True)]
    covariances = [
        np.linalg.inv(np.linalg.inv(k) + a @ a.T / NOISE) for k, a in zip(K, A, strict=True)
    ]
    means = [np.zeros(len(k)) for k in K]
    for _ in range(20_000):
        for i, j in ((0, 1), (1, 0)):
            means[i] = covariances[i] @ A[i] @ (Y - means[j] @ A[j]) / NOISE
    return bound(K, A, means, covariances), means, covariances


def test_the_optimum_is_that_of_coordinate_ascent():
    """Item 66 of the inventory: variances of independent terms add up."""
    found = cavity.infer(model(), X, Y, power=0.0, method=apart(), jitter=JITTER)
    expected, means, covariances = coordinate_ascent()
    np.testing.assert_allclose(found.log_evidence, expected, atol=1e-4)
    belief = found.posterior.process.belief
    cov = np.asarray(belief.root[0].T @ belief.root[0])
    np.testing.assert_array_equal(cov[:6, 6:], 0.0)
    K, _ = on_paper()
    factor = np.linalg.cholesky(block_diag(*K))
    np.testing.assert_allclose(factor @ cov @ factor.T, block_diag(*covariances), atol=2e-3)
    np.testing.assert_allclose(factor @ belief.mean[0, 0], np.concatenate(means), atol=5e-3)


def test_mean_field_is_never_above_the_joint_bound():
    best = cavity.infer(model(), X, Y, power=0.0, jitter=JITTER).log_evidence
    joint = cavity.infer(model(), X, Y, power=0.0, method=TIED, jitter=JITTER).log_evidence
    alone = cavity.infer(model(), X, Y, power=0.0, method=apart(), jitter=JITTER).log_evidence
    np.testing.assert_allclose(joint, best, atol=1e-3)
    assert alone < joint - 0.1


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [likelihoods.Bernoulli(), likelihoods.StudentT()])
def test_other_likelihoods(likelihood):
    y = (Y > 1.0).astype(float)
    joint, alone = (
        cavity.infer(model(likelihood), X, y, power=0.0, method=m).log_evidence
        for m in (TIED, apart())
    )
    assert alone < joint


@pytest.mark.slow
def test_terms_that_do_not_interact_lose_nothing():
    """Rows that see one term each: there is nothing to explain away."""
    sided = np.where(np.arange(30)[:, None] < 15, [1.0, 0.0], [0.0, 1.0])
    columns = np.concatenate([X, sided], axis=1)
    # a linear factor turns a term off where its column is zero
    on = [kernels.Linear(1.0).on(c) for c in (2, 3)]
    first, second = (k.on(0, 1) * switch for k, switch in zip(TERMS, on, strict=True))
    Z = [
        np.concatenate([z, np.tile(s, (len(z), 1))], axis=1)
        for z, s in ((FIRST, [1.0, 0.0]), (SECOND, [0.0, 1.0]))
    ]
    variables = inducing.OfParts(tuple(inducing.Points(z) for z in Z))
    whole = cavity.GP(first + second, likelihoods.Gaussian(NOISE), variables)
    joint, alone = (
        cavity.infer(whole, columns, Y, power=0.0, method=m).log_evidence for m in (TIED, apart())
    )
    np.testing.assert_allclose(alone, joint, atol=1e-4)


@pytest.mark.parametrize(("natural", "batch", "off"), [(None, 10, 2.0), (0.5, 30, 1e-3)])
def test_steps_leave_the_terms_independent(natural, batch, off):
    """Of Adam with minibatches, and natural gradients with all rows, which find the optimum."""
    method = cavity.TiedPowerEP(
        batch=batch, max_sweeps=400, learning_rate=0.05, natural=natural, joint=False
    )
    found = cavity.infer(model(), X, Y, power=0.0, method=method, jitter=JITTER)
    belief = found.posterior.process.belief
    np.testing.assert_array_equal(np.asarray(belief.root[0].T @ belief.root[0])[:6, 6:], 0.0)
    assert abs(found.log_evidence - coordinate_ascent()[0]) < off


def test_models_without_terms_are_refused():
    one = cavity.GP(TERMS[0], likelihoods.Gaussian(NOISE), inducing.Points(FIRST))
    with pytest.raises(ValueError, match="OfParts"):
        cavity.infer(one, X, Y, power=0.0, method=apart())
    deep = cavity.DeepGP([cavity.Layer(TERMS[0], inducing.Points(FIRST))], likelihoods.Gaussian())
    with pytest.raises(ValueError, match="OfParts"):
        cavity.infer(deep, X, Y, power=0.0, method=apart())
