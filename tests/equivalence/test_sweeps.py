"""The sweeps of the general row, on Gaussian noise, where every step has a closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference.energy import empty_sites, energy
from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.sites import BlockSites, ScalarSites
from cavity.numerics.chunking import padded_size
from tests.equivalence.problem import (
    BLOCKS,
    ROWS,
    SWEEPS,
    beliefs_at,
    energy_at,
    laid_out,
    problem,
    sweep_once,
)
from tests.oracle import dense
from tests.tolerances import assert_close

EACH = np.where(np.arange(ROWS) % 2, 0.4, 0.9)  # powers above zero: the oracle's loop needs one


def graph_of(p, **options):
    return laid_out(p.model, p.X, p.y, SWEEPS, rows=p.rows, **options)[0]


def scalar(sites):
    """The scalar sites of the data rows, padding left out."""
    ((store,),) = sites
    return np.asarray(store.shift)[:ROWS, 0], np.asarray(store.precision)[:ROWS, 0]


def closed_form(p, power):
    """S23: g_n = y_n, v_n = power D_nn + noise, as sites of the padded rows."""
    tau = 1.0 / (power * np.diag(p.D) + p.noise)
    return _padded(tau * p.y, tau)


def _padded(shift, precision):
    pad = [(0, padded_size(ROWS) - ROWS), (0, 0)]
    parts = (np.pad(a[:, None], pad) for a in (shift, precision))
    return ((ScalarSites(*map(jnp.asarray, parts)),),)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("power", [0.25, 1.0, EACH], ids=["0.25", "1", "mixed"])
def test_bui_07_turner_01_sweeps_reach_the_closed_form(power):
    """bui 7, turner 1: g_n = y_n, v_n = power D_nn + noise; energy and posterior with them.

    The oracle's own loop, one row at a time, ends at the same place.
    """
    p = problem()
    result = p.infer(power, method=SWEEPS)
    assert result.converged
    assert_close(result.log_evidence, p.oracle(power), "factorised")
    loop = dense.power_ep_loop(*p.train, power, **p.options)
    assert_close(loop.log_evidence, result.log_evidence, "factorised")
    mean, cov = p.oracle_predict(loop.m, loop.V)
    joint = result.posterior.joint(p.S)
    assert_close(joint.mean, mean, "factorised", scale=1.0)
    assert_close(joint.cov, cov, "factorised", scale=1.0)

    graph = graph_of(p, power=power)
    sites = empty_sites(graph)
    for _ in range(80):
        sites, _, _ = sweep_once(graph, sites, step=0.5)
    shift, precision = scalar(sites)
    assert_close(1.0 / precision, loop.v, "factorised")
    assert_close(shift / precision, p.y, "factorised")


@pytest.mark.parametrize("power", [0.25, 0.6])
def test_bui_08_sweep_law(power):
    """bui 8: under classical damping, precisions approach theirs as 1 - (1 - power)^k."""
    p = problem()
    graph = graph_of(p, power=power)
    sites, limit = empty_sites(graph), 1.0 / (power * np.diag(p.D) + p.noise)
    for k in range(1, 6):
        sites, _, _ = sweep_once(graph, sites, step=power)
        shift, precision = scalar(sites)
        share = 1.0 - (1.0 - power) ** k
        assert_close(precision, share * limit, "factorised")
        assert_close(shift, share * limit * p.y, "factorised")


def test_bui_08_one_sweep_at_power_one():
    """bui 8, vanderwilk T28: at power 1, and wherever the step is 1, sites fix in one pass."""
    p = problem()
    graph = graph_of(p, power=1.0)
    sites, _, _ = sweep_once(graph, empty_sites(graph), step=1.0)
    _, precision = scalar(sites)
    assert_close(precision, 1.0 / (np.diag(p.D) + p.noise), "factorised")
    assert p.infer(1.0, method=SWEEPS).sites.sweeps == 2  # the second finds nothing to do
    jump = cavity.PowerEP(exact=False, step=1.0)
    assert p.infer(0.25, method=jump).sites.sweeps == 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.3, 1.0])
def test_bui_08_blocks_follow_the_same_law(power):
    """bui 8 for the precision matrices of blocks (turner 7)."""
    p = problem()
    graph = graph_of(p, power=power, blocks=BLOCKS)
    sites = empty_sites(graph)
    rows = np.flatnonzero(BLOCKS == 0)
    limit = np.linalg.inv(power * p.D[np.ix_(rows, rows)] + p.noise * np.eye(len(rows)))
    for k in range(1, 4):
        sites, _, _ = sweep_once(graph, sites, step=power)
        ((store,),) = sites
        assert isinstance(store, BlockSites)
        found = np.asarray(store.precision)[0, 0, : len(rows), : len(rows)]
        assert_close(found, (1.0 - (1.0 - power) ** k) * limit, "factorised", scale=1.0)


@pytest.mark.parametrize("power", [0.0, 0.25, 1.0])
def test_bui_09_turner_02_another_sweep_changes_nothing(power):
    """bui 9, turner 2: the closed form is a fixed point of the updates."""
    p = problem()
    graph, start = graph_of(p, power=power), closed_form(p, power)
    sites, residual, skipped = sweep_once(graph, start, step=1.0)
    for found, expected in zip(scalar(sites), scalar(start), strict=True):
        assert_close(found, expected, "factorised")
    assert residual < 1e-8
    assert skipped == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.0, 0.25, 1.0])
def test_bui_24_energy_is_stationary_in_the_sites(power):
    """bui 24 on Gaussian noise: at the fixed point no site changes the energy to first order.

    Away from it they do, so the gradient is able to tell.
    """
    p = problem()
    graph, fixed = graph_of(p, power=power), closed_form(p, power)
    assert_close(-energy_at(graph, fixed), p.oracle(power), "factorised")
    gradient = jax.jit(jax.grad(lambda sites: energy(graph, sites)))
    away = jax.tree.map(lambda s: 0.7 * s, fixed)
    for still, moved in zip(scalar(gradient(fixed)), scalar(gradient(away)), strict=True):
        assert np.max(np.abs(still)) < 1e-7
        assert np.max(np.abs(moved)) > 1e-3


# ------------------------------------------------------------------- single site updates


@pytest.fixture(scope="module")
def state():
    """A problem somewhere on its way: sites that are not at the fixed point."""
    p = problem()
    rng = np.random.default_rng(5)
    tau = rng.uniform(0.5, 3.0, ROWS)
    return p, tau, tau * rng.normal(size=ROWS)


def moments(p, tau, nu):
    """Mean and covariance of u from scalar sites on w_n·u, in plain numpy."""
    W = dense.weights(p.Kuf, p.Kuu, p.options["jitter"])
    K = p.Kuu + p.options["jitter"] * np.eye(len(p.Kuu))
    V = np.linalg.inv(np.linalg.inv(K) + (W.T * tau) @ W)
    return V @ W.T @ nu, V, W


@pytest.mark.parametrize("power", [0.25, 1.0])
def test_bui_11_deletion_subtracts_natural_parameters(state, power):
    """bui 11: the cavity from a marginal alone is that of the whole belief less the site.

    The same as projecting with a site of negative variance.
    """
    p, tau, nu = state
    q = beliefs_at(graph_of(p, power=power), _padded(nu, tau))[0]
    m, V, W = moments(p, tau, nu)
    for n in (0, 3):
        less_tau, less_nu = tau.copy(), nu.copy()
        less_tau[n], less_nu[n] = (1 - power) * tau[n], (1 - power) * nu[n]
        m_c, V_c, _ = moments(p, less_tau, less_nu)
        site = ScalarSites(jnp.full((1, 1), nu[n]), jnp.full((1, 1), tau[n]))
        a = loadings(p)[:, n : n + 1]
        mean, var = q.marginal(Projection(a, jnp.zeros(1), jnp.zeros((1, 1))))
        assert_close(mean, [[W[n] @ m]], "factorised")
        cavity_mean, cavity_var, proper = site.cavity(mean, var, power)
        assert proper
        assert_close(cavity_mean, [[W[n] @ m_c]], "factorised")
        assert_close(cavity_var, [[W[n] @ V_c @ W[n]]], "factorised")
        # negative-variance projection: V + V w (v/a - wᵀVw)⁻¹ wᵀV
        gain = 1.0 / (1.0 / (power * tau[n]) - W[n] @ V @ W[n])
        assert_close(V + gain * np.outer(V @ W[n], V @ W[n]), V_c, "factorised")


def loadings(p):
    """The package's A = L⁻¹ Kuf."""
    graph = graph_of(p, power=1.0)
    (factor,) = graph.factors
    return factor.edges[0].view.project(factor.rows).loadings


