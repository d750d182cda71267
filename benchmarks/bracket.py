"""How wide brackets of the exact evidence are, and what they find out.

kin40k: widths per row and times, of each level, at the parameters of a fit to 1,000 rows.
bound: the same at those of the bound of power 0, whose noise is larger.
snelson: by how much FITC, fitted with few points to a hundred rows, says too much of the evidence;
the exact evidence is that of dense algebra.

python -m benchmarks.bracket [--only kin40k bound snelson] [--largest 10000]
"""

import argparse
import gzip
import time
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.data import FOLDER
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods

TABLE = Table("bracket.csv", ("case", "rows", "points", "level"))
SIZES = ((3000, (200, 500, 1000)), (10000, (500, 1000)))


def rows_of_kin40k(count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first rows of the published training and test rows of kin40k."""
    parts = []
    for name in ("data", "labels"):
        both = []
        for kind in ("train", "test"):
            with gzip.open(FOLDER / "kin40k" / f"kin40k_{kind}_{name}.asc.gz", "rt") as file:
                both.append(np.loadtxt(file))
        parts.append(np.concatenate(both))
    X, y = parts[0][:count], parts[1][:count].reshape(-1)
    return X, (y - y.mean()) / y.std()


def snelson() -> tuple[np.ndarray, np.ndarray]:
    """The first 100 of the 200 rows of Snelson's data set, in its order."""
    columns = []
    for name in ("inputs", "outputs"):
        with gzip.open(FOLDER / "snelson1d" / f"train_{name}.txt.gz", "rt") as file:
            columns.append(np.loadtxt(file))
    return columns[0][:100, None], columns[1][:100]


def fitted(X: np.ndarray, y: np.ndarray) -> Any:
    """The full GP with the parameters that 1,000 of the rows give it."""
    start = cavity.GP(kernels.RBF(1.0, np.full(X.shape[1], 2.0)), likelihoods.Gaussian(0.1))
    return cavity.fit(start, X[:1000], y[:1000]).model


def by_bound() -> None:
    """kin40k with parameters that the bound of power 0 gives 3,000 rows and 200 points."""
    X, y = rows_of_kin40k(3000)
    start = kernels.RBF(1.0, np.full(X.shape[1], 2.0))
    Z = cavity.initialisation.select_inducing(start, X, 200)
    sparse = cavity.GP(start, likelihoods.Gaussian(0.1), inducing.Points(Z))
    model: Any = cavity.fit(sparse, X, y, power=0.0, max_iterations=60).model
    print(model.likelihood)
    exact = cavity.infer(cavity.GP(model.kernel, model.likelihood), X, y).log_evidence
    for points in (200, 500, 1000):
        Z = cavity.initialisation.select_inducing(model.kernel, X, points)
        chosen = cavity.GP(model.kernel, model.likelihood, inducing.Points(Z))
        for level in ("products", "trace"):
            measure("kin40k by the bound", chosen, X, y, exact, level, power=0.0)


def kin40k(largest: int) -> None:
    """Widths and times, with points chosen greedily."""
    X, y = rows_of_kin40k(max(size for size, _ in SIZES))
    full = fitted(X, y)
    for size, numbers in SIZES:
        if size > largest:
            continue
        exact = float("nan")
        if size <= 3000:
            exact = cavity.infer(full, X[:size], y[:size]).log_evidence
        for points in numbers:
            Z = cavity.initialisation.select_inducing(full.kernel, X[:size], points)
            model = cavity.GP(full.kernel, full.likelihood, inducing.Points(Z))
            for level in ("products", "trace"):
                measure("kin40k", model, X[:size], y[:size], exact, level, power=0.0)


def measure(
    case: str,
    model: cavity.GP | cavity.fitting.FitResult,
    X: np.ndarray,
    y: np.ndarray,
    exact: float,
    level: str,
    **options: Any,
) -> None:
    """A row of the table: the bracket, with compilation left out of its time."""
    cavity.diagnostics.bracket(model, X, y, level=level, **options)
    begun = time.perf_counter()
    b = cavity.diagnostics.bracket(model, X, y, level=level, **options)
    seconds = time.perf_counter() - begun
    gp: Any = model.model if isinstance(model, cavity.fitting.FitResult) else model
    row = {
        "case": case,
        "rows": len(y),
        "points": len(gp.inducing.Z),
        "level": level,
        "lower_per_row": b.lower / len(y),
        "exact_per_row": exact / len(y),
        "upper_per_row": b.upper / len(y),
        "approximation_per_row": b.log_evidence / len(y),
        "width_per_row": b.per_row,
        "overestimate": b.overestimate,
        "truly_above": max(b.log_evidence - exact, 0.0),
        "products": b.products,
        "seconds": seconds,
    }
    TABLE.add(row)
    print({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)


def fitc_on_snelson() -> None:
    """FITC with few points: how far above the exact evidence, and what each level shows of it."""
    X, y = snelson()
    mean = y.mean()
    for points in (4, 6, 8, 10, 15, 25):
        Z = np.linspace(X.min(), X.max(), points)[:, None]
        start = cavity.GP(kernels.RBF(1.0, 1.0), likelihoods.Gaussian(0.1), inducing.Points(Z))
        result = cavity.fit(start, X, y - mean, power=1.0)
        learned: Any = result.model
        full = cavity.GP(learned.kernel, learned.likelihood)
        exact = cavity.infer(full, X, y - mean).log_evidence
        for level in ("products", "trace", "row sums"):
            measure("snelson", result, X, y - mean, exact, level)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=["kin40k", "bound", "snelson"])
    parser.add_argument("--largest", type=int, default=10000)
    options = parser.parse_args()
    with jax.enable_x64(True):
        if "snelson" in options.only:
            fitc_on_snelson()
        if "bound" in options.only:
            by_bound()
        if "kin40k" in options.only:
            kin40k(options.largest)


if __name__ == "__main__":
    main()
