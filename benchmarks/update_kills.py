"""A run of updates from the command line that is killed at random moments.

Each update is killed (SIGKILL) at random moments, every second time near its end, where the
file is written, and repeated until it succeeds. An update that ended before its kill is given
again, and must be skipped. After every update the model must be that of a run without kills, to
the last bit.

python -m benchmarks.update_kills [--updates 50] [--kills 100] [--seed 0]
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
import polars as pl

from benchmarks.results import Table
from cavity.tables.table_model import TableModel

TABLE = Table("update_kills.csv", ("updates", "kills", "seed"))
ROWS = 20


def write(path: Path, number: int) -> None:
    """A few rows of a smooth function with noise."""
    random = np.random.default_rng([1, number])
    X = random.uniform(-2.0, 2.0, (ROWS, 2))
    y = np.sin(X.sum(axis=1)) + 0.1 * random.normal(size=ROWS)
    pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).write_csv(path)


def command(folder: Path, *arguments: object) -> subprocess.Popen:
    """The command at work in a folder."""
    words = [sys.executable, "-m", "cavity", *map(str, arguments)]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def update(folder: Path, model: str, number: int) -> subprocess.Popen:
    """An update at the parameters at hand; points move."""
    return command(folder, "update", model, f"{number}.csv", "--out", model, "--no-learn")


def finished(process: subprocess.Popen) -> None:
    """Waits for a command, which must succeed."""
    _, err = process.communicate()
    assert process.returncode == 0, err.decode()


def killed(process: subprocess.Popen, delay: float) -> bool:
    """Whether a command was still at work when it was killed after some seconds."""
    try:
        process.communicate(timeout=delay)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    return process.returncode != 0


def alike(folder: Path) -> bool:
    """Whether both models are the same to the last bit."""
    ours, wanted = (TableModel.load(folder / name) for name in ("m.cavity", "n.cavity"))
    pairs = zip(jax.tree.leaves(ours.posterior), jax.tree.leaves(wanted.posterior), strict=True)
    same = all(np.array_equal(a, b) for a, b in pairs)
    return same and ours.record == wanted.record and ours.memory == wanted.memory


def run(folder: Path, updates: int, kills: int, seed: int) -> None:
    """Two runs side by side, one of which is killed."""
    for number in range(updates + 1):
        write(folder / f"{number}.csv", number)
    options = ("--target", "y", "--inducing", 8, "--max-iterations", 3)
    finished(command(folder, "fit", "0.csv", "--out", "n.cavity", *options))
    shutil.copy(folder / "n.cavity", folder / "m.cavity")
    random, began = np.random.default_rng(seed), time.perf_counter()
    tally, took = {"killed": 0, "ended_before": 0, "alike": 0}, np.inf
    for number in range(1, updates + 1):
        start = time.perf_counter()
        finished(update(folder, "n.cavity", number))
        # the first compiles, and moments of the others are shares of the quickest
        took = min(took, time.perf_counter() - start)
        for _ in range(updates * kills):
            if tally["killed"] >= kills * number / updates:
                break
            first = 0.8 if sum(tally.values()) % 2 else 0.0
            hit = killed(update(folder, "m.cavity", number), random.uniform(first, 1.0) * took)
            tally["killed" if hit else "ended_before"] += 1
        finished(update(folder, "m.cavity", number))
        tally["alike"] += alike(folder)
        row = {"updates": updates, "kills": kills, "seed": seed, "done": number, **tally}
        TABLE.add(row | {"seconds": time.perf_counter() - began})
        print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=50)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        run(Path(name), options.updates, options.kills, options.seed)


if __name__ == "__main__":
    main()
