"""A seeded part of the random fits of linear models."""

import dataclasses
import itertools

import jax
import numpy as np
from benchmarks.fuzz import linear

import cavity


def spikes():
    """The first case with spike and slab, Gaussian noise and no learning."""
    wanted = {"prior": "SpikeSlab", "likelihood": "Gaussian", "blocks": False, "learn": False}
    cases = (linear.draw(0, number) for number in itertools.count(step=linear.SHARED))
    return next(case for case in cases if case.key == wanted)


def test_random_fits_leave_nothing_undefined():
    first = spikes()
    for number in range(first.number, first.number + 5):
        case = linear.draw(0, number)
        assert case.key == first.key
        _, _, failures = linear.outcome(case)
        assert not failures, str(failures)


def test_what_is_wrong_is_noticed():
    case = spikes()
    result = cavity.infer(case.model, case.X, case.y, power=case.power)
    assert not linear.wrong(case, result)
    broken = jax.tree.map(lambda x: np.nan * x, result.posterior.process)
    posterior = dataclasses.replace(result.posterior, process=broken)
    found = linear.wrong(case, dataclasses.replace(result, posterior=posterior))
    assert {"mean", "coefficients", "negative variance"} <= set(found)
