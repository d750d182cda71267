"""Fixed points as minima over moments, on a problem where sweeps and continuation fail."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import cavity
from cavity.inference.solvers.moment_descent import (
    FreeEnergy,
    match_variances,
    minimise_free_energy,
    trust_region_step,
)
from cavity.inference.solvers.settings import NewtonSettings
from cavity.inference.solvers.tilted_inverse import invert_tilted
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.likelihoods import Gaussian, StudentT
from tests.solving import problem_of
from tests.tolerances import assert_close

METHOD, JITTER = cavity.PowerEP(), 1e-6
SOLVER = METHOD.solver
LOOSE = dataclasses.replace(SOLVER, newton=NewtonSettings(tolerance=1e-6))
X = np.array(
    [0.5367, 1.7361, 2.5842, 4.7057, 4.8182, 6.3486, 6.8578, 8.502, 9.6379, 9.8335, 9.9628]
)[:, None]
Y = np.array(
    [1.0919, -3.6413, -0.7189, 0.5827, -0.4152, 0.1226, 0.994, -0.5562, -5.0216, -0.9463, -0.19]
)
LENGTHSCALE, SCALE, DF = 0.195, 0.0263, 4.0


def prepared(X=X, Y=Y, likelihood=StudentT(SCALE, DF), power=1.0):
    kernel = cavity.kernels.RBF(1.0, LENGTHSCALE) + cavity.kernels.White(JITTER)
    data = prepare(X, Y, power=power)
    return problem_of(as_dtype(cavity.GP(kernel, likelihood), data), data, METHOD)


def tilted(shift, precision, mean, y, power=1.0):
    """Moments of a tilted distribution, by dense quadrature about density and cavity."""
    centre, sd = mean + shift / precision, precision**-0.5
    about = np.sinh(np.linspace(-14.0, 14.0, 100_001))
    f = np.unique(np.concatenate([y + SCALE * about, centre + sd * np.linspace(-12, 12, 20_001)]))
    log_p = power * stats.t(DF, y, SCALE).logpdf(f) + stats.norm(centre, sd).logpdf(f)
    p = np.exp(log_p - log_p.max()) * np.gradient(f)
    p /= p.sum()
    return p @ f, p @ (f - p @ f) ** 2


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 0.8])
def test_cavities_give_the_moments_asked_for(power):
    """On both sides of the density's centre, with more variance than it has by itself."""
    y = np.zeros(6)
    mean, var = np.array([-0.1, -1e-3, 1e-3, 0.1, 2.0, 0.3]), np.array([2.0, 2.0, 2, 2, 0.5, 1e-4])
    (factor,) = prepared(np.arange(6.0)[:, None], y, power=power).graph().factors
    rest = factor.rows.y.shape[0] - 6

    def padded(values, filled):
        return jnp.asarray(np.append(values, np.full(rest, filled)))[:, None]

    start = padded(np.zeros(6), 0.0), padded(1.0 / var, 1.0)
    moments = padded(mean, 0.0), padded(var, 1.0)
    density = factor.powered_density()
    found = invert_tilted(density, moments, start)
    shift, precision = np.asarray(found.shift)[:6, 0], np.asarray(found.precision)[:6, 0]
    for n in range(6):
        tilted_mean, tilted_var = tilted(shift[n], precision[n], mean[n], 0.0, power)
        assert_close(tilted_mean, mean[n], "fixed_point", scale=var[n] ** 0.5)
        assert_close(tilted_var, var[n], "fixed_point")
    # the cavity is on the side that the mean is on, and wide
    assert np.all(shift[:4] * mean[:4] > 0.0)
    assert precision[1] < 1e-2
    # from a start on the wrong side as well
    again = invert_tilted(density, moments, (-found.shift, found.precision))
    assert_close(again.value, found.value, "quadrature")
    # rows that are not there have a Gaussian
    assert_close(found.precision[6:], jnp.ones((rest, 1)), "quadrature")


def test_slope_and_curvature_are_those_of_the_free_energy():
    energy = FreeEnergy(prepared(X[:4], Y[:4]))
    random = np.random.default_rng(1)
    first = energy.start()
    near = first.site_precision, first.cavities
    at = energy.at(0.3 * random.standard_normal(4), np.array([-0.3, -0.2, -0.5, -1.0]), *near)
    near, size = (at.site_precision, at.cavities), 1e-5
    for way in range(8):
        change = size * np.eye(8)[way]
        ahead, behind = (
            energy.at(at.mean + s * change[:4], at.log_var + s * change[4:], *near)
            for s in (1.0, -1.0)
        )
        slope = (ahead.value - behind.value) / (2.0 * size)
        assert_close(slope, at.slope[way], "gradient", scale=1.0)
        curvature = (ahead.slope - behind.slope) / (2.0 * size)
        assert_close(curvature, at.curvature[way], "gradient", scale=np.abs(at.curvature).max())


