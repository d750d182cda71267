"""Whole fits of SGPR from the same start: objective against time, and what they predict."""

import tempfile
from typing import Any

from benchmarks.peers import problems
from benchmarks.peers.machine import Watch
from benchmarks.peers.record import Record
from benchmarks.peers.workers import LIBRARIES, PeerFailed, interpreter, worker

SETS = (("kin40k", 200), ("kin40k", 500), ("protein", 500), ("pol", 500))
POINTS = 60  # of a trace that is kept
# cavity is asked when it is where the others end, however many iterations that takes.
ENOUGH = 1_000
Trace = list[tuple[float, float]]


def reached(trace: Trace, value: float) -> float | None:
    """Seconds after which a trace is at a value or above; None if never."""
    return next((seconds for seconds, found in trace if found >= value), None)


def thinned(trace: Trace) -> Trace:
    """At most so many points of a trace, the first and the last among them."""
    if len(trace) <= POINTS:
        return trace
    chosen = {round(i * (len(trace) - 1) / (POINTS - 1)) for i in range(POINTS)}
    return [trace[i] for i in sorted(chosen)]


def measure(
    name: str, M: int, record: Record, traces: Record, iterations: int, seconds: float
) -> None:
    """One set: a fit by each library, one after the other."""
    key = {"set": name, "M": M, "threads": record.threads}
    if record.has(**key):
        return
    try:
        problem = problems.table(name, M, 1_000 if record.quick else None)
    except OSError as missing:
        print(f"{name} is left out: {missing}", flush=True)
        return
    print(f"-- {name}, {len(problem['X'])} rows, {M} inducing points", flush=True)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = problems.save(problem, folder, "problem")
        for library in [one for one in LIBRARIES[:5] if interpreter(one)]:
            fitted = fit(library, path, record.threads, iterations, seconds)
            if fitted is not None:
                found[library] = fitted
    key |= {"N": len(problem["X"]), "D": problem["X"].shape[1]}
    for row in rows(found):
        record.add(key | row | {"limit_seconds": seconds})
    for library, fitted in found.items():
        for spent, value in thinned(fitted["trace"]):
            row = {"library": library, "seconds": spent, "objective": f"{value:.4f}"}
            traces.add(key | row)


def fit(
    library: str, path: str, threads: int, iterations: int, seconds: float
) -> dict[str, Any] | None:
    """What a fit in a fresh process gives; None if it fails."""
    try:
        with worker(library, threads) as process:
            watch = Watch([process])
            steps = ENOUGH if library == "cavity" else iterations
            found = process.ask("fit", path=path, iterations=steps, seconds=seconds)
            found |= {"version": process.version, "others": watch.others()}
            return found | {"iterations": steps}
    except PeerFailed as failure:
        print(failure, flush=True)
        return None


def rows(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A row per library, with the time at which cavity is where that library ends."""
    ours: Trace = found.get("cavity", {"trace": []})["trace"]
    made = []
    for library, fitted in found.items():
        end = fitted["trace"][-1][1]
        there = reached(ours, end)
        row = {"library": library, "version": fitted["version"], "seconds": fitted["seconds"]}
        row |= {"objective": f"{end:.4f}", "rmse": fitted["rmse"], "density": fitted["density"]}
        row |= {"cavity_seconds": "" if there is None else there}
        share = "" if there is None else there / fitted["seconds"]
        row |= {"share": share, "others": fitted["others"]}
        made.append(row | {"iterations": fitted["iterations"]})
    return made


def main(record: Record, traces: Record, iterations: int, seconds: float) -> None:
    """Every set."""
    for name, M in (("kin40k", 20),) if record.quick else SETS:
        measure(name, M, record, traces, iterations, 10.0 if record.quick else seconds)
