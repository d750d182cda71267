"""The dense oracle agrees with itself and with the frozen numbers of other libraries."""

import json
import pathlib

import numpy as np
import pytest

from tests.oracle import dense

PEERS = json.loads((pathlib.Path(__file__).parent / "peers.json").read_text(encoding="utf-8"))
JITTER = 1e-10


class Problem:
    """A small regression problem with per-row noise and a mean."""

    def __init__(self, n=12, m=4, seed=0, z_is_x=False):
        rng = np.random.default_rng(seed)
        self.X = rng.uniform(0, 4, (n, 2))
        self.Z = self.X if z_is_x else rng.uniform(0, 4, (m, 2))
        self.S = rng.uniform(0, 4, (5, 2))
        self.y = np.sin(2 * self.X[:, 0]) + 0.3 * rng.normal(size=n) + 0.5
        self.noise = rng.uniform(0.05, 0.3, n)
        self.mean = 0.4 * self.X[:, 1] - 0.2
        self.blocks = np.array([0, 1, 0, 2, 2, 1, 0, 2, 1, 1, 0, 2])[:n]
        k = lambda a, b: dense.rbf(a, b, 1.3, np.array([0.8, 1.5]))  # noqa: E731
        self.Kff, self.Kuf, self.Kuu = k(self.X, self.X), k(self.Z, self.X), k(self.Z, self.Z)
        self.Kss, self.Ksf, self.Ksu = k(self.S, self.S), k(self.S, self.X), k(self.S, self.Z)
        self.train = (self.Kff, self.Kuf, self.Kuu, self.y, self.noise)
        self.options = {"mean": self.mean, "jitter": JITTER}

    def evidence(self, power, blocks=None):
        return dense.power_ep_log_evidence(*self.train, power, blocks, **self.options)


@pytest.fixture
def problem():
    return Problem()


def test_exact_posterior_conditions_the_joint_gaussian(problem):
    """bui identity 1, in one dimension more: the joint over test and train, by precision."""
    p = problem
    mean, cov = dense.exact_posterior(p.Kff, p.Ksf, p.Kss, p.y, p.noise, p.mean, 0.1)
    joint = np.block([[p.Kss, p.Ksf], [p.Ksf.T, p.Kff + np.diag(p.noise)]])
    precision = np.linalg.inv(joint)
    n = len(p.S)
    np.testing.assert_allclose(np.linalg.inv(precision[:n, :n]), cov, atol=1e-10)
    shift = -np.linalg.solve(precision[:n, :n], precision[:n, n:] @ (p.y - p.mean))
    np.testing.assert_allclose(0.1 + shift, mean, atol=1e-10)


def test_named_methods_are_settings_of_the_power(problem):
    """bui identities 5, 6, 13: FITC, VFE and PITC; blocks do not matter at power 0."""
    p, o = problem, problem.options
    train_u = p.train[1:]
    assert p.evidence(1.0) == pytest.approx(dense.fitc_log_evidence(*p.train, **o), rel=1e-12)
    vfe = dense.vfe_log_evidence(*p.train, **o)
    assert p.evidence(0.0) == pytest.approx(vfe, rel=1e-12)
    assert p.evidence(0.0, p.blocks) == pytest.approx(vfe, rel=1e-12)
    assert p.evidence(1e-7) == pytest.approx(vfe, rel=1e-5)
    assert p.evidence(1e-7, p.blocks) == pytest.approx(vfe, rel=1e-5)
    pitc = dense.pitc_log_evidence(*p.train, p.blocks, **o)
    assert p.evidence(1.0, p.blocks) == pytest.approx(pitc, rel=1e-12)
    D = p.Kff - dense.nystrom(p.Kuf, p.Kuu, JITTER)
    dtc = dense.dtc_log_evidence(*train_u, **o)
    assert vfe == pytest.approx(dtc - 0.5 * np.sum(np.diag(D) / p.noise), rel=1e-12)


