"""A seeded part of the random models, and that their oracles notice a fault."""

import dataclasses

import jax
import numpy as np
import pytest
from benchmarks.fuzz import cases, checks, differences, gaussian, sites

import cavity
from cavity.kernels import RBF
from cavity.likelihoods import Bernoulli, Gaussian


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["full", "sparse", "sites"])
def test_random_models_agree_with_their_oracles(kind):
    for number in range(2):
        case = cases.draw(0, number, (kind,))
        found = checks.findings(case)
        assert not [finding for finding in found if finding.failed], str(case)
        assert {"evidence", "gradient"} <= {finding.check for finding in found}


def test_cases_are_the_same_again():
    one, other = (cases.draw(3, 17) for _ in range(2))
    assert str(one) == str(other)
    np.testing.assert_array_equal(one.X, other.X)


def test_sites_that_are_no_fixed_point_are_noticed():
    X, y = np.array([[0.0], [0.5], [1.0]]), np.array([0.0, 1.0, 1.0])
    model = cavity.GP(RBF(), Bernoulli())
    case = cases.Case("sites", model, X, y, X, cavity.PowerEP(), 0.5)
    ((store,),) = cavity.infer(model, X, y, power=0.5).found
    shift, precision = (np.asarray(x)[:3, 0] for x in (store.shift, store.precision))
    assert sites.judge(case, shift, precision, 0.0).gap < 1e-7
    assert sites.judge(case, 1.001 * shift, precision, 0.0).gap > 1e-5
    other = dataclasses.replace(case, power=0.6)
    assert sites.judge(other, shift, precision, 0.0).gap > 1e-5


def test_differences_have_the_digits_of_a_slope():
    """The slope of the evidence of one row in the logarithm of its noise, in closed form."""
    X, y = np.zeros((1, 1)), np.array([[0.7]])
    model = jax.tree.map(np.asarray, cavity.GP(RBF(2.0), Gaussian(0.5)))
    laid = gaussian.Laid(X, y, np.ones(1), np.arange(1), None, 0.0)
    scales = differences.natural_scales(model, (1.0, 1.0))
    slope, doubt = differences.gradient(lambda m: gaussian.log_evidence(m, laid), model, scales)
    expected = 0.5 * (0.7**2 / 2.5**2 - 1 / 2.5) * np.array([2.0, 0.0, 0.5])
    np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-12)
    assert np.all(doubt < 1e-8)


def test_a_finding_that_is_not_a_number_is_a_failure():
    assert checks.Finding("gradient", np.nan, 1e-5).failed
    assert not checks.Finding("gradient", np.nan, 1e-5, checks.UNDECIDED).failed
