"""The process of one library and one job, which prints one line of JSON.

python -m benchmarks.startup.worker LIBRARY JOB, run by the interpreter of its environment.
"""

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

PACKAGES = {"sklearn": "scikit-learn"}


class Parts:
    """Parts of a job, measured as they run.

    Args:
        programs: of the library: `begin` is called before a part, and `end` gives the counts.
    """

    def __init__(self, programs: Any):
        self.programs, self.found = programs, []

    @contextlib.contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Measures what runs within, under the name of a row."""
        if self.programs is not None:
            self.programs.begin()
        start, cpu = time.perf_counter(), _cpu()
        yield
        row = {"what": what, "cpu_s": _cpu() - cpu, "seconds": time.perf_counter() - start}
        self.found.append(row | ({} if self.programs is None else self.programs.end()))


def _cpu() -> float:
    """Processor seconds of this process so far, and of those that it started."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    library, job = sys.argv[1:]
    module = importlib.import_module(f"benchmarks.startup.with_{library}")
    parts = Parts(getattr(module, "PROGRAMS", None))
    getattr(module, job)(parts)
    found = {"version": version(PACKAGES.get(library, library)), "parts": parts.found}
    print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
