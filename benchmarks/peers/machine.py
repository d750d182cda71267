"""What the machine is, and how busy others keep it."""

import contextlib
import os
import platform
import time
from pathlib import Path

from benchmarks.peers.workers import PeerFailed, Worker


def processor() -> str:
    """The name of the processor."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()


def busy() -> float | None:
    """Processor seconds that all processes have used; None where the system does not say."""
    path = Path("/proc/stat")
    if not path.exists():
        return None
    counts = [int(word) for word in path.read_text().split("\n", 1)[0].split()[1:]]
    return (sum(counts[:3]) + sum(counts[5:8])) / os.sysconf("SC_CLK_TCK")


class Watch:
    """How many cores others kept busy while some workers worked.

    Args:
        workers: those that are not others.
    """

    def __init__(self, workers: list[Worker]):
        self.workers, self.began = workers, time.perf_counter()
        self.used: dict[str, float] = {}
        self.busy, self.ours = busy(), self._ours()

    def _ours(self) -> float:
        for worker in self.workers:
            with contextlib.suppress(PeerFailed):  # of one that ended, what it used before
                self.used[worker.library] = worker.ask("peak")["cpu"]
        return sum(self.used.values())

    def others(self) -> float | str:
        """Cores; empty where the system does not say."""
        now, wall = busy(), time.perf_counter() - self.began
        if now is None or self.busy is None:
            return ""
        return max(0.0, (now - self.busy - (self._ours() - self.ours)) / wall)
