"""Sparse linear models on tables, beside Bayesian ridge, ARD and the lasso of scikit-learn.

diabetes: 442 rows, ten columns with their squares and products (64 columns).
wdbc: 569 rows, 30 columns, two classes. ionosphere: 351 rows, 34 columns, two classes.
sonar: 208 rows, 60 columns with their squares and products (1,890 columns), two classes.

Splits at random, a fifth of the rows for tests; columns are standardised on the training rows.
Measures are the mean log density of test outputs, in deviations of the training outputs, or the
mean log probability of test labels, and RMSE or error.

python -m benchmarks.sparse_real [--sets diabetes,wdbc,ionosphere,sonar] [--splits 10]
"""

import argparse
import itertools
import time
import warnings
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.linear_model import ARDRegression, BayesianRidge, LogisticRegressionCV
from sklearn.model_selection import train_test_split

import cavity
from benchmarks.data import FOLDER
from benchmarks.results import Table

REAL = Table("sparse_real.csv", ("set", "split", "method"))
REGRESSION = ("spike_slab", "horseshoe", "laplace", "gaussian", "bayesian_ridge", "ard")
CLASSES = ("spike_slab", "horseshoe", "laplace", "gaussian", "l1_logistic")


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and outputs."""
    if name in ("diabetes", "wdbc"):
        with np.load(FOLDER / "sklearn_sets" / f"{name}.npz") as found:
            X, y = np.asarray(found["X"], float), np.asarray(found["y"], float)
    else:
        file = {"ionosphere": "ionosphere.data.gz", "sonar": "sonar.all-data.gz"}[name]
        text = np.loadtxt(FOLDER / name / file, delimiter=",", dtype=str)
        X, labels = text[:, :-1].astype(float), text[:, -1]
        y = (labels == np.unique(labels)[0]).astype(float)
    return (with_products(X) if name in ("diabetes", "sonar") else X), y


def with_products(X: np.ndarray) -> np.ndarray:
    """The columns with their products and squares, those of columns with two values left out."""
    pairs = itertools.combinations_with_replacement(range(X.shape[1]), 2)
    centred = X - X.mean(axis=0)
    more = [
        centred[:, i] * centred[:, j] for i, j in pairs if i != j or len(np.unique(X[:, i])) > 2
    ]
    return np.column_stack([X, *more])


def split_of(name: str, split: int) -> tuple[np.ndarray, ...]:
    X, y = table(name)
    classes = len(np.unique(y)) == 2
    parts: Any = train_test_split(
        X, y, test_size=0.2, random_state=split, stratify=y if classes else None
    )
    X_train, X_test, y_train, y_test = parts
    mean, spread = X_train.mean(axis=0), X_train.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    if not classes:
        centre, width = y_train.mean(), y_train.std()
        y_train, y_test = (y_train - centre) / width, (y_test - centre) / width
    return (X_train - mean) / spread, y_train, (X_test - mean) / spread, y_test


def regression(method: str, data: tuple[np.ndarray, ...]) -> dict[str, Any]:
    X, y, X_test, y_test = data
    peers: dict[str, Any] = {"bayesian_ridge": BayesianRidge(), "ard": ARDRegression()}
    if method in peers:
        mean, std = peers[method].fit(X, y).predict(X_test, return_std=True)
        density, converged = norm.logpdf(y_test, mean, std), True
    else:
        model: Any = cavity.LinearRegressor(prior=method).fit(X, y)
        mean, converged = model.predict(X_test), model.converged_
        density = model.log_predictive_density(X_test, y_test)
    error = float(np.sqrt(np.mean((mean - y_test) ** 2)))
    return {"log_density": float(np.mean(density)), "error": error, "converged": converged}


def classification(method: str, data: tuple[np.ndarray, ...]) -> dict[str, Any]:
    X, y, X_test, y_test = data
    if method == "l1_logistic":
        options: Any = {"penalty": "l1", "solver": "liblinear", "scoring": "neg_log_loss"}
        model: Any = LogisticRegressionCV(Cs=10, cv=5, **options)
    else:
        model = cavity.LinearClassifier(prior=method)
    model.fit(X, y)
    shares = model.predict_proba(X_test)
    own = shares[np.arange(len(y_test)), y_test.astype(int)]
    error = float(np.mean((shares[:, 1] > 0.5) != y_test))
    converged = getattr(model, "converged_", True)
    return {"log_density": float(np.mean(np.log(own))), "error": error, "converged": converged}


def summary(names: list[str]) -> None:
    rows = REAL.rows()
    for name in names:
        for method in dict.fromkeys((*REGRESSION, *CLASSES)):
            own = [r for r in rows if (r["set"], r["method"]) == (name, method)]
            if own:
                density, error, seconds = (
                    np.mean([float(r[k]) for r in own]) for k in ("log_density", "error", "cpu_s")
                )
                settled = sum(r["converged"] == "True" for r in own)
                print(
                    f"{name:12s} {method:15s} {len(own):2d} splits, log density {density:.3f}, "
                    f"error {error:.3f}, {settled} converged, {seconds:.1f} CPU s"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="diabetes,wdbc,ionosphere,sonar")
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = options.sets.split(",")
    for name, split in ((name, split) for split in range(options.splits) for name in names):
        numbers = name == "diabetes"
        for method in REGRESSION if numbers else CLASSES:
            key = {"set": name, "split": split, "method": method}
            if REAL.has(**key):
                continue
            start = time.process_time()
            found = (regression if numbers else classification)(method, split_of(name, split))
            REAL.add(key | found | {"cpu_s": time.process_time() - start})
            print(key, found, flush=True)
    summary(names)


if __name__ == "__main__":
    main()
