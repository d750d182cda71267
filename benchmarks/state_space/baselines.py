"""Baselines on published sets of system identification: simulation of the second half.

- `linear`: a linear state-space model with Gaussian noise, by maximum likelihood, ten starts.
- `regression_means`, `regression_samples`: Gaussian process regression of outputs on lagged ones,
  with means or samples fed back.

Errors are on the original scale, log densities per output of the second half in nats on it.

python -m benchmarks.state_space.baselines [--only drive,dryer] [--seeds 10]
"""

import argparse
import time
from typing import Any

import jax
import numpy as np
from scipy.special import logsumexp

from benchmarks.results import Table
from benchmarks.state_space import autoregressive, linear
from benchmarks.state_space.identification import PUBLISHED, SETS, Identification, load

TABLE = Table("state_space_baselines.csv", ("set", "model", "size", "seed"))
STATES, LAGS = 4, (4, 10)


def row(name: str, model: str, size: int, seed: int, **values: Any) -> None:
    """Stores and prints a row."""
    found = {"set": name, "model": model, "size": size, "seed": seed} | values
    found["published_rmse"] = PUBLISHED[name]
    print(found, flush=True)
    TABLE.add(found)


def scores(data: Identification, mean: np.ndarray, var: np.ndarray) -> dict[str, float]:
    """Errors, densities and coverage of equal mixtures of Gaussians, (paths, steps)."""
    average = mean.mean(axis=0)
    spread = var.mean(axis=0) + mean.var(axis=0)
    logs = -0.5 * (np.log(2.0 * np.pi * var) + (data.y_test - mean) ** 2 / var)
    density = logsumexp(logs, axis=0) - np.log(len(mean)) - np.log(data.unit)
    away = data.y_test - average
    return {
        "rmse": data.unit * float(np.sqrt(np.mean(away**2))),
        "log_density": float(np.mean(density)),
        "coverage_90": float(np.mean(np.abs(away) < 1.645 * np.sqrt(spread))),
    }


def run_linear(name: str, data: Identification, seed: int) -> None:
    """A linear model from one start."""
    if TABLE.has(set=name, model="linear", size=STATES, seed=seed):
        return
    began = time.perf_counter()
    model, evidence = linear.learn(data.u, data.y, STATES, seed)
    _, last = linear.filtered(model, data.u, data.y)
    mean, var = (np.asarray(a)[None] for a in linear.simulate(model, last, data.u_test))
    seconds = time.perf_counter() - began
    found = scores(data, mean, var)
    row(name, "linear", STATES, seed, **found, log_likelihood=evidence, seconds=seconds)


def run_regression(name: str, data: Identification, lags: int) -> None:
    """Regression on lagged values, with means and samples fed back."""
    if TABLE.has(set=name, model="regression_samples", size=lags, seed=0):
        return
    began = time.perf_counter()
    posterior = autoregressive.learn(data.u, data.y, lags)
    for kind in ("means", "samples"):
        arrays = data.u, data.y, data.u_test
        paths = autoregressive.simulate(posterior, *arrays, lags, sampled=kind == "samples")
        seconds = time.perf_counter() - began
        found = scores(data, *paths)
        row(name, f"regression_{kind}", lags, 0, **found, log_likelihood="", seconds=seconds)


def main() -> None:
    """Runs every baseline on every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    with jax.enable_x64(True):
        for name in options.only.split(","):
            data = load(name)
            for lags in LAGS:
                run_regression(name, data, lags)
            for seed in range(options.seeds):
                run_linear(name, data, seed)


if __name__ == "__main__":
    main()
