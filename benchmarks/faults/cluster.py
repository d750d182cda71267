"""A scheduler and workers of Dask, each a process that can be killed, stopped and started."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

# Seconds in which a process must have started, on a machine with other work.
STARTED = 120.0


class Cluster:
    """Processes on this computer, on loopback addresses, each with a folder of its own.

    Args:
        folder: an empty one.
        workers: how many there are at first.
    """

    def __init__(self, folder: Path, workers: int):
        folder.mkdir()
        self.folder, self.count = folder, 0
        file = folder / "scheduler.json"
        words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        self.scheduler = self._start("scheduler", *words, "--scheduler-file", str(file))
        wait_until(lambda: file.exists() and file.read_text().endswith("}"))
        self.client = Client(scheduler_file=str(file), set_as_default=False)
        self.address = str(json.loads(file.read_text())["address"])
        self.workers: list[subprocess.Popen] = []
        for _ in range(workers):
            self.add()
        self.client.wait_for_workers(workers, timeout=STARTED)

    def _start(self, kind: str, *words: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "dask", kind, *words]
        name = f"{kind}-{self.count}"
        self.count += 1
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)

    def add(self, *words: str) -> None:
        """Starts a worker."""
        folder = self.folder / f"of-{self.count}"
        folder.mkdir()
        own = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        where = ("--local-directory", str(folder), "--death-timeout", "60")
        self.workers.append(self._start("worker", self.address, *own, *where, *words))

    def kill(self, random: np.random.Generator) -> bool:
        """Ends one of the workers that have started; false where there is none."""
        known = self.processes()
        if not known:
            return False
        worker = known[random.integers(len(known))]
        worker.kill()
        worker.wait()
        self.workers.remove(worker)
        return True

    def kill_all(self) -> None:
        """Ends all workers."""
        for worker in self.workers:
            worker.kill()
        for worker in self.workers:
            worker.wait()
        self.workers.clear()

    def processes(self) -> list[subprocess.Popen]:
        """The workers that the scheduler knows."""
        known = set(self.pids())
        return [worker for worker in self.workers if worker.pid in known]

    def pids(self) -> list[int]:
        """Numbers of the processes of the workers that the scheduler knows."""
        found: Any = self.client.run(os.getpid)
        return list(found.values())

    def kill_scheduler(self) -> None:
        """Ends the scheduler."""
        self.scheduler.kill()
        self.scheduler.wait()

    def end(self) -> None:
        """Ends everything."""
        for worker in self.workers:
            worker.send_signal(signal.SIGCONT)
        self.client.close(timeout=5)
        self.kill_all()
        self.kill_scheduler()


def wait_until(true, seconds: float = STARTED) -> None:
    """Waits for something to become true.

    Raises:
        TimeoutError: where it does not.
    """
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing came in {seconds:g} seconds")
        time.sleep(0.05)
