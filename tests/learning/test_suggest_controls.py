"""Which controls to apply next: entropies of samples, and the information of trajectories."""

import jax
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.learning.active.sample_entropy import sample_entropy

NOISE = 0.01
R = np.random.default_rng(2)


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("neighbours", [1, 3])
def test_entropies_of_gaussian_samples_are_the_analytic_ones(size, neighbours):
    """Within three standard errors, from estimates of independent samples."""
    root = np.tril(R.standard_normal((size, size))) + 2.0 * np.eye(size)
    exact = 0.5 * size * np.log(2.0 * np.pi * np.e) + np.linalg.slogdet(root)[1]
    found = [
        sample_entropy(R.standard_normal((2_000, size)) @ root.T, neighbours) for _ in range(8)
    ]
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - exact) < 3.0 * error


def test_entropy_follows_scale_and_refuses_what_has_no_density():
    x = R.standard_normal(500)
    np.testing.assert_allclose(sample_entropy(2.0 * x), sample_entropy(x) + np.log(2.0))
    with pytest.raises(ValueError, match="has no density"):
        sample_entropy(np.zeros(50))
    with pytest.raises(ValueError, match="draw more"):
        sample_entropy(x[:3])
    with pytest.raises(ValueError, match="finite"):
        sample_entropy(np.append(x, np.nan))


def dynamics(kernel, X, y, mean=None, noise=NOISE):
    """The posterior of next states, at the parameters given."""
    model = cavity.GP(kernel, likelihoods.Gaussian(noise), inducing.Points(X), mean)
    return cavity.infer(model, X, y)


@pytest.mark.slow
def test_information_of_one_step_is_that_of_the_gaussian():
    """Half the log determinant of one plus signal over noise, for each control."""
    X = R.uniform(-1.0, 1.0, (8, 3))
    result = dynamics(kernels.RBF(0.5, 1.0), X, X[:, :2], means.Identity(2))
    controls = np.array([[0.0], [2.0], [4.0]])
    found = cavity.fitting.suggest_controls(result, np.zeros(2), controls, paths=6_000)
    inputs = np.column_stack([np.zeros((3, 2)), controls])
    var = np.asarray(result.posterior.marginals(inputs).var)
    exact = 0.5 * np.sum(np.log1p(var / NOISE), axis=1)
    np.testing.assert_allclose(found.information, exact, atol=0.08)
    assert found.best == np.argmax(exact)


def test_functions_are_consistent_along_a_trajectory():
    """A state that stays: one step after another sees one value of the function.

    With x' = f(u) + noise and one control, K outputs have the covariance v 11' + s I.
    """
    X = np.column_stack([np.zeros(3), [3.0, 4.0, 5.0]])
    kernel = kernels.Active(kernels.RBF(0.5, 1.0), [1])
    result = dynamics(kernel, X, np.zeros((3, 1)))
    controls = np.zeros((1, 3))
    found = cavity.fitting.suggest_controls(result, np.zeros(1), controls, paths=6_000)
    v = float(np.asarray(result.posterior.marginals(np.zeros((1, 2))).var)[0, 0])
    np.testing.assert_allclose(found.information[0], 0.5 * np.log1p(3.0 * v / NOISE), atol=0.15)


def test_misuse_of_controls_is_refused():
    X = R.uniform(-1.0, 1.0, (8, 3))
    result = dynamics(kernels.RBF(0.5, 1.0), X, X[:, :2])
    ok = np.zeros((2, 3, 1))
    with pytest.raises(ValueError, match="1 are controls; given 2"):
        cavity.fitting.suggest_controls(result, np.zeros(2), np.zeros((2, 3, 2)))
    with pytest.raises(ValueError, match="at least one step"):
        cavity.fitting.suggest_controls(result, np.zeros(2), ok[:0])
    with pytest.raises(ValueError, match="NaN"):
        cavity.fitting.suggest_controls(result, np.zeros(2), ok * np.nan)
    with pytest.raises(ValueError, match="1 column"):
        cavity.fitting.suggest_controls(result, np.zeros(1), ok)
    full = cavity.infer(cavity.GP(kernels.RBF(), likelihoods.Gaussian()), X, X[:, :2])
    with pytest.raises(TypeError, match=r"inducing=cavity\.inducing\.Points"):
        cavity.fitting.suggest_controls(full, np.zeros(2), ok)
    with pytest.raises(TypeError, match=r"of a cavity\.GP, given str"):
        cavity.fitting.suggest_controls("model", np.zeros(2), ok)
