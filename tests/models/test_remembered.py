"""Tied sites that make the beliefs of a posterior, against its marginals at inducing points."""

import numpy as np
import pytest

import cavity
from cavity import kernels, likelihoods
from cavity.models.remembered import tied_sites_of

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(20, 2))
CLASSES = (X[:, 0] > 0.0).astype(int) + (X[:, 1] > 0.5)
KERNEL = kernels.RBF(1.3, np.array([0.8, 1.1]))


@pytest.mark.sampled(1, "likelihood2-y2-True")
@pytest.mark.parametrize(
    ("likelihood", "y", "coupled"),
    [
        (likelihoods.Gaussian(0.1), np.stack([np.sin(X[:, 0]), X[:, 1]], axis=1), True),
        (likelihoods.MultinomialProbit(3), CLASSES.astype(float), False),
        (likelihoods.MultinomialProbit(3), CLASSES.astype(float), True),
    ],
)
def test_tied_sites_make_the_beliefs_of_a_posterior(likelihood, y, coupled):
    model = cavity.GP(KERNEL, likelihood, cavity.inducing.Points(X[:5]))
    method = cavity.PowerEP(coupled=coupled)
    posterior = cavity.infer(model, X, y, power=1.0, method=method).posterior
    apart = (X[:5, None] - X[None, :5]) / [0.8, 1.1]
    root = np.linalg.cholesky(1.3 * np.exp(-0.5 * np.sum(apart**2, axis=-1)))
    found = posterior.marginals(X[:5])
    sites = tied_sites_of(posterior.process)
    means = np.concatenate([np.asarray(site.mean) for site in sites])
    roots = np.concatenate([np.asarray(site.root) for site in sites])
    np.testing.assert_allclose((root @ means.T), found.mean, atol=1e-6)
    var = np.sum((root @ roots) ** 2, axis=-1).T
    np.testing.assert_allclose(var, found.var, atol=1e-6)


def test_a_full_gp_has_no_beliefs_of_inducing_variables():
    posterior = cavity.infer(cavity.GP(KERNEL, likelihoods.Gaussian(0.1)), X, X[:, 0]).posterior
    with pytest.raises(TypeError, match="FullProcess has no beliefs"):
        tied_sites_of(posterior.process)
