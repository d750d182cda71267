"""Faults of worker processes, of the scheduler, of the process of the fit and of a disk."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.faults.cluster import STARTED, Cluster, wait_until
from benchmarks.faults.problem import BEGUN, ITERATIONS, bits, fitted
from cavity.engines import Dask, EngineError
from cavity.fitting import Checkpoint

WORKERS = 3
# Seconds that a fit may take to end where nothing can go on, beside its patience.
ENDED = 60.0
# A worker that may write no file, as one whose disk is full; nor half of a compiled program, which
# others would read.
NO_FILES = """import os
import resource

os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"

def dask_setup(worker):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
"""


class Options(NamedTuple):
    """What is asked of a kind of fault.

    Attributes:
        tries: how often it is made.
        seed: of its moments.
        stopped: seconds for which a worker stands still.
        patience: seconds to wait for a worker.
    """

    tries: int
    seed: int
    stopped: float
    patience: float


class Outcome(NamedTuple):
    """What came of a try.

    Attributes:
        ended: whether it ended as it should.
        same: whether the result has the bits of a fit without faults.
        retries: parts that were done again.
        told: what was noticed.
        of: the fault, where a kind has several.
    """

    ended: bool
    same: bool
    retries: int = 0
    told: str = ""
    of: str = ""


@contextlib.contextmanager
def started(workers: int = WORKERS) -> Iterator[tuple[Cluster, Path]]:
    """A cluster, and the folder of a checkpoint."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        cluster = Cluster(Path(name) / "cluster", workers)
        try:
            yield cluster, Path(name) / "checkpoint"
        finally:
            cluster.end()


