"""The regressor where the noise level is a function of the inputs too."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import cavity
from cavity import kernels
from cavity.likelihoods import HeteroscedasticGaussian

pytestmark = pytest.mark.x32

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0.0, 10.0, (60, 1)), axis=0)
SD = np.exp(0.4 * X[:, 0] - 4.0)
Y = np.sin(X[:, 0]) + SD * RNG.standard_normal(60)
NEW = np.array([[1.0], [9.0]])
FAST = {"likelihood": "heteroscedastic", "power": 0.0, "random_state": 0}


def fitted(y=Y, inputs=X, **setting):
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        return cavity.GPRegressor(**FAST | {"max_iterations": 6} | setting).fit(inputs, y)


@pytest.fixture(scope="module")
def model():
    return fitted()


def test_the_noise_level_follows_the_inputs(model):
    mean, std = model.predict(NEW, return_std=True)
    latent, latent_std = model.predict_latent(NEW, return_std=True)
    np.testing.assert_allclose(mean, latent, rtol=1e-9)
    noise = np.sqrt(std**2 - latent_std**2)
    assert noise[1] > 4.0 * noise[0]
    assert [type(kernel) for kernel in model.kernel_] == [kernels.RBF, kernels.RBF]
    assert isinstance(model.likelihood_, HeteroscedasticGaussian)
    assert model.score(X, Y) > 0.7


@pytest.mark.slow
def test_the_ways_to_predict_agree(model):
    mean, std = model.predict(NEW, return_std=True)
    same, cov = model.predict(NEW, return_cov=True)
    np.testing.assert_allclose(same, mean, rtol=1e-9)
    np.testing.assert_allclose(np.diagonal(cov), std**2, rtol=1e-9)
    latent, joint = model.predict_latent(NEW, return_cov=True)
    assert latent.shape == (2,)
    assert joint.shape == (2, 2)
    low, middle, high = model.predict_quantiles(NEW, [0.05, 0.5, 0.95]).T
    np.testing.assert_allclose(middle, mean, atol=1e-6)
    draws = model.sample_y(NEW, 4000, random_state=1)
    assert draws.shape == (2, 4000)
    np.testing.assert_allclose(np.mean(draws < low[:, None], axis=1), 0.05, atol=0.02)
    np.testing.assert_allclose(np.mean(draws > high[:, None], axis=1), 0.05, atol=0.02)
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.1)
    grid = np.linspace(mean[1] - 20 * std[1], mean[1] + 20 * std[1], 2001)
    density = np.exp(model.log_predictive_density(np.repeat(NEW[1:], 2001, axis=0), grid))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-3)


def test_units_of_the_data(model):
    """Outputs in other units give the same model in those units."""
    other = fitted(1e4 * Y + 3e4)
    shift = 60 * np.log(1e4)
    assert other.log_evidence_ == pytest.approx(model.log_evidence_ - shift, rel=1e-5)
    mean, std = model.predict(NEW, return_std=True)
    moved, wider = other.predict(NEW, return_std=True)
    np.testing.assert_allclose(moved, 1e4 * mean + 3e4, rtol=1e-5)
    np.testing.assert_allclose(wider, 1e4 * std, rtol=1e-4)


def test_starting_values():
    """They are those of a regression with the same noise everywhere."""
    start = fitted(max_iterations=0)
    plain = cavity.GPRegressor(random_state=0, max_iterations=0).fit(X, Y)
    spread = start.output_scale_[0]
    assert spread == pytest.approx(np.std(Y))
    level = np.exp(float(start.mean_[1].value)) * spread**2
    assert level == pytest.approx(float(plain.likelihood_.variance), rel=1e-6)
    np.testing.assert_allclose(start.kernel_[0].lengthscale, plain.kernel_.lengthscale)
    assert float(start.kernel_[1].variance) == 1.0


@pytest.mark.slow
def test_objects_are_taken_as_they_are():
    kernel = kernels.RBF(0.8, [1.5])
    given = fitted(kernel=kernel, likelihood=HeteroscedasticGaussian(), max_iterations=0)
    assert given.output_scale_ == 1.0
    for part in given.kernel_:
        assert float(part.variance) == 0.8
    assert given.score(X, Y) > 0.5


@pytest.mark.slow
def test_a_column_of_outputs_and_inducing_points():
    column = fitted(Y[:, None], n_inducing=12, max_iterations=2)
    assert column.inducing_.size == 12
    mean, std = column.predict(NEW, return_std=True)
    assert mean.shape == std.shape == (2, 1)
    assert column.predict_latent(NEW).shape == (2, 1)
    assert column.predict_quantiles(NEW, [0.1, 0.9]).shape == (2, 1, 2)
    assert column.sample_y(NEW, 3).shape == (2, 1, 3)
    assert column.predict(NEW, return_cov=True)[1].shape == (2, 2, 1)


def test_what_it_does_not_do():
    with pytest.raises(ValueError, match=r"'heteroscedastic' takes one output, y has 2"):
        fitted(np.column_stack([Y, Y]))
    with pytest.raises(ValueError, match=r"'heteroscedastic' reads no side data"):
        cavity.GPRegressor(**FAST).fit(X, Y, noise_variance=np.ones(60))
