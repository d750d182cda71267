"""Tied factors against their formulas written out in numpy, and against what they tend to."""

import math
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.inference.factors.tied import TiedSite, natural_step, tied_cavity
from cavity.learning.data.arrays import prepare
from cavity.learning.data.training_data import Minibatch, some_rows
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from tests.oracle import dense
from tests.tolerances import assert_close

RNG = np.random.default_rng(8)
N, M, JITTER = 24, 5, 1e-8
X = np.sort(RNG.uniform(-2.0, 2.0, N))[:, None]
LABELS = (np.sin(3.0 * X[:, 0]) + 0.4 * RNG.standard_normal(N) > 0.0).astype(float)
Y = np.sin(3.0 * X[:, 0]) + 0.2 * RNG.standard_normal(N)
Z = np.linspace(-2.0, 2.0, M)[:, None]
VARIANCE, LENGTHSCALE = 2.0, 0.6
TIED = cavity.TiedPowerEP(max_sweeps=500, tolerance=1e-9)


def model(likelihood=None):
    chosen = likelihoods.Bernoulli() if likelihood is None else likelihood
    return cavity.GP(kernels.RBF(VARIANCE, LENGTHSCALE), chosen, inducing.Points(Z))


def objective(power, y=LABELS, likelihood=None, method=TIED):
    data = prepare(X, y, power=power)
    return Objective(as_dtype(model(likelihood), data), data, method=method, jitter=JITTER)


def somewhere(fn, seed=1):
    """A point where nothing is special, and its belief in numpy."""
    random = np.random.default_rng(seed)
    mean, raw = 0.5 * random.standard_normal((1, M)), 0.2 * random.standard_normal((1, M, M))
    x = fn.coordinates.at_tied(((TiedSite(mean, raw),),), fn.first)
    S = np.tril(raw[0], -1) + np.diag(np.exp(np.diag(raw[0])))
    return x, mean[0], S


def projected():
    """Loadings of the whitened variable, and residuals."""
    Kuu = dense.rbf(Z, Z, VARIANCE, LENGTHSCALE)
    Kuu += JITTER * VARIANCE * np.eye(M)
    A = np.linalg.solve(np.linalg.cholesky(Kuu), dense.rbf(Z, X, VARIANCE, LENGTHSCALE))
    return A, VARIANCE - np.sum(A**2, axis=0)


def log_partition(precision, shift):
    sign, volume = np.linalg.slogdet(precision)
    assert sign > 0
    size = len(shift)
    quadratic = shift @ np.linalg.solve(precision, shift)
    return 0.5 * (size * np.log(2.0 * np.pi) - volume + quadratic)


def log_power_means(mean, var, power):
    """Of the probit, on a grid."""
    grid = np.linspace(-12.0, 12.0, 8001)
    weights = stats.norm.pdf(grid) * (grid[1] - grid[0])
    f = mean[:, None] + np.sqrt(var)[:, None] * grid
    logs = stats.norm.logcdf((2.0 * LABELS[:, None] - 1.0) * f)
    if power == 0.0:
        return logs @ weights
    return np.log(np.exp(power * logs) @ weights) / power


def dense_evidence(m, V, power):
    """(1 - N/a) Phi(q) + N/a Phi(q/t^a) - Phi(p) + sum of log power means; at 0 the bound."""
    A, residual = projected()
    if power == 0.0:
        kl = 0.5 * (np.trace(V) + m @ m - M - np.linalg.slogdet(V)[1])
        var = np.sum(A * (V @ A), axis=0) + residual
        return log_power_means(A.T @ m, var, 0.0).sum() - kl
    precision, eye = np.linalg.inv(V), np.eye(M)
    shift = precision @ m
    site, site_shift = (precision - eye) / N, shift / N
    left, left_shift = precision - power * site, shift - power * site_shift
    cov = np.linalg.inv(left)
    mean, var = A.T @ cov @ left_shift, np.sum(A * (cov @ A), axis=0) + residual
    expected = (1.0 - N / power) * log_partition(precision, shift)
    expected += N / power * log_partition(left, left_shift) - log_partition(eye, np.zeros(M))
    return expected + log_power_means(mean, var, power).sum()


