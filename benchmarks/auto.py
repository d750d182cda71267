"""What estimators choose by themselves: starts along the power, the power, the inducing points.

starts: fits with the start from power 1, without it, and with a restart in its place.
powers: the chosen power beside fixed ones.
points: as many points as are enough, beside a direct fit with as many and, where they are called
enough, one with 1,000 or the full GP, whose points stay where they are chosen.
steps: what each doubling of the points brings while they grow: the evidence, the density of
outputs given all others, and that of test outputs.

python -m benchmarks.auto [--only starts powers points steps] [--sets boston,concrete] [--splits 1]
    [--most 1000] [--rows 3000]
"""

import argparse
import contextlib
import functools
import gzip
import itertools
import time
import warnings
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np
from sklearn.exceptions import ConvergenceWarning

import cavity
from benchmarks.data import FOLDER, Split, uci
from benchmarks.results import Table
from cavity.initialisation import Inducing
from cavity.learning.plans import growth, trials
from cavity.learning.results.result import FitResult
from cavity.learning.run import fits

SETS = ("yacht", "boston", "energy", "concrete", "wine_red", "kin8nm", "power", "naval")
SNELSON = ("pumadyn32nm", "kin40k", "pol")
STARTS = Table("auto_starts.csv", ("set", "M", "power", "split", "tries"))
POWERS = Table("auto_powers.csv", ("set", "M", "power", "split"))
POINTS = Table("auto_points.csv", ("set", "split", "rows", "most", "asked"))
STEPS = Table("auto_steps.csv", ("set", "split", "M"))
LARGE = 1_000
SHORT = 60.0


def data(name: str, split: int) -> Split:
    """A published split; of sets with one test set alone the split is the seed of the fit."""
    if name not in SNELSON:
        return uci(name, split)
    parts = []
    for kind, what in itertools.product(("train", "test"), ("data", "labels")):
        with gzip.open(FOLDER / name / f"{name}_{kind}_{what}.asc.gz", "rt") as file:
            parts.append(np.loadtxt(file))
    X, y, X_test, y_test = parts
    centre, spread = y.mean(), y.std()
    y, y_test = ((part.reshape(-1) - centre) / spread for part in (y, y_test))
    return X, y, X_test, y_test


def judged(model: cavity.GPRegressor, parts: Split) -> dict[str, float]:
    """A fitted model on the test rows."""
    X, y, X_test, y_test = parts
    begun = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - begun
    error = model.predict(X_test) - y_test
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "nlpd": -float(np.mean(model.log_predictive_density(X_test, y_test))),
        "objective_per_row": -float(model.log_evidence_ or 0.0) / len(y),
        "evaluations": model.n_evaluations_,
        "seconds": seconds,
    }


def starts(name: str, split: int) -> None:
    """Fits of one split with several choices of starts; compiled once before they are timed."""
    parts = data(name, split)
    M = 40 if name == "pumadyn32nm" else 50
    for power, tries in itertools.product((0.0, 0.5), ("plain", "along", "restart")):
        key = {"set": name, "M": M, "power": power, "split": split, "tries": tries}
        if STARTS.has(**key):
            continue
        settings = {"n_inducing": M, "power": power, "random_state": split}
        model = cavity.GPRegressor(**settings, n_restarts=int(tries == "restart"))
        with trying(along=tries == "along"):
            cavity.GPRegressor(**settings, max_iterations=2).fit(*parts[:2])
            row = key | judged(model, parts)
        STARTS.add(row)
        print(row, flush=True)


def powers(name: str, split: int) -> None:
    """Fits of one split with the power chosen, and with fixed ones."""
    parts, M = data(name, split), 50
    for power in ("auto", 0.0, 0.5, 1.0):
        key = {"set": name, "M": M, "power": power, "split": split}
        if POWERS.has(**key):
            continue
        model = cavity.GPRegressor(n_inducing=M, power=power, random_state=split)
        row = key | judged(model, parts)
        POWERS.add(row | {"chosen": float(np.asarray(model.power_))})
        print(row, flush=True)


