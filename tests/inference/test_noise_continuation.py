"""Continuation in the noise round folds, where sweeps and other powers fail."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import cavity
from cavity.inference.solvers.fixed_point import continue_in_noise, continue_in_power
from cavity.inference.solvers.noise_continuation import NoiseContinuation, inner
from cavity.inference.solvers.steps import newton_from, run_sweeps
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.likelihoods import Bernoulli, Gaussian, NegativeBinomial, StudentT
from tests.solving import problem_of
from tests.tolerances import assert_close

JITTER = 1e-6
X = np.array([0.16, 2.46, 2.54, 2.63, 4.25, 4.4, 6.71, 6.83, 6.85, 9.57])[:, None]
Y = np.array([-0.77, -0.67, -5.03, -0.72, -1.85, 0.55, -0.4, -0.72, -0.63, -0.15])
LENGTHSCALE, SCALE, DF = 0.96, 0.142, 4.0
METHOD = cavity.PowerEP()
SOLVER = METHOD.solver
WIDEST = SOLVER.noise.widest


def model():
    kernel = cavity.kernels.RBF(1.0, LENGTHSCALE) + cavity.kernels.White(JITTER)
    return cavity.GP(kernel, StudentT(SCALE, DF))


def prepared():
    data = prepare(X, Y, power=1.0)
    return problem_of(as_dtype(model(), data), data, METHOD)


def tilted(mean, var, y):
    """Moments of the tilted distribution by dense quadrature."""
    f = np.unique(
        np.concatenate([np.linspace(-40.0, 40.0, 40_001), y + np.linspace(-3, 3, 40_001)])
    )
    log_p = stats.t(DF, y, SCALE).logpdf(f) + stats.norm(mean, np.sqrt(var)).logpdf(f)
    p = np.exp(log_p - log_p.max()) * np.gradient(f)
    p /= p.sum()
    return p @ f, p @ (f - p @ f) ** 2


@pytest.mark.slow
def test_continuation_in_the_noise_leads_where_powers_do_not():
    """The fixed point is one, by quadrature of the test's own."""
    problem = prepared()
    zero = problem.empty_sites()
    assert not continue_in_power(problem, SOLVER, zero).converged
    usual = cavity.infer(model(), X, Y, power=1.0)
    assert usual.converged, usual.message
    ((store,),) = continue_in_noise(problem, SOLVER, zero).sites
    np.testing.assert_allclose(store.precision, usual.found[0][0].precision, atol=1e-5)
    tau, nu = (np.asarray(a)[: len(Y), 0] for a in (store.precision, store.shift))
    assert tau.min() < 0.0
    K = np.exp(-0.5 * (X - X.T) ** 2 / LENGTHSCALE**2) + JITTER * np.eye(len(Y))
    cov = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    m, v = cov @ nu, np.diag(cov)
    left = 1.0 - tau * v
    assert np.all(left > 0.0)
    for n in range(len(Y)):
        mean, var = tilted((m[n] - v[n] * nu[n]) / left[n], v[n] / left[n], Y[n])
        assert abs(mean - m[n]) < 1e-5 * np.sqrt(v[n])
        assert abs(var - v[n]) < 1e-5 * v[n]


@pytest.mark.slow
def test_steps_stay_on_the_curve():
    """A step along a tangent lands on fixed points of the widened model."""
    problem = prepared()
    start, record = run_sweeps(problem.at_noise_scale(WIDEST), SOLVER, problem.empty_sites())
    assert record.converged
    continuation = NoiseContinuation(problem)
    point = continuation.evaluate(0.0, start)
    tangent, _ = continuation.tangent(point, None)
    new, _ = continuation.step(point, tangent, 0.3)
    assert 0.0 < new.position < 1.0
    there = problem.at_noise_scale(WIDEST ** (1.0 - new.position))
    assert newton_from(there, SOLVER, new.sites).gap < 1e-9
    # and back is back
    negative = jax.tree.map(jnp.negative, tangent.sites)
    reverse = tangent._replace(position=-tangent.position, sites=negative)
    back, _ = continuation.tangent(new, reverse)
    assert back.position < 0.0


def test_the_slope_is_how_the_fixed_point_moves():
    problem = prepared()
    zero = problem.empty_sites()

    def at_share(share):
        return problem.at_noise_scale(WIDEST ** (1.0 - share))

    def fixed(share):
        wide = at_share(share)
        return newton_from(wide, SOLVER, run_sweeps(wide, SOLVER, zero)[0]).sites

    h, at = 1e-4, 0.2
    curve = NoiseContinuation(problem).evaluate(at, fixed(at)).curve
    assert curve.gap < 1e-9
    ((before,),), ((after,),) = fixed(at - h), fixed(at + h)
    ((slope,),) = curve.slope
    for name in ("shift", "precision"):
        by_difference = (getattr(after, name) - getattr(before, name)) / (2.0 * h)
        assert_close(getattr(slope, name), by_difference, "gradient")
    assert inner(curve.units, curve.slope, curve.slope) > 0.0


@pytest.mark.parametrize(
    ("likelihood", "scaled"),
    [(StudentT(0.2, 3.0), True), (Gaussian(0.1), True), (Bernoulli(), False)],
)
def test_what_is_widened(likelihood, scaled):
    """Parameters in units of the output, by their power; none elsewhere, so there is no path."""
    data = prepare(X, np.abs(np.sign(Y)), power=1.0)
    gp = as_dtype(cavity.GP(cavity.kernels.RBF(), likelihood), data)
    problem = problem_of(gp, data, METHOD)
    assert problem.has_noise_scale is scaled
    wide = problem.at_noise_scale(10.0).build.model.likelihood
    if isinstance(likelihood, StudentT):
        assert_close(wide.scale, 2.0, "factorised")
        assert_close(wide.df, 3.0, "factorised")
    if isinstance(likelihood, Gaussian):
        assert_close(wide.variance, 10.0, "factorised")


def test_no_path_without_a_scale():
    data = prepare(X, np.abs(np.round(Y)), power=1.0)
    counts = as_dtype(cavity.GP(cavity.kernels.RBF(), NegativeBinomial()), data)
    problem = problem_of(counts, data, METHOD)
    zero = problem.empty_sites()
    assert continue_in_noise(problem, SOLVER, zero) == (None, 0, False)
