"""Scores of predictions of a column or an output, as cells of a table."""

import numpy as np

from cavity.report.sections import Word, number, percent


def score_cells(
    wrong: np.ndarray, plain: np.ndarray, density: np.ndarray, inside: np.ndarray
) -> tuple[Word, ...]:
    """Number of values, errors, log density and coverage, in the order of `score_head`.

    Args:
        wrong: errors of predictions, (n,).
        plain: errors of the mean of the column, (n,).
        density: log densities, (n,).
        inside: which are in their intervals, (n,); NaN where values are no real numbers.
    """
    means = number(float(np.mean(density)), 3), percent(float(np.mean(inside)))
    return len(wrong), rms(wrong), rms(plain), *means


def score_head(counted: str, plain: str, level: int) -> tuple[str, ...]:
    """Names of columns of scores.

    Args:
        counted: what there are several of.
        plain: what the plain errors are of.
        level: of the intervals, in percent.
    """
    errors = (">RMSE", f">RMSE of {plain}")
    return f">{counted}", *errors, ">log density, nats", f">in {level} % intervals"


def rms(values: np.ndarray) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(values**2)))