def points(name: str, split: int, most: int = LARGE, limit: int = 10**6) -> None:
    """Fits of one split with points that are enough, with as many, and with a thousand."""
    X, y, X_test, y_test = data(name, split)
    some = np.sort(np.random.default_rng(split).permutation(len(y))[:limit])
    parts, chosen, enough = (X[some], y[some], X_test, y_test), 0, True
    for asked in ("enough", "direct", "large"):
        key = {"set": name, "split": split, "rows": len(some), "most": most, "asked": asked}
        if asked == "large" and not enough and len(parts[1]) > 2 * LARGE:
            continue
        if POINTS.has(**key):
            (row,) = [r for r in POINTS.rows() if all(r[k] == str(v) for k, v in key.items())]
            if asked == "enough":
                chosen, enough = int(row["M"]), not row["verdict"].startswith("not")
            continue
        settings: dict[str, Any] = {"random_state": split}
        if asked == "large":
            full = len(parts[1]) <= 2 * LARGE
            settings |= {"n_inducing": None if full else LARGE, "inducing": Inducing(learn=False)}
        else:
            settings |= {"n_inducing": "enough" if asked == "enough" else chosen or None}
            settings |= {"inducing": Inducing(most=most)} if asked == "enough" else {}
        model = cavity.GPRegressor(**settings)
        row = key | judged(model, parts)
        if row["seconds"] < SHORT:  # short fits once more, with their programs compiled
            row = key | judged(model, parts)
        if asked == "enough":
            chosen, enough = model.n_inducing_ or 0, not model.verdict_.startswith("not")
        width = float("nan") if model.bracket_ is None else model.bracket_.per_row
        row |= {"M": model.n_inducing_ or 0, "width_per_row": width, "verdict": model.verdict_}
        POINTS.add(row)
        print(row, flush=True)


def steps(name: str, split: int) -> None:
    """Points that double to 800 whatever they bring, learned for a few iterations each."""
    if any(row["set"] == name and row["split"] == str(split) for row in STEPS.rows()):
        return
    parts = data(name, split)
    rows: list[dict[str, object]] = []

    def noted(*given: Any, **options: Any) -> FitResult:
        begun = time.process_time()
        result = cavity.fit(*given, **options)
        seconds = time.process_time() - begun
        row = step_of(result, parts)
        if rows and rows[-1]["M"] == row["M"]:  # trials of starts go before the first step
            seconds += float(str(rows.pop()["seconds"]))
        rows.append(row | {"seconds": seconds})
        print(name, rows[-1], flush=True)
        return result

    with (
        mock.patch.object(fits, "fit", noted),
        mock.patch.object(growth, "GAIN", -np.inf),
        mock.patch.object(growth, "at_points_of", side_effect=Grown),
        contextlib.suppress(Grown),
    ):
        cavity.GPRegressor(
            n_inducing="enough", inducing=Inducing(most=800), random_state=split
        ).fit(*parts[:2])
    for row in rows:
        STEPS.add({"set": name, "split": split} | row)


class Grown(Exception):
    """Points have grown, and are not to be learned to the end."""


def step_of(result: FitResult, parts: Split) -> dict[str, object]:
    """A fit on the way, in nats per output; the evidence is that over noise alone."""
    X, y, X_test, y_test = parts
    model: Any = result.model
    rows = growth.sample(fits.fits(X, y, {"power": 0.5, "seed": 0}), growth.SAMPLE)
    bracket = cavity.diagnostics.bracket(model, rows.X, rows.y)
    noise = -0.5 * (np.log(2.0 * np.pi * np.var(rows.y)) + 1.0)
    predictive = result.posterior.predict(X_test)
    return {
        "M": model.inducing.size,
        "lower_per_row": bracket.lower / len(rows.y) - noise,
        "upper_per_row": bracket.upper / len(rows.y) - noise,
        "bound_of_power_0_per_row": growth.bound(rows, model) / len(rows.y) - noise,
        "left_out": float(np.mean(result.leave_one_out())),
        "test": float(np.mean(np.asarray(predictive.log_density(jnp.asarray(y_test))))),
        "noise_variance": float(model.likelihood.variance),
    }


def trying(*, along: bool) -> "mock._patch[object]":
    """Fits with the start from power 1, or without it."""
    found = trials._goes_along if along else lambda *_: False
    return mock.patch.object(trials, "_goes_along", found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=["starts"])
    parser.add_argument("--sets", default="")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--most", type=int, default=LARGE, help="points at the most, of 'points'")
    parser.add_argument("--rows", type=int, default=10**6, help="at the most, of 'points'")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    chosen = options.sets.split(",") if options.sets else None
    if "starts" in options.only:
        for name, split in itertools.product(
            chosen or ("pumadyn32nm", *SETS), range(options.splits)
        ):
            starts(name, split)
    for what, measure, sets in (
        ("powers", powers, SETS),
        (
            "points",
            functools.partial(points, most=options.most, limit=options.rows),
            (*SETS, *SNELSON),
        ),
        ("steps", steps, ("wine_red", "kin8nm", "power", "naval")),
    ):
        if what in options.only:
            for name, split in itertools.product(chosen or sets, range(options.splits)):
                measure(name, split)


if __name__ == "__main__":
    main()
