"""What FITC, DTC and VFE are: vanderwilk's identities on inducing points, T11 to T35 and T73."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cavity
from cavity.inference.energy import empty_sites
from cavity.inference.graph.sites import ScalarSites
from cavity.kernels import AbstractKernel
from tests.equivalence.problem import (
    INDUCING,
    ROWS,
    SWEEPS,
    beliefs_at,
    energy_and_gradient,
    energy_at,
    laid_out,
    problem,
    settled,
)
from tests.oracle import dense
from tests.tolerances import assert_close

few = settings(max_examples=10, deadline=None)


class Fitc(AbstractKernel):
    """FITC's model: k(x, Z) Kuu⁻¹ k(Z, x') between different inputs, k(x, x) on the diagonal."""

    kernel: AbstractKernel
    Z: jax.Array
    jitter: float

    def cross(self, X, Z):
        Kuu = self.kernel.cross(self.Z, self.Z) + self.jitter * jnp.eye(len(self.Z))
        Q = self.kernel.cross(X, self.Z) @ jnp.linalg.solve(Kuu, self.kernel.cross(self.Z, Z))
        same = jnp.all(X[:, None] == Z[None, :], axis=-1)
        return jnp.where(same, self.kernel.cross(X, Z), Q)

    def diag(self, X):
        return self.kernel.diag(X)


def projected(p, S=None):
    """The package's loadings A = L⁻¹ Kuf and residual variances at inputs."""
    graph, _ = laid_out(p.model, p.X, p.y, jitter=p.jitter)
    S = p.X if S is None else S
    view, rows = graph.edges[0].view, graph.regressions[0].rows
    dummy = jnp.zeros((len(S), 1))
    projection = eqx.filter_jit(view.project)(type(rows)(jnp.asarray(S), dummy, dummy))
    return np.asarray(projection.loadings), np.asarray(projection.residual)


def far(p):
    return p.X[:3] + 100.0


def test_vanderwilk_t11_fitc_is_an_exact_process_with_another_kernel():
    """vanderwilk T11 (item 24): evidence, and predictions away from the data."""
    p = problem()
    result = p.infer(1.0)
    kernel = Fitc(p.model.kernel, jnp.asarray(p.Z), p.options["jitter"])
    other = cavity.infer(cavity.GP(kernel, p.model.likelihood), p.X, p.y)
    assert_close(other.log_evidence, result.log_evidence, "factorised")
    for one, two in zip(
        other.posterior.marginals(p.S), result.posterior.marginals(p.S), strict=True
    ):
        assert_close(one, two, "factorised", scale=1.0)


def test_vanderwilk_t13_marginals_of_training_inputs():
    """vanderwilk T13: DTC gives training inputs Q_nn and the same input as a test input K_nn."""
    p = problem()
    A, residual = projected(p)
    as_test = np.sum(A**2, axis=0) + residual
    assert_close(as_test, np.diag(p.Kff), "factorised")
    assert np.max(as_test - np.sum(A**2, axis=0)) > 0.1
    fitc = Fitc(p.model.kernel, jnp.asarray(p.Z), p.options["jitter"])
    assert_close(np.diag(eqx.filter_jit(fitc.cross)(p.X, p.X)), as_test, "factorised")


