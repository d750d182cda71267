"""Deep and single-layer classifiers by the same steps: test error and negative log probability.

Banana (400 rows), magic (17,118 training rows) and mnist (60,000 images). One layer is the sparse
GP with a tied site, learned from the same minibatches.

python -m benchmarks.deep_classes [--sets banana,magic,mnist] [--layers 1,2] [--steps 2500]
"""

import argparse
import gzip
import resource
import time
import warnings
from collections.abc import Callable

import numpy as np

import cavity
from benchmarks import banana
from benchmarks.data import FOLDER
from benchmarks.results import Table

TABLE = Table("deep_classes.csv", ("set", "layers", "power", "steps"))
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def mnist() -> Rows:
    """60,000 training and 10,000 test images, their labels."""

    def images(name: str) -> np.ndarray:
        with gzip.open(FOLDER / "mnist" / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784) / 255.0

    def labels(name: str) -> np.ndarray:
        with gzip.open(FOLDER / "mnist" / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=8)

    X, X_test = images("train-images-idx3-ubyte.gz"), images("t10k-images-idx3-ubyte.gz")
    return X, labels("train-labels-idx1-ubyte.gz"), X_test, labels("t10k-labels-idx1-ubyte.gz")


def bananas() -> Rows:
    """The banana set."""
    X, y, X_test, y_test = banana.data()
    return X, y.astype(int), X_test, y_test.astype(int)


def magic() -> Rows:
    """A tenth of the rows, drawn at random, are the test rows."""
    with gzip.open(FOLDER / "magic" / "magic.tsv.gz", "rt") as file:
        table = np.loadtxt(file, skiprows=1)
    X, y = table[:, :-1], table[:, -1].astype(int)
    order = np.random.default_rng(0).permutation(len(X))
    test, train = order[: len(X) // 10], order[len(X) // 10 :]
    return X[train], y[train], X[test], y[test]


SETS: dict[str, Callable[[], Rows]] = {"banana": bananas, "magic": magic, "mnist": mnist}


def measure(name: str, layers: int, power: float, steps: int) -> None:
    """Fits one classifier and adds a row of results."""
    X, y, X_test, y_test = SETS[name]()
    width = 10 if name == "mnist" else "auto"
    model = cavity.DeepGPClassifier(
        n_layers=layers, width=width, power=power, steps=steps, random_state=0
    )
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(action="ignore"):
        model.fit(X, y)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    chances = model.predict_proba(X_test)
    place = np.searchsorted(model.classes_, y_test)
    own = np.maximum(chances[np.arange(len(place)), place], 1e-300)
    row = {
        "error": float(np.mean(model.classes_[chances.argmax(axis=1)] != y_test)),
        "nlpp": float(-np.mean(np.log(own))),
        "log_evidence": float(np.asarray(model.log_evidence_)),
        "converged": bool(model.converged_),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
    }
    print({"set": name, "layers": layers} | row, flush=True)
    TABLE.add({"set": name, "layers": layers, "power": power, "steps": steps} | row)


def main() -> None:
    """Measures what is not in the table yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--layers", default="1,2")
    parser.add_argument("--power", type=float, default=0.5)
    parser.add_argument("--steps", type=int, default=2500)
    options = parser.parse_args()
    for name in options.sets.split(","):
        for layers in map(int, options.layers.split(",")):
            key = {"set": name, "layers": layers, "power": options.power, "steps": options.steps}
            if not TABLE.has(**key):
                measure(name, **{k: v for k, v in key.items() if k != "set"})


if __name__ == "__main__":
    main()
