"""Which rows to measure next, beside random ones: test error against labels bought.

kin8nm: 20 published splits, 50 random rows of 7,373, then 10 at a time to 400; RMSE of the
standardised output. banana: 400 rows as the pool, 20 random ones, then 10 at a time to 200; the
share of 4,900 test rows that is wrong. Each criterion and the random choice begin with the same
rows. The model is a full GP, inferred anew after every 10 rows. Its parameters are learned after
50, 60, ..., 100, 150, ... rows, on banana after 20, 60, 100, ... rows, always from the same first
ones: those learned from few rows are a bad start for more.

python -m benchmarks.active [--only kin8nm,banana] [--first 0] [--splits 20] [--summary]
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import cavity
from benchmarks.banana import data as banana_data
from benchmarks.data import uci
from benchmarks.results import Table

KEYS = ("criterion", "split", "labels")
TABLES = {case: Table(f"active_{case}.csv", KEYS) for case in ("kin8nm", "banana")}
CRITERIA = {"kin8nm": ("random", "integrated"), "banana": ("random", "information")}
LEVEL = 0.11


class Task(NamedTuple):
    """What is to be learned.

    Attributes:
        pool: inputs and outputs of the rows that can be measured.
        test: those by which models are judged.
        model: at its first parameters.
        error: of predicted means, given the truth.
        sizes: of the first set and of the last.
        learns: whether parameters are learned at a number of rows.
        judged: whether the error is recorded at a number of rows.
    """

    pool: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    model: cavity.GP
    error: Callable[[np.ndarray, np.ndarray], float]
    sizes: tuple[int, int]
    learns: Callable[[int], bool]
    judged: Callable[[int], bool]


def kin8nm(split: int) -> Task:
    X, y, X_test, y_test = uci("kin8nm", split)
    centre, spread, level, unit = X.mean(axis=0), X.std(axis=0), y.mean(), y.std()
    kernel = cavity.kernels.RBF(1.0, np.full(X.shape[1], 2.0))
    return Task(
        ((X - centre) / spread, (y - level) / unit),
        ((X_test - centre) / spread, (y_test - level) / unit),
        cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1)),
        lambda mean, y: float(np.sqrt(np.mean((mean - y) ** 2))),
        (50, 400),
        lambda rows: rows % 50 == 0 or rows < 100,
        lambda rows: rows % 50 == 0 or rows < 100,
    )


def banana(split: int) -> Task:
    X, y, X_test, y_test = banana_data()
    model = cavity.GP(cavity.kernels.RBF(1.0, 1.0), cavity.likelihoods.Bernoulli())
    return Task(
        (X, y.astype(float)),
        (X_test, y_test.astype(float)),
        model,
        lambda mean, y: float(np.mean((mean > 0.5) != y)),
        (20, 200),
        lambda rows: rows % 40 == 20,
        lambda rows: True,
    )


TASKS = {"kin8nm": kin8nm, "banana": banana}


def follow(task: Task, criterion: str, split: int) -> list[dict[str, Any]]:
    """Errors as rows are bought, every 50 rows of kin8nm and every 10 of banana."""
    random = np.random.default_rng(split)
    (X, y), first = task.pool, task.sizes[0]
    order = random.permutation(len(X))
    have, model, found = list(order[:first]), task.model, []
    while True:
        X_have, y_have = X[have], y[have]
        if task.learns(len(have)):
            result: Any = cavity.fit(task.model, X_have, y_have, max_iterations=50)
            model = result.model
        else:
            result = cavity.infer(model, X_have, y_have)
        if task.judged(len(have)):
            mean = np.asarray(result.posterior.predict(task.test[0]).mean)
            row = {"criterion": criterion, "split": split, "labels": len(have)}
            found.append(row | {"error": task.error(mean, task.test[1])})
        if len(have) >= task.sizes[1]:
            return found
        if criterion == "random":
            have += list(order[len(have) : len(have) + 10])
        else:
            left = np.setdiff1d(np.arange(len(X)), have)
            have += list(left[cavity.suggest(result, X[left], 10, criterion).rows])


def run(case: str, splits: range) -> None:
    table, task = TABLES[case], TASKS[case]
    for split in splits:
        for criterion in CRITERIA[case]:
            last = {"criterion": criterion, "split": split, "labels": task(split).sizes[1]}
            if table.has(**last):
                continue
            rows = follow(task(split), criterion, split)
            for row in rows:
                table.add(row)
            print(case, criterion, split, rows[-1]["error"], flush=True)


def errors(case: str, criterion: str) -> dict[int, dict[int, float]]:
    """Errors by number of labels and split."""
    found: dict[int, dict[int, float]] = {}
    for row in TABLES[case].rows():
        if row["criterion"] == criterion:
            found.setdefault(int(row["labels"]), {})[int(row["split"])] = float(row["error"])
    return found


def needed(curves: dict[int, dict[int, float]], splits: Sequence[int]) -> float:
    """Labels at which the mean error reaches the level."""
    means = {n: np.mean([of[s] for s in splits]) for n, of in sorted(curves.items())}
    return next((n for n, value in means.items() if value <= LEVEL), np.inf)


def summarise(case: str) -> None:
    curves = {c: errors(case, c) for c in CRITERIA[case]}
    if not all(curves.values()):
        return
    splits = sorted(set.intersection(*(set(curve[max(curve)]) for curve in curves.values())))
    for criterion, curve in curves.items():
        means = {n: float(np.mean([of[s] for s in splits])) for n, of in curve.items()}
        said = ", ".join(f"{n}: {mean:.4f}" for n, mean in means.items())
        print(case, criterion, f"{len(splits)} splits", said)
        if case == "banana":
            print(f"  labels to {LEVEL}:", needed(curve, splits))
            continue
        less = {n: sum(of[s] < curves["random"][n][s] for s in splits) for n, of in curve.items()}
        print("  splits below random:", less)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="kin8nm,banana")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    with jax.enable_x64(True):
        for case in [] if options.summary else options.only.split(","):
            run(case, range(options.first, options.splits))
    for case in TASKS:
        summarise(case)


if __name__ == "__main__":
    main()
