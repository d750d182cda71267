"""A convolutional kernel plus one of whole images, each with variables of its own.

Vanderwilk T59 and item 66, against dense algebra in plain numpy: patches taken out by hand, the
variances written as a sum over pairs of terms, and both terms as one block-diagonal prior.
"""

from typing import Any

import numpy as np
import pytest
from scipy.linalg import block_diag

import cavity
from cavity import kernels, likelihoods
from cavity.inducing import InBase, OfParts, Points, covariance
from cavity.inducing.base import variances_from
from tests.oracle import dense
from tests.tolerances import assert_close

RANDOM = np.random.default_rng(6)
NOISE, JITTER = 0.1, 1e-6
X, NEW = RANDOM.normal(size=(12, 12)), RANDOM.normal(size=(5, 12))
Y = RANDOM.normal(size=12) + X[:, 0]
PARTS = kernels.Patches((3, 4), (2, 2))
STARTS = [(i, j) for i in range(2) for j in range(3)]
WEIGHTS = np.array([1.0, -0.4, 0.7, 0.2, 1.3, -0.9])
PATCHES, IMAGES = RANDOM.normal(size=(4, 4)), RANDOM.normal(size=(3, 12))
CONV, WHOLE = (0.3, 1.2), (0.8, 3.0)  # variance and lengthscale of each term
SUM = kernels.SumOver(PARTS, kernels.RBF(*CONV), WEIGHTS)
BESIDE = kernels.RBF(*WHOLE)
VARIABLES = OfParts((InBase(PATCHES), Points(IMAGES)))
TIED = {joint: cavity.TiedPowerEP(tolerance=1e-10, joint=joint) for joint in (True, False)}


def patches_of(X):
    """Explicit extraction, (N, P, E)."""
    images = np.reshape(X, (-1, 3, 4))
    return np.stack([images[:, i : i + 2, j : j + 2].reshape(-1, 4) for i, j in STARTS], axis=1)


def on_paper(X):
    """Of both terms: covariances of the variables, of them with the function, its variances."""
    nugget = JITTER * (4 * CONV[0] + 3 * WHOLE[0]) / 7  # a share of their mean variance
    K = [dense.rbf(Z, Z, *of) for Z, of in ((PATCHES, CONV), (IMAGES, WHOLE))]
    found = patches_of(X)
    crossed = [
        np.stack([dense.rbf(PATCHES, own, *CONV) @ WEIGHTS for own in found], axis=1),
        dense.rbf(IMAGES, X, *WHOLE),
    ]
    variances = [
        np.array([WEIGHTS @ dense.rbf(own, own, *CONV) @ WEIGHTS for own in found]),
        np.full(len(X), WHOLE[0]),
    ]
    return [k + nugget * np.eye(len(k)) for k in K], crossed, variances


def belief_of(posterior):
    """Mean and covariance of the variables; the prior whitens each term by itself."""
    factor = np.linalg.cholesky(block_diag(*on_paper(X)[0]))
    white = posterior.process.belief
    root = factor @ np.asarray(white.root[0]).T
    return factor @ np.asarray(white.mean).reshape(-1), root @ root.T


def variances_by_pairs(S, X):
    """Item 66: what each term has left of its own, and a share of S for every pair of terms."""
    K, crossed, prior = on_paper(X)
    W = [np.linalg.solve(k, c) for k, c in zip(K, crossed, strict=True)]
    own = [p - np.sum(c * w, axis=0) for p, c, w in zip(prior, crossed, W, strict=True)]
    at = (slice(0, 4), slice(4, 7))
    return np.array(
        [
            [
                np.sum(W[i] * (S[at[i], at[j]] @ W[j]), axis=0) + (own[i] if i == j else 0.0)
                for j in range(2)
            ]
            for i in range(2)
        ]
    )


