"""A category of many levels without effect: a lengthscale for its column, or for each level.

Of each table one number x, uniform on (-3, 3), y = sin x + 0.3 noise, and a text of 40 levels at
random; 120 rows and 400 new ones. What is lost is the mean log density of new rows below that of
a model of x alone.

python -m benchmarks.category_levels [--seeds 6] [--priors weak none]
"""

import argparse
import itertools
import statistics
import warnings
from typing import Any

import numpy as np
import polars as pl

import cavity
from benchmarks.results import Table

TABLE = Table("category_levels.csv", ("priors", "lengthscales", "seed"))
ROWS, TESTS, LEVELS = 120, 400, 40
FORMS = ("x alone", "for each level", "for the column")


def data(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The number, the level and the target of all rows."""
    random = np.random.default_rng(seed)
    x = random.uniform(-3.0, 3.0, ROWS + TESTS)
    level = random.integers(0, LEVELS, len(x))
    level[:LEVELS] = np.arange(LEVELS)  # every level is there in the fit
    return x, level, np.sin(x) + 0.3 * random.standard_normal(len(x))


def inputs(form: str, x: np.ndarray, level: np.ndarray) -> Any:
    """The inputs of a model: numbers alone have a lengthscale for each."""
    if form == "x alone":
        return x[:, None]
    if form == "for each level":
        return np.column_stack([x, level[:, None] == np.arange(LEVELS)])
    return pl.DataFrame({"x": x, "level": [f"level {i}" for i in level]})


def measure(priors: str, form: str, seed: int) -> None:
    """Adds a row of results."""
    x, level, y = data(seed)
    train, test = slice(ROWS), slice(ROWS, None)
    model: Any = cavity.GPRegressor(random_state=0, priors=priors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(inputs(form, x[train], level[train]), y[train])
    new = inputs(form, x[test], level[test])
    mean, std = model.predict(new, return_std=True)
    TABLE.add(
        {"priors": priors, "lengthscales": form, "seed": seed}
        | {"coverage_90": float(np.mean(np.abs(y[test] - mean) <= 1.6448536 * std))}
        | {"density": float(np.mean(model.log_predictive_density(new, y[test])))}
    )


def summary() -> str:
    """Means over the tables that all forms have, and what is lost to x alone."""
    rows = {
        (row["priors"], row["lengthscales"], row["seed"]): (
            float(row["density"]),
            float(row["coverage_90"]),
        )
        for row in TABLE.rows()
    }
    lines = [f"{'priors':<8}{'lengthscales':<16}{'tables':>7}{'lost':>8}{'in 90 %':>9}"]
    for priors, form in itertools.product(sorted({key[0] for key in rows}), FORMS):
        seeds = [s for p, f, s in rows if (p, f) == (priors, form) and (p, FORMS[0], s) in rows]
        lost = [rows[priors, FORMS[0], s][0] - rows[priors, form, s][0] for s in seeds]
        held = [rows[priors, form, s][1] for s in seeds]
        means = f"{statistics.fmean(lost):>8.3f}{statistics.fmean(held):>9.3f}"
        lines.append(f"{priors:<8}{form:<16}{len(seeds):>7}{means}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--priors", nargs="*", default=["weak", "none"])
    options = parser.parse_args()
    for seed in range(options.seeds):
        for priors, form in itertools.product(options.priors, FORMS):
            if not TABLE.has(priors=priors, lengthscales=form, seed=seed):
                measure(priors, form, seed)
    print(summary())


if __name__ == "__main__":
    main()
