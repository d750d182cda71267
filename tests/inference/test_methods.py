"""Laplace's method, local bounds and mean field against textbook versions in numpy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.inference.approximations.local_terms import LaplaceTerm, Latent, LocalBoundTerm
from cavity.inference.energy import energy
from cavity.inference.graph.rows import Rows
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from cavity.likelihoods import AbstractQuadratureLikelihood
from cavity.parameters import from_real
from tests.oracle import dense
from tests.solving import build_graph
from tests.tolerances import assert_close

RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(-2.0, 2.0, 14))[:, None]
Y = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.standard_normal(14)
Y[[3, 9]] += [1.5, -2.0]
LABELS = (Y > 0.0).astype(float)
VARIANCE, LENGTHSCALE, SCALE, DF = 1.4, 0.7, 0.15, 4.0
K = dense.rbf(X, X, VARIANCE, LENGTHSCALE)
POINTS = inducing.Points(np.linspace(-2.0, 2.0, 5)[:, None])
STUDENT = likelihoods.StudentT(SCALE, DF)
LOGIT = likelihoods.Bernoulli("logit")
TIGHT = {"tolerance": 1e-11}


def model(likelihood, points=None):
    return cavity.GP(kernels.RBF(VARIANCE, LENGTHSCALE), likelihood, points)


def student_parts(f):
    r, s = Y - f, DF * SCALE**2 + (Y - f) ** 2
    value = stats.t(DF, scale=SCALE).logpdf(r).sum()
    return value, (DF + 1.0) * r / s, (DF + 1.0) * (r**2 - DF * SCALE**2) / s**2


def logit_parts(f):
    sign, p = 2.0 * LABELS - 1.0, special.expit(f)
    return special.log_expit(sign * f).sum(), LABELS - p, -p * (1.0 - p)


def climbed(parts, steps=2000):
    """The mode by Newton steps, at first with floored curvatures, shortened to go uphill."""
    alpha = np.zeros(len(Y))

    def height(a):
        return parts(K @ a)[0] - 0.5 * a @ K @ a

    for i in range(steps):
        _, slope, bend = parts(K @ alpha)
        W = -bend if i > 50 else np.maximum(-bend, 0.0)
        direction = np.linalg.solve(np.eye(len(Y)) + W[:, None] * K, W * (K @ alpha) + slope)
        step = 1.0
        while height(alpha + step * (direction - alpha)) < height(alpha) and step > 1e-8:
            step /= 2.0
        alpha = alpha + step * (direction - alpha)
    value, _, bend = parts(K @ alpha)
    B = np.eye(len(Y)) - K * bend[None, :]
    evidence = value - 0.5 * alpha @ K @ alpha - 0.5 * np.linalg.slogdet(B)[1]
    return K @ alpha, evidence


@pytest.mark.sampled(1, "likelihood0-y0-student_parts")
@pytest.mark.parametrize(
    ("likelihood", "y", "parts"), [(STUDENT, Y, student_parts), (LOGIT, LABELS, logit_parts)]
)
def test_jylanki_s48_laplace(likelihood, y, parts):
    found = cavity.infer(model(likelihood), X, y, method=cavity.Laplace())
    mode, evidence = climbed(parts, 80)
    assert found.converged
    assert found.sites.finished_by == "Newton's method"
    assert_close(found.posterior.marginals(X).mean, mode, "fixed_point")
    assert_close(found.log_evidence, evidence, "factorised")


@pytest.mark.slow
def test_laplace_is_exact_for_gaussian_noise():
    """jylanki 1."""
    exact = cavity.infer(model(likelihoods.Gaussian(0.1)), X, Y)
    for method in (cavity.Laplace(exact=False), cavity.LocalBound(exact=False)):
        found = cavity.infer(model(likelihoods.Gaussian(0.1)), X, Y, method=method)
        assert_close(found.log_evidence, exact.log_evidence, "factorised")


def objective(likelihood, points, y, method, power):
    data = prepare(X, y, power=power)
    start = as_dtype(model(likelihood, points), data)
    return Objective(start, data, method=method, jitter=0.0 if points is None else 1e-8)


GRADIENTS = [
    (STUDENT, None, Y, cavity.Laplace(**TIGHT), 1.0),
    # seconds to compile
    pytest.param(STUDENT, POINTS, Y, cavity.Laplace(**TIGHT), 0.5, marks=pytest.mark.slow),
    pytest.param(LOGIT, POINTS, LABELS, cavity.Laplace(**TIGHT), 0.0, marks=pytest.mark.slow),
    (LOGIT, POINTS, LABELS, cavity.Laplace(**TIGHT), 0.5),
    (STUDENT, POINTS, Y, cavity.LocalBound(**TIGHT), 0.5),
    (LOGIT, None, LABELS, cavity.LocalBound(**TIGHT), 0.5),
    (likelihoods.Laplace(0.2), None, Y, cavity.MeanField(**TIGHT), 0.5),
]


@pytest.mark.sampled(1, "likelihood0-None-y0-method0-1.0")
@pytest.mark.parametrize(("likelihood", "points", "y", "method", "power"), GRADIENTS)
def test_jylanki_18_gradients(likelihood, points, y, method, power):
    """jylanki 18, 27: of the energy found anew at every point, likelihood parameters included."""
    fn = objective(likelihood, points, y, method, power)
    _, slope = fn(np.zeros(fn.size))
    for i in range(fn.size):
        step = 1e-4 * np.eye(fn.size)[i]
        found = (fn(step)[0] - fn(-step)[0]) / 2e-4
        assert slope[i] == pytest.approx(found, rel=1e-4, abs=1e-4 * np.max(np.abs(slope)))


@pytest.mark.slow
def test_jylanki_18_explicit_terms_are_not_enough_for_laplace():
    """The gradient with sites that do not move with the parameters is another one."""
    fn = objective(STUDENT, None, Y, cavity.Laplace(**TIGHT), 1.0)
    _, whole = fn(np.zeros(fn.size))

    @jax.jit
    @jax.grad
    def explicit(real):
        model = from_real(real, fn.start, fn.coordinates.maps)
        graph = build_graph(model, fn.data, fn.method, jnp.asarray(fn.jitter))
        return energy(graph, fn.sites)

    slope = explicit(fn.coordinates.origin) * fn.coordinates.scale
    assert np.max(np.abs(whole - slope)) > 0.05 * np.max(np.abs(whole))


@functools.cache
def mean_field():
    """jylanki S42, its own iteration."""
    s = np.full(len(Y), SCALE**2)
    for _ in range(3000):
        A = K + np.diag(s)
        m = K @ np.linalg.solve(A, Y)
        S = K - K @ np.linalg.solve(A, K)
        square = (Y - m) ** 2 + np.diag(S)
        s = (DF * SCALE**2 + square) / (DF + 1.0)
    # K⁻¹S = I - (K + D)⁻¹K, whose determinant is |D| / |K + D|
    kl = 0.5 * (m @ np.linalg.solve(A, Y) - np.trace(np.linalg.solve(A, K)))
    kl += 0.5 * (np.linalg.slogdet(A)[1] - np.log(s).sum())
    bound = stats.t(DF, scale=SCALE).logpdf(np.sqrt(square)).sum() - kl
    return m, np.diag(S), s, bound


def local_bound(gamma):
    """jylanki S45 at any widths."""
    C = (
        special.gammaln((DF + 1) / 2)
        - special.gammaln(DF / 2)
        - np.log(np.sqrt(DF * np.pi) * SCALE)
    )
    h = (DF + 1) * (np.log(gamma * (DF + 1) / (DF * SCALE**2)) - 1) + DF * SCALE**2 / gamma
    A = K + np.diag(gamma)
    value = len(Y) * C - 0.5 * h.sum() - 0.5 * np.linalg.slogdet(A)[1]
    return value + 0.5 * np.log(gamma).sum() - 0.5 * Y @ np.linalg.solve(A, Y)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", [cavity.MeanField(**TIGHT), cavity.LocalBound(**TIGHT)])
def test_jylanki_28_mean_field_is_the_local_bound(method):
    """jylanki 26 to 28: S42 and S45 by their own formulas."""
    found = cavity.infer(model(STUDENT), X, Y, method=method)
    mean, var, widths, bound = mean_field()
    assert found.converged
    assert_close(found.posterior.marginals(X).mean, mean, "fixed_point")
    assert_close(found.posterior.marginals(X).var, var, "fixed_point")
    assert found.log_evidence == pytest.approx(bound, abs=1e-5)
    assert found.log_evidence == pytest.approx(local_bound(widths), abs=1e-7)
    for factor in (0.5, 2.0):
        assert local_bound(factor * widths) < found.log_evidence


@pytest.mark.slow
def test_jylanki_29_bounds_lie_below_the_exact_evidence():
    """jylanki 29: by quadrature over three values of the function; others come close."""
    x, y = np.array([[0.4], [0.8], [1.2]]), np.array([0.3, 1.4, 0.2])
    L = np.linalg.cholesky(dense.rbf(x, x, VARIANCE, LENGTHSCALE))
    z = np.linspace(-6.0, 6.0, 121)
    grid = np.stack(np.meshgrid(z, z, z, indexing="ij")).reshape(3, -1)
    log_p = stats.norm.logpdf(grid).sum(axis=0)
    log_p += stats.t(DF, scale=SCALE).logpdf(y[:, None] - L @ grid).sum(axis=0)
    exact = special.logsumexp(log_p) + 3 * np.log(z[1] - z[0])
    for bound in (cavity.MeanField(**TIGHT), cavity.LocalBound(**TIGHT)):
        assert cavity.infer(model(STUDENT), x, y, method=bound).log_evidence < exact - 0.1
    for other in (cavity.PowerEP(), cavity.Laplace()):
        found = cavity.infer(model(STUDENT), x, y, power=1.0, method=other)
        assert found.log_evidence == pytest.approx(exact, abs=1.0)


def test_jylanki_30_robust_linear_regression():
    """jylanki 30: S40 with α = ν/2 and β = νσ²/2 is mean field with a linear kernel."""
    inputs = np.column_stack([X[:, 0], np.cos(3.0 * X[:, 0])])
    prior = np.array([0.8, 1.7])
    precision = np.ones(len(Y))
    for _ in range(2000):
        cov = np.linalg.inv((inputs.T * precision) @ inputs + np.diag(1.0 / prior))
        mean = cov @ inputs.T @ (precision * Y)
        square = (Y - inputs @ mean) ** 2 + np.sum(inputs @ cov * inputs, axis=1)
        precision = (DF / 2 + 0.5) / (DF * SCALE**2 / 2 + 0.5 * square)
    start = cavity.GP(kernels.Linear(prior), STUDENT)
    found = cavity.infer(start, inputs, Y, method=cavity.MeanField(**TIGHT))
    assert found.converged
    new = RNG.standard_normal((4, 2))
    joint = found.posterior.joint(new)
    assert_close(joint.mean, new @ mean, "fixed_point")
    assert_close(joint.cov, new @ cov @ new.T, "fixed_point")


@pytest.mark.parametrize("likelihood", [STUDENT, likelihoods.Laplace(0.2), LOGIT])
def test_jylanki_27_bounds_lie_below_and_touch(likelihood):
    f = jnp.linspace(-6.0, 6.0, 401)
    for y in (0.0, 1.0):
        for mean, var in ((0.3, 0.5), (-2.0, 1e-3), (4.0, 9.0)):
            outputs = jnp.full_like(f, y)
            bound = likelihood.bound(jnp.full_like(f, mean), jnp.full_like(f, var), outputs)
            z = f - bound.centre
            below = bound.constant + bound.slope * z - 0.5 * bound.precision * z**2
            gap = likelihood.log_prob(f, outputs) - below
            assert jnp.min(gap) > -1e-12
            where = y if likelihood is not LOGIT else 0.0
            reach = np.sqrt((mean - where) ** 2 + var)
            place = jnp.asarray([where - reach, where + reach])
            z = place - where
            touching = bound.constant[0] + bound.slope[0] * z - 0.5 * bound.precision[0] * z**2
            np.testing.assert_allclose(
                touching, likelihood.log_prob(place, jnp.full(2, y)), rtol=1e-9, atol=1e-9
            )


@pytest.mark.slow
@pytest.mark.parametrize(("likelihood", "y"), [(STUDENT, Y), (LOGIT, LABELS)])
def test_order_of_the_bounds(likelihood, y):
    """Local bound < variational < evidence, for the full GP and at power 0; EP is close."""
    for points in (None, POINTS):
        given = {"power": 0.0}
        low = cavity.infer(model(likelihood, points), X, y, method=cavity.LocalBound(), **given)
        middle = cavity.infer(model(likelihood, points), X, y, **given)
        assert low.log_evidence < middle.log_evidence
        ep = cavity.infer(model(likelihood, points), X, y, power=1.0)
        assert middle.log_evidence < ep.log_evidence
    full = cavity.infer(model(likelihood), X, y, power=1.0).log_evidence
    assert middle.log_evidence < full


def test_jylanki_33_the_steps_of_the_search_are_those_of_em():
    """The curvature of the bound is Newton's and the ridge 2(ν+1)r²/(r²+νσ²)²."""
    f = jnp.asarray(RNG.standard_normal((14, 1)))
    rows = Rows(jnp.asarray(X), jnp.asarray(Y)[:, None], jnp.ones((14, 1)))
    seen = (Latent(f, jnp.zeros_like(f), jnp.zeros_like(f)),)
    (newton,) = LaplaceTerm(STUDENT, exact=True).derivatives(seen, rows, 1.0)
    (em,) = LocalBoundTerm(STUDENT).derivatives(seen, rows, 1.0)
    r2 = (rows.y - f) ** 2
    ridge = 2.0 * (DF + 1.0) * r2 / (r2 + DF * SCALE**2) ** 2
    assert_close(em.slope, newton.slope)
    assert_close(em.curvature, newton.curvature - ridge)


