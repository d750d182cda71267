"""Worker processes: started with equal caps on threads, asked in turn."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers import problems

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = Path(os.environ.get("CAVITY_PEERS", ROOT / ".bench"))
LIBRARIES = ("cavity", "gpflow", "gpytorch", "gpjax", "gpy", "sklearn")
FOLDERS = {"sklearn": "scikit-learn", "streaming": "gpflow"}
# Published scripts, below the environments; they are no package.
SCRIPTS = {"streaming": "streaming_sparse_gp"}
# Between turns, so that threads that spin while they wait have gone to sleep.
PAUSE = 0.2


class PeerFailed(RuntimeError):
    """A worker that ended, with the end of what it said."""


def interpreter(library: str) -> Path | None:
    """The interpreter that has a library; None where its environment was not made."""
    if library == "cavity":
        return Path(sys.executable)
    found = ENVIRONMENTS / FOLDERS.get(library, library) / "bin" / "python"
    scripts = SCRIPTS.get(library)
    if scripts and not any((ENVIRONMENTS / scripts).glob(".made*")):
        return None
    return found if found.exists() else None


def capped(library: str, threads: int) -> dict[str, str]:
    """The environment of a process that may use so many threads.

    GPJax gets one BLAS thread, as cavity gives itself: with more its factorisations take longer.
    """
    names = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "TF_INTRAOP", "TF_INTEROP")
    caps = {f"{name}_NUM_THREADS": str(threads) for name in names[:4]}
    caps |= {f"TF_NUM_{name[3:]}_THREADS": str(threads) for name in names[4:]}
    caps |= {"NPROC": str(threads), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    if library == "gpjax":
        caps["OPENBLAS_NUM_THREADS"] = "1"
    kept = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "PYTHONSTARTUP")}
    return kept | caps


class Worker:
    """A process in which one library works.

    Args:
        library: its name.
        command: what starts the process.
        caps: the environment of the process.
        threads: processor cores it may use.
    """

    def __init__(self, library: str, command: list[str], caps: dict[str, str], threads: int):
        self.library, self.said = library, tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
            cwd=ROOT,
            env=caps,
        )
        if hasattr(os, "sched_setaffinity"):  # before it imports what starts threads
            os.sched_setaffinity(self.process.pid, sorted(os.sched_getaffinity(0))[:threads])
        try:
            self.hello = self._answer()
        except PeerFailed:
            self.close()
            raise
        self.version = self.hello["version"]

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.said.seek(0)
            raise PeerFailed(f"{self.library}: {self.said.read()[-2000:]}")
        return json.loads(line)

    def ask(self, what: str, **options: Any) -> dict[str, Any]:
        """Asks, and waits for the answer."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer tells why
            print(json.dumps({"do": what, **options}), file=self.process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.said.close()


@contextlib.contextmanager
def worker(library: str, threads: int) -> Iterator[Worker]:
    """A fresh worker, ended at the end."""
    python = interpreter(library)
    assert python is not None
    command = [str(python), "-m", "benchmarks.peers.worker", library]
    started = Worker(library, command, capped(library, threads), threads)
    try:
        yield started
    finally:
        started.close()


def answer_of(
    library: str, threads: int, problem: dict[str, Any], what: str, **options: Any
) -> dict[str, Any] | None:
    """What a fresh worker answers about a problem, and its version; None where it fails, with why.

    A library without an environment is said to have none.
    """
    if interpreter(library) is None:
        print(f"{library} has no environment: make bench-environments", flush=True)
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = problems.save(problem, folder, "problem")
        try:
            with worker(library, threads) as process:
                return process.ask(what, path=path, **options) | {"version": process.version}
        except PeerFailed as failure:
            print(failure, flush=True)
            return None


def taking_turns(
    jobs: dict[str, tuple[Worker, str]], repeats: int, times: int = 1
) -> dict[str, list[dict]]:
    """The answers of each job called `repeats` times after one call that warms up, in turn.

    A turn is so many calls, one straight after the other.

    A job is a worker and the name of what it has built. The first answer is that of the warming
    call. A job whose worker fails is left out from there on, with what it said.
    """
    answers: dict[str, list[dict]] = {name: [] for name in jobs}
    left = dict(jobs)
    for _ in range(repeats + 1):
        for name, (process, built) in list(left.items()):
            time.sleep(PAUSE)
            try:
                answers[name].append(process.ask("call", name=built, times=times))
            except PeerFailed as failure:
                print(failure, flush=True)
                del left[name], answers[name]
    return answers


def summary(answers: list[dict]) -> dict[str, float]:
    """Milliseconds: of the first call, and median, least and most of the others.

    Beside them the processor's, of all threads, in which those that spin count as well.
    """
    times = [1e3 * answer["seconds"] for answer in answers]
    first, rest = times[0], times[1:] or times
    cpu = statistics.median(1e3 * answer["cpu"] for answer in answers[1:] or answers)
    found = {"ms": statistics.median(rest), "least_ms": min(rest), "most_ms": max(rest)}
    return found | {"first_ms": first, "cpu_ms": cpu}