@pytest.mark.parametrize("power", [0.25, 1.0])
def test_bui_10_12_site_updates_match_tilted_moments(state, power):
    """bui 10 and 12, turner 6 and 9: one row's update in scalars is that of the vector u.

    The vector form differentiates log Z in mean and covariance of u; the site that it implies
    has rank one, along w_n whatever the cavity.
    """
    p, tau, nu = state
    n = 3
    noise, D = p.noise, np.diag(p.D)
    less_tau, less_nu = tau.copy(), nu.copy()
    less_tau[n], less_nu[n] = (1 - power) * tau[n], (1 - power) * nu[n]
    m_c, V_c, W = moments(p, less_tau, less_nu)
    w = W[n]

    def log_z(m, V):
        f_mean, f_var = w @ m, D[n] + w @ V @ w
        likelihood = cavity.likelihoods.Gaussian(noise)
        return power * likelihood.log_power_mean(f_mean, f_var, jnp.asarray(p.y[n]), power)

    g, G = jax.grad(log_z, (0, 1))(jnp.asarray(m_c), jnp.asarray(V_c))
    tilted_mean = m_c + V_c @ g
    tilted_cov = V_c - V_c @ (np.outer(g, g) - 2 * G) @ V_c
    implied = np.linalg.inv(tilted_cov) - np.linalg.inv(V_c)
    values = np.linalg.eigvalsh(implied)
    assert np.all(np.abs(values[:-1]) < 1e-6 * values[-1])
    assert_close(implied, np.outer(w, w) * (w @ implied @ w) / (w @ w) ** 2, "fixed_point")
    assert_close(np.linalg.solve(V_c, V_c @ w), w, "factorised")

    fraction = (1 - power) * tau[n] + (w @ implied @ w) / (w @ w) ** 2
    graph = graph_of(p, power=power)
    sites, _, _ = sweep_once(graph, _padded(nu, tau), step=power)
    shift, precision = scalar(sites)
    # τ <- (1 - a) τ + a τ_matched, where the matched power of the site is a τ_matched
    assert_close(precision[n], fraction, "fixed_point")
    implied_shift = np.linalg.solve(tilted_cov, tilted_mean) - np.linalg.solve(V_c, m_c)
    direction = (w @ implied_shift) / (w @ w)
    assert_close(shift[n], (1 - power) * nu[n] + direction, "fixed_point")


