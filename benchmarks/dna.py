"""Splice junctions from DNA: which of 60 positions matter, with blocks of columns.

DNA.csv.gz: 60 positions about a candidate, each as three 0/1 columns, and three classes (exon to
intron, intron to exon, neither); 2,000 rows for training, 1,186 for tests. With blocks a position
is in or out of the linear function of a class as a whole. A position counts as selected where any
of its coefficients, for any class, is not zero with a probability above one half; of the lasso
where any is not zero.

python -m benchmarks.dna [--methods spike_slab_blocks,spike_slab,l1_logistic,horseshoe_blocks]
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegressionCV

import cavity
from benchmarks.data import FOLDER
from benchmarks.results import Table

DNA = Table("dna.csv", ("method",))
METHODS = ("spike_slab_blocks", "spike_slab", "l1_logistic")
TRAINING, POSITIONS = 2000, 60
# Iterations of the lasso, at the most.
MOST = 500


def table() -> tuple[np.ndarray, np.ndarray]:
    """Columns and classes."""
    text = np.loadtxt(FOLDER / "dna" / "DNA.csv.gz", delimiter=",", dtype=str, skiprows=1)
    return text[:, :-1].astype(float), text[:, -1]


def of_prior(method: str, X: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray | None]:
    """A fitted classifier, and whether each coefficient is likely not zero."""
    prior, blocks = method.removesuffix("_blocks"), None
    if method.endswith("_blocks"):
        blocks = np.arange(X.shape[1]).reshape(POSITIONS, -1)
    settings: Any = {"likelihood": "multinomial_probit", "blocks": blocks}
    model = cavity.LinearClassifier(prior, **settings).fit(X, y)
    inclusion = model.inclusion_probability_
    return model, None if inclusion is None else inclusion > 0.5


def of_lasso(X: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Multinomial logistic regression with an l1 penalty chosen by cross-validation."""
    settings: Any = {"penalty": "l1", "solver": "saga", "scoring": "neg_log_loss"}
    model: Any = LogisticRegressionCV(Cs=10, cv=5, max_iter=MOST, tol=1e-3, **settings).fit(X, y)
    return model, model.coef_ != 0.0


def measured(method: str) -> dict[str, Any]:
    X, y = table()
    X_test, y_test = X[TRAINING:], y[TRAINING:]
    start, wall = time.process_time(), time.perf_counter()
    fitted = of_lasso if method == "l1_logistic" else lambda *data: of_prior(method, *data)
    model, chosen = fitted(X[:TRAINING], y[:TRAINING])
    took = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - start}
    shares = model.predict_proba(X_test)
    own = shares[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)]
    positions: Any = ""
    if chosen is not None:
        positions = int(np.sum(np.any(chosen.reshape(-1, POSITIONS, 3), axis=(0, 2))))
    return {
        "error": float(np.mean(model.predict(X_test) != y_test)),
        "log_density": float(np.mean(np.log(own))),
        "positions": positions,
        "log_evidence": float(getattr(model, "log_evidence_", np.nan)),
        "converged": bool(getattr(model, "converged_", np.max(model.n_iter_) < MOST)),
        "iterations": int(np.max(model.n_iter_)),
    } | took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default=",".join(METHODS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for method in options.methods.split(","):
        if not DNA.has(method=method):
            DNA.add({"method": method} | measured(method))
    for row in DNA.rows():
        print(
            f"{row['method']:18s} error {100.0 * float(row['error']):.2f} %, log density "
            f"{float(row['log_density']):.3f}, {row['positions'] or '-'} positions, converged "
            f"{row['converged']}, {row['iterations']} iterations, {float(row['cpu_s']):.0f} CPU s"
        )


if __name__ == "__main__":
    main()
