"""Outputs of regressions: their shape, and constant ones among others."""

import numpy as np

# The scale of a constant output, as a share of its value.
CONSTANT_SCALE = 1e-9


def stated_once(
    y: np.ndarray, scale: np.ndarray, constant: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and scales in which constant columns hardly influence the shared parameters.

    A constant output keeps one row and gets a small scale. With all rows it would push the
    variances of function and noise, which all outputs share, towards zero, and its own prediction
    would be as uncertain as those of the others.

    Args:
        y: outputs, (N, P).
        scale: of each, (P,).
        constant: which of them do not vary, (P,).
    """
    y, scale = y.copy(), scale.copy()
    for column in np.flatnonzero(constant):
        first = np.flatnonzero(~np.isnan(y[:, column]))[0]
        scale[column] = CONSTANT_SCALE * (abs(y[first, column]) or scale[~constant].max())
        y[first + 1 :, column] = np.nan
    return y, scale


def check_shape(y: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuses outputs of another shape than in fit."""
    if y.shape != shape:
        raise ValueError(f"y must have shape {shape}, as in fit, given {y.shape}")