def test_vanderwilk_t14_special_posteriors():
    """vanderwilk T14: no sites give the prior, certain ones h; DTC is proper, SoR has rank M."""
    p = problem(jitter=0.0)
    graph, _ = laid_out(p.model, p.X, p.y, SWEEPS, power=0.0, jitter=0.0)
    (prior,), (factor,) = beliefs_at(graph, empty_sites(graph)), graph.factors
    mean, var = prior.marginal(factor.edges[0].view.project(factor.rows))
    assert np.all(np.asarray(mean) == 0.0)
    A, residual = projected(p)
    assert_close(var[:ROWS, 0] + residual, np.diag(p.Kff), "factorised")
    certain = p.but(noise=1e-13, X=p.Z, y=np.zeros(INDUCING)).infer(0.0).posterior
    cov = certain.joint(p.S).cov
    h = p.k(p.S, p.S) - p.k(p.S, p.Z) @ np.linalg.solve(p.Kuu, p.k(p.Z, p.S))
    np.testing.assert_allclose(cov, h, atol=1e-6)
    assert np.all(np.linalg.eigvalsh(p.infer(0.0).posterior.joint(p.S).cov) > 0.0)
    assert np.linalg.matrix_rank(A.T @ A, tol=1e-10) <= INDUCING


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_vanderwilk_t15_far_away_is_the_prior(power):
    """vanderwilk T15: variance k(x, x) for DTC, FITC and VFE; 0 for SoR."""
    p = problem()
    mean, var = p.infer(power).posterior.marginals(far(p))
    assert_close(var, np.full(3, p.variance), "factorised")
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    A, residual = projected(p, far(p))
    np.testing.assert_allclose(A, 0.0, atol=1e-12)
    assert_close(residual, np.full(3, p.variance))


def test_vanderwilk_t19_test_inputs_do_not_change_the_bound():
    """vanderwilk T19: rows without an observation leave energy and posterior alone."""
    p = problem()
    X = np.concatenate([p.X[:12], p.S[:5]])
    y = np.concatenate([p.y[:12], np.full(5, np.nan)])
    some = p.but(X=p.X[:12], y=p.y[:12]).infer(0.0)
    more = cavity.infer(p.model, X, y, power=0.0, missing="skip")
    assert_close(more.log_evidence, some.log_evidence)


def test_vanderwilk_t20_the_collapsed_bound_is_the_best():
    """vanderwilk T20 (items 29, 31, 32): at q* the uncollapsed bound is the collapsed one."""
    p = problem()
    graph, _ = laid_out(p.model, p.X, p.y, SWEEPS, power=0.0)
    sites, _ = settled(graph, SWEEPS)
    best = -float(energy_at(graph, sites))
    assert_close(best, p.evidence(0.0), "factorised")
    rng = np.random.default_rng(0)
    ((store,),) = sites
    for _ in range(5):
        shift = store.shift + 0.1 * rng.normal(size=store.shift.shape)
        other = ScalarSites(shift, store.precision * rng.uniform(0.8, 1.2, store.shift.shape))
        assert -float(energy_at(graph, ((other,),))) < best


@few
@given(st.integers(0, 10**6))
def test_vanderwilk_t22_t23_one_more_inducing_point(seed):
    """vanderwilk T22 and T23 (items 38 to 40): the closed form of the improvement.

    The residual falls everywhere, by b².
    """
    p = problem(seed, jitter=0.0, noise=0.3)
    new = np.random.default_rng([seed, 3]).uniform(0, 4, (1, 2))
    more = p.but(Z=np.concatenate([p.Z, new]))
    a = np.linalg.solve(p.Kuu, p.k(p.Z, new))[:, 0]
    c = p.variance - p.k(new, p.Z)[0] @ a
    b = (p.Kuf.T @ a - p.k(p.X, new)[:, 0]) / np.sqrt(c)
    s = np.linalg.solve(dense.nystrom(p.Kuf, p.Kuu) + p.noise * np.eye(ROWS), b)
    gain = -np.log1p(b @ s) + b @ b / p.noise + (p.y @ s) ** 2 / (1 + b @ s)
    improvement = more.evidence(0.0) - p.evidence(0.0)
    assert_close(improvement, 0.5 * gain, "fixed_point", scale=abs(p.evidence(0.0)))
    assert gain >= 0.0
    (A, before), (B, after) = projected(p), projected(more)
    assert_close(B.T @ B, A.T @ A + np.outer(b, b), "fixed_point", scale=1.0)
    assert np.all(after <= before + 1e-9)