def test_one_block_at_power_one_is_exact(problem):
    """bui identity 13, E1: the sign of the penalty."""
    p = problem
    one = np.zeros(len(p.y))
    exact = dense.exact_log_evidence(p.Kff, p.y, p.noise, p.mean)
    assert p.evidence(1.0, one) == pytest.approx(exact, rel=1e-12)
    assert p.evidence(0.5, np.arange(len(p.y))) == pytest.approx(p.evidence(0.5), rel=1e-12)


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_inducing_inputs_at_the_inputs_give_the_exact_process(power):
    """bui identity 14; turner_slides identity 8; vanderwilk T10."""
    p = Problem(z_is_x=True)
    exact = dense.exact_log_evidence(p.Kff, p.y, p.noise, p.mean)
    assert p.evidence(power) == pytest.approx(exact, rel=1e-7)
    m, V = dense.inducing_posterior(*p.train, power, **p.options)
    mean, cov = dense.predict(m, V, p.Ksu, p.Kss, p.Kuu, 0.1, JITTER)
    expected = dense.exact_posterior(p.Kff, p.Ksf, p.Kss, p.y, p.noise, p.mean, 0.1)
    np.testing.assert_allclose(mean, expected[0], atol=1e-6)
    np.testing.assert_allclose(cov, expected[1], atol=1e-6)


def test_posteriors_in_both_forms(problem):
    """vanderwilk items 23 and 32 equal the covariance form of S23 at powers 0 and 1."""
    p, o = problem, problem.options
    for power, other in (
        (0.0, dense.vfe_inducing_posterior(*p.train[1:], **o)),
        (1.0, dense.fitc_inducing_posterior(*p.train, **o)),
    ):
        ours = dense.inducing_posterior(*p.train, power, **o)
        np.testing.assert_allclose(ours[0], other[0], atol=1e-9)
        np.testing.assert_allclose(ours[1], other[1], atol=1e-9)


@pytest.mark.parametrize("power", [0.2, 0.5, 1.0, "mixed"])
def test_loop_reaches_the_closed_form(problem, power):
    """bui identity 7; turner_slides identity 1: sites, scales, posterior and energy."""
    p = problem
    a = np.where(np.arange(len(p.y)) % 2, 0.4, 0.9) if power == "mixed" else power
    loop = dense.power_ep_loop(*p.train, a, **p.options)
    D = np.diag(p.Kff - dense.nystrom(p.Kuf, p.Kuu, JITTER))
    np.testing.assert_allclose(loop.g, p.y - p.mean, atol=1e-8)
    np.testing.assert_allclose(loop.v, a * D + p.noise, rtol=1e-8)
    scales = -(1 - np.asarray(a)) / (2 * np.asarray(a)) * np.log1p(a * D / p.noise)
    np.testing.assert_allclose(loop.log_scales, scales, atol=1e-7)
    m, V = dense.inducing_posterior(*p.train, a, **p.options)
    np.testing.assert_allclose(loop.m, m, atol=1e-8)
    np.testing.assert_allclose(loop.V, V, atol=1e-8)
    assert loop.log_evidence == pytest.approx(p.evidence(a), rel=1e-9)


def test_sweep_law(problem):
    """bui identity 8: precisions approach their limit as 1 - (1 - power)^k, in any order."""
    p = problem
    order = np.random.default_rng(1).permutation(len(p.y))
    loop = dense.power_ep_loop(*p.train, 0.4, **p.options, sweeps=6, order=order)
    D = np.diag(p.Kff - dense.nystrom(p.Kuf, p.Kuu, JITTER))
    limit = 1.0 / (0.4 * D + p.noise)
    for k, tau in enumerate(loop.precisions, start=1):
        np.testing.assert_allclose(tau, limit * (1 - 0.6**k), rtol=1e-9)
    assert dense.power_ep_loop(*p.train, 1.0, **p.options).sweeps == 2


