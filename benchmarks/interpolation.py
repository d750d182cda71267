"""Noise-free smooth functions: errors beside scikit-learn's, and z-scores of the predictions.

Eight functions of one to four inputs, 20 to 60 rows without noise, 500 new ones. scikit-learn's
process has one lengthscale per column too, a noise variance of 1e-13 that is not learned, and nine
restarts.

python -m benchmarks.interpolation [--kernels rbf matern52] [--seeds 3]
"""

import argparse
import itertools
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import cavity
from benchmarks.results import Table

TABLE = Table("interpolation.csv", ("function", "kernel", "seed"))
ALPHA, TESTS = 1e-13, 500
# Rows, inputs, each uniform on [0, 1], and the function.
FUNCTIONS: dict[str, tuple[int, int, Callable[[np.ndarray], np.ndarray]]] = {
    "line": (30, 1, lambda X: 5.0 * X[:, 0]),
    "sine": (20, 1, lambda X: np.sin(6.0 * X[:, 0])),
    "damped": (40, 1, lambda X: np.exp(-2.0 * X[:, 0]) * np.cos(12.0 * X[:, 0])),
    "bowl": (30, 2, lambda X: np.sum((X - 0.3) ** 2, axis=1)),
    "product": (40, 2, lambda X: np.sin(3.0 * X[:, 0]) * np.exp(X[:, 1])),
    "ripples": (60, 2, lambda X: np.cos(5.0 * np.linalg.norm(X - 0.5, axis=1))),
    "three": (50, 3, lambda X: X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2])),
    "four": (60, 4, lambda X: np.exp(-np.sum((X - 0.5) ** 2, axis=1))),
}


def theirs(kernel: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> tuple[Any, Any]:
    """Means and deviations of scikit-learn's process."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

    ones: Any = np.ones(X.shape[1])
    wide = (1e-3, 1e5)
    part = RBF(ones, wide) if kernel == "rbf" else Matern(ones, wide, nu=2.5)
    model: Any = GaussianProcessRegressor(
        ConstantKernel(1.0, (1e-6, 1e9)) * part,
        alpha=ALPHA,
        normalize_y=True,
        n_restarts_optimizer=9,
        random_state=0,
    )
    return model.fit(X, y).predict(X_test, return_std=True)


def measure(name: str, kernel: str, seed: int) -> None:
    """Adds a row of results."""
    rows, columns, function = FUNCTIONS[name]
    X = np.random.default_rng(seed).random((rows + TESTS, columns))
    y = function(X)
    new, truth = X[rows:], y[rows:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model: Any = cavity.GPRegressor(kernel=kernel, random_state=0).fit(X[:rows], y[:rows])
        mean, std = model.predict(new, return_std=True)
        other, other_std = theirs(kernel, X[:rows], y[:rows], new)
    errors, others = mean - truth, other - truth
    rmse, rmse_theirs = (float(np.sqrt(np.mean(e**2))) for e in (errors, others))
    TABLE.add(
        {"function": name, "kernel": kernel, "seed": seed, "rmse": rmse}
        | {"rmse_theirs": rmse_theirs, "ratio": rmse / rmse_theirs}
        | {"z": float(np.sqrt(np.mean((errors / std) ** 2)))}
        | {"z_theirs": float(np.sqrt(np.mean((others / other_std) ** 2)))}
        | {"noise": float(model.likelihood_.variance) / float(np.var(y[:rows]))}
        | {"converged": model.converged_, "jitter": model.jitter_, "message": model.message_}
    )


def summary() -> str:
    """Medians over seeds."""
    rows = TABLE.rows()
    lines = [f"{'function':<10}{'kernel':<10}{'rmse':>10}{'over theirs':>13}{'z':>8}{'theirs':>8}"]
    for name, kernel in dict.fromkeys((row["function"], row["kernel"]) for row in rows):
        own = [row for row in rows if (row["function"], row["kernel"]) == (name, kernel)]
        rmse, ratio, z, z_theirs = (
            statistics.median(float(row[key]) for row in own)
            for key in ("rmse", "ratio", "z", "z_theirs")
        )
        lines.append(f"{name:<10}{kernel:<10}{rmse:>10.2g}{ratio:>13.2f}{z:>8.2f}{z_theirs:>8.2f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kernels", nargs="*", default=["rbf", "matern52"])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for kernel, name, seed in itertools.product(options.kernels, FUNCTIONS, range(options.seeds)):
        if not TABLE.has(function=name, kernel=kernel, seed=seed):
            measure(name, kernel, seed)
    print(summary())


if __name__ == "__main__":
    main()