def test_vanderwilk_t24_nested_sets_reach_the_exact_evidence():
    """vanderwilk T24, bui 17: growing Z through the inputs, both bounds close on the evidence."""
    p = problem(noise=0.3, jitter=1e-10)
    order = np.random.default_rng(1).permutation(ROWS)
    nested = [p.but(Z=p.X[order[:m]]) for m in (1, 4, 9, ROWS)]
    lower = [q.evidence(0.0) for q in nested]
    assert np.all(np.diff(lower) > 0.0)
    upper = dense.titsias_upper_bound(*nested[-1].train, **nested[-1].options)
    assert lower[-1] == pytest.approx(p.exact(), abs=1e-5)
    assert upper == pytest.approx(p.exact(), abs=1e-5)


def test_vanderwilk_t26_only_marginals_given_u_matter():
    """vanderwilk T26 (item 36): VFE of the FITC model is VFE of the full model."""
    p = problem(jitter=0.0)
    kernel = Fitc(p.model.kernel, jnp.asarray(p.Z), 0.0)
    model = cavity.GP(kernel, p.model.likelihood, p.model.inducing)
    value = cavity.infer(model, p.X, p.y, power=0.0, jitter=0.0).log_evidence
    assert_close(value, p.evidence(0.0), "factorised")


def test_vanderwilk_t27_fitc_posterior_is_not_the_variational_one():
    """vanderwilk T27: unless the residual is the same everywhere."""
    p = problem()
    means = [p.infer(power).posterior.marginals(p.S).mean for power in (0.0, 1.0)]
    assert np.max(np.abs(means[0] - means[1])) > 1e-2
    q = p.but(Z=far(p))  # inducing inputs far from all data: residual k(x, x) everywhere
    one, two = (q.infer(power).posterior.joint(p.S) for power in (0.0, 1.0))
    assert_close(one.cov, two.cov, "factorised")


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_vanderwilk_t29_z_is_stationary_at_the_inputs(power):
    """vanderwilk T29: gradients with respect to Z vanish at Z = X, for VFE and FITC."""
    p = problem(jitter=1e-10, noise=0.3)
    at_inputs = p.but(Z=p.X)
    count = at_inputs.Z.size
    elsewhere = p.but(Z=p.X + 0.3)

    def slope(q):
        _, gradient = energy_and_gradient(q.model, q.X, q.y, power=power, jitter=q.jitter)
        # the optimiser's order: kernel, likelihood, inducing
        return np.max(np.abs(gradient[-count:]))

    assert slope(at_inputs) < 1e-4
    assert slope(elsewhere) > 0.1


@pytest.mark.parametrize("where", [np.array([0.7, 0.9]), np.array([3.3, 1.2])])
def test_vanderwilk_t29_moving_one_inducing_input(where):
    """vanderwilk T29, sharp: from Z = X, moving any one leaves FITC where it is; VFE falls."""
    p = problem(jitter=0.0, noise=0.3, lengthscale=np.array([0.5, 0.5]))
    p = p.but(Z=p.X)
    Z = p.X.copy()
    Z[4] = where
    moved = p.but(Z=Z)
    assert moved.evidence(1.0) == pytest.approx(p.exact(), abs=1e-7)
    assert moved.evidence(0.0) < p.exact() - 1e-2
    steps = np.array([1e-2, 2e-2])
    falls = []
    for step in steps:
        Z = p.X.copy()
        Z[4, 0] += step
        falls.append(p.exact() - p.but(Z=Z).evidence(0.0))
    assert falls[1] / falls[0] == pytest.approx(4.0, rel=0.1)  # of second order


def test_vanderwilk_t30_noise_eigenvalues():
    """vanderwilk T30: Q + noise has at least N - M eigenvalues equal to the noise."""
    p = problem()
    A, _ = projected(p)
    values = np.linalg.eigvalsh(A.T @ A + p.noise * np.eye(ROWS))
    assert np.sum(np.abs(values - p.noise) < 1e-9) == ROWS - INDUCING


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_vanderwilk_t31_duplicates_change_nothing(power):
    """vanderwilk T31, T22: an inducing input twice, as the jitter goes to zero."""
    p = problem()
    twice = p.but(Z=np.concatenate([p.Z, p.Z[2:3]]))
    errors = []
    for jitter in (1e-5, 1e-7, 1e-9):
        once = p.but(jitter=jitter).evidence(power)
        result = twice.but(jitter=jitter).infer(power)
        assert result.jitter == jitter
        errors.append(abs(result.log_evidence - once))
    assert errors[2] < 1e-5
    assert errors[0] > 10 * errors[1]


