"""Few rows: how often 90 % intervals hold, and the density of new rows, by priors of parameters.

Eight functions of one and of three inputs, uniform inputs, Gaussian noise of a fifth of the
functions' spread, 2 to 20 rows and 200 new ones. Rows that are there already are not measured
again.

python -m benchmarks.few_rows [--seeds 20] [--priors none weak] [--rows 2 3 4 6 12 20]
"""

import argparse
import itertools
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import cavity
from benchmarks.results import Table

TABLE = Table("few_rows.csv", ("function", "rows", "priors", "seed"))
NOISE, TESTS = 0.2, 200
# The number of inputs, each uniform on [0, 1], and the function.
FUNCTIONS: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
    "sine": (1, lambda X: np.sin(2.0 * np.pi * X[:, 0])),
    "waves": (1, lambda X: np.sin(9.0 * X[:, 0]) + 0.5 * np.cos(21.0 * X[:, 0])),
    "line": (1, lambda X: 3.0 * X[:, 0] - 1.0),
    "bump": (1, lambda X: np.exp(-20.0 * (X[:, 0] - 0.4) ** 2)),
    "step": (1, lambda X: np.tanh(15.0 * (X[:, 0] - 0.6))),
    "one of three": (3, lambda X: np.sin(5.0 * X[:, 1])),
    "products": (3, lambda X: X[:, 0] * X[:, 1] + np.cos(3.0 * X[:, 2])),
    "ripples": (3, lambda X: np.sin(6.0 * np.linalg.norm(X - 0.5, axis=1))),
}


def table(name: str, rows: int, seed: int) -> tuple[np.ndarray, ...]:
    """Rows to learn from and new ones, in units in which the function's deviation is 7."""
    columns, function = FUNCTIONS[name]
    random = np.random.default_rng([seed, rows, sorted(FUNCTIONS).index(name)])
    X = random.random((rows + TESTS, columns))
    f = function(X)
    scale = 7.0 / function(np.random.default_rng(0).random((10_000, columns))).std()
    y = 100.0 + scale * f + 7.0 * NOISE * random.standard_normal(len(X))
    return X[:rows], y[:rows], X[rows:], y[rows:]


def predictions(priors: str, X: np.ndarray, y: np.ndarray, new: tuple[np.ndarray, ...]) -> Any:
    """Mean, deviation and log density of new rows."""
    X_test, y_test = new
    model: Any = cavity.GPRegressor(random_state=0, priors=priors).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    return mean, std, model.log_predictive_density(X_test, y_test)


def measure(name: str, rows: int, priors: str, seed: int) -> None:
    """Adds a row of results."""
    X, y, X_test, y_test = table(name, rows, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, std, density = predictions(priors, X, y, (X_test, y_test))
    held = np.abs(y_test - mean) <= 1.6448536 * std
    TABLE.add(
        {"function": name, "rows": rows, "priors": priors, "seed": seed}
        | {"coverage_90": float(held.mean()), "density": float(np.mean(density))}
    )


def summary() -> str:
    """Means over functions and seeds."""
    rows = TABLE.rows()
    lines = [f"{'rows':>5} {'priors':<12}{'tables':>7}{'coverage':>10}{'density':>10}"]
    for count, priors in sorted({(int(row["rows"]), row["priors"]) for row in rows}):
        own = [row for row in rows if (int(row["rows"]), row["priors"]) == (count, priors)]
        coverage, density = (
            statistics.fmean(float(row[name]) for row in own)
            for name in ("coverage_90", "density")
        )
        lines.append(f"{count:>5} {priors:<12}{len(own):>7}{coverage:>10.3f}{density:>10.3f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--priors", nargs="*", default=["none", "weak"])
    parser.add_argument("--rows", type=int, nargs="*", default=[2, 3, 4, 6, 12, 20])
    options = parser.parse_args()
    every = itertools.product(options.rows, range(options.seeds), options.priors, FUNCTIONS)
    for rows, seed, priors, name in every:
        if not TABLE.has(function=name, rows=rows, priors=priors, seed=seed):
            measure(name, rows, priors, seed)
    print(summary())


if __name__ == "__main__":
    main()
