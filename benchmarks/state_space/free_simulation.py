"""Free simulation of the unseen half of eleven series, beside a linear model of lags.

Five published sets and six simulated series; see `identification` and `six_series`. The first half
trains, the second is forecast by paths, of which no output is read. Rows `plain` are the forecasts
as the model makes them, `widened` those that `GPForecaster` gives, and `lags` a linear model of
lagged outputs and controls by least squares. Scores are of standardised outputs: coverage of 90 %
intervals, continuous ranked probability score, and mean log density, of lags that of Gaussians.

python -m benchmarks.state_space.free_simulation [--only drive,swing] [--iterations 60]
"""

import argparse
import dataclasses
import time
import warnings
from typing import cast

import numpy as np

import cavity
from benchmarks.results import Table
from benchmarks.state_space.identification import SETS, Identification, load
from benchmarks.state_space.six_series import SERIES, simulated
from cavity.estimators.time_map import TimeMap
from cavity.learning.diagnostics.lagged_outputs import LaggedOutputs
from cavity.learning.free_simulation import FreeSimulation

TABLE = Table("free_simulation.csv", ("set", "forecast", "seed"))
LEVELS = np.arange(1, 40) / 40.0
POINTS, PATHS = 20, 500


def scored(quantiles: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Error of the median, coverage and score of quantiles (steps, levels)."""
    away = y[:, None] - quantiles
    inside = (y >= quantiles[:, 1]) & (y <= quantiles[:, -2])
    losses = np.maximum(LEVELS * away, (LEVELS - 1.0) * away)
    return {
        "rmse": float(np.sqrt(np.mean(away[:, len(LEVELS) // 2] ** 2))),
        "coverage_90": float(np.mean(inside)),
        "crps": 2.0 * float(np.mean(losses)),
    }


def of_lags(data: Identification) -> dict[str, float]:
    """Scores of the linear model."""
    y = data.y[:, None]
    lags = LaggedOutputs.learn(y, y, data.u)
    paths = lags.simulated(data.u_test, PATHS)[:, :, 0]
    mean, var = paths.mean(axis=0), paths.var(axis=0)
    density = -0.5 * (np.log(2.0 * np.pi * var) + (data.y_test - mean) ** 2 / var)
    found = scored(np.quantile(paths, LEVELS, axis=0).T, data.y_test)
    return found | {"log_density": float(np.mean(density)), "lags": lags.lags}


def of_model(maps: TimeMap, data: Identification) -> dict[str, float]:
    """Scores of forecasts."""
    controls = data.u_test if data.u_test.shape[1] else None
    future = maps.forecast(len(data.y_test), controls)
    density = future.log_density(data.y_test[:, None])
    found = scored(future.quantiles(LEVELS)[:, 0], data.y_test)
    return found | {"log_density": float(np.mean(density)), "lags": 0}


def measure(name: str, seed: int, iterations: int) -> None:
    """One fit and its forecasts, if they are not in the table."""
    if TABLE.has(set=name, forecast="lags", seed=seed):
        return
    data, began = load(name) if name in SETS else simulated(name), time.perf_counter()
    forecaster = cavity.GPForecaster(
        4 if name in SETS else 2,
        n_inducing=POINTS,
        propagation=PATHS,
        max_iterations=iterations,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forecaster.fit(data.y, data.u if data.u.shape[1] else None)
    told = cast(FreeSimulation, forecaster.free_simulation_)
    maps = forecaster.time_map
    about = {"factor": told.widening[0], "said": told.better, "radius": maps.growth(1)}
    about["seconds"] = time.perf_counter() - began
    plain = dataclasses.replace(maps, widening=None)
    found = {"plain": of_model(plain, data), "widened": of_model(maps, data)}
    for forecast, scores in (found | {"lags": of_lags(data)}).items():
        row = {"set": name, "forecast": forecast, "seed": seed} | scores | about
        print(row, flush=True)
        TABLE.add(row)


def main() -> None:
    """Runs every series."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join([*SERIES, *SETS]))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=60)
    options = parser.parse_args()
    for seed in range(options.seeds):
        for name in options.only.split(","):
            measure(name, seed, options.iterations)


if __name__ == "__main__":
    main()
