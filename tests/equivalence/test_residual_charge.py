"""What the evidence of power 0 charges for the residual: the tighter bound, DTC and SoR."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import PowerEP, inducing, kernels, likelihoods, means
from cavity.inference.energy import empty_sites, energy
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from tests.oracle import dense
from tests.solving import build_graph
from tests.tolerances import assert_close

N, M, JITTER = 40, 7, 1e-8
VARIANCE, LENGTHSCALE, NOISE, MEAN = 1.3, 0.8, 0.04, 0.2
RANDOM = np.random.default_rng(3)
X = np.sort(RANDOM.uniform(-3.0, 3.0, (N, 1)), axis=0)
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RANDOM.normal(size=N)
Z = np.linspace(-2.8, 2.8, M)[:, None]
KNOWN = RANDOM.uniform(0.02, 0.2, N)
BLOCKS = np.arange(N) // 8
AT = np.linspace(-4.0, 4.0, 9)[:, None]
KERNEL = kernels.RBF(VARIANCE, LENGTHSCALE)
K = dense.rbf(X, X, VARIANCE, LENGTHSCALE)
COUNTS = cavity.GP(KERNEL, likelihoods.Poisson(), inducing.Points(Z))
CHARGES = {"power 0": PowerEP(), "tight": PowerEP(tight=True), "dtc": PowerEP(dtc=True)}


def gp(points=Z, kernel=KERNEL, noise=NOISE):
    inside = None if points is None else inducing.Points(points)
    return cavity.GP(kernel, likelihoods.Gaussian(noise), inside, means.Constant(MEAN))


def nystrom(points=Z):
    Kuf, Kuu = (dense.rbf(points, A, VARIANCE, LENGTHSCALE) for A in (X, points))
    return dense.nystrom(Kuf, Kuu, JITTER * VARIANCE)


def infer(model, charge, **layout):
    return cavity.infer(model, X, Y, power=0, method=CHARGES[charge], jitter=JITTER, **layout)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layout", ["one noise", "known noise", "blocks"])
def test_evidence_of_each_charge_is_its_dense_form(layout):
    side, noise = {}, np.full(N, NOISE)
    if layout == "known noise":
        side, noise = {"rows": {"noise_variance": KNOWN}}, KNOWN
    if layout == "blocks":
        side = {"blocks": BLOCKS}
    Q = nystrom()
    E = (K - Q) / np.sqrt(np.outer(noise, noise))
    together = BLOCKS[:, None] == BLOCKS if layout == "blocks" else np.eye(N, dtype=bool)
    low_rank = dense.gaussian_log_density(Y - MEAN, 0.0, Q + np.diag(noise))
    volume = np.linalg.slogdet(np.eye(N) + np.where(together, E, 0.0))[1]
    expected = {"power 0": np.trace(E), "tight": volume, "dtc": 0.0}
    for charge, value in expected.items():
        found = infer(gp(), charge, **side).log_evidence
        assert_close(float(found), low_rank - 0.5 * value, "factorised")
    assert volume < np.trace(E)


def test_posteriors_are_that_of_power_0():
    wanted = infer(gp(), "power 0").posterior.marginals(AT)
    for charge in ("tight", "dtc"):
        found = infer(gp(), charge).posterior.marginals(AT)
        assert_close(found.mean, wanted.mean, "factorised")
        assert_close(found.var, wanted.var, "factorised")


def test_bounds_are_ordered_and_meet_with_all_points():
    exact = dense.exact_log_evidence(K, Y, np.full(N, NOISE), MEAN)
    at_zero, tight = (float(infer(gp(), c).log_evidence) for c in ("power 0", "tight"))
    assert at_zero < tight < exact
    everywhere = [float(infer(gp(X), charge).log_evidence) for charge in CHARGES]
    assert np.allclose(everywhere, exact, atol=1e-4)


@pytest.mark.parametrize("charge", ["tight", "dtc"])
def test_slopes_are_finite_differences_of_the_dense_form(charge):
    def value(variance, lengthscale, noise, shift):
        places = Z + shift
        Kff = dense.rbf(X, X, variance, lengthscale)
        Kuf, Kuu = (dense.rbf(places, A, variance, lengthscale) for A in (X, places))
        Q = dense.nystrom(Kuf, Kuu, JITTER * variance)
        charged = np.sum(np.log1p(np.diag(Kff - Q) / noise)) if charge == "tight" else 0.0
        low_rank = dense.gaussian_log_density(Y - MEAN, 0.0, Q + noise * np.eye(N))
        return low_rank - 0.5 * charged

    data = prepare(X, Y, power=0)

    def ours(p):
        model = gp(Z + p[3], kernels.RBF(p[0], p[1]), p[2])
        graph = build_graph(as_dtype(model, data), data, CHARGES[charge], JITTER)
        return energy(graph, empty_sites(graph))

    at, step = np.array([VARIANCE, LENGTHSCALE, NOISE, 0.1]), 1e-5
    slopes = -np.asarray(jax.jit(jax.grad(ours))(jnp.asarray(at)))
    for i, slope in enumerate(slopes):
        move = step * np.eye(4)[i]
        difference = (value(*(at + move)) - value(*(at - move))) / (2.0 * step)
        assert abs(slope - difference) < 1e-5 * max(1.0, abs(difference))


def test_subset_of_regressors_is_dtc_without_the_variance_that_is_left():
    dtc = infer(gp(), "dtc")
    sor = cavity.infer(gp(None, kernels.Nystrom(KERNEL, Z)), X, Y, power=1.0)
    assert_close(float(sor.log_evidence), float(dtc.log_evidence), "factorised")
    wide, narrow = dtc.posterior.marginals(AT), sor.posterior.marginals(AT)
    assert_close(narrow.mean, wide.mean, "factorised")
    Kus, Kuu = (dense.rbf(Z, A, VARIANCE, LENGTHSCALE) for A in (AT, Z))
    left = VARIANCE - np.diag(dense.nystrom(Kus, Kuu, JITTER * VARIANCE))
    assert np.allclose(wide.var - narrow.var, left, atol=1e-7)
    assert np.all(left[[0, -1]] > 0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"power": 0.5}, "give power=0"),
        (
            {"model": COUNTS},
            "Gaussian noise",
        ),
    ],
)
def test_what_the_charges_are_not_for_is_refused(change, message):
    settings = {"model": gp(), "power": 0, "method": PowerEP(tight=True)} | change
    with pytest.raises(ValueError, match=message):
        cavity.infer(settings.pop("model"), X, np.round(np.abs(Y)), **settings)


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="one of them"):
        PowerEP(tight=True, dtc=True)
    with pytest.raises(ValueError, match="exact=True"):
        PowerEP(tight=True, exact=False)
    with pytest.raises(ValueError, match="matrix of points"):
        kernels.Nystrom(KERNEL, np.zeros(3))
