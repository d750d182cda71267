"""Draws of inputs that are known up to Gaussian noise, against sums over a grid of inputs."""

import itertools
from typing import Any, cast

import jax
import jaxtyping
import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.learning.failures import NumericalError
from tests.oracle import dense

VARIANCE, LENGTHSCALE, NOISE, LEVEL = 1.2, 0.8, 0.1, 0.3
MODEL = cavity.GP(
    kernels.RBF(VARIANCE, LENGTHSCALE), likelihoods.Gaussian(NOISE), mean=means.Constant(LEVEL)
)
HELD = pytest.mark.parametrize("hold", ["function", "values"])
CHAINS = 300
SAMPLER = cavity.MCMC(draws=60, warmup=60, chains=CHAINS, keep=1)


def rbf(X):
    return VARIANCE * np.exp(-0.5 * ((X[:, :, None] - X[:, None]) / LENGTHSCALE) ** 2)


def on_a_grid(mean, var, Y, covariance=rbf, level=LEVEL):
    """Posterior moments of inputs, of their products and of the function's values there.

    Sums over the means and variances of one column of inputs, the function integrated out.
    """
    nodes = np.linspace(-4.0, 4.0, 61 if len(mean) < 3 else 33)
    grid = np.array(list(itertools.product(nodes, repeat=len(mean))))
    X = mean + np.sqrt(var) * grid
    K = covariance(X)
    C = K + NOISE * np.eye(len(mean))
    R = np.broadcast_to(Y - level, (len(X), *Y.shape))
    solved = np.linalg.solve(C, R)
    log_weights = stats.norm.logpdf(grid).sum(1) - 0.5 * np.einsum("rnp,rnp->r", R, solved)
    log_weights -= 0.5 * Y.shape[1] * np.linalg.slogdet(C)[1]
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    values = level + K @ solved
    spread = np.einsum("rnn->rn", K) - np.einsum("rnm,rmn->rn", K, np.linalg.solve(C, K))
    return {
        "x": weights @ X,
        "x²": weights @ X**2,
        "x₁x₂": weights @ (X[:, 0] * X[:, 1]),
        "f": np.einsum("r,rnp->np", weights, values),
        "f²": np.einsum("r,rnp->np", weights, values**2 + spread[:, :, None]),
    }


def drawn_moments(found):
    """The same moments from draws, a row for each chain."""
    X = found.inputs[..., 0]
    F = found.values.reshape(*X.shape, -1)
    of_draws = {"x": X, "x²": X**2, "x₁x₂": X[..., 0] * X[..., 1], "f": F, "f²": F**2}
    return {name: draws.mean(axis=1) for name, draws in of_draws.items()}


def assert_alike(found, expected, most):
    """Moments within what the scatter of chains allows, which is small enough to say something."""
    for name, means_of_chains in drawn_moments(found).items():
        error = means_of_chains.std(axis=0) / np.sqrt(CHAINS)
        miss = np.abs(means_of_chains.mean(axis=0) - expected[name])
        assert np.all(miss < 4.0 * error), (name, miss / error)
        assert np.all(error < most), (name, error)


@pytest.mark.sampled(1)
@HELD
@pytest.mark.parametrize("rows", [2, 3])
def test_moments_are_those_of_a_grid(hold, rows):
    """Identity vanderwilk T67: both formulations, with errors from the scatter of chains."""
    mean, var = np.array([-0.4, 0.5, 1.0])[:rows], np.array([0.5, 0.3, 0.2])[:rows]
    Y = np.array([[1.4, -0.6], [0.2, 0.8], [-0.5, 0.9]])[:rows]
    found = cavity.fitting.draw_inputs(
        MODEL, mean[:, None], var[:, None], Y, hold=hold, sampler=SAMPLER, jitter=1e-9
    )
    assert found.inputs.shape == (CHAINS, 60, rows, 1)
    expected = on_a_grid(mean, var, Y)
    assert_alike(found, expected, most=0.03)
    np.testing.assert_allclose(found.mean[:, 0], expected["x"], atol=0.05)
    spread = expected["x²"] - expected["x"] ** 2
    np.testing.assert_allclose(found.var[:, 0], spread, rtol=0.15)


