"""What parts of an input contribute, against Gaussian conditioning written out."""

from typing import Any

import numpy as np
import pytest

import cavity
from cavity import kernels, likelihoods, means
from cavity.inducing import InBase, OfParts, Points
from cavity.kernels import Patches, SumOver, count_parts
from tests.oracle import dense
from tests.tolerances import assert_close

RANDOM = np.random.default_rng(0)
PARTS = Patches((4, 3), (2, 2))
IMAGES = (RANDOM.uniform(size=(9, 12)) > 0.5).astype(float)
NEW = (RANDOM.uniform(size=(3, 12)) > 0.5).astype(float)
Y = RANDOM.normal(size=9)
WEIGHTS = RANDOM.normal(size=6)
Z = np.stack(np.meshgrid(*[[0.0, 1.0]] * 4), -1).reshape(-1, 4)  # all that there are


def inferred(X, likelihood, y, weights: Any = WEIGHTS, factor=1.0) -> Any:
    kernel = factor * SumOver(PARTS, kernels.RBF(1.3, 0.9), weights)
    model = cavity.GP(kernel, likelihood, InBase(Points(Z)), means.Constant(0.4))
    method = cavity.PowerEP(coupled=False)
    return cavity.infer(model, X, y, jitter=1e-12, method=method).posterior


def assert_conditioned(found, noise):
    """Contributions are those of a dense regression on sums of g, with this covariance beside."""
    seen = np.asarray(PARTS.of(IMAGES)).reshape(-1, 4)
    W = np.kron(np.eye(9), WEIGHTS)
    C = W @ (2.0 * dense.rbf(seen, seen, 1.3, 0.9)) @ W.T + noise
    for n, parts in enumerate(np.asarray(PARTS.of(NEW))):
        k = 2.0 * dense.rbf(parts, seen, 1.3, 0.9) @ W.T
        mean = k @ np.linalg.solve(C, Y - 0.4)
        var = 2.0 * 1.3 - np.sum(k * np.linalg.solve(C, k.T).T, axis=1)
        np.testing.assert_allclose(found.mean[n], WEIGHTS * mean, atol=1e-6)
        np.testing.assert_allclose(found.var[n], WEIGHTS**2 * var, atol=1e-6)


def test_contributions_are_those_of_conditioning_on_the_outputs():
    """Item 93: with all distinct patches as variables, exact regression on sums of g."""
    found = inferred(IMAGES, likelihoods.Gaussian(0.2), Y, factor=2.0).contributions(NEW)
    assert_conditioned(found, 0.2 * np.eye(9))


def test_in_a_sum_of_kernels_contributions_are_those_of_the_sum_over_parts():
    """A kernel of whole images beside it counts as noise."""
    kernel = kernels.RBF(0.8, 2.0) + 2.0 * SumOver(PARTS, kernels.RBF(1.3, 0.9), WEIGHTS)
    variables = OfParts((Points(IMAGES), InBase(Points(Z))))
    model = cavity.GP(kernel, likelihoods.Gaussian(0.2), variables, means.Constant(0.4))
    posterior: Any = cavity.infer(model, IMAGES, Y, jitter=1e-12).posterior
    found = posterior.contributions(NEW)
    noise = 0.2 * np.eye(9) + dense.rbf(IMAGES, IMAGES, 0.8, 2.0)
    assert_conditioned(found, noise)


@pytest.mark.slow
def test_means_add_up_to_that_of_each_function():
    labels = np.arange(9.0) % 3.0
    posterior = inferred(IMAGES, likelihoods.MultinomialProbit(3), labels, None)
    found = posterior.contributions(NEW)
    assert found.mean.shape == found.var.shape == (3, 6, 3)
    whole = posterior.marginals(NEW)
    assert_close(found.mean.sum(axis=1) + 0.4, whole.mean, "factorised")


def test_distinct_parts_have_all_that_their_places_contribute():
    counted = count_parts(PARTS, np.concatenate([IMAGES, NEW]))
    plain = inferred(IMAGES, likelihoods.Gaussian(0.2), Y).contributions(NEW)
    found = inferred(counted[:9], likelihoods.Gaussian(0.2), Y).contributions(counted[9:])
    np.testing.assert_allclose(found.mean.sum(axis=1), plain.mean.sum(axis=1), atol=1e-6)


@pytest.mark.parametrize("inducing", [None, Points(IMAGES[:3]), OfParts([Points(IMAGES[:3])] * 2)])
def test_other_models_are_refused(inducing):
    model = cavity.GP(kernels.RBF() + kernels.RBF(), likelihoods.Gaussian(0.2), inducing)
    posterior: Any = cavity.infer(model, IMAGES, Y).posterior
    with pytest.raises(ValueError, match="InBase"):
        posterior.contributions(NEW)
