"""Test error and density on the standard splits, for powers 0, 0.5 and 1.

python -m benchmarks.uci [--sets boston,concrete] [--splits 5] [--inducing 50,100]
"""

import argparse
import itertools
import time

import numpy as np

import cavity
from benchmarks.data import uci
from benchmarks.results import Table
from cavity.learning.metrics.regression import regression_metrics

SETS = ("yacht", "boston", "energy", "concrete", "wine_red", "kin8nm", "power")
POWERS = (0.0, 0.5, 1.0)
TABLE = Table("uci_regression.csv", ("set", "M", "power", "split"))


def measure(name: str, M: int, power: float, split: int) -> None:
    """Fits one split with default settings and adds a row of results."""
    X, y, X_test, y_test = uci(name, split)
    start = time.perf_counter()
    model = cavity.GPRegressor(n_inducing=M, power=power, random_state=split).fit(X, y)
    seconds = time.perf_counter() - start
    mean, std = model.predict(X_test, return_std=True)
    density = model.log_predictive_density(X_test, y_test)
    metrics = regression_metrics(y_test, mean, std, density, y.mean(), y.var())
    TABLE.add(
        {"set": name, "M": M, "power": power, "split": split}
        | {key: float(metrics[key]) for key in ("rmse", "nlpd", "smse", "smll", "coverage_90")}
        | {"log_evidence": model.log_evidence_, "iterations": model.n_iter_}
        | {"converged": model.converged_, "seconds": seconds}
    )


def summary() -> str:
    """Means and standard errors over splits."""
    lines = [
        f"{'set':10s} {'M':>4s} {'power':>5s} {'splits':>6s} {'RMSE':>17s} {'NLPD':>17s} {'s':>6s}"
    ]
    rows = TABLE.rows()
    for name, M, power in sorted({(r["set"], int(r["M"]), float(r["power"])) for r in rows}):
        chosen = [
            r for r in rows if (r["set"], int(r["M"]), float(r["power"])) == (name, M, power)
        ]
        cells = []
        for key in ("rmse", "nlpd"):
            values = np.array([float(r[key]) for r in chosen])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            cells.append(f"{values.mean():9.4f} ±{error:6.4f}")
        seconds = np.median([float(r["seconds"]) for r in chosen])
        lines.append(
            f"{name:10s} {M:4d} {power:5.1f} {len(chosen):6d} {cells[0]:>17s} {cells[1]:>17s} "
            f"{seconds:6.1f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--inducing", default="50,100")
    options = parser.parse_args()
    counts = [int(M) for M in options.inducing.split(",")]
    sets = options.sets.split(",")
    for name, M, split, power in itertools.product(sets, counts, range(options.splits), POWERS):
        if not TABLE.has(set=name, M=M, power=power, split=split):
            measure(name, M, power, split)
    print(summary())


if __name__ == "__main__":
    main()
