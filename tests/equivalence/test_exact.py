"""The full GP against direct conditioning, weight space, chains, samples and scikit-learn."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.kernels import AbstractKernel
from cavity.numerics.types import Array, Float
from cavity.parameters import positive, real
from tests.equivalence.problem import POWERS, problem, with_mean
from tests.oracle import dense
from tests.tolerances import assert_close

FEW = 8  # up to 8 rows share one compiled program


class Basis(AbstractKernel):
    """A finite sum of bumps with independent normal weights: degenerate."""

    weight_variance: Float[Array, ""] = positive(output=2)
    centres: Float[Array, " M"] = real(input=1, location=True)

    def features(self, X):
        return jnp.exp(-0.5 * (X - self.centres) ** 2)

    def cross(self, X, Z):
        return self.weight_variance * self.features(X) @ self.features(Z).T

    def diag(self, X):
        return self.weight_variance * jnp.sum(self.features(X) ** 2, axis=1)


def full(kernel, noise=0.1):
    return cavity.GP(kernel, cavity.likelihoods.Gaussian(noise))


@pytest.fixture(scope="module")
def small():
    """Eight rows of one input: (X, y, test inputs)."""
    rng = np.random.default_rng(4)
    X = np.sort(rng.uniform(-3, 3, (FEW, 1)), axis=0)
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=FEW), np.linspace(-4, 4, 7)[:, None]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("setting", [problem, with_mean], ids=["plain", "mean, known noise"])
@pytest.mark.parametrize("power", POWERS)
def test_bui_01_direct_conditioning(setting, power):
    """bui 1, vanderwilk T32: evidence and posterior, whatever the power."""
    p = setting().but(Z=None)
    result = p.infer(power)
    assert_close(result.log_evidence, p.exact(), "factorised")
    mean, cov = p.exact_posterior()
    joint, marginals = result.posterior.joint(p.S), result.posterior.marginals(p.S)
    assert_close(joint.mean, mean, "factorised")
    assert_close(joint.cov, cov, "factorised", scale=1.0)
    assert_close(marginals.mean, mean, "factorised")
    assert_close(marginals.var, np.diag(cov), "factorised", scale=1.0)


def test_bui_01_noise_free_observations_are_interpolated(small):
    """bui 1: with next to no noise the posterior goes through the data."""
    X, y, _ = small
    posterior = cavity.infer(full(cavity.kernels.Matern32(), 1e-12), X, y).posterior
    mean, var = posterior.marginals(X)
    np.testing.assert_allclose(mean, y, atol=1e-8)
    assert np.all((var >= 0.0) & (var < 1e-9))


def test_vanderwilk_t01_weight_view_is_function_view(small):
    """vanderwilk T1 (items 6 and 7): the same predictions and evidence."""
    X, y, S = small
    kernel, noise = Basis(0.7, np.linspace(-3, 3, 5)), 0.1
    result = cavity.infer(full(kernel, noise), X, y)
    F, G = np.asarray(kernel.features(X)), np.asarray(kernel.features(S))
    cov_w = np.linalg.inv(F.T @ F / noise + np.eye(5) / 0.7)
    mean_w = cov_w @ F.T @ y / noise
    joint = result.posterior.joint(S)
    assert_close(joint.mean, G @ mean_w, "factorised", scale=1.0)
    assert_close(joint.cov, G @ cov_w @ G.T, "factorised", scale=1.0)
    # log p(y) = log p(y | w) + log p(w) - log p(w | y), at any w
    w = mean_w
    evidence = dense.gaussian_log_density(y, F @ w, noise * np.eye(FEW))
    evidence += dense.gaussian_log_density(w, np.zeros(5), 0.7 * np.eye(5))
    evidence -= dense.gaussian_log_density(w, mean_w, cov_w)
    assert_close(result.log_evidence, evidence, "factorised")


def test_vanderwilk_t02_degenerate_kernels_run_out(small):
    """vanderwilk T2: rank at most M, so row M + 1 is known; never so for a universal kernel."""
    order = np.array([0, 4, 7, 1, 2, 3, 5, 6])
    X, y = small[0][order], small[1][order]
    basis = Basis(0.7, np.linspace(-2, 2, 3))
    assert np.linalg.matrix_rank(np.asarray(basis.cross(X, X)), tol=1e-10) == 3
    last = {}
    for name, kernel in (("basis", basis), ("rbf", cavity.kernels.RBF())):
        left = [
            cavity.infer(full(kernel, 1e-10), X[:n], y[:n]).posterior.marginals(X[n:]).var
            for n in (2, 3)
        ]
        assert np.all(left[0] > 1e-6)
        last[name] = left[1]
    assert np.all(last["basis"] < 1e-6)
    assert np.all(last["rbf"] > 1e-4)


def test_vanderwilk_t03_what_noise_free_rows_leave_is_a_projection(small):
    """vanderwilk T3 (item 8): weights keep their variance off the rows seen, none once N = M."""
    X, y, S = small
    kernel = Basis(0.7, np.linspace(-2, 2, 3))
    F, G = np.asarray(kernel.features(X)), np.asarray(kernel.features(S))
    for n in (1, 2, 3):
        rows = F[[0, 4, 7][:n]]
        off = np.eye(3) - rows.T @ np.linalg.solve(rows @ rows.T, rows)
        assert_close(off @ off, off, "factorised", scale=1.0)
        chosen = [0, 4, 7][:n]
        posterior = cavity.infer(full(kernel, 1e-11), X[chosen], y[chosen]).posterior
        cov = posterior.joint(S).cov
        np.testing.assert_allclose(cov, 0.7 * G @ off @ G.T, atol=1e-6)
    assert np.max(np.abs(off)) < 1e-10


def test_vanderwilk_t04_marginals_are_consistent():
    """vanderwilk T4: a sub-block of a joint distribution is the joint of the sub-block."""
    p = problem()
    for model in (p, p.but(Z=None)):
        posterior = model.infer().posterior
        whole, part = posterior.joint(p.S), posterior.joint(p.S[[1, 4]])
        assert_close(part.mean, whole.mean[jnp.array([1, 4])], "factorised")
        assert_close(part.cov, whole.cov[jnp.ix_(jnp.array([1, 4]), jnp.array([1, 4]))])


@pytest.mark.parametrize("order", [np.arange(FEW), np.array([5, 2, 7, 0, 1, 6, 3, 4])])
def test_vanderwilk_t05_evidence_is_a_chain_of_predictions(small, order):
    """vanderwilk T5 (item 12): log p(y) is the sum of one-step-ahead densities in any order."""
    X, y, _ = small
    X, y, model = X[order], y[order], full(cavity.kernels.Matern52())
    total = dense.gaussian_log_density(y[:1], np.zeros(1), np.array([[1.1]]))
    for n in range(1, FEW):
        predictive = cavity.infer(model, X[:n], y[:n]).posterior.predict(X[n : n + 1])
        total += float(predictive.log_density(y[n : n + 1])[0])
    assert_close(cavity.infer(model, X, y).log_evidence, total, "factorised")


def test_vanderwilk_t06_posterior_then_prior_conditional(small):
    """vanderwilk T6: predictions compose p(f | y) with the prior's p(f* | f)."""
    X, y, S = small
    kernel = cavity.kernels.Matern32(1.3, 0.9)
    posterior = cavity.infer(full(kernel), X, y).posterior
    cross = eqx.filter_jit(kernel.cross)
    (m, V), Kfs = map(np.asarray, posterior.joint(X)), np.asarray(cross(X, S))
    W = np.linalg.solve(np.asarray(cross(X, X)), Kfs).T
    joint = posterior.joint(S)
    assert_close(joint.mean, W @ m, "factorised", scale=1.0)
    cov = np.asarray(cross(S, S)) - W @ Kfs + W @ V @ W.T
    assert_close(joint.cov, cov, "factorised", scale=1.0)


