"""Accuracy that default settings must reach, against figures published for other libraries.

python -m benchmarks.anchors [--splits 3]
"""

import argparse
import time

import numpy as np

import cavity
from benchmarks.data import Split, uci, waves
from benchmarks.results import Table

TABLE = Table("anchors.csv", ("set", "M", "power", "split"))


def measure(name: str, data: Split, M: int, power: float, split: int) -> None:
    """Fits with default settings, prints and adds a row."""
    if TABLE.has(set=name, M=M, power=power, split=split):
        return
    X, y, X_test, y_test = data
    start = time.perf_counter()
    model = cavity.GPRegressor(n_inducing=M, power=power, random_state=0).fit(X, y)
    seconds = time.perf_counter() - start
    row = {
        "set": name,
        "M": M,
        "power": power,
        "split": split,
        "rmse": float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))),
        "mean_log_density": float(np.mean(model.log_predictive_density(X_test, y_test))),
        "log_evidence": model.log_evidence_,
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "seconds": seconds,
    }
    print(row, flush=True)
    TABLE.add(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=3)
    splits = parser.parse_args().splits
    for power in (0.0, 1.0):
        for split in range(splits):
            measure("kin8nm", uci("kin8nm", split), 100, power, split)
    measure("waves", waves(), 200, 0.0, 0)


if __name__ == "__main__":
    main()
