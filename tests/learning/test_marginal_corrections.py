"""Improved marginals against exact ones of three rows, and against sums over dense grids."""

import functools

import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import diagnostics, inducing, kernels, likelihoods, weights
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


def probit(z, y):
    return stats.norm.logcdf((2.0 * y - 1.0) * z)


def student(z, y):
    return stats.t.logpdf(y, 4.0, z, 0.3)


NODES = np.linspace(-12.0, 12.0, 4001)


def log_ratios(mean, var, shift, precision, y, density, power):
    r"""Logs of $E[(p / t)^a]$ of each row, with moments of $p^a$ times the cavity."""
    z = mean[:, None] + np.sqrt(var)[:, None] * NODES
    log = density(z, y[:, None]) - shift[:, None] * z + 0.5 * precision[:, None] * z**2
    log = power * log - 0.5 * NODES**2
    top = log.max(axis=1, keepdims=True)
    each = np.exp(log - top)
    mass = each.sum(axis=1)
    first = np.sum(each * z, axis=1) / mass
    second = np.sum(each * (z - first[:, None]) ** 2, axis=1) / mass
    return np.log(mass) + top[:, 0], first, second


def sites_of_rows(rows, y, prior, density, power):
    """Sites of a linear model by damped sweeps with dense matrices, and the weights' belief."""
    shift = precision = np.zeros(len(y))
    for _ in range(400):
        cov = np.linalg.inv(rows.T @ (precision[:, None] * rows) + np.diag(1.0 / prior))
        mean = cov @ rows.T @ shift
        at, var = rows @ mean, np.einsum("ni,ij,nj->n", rows, cov, rows)
        _, first, second = log_ratios(at, var, shift, precision, y, density, power)
        # what the tilted distribution has beyond the belief goes to the site
        shift = shift + 0.5 * (first / second - at / var)
        precision = precision + 0.5 * (1.0 / second - 1.0 / var)
    return shift, precision, mean, cov


@pytest.mark.parametrize("shape", [(12, 3), (6, 9)], ids=["few weights", "many weights"])
@pytest.mark.parametrize(
    ("density", "likelihood", "power"),
    [(probit, likelihoods.Bernoulli(), 1.0), (student, likelihoods.StudentT(0.3, 4.0), 0.5)],
    ids=["probit", "Student-t"],
)
def test_linear_models_with_gaussian_priors(shape, density, likelihood, power):
    """Against sites and corrections that are sums over grids, with dense matrices."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal(shape)
    y = rows[:, 0] - rows[:, 1] + 0.3 * rng.standard_t(3.0, shape[0])
    y = (y > 0.0).astype(float) if density is probit else y
    places = rng.standard_normal((2, shape[1]))
    model = cavity.LinearModel(weights.Gaussian(1.5), likelihood, intercept=2.0)
    found = diagnostics.improve_marginals(model, rows, y, places, power=power)
    assert found.converged
    rows, places = (np.column_stack([x, np.ones(len(x))]) for x in (rows, places))
    prior = np.append(np.full(shape[1], 1.5), 2.0)
    shift, precision, mean, cov = sites_of_rows(rows, y, prior, density, power)
    at, var = rows @ mean, np.einsum("ni,ij,nj->n", rows, cov, rows)
    for i, place in enumerate(places):
        there, spread = place @ mean, place @ cov @ place
        np.testing.assert_allclose(found.gaussian_mean[i], there, rtol=1e-6)
        np.testing.assert_allclose(found.gaussian_var[i], spread, rtol=1e-6)
        across = rows @ cov @ place
        values = found.grid[i]
        log = -0.5 * (values - there) ** 2 / spread
        for j, value in enumerate(values):
            moved, left = at + across * (value - there) / spread, var - across**2 / spread
            ratios, _, _ = log_ratios(moved, left, shift, precision, y, density, power)
            log[j] += np.sum(ratios) / power
        log -= np.log(np.sum(np.exp(log - log.max())) * (values[1] - values[0])) + log.max()
        inside = np.abs(values - there) < 4.0 * np.sqrt(spread)
        np.testing.assert_allclose(found.log_density[i][inside], log[inside], atol=1e-5)


def test_a_linear_model_of_labels_against_its_exact_posterior():
    """Of two weights one is summed over a grid, for every value of their function at a place."""
    rows, place = np.array([[1.0, 0.2], [0.8, -0.5], [0.3, 1.0]]), np.array([1.0, 0.3])
    model = cavity.LinearModel(weights.Gaussian(9.0), likelihoods.Bernoulli(), intercept=False)
    found = diagnostics.improve_marginals(model, rows, np.ones(3), place[None])
    values = found.grid[0]
    along, across = place / (place @ place), np.array([-place[1], place[0]])
    w = values[:, None, None] * along + np.linspace(-25.0, 25.0, 2001)[:, None] * across
    log = -np.sum(w**2, axis=2) / 18.0 + np.sum(stats.norm.logcdf(w @ rows.T), axis=2)
    exact = np.sum(np.exp(log), axis=1)
    exact /= np.sum(exact) * (values[1] - values[0])
    old = stats.norm.pdf(values, found.gaussian_mean[0], np.sqrt(found.gaussian_var[0]))
    improved = np.exp(found.log_density[0])
    assert np.abs(old - exact).max() > 0.05 * exact.max()
    assert np.abs(improved - exact).max() < 0.3 * np.abs(old - exact).max()


def test_a_prior_that_has_sites_is_not_taken_for_the_rows():
    model = cavity.LinearModel(weights.StudentT(0.7, 4.0), likelihoods.Gaussian(0.1))
    with pytest.raises(ValueError, match="one factor, beside Gaussian priors of weights; given 2"):
        diagnostics.improve_marginals(model, X, LABELS, PLACES)
