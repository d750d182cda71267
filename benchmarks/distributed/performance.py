"""Seconds of passes over a table in 16 files: one process on one core, two workers on a core each.

Gaussian noise. An inference is the first pass, which checks and counts, and one that sums
messages; an evaluation is the two passes of a value and gradient. The process of the fit, which
adds the sums of parts, shares the cores with the workers.
"""

import argparse
import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import distributed
import jax
import numpy as np

import cavity
from benchmarks.distributed.files import FILES, parts_of, write
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods
from cavity.engines import AbstractEngine, Dask, InProcess
from cavity.learning.data.survey import survey
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective

TABLE = Table("distributed_performance.csv", ("rows", "M", "processes", "what", "repeat"))
INPUTS, M, POWER, REPEATS = 8, 200, 0.5, 3
PROCESSES = (1, 2)
WHAT = ("inference", "evaluation")
ROOT = Path(__file__).parents[2]


def measure(rows: int) -> None:
    """Measures what is missing, each number of processes in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        written = False
        for processes in PROCESSES:
            key = {"rows": rows, "M": M, "processes": processes, "repeat": REPEATS - 1}
            if all(TABLE.has(**key, what=what) for what in WHAT):
                continue
            if not written:
                write_table(Path(folder), rows)
                written = True
            words = [folder, str(rows), str(processes)]
            command = [sys.executable, "-m", "benchmarks.distributed.performance", *words]
            environment = os.environ | single_threaded()
            subprocess.run(command, check=True, cwd=ROOT, env=environment)
    for what in WHAT:
        one, two = (median(rows, processes, what) for processes in PROCESSES)
        print(f"{what}: {one:.2f} s with one process, {two:.2f} s with two: {one / two:.2f}")


def median(rows: int, processes: int, what: str) -> float:
    """Of the seconds measured."""
    key = {"rows": rows, "M": M, "processes": processes, "what": what}
    found = [r for r in TABLE.rows() if all(r[k] == str(v) for k, v in key.items())]
    return statistics.median(float(row["seconds"]) for row in found)


def single_threaded() -> dict[str, str]:
    """Settings of libraries that would start a thread for every core."""
    names = "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"
    return dict.fromkeys(names, "1")


def write_table(folder: Path, rows: int) -> None:
    """A smooth function of standard normal inputs with noise, in 16 files."""
    weights = np.random.default_rng(0).standard_normal(INPUTS)
    for number, count in enumerate(np.diff(np.linspace(0, rows, FILES + 1).astype(int))):
        random = np.random.default_rng([1, number])
        X = random.standard_normal((count, INPUTS))
        y = np.sin(X @ weights / 2.0) + 0.1 * random.standard_normal(count)
        write(folder / f"{number:02d}.parquet", X, y)


@contextlib.contextmanager
def pinned_workers(count: int, folder: Path) -> Iterator[str]:
    """The address of a scheduler in this process with workers on a core each."""
    cores = sorted(os.sched_getaffinity(0))
    cluster = distributed.LocalCluster(n_workers=0, dashboard_address=":0")
    with cluster:
        address = cluster.scheduler_address
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60")
        dask = [sys.executable, "-m", "distributed.cli.dask_worker", address]
        words = [*dask, *options, "--local-directory", str(folder / "workers")]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": ROOT}
        workers = [
            subprocess.Popen(["taskset", "-c", str(core), *words], **quiet)
            for core in cores[:count]
        ]
        try:
            yield address
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait()


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def work_on(paths: list[Path], engine: AbstractEngine) -> dict[str, Callable[[], object]]:
    """What is measured, on a table in these files."""
    points = np.random.default_rng(2).standard_normal((M, INPUTS))
    kernel = kernels.RBF(1.0, np.full(INPUTS, 3.0))
    model = cavity.GP(kernel, likelihoods.Gaussian(0.1), inducing.Points(points))
    table = parts_of(paths)
    data = survey(table, model.likelihood, power=POWER, engine=engine)
    objective = Objective(as_dtype(model, data.exemplar), data)
    return {
        "inference": lambda: cavity.infer(model, table, power=POWER, engine=engine),
        "evaluation": lambda: objective(objective.first),
    }


def passes(folder: Path, rows: int, processes: int, engine: AbstractEngine) -> None:
    """Adds what was measured, once a few files were passed over to compile."""
    paths = sorted(folder.glob("*.parquet"))
    for compiled in work_on(paths[:processes], engine).values():
        compiled()
    work = work_on(paths, engine)
    for what, repeat in itertools.product(WHAT, range(REPEATS)):
        key = {"rows": rows, "M": M, "processes": processes, "what": what, "repeat": repeat}
        if not TABLE.has(**key):
            seconds = timed(work[what])
            TABLE.add(key | {"inputs": INPUTS, "parts": FILES, "seconds": seconds})
            print(key, f"{seconds:.2f} s", flush=True)


def run(folder: Path, rows: int, processes: int) -> None:
    """Measures in this process: alone on one core, or with workers."""
    if processes == 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    jax.config.update("jax_enable_x64", True)
    if processes == 1:
        passes(folder, rows, processes, InProcess())
        return
    with pinned_workers(processes, folder) as address, distributed.Client(address) as client:
        client.wait_for_workers(processes, timeout=120)
        passes(folder, rows, processes, Dask(client))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=int)
    parser.add_argument("processes", type=int)
    given = parser.parse_args()
    run(given.folder, given.rows, given.processes)


if __name__ == "__main__":
    main()
