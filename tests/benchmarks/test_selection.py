"""Probabilities of inclusion beside all models averaged, and what is selected by them."""

import itertools
import warnings

import numpy as np
import pytest
from benchmarks.selection import (
    SIZES,
    chosen_of,
    enumerated,
    fitted,
    measured,
    problem,
    weak_priors,
)
from scipy import integrate, stats

import cavity


def small(seed=0, rows=16, columns=3, noise=1.0):
    X, y, _ = problem(rows, columns, 1, noise, seed)
    return X, y


def by_quadrature(X, y, prior):
    """The probability that a single column takes part, by adaptive quadrature."""
    z, v = (X - X.mean(0)) / X.std(0), y - y.mean()
    basis = np.linalg.qr(np.c_[np.ones(len(y)), np.eye(len(y))[:, 1:]])[0][:, 1:]

    def density(log_noise, log_slab, included):
        noise, slab = np.asarray(np.exp(log_noise)), np.asarray(np.exp(log_slab))
        cov = noise * np.eye(len(y) - 1)
        own = basis.T @ z
        cov = cov + slab * own @ own.T if included else cov
        like = stats.multivariate_normal(np.zeros(len(y) - 1), cov).pdf(basis.T @ v)
        return like * np.exp(
            prior.noise.log_prob_where_learned(noise) + prior.slab.log_prob_where_learned(slab)
        )

    ends = (-6.0, 3.0, -8.0, 5.0)
    options = {"epsabs": 0.0, "epsrel": 1e-3}
    mass = [
        integrate.dblquad(lambda a, b, k=k: density(a, b, k), *ends[2:], *ends[:2], **options)[0]
        for k in (0, 1)
    ]
    return mass[1] / sum(mass)


@pytest.mark.slow
def test_the_oracle_is_adaptive_quadrature():
    X, y = small(columns=1, rows=8)
    prior = weak_priors(X, y)
    assert abs(enumerated(X, y, prior).inclusion[0] - by_quadrature(X, y, prior)) < 0.01


def test_inclusion_is_that_of_all_models_averaged():
    """Under the priors of the default, over share, slab and noise; strong signals and weak."""
    for seed, noise in itertools.product((0, 1), (1, 3)):
        X, y = small(seed, rows=20, columns=4, noise=noise)
        exact = enumerated(X, y, weak_priors(X, y), points=21)
        model = fitted("default", X, y)
        away = np.abs(model.inclusion_probability_ - exact.inclusion)
        assert away.max() < 0.06, (seed, noise)
        assert abs(model.integrated_parameters_["prior.share"].median - exact.share) < 0.1


def test_columns_of_noise_are_not_told_to_matter():
    """Maximum evidence selects nearly all columns of this table; averages those that matter."""
    X, y, w = problem(*SIZES[1], 0)
    assert measured("learned", X, y, w)["wrong"] >= 2
    assert measured("default", X, y, w)["wrong"] == 0
    assert chosen_of(np.array([0.99, 0.2, 0.95])).tolist() == [0, 2]


@pytest.mark.slow
def test_few_of_the_selected_are_false_where_signals_are_weak():
    counts = np.zeros(2)
    for seed in range(15):
        found = measured("default", *problem(*SIZES[1], seed))
        counts += found["selected"], found["wrong"]
    assert counts[0] >= 10
    assert counts[1] / counts[0] <= 0.15


@pytest.mark.slow
def test_an_unsettled_average_says_so():
    """Of correlated columns and next to no noise sites need not settle."""
    random = np.random.default_rng(0)
    X = np.cumsum(random.standard_normal((20, 60)), axis=1)
    y = X[:, ::6].sum(axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = cavity.LinearRegressor().fit(X, y)
    assert model.converged_ or "sites did not converge" in model.message_