@pytest.mark.slow
def test_jylanki_34_em_goes_uphill_to_the_mode():
    """jylanki 34: the bound at a point gives the E-step; it ends where f = K d log p / df."""
    f, heights = np.zeros(len(Y)), []
    zero = jnp.zeros(len(Y))
    for _ in range(400):
        bound = STUDENT.bound(jnp.asarray(f), zero, jnp.asarray(Y))
        f = K @ np.linalg.solve(K + np.diag(1.0 / np.asarray(bound.precision)), Y)
        heights.append(student_parts(f)[0] - 0.5 * f @ np.linalg.solve(K, f))
    assert np.all(np.diff(heights) > -1e-9)
    assert heights[-1] > heights[0] + 0.1
    assert_close(K @ student_parts(f)[1], f, "fixed_point")
    found = cavity.infer(model(STUDENT), X, Y, method=cavity.Laplace(**TIGHT))
    mode = np.asarray(found.posterior.marginals(X).mean)
    assert_close(K @ student_parts(mode)[1], mode, "fixed_point")


def test_jylanki_39_curvatures_of_both_signs():
    """jylanki 39: covariance and determinant are the dense ones, whatever the order of rows."""
    found, other = (
        cavity.infer(model(STUDENT), X[order], Y[order], method=cavity.Laplace(**TIGHT))
        for order in (slice(None), slice(None, None, -1))
    )
    mean = np.asarray(found.posterior.marginals(X).mean)
    value, _, bend = student_parts(mean)
    assert np.min(-bend) < 0.0 < np.max(-bend)
    B = np.eye(len(Y)) - K * bend[None, :]
    cov = np.linalg.solve(B, K)
    evidence = value - 0.5 * mean @ np.linalg.solve(K, mean) - 0.5 * np.linalg.slogdet(B)[1]
    for one in (found, other):
        joint = one.posterior.joint(X)
        assert_close(joint.mean, mean, "fixed_point")
        assert_close(joint.cov, cov, "fixed_point")
        assert_close(one.log_evidence, evidence, "factorised")


