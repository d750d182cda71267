"""Where and when default fits of sparse models end: iterations, processor time and test density.

python -m benchmarks.ending [--sets airfoil,kin40k] [--label after]

The sets of `benchmarks.uci` on their first split (those of up to 1,000 rows are full GPs), kin40k
with its 10,000 training rows, and a smooth table of the shape of the airfoil data. `robust` is
wine_red with Student-t noise and 50 inducing points, `classes` tells outputs of kin8nm (2,000
rows) above their mean from the others with 50. A label names the version of the library that was
installed.
"""

import argparse
import gzip
import time
import warnings
from collections.abc import Callable

import numpy as np

import cavity
from benchmarks.data import FOLDER, Split, uci
from benchmarks.results import Table

SETS = ("yacht", "boston", "energy", "concrete", "wine_red", "kin8nm", "power")
OTHERS = ("airfoil", "kin40k", "robust", "classes")
TABLE = Table("ending.csv", ("set", "label"))


def kin40k() -> Split:
    """The 10,000 training rows of kin40k, and the first 10,000 test rows."""

    def read(name: str) -> np.ndarray:
        with gzip.open(FOLDER / "kin40k" / f"kin40k_{name}.asc.gz", "rt") as file:
            return np.loadtxt(file)

    X_test, y_test = read("test_data")[:10_000], read("test_labels").ravel()[:10_000]
    return read("train_data"), read("train_labels").ravel(), X_test, y_test


def airfoil() -> Split:
    """1,200 training and 300 test rows: smooth in five columns, four of which have few values."""
    r = np.random.RandomState(0)
    n = 1_500
    frequency = np.exp(r.uniform(np.log(200), np.log(20_000), n)).round(-1)
    angle = r.choice(np.linspace(0, 22, 27), n)
    chord = r.choice([0.0254, 0.0508, 0.1016, 0.1524, 0.2286, 0.3048], n)
    speed = r.choice([31.7, 39.6, 55.5, 71.3], n)
    thickness = 0.0005 * np.exp(angle / 6) * np.sqrt(chord / 0.1)
    s = np.log(frequency * thickness / speed)
    y = 126 - 6 * (s + 1) ** 2 / (1 + 0.3 * np.abs(s)) + 24 * np.log10(speed / 50) - 20 * chord
    y += 3 * np.sin(angle / 5) * np.cos(2 * np.log(frequency) + speed / 20)
    y += 0.3 * r.randn(n)
    X = np.column_stack([frequency, angle, chord, speed, thickness])
    return X[:1_200], y[:1_200], X[1_200:], y[1_200:]


def classes() -> Split:
    """Whether outputs of kin8nm are above their mean, for 2,000 training rows."""
    X, y, X_test, y_test = uci("kin8nm", 0)
    return X[:2_000], y[:2_000] > y.mean(), X_test, y_test > y.mean()


def _density(model: cavity.GPRegressor, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(model.log_predictive_density(X, y)))


def _log_probability(model: cavity.GPClassifier, X: np.ndarray, y: np.ndarray) -> float:
    probability = model.predict_proba(X)[np.arange(len(y)), y.astype(int)]
    return float(np.mean(np.log(probability)))


def problem(name: str) -> tuple[Split, Callable, Callable]:
    """Data, the estimator's constructor, and its mean test log density."""
    if name == "classes":
        return (
            classes(),
            lambda: cavity.GPClassifier(n_inducing=50, random_state=0),
            (_log_probability),
        )
    if name == "robust":
        chosen = {"likelihood": "student_t", "n_inducing": 50}
        return uci("wine_red", 0), lambda: cavity.GPRegressor(**chosen, random_state=0), _density
    data = {"kin40k": kin40k, "airfoil": airfoil}.get(name, lambda: uci(name, 0))()
    return data, lambda: cavity.GPRegressor(random_state=0), _density


def measure(name: str, label: str) -> None:
    """Fits one set with default settings and adds a row of results."""
    (X, y, X_test, y_test), estimator, density = problem(name)
    model = estimator()
    cpu, wall = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    inducing = model.inducing_
    TABLE.add(
        {"set": name, "label": label, "rows": len(X), "columns": X.shape[1]}
        | {"inducing": "" if inducing is None else inducing.size}
        | {"converged": model.converged_, "iterations": model.n_iter_}
        | {"evaluations": model.n_evaluations_, "cpu_seconds": cpu, "seconds": wall}
        | {"log_evidence": model.log_evidence_, "nlpd": -density(model, X_test, y_test)}
        | {"message": model.message_}
    )


def summary() -> str:
    """The table of the guide, one line per set."""
    rows = {(r["set"], r["label"]): r for r in TABLE.rows()}
    head = ("set", "label", "rows", "converged", "iterations", "cpu_seconds", "nlpd")
    lines = [" ".join(f"{name:>11s}" for name in head)]
    for name in SETS + OTHERS:
        for (key, _), row in rows.items():
            if key == name:
                lines.append(" ".join(f"{row[column]:>11s}" for column in head))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS + OTHERS))
    parser.add_argument("--label", default="after")
    options = parser.parse_args()
    for name in options.sets.split(","):
        measure(name, options.label)
    print(summary())


if __name__ == "__main__":
    main()
