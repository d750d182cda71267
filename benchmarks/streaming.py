"""Models that go on learning, beside a fit of all rows together.

banana: three batches, 30 points, in random order and sorted by the first column.
kin40k: 20 batches of its 10,000 training rows, 200 points.
powers: a curve in six sorted batches, 14 points; powers of the past and of the new rows.

python -m benchmarks.streaming [--only banana,kin40k,powers] [--seeds 3]
"""

import argparse
import itertools
import time
import warnings
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.banana import data as banana
from benchmarks.data import FOLDER
from benchmarks.results import Table

TABLE = Table("streaming.csv", ("case", "order", "power", "past_power", "reuse", "seed"))
POWERS = [(0.0, 0.0), (0.5, 0.0), (0.5, 0.5), (1.0, 1.0)]


def streamed(
    model: cavity.GP, X: np.ndarray, y: np.ndarray, batches: int, first: int, **options: Any
) -> Any:
    """The model after all batches, the first of which is fitted."""
    parts = np.array_split(np.arange(len(X)), batches)
    power = options.get("power", 0.5)
    result: Any = cavity.fit(model, X[parts[0]], y[parts[0]], power=power, max_iterations=first)
    for part in parts[1:]:
        result = cavity.update(result, X[part], y[part], **options)
    return result


def least_distance(result: Any) -> float:
    """The least distance of two inducing points."""
    Z = np.asarray(result.model.inducing.Z)
    apart = np.linalg.norm(Z[:, None] - Z[None], axis=2)
    return float(np.min(apart[np.triu_indices(len(Z), 1)]))


def scores(result: Any, X: np.ndarray, y: np.ndarray, *, labels: bool) -> dict[str, float]:
    """Test error (of labels the share that is wrong, else the RMSE) and NLPD."""
    predicted = result.posterior.predict(X)
    mean = np.asarray(predicted.mean)
    wrong = np.mean((mean > 0.5) != y) if labels else np.sqrt(np.mean((mean - y) ** 2))
    return {"error": float(wrong), "nlpd": float(-np.mean(predicted.log_density(y)))}


def compare(
    case: str,
    split: tuple[np.ndarray, ...],
    model: Any,
    settings: dict[str, Any],
    *,
    order: str,
    batches: int,
    seed: int,
    labels: bool = False,
) -> None:
    """One row: a stream, and the fit of all rows together at the same power."""
    X, y, X_test, y_test = split
    key = {"case": case, "order": order, "seed": seed, "power": settings["power"]}
    key |= {"past_power": settings["past_power"], "reuse": settings.get("reuse", "likelihood")}
    if TABLE.has(**key):
        return
    arranged = np.random.default_rng(seed).permutation(len(X))
    if order == "sorted":
        arranged = np.argsort(X[:, 0], kind="stable")
    X, y = X[arranged], y[arranged]
    first = X[: len(X) // batches]
    began = time.perf_counter()
    result = streamed(model(first), X, y, batches, 200, **settings)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    whole = cavity.fit(model(X), X, y, power=settings["power"], max_iterations=300)
    row = key | scores(result, X_test, y_test, labels=labels)
    beside = {f"batch_{k}": v for k, v in scores(whole, X_test, y_test, labels=labels).items()}
    row |= beside | {"least_distance": least_distance(result), "lost": result.lost}
    row |= {"seconds": seconds, "batch_seconds": time.perf_counter() - began}
    TABLE.add(row)
    print(row, flush=True)


def on_banana(seeds: int) -> None:
    X, y, X_test, y_test = banana()
    split = (X, y.astype(float), X_test, y_test.astype(float))

    def model(rows: np.ndarray) -> cavity.GP:
        kernel = cavity.kernels.RBF(1.0, np.ones(2))
        Z = cavity.select_inducing(kernel, rows, 30)
        return cavity.GP(kernel, cavity.likelihoods.Bernoulli(), cavity.inducing.Points(Z))

    for order, (power, past) in itertools.product(("random", "sorted"), POWERS[:3]):
        for seed in range(seeds if order == "random" else 1):
            settings = {"power": power, "past_power": past}
            arranged: dict[str, Any] = {"order": order, "batches": 3, "seed": seed}
            compare("banana", split, model, settings, labels=True, **arranged)


def on_kin40k() -> None:
    files = [
        f"kin40k_{part}_{what}.asc.gz" for part in ("train", "test") for what in ("data", "labels")
    ]
    X, y, X_test, y_test = (np.loadtxt(FOLDER / "kin40k" / name) for name in files)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    level, unit = y.mean(), y.std()
    split = ((X - centre) / spread, (y - level) / unit, (X_test - centre) / spread)

    def model(rows: np.ndarray) -> cavity.GP:
        kernel = cavity.kernels.RBF(1.0, np.full(X.shape[1], 2.0))
        Z = cavity.select_inducing(kernel, rows, 200)
        return cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), cavity.inducing.Points(Z))

    whole = (*split, (y_test - level) / unit)
    for power in (0.0, 0.5):
        settings = {"power": power, "past_power": 0.0}
        compare("kin40k", whole, model, settings, order="random", batches=20, seed=0)


def on_powers(seeds: int) -> None:
    for seed in range(seeds):
        random = np.random.default_rng(seed)
        X = random.uniform(-3.0, 3.0, (300, 1))
        y = np.sin(3.0 * X[:, 0]) + 0.2 * random.normal(size=300)
        X_test = np.linspace(-3.0, 3.0, 200)[:, None]
        split = (X, y, X_test, np.sin(3.0 * X_test[:, 0]))

        def model(rows: np.ndarray) -> cavity.GP:
            kernel = cavity.kernels.RBF(1.0, 0.5)
            Z = cavity.select_inducing(kernel, rows, 14)
            return cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), cavity.inducing.Points(Z))

        arranged: dict[str, Any] = {"order": "sorted", "batches": 6, "seed": seed}
        for power, past in POWERS:
            compare("curve", split, model, {"power": power, "past_power": past}, **arranged)
        naive = {"power": 0.5, "past_power": 0.0, "reuse": "posterior", "inducing": "keep"}
        compare("curve", split, model, naive, **arranged)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="banana,powers,kin40k")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    chosen = options.only.split(",")
    warnings.filterwarnings("ignore", message=".* new outputs")
    with jax.enable_x64(True):
        if "powers" in chosen:
            on_powers(options.seeds)
        if "banana" in chosen:
            on_banana(options.seeds)
        if "kin40k" in chosen:
            on_kin40k()


if __name__ == "__main__":
    main()
