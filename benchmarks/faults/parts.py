"""Faults of the files of a table: what is said of them, and whether it names the file."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import polars as pl

import cavity
from benchmarks.faults.kinds import Options, Outcome, started
from benchmarks.faults.problem import bits
from cavity import inducing, kernels, likelihoods
from cavity.engines import Dask

ROWS = 100
BAD = "bad.parquet"
# A file that is read so often is another one from then on.
READINGS = 3


@dataclasses.dataclass(frozen=True)
class File:
    """A parquet file, read where it is worked on.

    Attributes:
        path: the file.
        changing: whether its rows change after some readings.
    """

    path: str
    changing: bool = False

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        table = pl.read_parquet(self.path)
        X, y = table.drop("y").to_numpy(), table["y"].to_numpy()
        if self.changing:
            with Path(f"{self.path}.readings").open("ab", buffering=0) as file:
                file.write(b".")
                X = X + (file.tell() > READINGS)
        yield X, y


def write(path: Path, seed: int, columns: str = "abc", **over: object) -> None:
    """A file of rows, some columns of which are other ones."""
    random = np.random.default_rng(seed)
    data: dict[str, object] = {name: random.uniform(0.0, 10.0, ROWS) for name in columns}
    data["y"] = random.standard_normal(ROWS)
    pl.DataFrame(data | over).write_parquet(path)


def make(kind: str, folder: Path) -> cavity.Parts:
    """A table of four good files and one that has a fault."""
    folder.mkdir()
    files = [folder / f"{number}.parquet" for number in range(4)]
    for number, path in enumerate(files):
        write(path, number)
    bad = folder / BAD
    if kind == "twice":
        bad.write_bytes(files[0].read_bytes())
    elif kind == "other columns":
        write(bad, 9, "ab")
    elif kind == "without targets":
        write(bad, 9, y=np.full(ROWS, np.nan))
    elif kind != "missing":
        write(bad, 9)
    if kind == "cut off":
        bad.write_bytes(bad.read_bytes()[:-200])
    if kind == "empty":
        pl.read_parquet(bad).clear().write_parquet(bad)
    found = [*files[:2], bad, *files[2:]]
    sources = [File(str(path), kind == "changed" and path == bad) for path in found]
    return cavity.Parts(sources, names=[path.name for path in found])


def fitted(table: cavity.Parts, engine: Dask | None) -> str:
    """The bits of a fit."""
    with jax.enable_x64(True):
        Z = inducing.Points(np.random.default_rng(5).uniform(0.0, 10.0, (5, 3)))
        model = cavity.GP(kernels.RBF(1.0, np.ones(3)), likelihoods.Gaussian(0.5), Z)
        return bits(cavity.fit(model, table, power=0.5, max_iterations=4, engine=engine))


def outcomes(options: Options) -> Iterator[Outcome]:
    """Each fault once: it ended well if the message names the file, of an empty one if no matter.

    What the message is, and whether a worker is named that raised it, is told.
    """
    del options
    kinds = ("missing", "twice", "changed", "cut off", "other columns", "without targets")
    with started(2) as (cluster, folder):
        folder.mkdir()
        for kind in kinds:
            said = ""
            try:
                fitted(make(kind, folder / kind), Dask(cluster.client))
            except Exception as error:
                said = " ".join((str(error), *getattr(error, "__notes__", [])))
            where = "with its worker" if "tcp://" in said else "in the process of the fit"
            first = said.replace(f"{folder / kind}/", "").split("\n")[0] or "nothing was said"
            yield Outcome(BAD in said, True, 0, f"{first} ({where})", kind)
        table = make("empty", folder / "empty")
        without = cavity.Parts([p.source for p in table.parts if p.name != BAD])
        same = fitted(table, Dask(cluster.client)) == fitted(table, None)
        yield Outcome(fitted(without, None) != "", same, 0, "no matter", "empty")
