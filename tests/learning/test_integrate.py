"""Integration over parameters: against dense integrals, moments of designs, plain mixtures."""

import itertools
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import cavity
from cavity import inducing, kernels, likelihoods, weights
from cavity.inference.solvers.convergence import ConvergenceReport
from cavity.learning.integration.designs import composite, grid
from cavity.learning.integration.integrate import settled_masses

RNG = np.random.default_rng(2)
X = np.sort(RNG.uniform(0.0, 1.0, 30))[:, None]
Y = np.sin(6.0 * X[:, 0]) + 0.3 * RNG.standard_normal(30)
TWO = ("kernel.lengthscale", "likelihood.variance")


@pytest.fixture(scope="module")
def fitted():
    return cavity.fit(cavity.GP(kernels.RBF(1.0, 0.3), likelihoods.Gaussian(0.1)), X, Y)


@pytest.mark.slow
def test_a_grid_of_two_parameters_is_the_dense_integral(fitted):
    """Evidence and moments, under the weak priors about the fitted values."""
    found = cavity.integrate(fitted, X, Y, parameters=TWO)
    model: Any = fitted.model
    centre = np.log([float(model.kernel.lengthscale), float(model.likelihood.variance)])
    a, b = centre[0] + np.linspace(-5.0, 5.0, 81), centre[1] + np.linspace(-3.0, 3.0, 61)
    square = (X - X.T) ** 2
    log_p: Any = np.empty((81, 61))
    for (i, p), (j, q) in itertools.product(enumerate(a), enumerate(b)):
        K = float(model.kernel.variance) * np.exp(-0.5 * square / np.exp(2.0 * p))
        root = np.linalg.cholesky(K + np.exp(q) * np.eye(30))
        half = np.linalg.solve(root, Y)
        log_p[i, j] = -0.5 * half @ half - np.log(np.diag(root)).sum() - 15.0 * np.log(2 * np.pi)
    log_p: Any = (
        log_p
        + stats.norm.logpdf(a, centre[0], 2.0)[:, None]
        + stats.norm.logpdf(b, centre[1], 2.0)
    )
    exact: Any = logsumexp(log_p) + np.log((a[1] - a[0]) * (b[1] - b[0]))
    assert found.how == "grid"
    assert found.names == TWO
    assert found.log_evidence == pytest.approx(exact, abs=5e-3)
    p = np.exp(log_p - logsumexp(log_p))
    for i, (nodes, share) in enumerate(((a, p.sum(axis=1)), (b, p.sum(axis=0)))):
        mean = share @ nodes
        assert found.mean[i] == pytest.approx(mean, abs=2e-3)
        assert found.deviation[i] == pytest.approx(np.sqrt(share @ (nodes - mean) ** 2), rel=0.02)


@pytest.mark.slow
def test_a_design_is_near_the_grid_and_wider_than_the_fit(fitted):
    grid_of_two = cavity.integrate(fitted, X, Y, parameters=TWO)
    design = cavity.integrate(fitted, X, Y, how="design", parameters=TWO)
    assert design.converged
    assert design.log_evidence == pytest.approx(grid_of_two.log_evidence, abs=0.05)
    np.testing.assert_allclose(design.mean, grid_of_two.mean, atol=0.1)
    new = np.linspace(-0.5, 1.5, 7)[:, None]
    one, other = design.posterior.predict(new), grid_of_two.posterior.predict(new)
    np.testing.assert_allclose(one.mean, other.mean, atol=0.03)
    np.testing.assert_allclose(one.var, other.var, rtol=0.1)
    assert np.mean(one.var) > np.mean(fitted.posterior.predict(new).var)


@pytest.mark.slow
def test_the_posterior_is_the_mixture_of_those_at_the_points(fitted):
    found = cavity.integrate(fitted, X, Y, how="design", parameters=TWO)
    posterior = found.posterior
    shares = np.asarray(posterior.shares)
    each = [jax.tree.map(lambda a, i=i: a[i], posterior.parts) for i in range(len(shares))]
    new = X[:4] + 0.01
    pairs = [part.marginals(new) for part in each]
    means, variances = (np.stack(x) for x in zip(*pairs, strict=True))
    mean = shares @ means
    marginals = posterior.marginals(new)
    np.testing.assert_allclose(marginals.mean, mean, rtol=1e-12)
    expected = shares @ (variances + (means - mean) ** 2)
    np.testing.assert_allclose(marginals.var, expected, rtol=1e-10)
    joint: Any = posterior.joint(new)
    np.testing.assert_allclose(np.diag(np.asarray(joint.cov)), expected, rtol=1e-8)
    out: Any = Y[:4]
    densities: Any = np.stack([part.predict(new).log_density(out) for part in each])
    density: Any = posterior.predict(new).log_density(out)
    mixed: Any = logsumexp(densities.T + np.log(shares), axis=1)
    np.testing.assert_allclose(density, mixed, rtol=1e-8)
    draws = np.asarray(posterior.sample(new, 4_000, key=jax.random.key(0)))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5.0 * np.sqrt(expected.max() / 4e3))
    np.testing.assert_allclose(np.cov(draws.T), joint.cov, atol=0.1 * expected.max())


