"""The exact-factor row equals the general row: energy, posterior, hyperparameter gradient."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import cavity
from cavity.inference.energy import energy
from cavity.inference.graph.sites import ScalarSites
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.numerics.chunking import padded_size
from cavity.parameters import bijections, from_real, to_real
from tests.equivalence.gauss_hermite import Probit
from tests.equivalence.problem import (
    BLOCKS,
    EACH_BLOCK,
    EACH_ROW,
    JITTER,
    ROWS,
    SWEEPS,
    energy_and_gradient,
    energy_at,
    known_noise,
    laid_out,
    problem,
    settled,
)
from tests.oracle import dense
from tests.solving import build_graph
from tests.tolerances import assert_close

RNG = np.random.default_rng(11)
OUTPUTS = RNG.normal(size=(ROWS, 3))
SOME = np.where(RNG.uniform(size=(ROWS, 3)) < 0.2, np.nan, OUTPUTS)
SAME_ROWS = np.where(np.arange(ROWS)[:, None] % 5 == 0, np.nan, OUTPUTS)
KNOWN = {"noise_variance": known_noise()}

CASES = {
    "power 0": {"power": 0.0},
    "power 0.5": {"power": 0.5},
    "power 1": {"power": 1.0},
    "a power per row": {"power": EACH_ROW},
    "known noise": {"power": 0.5, "rows": KNOWN},
    "several outputs": {"power": 0.5, "y": OUTPUTS},
    "missing outputs": {"power": 0.5, "y": SOME, "missing": "skip"},
    "missing rows, noise per output": {
        "power": 0.25,
        "y": SAME_ROWS,
        "missing": "skip",
        "noise": np.array([0.05, 0.1, 0.4]),
    },
    "blocks, power 0": {"power": 0.0, "blocks": BLOCKS},
    "blocks, power 0.5": {"power": 0.5, "blocks": BLOCKS, "rows": KNOWN},
    "blocks, power 1": {"power": 1.0, "blocks": BLOCKS},
    "blocks, a power each": {"power": EACH_BLOCK, "blocks": BLOCKS},
    "blocks, several outputs": {"power": 0.5, "blocks": BLOCKS, "y": OUTPUTS},
    "blocks, missing outputs": {"power": 0.5, "blocks": BLOCKS, "y": SOME, "missing": "skip"},
    "full, several outputs": {"power": 0.5, "full": True, "y": OUTPUTS},
    "full, missing outputs, known noise": {
        "power": 1.0,
        "full": True,
        "y": SOME,
        "missing": "skip",
        "rows": KNOWN,
    },
}


# Blocks and gradients take seconds to compile; these add little to the others.
SLOW = {"blocks, power 0", "blocks, power 1", "blocks, several outputs"}
SLOW_GRADIENTS = SLOW | {
    "power 0",
    "known noise",
    "several outputs",
    "blocks, power 0.5",
    "blocks, missing outputs",
    "full, several outputs",
}


def cases(slow):
    marked = [pytest.param(c, marks=pytest.mark.slow) if c in slow else c for c in CASES]
    return pytest.mark.parametrize("case", marked)


def posed(case):
    """A model with a linear mean, data, and how to infer."""
    p = problem(weights=np.array([0.3, -0.2]), bias=0.4)
    options = dict(CASES[case])
    p = p.but(Z=None) if options.pop("full", False) else p
    p = p.but(noise=options.pop("noise", p.noise))
    return p.model, p.X, options.pop("y", p.y), p.S, options


@pytest.mark.sampled(3, "blocks, power 0.5", "blocks, missing outputs", "a power per row")
@cases(SLOW)
def test_exact_row_is_the_general_row(case):
    """Exact factors have the general row as their oracle; bui 7, turner 1."""
    model, X, y, S, options = posed(case)
    exact = cavity.infer(model, X, y, **options)
    found = cavity.infer(model, X, y, method=SWEEPS, **options)
    assert (exact.sites.sweeps, exact.sites.finished_by) == (0, "exact")
    assert found.converged
    assert found.sites.sweeps > 0
    assert_close(found.log_evidence, exact.log_evidence, "factorised")
    for one, other in zip(found.posterior.joint(S), exact.posterior.joint(S), strict=True):
        assert_close(one, other, "factorised", scale=1.0)


@pytest.mark.slow
@cases(SLOW_GRADIENTS)
def test_frozen_site_gradient_is_the_exact_gradient(case):
    """bui S22: at the fixed point the energy is stationary in the sites.

    The general row's gradient holds the sites still, the exact row's goes through them; both
    are the finite difference of the re-converged energy.
    """
    model, X, y, _, options = posed(case)
    value, exact = energy_and_gradient(model, X, y, **options)
    again, frozen = energy_and_gradient(model, X, y, SWEEPS, **options)
    assert_close(again, value, "factorised")
    assert_close(frozen, exact, "fixed_point")
    direction = np.random.default_rng(2).normal(size=exact.shape)
    ends = [
        energy_and_gradient(model, X, y, step=h * direction, **options)[0] for h in (1e-5, -1e-5)
    ]
    assert_close(exact @ direction, (ends[0] - ends[1]) / 2e-5, "gradient")


@pytest.mark.parametrize("blocks", [None, BLOCKS], ids=["rows", "blocks"])
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_outputs_are_independent_problems(power, blocks):
    """Several outputs with holes: evidence and posterior are those of each column alone."""
    p = problem()
    options = {"power": power, "blocks": blocks, "missing": "skip"}
    together = cavity.infer(p.model, p.X, SOME, **options)
    alone = [cavity.infer(p.model, p.X, column, **options) for column in SOME.T]
    assert_close(together.log_evidence, sum(r.log_evidence for r in alone), "factorised")
    mean, var = together.posterior.marginals(p.S)
    for i, result in enumerate(alone):
        assert_close(mean[:, i], result.posterior.marginals(p.S).mean, "factorised", scale=1.0)
        assert_close(var[:, i], result.posterior.marginals(p.S).var, "factorised", scale=1.0)


# ----------------------------------------------------- likelihoods that are not Gaussian


@pytest.fixture(scope="module", params=[0.0, EACH_ROW], ids=["0", "each"])
def classified(request):
    """A model with a probit likelihood, labels and a power."""
    p = problem()
    labels = np.where(p.y + 0.3 * np.cos(5 * p.X[:, 0]) > 0.0, 1.0, -1.0)
    model = cavity.GP(p.model.kernel, Probit(0.7), p.model.inducing)
    return model, p.X, labels, request.param


@pytest.mark.slow
def test_bui_24_frozen_site_gradient_of_a_probit(classified):
    """bui 24: stationary sites, so the frozen gradient is that of the re-converged energy."""
    model, X, labels, power = classified
    method = cavity.PowerEP(tolerance=1e-10, step=0.7)
    _, gradient = energy_and_gradient(model, X, labels, method, power=power)
    direction = np.random.default_rng(2).normal(size=gradient.shape)
    ends = [
        energy_and_gradient(model, X, labels, method, step=h * direction, power=power)[0]
        for h in (1e-4, -1e-4)
    ]
    assert_close(gradient @ direction, (ends[0] - ends[1]) / 2e-4, "gradient")


@pytest.mark.slow
@pytest.mark.parametrize("inducing", [True, False], ids=["sparse", "full"])
def test_marginals_are_stationary_too(classified, inducing):
    """At a fixed point nothing need be differentiated through the marginals."""
    model, X, labels, power = classified
    if not inducing:
        model = cavity.GP(model.kernel, model.likelihood)
    method = cavity.PowerEP(tolerance=1e-11, step=0.7)
    data = prepare(X, labels, power=power)
    model = as_dtype(model, data)
    maps, jitter = bijections(model), jnp.asarray(JITTER)
    real = to_real(model, maps)
    sites, record = settled(build_graph(model, data, method, jitter), method)
    assert record.converged

    @eqx.filter_jit
    def slope(real, settled):
        def value(real):
            graph = build_graph(from_real(real, model, maps), data, method, jitter)
            return energy(graph, sites, settled=settled)

        return jax.grad(value)(real)

    assert_close(slope(real, True), slope(real, False), "fixed_point", scale=1.0)


@eqx.filter_jit
def _site_gradient(graph, sites):
    return eqx.filter_grad(lambda sites: energy(graph, sites))(sites)


@pytest.mark.sampled(1)
def test_bui_24_25_sites_of_a_probit(classified):
    """bui 24: no site moves the energy; bui 25: site variances at least the residual."""
    model, X, labels, power = classified
    method = cavity.PowerEP(tolerance=1e-12, step=0.7)
    graph, _ = laid_out(model, X, labels, method, power=power)
    sites, record = settled(graph, method)
    assert record.converged
    for part in jax.tree.leaves(_site_gradient(graph, sites)):
        assert np.max(np.abs(part)) < 1e-8
    ((store,),) = sites
    (factor,) = graph.factors
    residual = factor.edges[0].view.project(factor.rows).residual[:ROWS]
    precision = store.precision[:ROWS, 0]
    assert np.all(precision > 0.0)
    assert np.all(1.0 / precision >= np.broadcast_to(power, ROWS) * residual)


def uncollapsed(p, labels, tau, nu):
    """The variational bound of a probit at the q(u) of scalar sites, by its definition (S14)."""
    Kuu = p.Kuu + p.options["jitter"] * np.eye(len(p.Kuu))
    W = dense.weights(p.Kuf, p.Kuu, p.options["jitter"])
    V = np.linalg.inv(np.linalg.inv(Kuu) + (W.T * tau) @ W)
    m = V @ W.T @ nu
    mean, var = W @ m, np.diag(p.D) + np.sum(W @ V * W, axis=1)
    z = np.linspace(-9.0, 9.0, 3001)
    f = mean[:, None] + np.sqrt(var)[:, None] * z
    expected = stats.norm.logcdf(labels[:, None] * f / 0.7) @ stats.norm.pdf(z) * (z[1] - z[0])
    return expected.sum() - dense.gaussian_kl(m, V, Kuu)


@pytest.mark.slow
def test_bui_22_power_zero_is_the_variational_bound():
    """bui 22: at any sites, and where they have converged; small powers tend to it."""
    p = problem()
    labels = np.where(p.y > 0.0, 1.0, -1.0)
    model = cavity.GP(p.model.kernel, Probit(0.7), p.model.inducing)
    rng = np.random.default_rng(6)
    tau, nu = rng.uniform(0.2, 1.0, ROWS), rng.normal(size=ROWS)
    method = cavity.PowerEP(tolerance=1e-11, step=0.7)

    def gaps(tau, nu):
        """How far the energy at these sites is from the bound, by power."""
        bound, pad = uncollapsed(p, labels, tau, nu), [(0, padded_size(ROWS) - ROWS), (0, 0)]
        parts = (jnp.asarray(np.pad(a[:, None], pad)) for a in (nu, tau))
        sites = ((ScalarSites(*parts),),)
        graphs = [laid_out(model, p.X, labels, method, power=a)[0] for a in (0.0, 1e-6, 1e-3)]
        return bound, [-float(energy_at(graph, sites)) - bound for graph in graphs]

    bound, away = gaps(tau, nu)
    assert abs(away[0]) < 1e-7 * abs(bound)
    assert 0.0 < away[1] < 2e-3 * away[2]
    found = cavity.infer(model, p.X, labels, power=0.0, method=method)
    ((store,),) = found.found
    best, away = gaps(*(np.asarray(a)[:ROWS, 0] for a in (store.precision, store.shift)))
    assert_close(found.log_evidence, best, "quadrature")
    assert 0.0 < away[1] < 2e-3 * away[2]
    assert best > bound
    near = cavity.infer(model, p.X, labels, power=1e-4, method=method).log_evidence
    assert near == pytest.approx(best, abs=1e-2)


def standard_ep(K, labels, sweeps=200):
    """Sequential EP for probit classification, Rasmussen and Williams (2006), algorithm 3.5."""
    tau, nu = np.zeros(len(labels)), np.zeros(len(labels))
    log_z, cavities = np.zeros(len(labels)), np.zeros((2, len(labels)))
    for _ in range(sweeps):
        for n, y in enumerate(labels):
            S = np.linalg.solve(np.eye(len(K)) + K * tau, K)
            left, h = 1.0 / S[n, n] - tau[n], (S @ nu)[n] / S[n, n] - nu[n]
            m, v = h / left, 1.0 / left
            z = y * m / np.sqrt(0.49 + v)
            ratio = np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))
            moved = m + y * v * ratio / np.sqrt(0.49 + v)
            spread = v - v**2 * ratio * (z + ratio) / (0.49 + v)
            tau[n], nu[n] = 1.0 / spread - left, moved / spread - h
            log_z[n], cavities[:, n] = stats.norm.logcdf(z), (m, v)
    m, v = cavities
    # each site's scale makes its Gaussian's evidence under the cavity that of the datum
    pseudo = nu / tau
    scales = log_z - stats.norm.logpdf(pseudo, m, np.sqrt(v + 1.0 / tau))
    evidence = dense.gaussian_log_density(pseudo, np.zeros(len(K)), K + np.diag(1.0 / tau))
    return evidence + scales.sum(), pseudo, 1.0 / tau


@pytest.mark.slow
@pytest.mark.parametrize("place", ["sparse", "inputs", "full"])
def test_bui_23_power_one_is_ep_of_fitc(place):
    """bui 23: EP in the FITC model; standard EP where Z = X, as without inducing points."""
    p = problem()
    p = p.but(Z={"sparse": p.Z, "inputs": p.X, "full": None}[place], jitter=1e-10)
    labels = np.where(p.y > 0.0, 1.0, -1.0)
    model = cavity.GP(p.model.kernel, Probit(0.7), p.model.inducing)
    method = cavity.PowerEP(tolerance=1e-11, step=0.7)
    found = cavity.infer(model, p.X, labels, power=1.0, method=method, jitter=p.jitter)
    K, Ksf = p.Kff, p.k(p.S, p.X)
    if place == "sparse":
        Q = dense.nystrom(p.Kuf, p.Kuu, p.options["jitter"])
        K = Q + np.diag(np.diag(K - Q))
        Ksf = p.k(p.S, p.Z) @ np.linalg.solve(p.Kuu, p.Kuf)
    evidence, pseudo, noise = standard_ep(K, labels)
    assert_close(found.log_evidence, evidence, "fixed_point")
    mean, cov = dense.exact_posterior(K, Ksf, p.k(p.S, p.S), pseudo, noise)
    joint = found.posterior.joint(p.S)
    assert_close(joint.mean, mean, "fixed_point", scale=1.0)
    assert_close(joint.cov, cov, "fixed_point", scale=1.0)


@pytest.mark.slow
def test_turner_18_probit_evidence_rises_with_the_power():
    """turner 18: from the variational bound to EP; the limit at 0 is reached continuously."""
    p = problem()
    labels = np.where(p.y > 0.0, 1.0, -1.0)
    model = cavity.GP(p.model.kernel, Probit(0.7), p.model.inducing)
    values = [
        cavity.infer(model, p.X, labels, power=a, method=cavity.PowerEP(step=0.7)).log_evidence
        for a in (0.0, 1e-6, 0.02, 0.1, 0.5, 0.999)
    ]
    assert np.all(np.diff(values) > -1e-9)
    assert_close(values[1], values[0], "fixed_point")


def test_blocks_need_gaussian_noise():
    p = problem()
    model = cavity.GP(p.model.kernel, Probit(1.0), p.model.inducing)
    with pytest.raises(ValueError, match="blocks need a Gaussian likelihood"):
        cavity.infer(model, p.X, np.sign(p.y), blocks=BLOCKS)


def test_bui_02_low_rank_belief_is_the_dense_one():
    """bui 2: Woodbury and the determinant lemma, also with sites of precision zero."""
    from cavity.inference.graph.marginals import Projection
    from cavity.inference.variables.inducing import WhitenedInducing

    rng = np.random.default_rng(3)
    A = rng.normal(size=(4, 9))
    tau = np.where(np.arange(9) % 3 == 0, 0.0, rng.uniform(0.5, 2.0, 9))
    nu = tau * rng.normal(size=9)
    projection = Projection(jnp.asarray(A), jnp.zeros(9), jnp.zeros((9, 1)))

    @eqx.filter_jit
    def believed(nu, tau):
        variable = WhitenedInducing(4)
        belief = variable.belief(variable.messages_from_sites(nu, tau, jnp.zeros(9), projection))
        return belief.log_normaliser, belief.marginal(projection)

    log_normaliser, (mean, var) = believed(nu[:, None], tau[:, None])
    # (AᵀA)⁻¹ + T as a covariance: AᵀA - AᵀA T^½ (I + T^½ AᵀA T^½)⁻¹ T^½ AᵀA
    K, s = A.T @ A, np.sqrt(tau)
    B = np.eye(9) + s[:, None] * K * s
    cov = K - (K * s) @ np.linalg.solve(B, s[:, None] * K)
    assert_close(mean[:, 0], cov @ nu, "factorised")
    assert_close(var[:, 0], np.diag(cov), "factorised")
    normaliser = 0.5 * nu @ cov @ nu - 0.5 * np.linalg.slogdet(B)[1]
    assert_close(log_normaliser, normaliser, "factorised")
