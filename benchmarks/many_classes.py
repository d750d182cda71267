"""Multi-class sets, random 90/10 splits fixed by seed: error and negative log probability.

For powers 1, 0.5 and 0 with coupled classes, class-factorised EP, Laplace's method and variational
inference with the softmax. Full models up to 1,000 training rows, 100 inducing points beyond and
for variational inference, which has no full form here, without Laplace's method, which has no
sparse one. Test rows of a class that training rows lack
are left out. Digits (usps) have their published split, one lengthscale for all pixels, and points
that stay where they were chosen unless a method says that it learns them. Rows that are there
already are not measured again.

python -m benchmarks.many_classes [--splits 10] [--sets iris ...] [--methods "power 1" ...]
                                  [--sizes 200 ...] [--table]
"""

import argparse
import gzip
import itertools
import time
import warnings
from typing import Any

import equinox as eqx
import jax
import numpy as np
from sklearn.cluster import KMeans

import cavity
from benchmarks.data import FOLDER, Split
from benchmarks.results import Table
from cavity.initialisation import Inducing
from cavity.parameters import FIXED, bijections

TABLE = Table("many_classes.csv", ("set", "split", "method", "inducing"))
# Where the labels are, how columns are separated, and columns that are no inputs.
SETS: dict[str, tuple[str, str, int, tuple[int, ...]]] = {
    "iris": ("iris.csv.gz", ",", -1, ()),
    "wine": ("wine.data.gz", ",", 0, ()),
    "new_thyroid": ("new-thyroid.csv.gz", ",", -1, ()),
    "zoo": ("Zoo.csv.gz", ",", -1, ()),
    "tae": ("tae.tsv.gz", "\t", -1, ()),
    "glass": ("glass.data.gz", ",", -1, (0,)),
    "segment": ("segment.tsv.gz", "\t", -1, ()),
}
FULL_ROWS, INDUCING = 1_000, 100
METHODS: dict[str, dict[str, Any]] = {
    "power 1": {"power": 1.0},
    "power 0.5": {"power": 0.5},
    "power 0": {"power": 0.0},
    "class-factorised EP": {"method": cavity.PowerEP(coupled=False), "power": 1.0},
    "softmax, Laplace": {"likelihood": "softmax", "method": "laplace"},
    "softmax, variational": {"likelihood": "softmax", "method": "tied", "power": 0.0},
}
# Of usps only.
SOFTMAX_LEARNED = "softmax, minibatches"
POINTS_LEARNED = "class-factorised EP, points learned"
KERNEL_HELD = "softmax, minibatches, kernel held"
COUPLED_HELD = {f"{power}, kernel held": power for power in ("power 1", "power 0.5", "power 0")}
# Asked for by name: of large sets, with inducing points learned from minibatches.
MINIBATCHES = cavity.TiedPowerEP(batch=256, max_sweeps=3000)
BY_NAME: dict[str, dict[str, Any]] = {
    SOFTMAX_LEARNED: {
        "likelihood": "softmax",
        "method": MINIBATCHES,
        "power": 0.0,
    },
    POINTS_LEARNED: {"power": 1.0},
    KERNEL_HELD: {},
} | {name: METHODS[power] for name, power in COUPLED_HELD.items()}
# Of digits with points that are learned: steps of Adam, and the variance and lengthscale to start
# from, which with 500 points are those that 200 points learned.
DIGITS = {200: (150, 100.0, 6.5), 500: (45, 131.0, 14.9)}
# The kernel of digits that is held, and the steps that points get that are learned with it.
HELD, HELD_BATCHES = (130.0, 6.5), cavity.TiedPowerEP(batch=256, max_sweeps=2500)


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels of a set."""
    file, separator, target, left_out = SETS[name]
    with gzip.open(FOLDER / name / file, "rt") as lines:
        table = [line.strip().split(separator) for line in lines if line.strip()]
    if not table[0][1].replace(".", "").replace("-", "").isdigit():
        table = table[1:]
    truth = {"True": "1", "False": "0"}
    labels = np.array([row[target] for row in table])
    width = len(table[0])
    kept = [i for i in range(width) if i != target % width and i not in left_out]
    return np.array([[float(truth.get(row[i], row[i])) for i in kept] for row in table]), labels


def splits(name: str, count: int) -> dict[int, Split]:
    """Training and test rows of each split; inputs as they are."""
    if name == "usps":
        found = np.load(FOLDER / "usps" / "usps.npz")
        train, test = (found[f"X_{part}_milli"] / 1000.0 for part in ("train", "test"))
        return {0: (train, found["y_train"], test, found["y_test"])}
    X, y = load(name)
    out = {}
    for split in range(count):
        order = np.random.default_rng(split).permutation(len(y))
        test, train = np.split(order, [len(y) // 10])
        known = np.isin(y[test], y[train])
        out[split] = X[train], y[train], X[test][known], y[test][known]
    return out


def setting(name: str, rows: int, sizes: list[int] | None) -> list[dict[str, Any]]:
    """The models of a set: full, or with numbers of inducing points."""
    if name == "usps":
        kernel = cavity.kernels.RBF(10.0, 8.0)
        chosen: dict[str, Any] = {"kernel": kernel, "mean": "zero"}
        more = {"max_iterations": 15, "inducing": Inducing("kmeans", learn=False)}
        return [chosen | more | {"n_inducing": m} for m in sizes or [200]]
    if rows <= FULL_ROWS:
        return [{"n_inducing": None}]
    return [{"n_inducing": m, "max_iterations": 60} for m in sizes or [INDUCING]]


def options_of(method: str, model: dict[str, Any], rows: int) -> dict[str, Any]:
    """The settings of a method on a model."""
    found = model | (METHODS | BY_NAME)[method]
    if method in (SOFTMAX_LEARNED, POINTS_LEARNED) and "inducing" in found:
        found["inducing"] = found["inducing"].start  # which moves
    if method == POINTS_LEARNED:
        steps, variance, lengthscale = DIGITS[found["n_inducing"]]
        found["method"] = cavity.PowerEP(coupled=False, interleaved=steps)
        found["kernel"] = cavity.kernels.RBF(variance, lengthscale)
    if method in COUPLED_HELD:
        found |= {"kernel": cavity.kernels.RBF(*HELD), "max_iterations": 0}
    if found.get("method") == "tied" and found["n_inducing"] is None:
        found["n_inducing"] = min(INDUCING, rows)  # it has no full form
    return found


def scores(data: Split, log_p: np.ndarray) -> dict[str, Any]:
    """Scores of the log probabilities of test rows, classes in sorted order."""
    _, y, _, labels = data
    known = np.unique(y)
    truth = np.searchsorted(known, labels)
    return {
        "rows": len(y),
        "classes": len(known),
        "error": float(np.mean(np.argmax(log_p, axis=1) != truth)),
        "nlpp": float(-np.mean(log_p[np.arange(len(truth)), truth])),
    }


def run(data: Split, options: dict[str, Any]) -> dict[str, Any]:
    """The estimator with its settings."""
    X, y, new, _ = data
    start = time.perf_counter()
    gp = cavity.GPClassifier(random_state=0, **options).fit(X, y)
    seconds = time.perf_counter() - start
    print(gp.kernel_, flush=True)
    return scores(data, gp.predict_log_proba(new)) | {
        "log_evidence": gp.log_evidence_,
        "converged": gp.converged_,
        "iterations": gp.n_iter_,
        "seconds": seconds,
    }


@jax.enable_x64(True)
def run_held(data: Split, options: dict[str, Any]) -> dict[str, Any]:
    """Inducing points learned by the variational softmax, with a kernel that stays as it is."""
    X, y, new, _ = data
    start = time.perf_counter()
    known, index = np.unique(y, return_inverse=True)
    once: Any = {"n_init": 1, "random_state": 0}
    points = KMeans(options["n_inducing"], **once).fit(X).cluster_centers_
    likelihood = cavity.likelihoods.Softmax(len(known))
    model = cavity.GP(cavity.kernels.RBF(*HELD), likelihood, cavity.inducing.Points(points))
    free = bijections(model)
    held = eqx.tree_at(lambda m: (m.kernel.variance, m.kernel.lengthscale), free, (FIXED, FIXED))
    out = index.astype(float)
    found = cavity.fit(model, X, out, power=0.0, method=HELD_BATCHES, bijections=held)
    seconds = time.perf_counter() - start
    posterior: Any = found.posterior
    parts = [posterior.predict(x).log_probabilities for x in np.array_split(new, 8)]
    return scores(data, np.concatenate(parts)) | {
        "log_evidence": float(found.log_evidence),
        "converged": bool(found.converged),
        "iterations": HELD_BATCHES.max_sweeps,
        "seconds": seconds,
    }


def table() -> None:
    """Means over the splits that are there."""
    cases: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in TABLE.rows():
        cases.setdefault((row["set"], row["method"], row["inducing"]), []).append(row)
    print("| set | method | inducing | splits | error | log loss | converged |")
    print("|---|---|---|---|---|---|---|")
    for name, method in itertools.product([*SETS, "usps"], METHODS | BY_NAME):
        for case, found in cases.items():
            if case[:2] == (name, method):
                error, loss = (np.mean([float(r[k]) for r in found]) for k in ("error", "nlpp"))
                settled = sum(r["converged"] == "True" for r in found)
                cells = [*case, str(len(found)), f"{error:.3f}", f"{loss:.3f}"]
                print(f"| {' | '.join(cells)} | {settled} of {len(found)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="only print the table")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--sets", nargs="*", default=[*SETS])
    parser.add_argument("--methods", nargs="*", default=[*METHODS])
    parser.add_argument("--sizes", nargs="*", type=int)
    asked = parser.parse_args()
    if asked.table:
        table()
        return
    for digits in {POINTS_LEARNED, KERNEL_HELD, *COUPLED_HELD} & set(asked.methods):
        if asked.sets != ["usps"]:
            parser.error(f"{digits!r} has settings for --sets usps alone")
    warnings.simplefilter("ignore")
    tables = {name: splits(name, asked.splits) for name in asked.sets}
    runs: Any = itertools.product(asked.sets, range(asked.splits), asked.methods)
    last = None
    for name, split, method in runs:
        if name != last:  # compiled programs of other shapes use up the memory maps of a process
            jax.clear_caches()
            last = name
        if split not in tables[name]:
            continue
        data = tables[name][split]
        for model in setting(name, len(data[1]), asked.sizes):
            options = options_of(method, model, len(data[1]))
            inducing = options["n_inducing"] or "full"
            sparse = inducing != "full"
            key = {"set": name, "split": split, "method": method, "inducing": inducing}
            if TABLE.has(**key) or (sparse and method == "softmax, Laplace"):
                continue
            found = key | (run_held if method == KERNEL_HELD else run)(data, options)
            TABLE.add(found)
            print(found, flush=True)


if __name__ == "__main__":
    main()
