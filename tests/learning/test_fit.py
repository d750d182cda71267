"""Learning: what it maximises, what it leaves alone, how it ends."""

import importlib
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import parameters
from cavity.learning.data.scales import in_data_units, measure
from cavity.learning.search import restarts
from cavity.parameters import FIXED, Positive, bijections, priors
from tests.equivalence.problem import energy_and_gradient
from tests.tolerances import assert_close

N = 45


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (N, 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=N)


X, Y = data()


def model(**changes):
    kernel = cavity.kernels.RBF(changes.get("variance", 1.0), [1.0, 1.0])
    mean = cavity.means.Constant(0.0)
    noise = cavity.likelihoods.Gaussian(changes.get("noise", 0.5))
    return cavity.GP(kernel, noise, cavity.inducing.Points(X[:6]), mean)


@pytest.fixture(scope="module")
def fitted():
    return cavity.fit(model(), X, Y)


def test_learning_raises_the_evidence_to_a_stationary_point(fitted):
    start = cavity.infer(model(), X, Y).log_evidence
    assert fitted.log_evidence > start + 10.0
    assert fitted.converged
    assert not fitted.interrupted
    closer = cavity.fit(model(), X, Y, tolerance=1e-4)
    _, gradient = energy_and_gradient(closer.model, X, Y)
    _, before = energy_and_gradient(model(), X, Y)
    assert np.max(np.abs(gradient)) < 0.05
    assert np.max(np.abs(before)) > 5.0


def test_the_record_is_consistent(fitted):
    """Evidence, objective, history and posterior all belong to the learned model."""
    again = cavity.infer(fitted.model, X, Y)
    assert_close(fitted.log_evidence, again.log_evidence, "factorised")
    assert_close(fitted.objective, -fitted.log_evidence, "factorised")
    assert np.all(np.diff(fitted.history) <= 0.0)
    assert_close(fitted.history[-1], fitted.objective, "factorised")
    assert len(fitted.history) == fitted.n_iterations <= fitted.n_evaluations
    means = [r.posterior.marginals(X[:3]).mean for r in (fitted, again)]
    assert_close(*means, "factorised")
    text = str(fitted)
    assert text.startswith("log evidence ")
    assert "converged: the " in text
    assert "kernel.lengthscale" in text


def test_tolerances_are_for_each_output_and_wider_for_inducing_inputs(monkeypatch):
    """Beyond as many outputs as the tolerance is meant for, here 9 instead of 500."""

    def ended(**options):
        return cavity.fit(model(), X, Y, tolerance=1.0, **options).message

    fixed = eqx.tree_at(lambda m: m.inducing.Z, bijections(model()), FIXED)
    assert "by less than 1 nats" in ended()
    monkeypatch.setattr(restarts, "TOLERANT", 9)
    assert "by less than 5 nats" in ended(bijections=fixed)
    assert "by less than 40 nats" in ended()


def test_learning_is_deterministic(fitted):
    again = cavity.fit(model(), X, Y)
    assert again.history == fitted.history
    assert again.log_evidence == fitted.log_evidence


def test_everything_is_learned(fitted):
    for before, after in zip(*map(jax.tree.leaves, (model(), fitted.model)), strict=True):
        assert np.all(np.asarray(before) != np.asarray(after))


def test_restarts_never_hurt_and_follow_the_seed(fitted):
    results = [
        cavity.fit(model(), X, Y, n_restarts=2, seed=seed, max_iterations=30) for seed in (3, 3, 4)
    ]
    alone = cavity.fit(model(), X, Y, max_iterations=30)
    for result in results:
        assert result.objective <= alone.objective
        assert result.n_evaluations > alone.n_evaluations
    assert results[0].log_evidence == results[1].log_evidence
    assert results[0].n_evaluations == results[1].n_evaluations
    assert results[0].n_evaluations != results[2].n_evaluations


def test_restarts_escape_a_poor_start():
    """From a start where all is noise, a perturbed one finds the signal."""
    poor = model(variance=1e-7, noise=10.0)
    alone = cavity.fit(poor, X, Y, max_iterations=15)
    several = cavity.fit(poor, X, Y, n_restarts=2, max_iterations=15)
    assert several.objective <= alone.objective


def test_fixed_parameters_stay_and_bounds_hold():
    maps = bijections(model())
    maps = eqx.tree_at(
        lambda b: (b.inducing.Z, b.kernel.lengthscale, b.likelihood.variance),
        maps,
        (FIXED, Positive(0.9, 1.1), Positive(0.3)),
    )
    result = cavity.fit(model(), X, Y, bijections=maps, max_iterations=30)
    np.testing.assert_array_equal(result.model.inducing.Z, X[:6])
    assert np.all(result.model.kernel.lengthscale > 0.9)
    assert np.all(result.model.kernel.lengthscale < 1.1)
    assert result.model.likelihood.variance >= 0.3
    assert result.model.likelihood.variance < 0.31  # free, it would be 0.05
    assert "fixed" in str(result)


