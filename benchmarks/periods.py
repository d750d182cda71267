"""Periods that fits find: starts from the periodogram beside starts from the spread of a column.

Draws whose period is known, and published series. A period is found where it ends within 2 % of
the truth, in any part of the kernel that sees its column; frequencies are periods by their
inverse. The starts from the spread are those of a fit that looks for no periods.

python -m benchmarks.periods [--starts periodogram spread] [--cases sine ...] [--seeds 3]
"""

import argparse
import contextlib
import itertools
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import cavity
from benchmarks.data import FOLDER
from benchmarks.results import Table
from cavity.learning.data.cycles import cycles_of

TABLE = Table("periods.csv", ("case", "seed", "starts"))
CLOSE = 0.02
YEAR = 365.2425
SEARCH = "cavity.learning.initialisation.screening.candidate_periods"


class Case(NamedTuple):
    """Data, the settings of a fit, and the periods of columns that are in them."""

    X: np.ndarray
    y: np.ndarray
    settings: dict[str, Any]
    periods: tuple[tuple[int, float], ...]


def drawn(covariance: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A function with this covariance."""
    root = np.linalg.cholesky(covariance + 1e-8 * np.eye(len(covariance)))
    return root @ random.standard_normal(len(covariance))


def repeating(x: np.ndarray, period: float, lengthscale: float = 1.0) -> np.ndarray:
    """The covariance of a function that repeats itself."""
    phase = np.pi * (x[:, None] - x) / period
    return np.exp(-2.0 * np.sin(phase) ** 2 / lengthscale**2)


def smooth(x: np.ndarray, lengthscale: float) -> np.ndarray:
    """The covariance of a smooth function."""
    return np.exp(-0.5 * ((x[:, None] - x) / lengthscale) ** 2)


def wave(rows: int, period: float, noise: float, *, uneven: bool = False, **settings: Any) -> Any:
    """A sine on [0, 20]."""

    def case(random: np.random.Generator) -> Case:
        x = np.linspace(0.0, 20.0, rows)
        x = np.sort(random.uniform(0.0, 20.0, rows)) if uneven else x
        y = np.sin(2.0 * np.pi * x / period) + noise * random.standard_normal(rows)
        return Case(x[:, None], y, {"kernel": "periodic"} | settings, ((0, period),))

    return case


def other(
    rows: int, kernel: str, function: Callable[..., np.ndarray], *periods: float, **settings: Any
) -> Any:
    """Another function on [0, 20] and noise of deviation 0.2."""

    def case(random: np.random.Generator) -> Case:
        x = np.linspace(0.0, 20.0, rows)
        y = function(x, random) + 0.2 * random.standard_normal(rows)
        return Case(x[:, None], y, {"kernel": kernel} | settings, tuple((0, p) for p in periods))

    return case


def two_columns(random: np.random.Generator) -> Case:
    """A wave along the second of two columns, a slope along the first."""
    X = random.uniform(0.0, 20.0, (200, 2))
    y = np.sin(2.0 * np.pi * X[:, 1] / 3.7) + 0.05 * X[:, 0] + 0.3 * random.standard_normal(200)
    return Case(X, y, {"kernel": "periodic"}, ((1, 3.7),))


def counts(random: np.random.Generator) -> Case:
    """Counts whose rate has a period."""
    x = np.sort(random.uniform(0.0, 20.0, 200))
    y = random.poisson(np.exp(1.0 + np.sin(2.0 * np.pi * x / 2.9)))
    return Case(x[:, None], y, {"kernel": "periodic", "likelihood": "poisson"}, ((0, 2.9),))


def hours(random: np.random.Generator) -> Case:
    """Whole hours of the day, whose first follows the last."""
    x = random.integers(0, 24, 200).astype(float)
    y = np.exp(np.cos(2.0 * np.pi * (x - 7.0) / 24.0)) + 0.2 * random.standard_normal(200)
    return Case(x[:, None], y, {"kernel": "periodic"}, ((0, 24.0),))


def mauna_loa(_: np.random.Generator) -> Case:
    """Carbon dioxide every fourth week, by date; the truth is a year."""
    path = FOLDER / "mauna_loa" / "co2_weekly_statsmodels.csv.gz"
    dates, values = np.genfromtxt(path, str, delimiter=",", skip_header=1, unpack=True)
    kept = np.flatnonzero(values != "")[::4]
    days = dates[kept].astype("datetime64[D]")
    return Case(
        days[:, None],
        values[kept].astype(float),
        {"kernel": "linear + periodic * rbf"},
        ((0, YEAR),),
    )


def series(name: str, kernel: str, period: float) -> Any:
    """One of thirteen published series."""

    def case(_: np.random.Generator) -> Case:
        with np.load(FOLDER / "tsdl13" / "tsdl13.npz") as file:
            x, y = file[f"{name}__X"], file[f"{name}__y"]
        return Case(x[:500, None], y[:500], {"kernel": kernel}, ((0, period),))

    return case


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "sine": wave(150, 6.3, 0.3),
    "sine, 30 rows": wave(30, 6.3, 0.3),
    "sine, much noise": wave(300, 3.0, 1.5),
    "sine, uneven": wave(100, 0.37, 0.3, uneven=True),
    "sine, sparse": wave(2000, 1.7, 0.5, uneven=True, n_inducing=20),
    "saw": other(200, "periodic", lambda x, _: x / 2.7 % 1.0, 2.7),
    "product": other(
        200, "periodic * rbf", lambda x, r: drawn(repeating(x, 2.0) * smooth(x, 5.0), r), 2.0
    ),
    "line": other(120, "linear + periodic", lambda x, r: x + drawn(repeating(x, 4.0), r), 4.0),
    "trend": other(
        400,
        "rbf + periodic",
        lambda x, r: 3.0 * drawn(smooth(x, 3.0), r) + drawn(repeating(x, 0.7), r),
        0.7,
    ),
    "trend, sparse": other(
        1000,
        "rbf + periodic",
        lambda x, r: 2.0 * drawn(smooth(x, 5.0), r) + drawn(repeating(x, 0.9), r),
        0.9,
        n_inducing=40,
    ),
    "two periods": other(
        200,
        "periodic + periodic",
        lambda x, _: np.sin(2.0 * np.pi * x / 7.0) + np.sin(2.0 * np.pi * x / 1.3),
        *(7.0, 1.3),
    ),
    "mixture": other(
        200,
        "spectral_mixture",
        lambda x, _: np.sin(2.0 * np.pi * x / 1.7) + np.sin(2.0 * np.pi * x / 0.6),
        *(1.7, 0.6),
    ),
    "two columns": two_columns,
    "counts": counts,
    "hours": hours,
    "mauna loa": mauna_loa,
    "airline": series("01-airline", "linear + periodic * rbf", 1.0),
    "births": series("number-of-daily-births-in-quebec", "rbf + periodic", 7.0 / YEAR),
    "no period in the kernel": wave(150, 6.3, 0.3, kernel="rbf"),
}


def periods_of(kernel: Any, columns: tuple[int, ...]) -> list[tuple[int, float]]:
    """The periods of each column in a kernel."""
    return [(cycle.column, cycle.period) for cycle in cycles_of(kernel, columns)]


def measure(name: str, seed: int, starts: str) -> None:
    """Adds one fit."""
    case = CASES[name](np.random.default_rng(seed))
    search: Any = contextlib.nullcontext()
    if starts == "spread":
        search = mock.patch(SEARCH, return_value=[])
    estimator = cavity.GPRegressor(random_state=seed, **case.settings)
    begun = time.process_time()
    with search, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(case.X, case.y)
    seconds = time.process_time() - begun
    found = periods_of(estimator.kernel_, tuple(range(case.X.shape[1])))
    right = [
        any(c == column and abs(p / truth - 1.0) <= CLOSE for c, p in found)
        for column, truth in case.periods
    ]
    row = {
        "case": name,
        "seed": seed,
        "starts": starts,
        "rows": len(case.X),
        "truth": " ".join(f"{p:g}" for _, p in case.periods),
        "found": " ".join(f"{p:.5g}" for _, p in found),
        "right": "" if not found else f"{np.mean(right):g}",
        "evidence": f"{estimator.log_evidence_:.2f}",
        "cpu_seconds": f"{seconds:.2f}",
        "unseen": len(estimator.unseen_periods_),
    }
    print(row, flush=True)
    TABLE.add(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", nargs="*", default=["periodogram", "spread"])
    parser.add_argument("--cases", nargs="*", default=[*CASES])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    once = ("mauna loa", "airline", "births")
    wanted = [
        (name, seed, starts)
        for starts, name in itertools.product(options.starts, options.cases)
        for seed in range(1 if name in once else options.seeds)
    ]
    for name, seed, starts in wanted:
        if not TABLE.has(case=name, seed=seed, starts=starts):
            measure(name, seed, starts)


if __name__ == "__main__":
    main()
