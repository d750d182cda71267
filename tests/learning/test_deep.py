"""Deep models start as sparse GPs, and learning them ends above their start or says that not."""

import dataclasses

import equinox as eqx
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.learning.initialisation.deep import (
    HiddenStart,
    at_rest,
    chosen_start,
    deepen,
    hidden_start,
)
from cavity.learning.plans import deep
from cavity.learning.plans.deep import fit_deep
from cavity.learning.plans.trials import fit_best
from cavity.parameters import Positive
from tests.tolerances import assert_close

STEPS = cavity.TiedPowerEP(
    propagation=cavity.fitting.Nodes(2), batch=32, max_sweeps=300, learning_rate=0.05
)


@pytest.fixture(scope="module")
def step():
    """A step, which a stationary function cannot be, in two columns."""
    random = np.random.default_rng(0)
    X = random.uniform(-1.0, 1.0, (60, 2))
    return X, np.sign(X[:, 0]) + 0.05 * random.standard_normal(60)


def sparse(H, likelihood, mean=None):
    kernel = kernels.RBF(1.0, H.std(axis=0))
    return cavity.GP(kernel, likelihood, inducing.Points(H[:8]), mean)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_mean_functions_keep_what_inputs_say(step, width):
    """They pass on the inputs, principal components of deviation one, or directions beside."""
    X, _ = step
    X = X @ np.array([[3.0, 1.0], [0.0, 0.1]])
    hidden = hidden_start(X, (width, width))
    first, second = hidden.inputs[1:]
    assert first.shape == (60, width)
    assert_close(second, first, "factorised")
    if width != 2:
        np.testing.assert_allclose(first.std(axis=0)[: min(width, 2)], 1.0, rtol=1e-8)
    # nothing is lost where there is room for it
    A = np.column_stack([first, np.ones(60)])
    left = X - A @ np.linalg.lstsq(A, X, rcond=None)[0]
    assert width == 1 or np.max(np.abs(left)) < 1e-10


@pytest.mark.sampled(1, "likelihood0-mean0-method0")
@pytest.mark.parametrize(
    ("likelihood", "mean", "method"),
    [
        (likelihoods.Gaussian(0.05), means.Constant(0.2), cavity.PowerEP()),
        (likelihoods.HeteroscedasticGaussian(), None, cavity.PowerEP(max_sweeps=100)),
    ],
)
def test_a_deep_model_begins_as_its_sparse_gp(step, likelihood, mean, method):
    """With inner functions that equal their means, predictions are those of the sparse GP.

    At power 0, where tied and private sites have the same fixed point.
    """
    X, y = step
    single = cavity.infer(sparse(X, likelihood, mean), X, y, power=0.0, method=method)
    hidden = hidden_start(X, (2,), 6)
    start, sites = deepen(sparse(X, likelihood, mean), single.posterior.process, hidden)
    functions = single.posterior.process.sparse_functions()
    for site, (_, belief) in zip(sites[0][1:], functions, strict=True):
        mean, cov = belief.dense()
        assert_close(site.mean, mean)
        assert_close(site.root @ np.swapaxes(site.root, -1, -2), cov, "factorised")
    start = eqx.tree_at(lambda m: m.layers[0].kernel.variance, start, np.asarray(1e-12))
    tied = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(2), tolerance=1e-6)
    options = {"power": 0.0, "method": tied, "sites": sites, "max_iterations": 0}
    result = cavity.fit(start, X, y, **options)
    found, expected = (r.posterior.marginals(X[:9]) for r in (result, single))
    assert result.n_evaluations < 3
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-3)
    np.testing.assert_allclose(found.var, expected.var, atol=1e-3)


