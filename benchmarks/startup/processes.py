"""Processes that run from beginning to end, and what they take of the processor."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers.workers import ROOT, capped, interpreter

# What would keep compiled programs, or not keep compiled Python files.
LEFT_OUT = ("JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE")


class Ended(NamedTuple):
    """A process that has ended.

    Attributes:
        said: its standard output.
        cpu_s: processor seconds of it, and of those that it started.
    """

    said: str
    cpu_s: float


def python_of(library: str) -> Path | None:
    """The interpreter that has a library; cavity brings scikit-learn. None where there is none."""
    found = interpreter(library)
    return Path(sys.executable) if found is None and library == "sklearn" else found


def plain(threads: int) -> dict[str, str]:
    """The environment of a process of so many threads, without settings of this one."""
    return {k: v for k, v in capped("", threads).items() if k not in LEFT_OUT}


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Keeps this process, and those that it starts, on one core where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def run(
    command: Sequence[str | Path], environment: Mapping[str, str], folder: Path = ROOT
) -> Ended:
    """Runs a process in a folder and waits for it.

    Raises:
        RuntimeError: where it fails, with the end of what it said.
    """
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
        line = [str(part) for part in command]
        process = subprocess.Popen(
            line, stdout=said, stderr=errors, cwd=folder, env=dict(environment)
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        errors.seek(0)
        if process.returncode:
            raise RuntimeError(f"{' '.join(line)}\n{errors.read()[-2000:]}")
        return Ended(said.read(), usage.ru_utime + usage.ru_stime)


def job_of(library: str, job: str) -> dict[str, Any]:
    """What the worker of a library says of a job, and the processor seconds of its process."""
    python = python_of(library)
    assert python is not None
    ended = run([python, "-m", "benchmarks.startup.worker", library, job], plain(1))
    return json.loads(ended.said.splitlines()[-1]) | {"whole_process_cpu_s": ended.cpu_s}


def seconds_of(code: str) -> dict[str, float]:
    """What Python code prints as JSON, in a process with all cores."""
    return json.loads(run([sys.executable, "-c", code], plain(os.cpu_count() or 1)).said)
