"""Tied Power EP of state-space models: one site for all terms that touch a state."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks.state_space.systems import kink_series
from scipy import stats

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.inference.energy import energy
from cavity.inference.graph.marginals import Latent
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.inducing_view import OutputMean
from cavity.learning.data.arrays import prepare
from cavity.learning.data.training_data import Minibatch
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from cavity.models.state_space.site_terms import AffineTerm
from tests.models import chain_toy as toy
from tests.models.test_state_site_fits import SERIES, WEIGHTS, known, layer, outputs, two_states
from tests.models.tied_states_toy import tied_terms
from tests.tolerances import assert_close

MOMENTS = cavity.TiedPowerEP(propagation=cavity.fitting.Moments())


def objective(model, X, Y, rows, power, propagation=MOMENTS.propagation, sites=None):
    side = model.row_data(rows, len(Y))
    data = prepare(X, Y, power=power, rows=side, missing="skip")
    method = cavity.TiedPowerEP(propagation=propagation)
    start = as_dtype(model, data)
    return Objective(start, data, method=method, jitter=toy.JITTER, sites=sites)


def away(sites, scale=1.0, tied=None):
    """Other sites of the same form, those on functions at the prior, or as given."""
    rng = np.random.default_rng(0)
    ((functions, _, states), *rest) = sites
    mean = states.mean + scale * 0.3 * rng.normal(size=states.mean.shape)
    raw = states.raw + scale * 0.2 * np.tril(rng.normal(size=states.raw.shape))
    if tied is None:
        tied = type(functions)(jnp.zeros_like(functions.mean), jnp.zeros_like(functions.raw))
    return ((tied, None, type(states)(mean, raw, None)), *rest)


def moments_of(sites):
    states, rows = sites[0][2], slice(toy.ROWS)
    root = np.asarray(states.root)[rows]
    return np.asarray(states.mean)[rows], root @ np.swapaxes(root, 1, 2)


@eqx.filter_jit
def energy_of(problem, sites):
    return energy(problem.graph(), sites)


def value_of(found, sites):
    """The energy of all rows, without a program for its slopes."""
    problem = found.data.problem(found.start, found.approximation, toy.JITTER)
    return float(energy_of(problem, sites))


# ---- known linear transitions: missing rows and outputs, a series of one step, controls


@pytest.mark.sampled(2)
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_energies_of_known_transitions_are_those_of_dense_algebra(power):
    """S42 of bui.md with E18."""
    model, X, Y, rows, linear = known()
    found = objective(model, X, Y, rows, power)
    sites = away(found.empty)
    terms = tied_terms(linear, Y, X, toy.LINK[: toy.ROWS], *moments_of(sites), power)
    assert_close(value_of(found, sites), -terms.total, "factorised")


@pytest.mark.slow
def test_minibatches_have_the_energy_of_all_rows_on_average():
    """Identity 35 of bui.md: blocks of a partition, single steps, and runs around the end."""
    model, X, Y, rows, _ = known()
    found = objective(model, X, Y, rows, 0.5)
    sites = away(found.empty)
    found = objective(model, X, Y, rows, 0.5, sites=sites)
    value, slope = found(found.first)
    assert_close(value, value_of(found, sites))
    order, size = np.arange(toy.ROWS), toy.ROWS

    def averaged(blocks):
        scale = size / len(blocks[0])
        parts = [found.on_rows(found.first, Minibatch(len(b), b), scale) for b in blocks]
        return [np.mean([part[i] for part in parts], axis=0) for i in range(2)]

    runs = [np.roll(order, -start)[:2] for start in range(size)]
    for blocks in (order.reshape(4, 2), order[:, None], runs):
        mean, mean_slope = averaged(list(blocks))
        assert_close(mean, value)
        assert_close(mean_slope, slope, "factorised")


def test_a_window_that_does_not_go_around_the_end_is_biased():
    """Identity 35 of bui.md: the rows next to the ends are in fewer windows."""
    model, X, Y, rows, _ = known()
    found = objective(model, X, Y, rows, 0.5)
    windows = [np.arange(start, start + 2) for start in range(toy.ROWS - 1)]
    values = [found.on_rows(found.first, Minibatch(2, w), toy.ROWS / 2)[0] for w in windows]
    assert abs(np.mean(values) - found(found.first)[0]) > 0.1


def test_every_row_is_in_a_minibatch_as_often_as_any_other():
    model, X, Y, rows, _ = known()
    data = objective(model, X, Y, rows, 0.5).data
    batches = data.minibatches(3, np.random.default_rng(0))
    drawn = np.array([next(batches).index for _ in range(4000)])
    assert np.all((np.diff(drawn, axis=1) % toy.ROWS) == 1)
    # two runs of each pass, which have no row in common
    assert all(len(set(np.ravel(drawn[i : i + 2]))) == 6 for i in range(0, 100, 2))
    counts = np.bincount(drawn.ravel(), minlength=toy.ROWS)
    assert np.ptp(counts) < 0.1 * np.mean(counts)


# ---- small powers


def curved():
    linear, Y, X = toy.linear(1)
    transition = toy.transition_layer(linear, 1.3)
    emission = means.Linear(linear.C.T, linear.d)
    model = cavity.GPSSM(
        transition,
        likelihoods.Gaussian(linear.R[0]),
        emission,
        initial_mean=linear.m0,
        initial_variance=linear.v0,
    )
    series = np.cumsum(1.0 - toy.LINK[: toy.ROWS])
    return model, linear, transition, X, Y, {"series": series}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["moments", "nodes", "linearised"])
def test_small_powers_are_the_free_bound_but_for_tangents(name):
    """Identity 29 of bui.md: by moments and nodes the energy goes to the bound of factorised
    states, with an error as large as the power; by the tangent it stays away."""
    model, linear, transition, X, Y, rows = curved()
    propagation, tied = toy.PROPAGATIONS[name], toy.tied_site(transition, 1.0)
    sites = away(objective(model, X, Y, rows, 0.5, propagation).empty, tied=tied)
    wide = dataclasses.replace(sites[0][2], raw=jnp.full_like(sites[0][2].raw, np.log(0.8)))
    sites = ((tied, None, wide), *sites[1:])
    mean, cov = (np.ravel(a) for a in moments_of(sites))
    bound = toy.bound((mean, cov, 0.0 * cov), linear, Y, X, transition, tied)
    errors = []
    for power in (1e-2, 5e-3, 1e-5):
        found = objective(model, X, Y, rows, power, propagation, sites)
        errors.append(-value_of(found, sites) - bound)
    if name == "linearised":
        assert abs(errors[2]) > 0.1
        return
    assert errors[1] / errors[0] == pytest.approx(0.5, abs=0.02)
    assert abs(errors[2]) < 2e-3 * abs(errors[0])


# ---- optima


def one_state(emission=None, likelihood=None, **parts):
    transition = layer(1, 1, noise_variance=0.3, mean=means.Identity(1))
    emission = means.Linear([[1.0, -0.5]]) if emission is None else emission
    return cavity.GPSSM(transition, likelihood or likelihoods.Gaussian(0.3), emission, **parts)


@pytest.mark.slow
def test_the_optimum_at_power_zero_is_the_collapsed_bound():
    """Identity 28 of bui.md, and by S36 and S42 the same factorised states."""
    Y, _ = outputs()
    options = {"rows": {"series": SERIES}, "power": 0.0, "missing": "skip"}
    collapsed = cavity.PowerEP(hidden="factorised")
    expected = cavity.infer(one_state(), None, Y, method=collapsed, **options)
    method = dataclasses.replace(MOMENTS, tolerance=1e-9)
    found = cavity.infer(one_state(), None, Y, method=method, **options)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-7)
    for name in ("mean", "cov", "cross"):
        pair = (getattr(r.posterior.states, name) for r in (found, expected))
        np.testing.assert_allclose(*pair, atol=1e-5)
    X = np.linspace(-2.0, 2.0, 5)[:, None]
    for mine, theirs in zip(
        found.posterior.marginals(X), expected.posterior.marginals(X), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)


def test_states_that_nothing_touches_are_at_their_prior():
    """A series of one row without outputs, at any power; the others do not see it."""
    Y, _ = outputs()
    Y[5] = np.nan  # a series of its own
    model = one_state(initial_mean=0.7, initial_variance=1.9)
    options = {"power": 0.5, "missing": "skip", "method": MOMENTS}
    found = cavity.infer(model, None, Y, rows={"series": SERIES}, **options)
    states = found.posterior.states
    assert states.mean[5, 0] == 0.7
    assert states.cov[5, 0, 0] == 1.9
    kept = np.delete(np.arange(10), 5)
    without = cavity.infer(model, None, Y[kept], rows={"series": SERIES[kept]}, **options)
    assert found.log_evidence == pytest.approx(without.log_evidence, abs=1e-4)


@pytest.mark.slow
def test_more_states_than_counts_start_from_counts_of_rows_before():
    """One output of counts for two states: components of outputs are too few."""
    counts = np.round(2.0 + np.abs(outputs()[0][:, :1]))
    mean = means.Linear([[0.4], [0.2]], 0.5)
    transition = layer(2, 2, noise_variance=0.3, mean=means.Identity(2))
    model = cavity.GPSSM(transition, likelihoods.Poisson(), mean)
    method = dataclasses.replace(MOMENTS, max_sweeps=2)
    found = cavity.infer(model, None, counts, power=0.5, missing="skip", method=method)
    assert np.isfinite(found.log_evidence)
    assert found.posterior.states.mean.shape == (10, 2)


@pytest.mark.slow
def test_series_of_one_step_are_the_latent_variable_model():
    """Identities 26 and 36 of bui.md: a state with one term has a site of its own."""
    rng = np.random.default_rng(3)
    Y = np.sin(np.linspace(0.0, 3.0, 8))[:, None] + 0.1 * rng.normal(size=(8, 1))
    kernel, Z = kernels.RBF(1.2, 1.0), inducing.Points(np.linspace(-1.5, 1.5, 4)[:, None])
    transition = cavity.Layer(kernel, Z, 1, noise_variance=0.3)
    model = cavity.GPSSM(transition, likelihoods.Gaussian(0.2), cavity.Layer(kernel, Z, 1))
    method = dataclasses.replace(MOMENTS, tolerance=1e-8)
    options = {"power": 0.5, "method": method}
    series = {"series": np.arange(8)}
    found = cavity.infer(model, None, Y, rows=series, **options)
    gplvm = cavity.GPLVM(kernel, likelihoods.Gaussian(0.2), Z)
    options["method"] = dataclasses.replace(method, input_sites=True)
    expected = cavity.infer(gplvm, None, Y, **options)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-4)
    latent = np.ravel(expected.posterior.latent.mean)
    np.testing.assert_allclose(np.ravel(found.posterior.states.mean), latent, atol=1e-2)


# ---- slopes and terms

CASES = {
    "moments": (means.Linear(WEIGHTS), likelihoods.Gaussian(0.3), cavity.fitting.Moments()),
    "nodes": (means.Linear(WEIGHTS), likelihoods.StudentT(0.5, 4.0), cavity.fitting.Nodes(9)),
    "layer": (layer(2, 2, 3), likelihoods.Gaussian(0.3), cavity.fitting.Linearised()),
    "counts": (layer(2, 2, 3), likelihoods.Poisson(), cavity.fitting.Moments()),
}


@pytest.mark.parametrize(
    "case",
    [name if name == "moments" else pytest.param(name, marks=pytest.mark.slow) for name in CASES],
)
def test_slopes_are_finite_differences(case):
    """Of all parameters, inducing points, tied sites and states, of all rows and of some."""
    emission, likelihood, propagation = CASES[case]
    Y, X = outputs()
    Y = np.round(3.0 + Y) if case == "counts" else Y
    model = two_states(emission, likelihood)
    found = objective(model, X, Y, {"series": SERIES}, 0.5, propagation)
    random = np.random.default_rng(8)
    x = found.first + 0.05 * random.standard_normal(found.size)
    for rows in (None, Minibatch(4, np.array([4, 5, 6, 7]))):
        scale = 1.0 if rows is None else 2.5
        _, slope = found.on_rows(x, rows, scale)
        step = 1e-5 * random.standard_normal(found.size)
        ends = [found.on_rows(x + sign * step, rows, scale)[0] for sign in (1.0, -1.0)]
        assert_close(slope @ step, 0.5 * (ends[0] - ends[1]), "gradient", scale=1e-3)


def test_the_power_mean_of_affine_outputs_is_its_integral():
    """Of counts of two outputs that share a state, one output, and where one is missing."""
    power, rng = 0.7, np.random.default_rng(5)
    m, V, C, d = rng.normal(size=2), np.array([[0.4, 0.1], [0.1, 0.3]]), WEIGHTS, np.ones(2)
    y, likelihood = np.array([2.0, 4.0]), likelihoods.Poisson()
    x, w = np.polynomial.hermite_e.hermegauss(40)
    z = np.stack(np.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    w = np.outer(w, w).ravel() / w.sum() ** 2
    f = (m + z @ np.linalg.cholesky(V).T) @ C + d
    zero = jnp.zeros(())
    each = stats.poisson.logpmf(y, np.exp(f))
    latent = Latent(jnp.asarray(m)[None, None], jnp.asarray(V)[None, None], zero)
    for present in ([1.0, 1.0], [1.0, 0.0]):
        expected = np.log(w @ np.exp(power * (each @ np.array(present)))) / power
        rows = Rows(jnp.zeros((1, 0)), jnp.asarray(y)[None], jnp.array([present]))
        functions = OutputMean(means.Linear(C, d), 2)
        term = AffineTerm(functions, likelihood, cavity.fitting.Nodes(400))
        assert_close(term.log_mean((latent,), rows, power), [[expected]], "quadrature")
        # at power 0 every output counts for itself, by any propagation
        term = AffineTerm(functions, likelihood, cavity.fitting.Linearised())
        bound = w @ (each @ np.array(present))
        assert_close(term.log_mean((latent,), rows, 0.0), [[bound]], "quadrature")


# ---- learning


def learned(series, **settings):
    Z = inducing.Points(np.linspace(series.y.min(), series.y.max(), 15)[:, None])
    noise = {"noise_variance": 0.5, "mean": means.Identity(1)}
    transition = cavity.Layer(kernels.RBF(4.0, 2.0), Z, 1, **noise)
    model = cavity.GPSSM(transition, likelihoods.Gaussian(0.5))
    method = dataclasses.replace(MOMENTS, **settings)
    return cavity.fit(model, None, series.y, method=method, power=0.5)


@pytest.mark.slow
def test_minibatches_learn_what_all_rows_do():
    """The kink system: evidence, noises and the function."""
    series = kink_series(0)
    whole = learned(series)
    some = learned(series, batch=50, max_sweeps=4000, learning_rate=0.03)
    assert whole.converged
    assert some.log_evidence == pytest.approx(whole.log_evidence, abs=1.0)
    for of in (lambda m: m.transition.noise_variance, lambda m: m.likelihood.variance):
        assert float(np.ravel(of(some.model))[0] / np.ravel(of(whole.model))[0]) == pytest.approx(
            1.0, abs=0.1
        )
    X = np.linspace(-2.0, 4.0, 13)[:, None]
    gap = np.asarray(some.posterior.marginals(X).mean) - whole.posterior.marginals(X).mean
    assert np.max(np.abs(gap)) < 0.1


# ---- refusals


def test_a_state_with_one_term_is_refused_at_power_one():
    model, X, Y, rows, _ = known()
    Y = Y.copy()
    Y[4] = 0.3
    with pytest.raises(ValueError, match=r"touches the state of row 4.*such as 0\.9"):
        cavity.infer(model, X, Y, power=1.0, rows=rows, missing="skip", method=MOMENTS)
    Y[7] = np.nan
    with pytest.raises(ValueError, match="touches the state of row 4"):
        cavity.infer(model, X, Y, power=1.0, rows=rows, missing="skip", method=MOMENTS)


REFUSED = {
    "natural": (cavity.TiedPowerEP(batch=4, natural=0.5), "natural=None"),
    "hidden_sites": (cavity.TiedPowerEP(hidden_sites=True), "hidden_sites is for deep models"),
    "interleaved": (cavity.PowerEP(exact=False, interleaved=5), r"TiedPowerEP\(batch=...\)"),
    "paths": (cavity.TiedPowerEP(hidden="conditional", batch=4), "needs all rows at a time"),
    "laplace": (cavity.Laplace(), r"TiedPowerEP\(\) with one site"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_methods_that_are_none_of_state_space_models_are_refused(case):
    method, message = REFUSED[case]
    Y, _ = outputs()
    with pytest.raises(ValueError, match=message):
        cavity.infer(one_state(), None, Y, power=0.0, missing="skip", method=method)


def test_batches_of_a_table_are_refused():
    Y, _ = outputs()
    pairs = [(np.zeros((5, 0)), np.nan_to_num(Y[:5])), (np.zeros((5, 0)), np.nan_to_num(Y[5:]))]
    with pytest.raises(ValueError, match="must be in memory"):
        cavity.fit(one_state(), pairs, method=cavity.TiedPowerEP(batch=4))
