"""Metrics of class probabilities: errors, scores, calibration and ranking.

Labels are the indices of the true classes, 0 to C-1, (N,); probabilities are (N, C) with rows
that sum to one. Log scores are in nats per row. A metric that the data do not define is NaN.
Weights, where given, are those of the rows, (N,): a row of weight w counts as w rows.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cavity.learning.metrics.sums import Bins, Mean, Ranking

BINS = 10


class Reliability(NamedTuple):
    """Probabilities in bins, and what came of them; bins without rows are left out.

    Attributes:
        predicted: mean probability of each bin, (B,).
        observed: share of its rows for which it came true, (B,).
        count: rows of each bin, (B,), each as often as its weight says.
    """

    predicted: np.ndarray
    observed: np.ndarray
    count: np.ndarray


class Roc(NamedTuple):
    """Rates of true and false alarms as the threshold falls, ascending, from 0 to 1."""

    false_positive: np.ndarray
    true_positive: np.ndarray

    @property
    def area(self) -> float:
        """The area under the curve."""
        return float(np.trapezoid(self.true_positive, self.false_positive))


def error(labels: ArrayLike, probabilities: ArrayLike, weights: ArrayLike | None = None) -> float:
    r"""The share of rows whose likeliest class is not theirs."""
    return _wrong(*_checked(labels, probabilities), weights).value


def nlpp(
    labels: ArrayLike, log_probabilities: ArrayLike, weights: ArrayLike | None = None
) -> float:
    r"""Mean negative log predictive probability, $-\tfrac1N \sum_n \log p(y_n)$, in nats."""
    return -_log_true(*_checked(labels, log_probabilities), weights).value


def brier(labels: ArrayLike, probabilities: ArrayLike, weights: ArrayLike | None = None) -> float:
    r"""Mean squared difference between probabilities and what came true.

    Of two classes $\tfrac1N \sum_n (p_n - y_n)^2$ with the probability and the truth of one of
    them; of more the sum over the classes.

    References:
        Brier (1950); Gneiting and Raftery (2007), section 3.1.
    """
    return _squares(*_checked(labels, probabilities), weights).value


def reliability(
    probability: ArrayLike,
    came_true: ArrayLike,
    bins: int = BINS,
    weights: ArrayLike | None = None,
) -> Reliability:
    """Probabilities against frequencies, in bins of equal width between 0 and 1.

    Args:
        probability: of an event of each row, (N,).
        came_true: whether it happened, (N,).
        bins: their number.
        weights: of the rows, (N,); None where all count once.
    """
    return _in_bins(Bins.over(probability, came_true, bins, weights))


def ece(
    labels: ArrayLike,
    probabilities: ArrayLike,
    bins: int = BINS,
    weights: ArrayLike | None = None,
) -> float:
    r"""Expected calibration error: confidence against accuracy, in bins of equal width.

    The mean over rows of the gap between the mean probability of the likeliest class and the
    share of rows where it is the true one, both within a bin.

    References:
        Guo, Pleiss, Sun and Weinberger (2017), eq. 3.
    """
    return _gap(_confidence(*_checked(labels, probabilities), bins, weights))


def roc(came_true: ArrayLike, score: ArrayLike, weights: ArrayLike | None = None) -> Roc | None:
    """The receiver operating characteristic; None unless there are rows of both kinds.

    Args:
        came_true: whether the event happened, (N,).
        score: the larger, the likelier it was said to be, (N,).
        weights: of the rows, (N,); None where all count once.
    """
    return _curve(_ranking(came_true, score, weights))


def auc(
    labels: ArrayLike, log_probabilities: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Area under the ROC curve of the second class; NaN unless both of two classes are there."""
    return _area(_odds(*_checked(labels, log_probabilities), weights))


@dataclasses.dataclass(frozen=True, eq=False)
class ClassSums:
    """Sums over rows of which every measure of classes is made.

    Attributes:
        wrong: rows whose likeliest class is not theirs.
        log_true: log probabilities of the true classes.
        squares: squared differences between probabilities and what came true.
        confidence: probabilities of the likeliest classes.
        odds: log odds of the second of two classes; without any of more classes.
    """

    wrong: Mean
    log_true: Mean
    squares: Mean
    confidence: Bins
    odds: Ranking

    def __add__(self, later: "ClassSums") -> "ClassSums":
        return ClassSums(
            wrong=self.wrong + later.wrong,
            log_true=self.log_true + later.log_true,
            squares=self.squares + later.squares,
            confidence=self.confidence + later.confidence,
            odds=self.odds + later.odds,
        )

    def metrics(self) -> dict[str, float]:
        """Every measure by name, as `classification_metrics` gives them.

        Raises:
            ZeroDivisionError: if all weights are zero.
        """
        return {
            "error": self.wrong.value,
            "nlpp": -self.log_true.value,
            "brier": self.squares.value,
            "ece": _gap(self.confidence),
            "auc": _area(self.odds),
        }


