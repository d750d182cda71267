"""Experiments of chapter 4 of van der Wilk (2018), E19 to E27, each resumable.

python -m benchmarks.domains scan kin40k fixed parkinsons kinds noisy [--rows 4000] [--seconds 9]

A row of `domains.csv` is one fit that was run; rows that are there are not run again. `held` is
1 where kernel and noise are those of a full GP on 1,000 of the rows. `numbers` is M + M² +
M C (D + 1), the size of M sums of C points for predictions.
"""

import argparse
import functools
from typing import Any

import jax
import numpy as np

from benchmarks.domains import scan
from benchmarks.domains.fits import fixed_parameters, learned
from benchmarks.domains.tables import snelson, table
from benchmarks.results import Table

TABLE = Table("domains.csv", ("data", "rows", "kind", "M", "C", "held", "seed"))
KINDS = ("points", "windows", "waves", "slopes", "sums")

Case = tuple[str, str, int, int, int]  # data, kind, M, C, held

CASES: dict[str, list[Case]] = {
    # at equal M: where do other functionals pay
    "kinds": [
        (name, kind, M, 4 if kind == "sums" else 1, 0)
        for name, sizes in {"snelson": (3, 4, 6, 8), "parkinsons": (50,), "kin40k": (50,)}.items()
        for M in sizes
        for kind in KINDS
    ],
    # E20 and acceptance A6: C=20 of 10 against 150 points; 200 points against C=8 of 50
    "kin40k": [
        ("kin40k", "sums", 10, 20, 0),
        ("kin40k", "points", 150, 1, 0),
        ("kin40k", "sums", 50, 8, 0),
        ("kin40k", "points", 200, 1, 0),
        *(("kin40k", "points", M, 1, 0) for M in (10, 50, 100)),
    ],
    # E21, E25, E27 and acceptance A7
    "parkinsons": [
        ("parkinsons", "points" if C == 1 else "sums", M, C, 0)
        for M in (25, 50, 100, 200)
        for C in (1, 5)
    ],
    # E24 and acceptance A12
    "fixed": [("kin40k", "points" if C == 1 else "sums", 10, C, 1) for C in (1, 5, 20, 50)]
    + [("kin40k", "sums", 10, 50, 0)],
    # E22 and E23
    "noisy": [
        (f"{name} + noise", "points" if C == 1 else "sums", M, C, 0)
        for name in ("parkinsons", "kin40k")
        for M in (25, 100)
        for C in (1, 5)
    ],
}


@functools.cache
def data(name: str) -> tuple[np.ndarray, ...]:
    """A table; of Snelson's rows every fifth is a test row."""
    if name != "snelson":
        return table(name)
    X, y = snelson()
    test = np.arange(len(y)) % 5 == 2
    return X[~test], y[~test], X[test], y[test]


@functools.cache
def held_model(name: str) -> Any:
    X, y = data(name)[:2]
    return fixed_parameters(X, y)


def measure(case: Case, rows: int, seconds: float, seed: int) -> None:
    """One fit, unless its row is there."""
    name, kind, M, C, held = case
    X, y, X_test, y_test = data(name)
    some = np.sort(np.random.default_rng(seed).permutation(len(y))[:rows])
    key = {"data": name, "rows": len(some), "kind": kind, "M": M, "C": C, "held": held}
    key["seed"] = seed
    if TABLE.has(**key):
        return
    model = held_model(name) if held else None
    part = X[some], y[some], X_test, y_test
    row = key | learned(part, kind=kind, M=M, C=C, seconds=seconds, model=model, seed=seed)
    TABLE.add(row)
    print({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=["scan", *CASES], nargs="+")
    parser.add_argument("--rows", type=int, default=1_000_000, help="training rows at the most")
    parser.add_argument("--seconds", type=float, default=600.0, help="of a processor, for a fit")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with jax.enable_x64(True):
        for which in options.which:
            if which == "scan":
                scan.run()
            for case in CASES.get(which, []):
                measure(case, options.rows, options.seconds, options.seed)


if __name__ == "__main__":
    main()
