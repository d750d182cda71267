"""Approximations beside long chains on small tables: what is near, what is short, what is a bound.

Chains are exact but for Monte Carlo error, which the bounds below allow for, and they are
themselves held against quadrature in `tests/learning/test_draws.py`. What is allowed beyond that
error is what the approximation is off by on such tables.
"""

import functools

import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods

pytestmark = pytest.mark.slow  # chains take long

ROWS, CLASSES = 14, 3
CHAINS = {"draws": 1000, "warmup": 150, "chains": 2, "keep": 600}
FACTORISED = cavity.PowerEP(coupled=False)
# Standard errors of Monte Carlo that a comparison may be off by.
ERRORS = 4.5


@functools.cache
def table():
    """Inputs (N, 2), labels, a robust regression's outputs, and new inputs."""
    r = np.random.default_rng(5)
    X = r.uniform(0.0, 1.0, (ROWS, 2))
    heights = 2.0 * np.stack([np.sin(6 * X[:, 0]), np.cos(6 * X[:, 1]), X.sum(1) - 1.0], axis=1)
    labels = np.argmax(heights + 0.7 * r.standard_normal(heights.shape), axis=1).astype(float)
    y = np.sin(6 * X[:, 0]) + 0.1 * r.standard_normal(ROWS)
    y[::6] += 1.5
    return X, labels, y, r.uniform(0.0, 1.0, (6, 2))


def model(likelihood, points=None):
    return cavity.GP(kernels.RBF(4.0, 0.4), likelihood, points)


def outputs(likelihood):
    _, labels, y, _ = table()
    return labels if likelihood.latents > 1 else y


class Truth:
    """What chains say of a likelihood: moments of the functions with their errors, evidence."""

    def __init__(self, likelihood, temperatures=None):
        X = table()[0]
        method = cavity.MCMC(**CHAINS, temperatures=temperatures)
        self.result = cavity.infer(model(likelihood), X, outputs(likelihood), method=method)
        chains = self.result.chains
        assert chains.converged, chains.message
        f = chains.latents.reshape(-1, *chains.latents.shape[2:])
        self.mean, self.sd, self.ess = f.mean(axis=0), f.std(axis=0), chains.ess["f"]
        self.log_evidence, self.error = self.result.log_evidence, chains.log_evidence_error

    def away(self, mean):
        """By how much means are off, in deviations, less the Monte Carlo error."""
        apart = np.abs(mean - self.mean) / self.sd
        return np.maximum(apart - ERRORS / np.sqrt(self.ess), 0.0)

    def spread(self, var):
        """The mean logarithm of deviations over the chains' own."""
        return np.mean(np.log(np.sqrt(var) / self.sd))


PROBIT, SOFTMAX = likelihoods.MultinomialProbit(CLASSES), likelihoods.Softmax(CLASSES)
ROBUST = likelihoods.StudentT(0.2, 4.0)


@pytest.fixture(scope="module")
def probit():
    return Truth(PROBIT)


@pytest.fixture(scope="module")
def softmax():
    return Truth(SOFTMAX, temperatures=10)


@pytest.fixture(scope="module")
def robust():
    return Truth(ROBUST, temperatures=10)


def found(likelihood, method, power, points=None):
    result = cavity.infer(
        model(likelihood, points), table()[0], outputs(likelihood), method=method, power=power
    )
    assert result.converged
    mean, var = (np.asarray(a) for a in result.posterior.marginals(table()[0]))
    return result, mean, var


def chances(result):
    return np.exp(np.asarray(result.posterior.predict(table()[3]).log_probabilities))


@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("sparse", [False, True], ids=["full", "sparse"])
def test_coupled_classes(power, sparse, probit):
    """Jylanki C7: with classes dependent, moments and probabilities are those of the draws."""
    points = inducing.Points(table()[0]) if sparse else None
    result, mean, var = found(PROBIT, cavity.PowerEP(), power, points)
    assert np.max(probit.away(mean)) < 0.05
    assert abs(probit.spread(var)) < 0.05
    np.testing.assert_allclose(chances(result), chances(probit.result), atol=0.03)


def test_factorised_classes_are_too_sure(probit):
    """Jylanki C7: without the covariances between classes their deviations are too small."""
    _, mean, var = found(PROBIT, FACTORISED, 1.0)
    assert np.max(probit.away(mean)) < 0.1
    assert probit.spread(var) < -0.15
    _, _, field = found(PROBIT, cavity.MeanField(), 0.0)
    assert probit.spread(field) < probit.spread(var)


@pytest.mark.parametrize(
    ("method", "power", "off", "bound"),
    [
        (cavity.PowerEP(), 1.0, 0.1, False),
        (cavity.PowerEP(), 0.5, 0.1, False),
        (cavity.PowerEP(), 0.0, 0.1, True),
        (cavity.MeanField(), 0.0, 0.5, True),
        (cavity.Laplace(), 0.5, 0.5, False),
    ],
    ids=["power 1", "power 0.5", "power 0", "mean field", "Laplace"],
)
def test_softmax(method, power, off, bound, softmax):
    """Bounds lie below the evidence; class probabilities are near those of the draws."""
    result, mean, var = found(SOFTMAX, method, power)
    assert np.max(softmax.away(mean)) < off
    above = result.log_evidence - softmax.log_evidence
    assert abs(above) < (10.0 if isinstance(method, cavity.MeanField) else 1.5)
    if bound:
        assert above < ERRORS * softmax.error
    if isinstance(method, cavity.Laplace):
        assert abs(softmax.spread(var)) < 0.1  # classes stay dependent
    else:
        assert softmax.spread(var) < -0.05
    np.testing.assert_allclose(chances(result), chances(softmax.result), atol=0.1)


@pytest.mark.parametrize(
    ("method", "power", "bound"),
    [
        (cavity.PowerEP(), 1.0, False),
        (cavity.PowerEP(), 0.5, False),
        (cavity.PowerEP(), 0.0, True),
        (cavity.MeanField(), 0.0, True),
        (cavity.Laplace(), 0.5, False),
    ],
    ids=["power 1", "power 0.5", "power 0", "mean field", "Laplace"],
)
def test_student_t(method, power, bound, robust):
    """Power EP has the draws' moments; mean field and Laplace's method are too sure here."""
    result, mean, var = found(ROBUST, method, power)
    above = result.log_evidence - robust.log_evidence
    if bound:
        assert above < ERRORS * robust.error
    if isinstance(method, cavity.PowerEP):
        assert np.max(robust.away(mean)) < 0.05
        assert abs(robust.spread(var)) < 0.1
        assert abs(above) < 0.5 + ERRORS * robust.error
    else:
        assert robust.spread(var) < -0.15