def test_vanderwilk_t07_evidence_is_the_mean_likelihood_of_prior_samples(small, rng):
    """vanderwilk T7 (item 13): within three standard errors."""
    X, y, _ = small
    X, y, noise = X[::3], y[::3], 0.3
    kernel = cavity.kernels.RBF(1.3, 0.8)
    K = np.asarray(kernel.cross(X, X))
    f = rng.standard_normal((200_000, len(y))) @ np.linalg.cholesky(K).T
    likelihood = np.prod(np.exp(-0.5 * (y - f) ** 2 / noise) / np.sqrt(2 * np.pi * noise), axis=1)
    error = likelihood.std() / np.sqrt(len(f))
    evidence = np.exp(cavity.infer(full(kernel, noise), X, y).log_evidence)
    assert abs(likelihood.mean() - evidence) < 3 * error


def test_vanderwilk_t08_many_bumps_are_an_rbf(small):
    """vanderwilk T8: a dense grid of unit bumps is an RBF of lengthscale sqrt 2."""
    X, y, S = small
    grid = np.linspace(-14, 14, 281)
    # sum of bumps: step⁻¹ ∫ exp(-(x-c)²/2 - (x'-c)²/2) dc = step⁻¹ sqrt(π) exp(-(x-x')²/4)
    bumps = Basis((grid[1] - grid[0]) / np.sqrt(np.pi), grid)
    results = [
        cavity.infer(full(kernel), X, y)
        for kernel in (bumps, cavity.kernels.RBF(1.0, np.sqrt(2.0)))
    ]
    assert_close(results[0].log_evidence, results[1].log_evidence, "factorised")
    means = [r.posterior.joint(S).mean for r in results]
    assert_close(*means, "factorised", scale=1.0)