def divergence_by_terms(m, S):
    """The divergence of item 66, which inverts no matrix larger than that of one term."""
    K = on_paper(X)[0]
    total = -len(m) - np.linalg.slogdet(S)[1]
    for k, at in zip(K, (slice(0, 4), slice(4, 7)), strict=True):
        total += np.trace(np.linalg.solve(k, S[at, at])) + m[at] @ np.linalg.solve(k, m[at])
        total += np.linalg.slogdet(k)[1]
    return 0.5 * total


@pytest.mark.parametrize("joint", [True, False])
def test_variances_and_divergence_of_two_terms_are_those_of_dense_algebra(joint):
    """T59: variances of terms add up where the belief is block-diagonal, and not where joint."""
    model = cavity.GP(SUM + BESIDE, likelihoods.Gaussian(NOISE), VARIABLES)
    found = cavity.infer(model, X, Y, power=0.0, method=TIED[joint], jitter=JITTER)
    m, S = belief_of(found.posterior)
    each = variances_by_pairs(S, NEW)
    predicted = found.posterior.marginals(NEW)
    assert_close(predicted.var, np.sum(each, axis=(0, 1)), "factorised")
    assert_close(predicted.mean, dense.weights(*whole(NEW)[:2]) @ m, "factorised")
    apart = np.abs(np.sum(each[[0, 1], [0, 1]], axis=0) - np.sum(each, axis=(0, 1)))
    if joint:
        assert np.max(apart) > 1e-2
    else:
        np.testing.assert_array_equal(S[:4, 4:], 0.0)
        assert np.max(apart) == 0.0
    Kuf, Kuu, Kff = whole(X)
    divergence = divergence_by_terms(m, S)
    assert_close(divergence, dense.gaussian_kl(m, S, Kuu), "factorised")
    bound = dense.svgp_bound(m, S, Kff, Kuf, Kuu, Y, NOISE)
    assert_close(found.log_evidence, bound, "factorised")
    if joint:  # the best of all beliefs, those of one dense model
        best = dense.vfe_log_evidence(Kff, Kuf, Kuu, Y, NOISE)
        np.testing.assert_allclose(found.log_evidence, best, atol=1e-6)


def whole(X):
    """Both terms as one dense model: Kuf, Kuu and the variances of the function."""
    K, crossed, variances = on_paper(X)
    return np.concatenate(crossed), block_diag(*K), np.diag(sum(variances))


def test_a_factor_of_a_sum_is_one_of_each_term():
    plain, scaled = SUM + BESIDE, 2.5 * (SUM + BESIDE)
    for other in (VARIABLES, Points(NEW)):
        expected = 2.5 * covariance(plain, VARIABLES, other)
        assert_close(covariance(scaled, VARIABLES, other), expected, "algebra")
    variances = variances_from(VARIABLES, scaled)
    assert_close(variances, 2.5 * variances_from(VARIABLES, plain), "algebra")


WAYS: dict[str, Any] = {
    "gaussian": (likelihoods.Gaussian(NOISE), {"power": 0.5}, Y),
    "bernoulli": (
        likelihoods.Bernoulli(),
        {"power": 0.0, "method": TIED[True]},
        (Y > 0.0).astype(float),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_convolution_without_variance_leaves_the_model_of_whole_images(way):
    """T59: energy and predictions are those of the other term alone."""
    likelihood, settings, y = WAYS[way]
    silent = kernels.SumOver(PARTS, kernels.RBF(*CONV), np.zeros(6))
    both = cavity.GP(silent + BESIDE, likelihood, VARIABLES)
    alone = cavity.GP(BESIDE, likelihood, Points(IMAGES))
    share = JITTER * (4 * CONV[0] + 3 * WHOLE[0]) / 7 / WHOLE[0]
    found = cavity.infer(both, X, y, jitter=JITTER, **settings)
    expected = cavity.infer(alone, X, y, jitter=share, **settings)
    np.testing.assert_allclose(found.log_evidence, expected.log_evidence, atol=1e-7)
    one, other = found.posterior.marginals(NEW), expected.posterior.marginals(NEW)
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-5)
    np.testing.assert_allclose(one.var, other.var, atol=1e-5)
