"""What going on costs: time beside work without a past, and memory over many updates.

gradient: value and gradient of the evidence with a past, over those without.
update: `update(learn=False, inducing="keep")` over `infer` on the batch alone.
adf: a row of assumed density filtering, Bernoulli outputs.
memory: a million rows in 1,000 updates that learn: resident memory and file after the tenth and
the last.

10,000 rows and 200 points unless said otherwise; medians of one run, alternating, one thread each.

python -m benchmarks.stream_cost [--only gradient,update,adf,memory] [--updates 1000]
"""

import argparse
import dataclasses
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.peers import problems
from benchmarks.results import Table
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from cavity.models.remembered import posterior_past

TABLE = Table("stream_cost.csv", ("what", "rows", "M"))
PARTS = ("gradient", "update", "adf", "memory")
REPEATS = 9


def alternating(*calls: Callable[[], Any]) -> list[float]:
    """Median seconds of each call, one after the other so that they meet the same machine."""
    for call in calls:
        jax.block_until_ready(call())
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(REPEATS):
        for call, took in zip(calls, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(call())
            took.append(time.perf_counter() - start)
    return [float(np.median(took)) for took in times]


def add(what: str, rows: int, M: int, **figures: float) -> None:
    """Adds a line to the csv."""
    row = {"what": what, "rows": rows, "M": M, **figures}
    TABLE.add({"what": what, "rows": rows, "M": M, "figures": _text(figures)})
    print(row, flush=True)


def _text(figures: dict[str, float]) -> str:
    return " ".join(f"{name}={value:.4g}" for name, value in figures.items())


def problem(rows: int, M: int) -> tuple[cavity.GP, np.ndarray, np.ndarray, np.ndarray]:
    """A model, inputs, outputs and labels, of twice as many rows."""
    made = problems.synthetic(2 * rows, M)
    kernel = cavity.kernels.RBF(1.0, made["lengthscale"])
    model = cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), cavity.inducing.Points(made["Z"]))
    return model, made["X"], made["y"], made["labels"]


def gradient(rows: int, M: int) -> None:
    model, X, y, _ = problem(rows, M)
    earlier = cavity.infer(model, X[rows:], y[rows:])
    alone = prepare(X[:rows], y[:rows], power=0.5)
    for past_power in (0.0, 0.5):
        power = 0.0 if past_power == 0.0 else jnp.asarray(past_power)
        past = posterior_past(earlier.posterior, earlier.log_evidence, power)
        after = dataclasses.replace(alone, past=past)
        both = [Objective(as_dtype(model, data), data) for data in (alone, after)]
        without, with_past = alternating(*(partial(each, each.first) for each in both))
        figures = {"without": without, "with_past": with_past, "ratio": with_past / without}
        add(f"gradient, past at power {past_power:g}", rows, M, **figures)


def update(rows: int, M: int) -> None:
    model, X, y, _ = problem(rows, M)
    earlier = cavity.infer(model, X[rows:], y[rows:])
    earlier = cavity.update(earlier, X[rows:], y[rows:], learn=False, inducing="keep")
    same = {"learn": False, "inducing": "keep"}
    calls = (
        lambda: cavity.infer(model, X[:rows], y[:rows]).log_evidence,
        lambda: cavity.update(earlier, X[:rows], y[:rows], **same).log_evidence,
    )
    alone, going_on = alternating(*calls)
    add("update", rows, M, infer=alone, update=going_on, ratio=going_on / alone)


def adf(rows: int, M: int) -> None:
    model, X, _, labels = problem(rows, M)
    model = cavity.GP(model.kernel, cavity.likelihoods.Bernoulli(), model.inducing)
    once: Any = {"power": 1.0, "learn": False, "inducing": "keep", "one_pass": True}
    earlier = cavity.infer(model, X[rows:], labels[rows:], power=1.0)

    def call() -> Any:
        return cavity.update(earlier, X[:rows], labels[:rows], **once).log_evidence

    (seconds,) = alternating(call)
    add("adf", rows, M, milliseconds_per_row=1e3 * seconds / rows)


def resident() -> float:
    """Resident memory in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def memory(updates: int, rows: int, M: int) -> None:
    random = np.random.default_rng(0)

    def batch() -> tuple[np.ndarray, np.ndarray]:
        X = random.uniform(-3.0, 3.0, (rows, 2))
        return X, np.sin(X.sum(axis=1)) + 0.1 * random.normal(size=rows)

    X, y = batch()
    kernel = cavity.kernels.RBF(1.0, np.ones(2))
    points = cavity.inducing.Points(cavity.initialisation.select_inducing(kernel, X, M))
    result: Any = cavity.infer(cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), points), X, y)
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.cavity"
        for place in range(1, updates + 1):
            result = cavity.update(result, *batch(), memory=20, max_iterations=2)
            if place in (10, updates):
                cavity.fitting.save_module(path, result.posterior, {})
                figures |= {f"resident_{place}": resident()}
                figures |= {f"bytes_{place}": path.stat().st_size}
            if place % 50 == 0:
                print(place, round(resident(), 1), flush=True)
    figures["megabytes_more"] = figures[f"resident_{updates}"] - figures["resident_10"]
    add(f"memory, {updates} updates", rows, M, **figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--updates", type=int, default=1000)
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    parts = asked.only.split(",")
    with one_blas_thread():
        if "gradient" in parts:
            gradient(10_000, 200)
        if "update" in parts:
            update(10_000, 200)
            update(1_000, 200)
        if "adf" in parts:
            adf(1_000, 200)
        if "memory" in parts:
            memory(asked.updates, 1_000, 30)


if __name__ == "__main__":
    main()
