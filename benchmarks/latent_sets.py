"""Latent-variable models on published sets: embeddings, missing entries, densities.

- `oil`: errors of the nearest neighbour's class in the two most relevant dimensions, 1,000 rows of
  twelve outputs, ten latent dimensions, 50 inducing points.
- `missing`: 30 % of the entries of the test rows are hidden and predicted from the others.
- `usps`: a model per digit; a test image is of the digit whose model gives it most density.
- `robot`: signal strengths along a walk round a building, two latent dimensions.
- `pose`: the pose of a body from its silhouette, as missing outputs of a joint model.

python -m benchmarks.latent_sets [--only oil,missing] [--powers 0,0.5]
"""

import argparse
import gzip
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.data import FOLDER
from benchmarks.results import Table
from cavity import fitting
from cavity.learning.initialisation.latent import LatentStart
from cavity.learning.plans.latent import fit_latent
from cavity.learning.results.result import FitResult

TABLE = Table("latent_sets.csv", ("task", "model", "power"))
MINIBATCHES = cavity.TiedPowerEP(
    propagation=fitting.Moments(), batch=200, max_sweeps=500, learning_rate=0.005
)


def learned(Y: np.ndarray, dims: int, points: int, power: float, **options: Any) -> FitResult:
    """A model of outputs about their means, in units of the deviation of all of them."""
    kernel = cavity.kernels.RBF(1.0, np.full(dims, np.sqrt(dims)))
    noise = cavity.likelihoods.Gaussian(0.01)
    return fit_latent(LatentStart(kernel, noise, dims, points), Y, power=power, **options)


def oil() -> dict[str, np.ndarray]:
    """The oil-flow data, centred, in units of the deviation of all training outputs."""
    data = np.load(FOLDER / "oil_flow" / "oil_flow_3class.npz")
    centre, unit = data["DataTrn"].mean(axis=0), data["DataTrn"].std()
    rows = {name: (data[f"Data{name}"] - centre) / unit for name in ("Trn", "Tst")}
    return rows | {"labels": data["DataTrnLbls"].argmax(axis=1)}


def neighbour_errors(X: np.ndarray, labels: np.ndarray) -> int:
    """Rows whose nearest neighbour has another label."""
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squared, np.inf)
    return int(np.sum(labels[squared.argmin(axis=1)] != labels))


def components(Y: np.ndarray, dims: int) -> np.ndarray:
    """Principal components of rows about their mean."""
    U, s, _ = np.linalg.svd(Y - Y.mean(axis=0), full_matrices=False)
    return (U * s)[:, :dims]


def embed_oil(power: float) -> None:
    """Neighbours in the embedding, of free posteriors and of an encoder's."""
    data = oil()
    Y, labels = data["Trn"], data["labels"]
    raw, standard = (neighbour_errors(components(a, 2), labels) for a in (Y, Y / Y.std(axis=0)))
    TABLE.add(row("oil", "pca", 0.0, errors=raw, errors_standardised=standard))
    models: dict[str, dict[str, Any]] = {
        "free": {"max_iterations": 400},
        "encoder": {"max_iterations": 400, "encoder": True},
        "encoder minibatches": {"max_iterations": 400, "encoder": True, "method": MINIBATCHES},
    }
    for name, options in models.items():
        if TABLE.has(task="oil", model=name, power=power):
            continue
        watch = Watch()
        result = learned(Y, 10, 50, power, **options)
        seconds = watch.row()
        TABLE.add(row("oil", name, power, **errors_of(result, labels), **seconds))


def errors_of(result: FitResult, labels: np.ndarray) -> dict[str, Any]:
    """Errors in the two most relevant dimensions, and what was learned."""
    posterior: Any = result.posterior
    leading = np.argsort(-posterior.relevance)[:2]
    errors = neighbour_errors(np.asarray(posterior.latent.mean)[:, leading], labels)
    noise = float(np.asarray(result.model.likelihood.variance))  # type: ignore[attr-defined]
    return {"errors": errors, "log_evidence": result.log_evidence, "noise": noise}


