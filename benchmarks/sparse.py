"""Sparse linear models beside the lasso and automatic relevance determination.

sparse: 100 rows, 1,000 columns, neighbours correlated by 0, 0.5 or 0.9; ten coefficients of 0.7 to
1.5 of either sign, noise variance 0.5; everything unknown to the methods. The relative error of
the coefficients, and the RMSE of 500 test outputs.
coverage: data sets drawn from a spike-and-slab prior (60 rows, 120 columns, share 0.05, slab 1,
noise variance 0.25, or probit labels), with these parameters given: the share of coefficients in
90 % intervals, of all and of those that are not zero, and the share of errors among columns
selected at a rate of 0.1.
time: one call of infer, from 10,000 to 1,000,000 rows (100 columns) and from
1,000 to 100,000 columns (100 rows).

python -m benchmarks.sparse [--only sparse,coverage,time] [--seeds 5]
"""

import argparse
import itertools
import time
import warnings
from typing import Any

import jax
import numpy as np
from sklearn.linear_model import ARDRegression, LassoCV

import cavity
from benchmarks.results import Table
from cavity import likelihoods, weights

ACCURACY = Table("sparse_accuracy.csv", ("correlation", "seed", "method"))
# Ends of intervals this near to zero are in the spike.
SPIKE = 1e-4
COVERAGE = Table("sparse_coverage.csv", ("likelihood", "seed"))
TIMES = Table("sparse_times.csv", ("rows", "columns"))
METHODS = ("spike_slab", "horseshoe", "laplace", "lasso", "ard")


def problem(seed: int, correlation: float, columns: int = 1000) -> tuple[np.ndarray, ...]:
    """Inputs and outputs of 100 rows, of 500 test rows, and the coefficients."""
    random = np.random.default_rng(seed)
    rows = 600
    z = random.normal(size=(rows, columns))
    X = np.empty_like(z)
    X[:, 0] = z[:, 0]
    for j in range(1, columns):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1.0 - correlation**2) * z[:, j]
    w = np.zeros(columns)
    chosen = random.choice(columns, 10, replace=False)
    w[chosen] = random.uniform(0.7, 1.5, 10) * random.choice([-1.0, 1.0], 10)
    y = X @ w + np.sqrt(0.5) * random.normal(size=rows)
    return X[:100], y[:100], X[100:], y[100:], w


def fitted(method: str) -> Any:
    if method == "lasso":
        return LassoCV(cv=5)
    return ARDRegression() if method == "ard" else cavity.LinearRegressor(prior=method)


def accuracy(seeds: int) -> None:
    cases = itertools.product(range(seeds), (0.0, 0.5, 0.9), METHODS)
    for seed, correlation, method in cases:
        key = {"correlation": correlation, "seed": seed, "method": method}
        if ACCURACY.has(**key):
            continue
        X, y, X_test, y_test, w = problem(seed, correlation)
        start = time.process_time()
        model = fitted(method).fit(X, y)
        seconds = time.process_time() - start
        error = float(np.linalg.norm(model.coef_ - w) / np.linalg.norm(w))
        rmse = float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
        converged = getattr(model, "converged_", True)
        found = {"error": error, "rmse": rmse, "converged": converged, "cpu_s": seconds}
        ACCURACY.add(key | found)
        print(key, found, flush=True)


