"""Numbers that are known otherwise: scikit-learn's Gaussian process, and changes of units."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import cavity
from cavity.initialisation import Inducing
from tests.estimators.problem import problem

pytestmark = pytest.mark.x32

NEW = problem(seed=9, rows=25)[0]
SETTINGS = pytest.mark.parametrize(
    "setting",
    [{}, {"n_inducing": 10, "inducing": Inducing(learn=False), "random_state": 0}],
    ids=["full", "sparse"],
)


def test_evidence_and_predictions_equal_those_of_scikit_learn():
    X, y = problem()
    ours = cavity.GPRegressor(mean="zero").fit(X, y)
    kernel = ConstantKernel(float(ours.kernel_.variance)) * RBF(ours.kernel_.lengthscale)
    noise = WhiteKernel(float(ours.likelihood_.variance))
    theirs = GaussianProcessRegressor(kernel + noise, alpha=0.0, optimizer=None).fit(X, y)
    assert ours.log_evidence_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-8)
    for a, b in zip(
        ours.predict(NEW, return_std=True), theirs.predict(NEW, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    found, expected = (m.predict(NEW, return_cov=True)[1] for m in (ours, theirs))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


def test_learning_finds_the_maximum_that_scikit_learn_finds():
    X, y = problem()
    ours = cavity.GPRegressor(mean="zero", priors="none").fit(X, y)
    kernel = ConstantKernel(1.0) * RBF(np.ones(2)) + WhiteKernel(0.1)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=3, random_state=0)
    theirs.fit(X, y)
    assert ours.log_evidence_ > theirs.log_marginal_likelihood_value_ - 0.01
    found = [float(ours.kernel_.variance), *ours.kernel_.lengthscale]
    found.append(float(ours.likelihood_.variance))
    # the order of theta: the constant, the lengthscales, the noise
    np.testing.assert_allclose(found, np.exp(theirs.kernel_.theta), rtol=0.05)


@pytest.mark.sampled(1)
@SETTINGS
@pytest.mark.parametrize("mean", ["constant", "linear"])
def test_everything_is_in_the_units_of_the_data(setting, mean):
    """Other units and origins change parameters and evidence as they must, and nothing else.

    As far as learning goes: it ends when it gains next to nothing, not at one exact point.
    """
    X, y = problem()
    x_unit, x_origin, unit, origin = np.array([1e-4, 300.0]), np.array([5.0, -1e3]), 1e3, 2e4
    plain = cavity.GPRegressor(mean=mean, **setting).fit(X, y)
    other = cavity.GPRegressor(mean=mean, **setting).fit(X * x_unit + x_origin, y * unit + origin)
    assert other.log_evidence_ == pytest.approx(plain.log_evidence_ - 60 * np.log(unit), abs=1e-2)
    found, expected = other.kernel_, plain.kernel_
    np.testing.assert_allclose(found.lengthscale / x_unit, expected.lengthscale, rtol=0.02)
    np.testing.assert_allclose(found.variance / unit**2, expected.variance, rtol=0.02)
    noise, expected = other.likelihood_.variance, plain.likelihood_.variance
    np.testing.assert_allclose(noise / unit**2, expected, rtol=0.02)
    predicted = other.predict(NEW * x_unit + x_origin, return_std=True)
    mean, std = plain.predict(NEW, return_std=True)
    np.testing.assert_allclose((predicted[0] - origin) / unit, mean, atol=1e-3)
    np.testing.assert_allclose(predicted[1] / unit, std, rtol=5e-3)


@SETTINGS
def test_predictions_in_other_units_are_equal_at_equal_parameters(setting):
    """Powers of two change nothing but exponents, so only sums may round differently.

    Logarithms of parameters round differently too: both searches go on to the maximum.
    """
    X, y = problem()
    setting = setting | {"tolerance": 1e-10}
    plain = cavity.GPRegressor(**setting).fit(X, y)
    other = cavity.GPRegressor(**setting).fit(X * [2.0**-13, 2.0**8], y * 2.0**10)
    predicted = other.predict(NEW * [2.0**-13, 2.0**8], return_std=True)
    for a, b in zip(predicted, plain.predict(NEW, return_std=True), strict=True):
        np.testing.assert_allclose(a / 2.0**10, b, rtol=1e-6, atol=1e-6)
    assert other.log_evidence_ == pytest.approx(plain.log_evidence_ - 600 * np.log(2), abs=1e-6)


def test_far_from_the_data_predictions_return_to_the_prior():
    X, y = problem()
    model = cavity.GPRegressor().fit(X, y)
    mean, std = model.predict(NEW + 1e6, return_std=True)
    np.testing.assert_allclose(mean, float(model.mean_.value), atol=1e-9)
    prior = float(model.kernel_.variance + model.likelihood_.variance)
    np.testing.assert_allclose(std**2, prior, rtol=1e-9)


@SETTINGS
def test_predictions_do_not_depend_on_their_company(setting):
    """A distant row among the new ones must not cost the others their digits."""
    X, y = problem()
    model = cavity.GPRegressor(**setting).fit(X, y)
    alone = model.predict(NEW, return_std=True)
    among = model.predict(np.concatenate([NEW, [[1e9, -1e9]]]), return_std=True)
    for a, b in zip(among, alone, strict=True):
        np.testing.assert_allclose(a[:-1], b, rtol=1e-9, atol=1e-9)
    one_by_one = np.concatenate([model.predict(NEW[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(one_by_one, alone[0][:5], rtol=1e-9, atol=1e-9)
