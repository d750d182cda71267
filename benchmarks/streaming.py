"""Models that go on learning, beside a fit of all rows together.

banana: three batches, 30 points, in random order and sorted by the first column.
kin40k: 20 batches of its 10,000 training rows, 200 points.
powers: a curve in six sorted batches, 14 points; powers of the past and of the new rows.
drift: the curve in 30 batches of ten rows in random order, 14 points that stay where they are, so
that only parameters move; the likelihood of old rows as a factor, and their posterior as a prior.
elevators: evans_elevators sorted by its first input, ten batches, 100 points, Matern-5/2.
co2: weekly carbon dioxide in 40 batches; how each batch was predicted by the stream, and by a fit
of all rows before it that starts from the last one.

python -m benchmarks.streaming [--only banana,kin40k,powers,drift,elevators,co2] [--seeds 3]
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

import cavity
from benchmarks.banana import data as banana
from benchmarks.data import FOLDER
from benchmarks.results import Table
from cavity import parameters

TABLE = Table("streaming.csv", ("case", "order", "power", "past_power", "reuse", "seed"))
CO2 = Table("streaming_co2.csv", ("batches", "M"))
POWERS = [(0.0, 0.0), (0.5, 0.0), (0.5, 0.5), (1.0, 1.0)]


def streamed(
    model: cavity.GP,
    X: np.ndarray,
    y: np.ndarray,
    batches: int,
    first: dict[str, Any],
    **options: Any,
) -> Any:
    """The model after all batches, the first of which is fitted."""
    parts = np.array_split(np.arange(len(X)), batches)
    result: Any = cavity.fit(model, X[parts[0]], y[parts[0]], **first)
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
    held: bool = False,
) -> None:
    """One row: a stream, and the fit of all rows together at the same power.

    With `held` both keep the inducing points that the model has.
    """
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
    options: dict[str, Any] = {"power": settings["power"]}
    if held:
        maps = parameters.bijections(model(X))
        moves = eqx.tree_at(lambda m: m.inducing.Z, maps, parameters.FIXED)
        options |= {"bijections": moves}
    began = time.perf_counter()
    learned = options | {"max_iterations": 200}
    result = streamed(model(first), X, y, batches, learned, **settings)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    whole = cavity.fit(model(X), X, y, **options, max_iterations=300)
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
        Z = cavity.initialisation.select_inducing(kernel, rows, 30)
        return cavity.GP(kernel, cavity.likelihoods.Bernoulli(), cavity.inducing.Points(Z))

    for order, (power, past) in itertools.product(("random", "sorted"), POWERS[:3]):
        for seed in range(seeds if order == "random" else 1):
            settings = {"power": power, "past_power": past}
            arranged: dict[str, Any] = {"order": order, "batches": 3, "seed": seed}
            compare("banana", split, model, settings, labels=True, **arranged)


def kin40k() -> tuple[np.ndarray, ...]:
    """Training and test inputs and outputs, standardised by the training rows."""
    files = [
        f"kin40k_{part}_{what}.asc.gz" for part in ("train", "test") for what in ("data", "labels")
    ]
    X, y, X_test, y_test = (np.loadtxt(FOLDER / "kin40k" / name) for name in files)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    level, unit = y.mean(), y.std()
    train, test = (X - centre) / spread, (X_test - centre) / spread
    return train, (y - level) / unit, test, (y_test - level) / unit


def on_kin40k() -> None:
    whole = kin40k()

    def model(rows: np.ndarray) -> cavity.GP:
        kernel = cavity.kernels.RBF(1.0, np.full(rows.shape[1], 2.0))
        Z = cavity.initialisation.select_inducing(kernel, rows, 200)
        return cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), cavity.inducing.Points(Z))

    for power in (0.0, 0.5):
        settings = {"power": power, "past_power": 0.0}
        compare("kin40k", whole, model, settings, order="random", batches=20, seed=0)


def on_elevators() -> None:
    table = np.loadtxt(FOLDER / "evans_elevators" / "data.csv.gz", delimiter=",")
    X, y = table[:, :-1], table[:, -1]
    random = np.random.default_rng(0).permutation(len(X))
    train, test = random[: len(X) * 9 // 10], random[len(X) * 9 // 10 :]
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    y = (y - y[train].mean()) / y[train].std()

    def model(rows: np.ndarray) -> cavity.GP:
        kernel = cavity.kernels.Matern52(1.0, np.full(X.shape[1], 4.0))
        Z = cavity.initialisation.select_inducing(kernel, rows, 100)
        return cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), cavity.inducing.Points(Z))

    split = X[train], y[train], X[test], y[test]
    for power in (0.0, 0.5):
        settings = {"power": power, "past_power": 0.0}
        compare("elevators", split, model, settings, order="sorted", batches=10, seed=0)


def on_co2(batches: int = 40, M: int = 50) -> None:
    if CO2.has(batches=batches, M=M):
        return
    with gzip.open(FOLDER / "mauna_loa" / "co2_weekly_statsmodels.csv.gz", "rt") as file:
        lines = [line.strip().split(",") for line in file.readlines()[1:]]
    days = [(np.datetime64(day), float(value)) for day, value in lines if value]
    weeks = np.array([(day - days[0][0]).astype(int) for day, _ in days])
    X, y = weeks[:, None] / 365.25, np.array([value for _, value in days])
    parts = np.array_split(np.arange(len(X)), batches)
    y = (y - y[parts[0]].mean()) / y[parts[0]].std()
    kernels = cavity.kernels
    season = kernels.Periodic(1.0, 1.0, 1.0) * kernels.RBF(1.0, 30.0)
    kernel = kernels.RBF(30.0, 30.0) + season + kernels.Matern32(0.1, 1.0)
    points = cavity.inducing.Points(cavity.initialisation.select_inducing(kernel, X[parts[0]], M))
    start = cavity.GP(kernel, cavity.likelihoods.Gaussian(0.05), points)
    stream: Any = cavity.fit(start, X[parts[0]], y[parts[0]], max_iterations=100)
    again: Any = stream
    found, took = [], np.zeros(2)
    for place, part in enumerate(parts[1:], 1):
        rows = np.concatenate(parts[: place + 1])
        before = np.mean(again.posterior.predict(X[part]).log_density(y[part]))
        began = time.perf_counter()
        stream = cavity.update(stream, X[part], y[part], power=0.5)
        took[0] += time.perf_counter() - began
        began = time.perf_counter()
        points = cavity.initialisation.select_inducing(again.model.kernel, X[rows], M)
        model = eqx.tree_at(lambda m: m.inducing, again.model, cavity.inducing.Points(points))
        again = cavity.fit(model, X[rows], y[rows], max_iterations=100)
        took[1] += time.perf_counter() - began
        found.append((stream.before.log_density, float(before)))
        print(place, len(points), found[-1], took, flush=True)
    # the first update predicts with the very model that was fitted
    ours, theirs = np.array(found[1:]).T
    row = {"batches": batches, "M": M, "before": ours.mean(), "refitted": theirs.mean()}
    row |= {"worst": float(np.max(theirs - ours)), "within": int(np.sum(theirs - ours <= 0.05))}
    CO2.add(row | {"seconds": float(took[0]), "refitted_seconds": float(took[1])})


def curve(seed: int) -> tuple[np.ndarray, ...]:
    """300 noisy rows of a sine, and 200 of the sine itself."""
    random = np.random.default_rng(seed)
    X = random.uniform(-3.0, 3.0, (300, 1))
    y = np.sin(3.0 * X[:, 0]) + 0.2 * random.normal(size=300)
    X_test = np.linspace(-3.0, 3.0, 200)[:, None]
    return X, y, X_test, np.sin(3.0 * X_test[:, 0])


def at(Z: np.ndarray) -> cavity.GP:
    """A model of the curve with these inducing points."""
    kernel = cavity.kernels.RBF(1.0, 0.5)
    return cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), cavity.inducing.Points(Z))


def on_powers(seeds: int) -> None:
    def model(rows: np.ndarray) -> cavity.GP:
        return at(cavity.initialisation.select_inducing(cavity.kernels.RBF(1.0, 0.5), rows, 14))

    for seed in range(seeds):
        split = curve(seed)
        arranged: dict[str, Any] = {"order": "sorted", "batches": 6, "seed": seed}
        for power, past in POWERS:
            compare("curve", split, model, {"power": power, "past_power": past}, **arranged)
        naive = {"power": 0.5, "past_power": 0.0, "reuse": "posterior", "inducing": "keep"}
        compare("curve", split, model, naive, **arranged)


def on_drift(seeds: int) -> None:
    Z = np.linspace(-3.0, 3.0, 14)[:, None]
    for seed, power, reuse in itertools.product(
        range(seeds), (0.0, 0.5), ("likelihood", "posterior")
    ):
        settings = {"power": power, "past_power": 0.0, "reuse": reuse, "inducing": "keep"}
        arranged: dict[str, Any] = {"order": "random", "batches": 30, "seed": seed}
        compare("drift", curve(seed), lambda rows: at(Z), settings, held=True, **arranged)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="banana,powers,drift,kin40k,elevators,co2")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    chosen = options.only.split(",")
    warnings.filterwarnings("ignore", message=".* new outputs")
    with jax.enable_x64(True):
        if "powers" in chosen:
            on_powers(options.seeds)
        if "drift" in chosen:
            on_drift(options.seeds)
        if "banana" in chosen:
            on_banana(options.seeds)
        if "kin40k" in chosen:
            on_kin40k()
        if "elevators" in chosen:
            on_elevators()
        if "co2" in chosen:
            on_co2()


if __name__ == "__main__":
    main()
