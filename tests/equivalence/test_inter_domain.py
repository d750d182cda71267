"""Inducing variables that are other functionals than values at points."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inducing import AbstractInducing, Points, covariance
from cavity.numerics.types import Array, Float
from cavity.parameters import positive, real
from tests.equivalence.problem import BLOCKS, POWERS, problem
from tests.oracle import dense
from tests.tolerances import assert_close

covariance_of = eqx.filter_jit(covariance)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(24)


class GaussianWindow(AbstractInducing):
    """Averages of a function of one input over normal windows of the given widths."""

    centres: Float[Array, " M"] = real(input=1, location=True)
    widths: Float[Array, " M"] = positive(input=1)

    def __call__(self, g):
        points = self.centres[:, None] + self.widths[:, None] * NODES
        values = jax.vmap(jax.vmap(lambda z: g(z[None])))(points)
        return jnp.einsum("ms...,s->m...", values, WEIGHTS / np.sqrt(2 * np.pi))

    @property
    def size(self):
        return self.centres.shape[0]


class Deltas(AbstractInducing):
    """Weighted sums of values at C points each."""

    places: Float[Array, "M C D"] = real(input=1, location=True)
    weights: Float[Array, "M C"] = real()

    def __call__(self, g):
        values = jax.vmap(jax.vmap(g))(self.places)
        return jnp.einsum("mc...,mc->m...", values, self.weights)

    @property
    def size(self):
        return self.places.shape[0]


@pytest.fixture(scope="module")
def windows():
    """Kernel, data of one input, and windows of different widths."""
    rng = np.random.default_rng(6)
    X = np.sort(rng.uniform(0, 5, (17, 1)), axis=0)
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=17)
    window = GaussianWindow(np.array([0.5, 1.6, 3.0, 4.4]), np.array([0.3, 0.8, 0.2, 0.5]))
    return cavity.kernels.RBF(1.3, 0.9), X, y, window


def closed_forms(X, w, variance=1.3, lengthscale=0.9):
    """S8: covariances of Gaussian windows under an RBF kernel."""

    def smooth(difference, spread):
        total = lengthscale**2 + spread
        return variance * lengthscale / np.sqrt(total) * np.exp(-0.5 * difference**2 / total)

    s2 = np.asarray(w.widths) ** 2
    Kuf = smooth(w.centres[:, None] - X[:, 0], s2[:, None])
    return Kuf, smooth(w.centres[:, None] - w.centres, s2[:, None] + s2)


def test_bui_18_turner_11_vanderwilk_t36_window_covariances(windows):
    """bui 18, turner 11, vanderwilk T36: one method gives both closed forms."""
    kernel, X, _, window = windows
    Kuf, Kuu = closed_forms(X, window)
    assert_close(covariance_of(kernel, window, Points(X)), Kuf, "quadrature")
    assert_close(covariance_of(kernel, Points(X), window), Kuf.T, "quadrature")
    assert_close(covariance_of(kernel, window, window), Kuu, "quadrature")


def test_turner_11_vanderwilk_t38_joint_is_positive_semidefinite(windows):
    """turner 11, vanderwilk T38: with the data, and with ordinary points."""
    kernel, X, _, window = windows
    parts = [window, Points(X), Points(X + 0.05)]
    joint = np.block([[np.asarray(covariance_of(kernel, a, b)) for b in parts] for a in parts])
    assert np.linalg.eigvalsh(joint)[0] > -1e-10
    assert_close(joint, joint.T, "quadrature")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", POWERS)
def test_bui_18_energy_with_windows_is_the_dense_energy(windows, power):
    """bui S15 and S26: the same closed forms with these matrices, for every power."""
    kernel, X, y, window = windows
    model = cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), window)
    result = cavity.infer(model, X, y, power=power, jitter=0.0)
    Kff = dense.rbf(X, X, 1.3, 0.9)
    train = Kff, *closed_forms(X, window), y, 0.1
    expected = dense.power_ep_log_evidence(*train, power)
    assert result.log_evidence == pytest.approx(expected, rel=1e-7)
    m, V = dense.inducing_posterior(*train, power)
    S = np.linspace(-1, 6, 8)[:, None]
    Ksu, Kss = closed_forms(S, window)[0].T, dense.rbf(S, S, 1.3, 0.9)
    mean, cov = dense.predict(m, V, Ksu, Kss, train[2])
    joint = result.posterior.joint(S)
    assert_close(joint.mean, mean, "quadrature", scale=1.0)
    assert_close(joint.cov, cov, "quadrature", scale=1.0)


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_bui_18_vanderwilk_t37_narrow_windows_are_points(windows, power):
    """bui 18, turner 11, vanderwilk T37: as the width goes to zero."""
    kernel, X, y, window = windows
    likelihood = cavity.likelihoods.Gaussian(0.1)
    narrow = GaussianWindow(window.centres, np.full(4, 1e-6))
    points = Points(np.asarray(window.centres)[:, None])
    values = [
        cavity.infer(cavity.GP(kernel, likelihood, u), X, y, power=power).log_evidence
        for u in (narrow, points)
    ]
    assert_close(*values, "quadrature")


def test_window_widths_are_learned(windows):
    """Parameters of a functional are learned like any other."""
    kernel, X, y, window = windows
    model = cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), window)
    start = cavity.infer(model, X, y, power=0.0).log_evidence
    result = cavity.fit(model, X, y, power=0.0, max_iterations=8)
    assert result.log_evidence > start + 1.0
    assert not np.allclose(result.model.inducing.widths, window.widths)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_vanderwilk_t40_sums_of_deltas(power):
    """vanderwilk T40 and T37: one delta is a point, split deltas change nothing, nor do scales."""
    p = problem(jitter=0.0)
    M = len(p.Z)
    split = np.repeat(p.Z[:, None], 2, axis=1)
    other = split + np.array([[0.0, 0.0], [0.4, -0.3]])
    rng = np.random.default_rng(3)
    scale = rng.uniform(0.2, 5.0, (M, 1)) * np.where(np.arange(M) % 2, 1.0, -1.0)[:, None]

    def result(places, weights):
        model = eqx.tree_at(
            lambda m: m.inducing, p.model, Deltas(places, weights), is_leaf=lambda x: x is None
        )
        return cavity.infer(model, p.X, p.y, power=power, jitter=0.0)

    points = p.infer(power)
    one = result(p.Z[:, None], np.ones((M, 1)))
    halves = result(split, np.tile([[0.3, 0.7]], (M, 1)))
    mixed = result(other, np.tile([[0.3, 0.7]], (M, 1)))
    scaled = result(other, scale * np.array([[0.3, 0.7]]))
    assert_close(one.log_evidence, points.log_evidence, "factorised")
    assert_close(halves.log_evidence, points.log_evidence, "factorised")
    assert_close(scaled.log_evidence, mixed.log_evidence, "factorised")
    a, b = (r.posterior.joint(p.S) for r in (scaled, mixed))
    assert_close(a.mean, b.mean, "factorised", scale=1.0)
    assert_close(a.cov, b.cov, "factorised", scale=1.0)


def test_vanderwilk_t42_t43_deltas_lie_in_the_span_of_their_points():
    """vanderwilk T42 and T43: the bound of all points is higher; the rank stays M."""
    p = problem(noise=0.3)
    places = np.stack([p.Z, p.Z + np.array([0.5, -0.4])], axis=1)
    deltas = Deltas(places, np.ones((len(p.Z), 2)))
    model = cavity.GP(p.model.kernel, p.model.likelihood, deltas)
    bound = cavity.infer(model, p.X, p.y, power=0.0).log_evidence
    assert bound <= p.but(Z=places.reshape(-1, 2)).evidence(0.0) + 1e-6
    Kuf = np.asarray(covariance_of(p.model.kernel, deltas, Points(p.X)))
    Kuu = np.asarray(covariance_of(p.model.kernel, deltas, deltas))
    assert np.linalg.matrix_rank(dense.nystrom(Kuf, Kuu), tol=1e-8) <= len(p.Z)


def test_functionals_work_with_blocks():
    """turner 11: blocks, another domain and any power together."""
    p = problem()
    deltas = Deltas(p.Z[:, None], np.ones((len(p.Z), 1)))
    model = cavity.GP(p.model.kernel, p.model.likelihood, deltas)
    value = cavity.infer(model, p.X, p.y, power=0.5, blocks=BLOCKS).log_evidence
    assert_close(value, p.oracle(0.5, BLOCKS), "factorised")
