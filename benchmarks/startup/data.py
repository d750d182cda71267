"""Small random tables."""

import numpy as np

ROWS = 200
# Parts that are learned one after the other.
BATCHES = slice(0, 130), slice(130, 166), slice(166, 200)
# Of tables that are fitted one after the other: each is of another length.
LENGTHS = tuple(int(n) for n in np.linspace(100, ROWS, 20))


def table(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Four normal inputs, outputs, and labels that are their signs under more noise."""
    r = np.random.RandomState(0)
    X = r.randn(rows, 4)
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * r.randn(rows)
    return X, y, y + 0.5 * r.randn(rows) > 0.0


def series(rows: int) -> np.ndarray:
    """A wave that is seen with noise."""
    r = np.random.RandomState(0)
    return np.sin(0.5 * np.arange(rows)) + 0.1 * r.randn(rows)


def incomplete(rows: int = ROWS) -> np.ndarray:
    """Six columns that bend along two directions, a twentieth of the cells missing."""
    r = np.random.RandomState(0)
    Z, W = r.randn(rows, 2), r.randn(2, 6)
    Y = np.tanh(Z @ W) + 0.1 * r.randn(rows, 6)
    return np.where(r.rand(rows, 6) < 0.05, np.nan, Y)
