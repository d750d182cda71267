"""Small data sets that the tests of estimators share; one shape, so that they compile once."""

import numpy as np

ROWS, COLUMNS = 60, 2


def problem(seed=0, rows=ROWS):
    """Inputs (rows, 2) and noisy outputs (rows,) of a smooth function."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (rows, COLUMNS))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * random.normal(size=rows)
    return X, y


def wave(seed=0, rows=40, noise=0.1):
    """One input column and a noisy sine of it."""
    random = np.random.default_rng(seed)
    X = random.uniform(-3, 3, (rows, 1))
    return X, np.sin(2 * X[:, 0]) + noise * random.normal(size=rows)
