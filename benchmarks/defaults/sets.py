"""Tables of regression, classification and counts, each with its splits."""

import gzip
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks import binary, many_classes
from benchmarks.data import FOLDER, Split, uci

UCI = ("yacht", "boston", "energy", "concrete", "wine_red", "kin8nm", "power", "naval", "protein")
RAETSCH = ("banana", "breast_cancer", "flare_solar", "german", "titanic", "waveform")
Load = Callable[[int], Split]


def ten_fold(name: str, split: int) -> Split:
    """A split of the collection of Evans and Nair: each row is tested in one of ten."""
    with gzip.open(FOLDER / name / "data.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    masks = np.load(FOLDER / name / "test_mask.npz")
    rows, folds = masks["shape"]
    test = np.unpackbits(masks["packed"], axis=0)[:rows, :folds].astype(bool)[:, split]
    X, y = table[:, :-1], table[:, -1]
    return X[~test], y[~test], X[test], y[test]


def raetsch(name: str, split: int) -> Split:
    """A split of the collection of Rätsch."""
    with np.load(FOLDER / f"raetsch_{name}" / "data.npz") as file:
        X, y = file["X"], file["y"]
        parts = [file[f"{part}_{split + 1}"].astype(int) for part in ("train", "test")]
    train, test = parts
    return X[train], y[train], X[test], y[test]


def tenths(load: Callable[[], tuple[np.ndarray, np.ndarray]], split: int) -> Split:
    """A tenth of the rows for tests, drawn by the number of the split."""
    X, y = load()
    order = np.random.default_rng(split).permutation(len(y))
    test, train = order[: len(y) // 10], order[len(y) // 10 :]
    known = np.isin(y[test], y[train])
    return X[train], y[train], X[test][known], y[test][known]


def coal() -> tuple[np.ndarray, np.ndarray]:
    """Accidents in British coal mines, counted in 333 equal spans of years."""
    with gzip.open(FOLDER / "coal" / "binned.csv.gz", "rt") as file:
        table = np.loadtxt(file)
    return table[:, :1], table[:, 1]


def _places() -> Iterator[tuple[str, str, Load]]:
    for name in UCI:
        yield "regression", name, partial(uci, name)
    for folder in sorted(FOLDER.glob("evans_*")):
        yield "regression", folder.name, partial(ten_fold, folder.name)
    for name in binary.SETS:
        yield "classes", name, partial(tenths, partial(binary.load, name))
    for name in many_classes.SETS:
        yield "classes", name, partial(tenths, partial(many_classes.load, name))
    for name in RAETSCH:
        yield "classes", f"raetsch_{name}", partial(raetsch, name)
    yield "counts", "coal", partial(tenths, coal)


def tables() -> dict[str, tuple[str, Load]]:
    """Kind and loader of each table that is there, by name."""
    return {name: (kind, load) for kind, name, load in _places() if (FOLDER / name).exists()}
