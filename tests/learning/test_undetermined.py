"""Data that determine no parameter leave them where they started, and that is said."""

from typing import Any

import numpy as np
import pytest

import cavity
from cavity import kernels, likelihoods, means

X = np.linspace(0.0, 1.0, 12)[:, None]


def test_one_row_is_no_certainty():
    fitted = cavity.GPRegressor().fit([[0.0]], [3.0])
    names = ("kernel.variance", "kernel.lengthscale", "likelihood.variance", "mean.value")
    assert fitted.undetermined_ == names
    assert "the outputs do not vary" in fitted.message_
    assert fitted.converged_
    mean, std = fitted.predict([[0.0], [50.0]], return_std=True)
    np.testing.assert_allclose(mean, 3.0)
    assert std[0] > 0.5
    assert std[1] > 2.0


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t", "poisson"])
def test_outputs_that_do_not_vary_keep_what_parameters_start_from(likelihood):
    model: Any = cavity.GPRegressor(likelihood=likelihood).fit(X, np.zeros(12))
    start: Any = cavity.GPRegressor(likelihood=likelihood, max_iterations=0).fit(X, np.zeros(12))
    assert model.undetermined_
    assert float(model.kernel_.variance) == float(start.kernel_.variance)


def test_the_library_and_several_outputs():
    model = cavity.GP(kernels.RBF(1.0, 0.3), likelihoods.Gaussian(0.1), None, means.Constant(7.0))
    result: Any = cavity.fit(model, X, np.full(12, 7.0))
    assert result.undetermined
    assert float(result.model.likelihood.variance) == 0.1
    assert result.bijections.likelihood.variance.free  # further rows may determine it
    y = np.column_stack([np.sin(6.0 * X[:, 0]), np.full(12, 7.0)])
    assert not cavity.GPRegressor().fit(X, y).undetermined_


def test_a_constant_about_a_mean_of_zero_determines_something():
    model = cavity.GP(kernels.RBF(1.0, 0.3), likelihoods.Gaussian(0.1))
    assert not cavity.fit(model, X, np.full(12, 7.0)).undetermined
    assert cavity.fit(model, X, np.zeros(12)).undetermined