def classification_sums(
    labels: ArrayLike, log_probabilities: ArrayLike, weights: ArrayLike | None = None
) -> ClassSums:
    """The sums over some rows, by the arguments of `classification_metrics`."""
    labels, log_p = _checked(labels, log_probabilities)
    p = np.exp(log_p)
    return ClassSums(
        wrong=_wrong(labels, p, weights),
        log_true=_log_true(labels, log_p, weights),
        squares=_squares(labels, p, weights),
        confidence=_confidence(labels, p, BINS, weights),
        odds=_odds(labels, log_p, weights),
    )


def classification_metrics(
    labels: ArrayLike, log_probabilities: ArrayLike, weights: ArrayLike | None = None
) -> dict[str, float]:
    """Every measure by name, as the command line and the report print them.

    Args:
        labels: places of the true classes, (N,).
        log_probabilities: (N, C).
        weights: of the rows, (N,); None where all count once.

    Returns:
        `error, nlpp, brier, ece, auc`.
    """
    return classification_sums(labels, log_probabilities, weights).metrics()


def _wrong(labels: np.ndarray, p: np.ndarray, weights: ArrayLike | None) -> Mean:
    return Mean.over(np.argmax(p, axis=1) != labels, weights)


def _log_true(labels: np.ndarray, log_p: np.ndarray, weights: ArrayLike | None) -> Mean:
    return Mean.over(log_p[np.arange(len(labels)), labels], weights)


def _squares(labels: np.ndarray, p: np.ndarray, weights: ArrayLike | None) -> Mean:
    """Of two classes those of one of them."""
    truth = labels[:, None] == np.arange(p.shape[1])
    total = np.sum((p - truth) ** 2, axis=1)
    return Mean.over(total / 2 if p.shape[1] == 2 else total, weights)


def _confidence(labels: np.ndarray, p: np.ndarray, bins: int, weights: ArrayLike | None) -> Bins:
    """The likeliest classes' probabilities."""
    return Bins.over(p.max(axis=1), np.argmax(p, axis=1) == labels, bins, weights)


def _ranking(came_true: ArrayLike, score: ArrayLike, weights: ArrayLike | None) -> Ranking:
    happened, score = np.asarray(came_true, bool), np.asarray(score, float)
    heavy = np.ones(len(score)) if weights is None else np.asarray(weights, float)
    return Ranking.merged(score, heavy * happened, heavy * ~happened)


def _odds(labels: np.ndarray, log_p: np.ndarray, weights: ArrayLike | None) -> Ranking:
    """The log odds of the second of two classes; none of more."""
    if log_p.shape[1] != 2:
        return _ranking([], [], None)
    return _ranking(labels == 1, log_p[:, 1] - log_p[:, 0], weights)


def _in_bins(sums: Bins) -> Reliability:
    seen = sums.weight > 0
    count = sums.weight[seen]
    return Reliability(sums.predicted[seen] / count, sums.observed[seen] / count, count)


def _gap(sums: Bins) -> float:
    """The mean distance between confidence and accuracy."""
    found = _in_bins(sums)
    gap = np.abs(found.predicted - found.observed)
    return float(np.sum(found.count * gap) / np.sum(found.count))


def _curve(ranking: Ranking) -> Roc | None:
    """The rates as the threshold falls; None unless there are rows of both kinds."""
    if not (np.any(ranking.true) and np.any(ranking.false)):
        return None
    hits, alarms = (np.cumsum(a[::-1]) for a in (ranking.true, ranking.false))
    return Roc(np.append(0.0, alarms / alarms[-1]), np.append(0.0, hits / hits[-1]))


def _area(ranking: Ranking) -> float:
    found = _curve(ranking)
    return np.nan if found is None else found.area


def _checked(labels: ArrayLike, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Labels as integers and a matrix of one row for each, or an error that says what is wrong."""
    y, p = np.asarray(labels), np.asarray(values, dtype=np.float64)
    if y.ndim != 1 or p.ndim != 2 or len(y) != len(p) or not len(y):
        raise ValueError(
            "metrics of classes take labels (N,) and one row of probabilities for each, (N, C), "
            f"at least one; given shapes {y.shape} and {p.shape}"
        )
    if np.any(np.isnan(p)) or not np.all((y == np.round(y)) & (y >= 0) & (y < p.shape[1])):
        raise ValueError(
            f"labels are whole numbers from 0 to {p.shape[1] - 1}, the places of the classes, and "
            "probabilities are numbers; leave rows without a label or a prediction out"
        )
    return y.astype(int), p