@pytest.mark.sampled(1, "1.0")
@pytest.mark.parametrize("power", [1.0, 0.5, 0.05])
def test_bui_s30_energy(power):
    """bui S30: (1 - N/a) Phi(q) + N/a Phi(q/t^a) - Phi(p) + sum of log power means."""
    fn = objective(power)
    x, m, S = somewhere(fn)
    assert_close(-fn(x)[0], dense_evidence(m, S @ S.T, power), "factorised")


def test_bui_s14_power_zero_is_the_uncollapsed_bound():
    """bui S14, and small powers tend to it."""
    fn = objective(0.0)
    x, m, S = somewhere(fn)
    expected = dense_evidence(m, S @ S.T, 0.0)
    assert_close(-fn(x)[0], expected, "factorised")
    assert -objective(1e-7)(x)[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_gradient(power):
    fn = objective(power, Y, likelihoods.StudentT(0.3, 4.0))
    x, _, _ = somewhere(fn)
    _, slope = fn(x)
    for i in (0, 1, 2, 3, 5, fn.size - 1, fn.size - M, fn.size - M * M - 1):
        step = 1e-5 * np.eye(fn.size)[i]
        found = (fn(x + step)[0] - fn(x - step)[0]) / 2e-5
        assert slope[i] == pytest.approx(found, rel=1e-5, abs=1e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("given", ["rows", "numbers of rows"])
@pytest.mark.parametrize("power", [0.0, 0.7])
def test_bui_27_minibatches_are_unbiased(power, given):
    """bui 27: over a partition, energies and slopes average to those of all rows."""
    fn = objective(power)
    x, _, _ = somewhere(fn)
    whole = fn(x)
    numbers = np.split(np.arange(N), 4)
    batches = [Minibatch(rows.size, rows) for rows in numbers]
    if given == "rows":
        batches = [Minibatch(rows.size, data=some_rows(fn.data, rows)) for rows in numbers]
    parts = [fn.on_rows(x, batch, 4.0) for batch in batches]
    assert_close(np.mean([p[0] for p in parts]), whole[0], "factorised")
    assert_close(np.mean([p[1] for p in parts], axis=0), whole[1], "factorised")


@pytest.mark.slow
def test_power_zero_ends_where_private_sites_do():
    """Both are the variational optimum; leaving one out takes the same site away."""
    private = cavity.infer(model(), X, LABELS, power=0.0)
    tied = cavity.infer(model(), X, LABELS, power=0.0, method=TIED)
    assert tied.converged
    assert tied.sites.finished_by == "L-BFGS-B"
    assert tied.log_evidence == pytest.approx(private.log_evidence, abs=1e-6)
    for a, b in zip(tied.posterior.marginals(X), private.posterior.marginals(X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
    np.testing.assert_allclose(tied.leave_one_out(), private.leave_one_out(), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.5, 1.0])
@pytest.mark.parametrize("rows", [1, 4])
def test_bui_26_equal_rows_share_their_site(rows, power):
    """bui 26: private sites of one row, and of equal rows, are tied."""
    X, y = np.full((rows, 1), 0.4), np.ones(rows)
    private = cavity.infer(model(), X, y, power=power)
    tied = cavity.infer(model(), X, y, power=power, method=TIED)
    assert tied.converged
    assert tied.log_evidence == pytest.approx(private.log_evidence, abs=1e-6)


def test_gaussian_noise_at_power_zero_is_vfe():
    """A full natural-gradient step from anywhere lands on the collapsed bound's posterior."""
    noise = likelihoods.Gaussian(0.1)
    exact = cavity.infer(model(noise), X, Y, power=0.0)
    method = cavity.TiedPowerEP(batch=N, natural=1.0, max_sweeps=1)
    fn = objective(0.0, Y, noise, method)
    x, _, _ = somewhere(fn)
    x, _ = fn.natural(x, None, 1.0, 1.0)
    assert_close(-fn(x)[0], exact.log_evidence, "factorised")
    np.testing.assert_allclose(fn(x)[1][-M * M - M :], 0.0, atol=1e-7)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_natural_gradients_end_where_l_bfgs_does(power):
    """At every power they need few steps to the minimum of the energy over the tied site."""
    method = cavity.TiedPowerEP(batch=N, natural=0.5, max_sweeps=1)
    whole = cavity.infer(model(), X, LABELS, power=power, method=TIED)
    fn = objective(power, method=method)
    x, _, _ = somewhere(fn)
    for _ in range(40):
        x, _ = fn.natural(x, None, 1.0, 0.5)
    assert -fn(x)[0] == pytest.approx(whole.log_evidence, abs=1e-6)
    np.testing.assert_allclose(fn(x)[1][-M * M - M :], 0.0, atol=1e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_natural_steps_move_by_slopes_in_expectations(power):
    """P and h move by the evidence's slopes in E[vv'] and E[v], by finite differences."""
    fn = objective(power, method=cavity.TiedPowerEP(batch=N, natural=0.5, max_sweeps=1))
    x, m, S = somewhere(fn)
    V, rho, size = S @ S.T, 0.5, 1e-4

    def slope(along, square):
        # of the evidence as a function of m and V + mm'
        values = []
        for step in (size, -size):
            mean = m + step * along
            second = V + np.outer(m, m) + step * square
            values.append(dense_evidence(mean, second - np.outer(mean, mean), power))
        return (values[0] - values[1]) / (2.0 * size)

    eye, none = np.eye(M), np.zeros((M, M))
    by_mean = np.array([slope(row, none) for row in eye])
    by_square = np.zeros((M, M))
    for i, j in zip(*np.tril_indices(M), strict=True):
        both = np.outer(eye[i], eye[j])
        by_square[i, j] = by_square[j, i] = slope(np.zeros(M), 0.5 * (both + both.T))
    P = np.linalg.inv(V) - 2.0 * rho * by_square
    h = np.linalg.solve(V, m) + rho * by_mean
    ((new,),) = fn.coordinates.tied_sites(fn.natural(x, None, 1.0, rho)[0])
    root = np.asarray(new.root[0])
    assert_close(root @ root.T, np.linalg.inv(P), "gradient")
    assert_close(new.mean[0], np.linalg.solve(P, h), "gradient")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_natural_steps_are_shortened_while_the_energy_grows(power):
    """Little noise and few points: whole steps above power 0 lead ever further away."""
    random = np.random.default_rng(0)
    inputs = random.uniform(-3.0, 3.0, (300, 1))
    y = np.sin(3.0 * inputs[:, 0]) + 0.03 * random.normal(size=300)
    points = inducing.Points(np.linspace(-3.0, 3.0, 6)[:, None])
    gp = cavity.GP(kernels.RBF(1.0, 0.6), likelihoods.Gaussian(0.001), points)
    method = cavity.TiedPowerEP(batch=100, natural=0.5, max_sweeps=60)
    found = cavity.infer(gp, inputs, y, power=power, method=method)
    exact = cavity.infer(gp, inputs, y, power=power)
    assert found.log_evidence > exact.log_evidence - 0.05 * abs(exact.log_evidence)
    assert "60 steps of natural gradients: " in found.message
    assert found.sites.finished_by == "natural gradients"


@pytest.mark.slow
@pytest.mark.parametrize("natural", [None, 0.2])
def test_learning_from_minibatches(natural):
    """It lowers the energy to near where all rows lead, and says that it has settled."""
    method = cavity.TiedPowerEP(batch=8, max_sweeps=600, natural=natural, learning_rate=0.05)
    whole = cavity.fit(model(), X, LABELS, power=0.0, method=cavity.TiedPowerEP())
    seen = []
    found = cavity.fit(model(), X, LABELS, power=0.0, method=method, callback=seen.append)
    start = cavity.infer(model(), X, LABELS, power=0.0)
    assert len(seen) == len(found.history) == found.n_iterations == 600
    assert start.log_evidence < found.log_evidence < whole.log_evidence + 1e-6
    assert found.log_evidence > start.log_evidence + 1.0
    by = "Adam" if natural is None else "Adam and natural gradients"
    assert f"600 steps of {by}: " in found.message
    hasty = cavity.TiedPowerEP(batch=8, max_sweeps=10, learning_rate=1e-5)
    once, again = (cavity.fit(model(), X, LABELS, power=0.0, method=hasty) for _ in range(2))
    assert not once.converged
    assert again.log_evidence == once.log_evidence


def test_two_outputs_and_missing_values():
    y = np.column_stack([LABELS, 1.0 - LABELS])
    y[3, 0] = np.nan
    both = cavity.infer(model(), X, y, power=0.5, method=TIED, missing="skip")
    alone = cavity.infer(model(), X, y[:, 1], power=0.5, method=TIED)
    found, expected = (result.posterior.marginals(X).mean for result in (both, alone))
    assert_close(found[:, 1], expected, "gradient")


@pytest.mark.slow
def test_two_latent_functions():
    noisy = model(likelihoods.HeteroscedasticGaussian())
    private, tied = (cavity.infer(noisy, X, Y, power=0.0, **m) for m in ({}, {"method": TIED}))
    assert tied.log_evidence == pytest.approx(private.log_evidence, abs=1e-5)


def test_what_tied_sites_cannot_do():
    full = cavity.GP(kernels.RBF(), likelihoods.Bernoulli())
    with pytest.raises(ValueError, match="need a model with inducing variables"):
        cavity.infer(full, X, LABELS, method=TIED)
    with pytest.raises(ValueError, match="one power for all rows"):
        cavity.infer(model(), X, LABELS, method=TIED, power=np.linspace(0.0, 1.0, N))
    for options, message in (
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"natural": 1.5, "batch": 3}, r"natural must lie in \(0, 1\]"),
        ({"natural": 0.5}, "give batch as well"),
    ):
        with pytest.raises(ValueError, match=message):
            cavity.TiedPowerEP(**options)


def test_whether_a_belief_is_joint_is_true_or_false(monkeypatch):
    options: dict[str, Any] = {"joint": "no"}
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match="joint must be True or False, given 'no'"):
        cavity.TiedPowerEP(**options)


def solved(A, B):
    """The solution and the determinant, in exact arithmetic."""
    size = len(A)
    rows = [list(a) + list(b) for a, b in zip(A, B, strict=True)]
    determinant = Fraction(1)
    for i in range(size):
        determinant *= rows[i][i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in set(range(size)) - {i}:
            rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return np.array([row[size:] for row in rows]), determinant


def exact_terms(m, S, power, total):
    """Phi(q) - Phi(p) + N/a [Phi(q/t^a) - Phi(q)], and the cavity, in exact arithmetic."""
    exact = np.vectorize(Fraction)
    m, S, a = exact(m)[:, None], exact(S), Fraction(power)
    eye = exact(np.eye(len(m)))
    P, volume = solved(S @ S.T, eye)
    h = P @ m
    left = P - a / total * (P - eye)
    cov, precision_volume = solved(left, eye)
    mean = cov @ h * (1 - a / total)
    quadratic, cavity_quadratic = (m.T @ h)[0, 0], (mean.T @ left @ mean)[0, 0]
    value = quadratic + total / a * (cavity_quadratic - quadratic)
    ratio = math.log1p(precision_volume * volume - 1)
    value = float(value) + math.log(volume) - float(total / a) * ratio
    return 0.5 * value, mean[:, 0].astype(float), cov.astype(float)


@pytest.mark.parametrize("power", [1.0, 0.5, 1e-10])
def test_narrow_beliefs_and_small_powers_keep_their_digits(power):
    """The root of a narrow belief is as good as singular: its inverse has no digits left."""
    random, size, total = np.random.default_rng(2), 4, 5000
    raw = 0.5 * np.tril(random.standard_normal((size, size)), -1)
    raw += np.diag([-1.0, -20.0, -12.0, -24.0])
    m, move = random.standard_normal(size), np.tril(random.standard_normal((size, size)))

    def root(raw):
        return np.tril(raw, -1) + np.diag(np.exp(np.diag(raw)))

    @jax.jit
    def both(raw, power):
        def value(mean, raw):
            found = tied_cavity(TiedSite(mean[None], raw[None]), power, jnp.asarray([1.0 * total]))
            return found.log_scale, (found.mean[0], found.root[0].T @ found.root[0])

        return jax.value_and_grad(value, argnums=(0, 1), has_aux=True)(jnp.asarray(m), raw)

    (value, (mean, cov)), (by_mean, by_raw) = both(raw, power)
    expected, expected_mean, expected_cov = exact_terms(m, root(raw), power, total)
    assert_close(value, expected)
    assert_close(mean, expected_mean)
    assert_close(cov, expected_cov)
    assert_close(by_mean, -expected_mean)
    sides = [exact_terms(m, root(raw + step * move), power, total)[0] for step in (1e-5, -1e-5)]
    assert_close(jnp.sum(by_raw * move), (sides[0] - sides[1]) / 2e-5, "gradient")


@pytest.mark.parametrize("size", [1.0, -100.0])
def test_natural_steps_are_in_natural_parameters(rng, size):
    """Precision and shift move by the slopes; a step that leaves no precision is shortened."""
    raw = jnp.asarray(0.3 * np.tril(rng.standard_normal((1, 4, 4))))
    site = TiedSite(jnp.asarray(rng.standard_normal((1, 4))), raw)
    g, half = rng.standard_normal(4), rng.standard_normal((4, 4))
    G = size * (half @ half.T + np.eye(4))

    def value(site):
        cov = site.root[0] @ site.root[0].T
        return site.mean[0] @ g + jnp.sum(G * cov)

    new = natural_step(site, jax.grad(value)(site), 0.5)
    m, S = np.asarray(site.mean[0]), np.asarray(site.root[0])
    least = np.linalg.eigvalsh(S.T @ (2.0 * G) @ S)[0]
    rho = 0.5 if size > 0.0 else -0.5 / least
    P = np.linalg.inv(S @ S.T)
    h = P @ m - rho * (g - 2.0 * G @ m)
    cov = np.linalg.inv(P + 2.0 * rho * G)
    root = np.asarray(new.root[0])
    assert_close(root @ root.T, cov, "factorised")
    assert_close(new.mean[0], cov @ h, "factorised")


@pytest.mark.parametrize(
    "method", [cavity.TiedPowerEP(), cavity.TiedPowerEP(batch=8, max_sweeps=10)]
)
def test_without_iterations_parameters_stay_and_sites_are_found(method):
    fitted = cavity.fit(model(), X, LABELS, method=method, max_iterations=0)
    inferred = cavity.infer(model(), X, LABELS, method=method)
    assert float(fitted.model.kernel.lengthscale) == LENGTHSCALE
    assert fitted.log_evidence == inferred.log_evidence
    assert fitted.converged == inferred.converged


def test_a_search_that_is_cut_short_leaves_sites_unfinished():
    fitted = cavity.fit(model(), X, LABELS, method=cavity.TiedPowerEP(), max_iterations=2)
    assert not fitted.sites.converged
    assert "limit of 2 iterations" in fitted.message
    assert not fitted.converged
