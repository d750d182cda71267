"""A row of weight w is w rows that are alike: against copies, and against dense numpy."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.inference.energy import batch_energy, energy
from cavity.learning.data.arrays import prepare
from tests.equivalence.problem import SWEEPS
from tests.tolerances import assert_close

RANDOM = np.random.default_rng(21)
ROWS = 11
X = np.sort(RANDOM.uniform(-3.0, 3.0, (ROWS, 1)), axis=0)
F = np.sin(2.0 * X[:, 0])
REAL = F + 0.2 * RANDOM.normal(size=ROWS)
SIGNS = (F > 0.0).astype(float)
COUNTS = RANDOM.poisson(np.exp(F)).astype(float)
CLASSES = np.arange(ROWS) % 3.0
WHOLE = np.array([2.0, 1.0, 3.0, 0.0, 1.0, 2.0, 1.0, 4.0, 1.0, 0.0, 2.0])
COPIES = np.repeat(np.arange(ROWS), WHOLE.astype(int))
BROKEN = np.array([0.3, 2.7, 1.0, 0.3, 0.0, 2.7, 1.4, 0.3, 2.7, 1.0, 0.6])
Z = np.linspace(-3.0, 3.0, 4)[:, None]
PLACES = np.linspace(-3.0, 3.0, 5)[:, None]
VARIANCE, LENGTH, NOISE = 1.3, 0.9, 0.1


def gp(likelihood, *, sparse=False):
    points = inducing.Points(Z) if sparse else None
    return cavity.GP(kernels.RBF(VARIANCE, LENGTH), likelihood, points)


def deep():
    first, last = (kernels.RBF(VARIANCE, length) for length in (LENGTH, 1.5))
    layers = (
        cavity.Layer(first, inducing.Points(Z), noise_variance=0.05),
        cavity.Layer(last, inducing.Points(Z)),
    )
    return cavity.DeepGP(layers, likelihoods.Gaussian(NOISE))


TIED = cavity.TiedPowerEP(max_sweeps=3000)
TIGHT = cavity.PowerEP(tolerance=1e-10)
CASES = {
    "exact": (lambda: gp(likelihoods.Gaussian(NOISE)), REAL, 0.5, TIGHT),
    **{
        f"sparse, power {power}": (
            lambda: gp(likelihoods.Gaussian(NOISE), sparse=True),
            REAL,
            power,
            TIGHT,
        )
        for power in (0.0, 0.5, 1.0)
    },
    "probit, full": (lambda: gp(likelihoods.Bernoulli()), SIGNS, 1.0, TIGHT),
    "probit, sparse": (lambda: gp(likelihoods.Bernoulli(), sparse=True), SIGNS, 0.5, TIGHT),
    "counts": (lambda: gp(likelihoods.Poisson(), sparse=True), COUNTS, 0.0, TIGHT),
    "outliers": (lambda: gp(likelihoods.StudentT(0.3, 4.0)), REAL, 0.5, TIGHT),
    "classes": (lambda: gp(likelihoods.MultinomialProbit(3)), CLASSES, 0.5, TIGHT),
    "softmax": (lambda: gp(likelihoods.Softmax(3), sparse=True), CLASSES, 0.5, TIGHT),
    "laplace": (lambda: gp(likelihoods.Bernoulli()), SIGNS, 1.0, cavity.Laplace()),
    "bound": (lambda: gp(likelihoods.Bernoulli("logit")), SIGNS, 0.0, cavity.LocalBound()),
    "tied": (lambda: gp(likelihoods.Bernoulli(), sparse=True), SIGNS, 0.5, TIED),
    "deep": (deep, REAL, 0.5, TIED),
}


@pytest.mark.parametrize(("model", "y", "power", "method"), CASES.values(), ids=CASES)
def test_whole_weights_are_copies(model, y, power, method):
    weighted = cavity.infer(model(), X, y, power=power, method=method, rows={"weight": WHOLE})
    copied = cavity.infer(model(), X[COPIES], y[COPIES], power=power, method=method)
    assert weighted.converged
    assert abs(float(weighted.log_evidence) - float(copied.log_evidence)) < 1e-8
    for a, b in zip(
        weighted.posterior.marginals(PLACES), copied.posterior.marginals(PLACES), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-8)


def covariance(a, b):
    return VARIANCE * np.exp(-0.5 * (a[:, None, 0] - b[None, :, 0]) ** 2 / LENGTH**2)


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_broken_weights_multiply_the_precision_of_a_site(power):
    """log Z of prior times the sites N(z; y, s² + a d) to the power w, with their scales."""
    Kuu, Kuf = covariance(Z, Z), covariance(Z, X)
    A = np.linalg.solve(Kuu, Kuf)
    d = VARIANCE - np.sum(Kuf * A, axis=0)
    precision = BROKEN / (NOISE + power * d)
    charge = d / NOISE if power == 0.0 else np.log1p(power * d / NOISE) / power
    scale = -0.5 * BROKEN * (np.log(2.0 * np.pi * NOISE) + charge) - 0.5 * precision * REAL**2
    P = np.linalg.inv(Kuu) + A * precision @ A.T
    mean = np.linalg.solve(P, A @ (precision * REAL))
    value = np.sum(scale) + 0.5 * mean @ P @ mean
    value -= 0.5 * (np.linalg.slogdet(P)[1] + np.linalg.slogdet(Kuu)[1])
    model = gp(likelihoods.Gaussian(NOISE), sparse=True)
    found = cavity.infer(model, X, REAL, power=power, rows={"weight": BROKEN}, jitter=0.0)
    assert_close(found.log_evidence, value, "factorised")
    at = covariance(PLACES, Z) @ np.linalg.solve(Kuu, mean)
    np.testing.assert_allclose(found.posterior.marginals(PLACES).mean, at, rtol=0.0, atol=1e-8)


def ep_with_weights(y, weights, sweeps=400):
    """EP of a probit in a full GP, each row's site to the power of its weight, in plain numpy."""
    K, signs = covariance(X, X), 2.0 * y - 1.0
    tau, nu = np.zeros(len(y)), np.zeros(len(y))
    for _ in range(sweeps):
        S = np.linalg.inv(np.linalg.inv(K + 1e-12 * np.eye(len(y))) + np.diag(weights * tau))
        m, v = S @ (weights * nu), np.diag(S)
        left = 1.0 / (1.0 / v - tau)
        at = left * (m / v - nu)
        z = signs * at / np.sqrt(1.0 + left)
        ratio = np.exp(norm.logpdf(z) - norm.logcdf(z))
        slope, bend = signs * ratio / np.sqrt(1.0 + left), -ratio * (z + ratio) / (1.0 + left)
        new = -bend / (1.0 + bend * left)
        tau, nu = tau + 0.5 * (new - tau), nu + 0.5 * (new * at + slope / (1.0 + bend * left) - nu)
    root = np.sqrt(weights * tau)
    B = np.eye(len(y)) + root[:, None] * K * root
    value = 0.5 * (weights * nu) @ m - 0.5 * np.linalg.slogdet(B)[1]
    phi = lambda mean, var: 0.5 * (np.log(var) + mean**2 / var)  # noqa: E731
    value += np.sum(weights * (norm.logcdf(z) + phi(at, left) - phi(m, v)))
    return value, m


