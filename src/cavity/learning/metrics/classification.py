"""Metrics of class probabilities: errors, scores, calibration and ranking.

Labels are the indices of the true classes, 0 to C-1, (N,); probabilities are (N, C) with rows
that sum to one. Log scores are in nats per row. A metric that the data do not define is NaN.
Weights, where given, are those of the rows, (N,): a row of weight w counts as w rows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cavity.learning.metrics.regression import mean_of

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
    labels, p = _checked(labels, probabilities)
    return mean_of(np.argmax(p, axis=1) != labels, weights)


def nlpp(
    labels: ArrayLike, log_probabilities: ArrayLike, weights: ArrayLike | None = None
) -> float:
    r"""Mean negative log predictive probability, $-\tfrac1N \sum_n \log p(y_n)$, in nats."""
    labels, log_p = _checked(labels, log_probabilities)
    return -mean_of(log_p[np.arange(len(labels)), labels], weights)


def brier(labels: ArrayLike, probabilities: ArrayLike, weights: ArrayLike | None = None) -> float:
    r"""Mean squared difference between probabilities and what came true.

    Of two classes $\tfrac1N \sum_n (p_n - y_n)^2$ with the probability and the truth of one of
    them; of more the sum over the classes.

    References:
        Brier (1950); Gneiting and Raftery (2007), section 3.1.
    """
    labels, p = _checked(labels, probabilities)
    truth = labels[:, None] == np.arange(p.shape[1])
    total = mean_of(np.sum((p - truth) ** 2, axis=1), weights)
    return float(total / 2 if p.shape[1] == 2 else total)


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
    p, happened = np.asarray(probability, float), np.asarray(came_true, float)
    which = np.minimum((p * bins).astype(int), bins - 1)
    own = None if weights is None else np.asarray(weights, float)
    count = np.bincount(which, weights=own, minlength=bins)
    seen, heavy = count > 0, 1.0 if own is None else own
    sums = (np.bincount(which, weights=heavy * x, minlength=bins)[seen] for x in (p, happened))
    predicted, observed = (total / count[seen] for total in sums)
    return Reliability(predicted, observed, count[seen])


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
    labels, p = _checked(labels, probabilities)
    found = reliability(p.max(axis=1), np.argmax(p, axis=1) == labels, bins, weights)
    gap = np.abs(found.predicted - found.observed)
    return float(np.sum(found.count * gap) / np.sum(found.count))


def roc(came_true: ArrayLike, score: ArrayLike, weights: ArrayLike | None = None) -> Roc | None:
    """The receiver operating characteristic; None unless there are rows of both kinds.

    Args:
        came_true: whether the event happened, (N,).
        score: the larger, the likelier it was said to be, (N,).
        weights: of the rows, (N,); None where all count once.
    """
    happened, score = np.asarray(came_true, bool), np.asarray(score, float)
    heavy = np.ones(len(score)) if weights is None else np.asarray(weights, float)
    if not (np.any(heavy[happened]) and np.any(heavy[~happened])):
        return None
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)  # of equal scores
    hits, alarms = (np.cumsum(x[order])[last] for x in (heavy * happened, heavy * ~happened))
    true, false = hits / hits[-1], alarms / alarms[-1]
    return Roc(np.append(0.0, false), np.append(0.0, true))


def auc(
    labels: ArrayLike, log_probabilities: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Area under the ROC curve of the second class; NaN unless both of two classes are there."""
    labels, log_p = _checked(labels, log_probabilities)
    if log_p.shape[1] != 2:
        return np.nan
    found = roc(labels == 1, log_p[:, 1] - log_p[:, 0], weights)
    return np.nan if found is None else found.area


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
    p = np.exp(np.asarray(log_probabilities, float))
    return {
        "error": error(labels, p, weights),
        "nlpp": nlpp(labels, log_probabilities, weights),
        "brier": brier(labels, p, weights),
        "ece": ece(labels, p, weights=weights),
        "auc": auc(labels, log_probabilities, weights),
    }


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