@pytest.mark.slow
def test_latent_inputs_of_a_linear_kernel():
    """The kernel has no variance at the means of the inputs, and the nugget is not that."""
    mean, var = np.zeros(2), np.ones(2)
    Y = np.array([[0.9, -0.2], [0.5, 0.3]])
    model = cavity.GP(kernels.Linear(VARIANCE), likelihoods.Gaussian(NOISE))
    found = cavity.fitting.draw_inputs(model, mean[:, None], var[:, None], Y, sampler=SAMPLER)
    expected = on_a_grid(mean, var, Y, lambda X: VARIANCE * X[:, :, None] * X[:, None], 0.0)
    assert_alike(found, expected, most=0.08)


@pytest.mark.slow
@HELD
def test_one_row_says_nothing_of_its_input(hold):
    """Identity vanderwilk T67: under a stationary kernel the posterior is the prior.

    Without the ratio of the priors (X-22) a walk would have no bounds.
    """
    found = cavity.fitting.draw_inputs(MODEL, [[2.0]], [[0.25]], [1.7], hold=hold, sampler=SAMPLER)
    last = found.inputs[:, -1, 0, 0]
    assert stats.kstest(last, "norm", (2.0, 0.5)).pvalue > 1e-3
    assert found.values.shape == (CHAINS, 60, 1)


@pytest.mark.slow
@HELD
def test_known_inputs_stay_and_their_values_are_those_of_regression(hold):
    X, y = np.linspace(-1.0, 1.0, 5)[:, None] ** 3, np.array([0.1, 0.9, 0.4, -0.3, 0.2])
    found = cavity.fitting.draw_inputs(MODEL, X, np.zeros_like(X), y, hold=hold, sampler=SAMPLER)
    np.testing.assert_array_equal(found.inputs, np.broadcast_to(X, (CHAINS, 60, 5, 1)))
    exact = cavity.infer(MODEL, X, y).posterior.marginals(X)
    values = found.values.reshape(-1, 5)
    error = np.sqrt(exact.var / len(values))
    assert np.all(np.abs(values.mean(axis=0) - exact.mean) < 4.5 * error)
    np.testing.assert_allclose(values.var(axis=0), exact.var, rtol=0.05)


@pytest.mark.slow
def test_columns_and_outputs_have_variances_of_their_own():
    """An input column without influence keeps its prior; noise differs between outputs."""
    model = cavity.GP(
        kernels.RBF(VARIANCE, LENGTHSCALE).on(0), likelihoods.Gaussian(np.array([0.05, 50.0]))
    )
    mean, var = np.array([[-0.5, 1.0], [0.5, -1.0]]), np.array([[0.3, 0.04], [0.3, 0.09]])
    Y = np.array([[1.0, 9.0], [-1.0, -9.0]])
    found = cavity.fitting.draw_inputs(model, mean, var, Y, sampler=SAMPLER)
    np.testing.assert_allclose(found.mean[:, 1], mean[:, 1], atol=0.02)
    np.testing.assert_allclose(found.var[:, 1], var[:, 1], rtol=0.1)
    one = cavity.GP(model.kernel, likelihoods.Gaussian(0.05))
    alone = cavity.fitting.draw_inputs(one, mean, var, Y[:, 0], sampler=SAMPLER)
    # the second output is next to noise
    np.testing.assert_allclose(found.mean[:, 0], alone.mean[:, 0], atol=0.08)


