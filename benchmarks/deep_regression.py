"""Deep and sparse GPs on the standard splits: test error and density, for powers 0, 0.5 and 1.

The comparison of Bui (2017), experiment X10, with one column per hidden width. A deep model starts
as the sparse GP, in its first layer if the hidden one is narrower than the inputs and else in its
last, and is learned by Adam, 2,500 steps of 500 rows.

python -m benchmarks.deep_regression [--sets kin8nm,boston] [--splits 5] [--inducing 100]
    [--powers 0.5] [--widths 0,30]

A width of 0 is the sparse GP; one beyond the number of columns is that number.
"""

import argparse
import itertools
import time
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.data import uci
from benchmarks.results import Table
from cavity.learning.data.scales import tally
from cavity.learning.initialisation.deep import chosen_start
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.learning.plans.deep import fit_deep

SETS = ("yacht", "boston", "energy", "concrete", "wine_red", "kin8nm", "power", "naval", "protein")
TABLE = Table("deep_regression.csv", ("set", "M", "power", "width", "split"))


def sparse_start(H: np.ndarray, M: int, seed: int) -> cavity.GP:
    """A sparse GP in standardised units, with typical distances as lengthscales."""
    spread = tally(H).spread
    kernel = cavity.kernels.RBF(1.0, spread * np.sqrt(H.shape[1]))
    Z = select_inducing(kernel, H, M, choice="kmeans", seed=seed)
    return cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), cavity.inducing.Points(Z))


def fitted(
    X: np.ndarray, y: np.ndarray, M: int, power: float, width: int, seed: int
) -> cavity.fitting.FitResult:
    """A deep model of one hidden layer, or for width 0 the sparse GP on all rows."""
    if width == 0:
        return cavity.fit(sparse_start(X, M, seed), X, y, power=power)
    noise = cavity.likelihoods.Gaussian()
    hidden = chosen_start(X, (min(width, X.shape[1]),), noise, 1, M, seed)
    starts = [sparse_start(hidden.inputs[-1], M, seed)]
    return fit_deep(starts, hidden, X, y, power=power)


def measure(name: str, M: int, power: float, width: int, split: int) -> None:
    """Fits one split and adds a row of results."""
    X, y, X_test, y_test = uci(name, split)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    X, X_test = (X - centre) / spread, (X_test - centre) / spread
    level, unit = y.mean(), y.std()
    began, cpu = time.perf_counter(), time.process_time()
    with jax.enable_x64(True):
        result: Any = fitted(X, (y - level) / unit, M, power, width, split)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        predicted = result.posterior.predict(X_test)
        mean = level + unit * np.asarray(predicted.mean)
        density = np.asarray(predicted.log_density((y_test - level) / unit)) - np.log(unit)
        inside = [
            np.mean(
                (np.asarray(predicted.quantile(0.5 - p / 2)) * unit + level <= y_test)
                & (y_test <= np.asarray(predicted.quantile(0.5 + p / 2)) * unit + level)
            )
            for p in (0.5, 0.9, 0.95)
        ]
        noise = float(result.model.likelihood.variance)
    TABLE.add(
        {"set": name, "M": M, "power": power, "width": width, "split": split}
        | {"rmse": float(np.sqrt(np.mean((y_test - mean) ** 2))), "test_ll": density.mean()}
        | dict(zip(("coverage_50", "coverage_90", "coverage_95"), inside, strict=True))
        | {"noise": noise, "log_evidence": result.log_evidence, "converged": result.converged}
        | {"seconds": seconds, "cpu_seconds": cpu}
    )


def summary() -> str:
    """Means over splits, and the paired difference to the sparse GP."""
    rows = {tuple(row[key] for key in TABLE.keys): row for row in TABLE.rows()}
    groups = sorted({key[:4] for key in rows})
    head = f"{'set':9s} {'M':>4s} {'power':>5s} {'width':>5s} {'splits':>6s}"
    lines = [f"{head} {'RMSE':>8s} {'test LL':>8s} {'minus sparse':>16s} {'s':>6s}"]
    for name, M, power, width in groups:
        chosen = [rows[key] for key in rows if key[:4] == (name, M, power, width)]
        single = [rows.get((name, M, power, "0", row["split"])) for row in chosen]
        pairs = zip(chosen, single, strict=True)
        gain = np.array([float(a["test_ll"]) - float(b["test_ll"]) for a, b in pairs if b])
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        gained = f"{gain.mean():8.4f} ±{error:6.4f}" if len(gain) else ""
        means = [np.mean([float(row[key]) for row in chosen]) for key in ("rmse", "test_ll")]
        seconds = np.median([float(row["seconds"]) for row in chosen])
        cells = f"{name:9s} {M:>4s} {power:>5s} {width:>5s} {len(chosen):6d}"
        lines.append(f"{cells} {means[0]:8.4f} {means[1]:8.4f} {gained:>16s} {seconds:6.0f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--inducing", default="100")
    parser.add_argument("--powers", default="0.5")
    parser.add_argument("--widths", default="0,30")
    options = parser.parse_args()
    columns = (options.inducing, options.powers, options.widths)
    numbers = [[float(value) for value in column.split(",")] for column in columns]
    for split, name in itertools.product(range(options.splits), options.sets.split(",")):
        for M, power, width in itertools.product(*numbers):
            key = {"set": name, "M": int(M), "power": power, "width": int(width), "split": split}
            if not TABLE.has(**key):
                measure(**{"name" if k == "set" else k: v for k, v in key.items()})
    print(summary())


if __name__ == "__main__":
    main()
