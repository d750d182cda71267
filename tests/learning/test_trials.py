"""Learning from the best of several starts."""

import numpy as np
import pytest

import cavity
from cavity.learning.infer import NumericalError
from cavity.learning.optimisers.trials import TRIAL, fit_best

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