def missing_oil(power: float) -> None:
    """Hidden entries of test rows, beside mean imputation and Gaussian (PCA) imputation."""
    data = oil()
    Y, Y_test = data["Trn"], data["Tst"]
    hidden = np.random.default_rng(0).uniform(size=Y_test.shape) < 0.3
    hidden[hidden.all(axis=1)] = False
    some = np.where(hidden, np.nan, Y_test)
    mean = np.broadcast_to(Y.mean(axis=0), some.shape), np.broadcast_to(Y.var(axis=0), some.shape)
    simple = {"mean": mean, "pca": gaussian_imputation(Y, some)}
    for name, (centre, var) in simple.items():
        density = -0.5 * (np.log(2 * np.pi * var) + (Y_test - centre) ** 2 / var)
        found = scores(Y_test, centre, np.sqrt(var), density, hidden)
        TABLE.add(row("missing", name, 0.0, **found))
    if TABLE.has(task="missing", model="free", power=power):
        return
    watch = Watch()
    result = learned(Y, 10, 50, power, max_iterations=400)
    predicted = result.posterior.reconstruct(some)  # type: ignore[union-attr]
    seconds = watch.row()
    moments = np.asarray(predicted.mean), np.sqrt(np.asarray(predicted.var))
    found = scores(Y_test, *moments, np.asarray(predicted.log_density(Y_test)), hidden)
    TABLE.add(row("missing", "free", power, **found, **seconds))


def gaussian_imputation(Y: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of missing entries under a Gaussian with the covariance of Y.

    It is that of principal components with all of them kept.
    """
    centre, cov = Y.mean(axis=0), np.cov(Y.T) + 1e-6 * np.eye(Y.shape[1])
    mean, var = np.nan_to_num(some), np.ones(some.shape)
    for i, values in enumerate(some):
        gone = np.isnan(values)
        if gone.any():
            gain = np.linalg.solve(cov[np.ix_(~gone, ~gone)], cov[np.ix_(~gone, gone)]).T
            mean[i, gone] = centre[gone] + gain @ (values - centre)[~gone]
            rest = cov[np.ix_(gone, gone)] - gain @ cov[np.ix_(~gone, gone)]
            var[i, gone] = np.diag(rest)
    return mean, var


def scores(
    y: np.ndarray, mean: np.ndarray, deviation: np.ndarray, density: np.ndarray, where: np.ndarray
) -> dict[str, float]:
    """Errors and log densities of some entries, and the share within 1.645 deviations.

    Densities also without the hundredth of the entries that have the lowest.
    """
    away, logs = np.abs(mean - y)[where], np.sort(density[where])
    return {
        "rmse": float(np.sqrt(np.mean(away**2))),
        "median_error": float(np.median(away)),
        "log_density": float(np.mean(logs)),
        "trimmed_log_density": float(np.mean(logs[len(logs) // 100 :])),
        "coverage_90": float(np.mean(away < 1.645 * deviation[where])),
    }


def usps(power: float) -> None:
    """One model per digit, and the digit of most density."""
    if TABLE.has(task="usps", model="free", power=power):
        return
    data = np.load(FOLDER / "usps" / "usps.npz")
    Y, Y_test = (data[f"X_{part}_milli"] / 1000.0 for part in ("train", "test"))
    labels, truth = data["y_train"], data["y_test"]
    watch, density = Watch(), np.empty((len(Y_test), 10))
    for digit in range(10):
        rows = Y[labels == digit]
        centre, unit = rows.mean(axis=0), rows.std()
        result = learned((rows - centre) / unit, 10, 40, power, max_iterations=150)
        bounds: Any = result.posterior.log_density  # type: ignore[union-attr]
        density[:, digit] = bounds((Y_test - centre) / unit) - Y.shape[1] * np.log(unit)
        print("digit", digit, watch.row(), flush=True)
    share = float(np.mean(density.argmax(axis=1) != truth))
    TABLE.add(row("usps", "free", power, error_rate=share, **watch.row()))


def robot(power: float) -> None:
    """How far the walk's two ends are from each other, and how well the map fits the truth."""
    with gzip.open(FOLDER / "robot_wireless" / "uw-floor.txt.gz", "rt") as file:
        readings = [line.split() for line in file]
    times = sorted({float(reading[0]) for reading in readings})
    senders, counts = np.unique([reading[1] for reading in readings], return_counts=True)
    senders = list(senders[np.argsort(-counts)[:30]])
    weakest = min(float(reading[4]) for reading in readings)
    Y, place = np.full((len(times), len(senders)), weakest - 2.0), np.zeros((len(times), 2))
    for stamp, sender, x, y, strength in readings:
        step = times.index(float(stamp))
        place[step] = float(x), float(y)
        if sender in senders:
            Y[step, senders.index(sender)] = float(strength)
    Y = (Y - Y.mean(axis=0)) / Y.std()
    watch = Watch()
    result = learned(Y, 2, 30, power, max_iterations=1000)
    X = np.asarray(result.posterior.latent.mean)  # type: ignore[union-attr]
    maps = {"free": X, "pca": components(Y, 2)}
    for name, X in maps.items():
        seconds = watch.row() if name == "free" else {}
        TABLE.add(row("robot", name, power, **walk_scores(X, place), **seconds))


def walk_scores(X: np.ndarray, place: np.ndarray) -> dict[str, float]:
    """Distance between the ends and the error of the best affine map, as shares of the size."""
    size = float(np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()))
    ends = float(np.linalg.norm(X[:5].mean(axis=0) - X[-5:].mean(axis=0)))
    design = np.column_stack([X, np.ones(len(X))])
    away = place - design @ np.linalg.lstsq(design, place, rcond=None)[0]
    spread = place - place.mean(axis=0)
    explained = 1.0 - float((away**2).sum() / (spread**2).sum())
    return {"gap_of_ends": ends / size, "explained": explained}