@pytest.mark.parametrize("power", [0.3, 1.0, "mixed"])
def test_block_loop_reaches_the_closed_form(problem, power):
    """turner_slides identity 7; bui E1, with a private power per block."""
    p = problem
    a = np.array([0.3, 0.6, 1.0])[p.blocks] if power == "mixed" else power
    loop = dense.block_power_ep_loop(*p.train, a, p.blocks, **p.options, tol=1e-12)
    m, V = dense.inducing_posterior(*p.train, a, p.blocks, **p.options)
    np.testing.assert_allclose(loop.m, m, atol=1e-7)
    np.testing.assert_allclose(loop.V, V, atol=1e-7)
    assert loop.log_evidence == pytest.approx(p.evidence(a, p.blocks), rel=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_log_evidence_never_decreases_with_the_power(seed):
    """bui identity 15; turner_slides identity 4."""
    p = Problem(seed=seed)
    for blocks in (None, p.blocks):
        values = [p.evidence(a, blocks) for a in np.linspace(0, 1, 11)]
        assert np.all(np.diff(values) >= -1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_bounds_sandwich_the_exact_evidence(seed):
    """vanderwilk T18, T25; bui identity 16: the lower and upper bounds, each constant."""
    p = Problem(seed=seed)
    exact = dense.exact_log_evidence(p.Kff, p.y, p.noise, p.mean)
    lower = dense.vfe_log_evidence(*p.train, **p.options)
    assert lower <= min(exact, p.evidence(1.0))
    trace, row_sum, eigenvalue = (
        dense.titsias_upper_bound(*p.train, **p.options, bound=b)
        for b in ("trace", "row_sum", "eigenvalue")
    )
    assert exact <= eigenvalue <= min(trace, row_sum)


def test_uncollapsed_bound_is_tight_at_its_optimum_only(problem):
    """vanderwilk item 32, bui identity 28: the best q(u) gives Titsias's bound, others less."""
    p = problem
    m, V = dense.vfe_inducing_posterior(*p.train[1:], **p.options)
    best = dense.svgp_bound(m, V, *p.train, **p.options)
    assert best == pytest.approx(dense.vfe_log_evidence(*p.train, **p.options), rel=1e-9)
    assert dense.svgp_bound(m + 0.01, V, *p.train, **p.options) < best
    assert dense.svgp_bound(m, 1.1 * V, *p.train, **p.options) < best


def test_low_rank_form_is_the_dense_form(problem):
    p = problem
    mixed = np.where(np.arange(len(p.y)) % 3, 0.0, 0.7)
    for power in (0.0, 0.5, 1.0, mixed):
        value = dense.power_ep_log_evidence_low_rank(
            np.diag(p.Kff), p.Kuf, p.Kuu, p.y, p.noise, power, **p.options
        )
        assert value == pytest.approx(p.evidence(power), rel=1e-10)


def peers_data(rows, keep):
    """The data of peers.json."""
    r = np.random.RandomState(1)
    X, W = r.rand(rows, 8), r.randn(8, 20)
    b, a = r.rand(20) * 6.28, r.randn(20)
    y = np.cos(3 * X @ W / np.sqrt(8) * 1.5 + b) @ a
    y = (y - y.mean()) / y.std() + 0.1 * r.randn(rows)
    return X[:keep], y[:keep]


@pytest.fixture(scope="module")
def fixture():
    X, y = peers_data(12000, 10000)
    Z = X[np.random.RandomState(0).permutation(10000)[:200]]
    return np.ones(len(y)), dense.rbf(Z, X), dense.rbf(Z, Z), y


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "row", PEERS["sparse"], ids=lambda row: f"{row['library']}-{row['objective']}-{row['jitter']}"
)
def test_other_libraries_agree(fixture, row):
    """Their printed digits, at their jitter."""
    kff, Kuf, Kuu, y = fixture
    power = row.get("power", 0.0)
    value = dense.power_ep_log_evidence_low_rank(
        kff, Kuf, Kuu, y, 1.0, power, jitter=row["jitter"]
    )
    if row["objective"] == "dtc":
        A = np.linalg.solve(np.linalg.cholesky(Kuu + row["jitter"] * np.eye(200)), Kuf)
        value += 0.5 * (np.sum(kff) - np.sum(A**2))
    value -= row.get("differs_by", 0.0)
    assert value == pytest.approx(row["log_evidence"], abs=0.51 * 10.0 ** -row["digits"])


@pytest.mark.slow
def test_exact_evidence_of_other_libraries():
    for row in PEERS["exact"]:
        X, y = peers_data(row["rows"], row["rows"])
        value = dense.exact_log_evidence(dense.rbf(X, X), y, 1.0)
        assert value == pytest.approx(row["log_evidence"], abs=0.51 * 10.0 ** -row["digits"])