def test_vanderwilk_t32_shifting_all_inducing_inputs():
    """vanderwilk T32: the exact evidence knows no Z; FITC's moves with it."""
    p = problem()
    values = [p.but(Z=p.Z + shift).evidence(1.0) for shift in (0.0, 0.2, 0.4)]
    assert np.ptp(values) > 0.1
    assert_close(p.but(Z=None).evidence(1.0), p.but(Z=None).evidence(0.0))


def test_vanderwilk_t33_fitc_complexity_can_rise():
    """vanderwilk T33: the two printed numbers; ½ log|Q + G| is the energy of outputs at zero."""
    X = np.array([[-0.5], [0.5]])
    p = problem(X=X, y=np.zeros(2), variance=1.0, lengthscale=1.0, noise=0.01, jitter=0.0)
    found = []
    for Z in ([[0.0]], [[0.0], [-0.5]]):
        evidence = p.but(Z=np.array(Z)).evidence(1.0)
        found.append(-evidence - np.log(2 * np.pi))
    assert found[0] == pytest.approx(-0.4415, abs=5e-5)
    assert found[1] == pytest.approx(-0.2137, abs=5e-5)


def test_vanderwilk_t34_share_of_the_residual():
    """vanderwilk T34: none at inducing inputs, all of k(x, x) far away; never negative."""
    p = problem(jitter=1e-12)
    S = np.concatenate([p.Z, far(p), p.X])
    _, residual = projected(p, S)
    assert np.all(residual[:INDUCING] < 1e-9)
    assert_close(residual[INDUCING : INDUCING + 3], np.full(3, p.variance))
    assert np.all(residual >= 0.0)


def test_vanderwilk_t35_what_is_learned_and_what_is_not():
    """vanderwilk T35 (item 27): covariances of g and h add up; h is what no data change."""
    p = problem()
    m, V = p.oracle_inducing(0.5)
    W = np.linalg.solve(p.Kuu + p.options["jitter"] * np.eye(INDUCING), p.k(p.Z, p.S)).T
    h = p.k(p.S, p.S) - W @ p.k(p.Z, p.S)
    joint = p.infer(0.5).posterior.joint(p.S)
    assert_close(joint.mean, W @ m, "factorised", scale=1.0)
    assert_close(joint.cov, W @ V @ W.T + h, "factorised", scale=1.0)
    other = p.but(y=p.y[::-1].copy(), noise=1e-3)
    m, V = other.oracle_inducing(0.5)
    joint = other.infer(0.5).posterior.joint(p.S)
    assert_close(joint.cov, W @ V @ W.T + h, "factorised", scale=1.0)


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_vanderwilk_t73_inducing_inputs_far_from_the_data(power):
    """vanderwilk T73: they keep their prior, and change nothing."""
    p = problem()
    q = p.but(Z=np.concatenate([p.Z, far(p)]))
    result = q.infer(power)
    mean, var = result.posterior.marginals(far(p))
    np.testing.assert_allclose(mean, 0.0, atol=1e-10)
    assert_close(var, np.full(3, p.variance), "fixed_point")
    assert_close(result.log_evidence, p.evidence(power), "factorised")


def test_bui_19_best_scale_of_the_joint_bound():
    """bui 19: Z (1 - log Z + F) is largest at Z = exp F, where it is exp F, below p(y)."""
    p = problem()
    p = p.but(X=p.X[:6], y=p.y[:6])
    bound = p.evidence(0.0)
    scales = np.exp(bound) * np.array([0.5, 0.9, 1.0, 1.1, 2.0])
    values = scales * (1 - np.log(scales) + bound)
    assert np.argmax(values) == 2
    assert values[2] == pytest.approx(np.exp(bound), rel=1e-12)
    assert values[2] <= np.exp(p.exact())
