"""Updates with batches after one another."""

import pytest

import cavity
from cavity import likelihoods
from tests.learning.test_update import LABELS, OLD, N, X, Y, gp
from tests.tolerances import assert_close


@pytest.fixture(scope="module")
def old():
    return cavity.infer(gp(), X[:OLD], Y[:OLD], power=0.5, jitter=0.0)


def test_batches_are_the_rows_at_once(old):
    """Identity 12: with Gaussian noise at held parameters, scores and side data included."""
    parts = (slice(OLD, 30), slice(30, 30), slice(30, N))
    same = {"learn": False, "inducing": "keep"}
    batches = cavity.fitting.Batches([(X[part], Y[part]) for part in parts])
    result = cavity.update(old, batches, **same)
    direct = cavity.update(old, X[OLD:], Y[OLD:], **same)
    assert_close(result.log_evidence, direct.log_evidence, "factorised")
    found, wanted = (r.posterior.marginals(X) for r in (result, direct))
    assert_close(found.mean, wanted.mean, "factorised")
    assert_close(found.var, wanted.var, "factorised")
    assert result.rows_seen == N
    assert result.before.outputs == N - OLD
    # the log density of both halves is that of what each expected in turn
    first = cavity.update(old, X[OLD:30], Y[OLD:30], **same)
    second = cavity.update(first, X[30:], Y[30:], **same)
    halves = [(r.before.outputs, r.before.log_density) for r in (first, second)]
    mean = sum(count * density for count, density in halves) / (N - OLD)
    assert_close(result.before.log_density, mean)
    assert_close(result.lost, first.lost + second.lost)


def test_rows_that_leave_others_behind_keep_their_evidence():
    """Up to what their sites would still have changed by."""
    model, same = gp(likelihoods.Bernoulli()), {"learn": False, "inducing": "keep"}
    result = cavity.infer(model, X[:20], LABELS[:20], power=1.0)
    for rows in (slice(20, 26), slice(26, 27)):
        result = cavity.update(result, X[rows], LABELS[rows], power=1.0, memory=4, **same)
    whole = cavity.infer(model, X[:27], LABELS[:27], power=1.0)
    assert abs(result.log_evidence - whole.log_evidence) < 0.05


def test_batches_that_say_too_much_or_nothing(old):
    batches = cavity.fitting.Batches([(X[:2], Y[:2])])
    with pytest.raises(TypeError, match="leave y out"):
        cavity.update(old, batches, Y[:2])
    with pytest.raises(ValueError, match="come with their batch"):
        cavity.update(old, batches, rows={"noise_variance": Y[:2]})
    with pytest.raises(ValueError, match="no rows"):
        cavity.update(old, cavity.fitting.Batches([]))
    with pytest.raises(TypeError, match="y is missing"):
        cavity.update(old, X)
