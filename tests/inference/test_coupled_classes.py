"""Coupled classes against nested EP and flat Power EP in numpy, and what follows from both."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.inference.energy import energy
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from tests.oracle import dense, nested_ep
from tests.solving import build_graph
from tests.tolerances import assert_close

C, N = 3, 14
RNG = np.random.default_rng(11)
X = RNG.uniform(0.0, 1.0, (N, 2))
HEIGHTS = 2.0 * np.stack([np.sin(6 * X[:, 0]), np.cos(6 * X[:, 1]), X.sum(1) - 1.0], axis=1)
Y = np.argmax(HEIGHTS + 0.7 * RNG.standard_normal((N, C)), axis=1)
LABELS = Y.astype(float)
NEW = RNG.uniform(0.0, 1.0, (5, 2))
SETTINGS = [(4.0, 0.4), (2.5, 0.3), (6.0, 0.8)]
PRIVATE = np.stack([dense.rbf(X, X, v, s) for v, s in SETTINGS])
SHARED = np.stack([PRIVATE[0]] * C)
PROBIT, SOFTMAX = likelihoods.MultinomialProbit(C), likelihoods.Softmax(C)
POINTS = inducing.Points(X[:5])
FACTORISED = cavity.PowerEP(coupled=False)


def kernel(private=False):
    each = tuple(kernels.RBF(v, s) for v, s in SETTINGS)
    return each if private else each[0]


def model(points=None, private=False, likelihood=PROBIT):
    return cavity.GP(kernel(private), likelihood, points)


@functools.cache
def inferred(power=1.0, private=False, coupled=True):
    return cavity.infer(
        model(private=private), X, LABELS, power=power, method=cavity.PowerEP(coupled=coupled)
    )


@functools.cache
def nested(private=False, incremental=False):
    return nested_ep.nested_ep(PRIVATE if private else SHARED, Y, incremental=incremental)


@functools.cache
def flat(power, private=False):
    return nested_ep.flat_power_ep(PRIVATE if private else SHARED, Y, power)


def assert_same(found, expected, kind="factorised"):
    """Evidence, moments of the functions at the data, and covariances between classes."""
    assert found.converged
    assert found.sites.finished_by == "parallel sweeps"
    assert_close(found.log_evidence, expected.log_evidence, kind)
    mean, cov = found.posterior.process.moments(jnp.asarray(X))
    assert_close(mean, expected.mean.T, kind, scale=1.0)
    assert_close(cov, expected.rows(), kind, scale=1.0)


# ------------------------------------------------------------------------------ power EP


def test_jylanki_46_incremental_and_full_inner_loops_share_fixed_points():
    """jylanki 46, by the oracle."""
    full, incremental = nested(), nested(incremental=True)
    assert_close(incremental.log_evidence, full.log_evidence)
    assert_close(incremental.mean, full.mean, "factorised")
    assert_close(incremental.alpha, full.alpha, "factorised")


@pytest.mark.parametrize("private", [False, True])
def test_jylanki_c9_incremental_needs_hardly_more_outer_iterations(private):
    """Jylanki C9: one inner sweep for each outer one is as good as inner convergence."""
    K = PRIVATE if private else SHARED
    full, incremental = (
        nested_ep.nested_ep(K, Y, incremental=few, damping=1.0).outer for few in (False, True)
    )
    assert incremental <= full + 2


@pytest.mark.slow
@pytest.mark.parametrize("private", [False, True])
def test_power_one_is_nested_ep(private):
    """jylanki S72 to S78: one flat EP with u is nested EP."""
    assert_same(inferred(private=private), nested(private))


def test_the_two_oracles_agree():
    assert_close(flat(1.0).log_evidence, nested().log_evidence)
    assert_close(flat(1.0).cov, nested().cov, "factorised")


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.5, 0.0])
def test_other_powers_are_those_of_the_augmented_model(power):
    """jylanki S4, on the factors of (3.7)."""
    # the library's quadrature, and sites that stop at a tolerance
    assert_same(inferred(power), flat(power), "quadrature")


@pytest.mark.slow
def test_power_zero_is_the_limit_and_a_bound():
    """jylanki 26: evidence rises from the bound, which lies below what Monte Carlo finds."""
    values = [inferred(power).log_evidence for power in (0.0, 1e-3, 0.5, 1.0)]
    assert np.all(np.diff(values) > 0.0)
    assert values[1] - values[0] < 3e-3 * (values[3] - values[0]) + 1e-8
    near, far = inferred(1e-3).posterior.marginals(X), inferred(0.0).posterior.marginals(X)
    np.testing.assert_allclose(near.mean, far.mean, atol=1e-3)
    np.testing.assert_allclose(near.var, far.var, atol=1e-3)
    truth, error = nested_ep.sampled_log_evidence(SHARED, Y, nested(), nested_ep.log_chance)
    assert error < 0.02
    assert values[0] < truth - 4.0 * error
    assert abs(values[3] - truth) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_the_energy_is_stationary_in_the_sites(power):
    """jylanki 10, 31: for every power; at power 0 it is least there."""
    data = prepare(X, LABELS, power=power)
    graph = build_graph(as_dtype(model(), data), data, cavity.PowerEP(), jnp.zeros(()))
    flat_sites, back = ravel_pytree(inferred(power).found)
    value = jax.jit(jax.value_and_grad(lambda s: energy(graph, back(s))))
    least, slope = value(flat_sites)
    assert float(least) == pytest.approx(-inferred(power).log_evidence, abs=1e-9)
    assert np.max(np.abs(slope)) < 1e-6
    random = np.random.default_rng(0)
    for size in (0.01, 0.1, 0.3):
        for _ in range(4 if power == 0.0 else 0):
            change = size * random.standard_normal(flat_sites.size) * np.abs(flat_sites)
            assert value(flat_sites + change)[0] > least + 1e-6


@pytest.mark.slow
def test_jylanki_45_two_classes_are_binary_probit():
    """jylanki 45: probit of slope 1/sqrt 2 on covariance 2K, which is slope 1 on K."""
    labels = (Y > 0).astype(float)
    two = cavity.infer(model(likelihood=likelihoods.MultinomialProbit(2)), X, labels, power=1.0)
    one = cavity.infer(model(likelihood=likelihoods.Bernoulli()), X, labels, power=1.0)
    assert_close(two.log_evidence, one.log_evidence, "factorised")
    both = [r.posterior.predict(NEW).log_density(jnp.ones(5)) for r in (two, one)]
    assert_close(*both, "factorised")
    assert_close(two.leave_one_out(), one.leave_one_out(), "factorised")


@pytest.mark.slow
def test_jylanki_47_class_labels_are_names():
    """jylanki 47: with a kernel each, permuted along."""
    order = np.array([2, 0, 1])
    permuted = tuple(kernel(private=True)[i] for i in np.argsort(order))
    other = cavity.infer(cavity.GP(permuted, PROBIT), X, order[Y].astype(float), power=1.0)
    own = inferred(private=True)
    assert_close(other.log_evidence, own.log_evidence, "factorised")
    chances = [r.posterior.predict(NEW).log_probabilities for r in (other, own)]
    assert_close(chances[0][:, order], chances[1], "factorised")
    plain = [r.leave_one_out() for r in (other, own)]
    assert_close(*plain, "factorised")


@pytest.mark.slow
def test_jylanki_48_what_coupling_is_for():
    """jylanki 48: covariances between classes are positive; without them deviations collapse."""
    _, cov = inferred().posterior.process.moments(jnp.asarray(X))
    between = np.asarray(cov)[:, ~np.eye(C, dtype=bool)]
    assert np.all(between > 0.0)
    factorised = inferred(coupled=False)
    assert factorised.converged
    assert not hasattr(factorised.posterior, "functions")
    apart = factorised.posterior.marginals(X)
    var = np.diagonal(cov, axis1=1, axis2=2)
    assert np.all(apart.var < var)
    # S81 with independent functions is one integral
    found = factorised.posterior.predict(X).log_probabilities[np.arange(N), Y]
    m, v = (np.asarray(a)[None] for a in apart)
    own, rest = Y[None, :, None], nested_ep.others(Y, C)[None]
    s = np.sqrt(1.0 + v)
    x = np.take_along_axis(m, own, 2) + np.take_along_axis(s, own, 2) * nested_ep.GRID
    gap = x[0][:, None] - np.take_along_axis(m, rest, 2)[0][..., None]
    logs = nested_ep.log_ndtr(gap / np.take_along_axis(s, rest, 2)[0][..., None]).sum(1)
    expected = np.logaddexp.reduce(logs + nested_ep.LOG_WEIGHT, axis=1)
    # beside the library's own, whose inner EP takes the functions as independent
    np.testing.assert_allclose(found, expected, atol=5e-3)


# -------------------------------------------------------------------------------- sparse


@pytest.mark.parametrize("private", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_points_at_all_inputs_are_the_full_gp(private, power):
    found = cavity.infer(model(inducing.Points(X), private), X, LABELS, power=power, jitter=1e-12)
    expected = inferred(power, private)
    assert_close(found.log_evidence, expected.log_evidence, "fixed_point")
    pair = [r.posterior.predict(NEW).log_probabilities for r in (found, expected)]
    assert_close(*pair, "fixed_point")
    joint = [r.posterior.joint(NEW) for r in (found, expected)]
    assert_close(joint[0].cov, joint[1].cov, "gradient")


def projected(private):
    """Covariances that the points explain (C, N, N), and what they leave (C, N)."""
    Q, D = [], []
    for i in range(C):
        variance, scale = SETTINGS[i if private else 0]
        Z = X[:5]
        Kuf, Kuu = dense.rbf(Z, X, variance, scale), dense.rbf(Z, Z, variance, scale)
        each = dense.nystrom(Kuf, Kuu)
        Q.append(each)
        D.append(variance - np.diag(each))
    return np.stack(Q), np.stack(D)


@pytest.mark.slow
@pytest.mark.parametrize("private", [False, True])
def test_sparse_at_power_one_is_nested_ep_of_fitc(private):
    """bui S22: independent residuals of all functions, as in a model that has them."""
    Q, D = projected(private)
    expected = nested_ep.nested_ep(Q + D[:, :, None] * np.eye(N), Y)
    found = cavity.infer(model(POINTS, private), X, LABELS, power=1.0, jitter=0.0)
    assert_close(found.log_evidence, expected.log_evidence, "quadrature")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [1.0, 0.5, 0.0])
def test_sparse_at_any_power_shares_residuals_with_u(power):
    """Of the residual of the class seen, a share of the power joins u, the rest each contrast."""
    Q, D = projected(private=False)
    common = D[Y, np.arange(N)]
    expected = nested_ep.flat_power_ep(
        Q + 1e-12 * np.eye(N),
        Y,
        power,
        noise=1.0 + power * common,
        residual=(D + (1.0 - power) * common).T,
    )
    found = cavity.infer(model(POINTS), X, LABELS, power=power, jitter=0.0)
    assert found.converged
    assert_close(found.log_evidence, expected.log_evidence, "fixed_point")
    mean = found.posterior.marginals(X).mean
    assert_close(mean, expected.mean.T, "gradient", scale=1.0)


@pytest.mark.slow
def test_sparse_at_power_zero_is_a_bound():
    full, few = inferred(0.0), cavity.infer(model(POINTS), X, LABELS, power=0.0)
    assert few.log_evidence < full.log_evidence


@pytest.mark.slow
@pytest.mark.parametrize("points", [None, POINTS])
def test_padding_and_missing_rows_change_nothing(points):
    """Whatever tables are padded to: 63 and 64 rows alone, and as the first of 65; 63 sparse."""
    random = np.random.default_rng(2)
    inputs = random.uniform(0.0, 1.0, (65, 2))
    labels = random.integers(0, C, 65).astype(float)
    for rows in (63, 64) if points is None else (63,):
        gaps = np.where(np.arange(65) < rows, labels, np.nan)
        alone = cavity.infer(model(points), inputs[:rows], labels[:rows], power=1.0)
        among = cavity.infer(model(points), inputs, gaps, power=1.0, missing="skip")
        assert alone.converged
        assert_close(among.log_evidence, alone.log_evidence, "factorised")
        pair = [r.posterior.predict(NEW).log_probabilities for r in (among, alone)]
        assert_close(*pair, "factorised")
        left = among.leave_one_out()
        assert np.array_equal(np.isnan(left), np.arange(65) >= rows)
        assert_close(left[:rows], alone.leave_one_out(), "factorised")
    if points is None:
        K = np.stack([dense.rbf(inputs, inputs, *SETTINGS[0])] * C)
        found = cavity.infer(model(), inputs, labels, power=1.0)
        expected = nested_ep.flat_power_ep(K, labels.astype(int), 1.0)
        assert_close(found.log_evidence, expected.log_evidence, "factorised")


def test_jylanki_19_leave_one_out_is_from_the_cavities():
    """jylanki 19, S81: of all classes, over their sum."""
    expected = nested_ep.left_out_log_chance(nested(), Y)
    assert_close(inferred().leave_one_out(), expected, "factorised")


@pytest.mark.slow
def test_precisions_of_sites_are_those_of_independent_classes():
    """Sites on the functions of all classes together have none."""
    with pytest.raises(ValueError, match="coupled=False"):
        inferred().site_precisions()
    assert inferred(coupled=False).site_precisions().shape == (N, C)


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_leave_one_out_is_close_to_refits(power):
    """jylanki S24: each row's label given all others; but for an outlier within 0.06 nats."""
    found, refits = inferred(power).leave_one_out(), []
    for i in range(N):
        rest = np.arange(N) != i
        refit = cavity.infer(model(), X[rest], LABELS[rest], power=power)
        out = refit.posterior.predict(X[i : i + 1])
        refits.append(float(out.log_density(jnp.asarray(LABELS[i : i + 1]))[0]))
    usual = np.array(refits) > -2.0
    assert usual.sum() == N - 1
    np.testing.assert_allclose(found[usual], np.array(refits)[usual], atol=0.06)
    assert refits[np.argmin(usual)] < found.min() < -2.0
