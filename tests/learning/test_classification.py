"""Metrics of classes: known answers, and scikit-learn's."""

import numpy as np
import pytest
from sklearn import metrics as theirs

from cavity.learning.metrics import classification as ours

RANDOM = np.random.default_rng(0)
CHANCE = RANDOM.beta(0.7, 0.5, 400)
LABELS = (RANDOM.uniform(size=400) < CHANCE**1.5).astype(int)
TWO = np.stack([1 - CHANCE, CHANCE], axis=1)
THREE = RANDOM.dirichlet([1.0, 2.0, 3.0], 300)
OF_THREE = RANDOM.integers(0, 3, 300)


def test_two_classes_as_scikit_learn_has_them():
    found = ours.classification_metrics(LABELS, np.log(TWO))
    assert list(found) == ["error", "nlpp", "brier", "ece", "auc"]
    assert found["error"] == pytest.approx(1 - theirs.accuracy_score(LABELS, CHANCE > 0.5))
    assert found["nlpp"] == pytest.approx(theirs.log_loss(LABELS, CHANCE))
    assert found["brier"] == pytest.approx(theirs.brier_score_loss(LABELS, CHANCE))
    assert found["auc"] == pytest.approx(theirs.roc_auc_score(LABELS, CHANCE))


def test_more_classes():
    found = ours.classification_metrics(OF_THREE, np.log(THREE))
    assert found["error"] == pytest.approx(np.mean(THREE.argmax(axis=1) != OF_THREE))
    assert found["nlpp"] == pytest.approx(theirs.log_loss(OF_THREE, THREE))
    truth = np.eye(3)[OF_THREE]
    assert found["brier"] == pytest.approx(np.mean(np.sum((THREE - truth) ** 2, axis=1)))
    assert np.isnan(found["auc"])


def test_certainty_that_rounds_still_ranks():
    """Log odds tell rows apart whose probabilities are all 1."""
    odds = np.array([-80.0, -60.0, 50.0, 70.0])
    log_p = np.stack([-np.logaddexp(0, odds), -np.logaddexp(0, -odds)], axis=1)
    assert ours.auc([0, 1, 0, 1], log_p) == 0.75
    assert ours.nlpp([1, 1, 1, 1], log_p) == pytest.approx(35.0)


@pytest.mark.parametrize("rounded", [None, 1, 0])
def test_the_curve_with_and_without_ties(rounded):
    score = CHANCE if rounded is None else np.round(CHANCE, rounded)
    found = ours.roc(LABELS == 1, score)
    false, true, _ = theirs.roc_curve(LABELS, score, drop_intermediate=False)
    np.testing.assert_allclose(found.false_positive, false)
    np.testing.assert_allclose(found.true_positive, true)
    assert found.area == pytest.approx(theirs.roc_auc_score(LABELS, score))


def test_one_class_has_no_curve():
    assert ours.roc(np.ones(3), np.arange(3)) is None
    assert np.isnan(ours.auc([1, 1], TWO[:2]))


def test_calibration_by_hand():
    """Four rows of confidence 0.8, three right; two of 0.6, one right."""
    p = np.array([0.8, 0.8, 0.2, 0.2, 0.6, 0.4])
    labels = np.array([1, 1, 0, 1, 1, 1])
    found = ours.ece(labels, np.stack([1 - p, p], axis=1))
    assert found == pytest.approx((4 * abs(0.8 - 0.75) + 2 * abs(0.6 - 0.5)) / 6)
    bins = ours.reliability(p, labels == 1)
    np.testing.assert_allclose(bins.predicted, [0.2, 0.4, 0.6, 0.8])
    np.testing.assert_allclose(bins.observed, [0.5, 1.0, 1.0, 1.0])
    assert bins.count.tolist() == [2, 1, 1, 2]
    assert ours.ece([0, 1], [[1.0, 0.0], [0.0, 1.0]]) == 0.0


@pytest.mark.parametrize("rounded", [None, 1])
@pytest.mark.parametrize("weights", [None, RANDOM.uniform(0.0, 3.0, 400)])
def test_sums_of_parts_give_what_all_rows_give(rounded, weights):
    """Scikit-learn ranks by the rounded scores, most of which come in all parts."""
    chance = CHANCE if rounded is None else np.clip(np.round(CHANCE, rounded), 0.01, 0.99)
    log_p = np.log(np.stack([1 - chance, chance], axis=1))

    def cut(start, stop):
        heavy = None if weights is None else weights[start:stop]
        return ours.classification_sums(LABELS[start:stop], log_p[start:stop], heavy)

    a, b, c, d = cut(0, 1), cut(1, 150), cut(150, 151), cut(151, 400)
    whole = ours.classification_metrics(LABELS, log_p, weights)
    assert whole["auc"] == pytest.approx(
        theirs.roc_auc_score(LABELS, chance, sample_weight=weights), rel=1e-12
    )
    for found in ((a + b) + (c + d), a + (b + (c + d))):
        assert found.metrics() == pytest.approx(whole, rel=1e-12)
        assert len(found.odds.scores) == len(np.unique(log_p[:, 1] - log_p[:, 0]))


def test_rows_of_many_classes_keep_no_scores():
    a = ours.classification_sums(OF_THREE[:100], np.log(THREE[:100]))
    b = ours.classification_sums(OF_THREE[100:], np.log(THREE[100:]))
    assert len((a + b).odds.scores) == 0
    whole = ours.classification_metrics(OF_THREE, np.log(THREE))
    assert (a + b).metrics() == pytest.approx(whole, rel=1e-12, nan_ok=True)


def test_certain_scores_are_equal_whatever_their_order():
    """Log odds of plus infinity are one score: what comes first among them must not count."""
    score = np.array([np.inf, np.inf, -np.inf, 0.0])
    happened = np.array([True, False, False, True])
    found = ours.roc(happened, score)
    back = ours.roc(happened[::-1], score[::-1])
    assert found.area == back.area == pytest.approx((0.5 + 1 + 0 + 1) / 4 + 0.0)


@pytest.mark.parametrize(
    ("labels", "values", "message"),
    [
        ([0, 1], TWO[:3], r"labels \(N,\) and one row.*\(2,\) and \(3, 2\)"),
        ([], TWO[:0], "at least one"),
        ([0, 2], TWO[:2], "whole numbers from 0 to 1"),
        ([0, 0.5], TWO[:2], "whole numbers from 0 to 1"),
        ([0, 1], [[np.nan, 1.0], [0.5, 0.5]], "probabilities are numbers"),
    ],
)
def test_what_cannot_be_judged(labels, values, message):
    with pytest.raises(ValueError, match=message):
        ours.brier(labels, values)