def test_vanderwilk_t71_limits_of_the_lengthscale(small):
    """vanderwilk T71: tiny lengthscales are white noise, huge ones constant functions."""
    X, y, S = small
    white = full(cavity.kernels.RBF(1.3, 1e-4))
    evidence = cavity.infer(white, X, y).log_evidence
    assert_close(cavity.infer(white, X, y[::-1].copy()).log_evidence, evidence, "factorised")
    variance = (1.3 + 0.1) * np.eye(FEW)
    assert_close(evidence, dense.gaussian_log_density(y, np.zeros(FEW), variance), "factorised")
    flat = cavity.infer(full(cavity.kernels.RBF(1.3, 1e6)), X, y)
    constant = cavity.infer(full(cavity.kernels.Constant(1.3)), X, y)
    assert_close(flat.log_evidence, constant.log_evidence, "factorised")
    mean = flat.posterior.marginals(S).mean
    assert_close(mean, np.full(len(S), mean[0]), "factorised")


def test_vanderwilk_t72_increments_of_additive_functions():
    """vanderwilk T72: moving one input moves f by the same, whatever the other inputs."""
    p = problem()
    kernel = cavity.kernels.RBF(1.0, 0.8).on(0) + cavity.kernels.Matern32(0.5, 1.1).on(1)
    corners = np.array([[0.5, 1.0], [1.7, 1.0], [0.5, 3.0], [1.7, 3.0]])
    contrast = np.array([-1.0, 1.0, 1.0, -1.0])  # difference of two increments
    posterior = cavity.infer(full(kernel), p.X, p.y).posterior
    mean, cov = posterior.joint(corners)
    assert abs(contrast @ mean) < 1e-10
    assert abs(contrast @ cov @ contrast) < 1e-10
    both = cavity.kernels.RBF(1.0, np.array([0.8, 1.1]))
    _, cov = cavity.infer(full(both), p.X, p.y).posterior.joint(corners)
    assert contrast @ cov @ contrast > 1e-3


def test_evidence_is_scikit_learns_at_tiny_noise():
    """To 1e-8 relative at noise variance 1e-8."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    rng = np.random.default_rng(8)
    X = rng.uniform(0, 3, (120, 6))
    y = np.sin(X @ rng.normal(size=6)) + 0.2 * rng.normal(size=120)
    other = GaussianProcessRegressor(
        ConstantKernel(1.7) * RBF(np.full(6, 0.8)), alpha=1e-8, optimizer=None
    ).fit(X, y)
    model = full(cavity.kernels.RBF(1.7, np.full(6, 0.8)), 1e-8)
    result = cavity.infer(model, X, y)
    assert result.jitter == 0.0
    expected = other.log_marginal_likelihood_value_
    assert result.log_evidence == pytest.approx(expected, rel=1e-8)
    S = rng.uniform(0, 3, (5, 6))
    mean, std = other.predict(S, return_std=True)
    marginals = result.posterior.marginals(S)
    assert_close(marginals.mean, mean, "factorised")
    assert_close(np.sqrt(marginals.var), std, "factorised")
