"""Mixtures over draws of a likelihood."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.likelihoods import Bernoulli, Gaussian, Laplace, Poisson, StudentT
from cavity.likelihoods.predictive.mixture import draws_predictive
from tests.tolerances import assert_close

MEAN = jnp.array([[0.0, 1.0], [0.5, 1.5], [-0.2, 2.0]])
VAR = jnp.array([[0.3, 0.2], [0.1, 0.4], [0.2, 0.1]])
SCALES = jnp.array([0.5, 0.8, 0.3])


def predictive(likelihood, names):
    """The mixture of three draws of two rows, whose named parameters differ."""
    stacked = jax.tree.map(lambda a: jnp.broadcast_to(a, (3,)), likelihood)
    for name in names:
        object.__setattr__(stacked, name, SCALES)
    return draws_predictive(stacked, MEAN, VAR, {})


def parts(kind, name, **more):
    """The predictive distribution of each draw on its own."""
    rows = zip(SCALES, MEAN, VAR, strict=True)
    return [kind(**{name: s, **more}).predictive(m, v) for s, m, v in rows]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "name", "more"),
    [(Gaussian, "variance", {}), (StudentT, "scale", {"df": 3.0}), (Laplace, "scale", {})],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_numbers(kind, name, more):
    found = predictive(kind(**{name: 1.0, **more}), [name])
    each = parts(kind, name, **more)
    y = jnp.array([0.7, -1.0])
    densities = np.stack([p.log_density(y) for p in each])
    assert_close(np.asarray(found.log_density(y)), np.logaddexp.reduce(densities) - np.log(3))
    means = np.stack([p.mean for p in each])
    assert_close(np.asarray(found.mean), means.mean(axis=0))
    spread = np.mean([p.var for p in each], axis=0) + means.var(axis=0)
    assert_close(np.asarray(found.var), spread)
    levels = np.array([0.05, 0.5, 0.9])
    quantiles = np.asarray(found.quantile(jnp.asarray(levels)))
    assert quantiles.shape == (3, 2)
    for level, q in zip(levels, quantiles, strict=True):
        truth = np.mean([p.cdf(jnp.asarray(q)) for p in each], axis=0)
        # three draws with four values of the function each
        np.testing.assert_allclose(truth, level, atol=0.03)
        assert_close(np.asarray(found.cdf(jnp.asarray(q))), np.full(2, level), "quadrature")


def test_counts():
    stacked = Poisson()
    found = draws_predictive(stacked, MEAN, VAR, {})
    q = np.asarray(found.quantile(0.5))
    assert np.all(np.asarray(found.cdf(jnp.asarray(q))) >= 0.5)
    assert np.all(np.asarray(found.cdf(jnp.asarray(q - 1.0))) < 0.5)


def test_classes():
    found = draws_predictive(Bernoulli(), MEAN, VAR, {})
    each = [Bernoulli().predictive(m, v).mean for m, v in zip(MEAN, VAR, strict=True)]
    assert_close(np.asarray(found.probabilities)[:, 1], np.mean(each, axis=0))
