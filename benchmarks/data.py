"""Data of the benchmarks: published splits, and the recipe shared with other libraries."""

import gzip
import os
from pathlib import Path

import numpy as np

FOLDER = Path(os.environ.get("CAVITY_DATA") or Path(__file__).parents[2] / "shared" / "data")

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def uci(name: str, split: int) -> Split:
    """Training inputs and targets, test inputs and targets of one published split.

    The splits are those of Hernandez-Lobato and Adams (2015), 90 % for training.
    """
    folder = FOLDER / name
    with gzip.open(folder / "data.txt.gz", "rt") as file:
        table = np.loadtxt(file)
    index = np.load(folder / "splits.npz")
    features, target = index["index_features"].astype(int), int(index["index_target"][0])
    train, test = index[f"train_{split}"].astype(int), index[f"test_{split}"].astype(int)
    X, y = table[:, features], table[:, target]
    return X[train], y[train], X[test], y[test]


def waves() -> Split:
    """10,000 training and 2,000 test rows in 8 dimensions: a sum of 20 plane waves plus noise."""
    r = np.random.RandomState(1)
    X = r.rand(12000, 8)
    W, b, a = r.randn(8, 20), r.rand(20) * 6.28, r.randn(20)
    y = np.cos(3 * X @ W / np.sqrt(8) * 1.5 + b) @ a
    y = (y - y.mean()) / y.std() + 0.1 * r.randn(12000)
    return X[:10000], y[:10000], X[10000:], y[10000:]
