"""Time that an engine adds to a pass over the parts of a table, by what is sent and returned.

Each part gives back M x M numbers of the M x M that go out, with no other work, so that all of
the time is the engine's. Two worker processes on this computer; processor time is of all three.

python -m benchmarks.engine_pass [--parts 16] [--inducing 500] [--passes 20]
"""

import argparse
import dataclasses
import statistics
import time
from typing import Any

import numpy as np

import cavity
from benchmarks.results import Table
from cavity.engines import AbstractEngine, Dask, InProcess, Part

TABLE = Table("engine_pass.csv", ("parts", "M", "processes"))


@dataclasses.dataclass(frozen=True, eq=False)
class Returned:
    """Gives back what it has, for every part alike.

    Attributes:
        numbers: what goes out, (M, M).
    """

    numbers: np.ndarray

    def __call__(self, part: Part) -> np.ndarray:
        """As many other numbers."""
        return self.numbers + part.index


def seconds(engine: AbstractEngine, parts: int, M: int, passes: int) -> list[float]:
    """Times of passes, after one that is not counted."""
    table = cavity.Parts([[] for _ in range(parts)]).parts
    found = []
    for number in range(passes + 1):
        work = Returned(np.full((M, M), float(number)))
        start = time.perf_counter()
        total = engine.sum(work, table, np.add)
        found.append(time.perf_counter() - start)
        assert total is not None
        assert total[0, 0] == parts * (number + (parts - 1) / 2)
    return found[1:]


def main() -> None:
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--inducing", type=int, default=500)
    parser.add_argument("--passes", type=int, default=20)
    options = parser.parse_args()
    size = (options.parts, options.inducing, options.passes)
    here = seconds(InProcess(), *size)
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as opened:
        client: Any = opened
        before = time.process_time() + sum(client.run(time.process_time).values())
        there = seconds(Dask(client), *size)
        after = time.process_time() + sum(client.run(time.process_time).values())
    row = {"parts": options.parts, "M": options.inducing, "processes": 2}
    row |= {"median_ms": 1e3 * (statistics.median(there) - statistics.median(here))}
    row |= {"least_ms": 1e3 * min(there), "most_ms": 1e3 * max(there)}
    row |= {"processor_ms": 1e3 * (after - before) / (options.passes + 1)}
    row |= {"in_process_ms": 1e3 * statistics.median(here)}
    print(row, flush=True)
    TABLE.add(row)


if __name__ == "__main__":
    main()