def test_broken_weights_of_a_probit_are_powers_of_sites_with_the_cavity_of_one():
    value, mean = ep_with_weights(SIGNS, BROKEN)
    model = gp(likelihoods.Bernoulli())
    how = {"power": 1.0, "method": TIGHT, "rows": {"weight": BROKEN}}
    found = cavity.infer(model, X, SIGNS, **how)
    assert abs(float(found.log_evidence) - value) < 1e-7
    np.testing.assert_allclose(found.posterior.marginals(X).mean, mean, rtol=0.0, atol=1e-6)


def test_blocks_have_the_noise_of_their_rows_divided_by_weights():
    model, labels = gp(likelihoods.Gaussian(NOISE), sparse=True), np.arange(ROWS) // 4
    how = {"power": 0.5, "blocks": labels}
    some = BROKEN > 0.0
    found = cavity.infer(model, X, REAL, rows={"weight": BROKEN}, **how)
    known = {"noise_variance": NOISE / BROKEN[some]}
    other = cavity.infer(model, X[some], REAL[some], rows=known, power=0.5, blocks=labels[some])
    # log N(y; f, s²)ʷ - log N(y; f, s²/w)
    w = BROKEN[some]
    apart = -0.5 * np.sum((w - 1.0) * np.log(2.0 * np.pi * NOISE) + np.log(w))
    assert_close(found.log_evidence, float(other.log_evidence) + apart, "factorised")


def test_the_energy_of_minibatches_is_unbiased():
    model, method = gp(likelihoods.Bernoulli(), sparse=True), cavity.PowerEP()
    data = prepare(X[:10], SIGNS[:10], power=0.5, rows={"weight": BROKEN[:10]})
    found = cavity.infer(model, X[:10], SIGNS[:10], power=0.5, rows={"weight": BROKEN[:10]})
    graph = data.problem(model, method.approximation, 1e-8).graph()
    parts = [
        batch_energy(graph, found.found, jnp.arange(i, i + 5), jnp.asarray(2.0)) for i in (0, 5)
    ]
    assert_close(np.mean(parts), energy(graph, found.found), "factorised")


@pytest.mark.parametrize("method", [TIGHT, SWEEPS], ids=["exact", "by sites"])
@pytest.mark.parametrize("sparse", [False, True], ids=["full", "sparse"])
def test_leaving_one_out_leaves_out_the_whole_row(sparse, method):
    model = gp(likelihoods.Gaussian(NOISE), sparse=sparse)
    how = {"power": 0.5, "rows": {"weight": WHOLE}, "method": method}
    left_out = cavity.infer(model, X, REAL, **how).left_out.densities
    others = np.arange(ROWS) != 2
    rows = {"weight": WHOLE[others]}
    without = cavity.infer(model, X[others], REAL[others], power=0.5, rows=rows)
    mean, var = (float(a[0]) for a in without.posterior.marginals(X[2:3]))
    assert_close(left_out[2], norm.logpdf(REAL[2], mean, np.sqrt(var + NOISE)), "factorised")
    assert np.isnan(left_out[WHOLE == 0.0]).all()


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.where(np.arange(ROWS) == 4, -1.0, 1.0), "at least 0 and finite .* row 4 .* has -1"),
        (np.where(np.arange(ROWS) == 2, np.nan, 1.0), "at least 0 and finite"),
        (np.zeros(ROWS), "at least one weight must be positive"),
        (np.ones(3), "one value per row"),
    ],
    ids=["negative", "nan", "zero", "short"],
)
def test_impossible_weights_are_refused(weights, said):
    with pytest.raises(ValueError, match=said):
        cavity.infer(gp(likelihoods.Gaussian(NOISE)), X, REAL, rows={"weight": weights})


def test_draws_and_series_take_no_weights():
    model = gp(likelihoods.Gaussian(NOISE))
    with pytest.raises(ValueError, match="rows of weight 1"):
        cavity.infer(model, X, REAL, method=cavity.MCMC(), rows={"weight": WHOLE})