@contextlib.contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Does something in a thread, which is told to end by an event."""
    over, errors = threading.Event(), []

    def run() -> None:
        try:
            work(over)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if errors:
        raise errors[0]


class Moment:
    """A random moment of a fit: some time after one of its iterations, the last ones left out."""

    def __init__(self, random: np.random.Generator):
        self.after, self.seconds = int(random.integers(ITERATIONS - 3)), random.uniform(0.0, 0.5)
        self.passed, self.reached = 0, threading.Event()
        self.at = 0.0

    def callback(self, progress: object) -> None:
        """Notes an iteration."""
        del progress
        self.passed += 1
        if self.passed > self.after:
            self.reached.set()

    def wait(self, over: threading.Event) -> bool:
        """Waits for the moment; false where the fit is over before."""
        while not self.reached.wait(0.05):
            if over.is_set():
                return False
        come = not over.wait(self.seconds)
        self.at = time.monotonic()
        return come


def workers(options: Options) -> Iterator[Outcome]:
    """Random workers are killed during fits, and others started in their place."""
    random, wanted = np.random.default_rng(options.seed), bits(fitted(None, pause=0.0))
    kills = 0
    with started() as (cluster, _):

        def killing(over: threading.Event) -> None:
            nonlocal kills
            while kills < options.tries and not over.wait(random.exponential(1.5)):
                kills += cluster.kill(random)
                cluster.add()

        while kills < options.tries:
            engine, before = Dask(cluster.client), kills
            with meanwhile(killing):
                found = bits(fitted(engine))
            for _ in range(kills - before):
                yield Outcome(True, found == wanted, engine.retries)
                engine.cluster.retries = 0  # each is counted once


def client(options: Options) -> Iterator[Outcome]:
    """The process of the fit is killed, and the fit goes on from its checkpoint in another."""
    random, wanted = np.random.default_rng(options.seed), bits(fitted(None, pause=0.0))
    with started() as (cluster, folder):
        folder.mkdir()
        made = 0
        while made < options.tries:
            first = _going_on(cluster, folder / f"{made}")
            for _ in range(random.integers(ITERATIONS - 2)):
                _said(first)
            time.sleep(random.uniform(0.0, 0.5))
            killed = first.poll() is None
            first.kill()
            first.communicate()
            second = _going_on(cluster, folder / f"{made}")
            found = second.communicate()[0].split("\n")
            made += killed
            if killed:
                yield Outcome(second.returncode == 0, wanted in found)


def _going_on(cluster: Cluster, folder: Path) -> subprocess.Popen:
    """A process that has begun to fit, or to go on from a checkpoint."""
    words = ["-m", "benchmarks.faults.problem", cluster.address, str(folder)]
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    _said(process)
    return process


def _said(process: subprocess.Popen) -> None:
    """Waits until a fit says that it goes on."""
    assert process.stdout is not None
    if process.stdout.readline().strip() != BEGUN:
        raise RuntimeError("the process of the fit ended")


def interrupted(
    engine: Dask, folder: Path, fault: Callable[[], object], moment: Moment
) -> tuple[str, float]:
    """The message of a fit that cannot end, and how long after the fault it came.

    Empty where it ended before the fault.
    """

    def strike(over: threading.Event) -> None:
        if moment.wait(over):
            fault()

    try:
        with meanwhile(strike):
            fitted(engine, Checkpoint(folder), callback=moment.callback)
    except EngineError as error:
        return str(error), time.monotonic() - moment.at
    return "", 0.0


def scheduler(options: Options) -> Iterator[Outcome]:
    """The scheduler is killed: the fit says so, and goes on with another from its checkpoint."""
    random, wanted = np.random.default_rng(options.seed), bits(fitted(None, pause=0.0))
    made = 0
    while made < options.tries:
        with started(2) as (cluster, folder):
            engine = Dask(cluster.client)
            fault = cluster.kill_scheduler
            said, took = interrupted(engine, folder, fault, Moment(random))
            if not said:
                continue
            with started(2) as (other, _):
                found = bits(fitted(Dask(other.client), Checkpoint(folder, resume=True)))
        made += 1
        yield Outcome(took < ENDED, found == wanted, 0, f"after {took:.0f} s: {said}")


def gone(options: Options) -> Iterator[Outcome]:
    """All workers are killed: the fit waits, says so, and goes on with others."""
    random, wanted = np.random.default_rng(options.seed), bits(fitted(None, pause=0.0))
    made = 0
    with started(2) as (cluster, folder):
        while made < options.tries:
            engine = Dask(cluster.client, patience=options.patience)
            kept = folder.with_name(f"{folder.name}-{made}")
            said, took = interrupted(engine, kept, cluster.kill_all, Moment(random))
            cluster.add()
            cluster.add()
            cluster.client.wait_for_workers(2, timeout=STARTED)
            found = bits(fitted(Dask(cluster.client), Checkpoint(kept, resume=True)))
            made += bool(said)
            if said:
                waited = options.patience <= took < options.patience + ENDED
                yield Outcome(waited, found == wanted, 0, f"after {took:.0f} s: {said}")


def stopped(options: Options) -> Iterator[Outcome]:
    """A worker stands still for a while: its parts go to others."""
    random, wanted = np.random.default_rng(options.seed), bits(fitted(None, pause=0.0))
    with started(2) as (cluster, _):
        for _ in range(options.tries):
            moment, engine = Moment(random), Dask(cluster.client)
            worker = cluster.processes()[0]

            def standing(
                over: threading.Event,
                moment: Moment = moment,
                worker: subprocess.Popen = worker,
            ) -> None:
                if moment.wait(over):
                    worker.send_signal(signal.SIGSTOP)
                    over.wait(options.stopped)
                    worker.send_signal(signal.SIGCONT)

            with meanwhile(standing):
                found = bits(fitted(engine, callback=moment.callback))
                after = time.monotonic() - moment.at
            told = f"ended {after:.0f} s after the stop of {options.stopped:g} s"
            yield Outcome(engine.retries > 0, found == wanted, engine.retries, told)
            wait_until(lambda: len(cluster.pids()) == 2)


def disk(options: Options) -> Iterator[Outcome]:
    """One worker may write no files, where sites of rows are kept: its parts go elsewhere."""
    wanted = bits(fitted(None, labels=True, pause=0.0))
    with started(1) as (cluster, folder):
        preload = folder.with_suffix(".py")
        preload.write_text(NO_FILES)
        cluster.add("--preload", os.fspath(preload))
        cluster.client.wait_for_workers(2, timeout=STARTED)
        for _ in range(options.tries):
            engine = Dask(cluster.client)
            found = bits(fitted(engine, labels=True))
            yield Outcome(engine.retries > 0, found == wanted, engine.retries)
