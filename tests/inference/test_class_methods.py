"""Several classes: gradients, Laplace's method, tied factors, and what is refused."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.special import log_softmax, softmax

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.inference.energy import empty_sites, energy
from cavity.inference.solvers.driver import Limits
from cavity.inference.solvers.fixed_point import find_fixed_point
from cavity.inference.solvers.parallel import Parallel, sweep
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from tests.inference.test_coupled_classes import (
    LABELS,
    NEW,
    POINTS,
    PRIVATE,
    SETTINGS,
    SHARED,
    C,
    N,
    X,
    Y,
    model,
)
from tests.oracle import dense, nested_ep
from tests.solving import build_graph, problem_of, swept
from tests.tolerances import assert_close

SOFTMAX, PROBIT = likelihoods.Softmax(C), likelihoods.MultinomialProbit(C)
TIGHT_EP, TIGHT_LAPLACE = cavity.PowerEP(tolerance=1e-11), cavity.Laplace(tolerance=1e-11)


def softmax_log_chance(f, y):
    """log p(y | f) of functions (S, N, C)."""
    return np.take_along_axis(log_softmax(f, axis=2), y[None, :, None], axis=2)[:, :, 0]


@functools.cache
def newton(private=False):
    """Rasmussen and Williams (2006), algorithm 3.3, on dense matrices."""
    prior = block_diag(*(PRIVATE if private else SHARED))
    target = np.eye(C)[Y].T.ravel()
    f = np.zeros(C * N)
    for _ in range(60):
        shares = softmax(f.reshape(C, N), axis=0)
        stacked = np.vstack([np.diag(p) for p in shares])
        W = np.diag(shares.ravel()) - stacked @ stacked.T
        b = W @ f + target - shares.ravel()
        f = prior @ (b - W @ np.linalg.solve(np.eye(C * N) + prior @ W, prior @ b))
    B = np.eye(C * N) + prior @ W
    value = target @ f - 0.5 * f @ np.linalg.solve(prior, f)
    value -= np.logaddexp.reduce(f.reshape(C, N), axis=0).sum() + 0.5 * np.linalg.slogdet(B)[1]
    cov = np.linalg.solve(B, prior)
    shape = (C, N, C, N)
    return nested_ep.Solution(value, f.reshape(C, N), cov.reshape(shape), W, b)


@pytest.mark.parametrize("private", [False, True])
def test_laplace_is_newtons_method_on_dense_matrices(private):
    """jylanki S84: the mode, the covariances, the evidence."""
    found = cavity.infer(
        model(None, private, SOFTMAX), X, LABELS, method=cavity.Laplace(tolerance=1e-10)
    )
    expected = newton(private)
    assert found.converged
    assert found.sites.finished_by == "Newton's method"
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-8)
    mean, cov = found.posterior.process.moments(jnp.asarray(X))
    assert_close(mean, expected.mean.T, "factorised")
    assert_close(cov, expected.rows(), "factorised")


def test_laplace_predicts_at_new_inputs():
    """Moments by the dense formulas; probabilities by a quasi-random mean."""
    found = cavity.infer(model(None, False, SOFTMAX), X, LABELS, method=cavity.Laplace())
    mean, cov = found.posterior.process.moments(jnp.asarray(NEW))
    K, k = SHARED[0], dense.rbf(X, NEW, *SETTINGS[0])
    gain = np.linalg.solve(K, k)
    expected = newton()
    assert_close(mean, (expected.mean @ gain).T, "fixed_point")
    between = np.einsum("im,kilj,jm->mkl", gain, expected.cov, gain)
    left = SETTINGS[0][0] - np.sum(k * gain, axis=0)
    assert_close(cov, between + left[:, None, None] * np.eye(C), "fixed_point")
    random = np.random.default_rng(1)
    draws = np.stack(
        [random.multivariate_normal(m, V, 100_000) for m, V in zip(mean, cov, strict=True)]
    )
    chance = found.posterior.predict(NEW).probabilities
    np.testing.assert_allclose(chance, softmax(draws, axis=2).mean(axis=1), atol=5e-3)


def test_laplace_leaves_one_out():
    """jylanki S24: close to refits but for an outlier."""
    found, refits = cavity.infer(model(None, False, SOFTMAX), X, LABELS, method=TIGHT_LAPLACE), []
    for i in range(N):
        rest = np.arange(N) != i
        fewer = cavity.infer(
            model(None, False, SOFTMAX), X[rest], LABELS[rest], method=TIGHT_LAPLACE
        )
        out = fewer.posterior.predict(X[i : i + 1])
        refits.append(float(out.log_density(jnp.asarray(LABELS[i : i + 1]))[0]))
    usual = np.array(refits) > -2.0
    assert usual.sum() >= N - 1
    left_out = found.leave_one_out()
    np.testing.assert_allclose(left_out[usual], np.array(refits)[usual], atol=0.1)


# ------------------------------------------------------------------------------ gradients

FEW = inducing.Points(X[:3])
GRADIENTS = {
    "full": (model(), TIGHT_EP, 1.0),
    "full, private": (model(private=True), TIGHT_EP, 0.5),
    "sparse": (model(FEW), TIGHT_EP, 0.5),
    "sparse, private": (model(FEW, private=True), TIGHT_EP, 1.0),
    "sparse, bound": (model(FEW), TIGHT_EP, 0.0),
    "Laplace": (model(likelihood=SOFTMAX), TIGHT_LAPLACE, 1.0),
    "Laplace, private": (model(private=True, likelihood=SOFTMAX), TIGHT_LAPLACE, 1.0),
    "factorised": (model(FEW), cavity.PowerEP(tolerance=1e-11, coupled=False), 1.0),
    # averages over points: not stationary in the sites
    "softmax": (model(likelihood=SOFTMAX), TIGHT_EP, 0.5),
    "softmax, bound": (model(FEW, likelihood=SOFTMAX), TIGHT_EP, 0.0),
    "factorised, averages": (model(), cavity.PowerEP(tolerance=1e-11, coupled=False), 0.5),
}
SLOW = {
    "sparse, bound",
    "factorised",
    "Laplace, private",
    "softmax, bound",
    "factorised, averages",
}


@pytest.mark.sampled(1, "softmax")
@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=pytest.mark.slow) if c in SLOW else c for c in GRADIENTS]
)
def test_jylanki_49_gradients(case):
    """jylanki 49: frozen sites, against the evidence found anew at every point."""
    start, method, power = GRADIENTS[case]
    data = prepare(X, LABELS, power=power)
    jitter = 0.0 if start.inducing is None else 1e-8
    fn = Objective(as_dtype(start, data), data, method=method, jitter=jitter)
    points = 0 if start.inducing is None else start.inducing.Z.size
    assert fn.size == points + (2 * C if isinstance(start.kernel, tuple) else 2)
    _, slope = fn(np.zeros(fn.size))
    for i in range(fn.size):
        step = 1e-4 * np.eye(fn.size)[i]
        found = (fn(step)[0] - fn(-step)[0]) / 2e-4
        assert slope[i] == pytest.approx(found, rel=1e-4, abs=1e-4 * np.max(np.abs(slope)))


@pytest.mark.slow
def test_averages_over_points_are_differentiated_through_marginals():
    """Their curvature is not twice their slope in the variance: no stationary energy.

    What the sites themselves do is in `test_jylanki_49_gradients`.
    """
    data = prepare(X, LABELS, power=0.5)
    start, method = as_dtype(model(likelihood=SOFTMAX), data), cavity.PowerEP()
    build = eqx.filter_jit(lambda start: build_graph(start, data, method, jnp.asarray(0.0)))
    sites, _ = swept(build(start), method)

    @eqx.filter_jit
    def slope(settled):
        def value(start):
            return energy(build(start), sites, settled=settled)

        return jax.tree.leaves(eqx.filter_grad(value)(start).kernel)

    for one, other in zip(slope(True), slope(False), strict=True):
        assert_close(one, other)


@pytest.mark.slow
def test_learning_raises_the_evidence():
    result = cavity.fit(model(FEW), X, LABELS, power=0.5, max_iterations=5)
    start = cavity.infer(model(FEW), X, LABELS, power=0.5)
    assert result.log_evidence > start.log_evidence + 0.1
    assert not np.allclose(result.model.inducing.Z, X[:3])


# --------------------------------------------------------------------------- tied factors


@pytest.mark.slow
def test_tied_factors_bound_the_evidence_of_softmax_at_power_zero():
    """bui S14: by Monte Carlo; the evidence does not fall with the power."""
    method = cavity.TiedPowerEP(max_sweeps=300)
    values = []
    for power in (0.0, 0.5):
        found = cavity.infer(model(POINTS, False, SOFTMAX), X, LABELS, power=power, method=method)
        chance = found.posterior.predict(NEW).probabilities
        np.testing.assert_allclose(np.sum(chance, axis=1), 1.0, rtol=1e-12)
        values.append(found.log_evidence)
    truth, error = nested_ep.sampled_log_evidence(
        SHARED, Y, newton(), softmax_log_chance, wider=1.5
    )
    assert error < 0.05
    assert values[0] < truth
    assert values[0] > truth - 5.0
    assert values[1] > values[0]


# -------------------------------------------------------------------------- what is refused

REFUSED = {
    "batches": (model(), {"method": cavity.PowerEP(batch=4)}, "leave batch=None, or give coupled"),
    "Laplace, sparse": (
        model(POINTS, False, SOFTMAX),
        {"method": cavity.Laplace()},
        "several classes is for the full GP",
    ),
    "Laplace, probit": (
        model(),
        {"method": cavity.Laplace()},
        "takes likelihoods of one latent function, and Softmax; MultinomialProbit has 3",
    ),
    "Laplace, robust": (
        model(likelihood=likelihoods.RobustMax(C)),
        {"method": cavity.Laplace()},
        "needs two derivatives of the likelihood, which RobustMax",
    ),
    "bound, robust": (
        model(likelihood=likelihoods.RobustMax(C)),
        {"method": cavity.LocalBound()},
        "needs a likelihood with a Gaussian lower bound",
    ),
    "tied, full": (
        model(likelihood=SOFTMAX),
        {"method": cavity.TiedPowerEP()},
        "tied sites need a model with inducing variables",
    ),
    "blocks": (model(POINTS), {"blocks": np.arange(N) // 2}, "block"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_combinations_that_are_refused(case):
    start, settings, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        cavity.infer(start, X, LABELS, **settings)


def test_labels_and_shapes_that_are_refused():
    with pytest.raises(ValueError, match=r"the first is 3\): it takes the labels 0 to 2"):
        cavity.infer(model(), X, np.where(np.arange(N) == 2, 3.0, LABELS))
    with pytest.raises(ValueError, match="takes one output, y has 2: fit a model to each"):
        cavity.infer(model(), X, np.stack([LABELS, LABELS], axis=1))
    with pytest.raises(ValueError, match="has 3 latent functions, given a tuple of 2 kernels"):
        cavity.GP((kernels.RBF(), kernels.RBF()), PROBIT)


@pytest.mark.slow
def test_a_batch_is_welcome_without_coupling():
    method = cavity.PowerEP(batch=4, coupled=False, max_sweeps=100)
    found = cavity.infer(model(), X, LABELS, power=1.0, method=method)
    together = cavity.infer(model(), X, LABELS, power=1.0, method=cavity.PowerEP(coupled=False))
    assert found.converged
    assert_close(found.log_evidence, together.log_evidence, "fixed_point")


# ------------------------------------------------------------------------------ large variances


def separable(rows=24):
    """Three classes that a line or two separate: likelihood rises with the prior variance."""
    random = np.random.default_rng(0)
    inputs = random.standard_normal((rows, 2))
    return inputs, np.argmax(np.c_[inputs, -inputs.sum(axis=1)], axis=1).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 0.0])
def test_large_prior_variances_converge_and_keep_their_digits(power):
    """Full sweeps alone lead astray at power 0; the shared height of all classes is near singular.

    The oracle is Gaussian conditioning on the contrasts themselves, in which that height is not.
    """
    inputs, labels = separable()
    classes = cavity.GP(kernels.RBF(1e5, 1.5), likelihoods.MultinomialProbit(3))
    found = cavity.infer(classes, inputs, labels, power=power)
    assert found.converged
    assert found.sites.finished_by == ("parallel sweeps" if power else "damped sweeps")
    n = len(labels)
    rows, others = np.array(
        [(i, j) for i in range(n) for j in range(3) if j != labels[i]], dtype=int
    ).T
    own = labels[rows].astype(int)
    K = np.asarray(classes.kernel.cross(inputs, inputs))[np.ix_(rows, rows)]

    def same(a, b):
        return a[:, None] == b[None]

    S = K * (1.0 * same(others, others) - same(others, own) - same(own, others) + same(own, own))
    S = S + same(rows, rows)
    ((site,),) = found.found
    shift, precision = (np.asarray(a)[rows, others] for a in (site.shift, site.precision))
    root = np.sqrt(precision)
    weights = shift - root * np.linalg.solve(
        np.eye(len(root)) + root[:, None] * S * root, root * (S @ shift)
    )
    mean = found.posterior.process.moments(jnp.asarray(inputs))[0]
    contrasts = np.asarray(mean[rows, others] - mean[rows, own])
    expected = (S - same(rows, rows)) @ weights  # the functions' part, without u
    np.testing.assert_allclose(contrasts, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.slow
def test_learning_goes_on_from_the_last_sites_at_power_zero():
    """Extrapolated full sweeps from there may cycle; ones of half the length converge."""
    inputs, labels = separable()
    data = prepare(inputs, labels, power=0.0)
    method, jitter = cavity.PowerEP(), jnp.asarray(1e-8)

    def classes(variance):
        prior = kernels.RBF(variance, 3.0)
        typed = as_dtype(cavity.GP(prior, likelihoods.MultinomialProbit(3)), data)
        return problem_of(typed, data, method, jitter)

    solver = method.solver
    before = find_fixed_point(classes(1e3), solver)[0]
    there = classes(1e4)
    found, report = find_fixed_point(there, solver, before)
    assert report.converged
    assert report.finished_by == "parallel sweeps"
    expected = find_fixed_point(there, solver)[0]
    values = [energy(there.graph(), sites) for sites in (found, expected)]
    np.testing.assert_allclose(*values, rtol=1e-7)


@pytest.mark.slow
def test_no_step_is_longer_than_asked_for():
    """The first sweep with the longest step of a half goes half the way."""
    data = prepare(X, LABELS, power=0.5)
    graph = build_graph(as_dtype(model(), data), data, cavity.PowerEP(), jnp.asarray(0.0))
    zero = empty_sites(graph)
    found, _ = Parallel(graph, Limits(1e-8, 2, longest=0.5)).run(zero)
    for ours, half in zip(found[0], sweep(graph, zero, 0.5)[0][0], strict=True):
        assert_close(ours.precision, half.precision)
        assert_close(ours.shift, half.shift)
