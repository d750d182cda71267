"""Training against time (E26, E27): errors and densities of points and of sums of points.

Every row is a fit from the same start that ended after so many processor seconds, compiled before.
The published sizes, up to 2,000 points on 36,000 rows, are scaled down to what fits into minutes.

python -m benchmarks.domains.curves [--rows 4000] [--only kin40k parkinsons]
"""

import argparse

import jax
import numpy as np

from benchmarks.domains.fits import learned
from benchmarks.domains.tables import table
from benchmarks.results import Table

TABLE = Table("domains_curves.csv", ("data", "rows", "M", "C", "limit"))
LIMITS = (2.0, 6.0, 18.0)
# M variables of C points each; published: (750, 1), (1000, 1), (2000, 1), (750, 2), (750, 10)
CASES = {
    "kin40k": ((75, 1), (100, 1), (200, 1), (75, 2), (75, 10)),
    "parkinsons": ((50, 1), (100, 1), (50, 5)),
}


def measure(name: str, rows: int, M: int, C: int) -> None:
    """The curve of one model: a fit for every limit that is not in the table."""
    X, y, X_test, y_test = table(name)
    some = np.sort(np.random.default_rng(0).permutation(len(y))[:rows])
    part, kind = (X[some], y[some], X_test, y_test), "points" if C == 1 else "sums"
    warm = False
    for limit in LIMITS:
        key = {"data": name, "rows": len(some), "M": M, "C": C, "limit": limit}
        if TABLE.has(**key):
            continue
        if not warm:
            learned(part, kind=kind, M=M, C=C, seconds=0.0)
            warm = True
        row = key | learned(part, kind=kind, M=M, C=C, seconds=limit)
        TABLE.add(row)
        print({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)
        if row["converged"]:
            break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    options = parser.parse_args()
    with jax.enable_x64(True):
        for name in options.only:
            for M, C in CASES[name]:
                measure(name, options.rows, M, C)


if __name__ == "__main__":
    main()