@pytest.mark.parametrize(
    ("widths", "outputs", "place"),
    [((), 1, 0), ((1,), 1, 0), ((2,), 1, 1), ((3,), 1, 1), ((2, 1), 1, 0), ((2, 2), 2, 2),
     ((3, 2), 2, 0), ((1,), 2, 1)],
)  # fmt: skip
def test_a_sparse_gp_is_the_last_layer_or_the_first(step, widths, outputs, place):
    """The first where layers are narrow but can pass on its functions."""
    start = chosen_start(step[0], widths, likelihoods.Gaussian(), outputs)
    assert len(start.maps) == place
    assert start.above == (() if place == len(widths) else widths)
    other = chosen_start(step[0], widths, likelihoods.Bernoulli(), outputs)
    assert len(other.maps) == len(widths)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "widths", "functions"),
    [
        (likelihoods.Gaussian(0.05), (1,), 1),
        (likelihoods.Gaussian(0.05), (2, 3), 1),
        (likelihoods.HeteroscedasticGaussian(), (4,), 2),
    ],
)
def test_a_first_layer_begins_as_the_sparse_gp(step, likelihood, widths, functions):
    """Its functions come first, and the layers above pass them on."""
    X, y = step
    X = np.column_stack([X, X**2, X.prod(axis=1)])
    model = sparse(X, likelihood, means.Constant(0.2))
    single = cavity.infer(model, X, y, power=0.0, method=cavity.PowerEP(max_sweeps=100))
    start = HiddenStart((), (X,), widths, 6)
    deeper, sites = at_rest(*deepen(model, single.posterior.process, start), start)
    assert [layer.width for layer in deeper.layers] == [*widths, functions]
    still = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(2), batch=60, max_sweeps=1)
    still = dataclasses.replace(still, learning_rate=deep.STANDSTILL)
    options = {"power": 0.0, "method": still, "sites": sites, "max_iterations": 1}
    result = cavity.fit(deeper, X, y, **options)
    found, expected = (r.posterior.marginals(X[:9]) for r in (result, single))
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-3)
    np.testing.assert_allclose(found.var, expected.var, atol=1e-3)
    # the others begin as directions that spread as the functions do
    if widths == (4,):
        hidden = np.asarray(deeper.layers[0].mean(X))[:, 2:].std(axis=0)
        functions = np.asarray(single.posterior.process.moments(X)[0]).std(axis=0)
        np.testing.assert_allclose(hidden, functions.mean(), rtol=1e-6)


