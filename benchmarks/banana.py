"""Banana, 400 training and 4,900 test rows, with 20 inducing points that are learned.

Each fit is made twice in a fresh process: with compilation, and once all is compiled.

python -m benchmarks.banana [--powers 0 0.5 1]
"""

import argparse
import json
import subprocess
import sys
import time
import warnings

import numpy as np

from benchmarks.data import FOLDER
from benchmarks.results import Table

TABLE = Table("banana.csv", ("power",))


def data() -> list[np.ndarray]:
    """Training inputs and labels, test inputs and labels."""
    found = []
    for part in ("train", "test"):
        for what in ("x", "y"):
            path = FOLDER / "banana_gp" / f"streaming_banana_{part}_{what}.txt.gz"
            found.append(np.loadtxt(path, delimiter=","))
    return [found[0], found[1] > 0.0, found[2], found[3] > 0.0]


def run(power: float) -> dict:
    """Two fits in this process."""
    import cavity

    X, y, X_test, y_test = data()
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        with warnings.catch_warnings(action="ignore"):
            model = cavity.GPClassifier(n_inducing=20, power=power, random_state=0).fit(X, y)
        seconds.append(time.perf_counter() - start)
    chance = model.predict_proba(X_test)[:, 1]
    density = np.where(y_test, np.log(chance), np.log1p(-chance))
    return {
        "power": power,
        "error": float(np.mean((chance > 0.5) != y_test)),
        "nlpp": float(-np.mean(density)),
        "log_evidence": model.log_evidence_,
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "seconds_with_compilation": seconds[0],
        "seconds": seconds[1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--powers", type=float, nargs="*", default=[0.0, 0.5, 1.0])
    parser.add_argument("--here", type=float, default=None, help="one power, in this process")
    asked = parser.parse_args()
    if asked.here is not None:
        print(json.dumps(run(asked.here)))
        return
    for power in asked.powers:
        command = [sys.executable, "-m", "benchmarks.banana", "--here", str(power)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        row = json.loads(done.stdout.splitlines()[-1])
        print(row, flush=True)
        TABLE.add(row)


if __name__ == "__main__":
    main()
