"""The data of these experiments: their published splits, standardised on the training part."""

import gzip

import numpy as np

from benchmarks.data import FOLDER, Split

# Standard deviations of noise that is added to standardised outputs, training and test.
NOISE = {"kin40k": 0.4, "parkinsons": 0.05}


def table(name: str, split: int = 0) -> Split:
    """Training inputs and targets, test inputs and targets of one split.

    Args:
        name: "kin40k" (36,000 training rows), "parkinsons" (about 5,290), or one of these with
            " + noise".
        split: number of the mask, 0 to 9.
    """
    plain = name.removesuffix(" + noise")
    folder = FOLDER / f"evans_{plain}"
    with gzip.open(folder / "data.csv.gz", "rt") as file:
        rows = np.loadtxt(file, delimiter=",")
    masks = np.load(folder / "test_mask.npz")
    test = np.unpackbits(masks["packed"], axis=0)[: len(rows), split].astype(bool)
    centre, spread = rows[~test].mean(axis=0), rows[~test].std(axis=0)
    rows = (rows - centre) / np.where(spread > 0, spread, 1.0)
    X, y = rows[:, :-1], rows[:, -1]
    if name != plain:
        y = y + NOISE[plain] * np.random.default_rng(split).standard_normal(len(y))
    return X[~test], y[~test], X[test], y[test]


def snelson() -> tuple[np.ndarray, np.ndarray]:
    """The 200 rows of one column."""
    with gzip.open(FOLDER / "snelson1d" / "train_inputs.txt.gz", "rt") as inputs:
        X = np.loadtxt(inputs)[:, None]
    with gzip.open(FOLDER / "snelson1d" / "train_outputs.txt.gz", "rt") as outputs:
        return X, np.loadtxt(outputs)