def test_turner_09_moments_match_at_inducing_inputs_only(state):
    """turner 9: the tilted mean at x is off by D_xn d1 where x is not explained by u."""
    p, tau, nu = state
    n, power = 3, 1.0
    tau, nu = tau.copy(), nu.copy()
    tau[n] = nu[n] = 0.0
    m, V, _ = moments(p, tau, nu)
    S = np.concatenate([p.S, p.Z, p.X[n : n + 1]])
    q_mean, q_cov = p.oracle_predict(m, V, np.concatenate([S, p.X[n : n + 1]]))
    slope = (p.y[n] - q_mean[-1]) / (q_cov[-1, -1] + p.noise)
    tilted_mean = q_mean[:-1] + q_cov[:-1, -1] * slope  # exact conditioning on row n
    graph = graph_of(p, power=power)
    swept, _, _ = sweep_once(graph, _padded(nu, tau), step=1.0)
    new_tau, new_nu = tau.copy(), nu.copy()
    new_nu[n], new_tau[n] = (part[n] for part in scalar(swept))
    mean, _ = p.oracle_predict(*moments(p, new_tau, new_nu)[:2], S)
    K = p.k(S, p.X[n : n + 1])[:, 0]
    jitter = p.options["jitter"] * np.eye(len(p.Kuu))
    D_xn = K - p.k(S, p.Z) @ np.linalg.solve(p.Kuu + jitter, p.Kuf[:, n])
    assert_close(tilted_mean - mean, D_xn * slope, "fixed_point", scale=1.0)
    at_inducing = slice(len(p.S), len(p.S) + len(p.Z))
    np.testing.assert_allclose(tilted_mean[at_inducing], mean[at_inducing], atol=1e-6)
    assert np.max(np.abs((tilted_mean - mean)[: len(p.S)])) > 1e-3