def test_sites_give_the_variances_asked_for():
    random = np.random.default_rng(0)
    A = random.standard_normal((5, 5))
    inverse, var = A @ A.T + 0.1 * np.eye(5), np.exp(random.standard_normal(5))
    site, cov, _ = match_variances(inverse, var, np.zeros(5))
    assert_close(np.linalg.inv(inverse + np.diag(site)), cov, "factorised")
    assert_close(np.diag(cov), var, "factorised")


def test_a_step_falls_and_stays_within_its_radius():
    slope, curvature = np.array([1.0, 0.5, 0.0]), np.diag([2.0, 1.0, -3.0])
    for radius in (0.1, 5.0):
        step, change = trust_region_step(slope, curvature, radius)
        assert_close(np.linalg.norm(step), radius, "fixed_point")
        assert change < 0.0
    step, _ = trust_region_step(slope, np.abs(curvature), 5.0)
    assert_close(step, np.array([-0.5, -0.5, 0.0]), "factorised")


@pytest.mark.slow
def test_a_fixed_point_where_all_else_fails():
    """Moments match, by quadrature of the test's own, and the cavities are proper."""
    sites, _ = minimise_free_energy(prepared(), SOLVER)
    assert sites is not None
    ((store,),) = sites
    tau, nu = (np.asarray(a)[: len(Y), 0] for a in (store.precision, store.shift))
    assert tau.min() < 0.0
    K = np.exp(-0.5 * (X - X.T) ** 2 / LENGTHSCALE**2) + JITTER * np.eye(len(Y))
    cov = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    assert np.linalg.eigvalsh(cov).min() > 0.0
    m, v = cov @ nu, np.diag(cov)
    precision = 1.0 / v - tau
    assert np.all(precision > 0.0)
    for n in range(len(Y)):
        shift = m[n] / v[n] - nu[n] - precision[n] * m[n]
        mean, var = tilted(shift, precision[n], m[n], Y[n])
        assert abs(mean - m[n]) < 1e-5 * np.sqrt(v[n])
        assert abs(var - v[n]) < 1e-5 * v[n]


def test_what_it_is_not_for():
    """Powers of zero, several outputs, exact factors."""
    assert minimise_free_energy(prepared(power=0.0), SOLVER) == (None, 0)
    assert minimise_free_energy(prepared(Y=np.stack([Y, Y], axis=1)), SOLVER) == (None, 0)
    exact = prepared(likelihood=Gaussian(0.1))
    assert minimise_free_energy(exact, SOLVER) == (None, 0)


@pytest.mark.slow
def test_a_duplicated_row_is_no_trouble():
    """The prior covariance is singular then; the descent adds what jitter it needs."""
    X2, Y2 = np.concatenate([X, X[1:2]]), np.concatenate([Y, Y[1:2]])
    data = prepare(X2, Y2, power=1.0)
    kernel = cavity.kernels.RBF(1.0, LENGTHSCALE)
    model = as_dtype(cavity.GP(kernel, StudentT(SCALE, DF)), data)
    sites, looks = minimise_free_energy(problem_of(model, data, METHOD), LOOSE)
    assert looks > 1
    assert sites is None or np.all(np.isfinite(sites[0][0].precision))


@pytest.mark.slow
def test_a_one_sided_density_starts_from_less_variance():
    """Cavities of positive precision leave it no more than a part of the prior's."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.exp(rng.normal(size=11))).astype(float)
    fixed = prepared(Y=counts, likelihood=cavity.likelihoods.Poisson(), power=0.7)
    sites, _ = minimise_free_energy(fixed, LOOSE)
    assert sites is not None
    expected = cavity.infer(fixed.build.model, X, counts, power=0.7)
    assert expected.converged
    precision = np.asarray(sites[0][0].precision)[: len(X), 0]
    posterior = expected.posterior.marginals(X)
    K = np.asarray(
        fixed.build.model.kernel.cross(jnp.asarray(X), jnp.asarray(X))
    ) + JITTER * np.eye(len(X))
    cov = np.linalg.inv(np.linalg.inv(K) + np.diag(precision))
    np.testing.assert_allclose(np.diag(cov) - JITTER, posterior.var, rtol=1e-4)
