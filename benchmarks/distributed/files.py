"""A table in parquet files, each of them a part that is read where it is worked on."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

import cavity

FILES = 16


class File:
    """The rows of a file.

    Args:
        path: a parquet file, whose column y holds the outputs.
    """

    def __init__(self, path: Path):
        self.path = path

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        table = pl.read_parquet(self.path)
        yield np.ascontiguousarray(table.drop("y").to_numpy()), table["y"].to_numpy()


def parts_of(paths: list[Path]) -> cavity.Parts:
    """Files as a table in parts."""
    return cavity.Parts(map(File, paths), names=[path.name for path in paths])


def write(path: Path, X: np.ndarray, y: np.ndarray) -> Path:
    """One file."""
    columns = {f"x{i}": column for i, column in enumerate(X.T)}
    pl.DataFrame(columns | {"y": y.astype(float)}).write_parquet(path)
    return path


def written(folder: Path, X: np.ndarray, y: np.ndarray) -> cavity.Parts:
    """Rows in 16 files of a folder, in their order."""
    pieces = enumerate(np.array_split(np.arange(len(y)), FILES))
    return parts_of([write(folder / f"{i:02d}.parquet", X[rows], y[rows]) for i, rows in pieces])
