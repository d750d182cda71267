"""Improved marginals against the exact ones of three rows, by quadrature in three dimensions."""

import functools

import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import diagnostics, inducing, kernels, likelihoods
from tests.oracle import dense

X = np.array([[0.0], [0.5], [2.0]])
LABELS = np.array([1.0, 1.0, 0.0])
PLACES = np.array([[0.0], [0.9]])  # a row, and a place between rows
VARIANCE, LENGTHSCALE = 9.0, 1.0
PROBIT = cavity.GP(kernels.RBF(VARIANCE, LENGTHSCALE), likelihoods.Bernoulli())


SPARSE = cavity.GP(PROBIT.kernel, PROBIT.likelihood, inducing.Points(X))


@functools.cache
def exact(place):
    """The marginal of f at a place: values, densities, mean and deviation."""
    K = dense.rbf(X, X, VARIANCE, LENGTHSCALE) + 1e-9 * np.eye(3)
    t = np.linspace(-6.0, 6.0, 81)
    L = np.linalg.cholesky(K)
    nodes = np.stack(np.meshgrid(t, t, t, indexing="ij")).reshape(3, -1)
    f = L @ nodes
    signs = 2.0 * LABELS - 1.0
    weight = np.exp(-0.5 * np.sum(nodes**2, axis=0)) * np.prod(
        stats.norm.cdf(signs[:, None] * f), axis=0
    )
    weight /= weight.sum()
    k = dense.rbf(X, np.array([[place]]), VARIANCE, LENGTHSCALE)
    a = np.linalg.solve(K, k)[:, 0]
    means, var = a @ f, max(VARIANCE - k[:, 0] @ a, 1e-6)
    mean = weight @ means
    sd = np.sqrt(weight @ (means - mean) ** 2 + var)
    values = mean + sd * np.linspace(-3.0, 4.0, 29)
    density = np.array([weight @ stats.norm.pdf(v, means, np.sqrt(var)) for v in values])
    skew = weight @ ((means - mean) ** 3) / sd**3
    return values, density, mean, sd, skew


@pytest.mark.parametrize(
    ("method", "spread", "density_share"),
    [(cavity.PowerEP(), 0.0, 0.4), (cavity.Laplace(), 0.7, 0.6)],
    ids=["power EP", "Laplace"],
)
def test_jylanki_s53_marginals_are_closer_to_the_exact_ones(method, spread, density_share):
    found = diagnostics.improve_marginals(PROBIT, X, LABELS, PLACES, method=method)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, rtol=1e-9)
    for i, place in enumerate(PLACES[:, 0]):
        values, density, mean, sd, skew = exact(float(place))
        assert abs(skew) > 0.1
        before = abs(found.gaussian_mean[i] - mean) / sd
        assert abs(found.mean[i] - mean) / sd < max(0.3 * before, 0.01)
        before = abs(np.sqrt(found.gaussian_var[i]) / sd - 1.0)
        assert abs(np.sqrt(found.var[i]) / sd - 1.0) < max(spread * before, 0.02)
        third = np.sum(found.weights[i] * (found.grid[i] - found.mean[i]) ** 3)
        assert third / found.var[i] ** 1.5 == pytest.approx(skew, rel=0.3)
        if place not in X:
            improved = np.interp(values, found.grid[i], np.exp(found.log_density[i]))
            old = stats.norm.pdf(values, found.gaussian_mean[i], np.sqrt(found.gaussian_var[i]))
            assert np.abs(improved - density).max() < density_share * np.abs(old - density).max()


def test_densities_of_outputs():
    found = diagnostics.improve_marginals(PROBIT, X, LABELS, PLACES)
    chances = [np.exp(found.log_predictive_density(np.full(2, y))) for y in (0.0, 1.0)]
    np.testing.assert_allclose(sum(chances), 1.0, rtol=1e-9)


@pytest.mark.slow
def test_with_as_many_inducing_points_as_rows_it_is_that_of_the_full_gp():
    options = {"power": 0.6, "jitter": 1e-10}
    a = diagnostics.improve_marginals(PROBIT, X, LABELS, PLACES[1:], **options)
    b = diagnostics.improve_marginals(SPARSE, X, LABELS, PLACES[1:], **options)
    np.testing.assert_allclose(a.mean, b.mean, rtol=1e-4)
    np.testing.assert_allclose(a.log_density, b.log_density, atol=1e-3)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (SPARSE, {"method": cavity.TiedPowerEP()}, "a site per row"),
        (PROBIT, {"power": np.full(3, 0.5)}, "one power for all rows"),
        (cavity.GP(kernels.RBF(), likelihoods.Gaussian()), {}, "nothing to improve"),
        (
            cavity.GP(kernels.RBF(), likelihoods.HeteroscedasticGaussian()),
            {},
            "one latent function",
        ),
    ],
)
def test_what_cannot_be_improved(model, options, message):
    with pytest.raises(ValueError, match=message):
        diagnostics.improve_marginals(model, X, LABELS, PLACES, **options)


@pytest.mark.slow
def test_counts_with_exposures_and_what_does_not_suit():
    counts, exposure = np.array([3.0, 5.0, 0.0]), np.array([2.0, 2.0, 4.0])
    model = cavity.GP(kernels.RBF(), likelihoods.Poisson())
    found = diagnostics.improve_marginals(model, X, counts, PLACES, rows={"exposure": exposure})
    assert found.converged
    given = {"exposure": np.full(2, 10.0)}
    near = cavity.infer(model, X, counts, power=1.0, rows={"exposure": exposure})
    gaussian = near.posterior.predict(PLACES, rows=given).log_density(np.array([9.0, 9.0]))
    improved = found.log_predictive_density(np.array([9.0, 9.0]), rows=given)
    np.testing.assert_allclose(improved, gaussian, atol=0.1)
    with pytest.raises(ValueError, match="shape of the predictions"):
        found.log_predictive_density(3.0)
    assert found.log_predictive_density(np.array([-1.0, 0.5]))[0] == -np.inf
    for places, message in ((X[:, 0], "matrix"), (X * np.nan, "X_new"), (X[:0], "row")):
        with pytest.raises(ValueError, match=message):
            diagnostics.improve_marginals(model, X, counts, places)
