"""The power chosen by the density of outputs that were left out."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.learning.infer import NumericalError
from cavity.learning.plans.powers import DEFAULT, POWERS, fit_powers
from cavity.parameters import FIXED, bijections

random = np.random.default_rng(0)
X = random.uniform(-2, 2, (40, 1))
Y = np.sin(3 * X[:, 0]) + 0.1 * random.standard_normal(40)
KERNEL = cavity.kernels.RBF(1.0, [0.5])


def model(likelihood=cavity.likelihoods.Gaussian(0.01), points: int | None = 4):
    Z = None if points is None else cavity.inducing.Points(np.linspace(-2, 2, points)[:, None])
    return cavity.GP(KERNEL, likelihood, Z)


def held(gp):
    """Bijections with which inducing points stay."""
    return eqx.tree_at(lambda m: m.inducing.Z, bijections(gp), FIXED)


@pytest.mark.slow
def test_each_power_is_judged_by_rows_that_are_really_taken_out():
    """With points that stay, densities of cavities are those of inference without the row."""
    gp = model()
    result, trials = fit_powers([gp], X, Y, bijections=held(gp), max_iterations=0)
    assert [trial.power for trial in trials] == list(POWERS)
    each = {}
    for trial in trials:
        assert trial.left_out == "each row"
        found = []
        for i in range(0, 40, 8):
            rest = np.delete(np.arange(40), i)
            without = cavity.infer(gp, X[rest], Y[rest], power=trial.power)
            found.append(
                without.posterior.predict(X[i : i + 1]).log_density(jnp.asarray(Y[i : i + 1]))[0]
            )
        whole = cavity.infer(gp, X, Y, power=trial.power)
        each[trial.power] = whole.leave_one_out()
        np.testing.assert_allclose(each[trial.power][::8], found, rtol=1e-8)
        assert trial.log_density == pytest.approx(np.mean(each[trial.power]), rel=1e-10)
        assert trial.log_evidence == pytest.approx(whole.log_evidence, rel=1e-10)
    (chosen,) = (trial.power for trial in trials if trial.chosen)
    best = max(each, key=lambda power: np.mean(each[power]))
    gain = each[best] - each[DEFAULT]
    assert chosen == (best if np.mean(gain) > 2.0 * np.std(gain) / np.sqrt(40) else DEFAULT)
    again = cavity.infer(gp, X, Y, power=chosen)
    assert result.log_evidence == pytest.approx(again.log_evidence, rel=1e-10)


@pytest.mark.slow
def test_where_points_are_learned_rows_are_held_out():
    """The chosen power learns from all rows in the end; the trials, from three quarters."""
    result, trials = fit_powers([model()], X, Y, max_iterations=30, seed=1)
    order = np.random.default_rng(1).permutation(40)
    out, kept = np.sort(order[:10]), np.sort(order[10:])
    first = cavity.fit(model(), X[kept], Y[kept], power=1.0, max_iterations=30)
    density = float(np.mean(first.posterior.predict(X[out]).log_density(jnp.asarray(Y[out]))))
    assert {trial.left_out for trial in trials} == {"10 rows"}
    assert trials[0].log_density == pytest.approx(density, rel=1e-6)
    assert result.leave_one_out().shape == (40,)
    assert sum(trial.chosen for trial in trials) == 1


def test_of_many_rows_half_are_held_out(monkeypatch):
    monkeypatch.setattr("cavity.learning.plans.powers.MANY", 40)
    gp = model()
    _, trials = fit_powers([gp], X, Y, bijections=held(gp), max_iterations=0)
    assert {trial.left_out for trial in trials} == {"20 rows"}
    assert {trial.fitted for trial in trials} == {(20,)}


def test_the_power_of_an_exact_model_is_not_compared():
    _, trials = fit_powers([model(points=None)], X, Y, max_iterations=0)
    assert [(trial.power, trial.chosen) for trial in trials] == [(DEFAULT, True)]


def test_missing_outputs_have_no_say():
    gaps = np.where(np.arange(40) % 4 == 1, np.nan, Y)
    gp = model()
    options = {"bijections": held(gp), "max_iterations": 0}
    _, trials = fit_powers([gp], X, gaps, missing="skip", **options)
    seen = ~np.isnan(gaps)
    _, same = fit_powers([gp], X[seen], Y[seen], **options)
    for one, other in zip(trials, same, strict=True):
        assert one.log_density == pytest.approx(other.log_density, rel=1e-8)
    _, trials = fit_powers([gp], X, gaps, missing="skip", max_iterations=2)
    assert all(np.isfinite(trial.log_density) for trial in trials)


def test_an_interrupt_keeps_the_powers_so_far():
    seen = []

    def interrupt(progress):
        seen.append(progress)
        if len(seen) == 8:
            raise KeyboardInterrupt

    gp = model()
    options = {"bijections": held(gp), "max_iterations": 5, "tolerance": 0.0}
    result, trials = fit_powers([gp], X, Y, callback=interrupt, **options)
    assert result.interrupted
    assert [trial.power for trial in trials] == [1.0, 0.5]


def test_nothing_to_start_from():
    broken = cavity.GP(cavity.kernels.RBF(1e300, [1.0]), cavity.likelihoods.Gaussian(1e-300))
    sparse = eqx.tree_at(
        lambda m: m.inducing, broken, model().inducing, is_leaf=lambda x: x is None
    )
    with pytest.raises(NumericalError):
        fit_powers([sparse], X, Y, bijections=held(sparse))
