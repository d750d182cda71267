"""Learning from the best of several starts."""

import numpy as np
import pytest

import cavity
from cavity.learning.infer import NumericalError
from cavity.learning.plans.trials import ALONG, TRIAL, fit_best

random = np.random.default_rng(0)
X = np.sort(random.uniform(0, 1, 60))[:, None]
Y = np.sin(40 * X[:, 0]) + 0.1 * random.normal(size=60)


def start(lengthscale, noise, variance=0.5):
    kernel = cavity.kernels.RBF(variance, [lengthscale])
    return cavity.GP(kernel, cavity.likelihoods.Gaussian(noise))


SLOW, FAST, BROKEN = start(30.0, 0.5), start(0.05, 0.1), start(1.0, 1e-300, 1e300)


def test_the_start_that_comes_furthest_is_learned_to_its_end():
    poor, good = cavity.fit(SLOW, X, Y), cavity.fit(FAST, X, Y)
    assert good.log_evidence > poor.log_evidence + 10.0
    for starts in ([SLOW, FAST], [FAST, SLOW], [BROKEN, FAST]):
        found = fit_best(starts, X, Y)
        assert found.log_evidence == pytest.approx(good.log_evidence, abs=1e-3)
        assert found.converged
        assert found.n_iterations == len(found.history) <= found.n_evaluations
        assert np.all(np.diff(found.history) <= 0.0)


def test_short_runs_and_single_starts_are_plain_fits():
    for starts, limit in (([SLOW], 1000), ([SLOW, FAST], TRIAL)):
        found = fit_best(starts, X, Y, max_iterations=limit)
        same = cavity.fit(SLOW, X, Y, max_iterations=limit)
        assert found.log_evidence == same.log_evidence
        assert found.n_evaluations == same.n_evaluations


def test_an_interrupt_during_a_trial_keeps_the_best_so_far():
    seen = []

    def interrupt(progress):
        seen.append(progress.objective)
        if len(seen) == 25:
            raise KeyboardInterrupt

    found = fit_best([FAST, SLOW], X, Y, callback=interrupt)
    assert found.interrupted
    assert not found.converged
    assert "interrupted" in found.message
    assert found.objective == pytest.approx(min(seen), abs=1e-6)


def test_nothing_to_start_from():
    with pytest.raises(NumericalError):
        fit_best([BROKEN, BROKEN], X, Y)


# A wave along one of four columns: started from long lengthscales, the bound calls it noise.
WIDE = np.random.default_rng(0).uniform(-1.0, 1.0, (150, 4))
WAVE = np.sin(5.0 * WIDE[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(150)
UNIT = cavity.kernels.RBF(1.0, np.full(4, 1.2))


def sparse(likelihood=cavity.likelihoods.Gaussian(0.1)):
    points = cavity.inducing.Points(cavity.initialisation.select_inducing(UNIT, WIDE, 8))
    return cavity.GP(UNIT, likelihood, points)


@pytest.mark.slow
def test_a_sparse_fit_also_starts_where_a_short_one_at_power_1_ended():
    """All steps by hand give the same, and the bound does not call everything noise."""
    plain = cavity.fit(sparse(), WIDE, WAVE, power=0)
    found = fit_best([sparse()], WIDE, WAVE, power=0)
    assert plain.objective - found.objective > 100.0
    first = cavity.fit(sparse(), WIDE, WAVE, power=1, max_iterations=ALONG)
    second = cavity.fit(first.model, WIDE, WAVE, power=0, max_iterations=TRIAL)
    last = cavity.fit(second.model, WIDE, WAVE, power=0)
    assert found.objective == pytest.approx(last.objective, abs=1e-6)
    assert found.history[0] == pytest.approx(second.history[0], abs=1e-6)
    trial = cavity.fit(sparse(), WIDE, WAVE, power=0, max_iterations=TRIAL)
    usual = cavity.fit(trial.model, WIDE, WAVE, power=0)
    parts = (first, second, trial, last, usual)
    assert found.n_evaluations == sum(part.n_evaluations for part in parts)


def test_the_tighter_bound_is_started_along_the_power_too():
    found = fit_best([sparse()], WIDE, WAVE, power=0, method=cavity.PowerEP(tight=True))
    assert len(found.trials) == 2
    assert found.objective < fit_best([sparse()], WIDE, WAVE, power=0).objective + 1e-3


@pytest.mark.slow
def test_other_fits_are_not_started_along_the_power():
    """At power 1 already, without inducing variables, and with other noise."""
    full = cavity.GP(UNIT, cavity.likelihoods.Gaussian(0.1))
    counts = cavity.likelihoods.Poisson()
    cases = ((sparse(), WAVE, 1.0), (full, WAVE, 0.0), (sparse(counts), np.round(WAVE + 2), 0.5))
    for model, y, power in cases:
        found = fit_best([model], WIDE, y, power=power, max_iterations=TRIAL + 1)
        same = cavity.fit(model, WIDE, y, power=power, max_iterations=TRIAL + 1)
        assert found.n_evaluations == same.n_evaluations


def test_an_interrupt_at_power_1_keeps_the_best_at_the_power_asked_for():
    trial = cavity.fit(sparse(), WIDE, WAVE, power=0, max_iterations=TRIAL)
    seen = []

    def interrupt(progress):
        seen.append(progress.objective)
        if len(seen) == trial.n_iterations + 5:
            raise KeyboardInterrupt

    found = fit_best([sparse()], WIDE, WAVE, power=0, callback=interrupt)
    assert found.interrupted
    assert found.objective == pytest.approx(trial.objective, abs=1e-6)


def test_starts_that_end_apart_are_said_to():
    """Runs with perturbed starts, against what each ends at by itself; near ones say nothing."""
    poor = start(0.2, 0.5)
    several = cavity.fit(poor, X, Y, n_restarts=4)
    assert len(several.ends) == 5
    assert several.ends[0] == pytest.approx(cavity.fit(poor, X, Y).objective, abs=1e-4)
    assert min(several.ends) == pytest.approx(several.objective, abs=1e-4)
    gap = max(several.ends) - min(several.ends)
    near = sum(end < min(several.ends) + 5.0 for end in several.ends)
    assert gap > 5.0
    said = f"5 starts ended up to {gap:.3g} nats apart, {near} of them within 5 nats of the best"
    assert said in several.message
    assert said in str(several)
    alike = cavity.fit(FAST, X, Y, n_restarts=1)
    assert np.ptp(alike.ends) < 5.0
    assert "apart" not in alike.message
    assert cavity.fit(FAST, X, Y).ends == ()


def test_trials_of_starts_are_kept():
    found = fit_best([SLOW, FAST], X, Y)
    expected = [cavity.fit(s, X, Y, max_iterations=TRIAL).objective for s in (SLOW, FAST)]
    assert found.trials == pytest.approx(tuple(expected))
    assert "2 starts were, after a few iterations, up to" in str(found)
    assert "apart" not in found.message
    assert fit_best([FAST], X, Y).trials == ()