def pose(power: float) -> None:
    """Poses of test silhouettes, beside those of the nearest and of linear regression."""
    data = np.load(FOLDER / "silhouette_pose" / "ankurDataPoseSilhouette.npz")
    S, Z, S_test, Z_test = data["Y"], data["Z"], data["Y_test"], data["Z_test"]
    centre, unit, level = S.mean(axis=0), S.std(), Z.mean(axis=0)
    spread = Z.std()
    S, S_test = (S - centre) / unit, (S_test - centre) / unit
    Z = (Z - level) / spread
    nearest = Z[((S_test[:, None] - S[None]) ** 2).sum(axis=2).argmin(axis=1)]
    ridge = np.linalg.solve(S.T @ S + np.eye(S.shape[1]), S.T @ Z)
    watch = Watch()
    joint = learned(np.column_stack([S, Z]), 6, 80, power, max_iterations=300)
    gone = np.full((len(S_test), Z.shape[1]), np.nan)
    whole = joint.posterior.reconstruct(np.column_stack([S_test, gone]))  # type: ignore[union-attr]
    seconds = watch.row()
    guesses = {"nearest": nearest, "linear": S_test @ ridge}
    guesses["free"] = np.asarray(whole.mean)[:, S.shape[1] :]
    for name, guess in guesses.items():
        error = float(np.sqrt(np.mean((level + spread * guess - Z_test) ** 2)))
        own = seconds if name == "free" else {}
        TABLE.add(row("pose", name, power if name == "free" else 0.0, rmse=error, **own))


class Watch:
    """Seconds since it was made, and those of the processor."""

    def __init__(self) -> None:
        self.began, self.cpu = time.perf_counter(), time.process_time()

    def row(self) -> dict[str, float]:
        """The seconds so far."""
        now = time.perf_counter() - self.began
        return {"seconds": now, "cpu_seconds": time.process_time() - self.cpu}


COLUMNS = (
    "errors",
    "errors_standardised",
    "error_rate",
    "rmse",
    "log_density",
    "median_error",
    "trimmed_log_density",
    "coverage_90",
    "gap_of_ends",
    "explained",
    "log_evidence",
    "noise",
    "seconds",
    "cpu_seconds",
)


def row(task: str, model: str, power: float, **values: float) -> dict[str, Any]:
    """A row of results, with empty columns for what a task does not measure."""
    found = {"task": task, "model": model, "power": power}
    found |= {name: values.get(name, "") for name in COLUMNS}
    print({name: value for name, value in found.items() if value != ""}, flush=True)
    return found


TASKS: dict[str, Callable[[float], None]] = {
    "oil": embed_oil,
    "missing": missing_oil,
    "robot": robot,
    "pose": pose,
    "usps": usps,
}


def main() -> None:
    """Runs the tasks at every power."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(TASKS))
    parser.add_argument("--powers", default="0")
    options = parser.parse_args()
    with jax.enable_x64(True):
        for power in map(float, options.powers.split(",")):
            for task in options.only.split(","):
                TASKS[task](power)


if __name__ == "__main__":
    main()
