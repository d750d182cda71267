"""The problems, as files that every worker reads."""

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import FOLDER, uci

JITTER = 1e-6  # what GPflow and GPJax have by default


def start(X: np.ndarray, y: np.ndarray, Z: np.ndarray, **others: Any) -> dict[str, Any]:
    """A problem with starting parameters for standardised data."""
    D = X.shape[1]
    parameters = {"variance": 1.0, "lengthscale": np.full(D, np.sqrt(D)), "noise": 0.1}
    return {"X": X, "y": y, "Z": Z, "jitter": JITTER} | parameters | others


def synthetic(N: int, M: int, D: int = 8, *, tests: int = 0, steps: int = 0) -> dict[str, Any]:
    """Normal inputs, a sine of a projection of them, noise; the first rows are inducing points.

    Args:
        N: rows.
        M: inducing points.
        D: inputs.
        tests: rows to predict.
        steps: minibatches of 256 rows.
    """
    r = np.random.default_rng(0)
    X = r.standard_normal((N + tests, D))
    f = np.sin(X @ r.standard_normal(D))
    y = f + 0.1 * r.standard_normal(N + tests)
    batches = np.array([r.choice(N, min(256, N), replace=False) for _ in range(steps)])
    found = start(X[:N], y[:N], X[:M], X_test=X[N:], y_test=y[N:], rate=0.01)
    return found | {"batches": batches, "labels": (f[:N] > 0.0).astype(float)}


def latent(N: int, M: int, Q: int = 10, P: int = 12) -> dict[str, Any]:
    """Outputs that are sines of latent inputs, and Gaussians about these to start from.

    Args:
        N: rows.
        M: inducing points.
        Q: latent dimensions.
        P: outputs.
    """
    r = np.random.default_rng(0)
    X = r.standard_normal((N, Q))
    Y = np.sin(X @ r.standard_normal((Q, P))) + 0.1 * r.standard_normal((N, P))
    return start(X, Y, X[:M], variances=np.full((N, Q), 0.1))


def continued(N: int, M: int, before: int) -> dict[str, Any]:
    """Rows after others: N new ones, with points beside those that the earlier ones had."""
    made = synthetic(N + before, M, tests=1_000)
    X, y, noise = made["X"], made["y"], np.random.default_rng(1).standard_normal(made["Z"].shape)
    earlier = {"X_before": X[N:], "y_before": y[N:], "Z_before": X[N : N + M]}
    # beside the old points, as after a step of learning
    return made | earlier | {"X": X[:N], "y": y[:N], "Z": X[N : N + M] + 0.1 * noise}


def deep(N: int, M: int, *, batch: int, steps: int, D: int = 8) -> dict[str, Any]:
    """Two layers of as many functions as columns and of one, with a q that is not the prior.

    Args:
        N: rows.
        M: inducing points of each layer.
        batch: rows of a minibatch.
        steps: minibatches.
        D: inputs.
    """
    r = np.random.default_rng(0)
    X = r.standard_normal((N, D))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * r.standard_normal(N)
    batches = np.array([r.choice(N, batch, replace=False) for _ in range(steps)])
    # of whitened inducing variables: the functions of the first layer, then that of the last
    below = np.tril(r.standard_normal((D + 1, M, M)), -1) / M
    q = {"q_mean": 0.5 * r.standard_normal((D + 1, M)), "q_root": 0.5 * np.eye(M) + below}
    return start(X, y, X[:M], batches=batches, rate=0.01, inner_variance=0.1) | q


def table(name: str, M: int, rows: int | None = None) -> dict[str, Any]:
    """A published set, standardised by its training rows, with inducing points by k-means.

    Raises:
        FileNotFoundError: where the data are not there.
    """
    if name == "protein":
        X, y, X_test, y_test = uci("protein", 0)
    else:
        parts = ("train_data", "train_labels", "test_data", "test_labels")
        X, y, X_test, y_test = (_text(FOLDER / name / f"{name}_{part}.asc.gz") for part in parts)
    X, y = X[:rows], np.ravel(y)[:rows]
    keep = X.std(axis=0) > 0.0
    centre, spread = X[:, keep].mean(axis=0), X[:, keep].std(axis=0)
    X, X_test = ((a[:, keep] - centre) / spread for a in (X, X_test))
    y, y_test = ((np.ravel(a) - y.mean()) / y.std() for a in (y, y_test))
    return start(X, y, _centres(X, M), X_test=X_test, y_test=y_test)


def _text(path: Path) -> np.ndarray:
    with gzip.open(path, "rt") as file:
        return np.loadtxt(file)


def _centres(X: np.ndarray, M: int) -> np.ndarray:
    from sklearn.cluster import KMeans

    kmeans: Any = KMeans  # its annotations are narrower than what it takes
    return kmeans(M, n_init=1, max_iter=50, random_state=0).fit(X).cluster_centers_


def save(problem: dict[str, Any], folder: str, name: str) -> str:
    """Writes a problem and gives its path."""
    path = Path(folder) / f"{name}.npz"
    np.savez(path, **problem)
    assert zipfile.is_zipfile(path)
    return str(path)
