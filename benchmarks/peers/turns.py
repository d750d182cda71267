"""One call of each library in turn: objectives with gradients, steps, EP, predictions."""

import contextlib
import tempfile
from collections.abc import Mapping
from typing import Any

from benchmarks.peers import problems
from benchmarks.peers.machine import Watch
from benchmarks.peers.record import Record
from benchmarks.peers.workers import (
    LIBRARIES,
    PeerFailed,
    Worker,
    interpreter,
    summary,
    taking_turns,
    worker,
)

Job = tuple[str, str]  # library and method
SPARSE: dict[str, tuple[str, ...]] = {
    "cavity": ("vfe", "fitc", "power"),
    "gpflow": ("vfe", "fitc"),
    "gpytorch": ("vfe",),
    "gpjax": ("vfe",),
    "gpy": ("vfe", "fitc", "power"),
}
# What each task asks of whom.
TASKS: dict[str, tuple[str, Mapping[str, tuple[str, ...]]]] = {
    "exact": (
        "evaluation",
        dict.fromkeys(LIBRARIES, ("exact",)) | {"gpytorch": ("exact", "exact_default")},
    ),
    "sparse": ("evaluation", SPARSE),
    "latent": ("evaluation", {"cavity": ("latent",), "gpflow": ("latent",)}),
    "step": ("step", dict.fromkeys(LIBRARIES[:4], ("svgp",))),
    "prediction": ("prediction", dict.fromkeys(LIBRARIES[:5], ("vfe",))),
    "ep_full": ("classify", {"cavity": ("full",), "gpy": ("full",)}),
    "ep_sparse": ("classify", {"cavity": ("sparse",), "gpy": ("sparse",)}),
}
# Rows and inducing points.
SIZES = {
    "exact": ((2_000, 1),),
    "sparse": ((10_000, 200), (20_000, 500), (100_000, 500)),
    "latent": ((1_000, 50),),
    "step": ((10_000, 200),),
    "prediction": ((10_000, 200),),
    "past": ((10_000, 200),),
    "conditioning": ((10, 200), (100, 200), (1_000, 200)),
    "ep_full": ((1_000, 1),),
    "ep_sparse": ((2_000, 50),),
}
QUICK = {
    "exact": ((200, 1),),
    "sparse": ((500, 20),),
    "latent": ((200, 10),),
    "step": ((500, 20),),
    "prediction": ((500, 20),),
    "past": ((500, 20),),
    "conditioning": ((10, 20),),
    "ep_full": ((100, 1),),
    "ep_sparse": ((100, 10),),
}
# GPyTorch adds jitter only where a factorisation fails.
WITHOUT_JITTER = ("gpytorch",)
# The same of models that go on after rows that they have learned.
STREAMING: dict[str, tuple[str, Mapping[str, tuple[str, ...]]]] = {
    "past": ("past", dict.fromkeys(("cavity", "streaming"), ("vfe", "power"))),
    "conditioning": ("conditioning", {"cavity": ("vfe",), "gpytorch": ("vfe", "vfe_default")}),
}


def problem(task: str, N: int, M: int, steps: int) -> dict[str, Any]:
    """The problem of a task."""
    if task == "latent":
        return problems.latent(N, M)
    if task in STREAMING:
        return problems.continued(N, M, before=10_000 if M > 20 else 500)
    if task == "prediction":
        return problems.synthetic(N, M, tests=N)
    return problems.synthetic(N, M, 4 if task == "ep_full" else 8, steps=steps)


def measure(task: str, N: int, M: int, record: Record, repeats: int) -> None:
    """All libraries on one problem, in turn; a row for each library and method."""
    key = {"task": task, "N": N, "M": M if M > 1 else 0, "threads": record.threads}
    if record.has(**key):
        return
    kind, asked = (TASKS | STREAMING)[task]
    print(f"-- {task}, {N} rows, {M} inducing points", flush=True)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        found = problem(task, N, M, repeats + 3)
        path = problems.save(found, folder, "problem")
        workers, jobs = started(stack, asked, kind, path, record.threads)
        watch = Watch(list(workers.values()))
        answers = taking_turns(jobs, repeats)
        others = watch.others()
        there = task == "sparse" and "cavity vfe" in answers
        bare = without_jitter(workers["cavity"], found, folder) if there else {}
        for row in rows(answers, workers, bare):
            record.add(key | row | {"repeats": repeats, "others": others})


def started(
    stack: contextlib.ExitStack,
    asked: Mapping[str, tuple[str, ...]],
    kind: str,
    path: str,
    threads: int,
) -> tuple[dict[str, Worker], dict[str, tuple[Worker, str]]]:
    """The workers of the libraries that are there, and what they have built, by name.

    Args:
        stack: which ends the workers.
        asked: methods by library.
        kind: of the jobs.
        path: of the problem.
        threads: of each library.
    """
    workers: dict[str, Worker] = {}
    jobs: dict[str, tuple[Worker, str]] = {}
    for library, methods in asked.items():
        if interpreter(library) is None:
            print(f"{library} has no environment: make bench-environments", flush=True)
            continue
        try:
            workers[library] = stack.enter_context(worker(library, threads))
        except PeerFailed as failure:
            print(failure, flush=True)
            continue
        jobs |= built(workers[library], kind, methods, path)
    return workers, jobs


def built(process: Worker, kind: str, methods: tuple[str, ...], path: str) -> dict[str, Any]:
    """The jobs of one library, by name."""
    jobs = {}
    for method in methods:
        options = {} if kind == "step" else {"method": method}
        try:
            process.ask("build", name=method, kind=kind, path=path, **options)
        except PeerFailed as failure:
            print(failure, flush=True)
            return {}
        jobs[f"{process.library} {method}"] = (process, method)
    return jobs


def without_jitter(process: Worker, found: dict[str, Any], folder: str) -> dict[str, float]:
    """The value of cavity's bound with next to no jitter."""
    path = problems.save(found | {"jitter": 1e-12}, folder, "bare")
    process.ask("build", name="bare", kind="evaluation", path=path, method="vfe")
    return {"vfe": process.ask("call", name="bare")["value"]}


def rows(
    answers: dict[str, list[dict]], workers: dict[str, Worker], bare: dict[str, float]
) -> list[dict[str, Any]]:
    """A row per job, beside cavity's of the same method."""
    found = []
    for name, given in answers.items():
        library, method = name.split(" ")
        ours = answers.get(f"cavity {method.removesuffix('_default')}")
        row = {"library": library, "version": workers[library].version, "method": method}
        times, value = summary(given), given[0]["value"]
        row |= times | {"value": f"{value:.6f}", "difference": "", "over_cavity": ""}
        if ours:
            same = ours[0]["value"]
            if library in WITHOUT_JITTER:
                same = bare.get(method, same)
            row |= {"difference": float(value - same)}
            row |= {"over_cavity": times["ms"] / summary(ours)["ms"]}
        found.append(row)
    return found


def main(record: Record, repeats: int, *, quick: bool, only: tuple[str, ...]) -> None:
    """Every task at every size."""
    for task, sizes in (QUICK if quick else SIZES).items():
        for N, M in sizes if not only or task in only else ():
            turns = {"step": 40, "prediction": 10}.get(task, repeats)
            measure(task, N, M, record, 2 if quick else turns)
