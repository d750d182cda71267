"""Where a third window is best: a broad maximum, and a needle beside a window that is there (E19).

Three windows are learned on the 200 rows of Snelson from several starts, without jitter, and the
best is kept. One of the closest pair is then moved along the axis, and the pair is merged.
"""

from typing import Any

import equinox as eqx
import numpy as np

import cavity
from benchmarks.domains.tables import snelson
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods

SCAN = Table("domains_scan.csv", ("jitter", "place"))
PAIR = Table("domains_pair.csv", ("model",))
JITTERS = (1e-14, 1e-6, 1e-3)
STARTS = 12


def bound(model: Any, X: np.ndarray, y: np.ndarray, jitter: float) -> float:
    return float(cavity.infer(model, X, y, power=0.0, jitter=jitter).log_evidence)


def best_of_three(X: np.ndarray, y: np.ndarray) -> Any:
    """The model of three windows with the largest bound."""
    found = []
    for seed in range(STARTS):
        random = np.random.default_rng(seed)
        places, widths = random.uniform(0.0, 6.0, (3, 1)), random.uniform(0.1, 1.0, (3, 1))
        windows = inducing.Windows(places, widths)
        start = cavity.GP(kernels.RBF(1.0, [1.0]), likelihoods.Gaussian(0.1), windows)
        try:
            result: Any = cavity.fit(start, X, y, power=0.0, jitter=JITTERS[0], tolerance=1e-5)
        except (cavity.fitting.NumericalError, ValueError) as error:
            print(seed, error)
            continue
        print(seed, result.log_evidence, np.ravel(result.model.inducing.centres), flush=True)
        found.append((float(result.log_evidence), seed, result.model))
    return max(found)[2]


def closest(model: Any) -> tuple[int, int]:
    """The two windows nearest to each other."""
    centres = np.ravel(model.inducing.centres)
    i, j = sorted(np.argsort(centres)[np.argmin(np.diff(np.sort(centres))) :][:2])
    return int(i), int(j)


def pair(model: Any, X: np.ndarray, y: np.ndarray) -> None:
    """The closest pair: their correlation, their weights, and what merging them costs."""
    i, j = closest(model)
    result = cavity.infer(model, X, y, power=0.0, jitter=JITTERS[0])
    small: Any = cavity.fitting.compressed(result.posterior)
    weights = np.ravel(small.process.weights)
    K = np.asarray(inducing.covariance(model.kernel, model.inducing, model.inducing))
    Kuf = np.asarray(inducing.covariance(model.kernel, model.inducing, inducing.Points(X)))
    noise = float(model.likelihood.noise_variance())
    S = K @ np.linalg.solve(K + Kuf @ Kuf.T / noise, K)
    one = inducing.merged(model.inducing, i, j, weights[[i, j]])
    merged: Any = eqx.tree_at(lambda m: m.inducing, model, one, is_leaf=lambda x: x is None)
    kept = [k for k in range(3) if k != j]
    windows = inducing.Windows(*(np.asarray(x)[kept] for x in _arrays(model)))
    without: Any = eqx.tree_at(lambda m: m.inducing, model, windows)
    for name, which in (("three", model), ("merged", merged), ("two", without)):
        row = {
            "model": name,
            "bound": bound(which, X, y, JITTERS[0]),
            "bound_with_jitter": bound(which, X, y, JITTERS[2]),
            "first": float(np.ravel(model.inducing.centres)[i]),
            "apart": float(abs(np.diff(np.ravel(model.inducing.centres)[[i, j]])[0])),
            "correlation": f"{S[i, j] / np.sqrt(S[i, i] * S[j, j]):.10f}",
            "first_weight": float(weights[i]),
            "second_weight": float(weights[j]),
        }
        PAIR.add(row)
        print(row, flush=True)


def _arrays(model: Any) -> tuple[Any, Any]:
    return model.inducing.centres, model.inducing.widths


def scan(model: Any, X: np.ndarray, y: np.ndarray) -> None:
    """The bound with the second of the pair at other places."""
    i, j = closest(model)
    centres, widths = (np.array(x) for x in _arrays(model))
    steps = np.geomspace(1e-6, 0.3, 31)
    near = centres[i, 0] + np.concatenate([[0.0], steps, -steps, np.linspace(-0.01, 0.01, 41)])
    for jitter in JITTERS:
        for place in np.unique(
            np.concatenate([np.linspace(0.0, 6.0, 121), near, [centres[j, 0]]])
        ):
            if SCAN.has(jitter=float(jitter), place=float(place)):
                continue
            moved = centres.copy()
            moved[j, 0] = place
            at = eqx.tree_at(lambda m: m.inducing, model, inducing.Windows(moved, widths))
            row = {
                "jitter": float(jitter),
                "place": float(place),
                "beside": float(place - centres[i, 0]),
                "bound": bound(at, X, y, jitter),
            }
            SCAN.add(row)


def run() -> None:
    """The best three windows, their pair and the scan."""
    X, y = snelson()
    model = best_of_three(X, y)
    pair(model, X, y)
    scan(model, X, y)