def test_nothing_to_learn():
    maps = jax.tree.map(lambda _: FIXED, bijections(model()), is_leaf=_is_domain)
    result = cavity.fit(model(), X, Y, bijections=maps)
    assert result.converged
    assert result.message == "nothing to learn"
    assert_close(result.log_evidence, cavity.infer(model(), X, Y).log_evidence)


def _is_domain(x):
    return isinstance(x, parameters.Real | parameters.Positive | parameters.Interval | type(FIXED))


def test_priors_pull(fitted):
    """The objective is minus log evidence minus log priors, of the real values."""
    strong = priors.LogNormal(3.0, 0.05)
    tree = eqx.tree_at(lambda p: p.kernel.lengthscale, priors.flat(model()), strong)
    start = model()
    result = cavity.fit(start, X, Y, priors=tree, max_iterations=60)
    pulled = np.asarray(result.model.kernel.lengthscale)
    assert np.all(np.abs(pulled - 3.0) < 0.5)
    assert np.any(np.abs(np.asarray(fitted.model.kernel.lengthscale) - 3.0) > 1.0)
    expected = -result.log_evidence - float(jnp.sum(strong.log_prob(jnp.asarray(pulled))))
    assert_close(result.objective, expected)
    assert result.log_evidence < fitted.log_evidence
    assert_close(result.history[-1], result.objective, "factorised")
    assert "lognormal(3, 0.05)" in str(result)


def test_schedule_freezes_then_releases():
    """First only the noise, then everything: the second stage starts from the first's end."""
    start = model()
    first = jax.tree.map(lambda _: FIXED, bijections(start), is_leaf=_is_domain)
    first = eqx.tree_at(lambda b: b.likelihood.variance, first, Positive())
    alone = cavity.fit(start, X, Y, bijections=first)
    np.testing.assert_array_equal(alone.model.kernel.lengthscale, start.kernel.lengthscale)
    assert alone.model.likelihood.variance != start.likelihood.variance
    both = cavity.fit(start, X, Y, schedule=(first,))
    assert both.history[0] <= alone.objective + 1e-6
    assert both.log_evidence > alone.log_evidence
    assert both.n_evaluations > len(both.history)
    assert not np.array_equal(both.model.kernel.lengthscale, start.kernel.lengthscale)


def test_an_interrupt_returns_the_best_so_far():
    seen = []

    def stop(progress):
        seen.append(progress)
        if progress.iteration == 4:
            raise KeyboardInterrupt

    result = cavity.fit(model(), X, Y, callback=stop, n_restarts=3)
    assert result.interrupted
    assert not result.converged
    assert result.message == "interrupted; this is the best so far"
    assert [p.iteration for p in seen] == [1, 2, 3, 4]
    assert_close(result.objective, seen[-1].objective, "factorised")
    assert result.log_evidence > cavity.infer(model(), X, Y).log_evidence
    assert all(p.max_iterations == 1000 for p in seen)
    assert all(b.seconds >= a.seconds for a, b in itertools.pairwise(seen))


def test_running_out_of_iterations_says_so():
    result = cavity.fit(model(), X, Y, max_iterations=3)
    assert not result.converged
    assert result.n_iterations == 3
    assert "limit of 3 iterations" in result.message