@pytest.mark.parametrize("power", [0.25, 1.0])
def test_turner_10_sites_are_surrogate_observations(power):
    """turner 10: conditioning u on pseudo-observations of w_n·u gives q(u) and the evidence."""
    p = problem()
    result = p.infer(power)
    v = power * np.diag(p.D) + p.noise
    Q = dense.nystrom(p.Kuf, p.Kuu, p.options["jitter"])
    evidence = dense.gaussian_log_density(p.y, np.zeros(ROWS), Q + np.diag(v))
    scales = -(1 - power) / (2 * power) * np.log1p(power * np.diag(p.D) / p.noise)
    assert_close(result.log_evidence, evidence + np.sum(scales), "factorised")
    gain = np.linalg.solve(Q + np.diag(v), p.Kuf.T).T
    K = p.Kuu + p.options["jitter"] * np.eye(len(p.Kuu))
    mean, cov = p.oracle_predict(gain @ p.y, K - gain @ p.Kuf.T)
    joint = result.posterior.joint(p.S)
    assert_close(joint.mean, mean, "factorised", scale=1.0)
    assert_close(joint.cov, cov, "factorised", scale=1.0)


def test_bui_20_local_divergences_add_up_to_the_global_one(state):
    """bui 20, vanderwilk T19: at power 0 the energy of any sites is the uncollapsed bound.

    Its terms are the local KL divergences of q from q f_n / t_n; the gap to the exact evidence
    is KL[q(u) p(f | u) || p(f, u | y)].
    """
    p, tau, nu = state
    value = -energy_at(graph_of(p, power=0.0), _padded(nu, tau))
    m, V, _ = moments(p, tau, nu)
    bound = dense.svgp_bound(m, V, *p.train, **p.options)
    assert_close(value, bound, "factorised")
    gap = divergence_from_the_posterior(p, m, V)
    assert_close(gap, p.exact() - value, "fixed_point")


def divergence_from_the_posterior(p, m, V):
    """KL of q(u) p(f | u) from the exact joint posterior of f and u, as two dense Gaussians."""
    points = np.concatenate([p.Z, p.X])
    K = p.k(points, points)
    M = len(p.Z)
    K[np.arange(M), np.arange(M)] += p.options["jitter"]
    gain = K[:, :M] @ np.linalg.inv(K[:M, :M])
    q_mean, q_cov = gain @ m, K - gain @ (K[:M, :M] - V) @ gain.T
    C = K[M:, M:] + p.noise * np.eye(ROWS)
    p_cov = K - K[:, M:] @ np.linalg.solve(C, K[M:])
    p_mean = K[:, M:] @ np.linalg.solve(C, p.y)
    away = q_mean - p_mean
    volume = np.linalg.slogdet(p_cov)[1] - np.linalg.slogdet(q_cov)[1]
    trace = np.trace(np.linalg.solve(p_cov, q_cov))
    return 0.5 * (trace + away @ np.linalg.solve(p_cov, away) - len(points) + volume)
