"""Forecasts of the last fifth of seasonal series, beside seasonal naive forecasts with drift.

Each fit is `GPRegressor("linear + periodic * rbf")` without other arguments. The naive forecast
repeats the last season, moved by the mean change from one season to the next.

python -m benchmarks.seasonal_forecasts [--series 01-airline ...]
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import cavity
from benchmarks.data import FOLDER
from benchmarks.periods import periods_of
from benchmarks.results import Table

TABLE = Table("seasonal_forecasts.csv", ("series",))
KERNEL = "linear + periodic * rbf"
YEAR = 365.2425
# The length of a season in the units of the column, years.
SEASONAL = {
    "01-airline": 1.0,
    "03-mauna2003": 1.0,
    "daily-minimum-temperatures-in-me": 1.0,
    "internet-traffic-data-in-bits-fr-2": 1.0 / YEAR,
    "monthly-average-daily-calls-to-d": 1.0,
    "monthly-critical-radio-frequenci": 1.0,
    "monthly-production-of-gas-in-aus": 1.0,
    "monthly-production-of-sulphuric": 1.0,
    "monthly-us-male-1619-years-unemp": 1.0,
    "number-of-daily-births-in-quebec": 7.0 / YEAR,
}
LEVEL = 1.6448536269514722


def series(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Times and values of one of the published series."""
    with np.load(FOLDER / "tsdl13" / "tsdl13.npz") as file:
        x, y = (np.ravel(file[f"{name}__{part}"]) for part in "Xy")
    return x, y


def naive(x: np.ndarray, y: np.ndarray, ahead: np.ndarray, period: float) -> np.ndarray:
    """The last season again and again, moved by the mean change between seasons."""
    seasons = np.floor((x[-1] - x[0]) / period)
    first, last = (np.mean(y[part]) for part in (x < x[0] + period, x > x[-1] - period))
    drift = (last - first) / (seasons - 1.0)
    later = np.ceil((ahead - x[-1]) / period - 1e-9)
    return np.interp(ahead - later * period, x, y) + drift * later


def measure(name: str) -> None:
    """Adds one fit."""
    (x, y), period = series(name), SEASONAL[name]
    first = len(x) - len(x) // 5
    past, later = slice(0, first), slice(first, None)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = cavity.GPRegressor(KERNEL, random_state=0)
        model.fit(x[past, None], y[past])
    mean, std = model.predict(x[later, None], return_std=True)
    seconds = time.process_time() - begun
    error = y[later] - mean
    simple = y[later] - naive(x[past], y[past], x[later], period)
    found = [length for _, length in periods_of(model.kernel_, (0,))]
    ours, theirs = (float(np.sqrt(np.mean(e**2))) for e in (error, simple))
    row = {
        "series": name,
        "rows": first,
        "ahead": len(mean),
        "period": f"{period:.6g}",
        "found": " ".join(f"{length:.6g}" for length in found),
        "rmse": f"{ours:.5g}",
        "naive_rmse": f"{theirs:.5g}",
        "ratio": f"{ours / theirs:.3f}",
        "within_90": f"{np.mean(np.abs(error) <= LEVEL * std):.3f}",
        "cpu_seconds": f"{seconds:.1f}",
    }
    print(row, flush=True)
    TABLE.add(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", nargs="*", default=[*SEASONAL])
    for name in parser.parse_args().series:
        if not TABLE.has(series=name):
            measure(name)


if __name__ == "__main__":
    main()
