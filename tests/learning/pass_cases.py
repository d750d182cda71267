"""Likelihoods whose rows have sites, on one table in memory and in parts."""

import dataclasses
import itertools

import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.likelihoods.base import AbstractLikelihood
from tests.learning.part_engines import N, table

X, _OUTPUTS = table()
F = _OUTPUTS[:, 0]
_RNG = np.random.default_rng(5)
LABELS = (F + 0.3 * _RNG.standard_normal(N) > 0.0).astype(float)
COUNTS = _RNG.poisson(np.exp(F)).astype(float)
CLASSES = np.digitize(F, [-0.5, 0.5]).astype(float)
EDGES = (0, 90, 90, N)  # the second part has no rows


@dataclasses.dataclass(frozen=True)
class Case:
    """A likelihood with outputs.

    Attributes:
        likelihood: the likelihood.
        y: outputs, (N,).
        exact: whether closed forms are used.
    """

    likelihood: AbstractLikelihood
    y: np.ndarray
    exact: bool = True

    @property
    def model(self):
        """A sparse GP."""
        return cavity.GP(kernels.RBF(1.0, [1.0, 1.5]), self.likelihood, inducing.Points(X[::30]))

    def method(self, **options):
        """Power EP."""
        return cavity.PowerEP(exact=self.exact, **options)


CASES = {
    "gaussian": Case(likelihoods.Gaussian(0.1), F, exact=False),
    "probit": Case(likelihoods.Bernoulli(), LABELS),
    "logit": Case(likelihoods.Bernoulli(link="logit"), LABELS),
    "poisson": Case(likelihoods.Poisson(), COUNTS),
    "student": Case(likelihoods.StudentT(0.1, 4.0), F),
    "ordinal": Case(likelihoods.OrdinalProbit([-0.5, 0.5]), CLASSES),
    "classes": Case(likelihoods.MultinomialProbit(3), CLASSES),
}


class Rows:
    """Rows of a case from one to before another."""

    def __init__(self, name, start, end):
        self.name, self.place = name, slice(start, end)

    def __iter__(self):
        yield X[self.place], CASES[self.name].y[self.place]


def parts(name, edges=EDGES):
    """The table of a case, in parts between edges."""
    return cavity.Parts([Rows(name, *pair) for pair in itertools.pairwise(edges)], size=64)