@pytest.mark.slow
def test_draws_of_chains_with_one_seed_are_alike():
    few = cavity.MCMC(draws=20, warmup=5, chains=2, keep=1, seed=3)
    data = [[0.0], [1.0]], [[0.1], [0.2]], [0.3, -0.4]
    first, second = (cavity.fitting.draw_inputs(MODEL, *data, sampler=few) for _ in range(2))
    np.testing.assert_array_equal(first.inputs, second.inputs)
    assert first.acceptance.shape == (2, 2)
    assert first.rhat().shape == first.ess().shape == (2, 1)
    assert not np.any(first.known)


@pytest.mark.slow
def test_known_inputs_have_converged():
    few = cavity.MCMC(draws=20, warmup=5, chains=2, keep=1)
    var = [[0.1, 0.0], [0.0, 0.0]]
    found = cavity.fitting.draw_inputs(MODEL, np.eye(2), var, [0.3, -0.4], sampler=few)
    np.testing.assert_array_equal(found.known, np.array(var) == 0.0)
    np.testing.assert_array_equal(found.rhat()[found.known], 1.0)
    np.testing.assert_array_equal(found.ess()[found.known], 40.0)
    assert np.all(np.isfinite(found.rhat()))
    assert found.ess()[0, 0] != 40.0


def test_what_is_refused():
    data = [[0.0], [1.0]], [[0.1], [0.2]], [0.3, -0.4]
    with pytest.raises(ValueError, match='"function" or "values"'):
        cavity.fitting.draw_inputs(MODEL, *data, hold="neither")
    with pytest.raises(ValueError, match="not negative"):
        cavity.fitting.draw_inputs(MODEL, data[0], [[0.1], [-0.2]], data[2])
    with pytest.raises(ValueError, match="shape of mean"):
        cavity.fitting.draw_inputs(MODEL, data[0], [0.1, 0.2], data[2])
    with pytest.raises(ValueError, match="2 rows"):
        cavity.fitting.draw_inputs(MODEL, *data[:2], [0.3])
    sparse = cavity.GP(MODEL.kernel, MODEL.likelihood, inducing.Points([[0.0]]))
    with pytest.raises(ValueError, match="leave inducing out"):
        cavity.fitting.draw_inputs(sparse, *data)
    with pytest.raises(ValueError, match="StudentT"):
        cavity.fitting.draw_inputs(cavity.GP(MODEL.kernel, likelihoods.StudentT()), *data)


FEW = cavity.MCMC(draws=20, warmup=5, chains=2, keep=1)


@pytest.mark.slow
@HELD
def test_draws_are_finite_or_refused(hold):
    smooth = cavity.GP(kernels.RBF(1.0, 8.0), likelihoods.Gaussian(0.1))
    mean, y = np.zeros((6, 1)), np.arange(6.0)
    with pytest.raises(NumericalError, match="jitter of 0 of the mean"):
        cavity.fitting.draw_inputs(smooth, mean, mean + 0.1, y, hold=hold, sampler=FEW, jitter=0)
    with pytest.raises(NumericalError, match="equal inputs"):
        cavity.fitting.draw_inputs(smooth, mean, mean, y, hold=hold, sampler=FEW, jitter=0)
    found = cavity.fitting.draw_inputs(smooth, mean, mean + 0.1, y, hold=hold, sampler=FEW)
    assert np.all(np.isfinite(found.values))