@pytest.mark.sampled(1, "widths0")
@pytest.mark.parametrize("widths", [(2,), (2, 2)])
def test_a_start_keeps_the_accuracy_of_the_sparse_gp(widths):
    """Hidden values are so certain that outputs of hardly any noise are predicted as before."""
    random = np.random.default_rng(0)
    X = random.uniform(-1.0, 1.0, (60, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 1e-3 * random.standard_normal(60)
    model = cavity.GP(
        kernels.RBF(1.0, np.ones(2)), likelihoods.Gaussian(1e-6), inducing.Points(X[:30])
    )
    single = cavity.infer(model, X, y, power=0.0)
    start, sites = deepen(model, single.posterior.process, hidden_start(X, widths, 10))
    still = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(2), batch=60, max_sweeps=1)
    still = dataclasses.replace(still, learning_rate=deep.STANDSTILL)
    result = cavity.fit(start, X, y, power=0.0, method=still, sites=sites, max_iterations=1)
    before, after = (np.mean(r.posterior.predict(X).log_density(y)) for r in (single, result))
    assert before > 5.0
    assert after > before - 0.1


@pytest.mark.slow
def test_learning_ends_above_the_sparse_gp(step, monkeypatch):
    """From the sparse GP of all rows, by Adam and then by L-BFGS-B."""
    X, y = step
    hidden = hidden_start(X, (2,), 8)
    starts = [sparse(X, likelihoods.Gaussian(0.1))]
    monkeypatch.setattr(deep, "SETTINGS", deep.DeepFit(rows=10))
    result = fit_deep(starts, hidden, X, y, method=STEPS)
    single = cavity.fit(starts[0], X, y)
    assert result.log_evidence > single.log_evidence
    assert len(result.model.layers) == 2
    again = fit_deep(starts, hidden, X, y, method=STEPS)
    assert again.log_evidence == result.log_evidence
    assert "300 steps of Adam" in result.message
    assert "of L-BFGS-B" in result.message
    assert result.n_iterations == len(result.history) > 300
    monkeypatch.setattr(deep, "SETTINGS", deep.DeepFit(rows=10, final=0))
    shorter = fit_deep(starts, hidden, X, y, method=STEPS)
    assert shorter.history == result.history[:300]
    assert shorter.log_evidence < result.log_evidence


@pytest.mark.slow
def test_steps_count_where_there_can_be_no_more(step, monkeypatch):
    """L-BFGS-B may fail on all rows, have too much to remember, or take too long."""
    X, y = step
    hidden, starts = hidden_start(X, (2,), 8), [sparse(X, likelihoods.Gaussian(0.1))]
    learn = cavity.fit

    def failing(*data, method, **options):
        if method.tied and method.batch is None:  # not of the sparse GP
            raise cavity.fitting.NumericalError("no gradient")
        return learn(*data, method=method, **options)

    monkeypatch.setattr("cavity.learning.run.fits.fit", failing)
    failed = fit_deep(starts, hidden, X, y, method=STEPS)
    for settings in (deep.DeepFit(coordinates=3 * 72 - 1), deep.DeepFit(final_rows=59)):
        monkeypatch.setattr(deep, "SETTINGS", settings)
        short = fit_deep(starts, hidden, X, y, method=STEPS)
        assert len(failed.history) == len(short.history) == 300
        assert failed.log_evidence == short.log_evidence
        assert "L-BFGS-B" not in short.message


@pytest.mark.parametrize(
    ("propagation", "rows", "repeats"),
    [
        (cavity.fitting.Nodes(2), 60, 16),
        (cavity.fitting.Nodes(2), 5000, 3),
        (cavity.fitting.Nodes(4), 5000, 4),
        (cavity.fitting.Moments(), 60, 1),
    ],
)
def test_few_rows_have_many_points_where_these_do_not_change(propagation, rows, repeats):
    """L-BFGS-B would fit the model to a few of them."""
    method = deep.full_data_method(dataclasses.replace(STEPS, propagation=propagation), rows)
    assert method.batch is None
    assert method.propagation.repeats == repeats


@pytest.mark.slow
def test_learning_does_not_depend_on_the_units_of_outputs(step):
    """Hidden values are in those of the outputs where the first layer is the sparse GP."""
    X, y = step
    X, unit = np.column_stack([X, X**2]), 1000.0
    few = dataclasses.replace(STEPS, max_sweeps=30)
    evidence = []
    for scale in (1.0, unit):
        starts = [sparse(X, likelihoods.Gaussian(0.1 * scale**2))]
        starts = [eqx.tree_at(lambda m: m.kernel.variance, starts[0], np.asarray(scale**2))]
        hidden = chosen_start(X, (2,), likelihoods.Gaussian(), 1, 8)
        result = fit_deep(starts, hidden, X, scale * y, method=few)
        evidence.append(result.log_evidence)
    assert evidence[1] == pytest.approx(evidence[0] - len(y) * np.log(unit), abs=0.1)


@pytest.mark.slow
def test_a_fit_that_ends_below_its_start_gives_the_start(step, monkeypatch):
    """It says so, and predicts as the sparse GP does."""
    X, y = step
    wild = dataclasses.replace(STEPS, learning_rate=3.0, max_sweeps=10)
    monkeypatch.setattr(deep, "SETTINGS", deep.DeepFit(slower=1.0))
    starts = [sparse(X, likelihoods.Gaussian(0.1))]
    result = fit_deep(starts, hidden_start(X, (2,), 8), X, y, method=wild)
    assert not result.converged
    assert "of the sparse GP that it started from" in result.message
    assert "predicts as the sparse GP does" in result.message
    assert len(result.history) == 10
    single = fit_best(starts, X, y)
    found, expected = (r.posterior.predict(X) for r in (result, single))
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-3)
    np.testing.assert_allclose(found.var, expected.var, rtol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(("power", "share"), [(1.0, 0.5), (0.5, 0.125)])
def test_noise_has_a_floor_above_power_zero(step, power, share):
    X, y = step
    starts = [sparse(X, likelihoods.Gaussian(0.1))]
    few = dataclasses.replace(STEPS, max_sweeps=30)
    result = fit_deep(starts, hidden_start(X, (2,), 8), X, y, method=few, power=power)
    single = fit_best(starts, X, y, power=power)
    least = share * float(single.model.likelihood.variance)
    assert result.bijections.likelihood.variance.lower == pytest.approx(least, rel=1e-6)
    assert float(result.model.likelihood.variance) >= least


@pytest.mark.slow
def test_a_first_layer_is_learned_where_its_noise_does_not_vanish(step):
    """At power 1 hidden values would be far more uncertain than the noise above them."""
    X, y = step
    X = np.column_stack([X, X**2])
    starts = [sparse(X, likelihoods.Gaussian(0.1))]
    hidden = chosen_start(X, (2,), likelihoods.Gaussian(), 1, 8)
    few = dataclasses.replace(STEPS, max_sweeps=30)
    result = fit_deep(starts, hidden, X, y, method=few, power=1.0)
    below = fit_best(starts, X, y, power=0.5)
    least = 0.5 * float(below.model.likelihood.variance)
    assert result.bijections.likelihood.variance.lower == pytest.approx(least, rel=1e-6)
    assert float(fit_best(starts, X, y, power=1.0).model.likelihood.variance) < 0.5 * least


@pytest.mark.slow
def test_sparse_gps_of_labels_are_learned_with_moderate_variances(step):
    """Where they tell labels apart, their evidence hardly changes with larger ones."""
    X, y = step
    labels = (y > 0.0).astype(int)
    start, most = sparse(X, likelihoods.Bernoulli()), deep.SETTINGS.variance
    maps = deep.variance_bounds([start, start])
    bounded = fit_best([start], X, labels, power=1.0, bijections=maps)
    free = fit_best([start], X, labels, power=1.0)
    assert float(bounded.model.kernel.variance) < most < 0.1 * float(free.model.kernel.variance)
    assert free.log_evidence - bounded.log_evidence < 0.05 * len(y)


def test_which_variances_are_bounded(step):
    X, _ = step
    most, rbf = deep.SETTINGS.variance, kernels.RBF(1.0, np.ones(2))

    def domains(kernel, likelihood=likelihoods.Bernoulli()):
        return deep.variance_bounds([cavity.GP(kernel, likelihood, inducing.Points(X[:8]))])

    product = domains(rbf * rbf + kernels.Constant()).kernel
    assert product.first.first.variance == Positive(0.0, most)
    assert product.first.second.variance == Positive()
    assert product.first.first.lengthscale == Positive()
    assert product.second.variance == Positive(0.0, most)
    each = domains((rbf * rbf, rbf, rbf), likelihoods.MultinomialProbit(3)).kernel
    assert each[0].first.variance == each[2].variance == Positive(0.0, most)
    assert each[0].second.variance == Positive()
    # not those that start above it, and not those of other outputs
    large = eqx.tree_at(lambda k: k.variance, rbf, np.asarray(most))
    assert domains(large).kernel.variance == Positive()
    assert domains(rbf, likelihoods.Gaussian(0.1)) is None


@pytest.mark.slow
@pytest.mark.parametrize("value", [0.1, 1.0])
def test_constant_columns_do_no_harm(step, value):
    X, y = step
    X = np.column_stack([X, np.full(60, value)])
    few = dataclasses.replace(STEPS, max_sweeps=20)
    narrow = hidden_start(X, (2,), 8)
    assert np.all(narrow.inputs[1].std(axis=0) > 0.9)
    assert np.max(np.abs(narrow.maps[0].weights)) < 10.0
    zero = cavity.Layer(kernels.RBF(), inducing.Points(X[:8]), 3)
    start = zero.starting_mean(zero.views(1e-6)[0], 0)
    assert np.max(np.abs(start)) < 1e4
    starts = [cavity.GP(kernels.RBF(), likelihoods.Gaussian(0.1), inducing.Points(X[:8]))]
    single = cavity.infer(starts[0], X, y)
    for columns in (X, np.column_stack([X[:, 0], np.full((60, 3), value)])[:, [0, 1, 2]]):
        start = HiddenStart((), (columns,), (3,), 8)
        deeper, _ = deepen(starts[0], single.posterior.process, start)
        assert np.max(np.abs(deeper.layers[0].mean.means[1].weights)) < 10.0
    for hidden in (hidden_start(X, (3,), 8), chosen_start(X, (2,), likelihoods.Gaussian(), 1, 8)):
        result = fit_deep(starts, hidden, X, y, method=few)
        assert np.isfinite(result.log_evidence)
        assert np.all(np.isfinite(result.posterior.marginals(X).mean))


@pytest.mark.slow
def test_without_iterations_nothing_is_learned(step):
    X, y = step
    starts = [sparse(X, likelihoods.Gaussian(0.1))]
    result = fit_deep(starts, hidden_start(X, (2,), 8), X, y, method=STEPS, max_iterations=0)
    assert float(result.model.likelihood.variance) == pytest.approx(0.1)