def coverage(seeds: int) -> None:
    prior = weights.SpikeSlab(0.05, 1.0)
    for name in ("gaussian", "probit"):
        for seed in range(seeds):
            if COVERAGE.has(likelihood=name, seed=seed):
                continue
            random = np.random.default_rng(seed)
            X = random.normal(size=(60, 120))
            w = np.where(random.random(120) < 0.05, random.normal(size=120), 0.0)
            f = X @ w
            gaussian = name == "gaussian"
            noise: Any = likelihoods.Gaussian(0.25) if gaussian else likelihoods.Bernoulli()
            y = f + 0.5 * random.normal(size=60)
            y = y if gaussian else (f + random.normal(size=60) > 0).astype(float)
            with jax.enable_x64(True):
                model = cavity.LinearModel(prior, noise, intercept=False)
                result = cavity.infer(model, X, y, power=1.0)
                found = cavity.diagnostics.coefficients(result.posterior, level=0.9)
            # a coefficient of zero is within an interval that ends in the spike
            inside = (found.lower - SPIKE <= w) & (w <= found.upper + SPIKE)
            chosen = found.select(0.1)
            certain = np.maximum(found.negative, found.positive)
            COVERAGE.add(
                {
                    "likelihood": name,
                    "seed": seed,
                    "inside": int(inside.sum()),
                    "inside_expected": float(np.sum(1.0 - _outside(found))),
                    "inside_not_zero": int(inside[w != 0].sum()),
                    "not_zero": int((w != 0).sum()),
                    "selected": len(chosen),
                    "wrong_expected": float(np.sum(1.0 - certain[chosen])),
                    "wrong": int((np.sign(found.mean[chosen]) != np.sign(w[chosen])).sum()),
                    "converged": result.converged,
                }
            )


def _outside(found: cavity.diagnostics.Coefficients) -> np.ndarray:
    """The posterior probability outside of each interval of 90 %."""
    below = np.where(np.abs(found.lower) < SPIKE, found.negative, 0.05)
    return below + np.where(np.abs(found.upper) < SPIKE, found.positive, 0.05)


def times() -> None:
    sizes = [(10**k, 100) for k in (4, 5, 6)] + [(100, 10**k) for k in (3, 4, 5)]
    for rows, columns in sizes:
        if TIMES.has(rows=rows, columns=columns):
            continue
        random = np.random.default_rng(0)
        X = random.normal(size=(rows, columns))
        w = np.where(np.arange(columns) < 10, 1.0, 0.0)
        y = X @ w + np.sqrt(0.5) * random.normal(size=rows)
        share = 10.0 / columns
        with jax.enable_x64(True):
            model = cavity.LinearModel(weights.SpikeSlab(share, 1.0), likelihoods.Gaussian(0.5))
            result = cavity.infer(model, X, y)
            start = time.perf_counter()
            result = cavity.infer(model, X, y)
            seconds = time.perf_counter() - start
        row = {"rows": rows, "columns": columns, "infer_s": seconds}
        TIMES.add(row | {"sweeps": result.sites.sweeps, "converged": result.converged})
        print(row, result.message, flush=True)


def summary() -> None:
    for correlation in (0.0, 0.5, 0.9):
        for method in METHODS:
            key = {"correlation": f"{correlation:g}", "method": method}
            rows = [r for r in ACCURACY.rows() if all(r[k] == v for k, v in key.items())]
            if rows:
                error, rmse = (np.mean([float(r[k]) for r in rows]) for k in ("error", "rmse"))
                print(key, len(rows), f"error {error:.3f} rmse {rmse:.3f}")
    for name in ("gaussian", "probit"):
        rows = [r for r in COVERAGE.rows() if r["likelihood"] == name]
        names = ("inside", "inside_not_zero", "not_zero", "selected", "wrong")
        count = {k: sum(int(r[k]) for r in rows) for k in names}
        if rows:
            print(
                f"{name}: {len(rows)} sets, inside {count['inside'] / (120 * len(rows)):.3f}, of "
                f"not zero {count['inside_not_zero'] / count['not_zero']:.3f}, wrong among "
                f"selected {count['wrong'] / max(count['selected'], 1):.3f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="sparse,coverage,time")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = options.only.split(",")
    if "sparse" in cases:
        accuracy(options.seeds)
    if "coverage" in cases:
        coverage(40 * options.seeds)
    if "time" in cases:
        times()
    summary()


if __name__ == "__main__":
    main()