@pytest.fixture
def without_type_checks(monkeypatch):
    """Users have none: the checks of the library itself must say what is wrong."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("jitter", [-1.0, np.nan, np.inf, "small"])
def test_jitter_is_a_share(jitter):
    with pytest.raises(ValueError, match="finite number of at least 0"):
        cavity.fitting.draw_inputs(MODEL, [[0.0]], [[1.0]], [0.3], sampler=FEW, jitter=jitter)


def test_single_precision_is_refused():
    data = [[0.0], [1.0]], [[0.1], [0.2]], [0.3, -0.4]
    with jax.enable_x64(False):
        with pytest.raises(TypeError, match="64-bit numbers"):
            cavity.fitting.draw_inputs(MODEL, *data)
        with pytest.raises(TypeError, match="mean is float64"):
            cavity.fitting.draw_inputs(MODEL, np.array(data[0]), *data[1:])
    single = [np.array(a, np.float32) for a in data]
    with pytest.raises(TypeError, match="64-bit numbers"):
        cavity.fitting.draw_inputs(MODEL, *single)


@pytest.mark.usefixtures("without_type_checks")
def test_other_models_and_samplers_are_refused():
    data = [[0.0], [1.0]], [[0.1], [0.2]], [0.3, -0.4]
    linear: Any = cavity.LinearModel(cavity.weights.Laplace(), likelihoods.Gaussian())
    named, method = cast(Any, "mcmc"), cast(Any, cavity.PowerEP())
    with pytest.raises(TypeError, match="Gaussian process, given LinearModel"):
        cavity.fitting.draw_inputs(linear, *data)
    with pytest.raises(TypeError, match="given 'mcmc'"):
        cavity.fitting.draw_inputs(MODEL, *data, sampler=named)
    with pytest.raises(TypeError, match=r"cavity.MCMC\(...\), given PowerEP"):
        cavity.fitting.draw_inputs(MODEL, *data, sampler=method)
    with pytest.raises(TypeError, match=r"cavity.MCMC\(...\), given PowerEP"):
        cavity.sample(MODEL, data[0], data[2], method)


@pytest.mark.parametrize("outputs", [1, 3])
def test_outputs_are_those_of_noise_and_mean(outputs):
    y = np.ones((2, outputs))
    noisy = cavity.GP(kernels.RBF(), likelihoods.Gaussian(np.array([0.1, 0.2])))
    with pytest.raises(ValueError, match=f"shape \\(2,\\), y has {outputs} output"):
        cavity.fitting.draw_inputs(noisy, [[0.0], [1.0]], [[0.1], [0.2]], y)
    apart = cavity.GP(kernels.RBF(), likelihoods.Gaussian(), mean=means.Constant([1.0, 2.0]))
    with pytest.raises(ValueError, match=f"2 values for each input, y has {outputs} output"):
        cavity.fitting.draw_inputs(apart, [[0.0], [1.0]], [[0.1], [0.2]], y)
    nothing = cavity.GP(kernels.RBF(), likelihoods.Gaussian(0.0))
    with pytest.raises(ValueError, match="domain is positive"):
        cavity.fitting.draw_inputs(nothing, [[0.0], [1.0]], [[0.1], [0.2]], y)


def test_noisy_inducing_variables_leave_a_gap():
    """Identity vanderwilk T64: why inducing variables must be functionals of the function.

    Item 74: with noise on the inducing variables, which is what jitter is, the bound stays below
    the evidence with an inducing point at every input, and reaches it as the noise vanishes.
    """
    X, y = np.linspace(-2.0, 2.0, 6)[:, None], np.array([0.3, 1.2, 0.4, -0.8, -0.2, 0.9])
    K = dense.rbf(X, X, VARIANCE, LENGTHSCALE)
    evidence = stats.multivariate_normal(np.zeros(6), K + NOISE * np.eye(6)).logpdf(y)
    model = cavity.GP(
        kernels.RBF(VARIANCE, LENGTHSCALE), likelihoods.Gaussian(NOISE), inducing.Points(X)
    )
    gaps = []
    for share in (1e-3, 1e-5, 1e-7):
        Q = K @ np.linalg.solve(K + share * VARIANCE * np.eye(6), K)
        bound = stats.multivariate_normal(np.zeros(6), Q + NOISE * np.eye(6)).logpdf(y)
        bound -= 0.5 * np.trace(K - Q) / NOISE
        found = cavity.infer(model, X, y, power=0.0, jitter=share)
        assert found.jitter == share
        np.testing.assert_allclose(found.log_evidence, bound, rtol=1e-8)
        gaps.append(evidence - bound)
    assert gaps[0] > 100 * gaps[2] > 0.0
    np.testing.assert_array_less(np.diff(gaps), 0.0)
