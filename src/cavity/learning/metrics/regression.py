r"""Scores of predictions: errors, densities and calibration of regression.

Everything takes numpy arrays of one output, one entry per test row, and returns a float.
Densities are in nats per row, errors in units of the output. A measure that the data do not
define (a standardised one of constant targets) is NaN. Weights, where given, are those of the
rows, (N,): a row of weight w counts as w rows. Those of classes are in `classification_metrics`.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from cavity.learning.metrics.sums import Mean, Spread

LEVELS = (0.5, 0.9, 0.95)


def rmse(y: ArrayLike, mean: ArrayLike, weights: ArrayLike | None = None) -> float:
    r"""Root mean squared error, $\sqrt{\tfrac1N \sum_n (y_n - m_n)^2}$, in units of y."""
    y, mean = _checked(y=y, mean=mean)
    return _root(_squares(y, mean, weights))


def mae(y: ArrayLike, mean: ArrayLike, weights: ArrayLike | None = None) -> float:
    r"""Mean absolute error, $\tfrac1N \sum_n |y_n - m_n|$, in units of y."""
    y, mean = _checked(y=y, mean=mean)
    return _distances(y, mean, weights).value


def nlpd(log_density: ArrayLike, weights: ArrayLike | None = None) -> float:
    r"""Mean negative log predictive density, $-\tfrac1N \sum_n \log p(y_n)$, in nats.

    Densities are per unit of y: measuring y in other units adds a constant.
    """
    (log_density,) = _checked(log_density=log_density)
    return -Mean.over(log_density, weights).value


def smse(y: ArrayLike, mean: ArrayLike, weights: ArrayLike | None = None) -> float:
    r"""Standardised mean squared error: 0 is perfect, 1 is predicting the mean of the targets.

    $$\mathrm{SMSE} = \frac{\tfrac1N \sum_n (y_n - m_n)^2}{\mathrm{var}(y)}$$

    The variance is that of the test targets themselves; NaN where it is zero.

    References:
        Rasmussen and Williams (2006), page 23.
    """
    y, mean = _checked(y=y, mean=mean)
    return _standardised(_squares(y, mean, weights), Spread.over(y, weights))


def smll(
    y: ArrayLike,
    log_density: ArrayLike,
    y_train_mean: float,
    y_train_var: float,
    weights: ArrayLike | None = None,
) -> float:
    r"""Standardised mean log loss, in nats: negative is better than knowing nothing of the inputs.

    $$\mathrm{SMLL} = \tfrac1N \sum_n \big[ \log \mathcal N(y_n; \bar y, s^2) - \log p(y_n) \big]$$

    with $\bar y$ and $s^2$ the mean and variance of the training targets.

    Args:
        y: test targets.
        log_density: log predictive densities of the test targets.
        y_train_mean: mean of the training targets.
        y_train_var: variance of the training targets; the result is NaN where it is zero.
        weights: of the rows, (N,); None where all count once.

    References:
        Rasmussen and Williams (2006), page 23.
    """
    y, log_density = _checked(y=y, log_density=log_density)
    return _losses(y, log_density, y_train_mean, y_train_var, weights).value


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike, weights: ArrayLike | None = None) -> float:
    r"""Continuous ranked probability score of Gaussian predictions, in units of y.

    $$\mathrm{CRPS} = \int \big(F(t) - [t \ge y]\big)^2 dt
        = \sigma \Big[ z (2\Phi(z) - 1) + 2\phi(z) - \tfrac1{\sqrt\pi} \Big],
        \qquad z = (y - m) / \sigma$$

    averaged over the rows. Smaller is better; with zero deviation it is the absolute error.

    References:
        Gneiting and Raftery (2007), eq. 21.
    """
    y, mean, std = _checked(y=y, mean=mean, std=std)
    return _rank_scores(y, mean, std, weights).value


def coverage(
    y: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    level: float,
    weights: ArrayLike | None = None,
) -> float:
    r"""The share of rows inside the central Gaussian interval, ends included.

    $$\tfrac1N \sum_n \big[\, |y_n - m_n| \le \Phi^{-1}(\tfrac{1 + c}2)\, \sigma_n \big]$$

    Calibrated predictions give `level`; less means too confident.

    Args:
        y: test targets.
        mean: predicted means.
        std: predicted deviations of y, noise included.
        level: probability c of the interval, between 0 and 1.
        weights: of the rows, (N,); None where all count once.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"the level of an interval lies between 0 and 1, given {level}")
    y, mean, std = _checked(y=y, mean=mean, std=std)
    return _inside(y, mean, std, level, weights).value


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """Scores of each row under a predictive distribution that is not normal.

    Attributes:
        crps: continuous ranked probability scores, (N,).
        within: for each of `LEVELS`, whether the target is in the central interval, (N,).
    """

    crps: np.ndarray
    within: Mapping[float, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class RegressionSums:
    """Sums over rows of which every measure of one output is made.

    Attributes:
        squares: squared errors.
        distances: absolute errors.
        log_density: log predictive densities.
        losses: log losses against the normal distribution of the training targets.
        crps: continuous ranked probability scores.
        within: for each of `LEVELS`, the targets in the central interval.
        targets: the targets themselves.
    """

    squares: Mean
    distances: Mean
    log_density: Mean
    losses: Mean
    crps: Mean
    within: Mapping[float, Mean]
    targets: Spread

    def __add__(self, later: "RegressionSums") -> "RegressionSums":
        return RegressionSums(
            squares=self.squares + later.squares,
            distances=self.distances + later.distances,
            log_density=self.log_density + later.log_density,
            losses=self.losses + later.losses,
            crps=self.crps + later.crps,
            within={level: own + later.within[level] for level, own in self.within.items()},
            targets=self.targets + later.targets,
        )

    def metrics(self) -> dict[str, float]:
        """Every measure by name, as `regression_metrics` gives them.

        Raises:
            ZeroDivisionError: if all weights are zero.
        """
        found = {
            "rmse": _root(self.squares),
            "mae": self.distances.value,
            "nlpd": -self.log_density.value,
            "smse": _standardised(self.squares, self.targets),
            "smll": self.losses.value,
            "crps": self.crps.value,
        }
        inside = {f"coverage_{round(100 * c)}": own.value for c, own in self.within.items()}
        return found | inside


def regression_sums(
    y: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    log_density: ArrayLike,
    y_train_mean: float,
    y_train_var: float,
    scores: Scores | None = None,
    weights: ArrayLike | None = None,
) -> RegressionSums:
    """The sums over some rows, by the arguments of `regression_metrics`."""
    y, mean, log_density = _checked(y=y, mean=mean, log_density=log_density)
    if scores is None:
        y, std = _checked(y=y, std=std)
        ranks = _rank_scores(y, mean, std, weights)
        within = {level: _inside(y, mean, std, level, weights) for level in LEVELS}
    else:
        ranks = Mean.over(scores.crps, weights)
        within = {level: Mean.over(scores.within[level], weights) for level in LEVELS}
    return RegressionSums(
        squares=_squares(y, mean, weights),
        distances=_distances(y, mean, weights),
        log_density=Mean.over(log_density, weights),
        losses=_losses(y, log_density, y_train_mean, y_train_var, weights),
        crps=ranks,
        within=within,
        targets=Spread.over(y, weights),
    )


def regression_metrics(
    y: ArrayLike,
    mean: ArrayLike,
    std: ArrayLike,
    log_density: ArrayLike,
    y_train_mean: float,
    y_train_var: float,
    scores: Scores | None = None,
    weights: ArrayLike | None = None,
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
        weights: of the rows, (N,); None where all count once.

    Returns:
        `rmse, mae, nlpd, smse, smll, crps, coverage_50, coverage_90, coverage_95`.
    """
    about = (y_train_mean, y_train_var, scores, weights)
    return regression_sums(y, mean, std, log_density, *about).metrics()


def average_metrics(per_target: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each measure over several targets."""
    records = list(per_target)
    if not records:
        raise ValueError("there are no metrics to average: give those of at least one target")
    return {name: float(np.mean([record[name] for record in records])) for name in records[0]}


def _squares(y: np.ndarray, mean: np.ndarray, weights: ArrayLike | None) -> Mean:
    return Mean.over((y - mean) ** 2, weights)


def _distances(y: np.ndarray, mean: np.ndarray, weights: ArrayLike | None) -> Mean:
    return Mean.over(np.abs(y - mean), weights)


def _losses(
    y: np.ndarray,
    log_density: np.ndarray,
    y_train_mean: float,
    y_train_var: float,
    weights: ArrayLike | None,
) -> Mean:
    """NaN where the training targets do not vary."""
    if not y_train_var > 0.0:
        return Mean.over(np.full(len(y), np.nan), weights)
    # log N(y; ȳ, s²)
    trivial = -0.5 * (np.log(2 * np.pi * y_train_var) + (y - y_train_mean) ** 2 / y_train_var)
    return Mean.over(trivial - log_density, weights)


def _rank_scores(
    y: np.ndarray, mean: np.ndarray, std: np.ndarray, weights: ArrayLike | None
) -> Mean:
    """Continuous ranked probability scores of normal predictions."""
    from scipy.special import ndtr

    residual = y - mean
    z = np.divide(residual, std, out=np.zeros_like(residual), where=std > 0.0)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    score = std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))
    return Mean.over(np.where(std > 0.0, score, np.abs(residual)), weights)


def _inside(
    y: np.ndarray, mean: np.ndarray, std: np.ndarray, level: float, weights: ArrayLike | None
) -> Mean:
    """Targets in the central interval of normal predictions."""
    from scipy.special import ndtri

    return Mean.over(np.abs(y - mean) <= ndtri(0.5 * (1.0 + level)) * std, weights)


def _root(squares: Mean) -> float:
    return float(np.sqrt(squares.value))


def _standardised(squares: Mean, targets: Spread) -> float:
    variance = targets.variance
    return squares.value / variance if variance > 0.0 else np.nan


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
