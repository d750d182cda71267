"""Fresh processes: import, first value and gradient, and the memory of one at a large size."""

import json
import statistics
import subprocess
import tempfile
from typing import Any

from benchmarks.peers import problems
from benchmarks.peers.record import Record
from benchmarks.peers.workers import (
    LIBRARIES,
    ROOT,
    PeerFailed,
    capped,
    interpreter,
    worker,
)

# What a session begins with, and what that rests on.
IMPORTS = {
    "cavity": ("import cavity; cavity.GP, cavity.fit", "import jax"),
    "gpflow": ("import gpflow", "import tensorflow"),
    "gpytorch": ("import gpytorch", "import torch"),
    "gpjax": ("import gpjax", "import jax"),
    "gpy": ("import GPy", "import numpy"),
    "sklearn": ("import sklearn.gaussian_process", "import numpy"),
}
TIMED = (
    "import json, time; s = time.perf_counter()\n{}\nprint(json.dumps(time.perf_counter() - s))"
)


def imports(record: Record, repeats: int) -> None:
    """Seconds to import each library, and what it rests on, in fresh processes that take turns."""
    if record.has(what="import", threads=record.threads):
        return
    asked = [(name, part) for name in LIBRARIES if interpreter(name) for part in (0, 1)]
    seconds: dict[tuple[str, int], list[float]] = {one: [] for one in asked}
    for _ in range(repeats + 1):
        for name, part in asked:
            command = [str(interpreter(name)), "-c", TIMED.format(IMPORTS[name][part])]
            options: Any = {"capture_output": True, "text": True, "cwd": ROOT}
            done = subprocess.run(command, check=True, env=capped(name, record.threads), **options)
            seconds[name, part].append(json.loads(done.stdout.splitlines()[-1]))
    for (name, part), found in seconds.items():
        row = {"what": ("import", "import of its floor")[part], "library": name, "N": 0, "M": 0}
        row |= {"seconds": statistics.median(found[1:]), "peak_gb": ""}
        record.add(row | {"version": "", "repeats": repeats, "threads": record.threads})


def first_calls(record: Record, N: int, M: int, what: str, repeats: int) -> None:
    """The first value and gradient of a fresh process, imports left out, and its peak memory."""
    if record.has(what=what, N=N, M=M, threads=record.threads):
        return
    answers: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = problems.save(problems.synthetic(N, M), folder, "problem")
        for library in [name for name in LIBRARIES[:5] if interpreter(name)] * repeats:
            found = fresh(library, path, record.threads)
            if found is not None:
                answers.setdefault(library, []).append(found)
    for library, found in answers.items():
        row: dict[str, Any] = {"what": what, "library": library, "N": N, "M": M}
        row |= {k: statistics.median(one[k] for one in found) for k in ("seconds", "peak_gb")}
        row |= {"version": found[0]["version"], "repeats": repeats}
        record.add(row | {"threads": record.threads})


def fresh(
    library: str, path: str, threads: int, kind: str = "evaluation", method: str = "vfe"
) -> dict[str, Any] | None:
    """Seconds and memory of one bound and its gradient in a process of its own.

    `first_cpu` are the seconds of the processor, `cpu` those of the whole process.
    """
    try:
        with worker(library, threads) as process:
            options = {"kind": kind, "path": path, "method": method}
            built = process.ask("build", name="it", **options)
            called = process.ask("call", name="it")
            spent = {"seconds": built["seconds"] + called["seconds"]}
            spent |= {"first_cpu": built["cpu"] + called["cpu"], "version": process.version}
            return process.ask("peak") | spent
    except PeerFailed as failure:
        print(failure, flush=True)
        return None


def main(record: Record, repeats: int, *, quick: bool) -> None:
    """Imports, first calls, memory."""
    imports(record, 1 if quick else repeats)
    first_calls(record, *((500, 20) if quick else (10_000, 200)), "first call", repeats)
    first_calls(record, *((1_000, 20) if quick else (100_000, 500)), "memory", 1)