def test_learning_does_not_depend_on_units():
    """Other units and another origin: the same steps, and the evidence of other units."""
    standard = cavity.GP(
        cavity.kernels.RBF(1.0, [1.0, 1.0]) + cavity.kernels.Linear(0.3),
        cavity.likelihoods.Gaussian(0.1),
        cavity.inducing.Points(np.random.default_rng(0).normal(size=(6, 2))),
        cavity.means.Linear([0.1, -0.1], 0.2),
    )
    results = []
    for inputs, outputs in ((X, Y), (1000.0 * X + 1e6, 1e-9 * Y)):
        start = in_data_units(standard, measure(inputs, outputs[:, None]))
        results.append(cavity.fit(start, inputs, outputs, max_iterations=12))
    here, there = results
    assert here.n_evaluations == there.n_evaluations
    expected = here.log_evidence - N * np.log(1e-9)
    assert there.log_evidence == pytest.approx(expected, abs=1e-4)
    lengths = [r.model.kernel.first.lengthscale for r in results]
    np.testing.assert_allclose(lengths[1], 1000.0 * lengths[0], rtol=1e-4)
    np.testing.assert_allclose(
        there.model.inducing.Z, 1000.0 * here.model.inducing.Z + 1e6, rtol=1e-9
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "options",
    [
        {"power": 0.0},
        {"power": 1.0, "blocks": np.arange(N) // 9},
        {"method": cavity.PowerEP(exact=False)},
        {"rows": {"noise_variance": np.full(N, 0.05)}},
    ],
    ids=["power 0", "blocks", "swept", "known noise"],
)
def test_every_setting_of_inference_can_be_learned_with(options):
    start = cavity.infer(model(), X, Y, **options).log_evidence
    result = cavity.fit(model(), X, Y, max_iterations=5, **options)
    assert result.log_evidence > start
    again = cavity.infer(result.model, X, Y, **options)
    assert_close(result.log_evidence, again.log_evidence, "fixed_point")


@pytest.mark.parametrize("edited", [False, True])
def test_a_variance_that_known_noise_replaces_is_not_learned(edited):
    """It has no effect, so no bijection can free it; the rest is learned as ever."""
    start, options = model(), {"rows": {"noise_variance": np.full(N, 0.05)}, "max_iterations": 5}
    maps = eqx.tree_at(lambda b: b.likelihood.variance, bijections(start), Positive(0.1, 2.0))
    options |= {"bijections": maps, "schedule": (maps,)} if edited else {}
    result = cavity.fit(start, X, Y, **options)
    assert result.model.likelihood.variance == start.likelihood.variance
    assert result.bijections.likelihood.variance == FIXED
    assert result.model.kernel.variance != start.kernel.variance
    (line,) = (row for row in str(result).splitlines() if row.startswith("likelihood.variance"))
    assert line.split()[1:] == ["0.5", "fixed", "flat"]
    frozen = eqx.tree_at(lambda b: b.likelihood.variance, bijections(start), FIXED)
    again = cavity.fit(start, X, Y, **(options | {"bijections": frozen}))
    assert again.log_evidence == result.log_evidence


def test_full_and_several_outputs():
    full = cavity.GP(cavity.kernels.Matern52(1.0, [1.0, 1.0]), cavity.likelihoods.Gaussian(0.5))
    many = np.stack([Y, -2.0 * Y, np.cos(X[:, 0])], axis=1)
    many[3, 1] = np.nan
    result = cavity.fit(full, X, many, missing="skip", max_iterations=10)
    start = cavity.infer(full, X, many, missing="skip").log_evidence
    assert result.log_evidence > start
    assert result.jitter == 0.0
    assert result.posterior.marginals(X[:2]).mean.shape == (2, 3)


def test_an_interrupt_between_runs_keeps_the_finished_one(monkeypatch):
    """At the first evaluation of a restart there is nothing of its own to keep."""
    X, y = np.linspace(0, 3, 20)[:, None], np.sin(np.linspace(0, 3, 20))
    model = cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Gaussian())
    runs_module = importlib.import_module("cavity.learning.search.restarts")
    once, runs = runs_module.Restarts.once, []

    def interrupted_later(self, *arguments):
        runs.append(arguments)
        if len(runs) > 1:
            raise KeyboardInterrupt
        return once(self, *arguments)

    monkeypatch.setattr(runs_module.Restarts, "once", interrupted_later)
    result = cavity.fit(model, X, y, n_restarts=2, max_iterations=3)
    assert result.interrupted
    assert not result.converged
    assert np.isfinite(result.log_evidence)


def test_declarations_in_a_tree_of_bijections_are_refused():
    X, y = np.linspace(0, 3, 20)[:, None], np.sin(np.linspace(0, 3, 20))
    model = cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Gaussian())
    maps = eqx.tree_at(
        lambda m: m.likelihood.variance,
        cavity.parameters.bijections(model),
        cavity.parameters.interval(0.05, 0.3),
    )
    with pytest.raises(TypeError, match="Interval, FIXED or INTEGRATED"):
        cavity.fit(model, X, y, bijections=maps)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("rbf", cavity.likelihoods.Gaussian()), "kernel"),
        ((cavity.kernels.RBF(), "gaussian"), "likelihood"),
    ],
)
def test_parts_of_the_wrong_type_are_refused(parts, name):
    with pytest.raises(TypeError, match=name):
        cavity.GP(*parts)


def test_a_tree_of_priors_with_anything_else_is_refused():
    tree = eqx.tree_at(lambda p: p.kernel.lengthscale, priors.flat(model()), Positive())
    with pytest.raises(TypeError, match=r"entry kernel\.lengthscale .* given Positive"):
        cavity.fit(model(), X, Y, priors=tree)


def test_a_method_by_name_is_refused():
    model = cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Gaussian())
    with pytest.raises(TypeError, match="method"):
        cavity.infer(model, np.zeros((3, 1)), np.zeros(3), method="power_ep")
