"""Sparse regression in closed form: energies and posteriors of the dense oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cavity.inference.energy import empty_sites
from tests.equivalence.problem import (
    BLOCKS,
    EACH_BLOCK,
    EACH_ROW,
    POWERS,
    ROWS,
    energy_at,
    laid_out,
    problem,
    with_mean,
)
from tests.oracle import dense
from tests.tolerances import assert_close

CASES = {
    **{f"power {a}": (a, None) for a in POWERS},
    **{f"power {a}, blocks": (a, BLOCKS) for a in POWERS},
    "a power per row": (EACH_ROW, None),
    "a power per block": (EACH_BLOCK, BLOCKS),
}
each_case = pytest.mark.parametrize(("power", "blocks"), CASES.values(), ids=CASES)
few = settings(max_examples=15, deadline=None)


@pytest.mark.sampled(4, "power 0.0-plain")
@pytest.mark.parametrize("setting", [problem, with_mean], ids=["plain", "mean, known noise"])
@each_case
def test_bui_07_13_turner_03_closed_form_is_the_dense_energy(setting, power, blocks):
    """bui 5-7 and 13 with E1; private powers; turner 1, 3 and 7; vanderwilk T17."""
    p = setting()
    result = p.infer(power, blocks)
    assert_close(result.log_evidence, p.oracle(power, blocks), "factorised")
    assert result.converged
    assert result.sites.finished_by == "exact"


@pytest.mark.parametrize("setting", [problem, with_mean], ids=["plain", "mean, known noise"])
@each_case
def test_bui_05_06_posterior_is_the_dense_posterior(setting, power, blocks):
    """bui 5, 6, 7 and 13, turner 1: mean and covariance, at inducing and at new inputs."""
    p = setting()
    posterior = p.infer(power, blocks).posterior
    inducing = p.oracle_inducing(power, blocks)
    for S in (p.S, p.Z):
        mean, cov = p.oracle_predict(*inducing, S)
        joint = posterior.joint(S)
        assert_close(joint.mean, mean, "factorised", scale=1.0)
        assert_close(joint.cov, cov, "factorised", scale=1.0)
        marginals = posterior.marginals(S)
        assert_close(marginals.mean, mean, "factorised", scale=1.0)
        assert_close(marginals.var, np.diag(cov), "factorised", scale=1.0)


@pytest.mark.parametrize("full", [False, True], ids=["sparse", "full"])
def test_jitter_is_a_share_of_the_prior_variance(full):
    """Large enough to be seen: on the diagonal of Kuu, or of Kff where it was raised."""
    p = problem(jitter=1e-2)
    p = p.but(Z=None) if full else p
    graph, _ = laid_out(p.model, p.X, p.y, jitter=1e-2, power=0.5)
    diagonal = p.but(noise=p.noise + 1e-2 * p.variance)
    expected = diagonal.exact() if full else p.oracle(0.5)
    assert_close(-energy_at(graph, empty_sites(graph)), expected, "factorised")


def test_bui_05_power_one_is_fitc():
    """bui 5, turner 3, vanderwilk T28: objective and posterior of FITC, written on their own."""
    p = problem()
    result = p.infer(1.0)
    assert_close(result.log_evidence, dense.fitc_log_evidence(*p.train, **p.options), "factorised")
    m, V = dense.fitc_inducing_posterior(*p.train, **p.options)
    mean, cov = p.oracle_predict(m, V)
    assert_close(result.posterior.joint(p.S).mean, mean, "factorised", scale=1.0)
    assert_close(result.posterior.joint(p.S).cov, cov, "factorised", scale=1.0)


def test_bui_06_power_zero_is_titsias():
    """bui 6, turner 3: the bound and posterior of VFE; the posterior of DTC, and DTC less a trace.

    vanderwilk T12.
    """
    p = problem()
    result = p.infer(0.0)
    assert_close(result.log_evidence, dense.vfe_log_evidence(*p.train, **p.options), "factorised")
    dtc = dense.dtc_log_evidence(*p.train[1:], **p.options)
    assert_close(result.log_evidence, dtc - np.trace(p.D) / (2 * p.noise), "factorised")
    assert result.log_evidence <= dtc
    m, V = dense.vfe_inducing_posterior(*p.train[1:], **p.options)
    mean, cov = p.oracle_predict(m, V)
    assert_close(result.posterior.joint(p.S).mean, mean, "factorised", scale=1.0)
    assert_close(result.posterior.joint(p.S).cov, cov, "factorised", scale=1.0)


@pytest.mark.parametrize("blocks", [None, BLOCKS], ids=["rows", "blocks"])
def test_bui_06_the_limit_at_zero_is_reached_linearly(blocks):
    """bui 6: the error at power a is O(a), from 1e-3 down to 1e-12 without loss of digits."""
    p = problem()
    limit = p.evidence(0.0)
    powers = np.array([1e-3, 1e-4, 1e-5, 1e-6])
    slopes = [(p.evidence(a, blocks) - limit) / a for a in powers]
    assert np.all(np.asarray(slopes) > 0)
    np.testing.assert_allclose(slopes[1:], slopes[:-1], rtol=0.05)
    assert_close(p.evidence(1e-12, blocks), limit, "factorised")


def test_bui_13_blocks_at_power_zero_are_vfe():
    """bui 13 (Remark 5), turner 7: whatever the blocks."""
    p = problem()
    vfe = p.evidence(0.0)
    assert_close(p.evidence(0.0, BLOCKS), vfe, "factorised")
    assert_close(p.evidence(0.0, np.zeros(ROWS, int)), vfe, "factorised")


def test_bui_13_blocks_at_power_one_are_pitc():
    """bui 13 (Remark 4)."""
    p = problem()
    pitc = dense.pitc_log_evidence(*p.train, BLOCKS, **p.options)
    assert_close(p.evidence(1.0, BLOCKS), pitc, "factorised")


def test_bui_13_one_block_at_power_one_is_exact():
    """bui 13, turner 7: one factor with everything in it needs no approximation."""
    p = problem()
    result = p.infer(1.0, np.zeros(ROWS, int))
    assert_close(result.log_evidence, p.exact(), "fixed_point")


@pytest.mark.parametrize("power", POWERS)
def test_bui_13_blocks_of_one_row_are_rows(power):
    """bui 13 (B = N), turner 7: energy and posterior."""
    p = problem()
    rows, blocks = p.infer(power), p.infer(power, np.arange(ROWS))
    assert_close(blocks.log_evidence, rows.log_evidence, "factorised")
    for one, other in zip(blocks.posterior.joint(p.S), rows.posterior.joint(p.S), strict=True):
        assert_close(one, other, "factorised", scale=1.0)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("power", "blocks"), [(0.0, None), (0.3, None), (1.0, None), (0.3, BLOCKS)]
)
def test_bui_14_turner_08_inducing_inputs_at_the_inputs_are_exact(power, blocks):
    """bui 14, turner 8, vanderwilk T10: evidence and posterior, every power (D = 0).

    Up to the jitter, which is a little noise more for all but the variational bound.
    """
    p = problem(jitter=1e-10)
    p = p.but(Z=p.X)
    result = p.infer(power, blocks)
    assert result.log_evidence == pytest.approx(p.exact(), abs=1e-5)
    mean, cov = p.exact_posterior()
    np.testing.assert_allclose(result.posterior.joint(p.S).mean, mean, atol=1e-6)
    np.testing.assert_allclose(result.posterior.joint(p.S).cov, cov, atol=1e-6)


seeds = st.integers(0, 10**6)
scales = st.floats(0.2, 3.0)


@pytest.mark.slow
@few
@given(seeds, scales, st.floats(0.01, 2.0))
def test_bui_15_turner_04_log_evidence_never_decreases_with_the_power(seed, lengthscale, noise):
    """bui 15, turner 4: VFE <= Power EP <= FITC, the same for blocks up to PITC."""
    p = problem(seed, lengthscale=np.full(2, lengthscale), noise=noise)
    for blocks in (None, BLOCKS):
        values = [p.evidence(a, blocks) for a in (0.0, 1e-9, 0.1, 0.5, 1.0)]
        assert np.all(np.diff(values) >= -1e-9 * np.abs(values[0]))


@few
@given(seeds, scales, st.floats(0.01, 2.0))
def test_bui_16_turner_05_the_variational_bound_is_a_bound(seed, lengthscale, noise):
    """bui 16, turner 5, vanderwilk T18 and T25: VFE <= exact <= upper bounds, VFE <= FITC."""
    p = problem(seed, lengthscale=np.full(2, lengthscale), noise=noise)
    exact = p.but(Z=None).evidence()
    lower = p.evidence(0.0)
    slack = 1e-9 * abs(exact)
    assert lower <= exact + slack
    assert lower <= p.evidence(1.0) + slack
    upper = {
        name: dense.titsias_upper_bound(*p.train, **p.options, bound=name)
        for name in ("trace", "row_sum", "eigenvalue")
    }
    assert exact <= upper["eigenvalue"] + slack
    assert upper["eigenvalue"] <= min(upper["trace"], upper["row_sum"]) + slack


def test_bui_16_turner_05_power_ep_is_no_bound():
    """bui 16, turner 5, vanderwilk T16: FITC and DTC lie on either side of the exact evidence."""
    signs = {"fitc": set(), "dtc": set()}
    for seed in range(6):
        for noise in (0.02, 0.1, 1.0):
            p = problem(seed, noise=noise)
            exact = p.exact()
            signs["fitc"].add(p.evidence(1.0) > exact)
            dtc = p.evidence(0.0) + np.trace(p.D) / (2 * noise)
            signs["dtc"].add(dtc > exact)
    assert signs == {"fitc": {True, False}, "dtc": {True, False}}


@few
@given(seeds, st.floats(0.01, 1.0))
def test_bui_17_another_inducing_point_never_lowers_the_bound(seed, noise):
    """bui 17, vanderwilk T22 and T24: at power 0; nested sets lead up to the exact evidence."""
    p = problem(seed, noise=noise)
    extra = np.random.default_rng([seed, 2]).uniform(0, 4, (1, 2))
    more = p.but(Z=np.concatenate([p.Z, extra]))
    before, after = p.evidence(0.0), more.evidence(0.0)
    assert before <= after + 1e-7 * abs(before)
    assert after <= p.exact() + 1e-7 * abs(after)


def test_bui_17_another_inducing_point_can_lower_fitc():
    """bui 17: no such guarantee at power 1."""
    falls = 0
    for seed in range(8):
        p = problem(seed, noise=0.02)
        extra = np.random.default_rng([seed, 2]).uniform(0, 4, (1, 2))
        falls += p.but(Z=np.concatenate([p.Z, extra])).evidence(1.0) < p.evidence(1.0)
    assert falls > 0
