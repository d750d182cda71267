"""Sequential sweeps and minibatches reach the fixed point of parallel ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, weights
from cavity.inference.energy import beliefs, empty_sites, energy
from cavity.inference.solvers.sequential import _one_by_one
from cavity.inference.solvers.steps import run_sweeps
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from tests.equivalence.problem import laid_out
from tests.solving import problem_of
from tests.tolerances import assert_close

RNG = np.random.default_rng(5)
X = np.sort(RNG.uniform(-2.0, 2.0, 23))[:, None]
LABELS = (np.sin(3.0 * X[:, 0]) + 0.4 * RNG.standard_normal(23) > 0.0).astype(float)
POINTS = inducing.Points(np.linspace(-2.0, 2.0, 6)[:, None])


def model(points=None, likelihood=None):
    chosen = likelihoods.Bernoulli() if likelihood is None else likelihood
    return cavity.GP(kernels.RBF(2.0, 0.6), chosen, points)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("points", [None, POINTS], ids=["full", "sparse"])
@pytest.mark.parametrize("batch", [1, 7])
def test_jylanki_05_schedules_share_their_fixed_point(points, batch):
    """jylanki 5, with two outputs of which some are missing."""
    y = np.column_stack([LABELS, 1.0 - LABELS[::-1]])
    y[[2, 11], 0] = np.nan
    options = {"power": 0.7, "missing": "skip"}
    plain = cavity.PowerEP(step=1.0)  # without extrapolation
    parallel = cavity.infer(model(points), X, y, method=plain, **options)
    found = cavity.infer(model(points), X, y, method=cavity.PowerEP(batch=batch), **options)
    assert found.converged
    assert found.sites.finished_by == ("sequential sweeps" if batch == 1 else "minibatch sweeps")
    assert found.sites.sweeps <= parallel.sites.sweeps
    assert_close(found.log_evidence, parallel.log_evidence, "factorised")
    for a, b in zip(found.posterior.marginals(X), parallel.posterior.marginals(X), strict=True):
        assert_close(a, b, "fixed_point")


@pytest.mark.parametrize("shape", [(23, 3), (9, 14)], ids=["few weights", "many weights"])
@pytest.mark.parametrize("power", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("noise", [likelihoods.Bernoulli(), likelihoods.StudentT(0.3, 4.0)])
def test_rows_of_a_linear_model_in_turn(shape, power, noise):
    """Gaussian priors of weights are exact, and no factor that rows would have to wait for."""
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal(shape)
    f = inputs[:, 0] - inputs[:, 1] + 0.5
    y = f + 0.3 * rng.standard_t(3.0, len(f))
    y = (y > 0.0).astype(float) if isinstance(noise, likelihoods.Bernoulli) else y
    linear = cavity.LinearModel(weights.Gaussian(0.7), noise, intercept=True)
    plain = cavity.PowerEP(step=1.0)
    parallel = cavity.infer(linear, inputs, y, power=power, method=plain)
    found = cavity.infer(linear, inputs, y, power=power, method=cavity.PowerEP(batch=1))
    assert found.converged
    assert found.sites.finished_by == "sequential sweeps"
    assert_close(found.log_evidence, parallel.log_evidence, "factorised")
    places = rng.standard_normal((4, shape[1]))
    for a, b in zip(
        found.posterior.marginals(places), parallel.posterior.marginals(places), strict=True
    ):
        assert_close(a, b, "fixed_point")
    assert_close(found.leave_one_out(), parallel.leave_one_out(), "fixed_point")


HEAVY = cavity.LinearModel(weights.StudentT(0.7, 4.0), likelihoods.Gaussian(0.1))
PLAIN = cavity.LinearModel(weights.Gaussian(0.7), likelihoods.StudentT(0.3, 4.0))
NETWORK = cavity.Network(2, weights.Gaussian(1.0), "erf", likelihoods.StudentT(0.3, 4.0))


@pytest.mark.parametrize(
    ("refused", "batch", "message"),
    [
        (HEAVY, 1, "one factor, beside Gaussian priors of weights; given 2"),
        (PLAIN, 5, "leave batch=None, or give batch=1"),
        (NETWORK, 1, "several values at once move in parallel"),
    ],
    ids=["heavy prior", "minibatches", "network"],
)
def test_weights_that_wait_for_all_rows(refused, batch, message):
    with pytest.raises(ValueError, match=message):
        cavity.infer(refused, X, X[:, 0], power=1.0, method=cavity.PowerEP(batch=batch))


@pytest.mark.parametrize("points", [None, POINTS], ids=["full", "sparse"])
def test_jylanki_15_rank_one_updates_are_the_whole_computation(points):
    """jylanki 15: moments carried through a sweep equal those from its sites."""
    noise = likelihoods.StudentT(0.05, 4.0)
    graph, _ = laid_out(model(points, noise), X, np.sin(3.0 * X[:, 0]) + 3.0 * LABELS, power=0.5)
    (store,) = empty_sites(graph)
    (factor,) = graph.factors
    sweep = eqx.filter_jit(_one_by_one)
    carried, new, _, _ = sweep(graph, factor, store, jnp.asarray(0.8), 1)
    assert np.min(np.asarray(new[0].precision)) < 0.0
    (whole,) = eqx.filter_jit(beliefs)(graph, (new,))
    for a, b in zip(carried[0], whole.dense(), strict=True):
        assert_close(a, b, "factorised")


def test_damped_sequential_sweeps():
    plain = cavity.infer(model(), X, LABELS, power=1.0)
    found = cavity.infer(model(), X, LABELS, power=1.0, method=cavity.PowerEP(batch=1, step=0.5))
    assert found.converged
    assert_close(found.log_evidence, plain.log_evidence, "factorised")
    with pytest.raises(ValueError, match="batch must be at least 1"):
        cavity.PowerEP(batch=0)


@pytest.mark.slow
def test_sequential_sweeps_where_a_fixed_step_fails():
    """The four points of jylanki 2.4: no fixed step converges, a step that adapts does."""
    x, y = np.array([[0.0], [0.4], [0.8], [1.2]]), np.array([0.1, 0.3, 1.4, 0.2])
    kernel = kernels.RBF(1.0, 0.7) + kernels.White(1e-6)
    start = cavity.GP(kernel, likelihoods.StudentT(np.sqrt(0.02), 4.0))
    for step in (0.8, 0.2):
        fixed = cavity.PowerEP(batch=1, step=step, fallback=False)
        assert not cavity.infer(start, x, y, power=1.0, method=fixed).converged
    found = cavity.infer(start, x, y, power=1.0, method=cavity.PowerEP(batch=1))
    assert found.converged
    assert found.log_evidence == pytest.approx(-7.066379, abs=1e-5)


@pytest.mark.slow
def test_a_line_search_at_power_zero():
    """Where sweeps end too early, shorter natural-gradient steps reach the bound's maximum."""
    x, y = np.array([[0.0], [0.4], [0.8], [1.2]]), np.array([0.1, 0.3, 1.4, 0.2])
    kernel = kernels.RBF(1.0, 0.7) + kernels.White(1e-6)
    start = cavity.GP(kernel, likelihoods.StudentT(np.sqrt(0.002), 1.0))
    data = prepare(x, y, power=0.0)
    laid, method = as_dtype(start, data), cavity.PowerEP(max_sweeps=2000)
    problem = problem_of(laid, data, method)
    zero = problem.empty_sites()
    sites, record = run_sweeps(problem, method.solver, zero, downhill=True)
    graph = problem.graph()
    found = float(eqx.filter_jit(energy)(graph, sites))
    expected = cavity.infer(start, x, y, power=0.0, method=method)
    assert expected.converged
    assert found == pytest.approx(-expected.log_evidence, abs=1e-6)
    assert int(record.sweeps) < 2000


@pytest.mark.slow
def test_single_precision_converges_to_what_it_can():
    with jax.enable_x64(False):
        x, y = X.astype(np.float32), LABELS.astype(np.float32)
        for batch in (None, 1):
            found = cavity.infer(model(), x, y, power=1.0, method=cavity.PowerEP(batch=batch))
            assert found.converged
    whole = cavity.infer(model(), X, LABELS, power=1.0)
    assert found.log_evidence == pytest.approx(whole.log_evidence, rel=1e-4)