@jax.jit
def averaged_by_laplace(mean, residual, power):
    """The log mean and the derivatives of Student-t terms with this residual."""
    seen = (Latent(mean, jnp.zeros_like(mean), jnp.full_like(mean, residual)),)
    rows = Rows(jnp.asarray(X), jnp.asarray(Y)[:, None], jnp.ones((14, 1)))
    term = LaplaceTerm(STUDENT, exact=False)
    return term.log_mean(seen, rows, power), term.derivatives(seen, rows, power)[0]


@pytest.mark.sampled(1, "1e-06")
@pytest.mark.parametrize("residual", [1e-9, 1e-6, 1e-5, 1e-3, 0.3])
def test_residuals_of_any_size(residual):
    """What inducing variables leave is averaged over, narrow or wide."""
    z = np.linspace(-1.0, 1.0, 14)[:, None]
    grid = np.linspace(-12.0, 12.0, 40001)
    weights = np.exp(-0.5 * grid**2) / np.sqrt(2 * np.pi) * (grid[1] - grid[0])
    f = z[..., None] + np.sqrt(residual) * grid
    for power in (1.0, 0.4):
        logs = stats.t(DF, scale=SCALE).logpdf(Y[:, None, None] - f)
        total = np.log(np.exp(power * logs) @ weights) / power
        log_mean, found = averaged_by_laplace(z, residual, power)
        assert_close(log_mean, total, "fixed_point")
        up, down = (averaged_by_laplace(z + d, residual, power)[1] for d in (1e-5, -1e-5))
        assert_close(found.slope, (up.log_mean - down.log_mean) / 2e-5, "gradient")
        assert_close(found.curvature, (up.slope - down.slope) / 2e-5, "gradient")