@pytest.mark.parametrize("size", [1, 2, 3, 5, 9, 15])
def test_designs_have_the_moments_of_a_gaussian(size):
    points, share = composite(size)
    assert share.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(share @ points, 0.0, atol=1e-12)
    second = np.einsum("s,si,sj->ij", share, points, points)
    np.testing.assert_allclose(second, np.eye(size), atol=1e-12)
    third = np.einsum("s,si,sj,sk->ijk", share, points, points, points)
    np.testing.assert_allclose(third, 0.0, atol=1e-12)
    # products of two factors are orthogonal to those of other two
    corners = points[1 + 2 * size :]
    pairs = [np.sign(corners[:, i] * corners[:, j]) for i in range(size) for j in range(i)]
    if pairs:
        gram = np.stack(pairs) @ np.stack(pairs).T / len(corners)
        np.testing.assert_allclose(gram, np.eye(len(pairs)), atol=1e-12)


def test_values_without_settled_sites_are_left_out():
    ends = ConvergenceReport(9, 1e-6, 0, "sweeps"), ConvergenceReport(9, 2.5, 0, "sweeps", False)
    settled, away = ends
    masses = np.log([0.5, 0.3, 0.2])
    kept, enough, said = settled_masses(masses, [settled, away, settled])
    np.testing.assert_array_equal(kept, [masses[0], -np.inf, masses[2]])
    assert not enough
    assert "with 30 % of the density sites did not converge (up to 2.5 deviations short)" in said
    assert said.endswith("these values are left out")
    kept, enough, said = settled_masses(masses, [away] * 3)
    np.testing.assert_array_equal(kept, masses)
    assert not enough
    assert "left out" not in said
    failed = ConvergenceReport(0, np.inf, 0, "failed", converged=False)
    kept, enough, said = settled_masses(np.array([0.0, np.nan]), [settled, failed])
    np.testing.assert_array_equal(kept, [0.0, -np.inf])
    assert (enough, said) == (True, "")
    assert settled_masses(np.log([0.995, 0.005]), [settled, away])[1:] == (True, "")


def test_a_grid_covers_a_density_far_from_round():
    def log_density(z):
        second = stats.norm.logpdf(z[1], 0.4 * z[0] ** 2 - 0.4)
        return float(stats.norm.logpdf(z[0]) + second)

    _, volume, values = grid(2, log_density)
    assert logsumexp(values + np.log(volume)) == pytest.approx(0.0, abs=5e-3)
    nothing = grid(1, lambda z: 0.0 if abs(z[0]) < 1.0 else np.nan)
    assert np.isfinite(nothing[2]).sum() == 3


@pytest.mark.slow
def test_every_model_with_sites_of_its_own():
    labels = (Y > 0.0).astype(float)
    model = cavity.GP(kernels.RBF(1.0, 0.3), likelihoods.Bernoulli(), inducing.Points(X[::5]))
    result = cavity.fit(model, X, labels, max_iterations=5)
    found = cavity.integrate(result, X, labels)
    assert found.names == ("kernel.variance", "kernel.lengthscale")
    predictive = found.posterior.predict(X[:3])
    assert np.all((np.asarray(predictive.mean) > 0.0) & (np.asarray(predictive.mean) < 1.0))
    Z = RNG.standard_normal((20, 3))
    linear = cavity.LinearModel(weights.Laplace(), likelihoods.Gaussian())
    result = cavity.fit(linear, Z, Z[:, 0], max_iterations=5)
    found = cavity.integrate(result, Z, Z[:, 0])
    assert found.names == ("prior.scale", "likelihood.variance")
    assert np.isfinite(found.log_evidence)
    shares, parts = np.asarray(found.posterior.shares), found.posterior.parts
    each = [
        cavity.diagnostics.coefficients(jax.tree.map(lambda a, i=i: a[i], parts)).mean
        for i in range(len(shares))
    ]
    own = cavity.diagnostics.coefficients(found.posterior)
    np.testing.assert_allclose(own.mean, shares @ np.stack(each), rtol=1e-10)
    assert np.all((own.lower < own.mean) & (own.mean < own.upper))


def test_what_is_refused(fitted):
    with pytest.raises(ValueError, match=r"kernel.period is not a parameter that was learned"):
        cavity.integrate(fitted, X, Y, parameters=("kernel.period",))
    with pytest.raises(ValueError, match='how must be "auto", "grid" or "design"'):
        cavity.integrate(fitted, X, Y, how="mcmc")
    with pytest.raises(ValueError, match=r"site of its own: use method=cavity.PowerEP"):
        cavity.integrate(fitted, X, Y, method=cavity.TiedPowerEP())
    with pytest.raises(TypeError, match=r"takes what cavity.fit gave"):
        cavity.integrate(fitted.posterior, X, Y)
    with pytest.raises(ValueError, match="not the rows of the fit"):
        cavity.integrate(fitted, X[:9], Y[:9])
    with pytest.raises(ValueError, match="no parameter was learned"):
        cavity.integrate(fitted, X, Y, parameters=())


def test_a_fit_over_batches_needs_its_power():
    """At power 1, where another power would give another evidence."""
    model = cavity.GP(kernels.RBF(), likelihoods.Gaussian(0.1), inducing.Points(X[::5]))
    options = {"power": 1.0, "max_iterations": 3}
    streamed = cavity.fit(model, cavity.Parts([[(X, Y)]]), **options)
    with pytest.raises(ValueError, match="does not keep their power: give power="):
        cavity.integrate(streamed, X, Y, parameters=TWO)
    memory = cavity.integrate(cavity.fit(model, X, Y, **options), X, Y, parameters=TWO)
    found = cavity.integrate(streamed, X, Y, parameters=TWO, power=1.0)
    assert found.log_evidence == pytest.approx(memory.log_evidence, abs=1e-3)
    for table, y in ((cavity.Parts([[(X, Y)]]), None), (cavity.fitting.Batches([(X, Y)]), Y)):
        with pytest.raises(TypeError, match="every row is looked at many times"):
            cavity.integrate(streamed, table, y, power=1.0)
