"""Joint samples of the functions of coupled classes."""

import jax
import numpy as np

import cavity


def test_samples_keep_the_dependence_between_classes():
    r = np.random.default_rng(0)
    X = r.uniform(0.0, 3.0, (12, 1))
    y = np.array([0.0, 1.0, 2.0] * 4)
    model = cavity.GP(cavity.kernels.RBF(2.0, 0.7), cavity.likelihoods.MultinomialProbit(3))
    with jax.enable_x64(True):
        posterior = cavity.infer(model, X, y, power=1.0).posterior
        draws = np.asarray(posterior.sample(X[:4], 20_000, key=jax.random.key(0)))
        mean, cov = map(np.asarray, posterior.process.moments(X[:4]))
        joint = posterior.joint(X[:4])
    assert draws.shape == (20_000, 4, 3)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.05)
    for row in range(4):
        np.testing.assert_allclose(np.cov(draws[:, row].T), cov[row], atol=0.08)
    for label in range(3):
        between = np.cov(draws[:, :, label].T)
        np.testing.assert_allclose(between, np.asarray(joint.cov)[label], atol=0.08)
    assert np.all(cov[:, 0, 1] > 0.3)