class Twisted(AbstractQuadratureLikelihood):
    """Two modes, no bound: the search must floor the curvature."""

    support = likelihoods.Support.REAL

    def log_prob(self, f, y, **side):
        return jnp.logaddexp(-20.0 * (f - y) ** 2, -20.0 * (f + y) ** 2 - 1.0)


@pytest.mark.slow
def test_the_search_for_the_mode_needs_no_bound():
    found = cavity.infer(model(Twisted()), X, Y, method=cavity.Laplace())
    assert found.converged
    f = np.asarray(found.posterior.marginals(X).mean)
    near, far = np.exp(-20.0 * (f - Y) ** 2), np.exp(-20.0 * (f + Y) ** 2 - 1.0)
    slope = (-40.0 * (f - Y) * near - 40.0 * (f + Y) * far) / (near + far)
    np.testing.assert_allclose(K @ slope, f, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "likelihood", "message"),
    [
        (cavity.Laplace(), likelihoods.Laplace(), "needs two derivatives"),
        (
            cavity.LocalBound(),
            likelihoods.Bernoulli(),
            "needs a likelihood with a Gaussian lower bound",
        ),
        (
            cavity.MeanField(),
            likelihoods.Poisson(),
            "needs a likelihood with a Gaussian lower bound",
        ),
        (cavity.Laplace(), likelihoods.HeteroscedasticGaussian(), "one latent function"),
    ],
)
def test_methods_that_do_not_suit_the_likelihood(method, likelihood, message):
    with pytest.raises(ValueError, match=message):
        cavity.infer(model(likelihood), X, LABELS, method=method)


@pytest.mark.slow
def test_jylanki_e_r1_laplace_energy(data_folder):
    """jylanki E-R1: Laplace's method at its recorded optimum, to the digits recorded."""
    import gzip

    with gzip.open(data_folder / "neal_outliers" / "odata.txt.gz", "rt") as file:
        x, y = np.loadtxt(file)[:100].T
    variance, lengthscale = 3.095, 1.040
    kernel = kernels.RBF(variance, lengthscale) + kernels.White(1e-6)
    log_priors = np.log(stats.t(4).pdf(lengthscale) * lengthscale) + np.log(np.sqrt(variance) / 2)
    energies = []
    for noise in np.exp(np.linspace(-4.75, -4.5, 11)):  # the one number that was not recorded
        start = cavity.GP(kernel, likelihoods.StudentT(np.sqrt(noise), 4.0))
        found = cavity.infer(start, x[:, None], y, method=cavity.Laplace())
        energies.append(-found.log_evidence - log_priors)
    assert np.argmin(energies) not in (0, 10)
    assert abs(min(energies) + 14.9305) < 5e-3
