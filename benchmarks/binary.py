"""Eight binary sets, random 90/10 splits fixed by seed: error and negative log probability.

For powers 0, 0.5 and 1, with 10, 50 and 100 inducing points and with the full GP. The number of
splits is an argument; rows that are there already are not measured again. `--table` prints the
tables of the documentation.

python -m benchmarks.binary [--splits 10] [--sets pima ...] [--sizes 10 50 100 full] [--table]
"""

import argparse
import gzip
import itertools
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.banana import data as banana
from benchmarks.data import FOLDER
from benchmarks.results import Table

TABLE = Table("binary.csv", ("set", "split", "inducing", "power"))
SETS = (
    "crabs",
    "sonar",
    "heart",
    "ionosphere",
    "banana_gp",
    "breast_wisconsin",
    "australian",
    "pima",
)
FILES = {
    "australian": ("australian.csv.gz", ",", -1, "1"),
    "breast_wisconsin": ("breast-cancer-wisconsin.data.gz", ",", -1, "4"),
    "heart": ("heart.tsv.gz", "\t", -1, "1"),
    "ionosphere": ("ionosphere.data.gz", ",", -1, "g"),
    "pima": ("pima-indians-diabetes.csv.gz", ",", -1, "1"),
    "sonar": ("sonar.all-data.gz", ",", -1, "M"),
}


def rows(name: str, file: str, separator: str | None) -> list[list[str]]:
    with gzip.open(FOLDER / name / file, "rt") as lines:
        return [line.strip().split(separator) for line in lines if line.strip()]


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, and whether each row is of the positive class."""
    if name == "banana_gp":
        X, y, _, _ = banana()
        return X, np.asarray(y)
    if name == "crabs":  # sex from the five measurements
        table = [[c.strip('"') for c in row] for row in rows(name, "crabs.dat.gz", None)[1:]]
        X = np.array([row[-5:] for row in table], float)
        return X, np.array([row[-7] == "M" for row in table])
    file, separator, target, positive = FILES[name]
    table = [row for row in rows(name, file, separator) if "?" not in row]
    if not table[0][0].replace(".", "").replace("-", "").isdigit():
        table = table[1:]
    first = 1 if name == "breast_wisconsin" else 0  # its first column is a number of the patient
    X = np.array([row[first:target] for row in table], float)
    return X[:, X.std(axis=0) > 0.0], np.array([row[target] == positive for row in table])


def run(name: str, split: int, inducing: str, power: float) -> dict:
    """One fit."""
    import cavity

    X, y = load(name)
    order = np.random.default_rng(split).permutation(len(y))
    test, train = order[: len(y) // 10], order[len(y) // 10 :]
    count = None if inducing == "full" else int(inducing)
    start = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):
        model = cavity.GPClassifier(
            n_inducing=count, power=power, random_state=0, max_iterations=100
        ).fit(X[train], y[train])
    seconds = time.perf_counter() - start
    log_chance = model.predict_log_proba(X[test])
    found = {"set": name, "split": split, "inducing": inducing, "power": power}
    return found | {
        "error": float(np.mean(model.predict(X[test]) != y[test])),
        "nlpp": float(-np.mean(log_chance[np.arange(len(test)), y[test].astype(int)])),
        "log_evidence": model.log_evidence_,
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "seconds": seconds,
    }


POWERS = ("0", "0.5", "1")
SIZES = ("10", "50", "100", "full")


def by_case() -> dict[tuple[str, str, str], dict[str, tuple[float, float]]]:
    """Error and log loss by power, for each set, number of inducing points and split."""
    found: dict = {}
    for row in TABLE.rows():
        case = (row["set"], row["inducing"], row["split"])
        found.setdefault(case, {})[row["power"]] = (float(row["error"]), float(row["nlpp"]))
    return found


def table() -> None:
    """Means over the splits that have all powers, and how often each power is better."""
    cases = by_case()
    print("| set | inducing | splits | error at 0 | 0.5 | 1 | log loss at 0 | 0.5 | 1 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, size in itertools.product(SETS, SIZES):
        whole = [
            [powers[p] for p in POWERS]
            for (a, b, _), powers in cases.items()
            if (a, b) == (name, size) and len(powers) == len(POWERS)
        ]
        if whole:
            means = np.mean(whole, axis=0)
            cells = [f"{x:.3f}" for x in (*means[:, 0], *means[:, 1])]
            print(f"| {name} | {size} | {len(whole)} | {' | '.join(cells)} |")
    print("\n| of | powers | first better | second better | pairs |")
    print("|---|---|---|---|---|")
    for a, b in itertools.combinations(POWERS, 2):
        for i, what in enumerate(("error", "log loss")):
            pairs = [(f[a][i], f[b][i]) for f in cases.values() if a in f and b in f]
            wins = sum(x < y for x, y in pairs), sum(y < x for x, y in pairs)
            print(f"| {what} | {a}, {b} | {wins[0]} | {wins[1]} | {len(pairs)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--table", action="store_true", help="only print the tables")
    asked = parser.parse_args()
    if asked.table:
        table()
        return
    cases: Any = itertools.product(range(asked.splits), asked.sets, asked.sizes, POWERS)
    for split, name, inducing, power in cases:
        if TABLE.has(set=name, split=split, inducing=inducing, power=power):
            continue
        row = run(name, split, inducing, float(power))
        TABLE.add(row)
        print({k: v for k, v in row.items() if k != "converged"}, flush=True)
    table()


if __name__ == "__main__":
    main()
