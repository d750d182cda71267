"""A step of a deep GP: value and gradient from a minibatch, and with an update by Adam.

Two layers of eight functions and one, 100 inducing points for each layer, minibatches of 500 of
5,000 rows with eight columns, doubly stochastic at power 0, double precision. The functions of a
layer share kernel and points. `one` and `two` are value and gradient with so many draws of hidden
values for each row, `step` is `one` with an update by Adam, and `products` the matrix products of
`one`.

All evaluate the bound at the same q, which is not the prior. Their draws differ, so that values
agree in the mean: `mean` and `error` are of many draws of `one`, the mean and its standard error,
and for cavity of fewer evaluations with 64 quasi-random points for each row, because its one point
belongs to a place in the minibatch and is always the same. Without variance of the inner layer
nothing is drawn: `certain` is the value there.
"""

import contextlib
import statistics
import tempfile
from typing import Any

import numpy as np

from benchmarks.peers import problems
from benchmarks.peers.machine import Watch
from benchmarks.peers.record import Record
from benchmarks.peers.starts import fresh
from benchmarks.peers.turns import started
from benchmarks.peers.workers import Worker, interpreter, summary, taking_turns

METHODS = {"cavity": ("one", "two", "step", "products")}
METHODS |= dict.fromkeys(("gpflux", "gpytorch"), ("one", "two", "step"))
# Rows, inducing points of a layer, rows of a minibatch.
SIZES, SMALL = (5_000, 100, 500), (200, 10, 50)
# Steps in a search follow each other, so that a turn has several.
TURNS, STEPS, DRAWS, STARTS = 20, 5, 200, 3
# Of the inner layer, so small that its functions are their prior mean, and a jitter beside it.
CERTAIN = {"inner_variance": 1e-12, "jitter": 1e-18}
# Seconds of first calls, by the clock and of the processor, and what they are called in answers.
FIRST = (("first_seconds", "seconds"), ("first_cpu_seconds", "first_cpu"))
NAMES = (*(name for name, _ in FIRST), "mean", "error", "certain")
Answers = dict[str, list[dict[str, Any]]]


def first_calls(path: str, threads: int, repeats: int) -> dict[str, dict[str, float]]:
    """What the first value and gradient take in fresh processes, imports left out: medians."""
    found: dict[str, list[dict[str, Any]]] = {}
    for library in [name for name in METHODS if interpreter(name)] * repeats:
        answer = fresh(library, path, threads, "deep", "one")
        if answer is not None:
            found.setdefault(library, []).append(answer)
    return {
        library: {name: statistics.median(one[asked] for one in answers) for name, asked in FIRST}
        for library, answers in found.items()
    }


def drawn(process: Worker, paths: tuple[str, str], draws: int) -> dict[str, str]:
    """The mean over draws and its standard error, and the value where nothing is drawn.

    Args:
        process: a worker.
        paths: of the problem, and of the one without draws.
        draws: how many; of many points at a time, a tenth of it and at least two.
    """
    method, count = (
        ("many", max(draws // 10, 2)) if process.library == "cavity" else ("one", draws)
    )
    for name, path, asked in zip(("drawn", "certain"), paths, (method, "one"), strict=True):
        process.ask("build", name=name, kind="deep", path=path, method=asked)
    values = [process.ask("call", name="drawn")["value"] for _ in range(count)]
    certain = process.ask("call", name="certain")["value"]
    mean, error = statistics.mean(values), statistics.stdev(values) / np.sqrt(count)
    return {"mean": f"{mean:.2f}", "error": f"{error:.2f}", "certain": f"{certain:.6f}"}


def rows(answers: Answers, others: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A row per job, beside cavity's of the same method.

    Args:
        answers: of the turns, by library and method.
        others: what is known of `one` by library beside its times.
    """
    found = []
    for name, given in answers.items():
        library, method = name.split(" ")
        ours, times = answers.get(f"cavity {method}"), summary(given)
        row = {"library": library, "method": method} | times
        for unit in ("ms", "cpu_ms"):
            row[f"{unit}_over_cavity"] = times[unit] / summary(ours)[unit] if ours else ""
        # after other programs in one process a first call says little
        del row["first_ms"]
        known = others.get(library, {}) if method == "one" else {}
        found.append(row | {name: known.get(name, "") for name in NAMES})
    return found


def measure(record: Record, path: str, certain: str) -> None:
    """All libraries in turn, in one process each; first calls in processes of their own."""
    turns, draws, starts = (2, 3, 1) if record.quick else (TURNS, DRAWS, STARTS)
    first = first_calls(path, record.threads, starts)
    with contextlib.ExitStack() as stack:
        workers, jobs = started(stack, METHODS, "deep", path, record.threads)
        watch = Watch(list(workers.values()))
        answers = taking_turns(jobs, turns, STEPS)
        others = watch.others()
        known = {
            library: first.get(library, {}) | drawn(process, (path, certain), draws)
            for library, process in workers.items()
            if f"{library} one" in answers
        }
        for row in rows(answers, known):
            version = workers[row["library"]].version
            key = {"threads": record.threads, "version": version, "others": others}
            record.add(row | key | {"turns": turns, "steps": STEPS, "draws": draws})


def main(record: Record) -> None:
    """The one size, where it is not there yet."""
    if record.has(threads=record.threads):
        return
    N, M, batch = SMALL if record.quick else SIZES
    problem = problems.deep(N, M, batch=batch, steps=STEPS * (TURNS + 1))
    with tempfile.TemporaryDirectory() as folder:
        path = problems.save(problem, folder, "problem")
        measure(record, path, problems.save(problem | CERTAIN, folder, "certain"))
