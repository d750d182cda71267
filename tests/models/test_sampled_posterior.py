"""A posterior over draws, against its draws one by one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.kernels import RBF
from cavity.likelihoods import Gaussian, HeteroscedasticGaussian
from cavity.models.sampled_posterior import SampledPosterior
from tests.tolerances import assert_close

INPUTS = np.array([[0.0], [0.7], [1.5]])
Y = np.array([0.1, -0.5, 1.0])
NEW = np.linspace(-1.0, 3.0, 5)[:, None]
LENGTHS, NOISES = np.array([0.5, 1.0]), np.array([0.1, 0.3])


@pytest.fixture(scope="module")
def exact():
    return [
        cavity.infer(cavity.GP(RBF(1.0, a), Gaussian(b)), INPUTS, Y).posterior
        for a, b in zip(LENGTHS, NOISES, strict=True)
    ]


@pytest.fixture(scope="module")
def posterior():
    """Two draws with Gaussian noise."""
    K = np.exp(-0.5 * (INPUTS - INPUTS.T) ** 2 / LENGTHS[:, None, None] ** 2)
    noise = np.repeat(NOISES[:, None], 3, axis=1)
    weights = [np.linalg.solve(k + np.diag(v), Y) for k, v in zip(K, noise, strict=True)]
    return SampledPosterior(
        model=cavity.GP(RBF(1.0, 0.7), Gaussian(0.2)),
        draws=cavity.GP(RBF(np.ones(2), LENGTHS), Gaussian(NOISES)),
        inputs=jnp.asarray(INPUTS),
        weights=jnp.asarray(weights)[:, None],
        noise=jnp.asarray(noise),
        jitter=jnp.zeros(()),
        n_inputs=1,
        outputs=1,
        single=True,
    )


def test_moments(posterior, exact):
    means = np.stack([p.joint(NEW).mean for p in exact])
    covs = np.stack([p.joint(NEW).cov for p in exact])
    found = posterior.joint(NEW)
    between = np.cov(means.T, bias=True)
    assert_close(np.asarray(found.mean), means.mean(axis=0), "factorised")
    assert_close(np.asarray(found.cov), covs.mean(axis=0) + between, "factorised")
    marginals = posterior.marginals(NEW)
    assert_close(np.asarray(marginals.var), np.diagonal(np.asarray(found.cov)), "factorised")


def test_predictions(posterior, exact):
    y = jnp.linspace(-1.0, 1.0, 5)
    densities = [p.predict(NEW).log_density(y) for p in exact]
    found = posterior.predict(NEW).log_density(y)
    expected = np.logaddexp.reduce(np.asarray(densities)) - np.log(2)
    assert_close(np.asarray(found), expected, "factorised")


def test_samples(posterior):
    key = jax.random.key(0)
    samples = np.asarray(posterior.sample(NEW, 4000, key=key))
    mean, cov = map(np.asarray, posterior.joint(NEW))
    sd = np.sqrt(np.diagonal(cov))
    assert np.max(np.abs(samples.mean(axis=0) - mean) / sd) < 4.5 / np.sqrt(4000)
    np.testing.assert_allclose(np.cov(samples.T), cov, atol=0.1 * np.max(cov))
    chosen = np.asarray(posterior.chosen(4000, key))
    assert np.sum(chosen == 0) == 2000


def test_one_of_several_functions():
    """A function and a log noise variance: each is the posterior of one."""
    kernels = (RBF(np.ones(2), LENGTHS), RBF(np.ones(2), 2 * LENGTHS))
    model = cavity.GP(tuple(RBF() for _ in kernels), HeteroscedasticGaussian())
    weights = np.random.default_rng(0).standard_normal((2, 2, 3))
    both = SampledPosterior(
        model=model,
        draws=cavity.GP(kernels, HeteroscedasticGaussian()),
        inputs=jnp.asarray(INPUTS),
        weights=jnp.asarray(weights),
        noise=None,
        jitter=jnp.asarray(1e-8),
        n_inputs=1,
        outputs=2,
        single=False,
    )
    mean, var = map(np.asarray, both.marginals(NEW))
    for i in (0, 1):
        one = both.of_function(i).marginals(NEW)
        assert_close(np.asarray(one.mean), mean[:, i])
        assert_close(np.asarray(one.var), var[:, i])
    assert both.predict(NEW).mean.shape == (5,)
