r"""Scores of predictions: errors, densities and calibration of regression.

Everything takes numpy arrays of one output, one entry per test row, and returns a float.
Densities are in nats per row, errors in units of the output. A measure that the data do not
define (a standardised one of constant targets) is NaN. Those of classes are in
`classification_metrics`.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

LEVELS = (0.5, 0.9, 0.95)


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Root mean squared error, $\sqrt{\tfrac1N \sum_n (y_n - m_n)^2}$, in units of y."""
    y, mean = _checked(y=y, mean=mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def mae(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Mean absolute error, $\tfrac1N \sum_n |y_n - m_n|$, in units of y."""
    y, mean = _checked(y=y, mean=mean)
    return float(np.mean(np.abs(y - mean)))


def nlpd(log_density: ArrayLike) -> float:
    r"""Mean negative log predictive density, $-\tfrac1N \sum_n \log p(y_n)$, in nats.

    Densities are per unit of y: measuring y in other units adds a constant.
    """
    (log_density,) = _checked(log_density=log_density)
    return float(-np.mean(log_density))


def smse(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Standardised mean squared error: 0 is perfect, 1 is predicting the mean of the targets.

    $$\mathrm{SMSE} = \frac{\tfrac1N \sum_n (y_n - m_n)^2}{\mathrm{var}(y)}$$

    The variance is that of the test targets themselves; NaN where it is zero.

    References:
        Rasmussen and Williams (2006), page 23.
    """
    y, mean = _checked(y=y, mean=mean)
    variance = np.var(y)
    return float(np.mean((y - mean) ** 2) / variance) if variance > 0.0 else np.nan


def smll(y: ArrayLike, log_density: ArrayLike, y_train_mean: float, y_train_var: float) -> float:
    r"""Standardised mean log loss, in nats: negative is better than knowing nothing of the inputs.

    $$\mathrm{SMLL} = \tfrac1N \sum_n \big[ \log \mathcal N(y_n; \bar y, s^2) - \log p(y_n) \big]$$

    with $\bar y$ and $s^2$ the mean and variance of the training targets.

    Args:
        y: test targets.
        log_density: log predictive densities of the test targets.
        y_train_mean: mean of the training targets.
        y_train_var: variance of the training targets; the result is NaN where it is zero.

    References:
        Rasmussen and Williams (2006), page 23.
    """
    y, log_density = _checked(y=y, log_density=log_density)
    if not y_train_var > 0.0:
        return np.nan
    # log N(y; ȳ, s²)
    trivial = -0.5 * (np.log(2 * np.pi * y_train_var) + (y - y_train_mean) ** 2 / y_train_var)
    return float(np.mean(trivial - log_density))


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    r"""Continuous ranked probability score of Gaussian predictions, in units of y.

    $$\mathrm{CRPS} = \int \big(F(t) - [t \ge y]\big)^2 dt
        = \sigma \Big[ z (2\Phi(z) - 1) + 2\phi(z) - \tfrac1{\sqrt\pi} \Big],
        \qquad z = (y - m) / \sigma$$

    averaged over the rows. Smaller is better; with zero deviation it is the absolute error.

    References:
        Gneiting and Raftery (2007), eq. 21.
    """
    from scipy.special import ndtr

    y, mean, std = _checked(y=y, mean=mean, std=std)
    residual = y - mean
    z = np.divide(residual, std, out=np.zeros_like(residual), where=std > 0.0)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    score = std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))
    return float(np.mean(np.where(std > 0.0, score, np.abs(residual))))


def coverage(y: ArrayLike, mean: ArrayLike, std: ArrayLike, level: float) -> float:
    r"""The share of rows inside the central Gaussian interval, ends included.

    $$\tfrac1N \sum_n \big[\, |y_n - m_n| \le \Phi^{-1}(\tfrac{1 + c}2)\, \sigma_n \big]$$

    Calibrated predictions give `level`; less means too confident.

    Args:
        y: test targets.
        mean: predicted means.
        std: predicted deviations of y, noise included.
        level: probability c of the interval, between 0 and 1.
    """
    from scipy.special import ndtri

    if not 0.0 < level < 1.0:
        raise ValueError(f"the level of an interval lies between 0 and 1, given {level}")
    y, mean, std = _checked(y=y, mean=mean, std=std)
    return float(np.mean(np.abs(y - mean) <= ndtri(0.5 * (1.0 + level)) * std))


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """Scores of each row under a predictive distribution that is not normal.

    Attributes:
        crps: continuous ranked probability scores, (N,).
        within: for each of `LEVELS`, whether the target is in the central interval, (N,).
    """

    crps: np.ndarray
    within: Mapping[float, np.ndarray]


def regression_metrics(
    y: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    log_density: ArrayLike,
    y_train_mean: float,
    y_train_var: float,
    scores: Scores | None = None,
) -> dict[str, float]:
    """Every measure of one output by name, as the command line and the report print them.

    Args:
        y: test targets.
        mean: predicted means.
        std: predicted deviations of y, noise included.
        log_density: log predictive densities of the test targets, in nats.
        y_train_mean: mean of the training targets.
        y_train_var: variance of the training targets.
        scores: of predictions that are not normal.

    Returns:
        `rmse, mae, nlpd, smse, smll, crps, coverage_50, coverage_90, coverage_95`.
    """
    found = {
        "rmse": rmse(y, mean),
        "mae": mae(y, mean),
        "nlpd": nlpd(log_density),
        "smse": smse(y, mean),
        "smll": smll(y, log_density, y_train_mean, y_train_var),
        "crps": crps(y, mean, std) if scores is None else float(np.mean(scores.crps)),
    }
    for level in LEVELS:
        inside = coverage(y, mean, std, level) if scores is None else scores.within[level]
        found[f"coverage_{round(100 * level)}"] = float(np.mean(inside))
    return found


def average_metrics(per_target: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each measure over several targets."""
    records = list(per_target)
    if not records:
        raise ValueError("there are no metrics to average: give those of at least one target")
    return {name: float(np.mean([record[name] for record in records])) for name in records[0]}


def _checked(**arrays: ArrayLike) -> list[np.ndarray]:
    """The arrays as float64 vectors of one length without NaN, or an error that says which."""
    vectors = {name: np.asarray(a, dtype=np.float64) for name, a in arrays.items()}
    shapes = {name: v.shape for name, v in vectors.items()}
    if len(set(shapes.values())) > 1 or any(v.ndim != 1 for v in vectors.values()):
        raise ValueError(
            "metrics take one-dimensional arrays of one length, one entry per test row; given "
            + ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items())
        )
    for name, v in vectors.items():
        if not len(v):
            raise ValueError("metrics need at least one test row, given none")
        if np.any(np.isnan(v)):
            row = int(np.flatnonzero(np.isnan(v))[0])
            raise ValueError(
                f"{name} is NaN at position {row} (of {len(v)}, counted from 0); leave rows "
                "without a target or a prediction out"
            )
    return list(vectors.values())
