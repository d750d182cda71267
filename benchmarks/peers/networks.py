"""Networks with one hidden layer: a fit beside Markov chains, what sweeps cost, and memory.

fit: the first split of boston, ten units of erf with a linear part beside, as in
`benchmarks.networks`. cavity learns at power 0.5 from the best of three starts, twice in one
process, and the second time counts, when programs are compiled. NumPyro draws from the posterior
of the same network by NUTS, 500 steps of warm-up and 1,000 draws, with half-normal priors of the
deviations that cavity learns. Its draws count by the seconds that 400 effective ones of the
function take, at the test row where they are fewest.

sweeps: plain sweeps of all sites with parameters held, of tables of more and more rows and of
networks of more and more units; each time is the median over repeats of the difference between
many sweeps and one, over their number.

memory: the peak of the resident memory of a process that fits a network of 20 units to protein, by
two iterations and few sweeps for each evaluation. Every program of a full fit runs.
"""

from typing import Any

import numpy as np

from benchmarks.data import uci
from benchmarks.peers.record import Record
from benchmarks.peers.workers import answer_of

# Rows at 10 units, and units at 5,000 rows.
ROWS, UNITS = (1_000, 10_000, 100_000), (5, 10, 20, 40)
FIT, SWEEPS, MEMORY = "fit", "sweeps", "memory"


def fitted(record: Record) -> None:
    """The fits, of boston or, for a short try, of a small table."""
    made = _boston() if not record.quick else _made(60, 4) | {"units": 2}
    made |= {"warmup": 50, "draws": 100} if record.quick else {"warmup": 500, "draws": 1_000}
    for library in ("cavity", "numpyro"):
        _add(record, FIT, library, made, "network")


def _boston() -> dict[str, Any]:
    X, y, X_test, y_test = uci("boston", 0)
    return {"X": X, "y": y, "X_test": X_test, "y_test": y_test, "units": 10}


def _made(rows: int, columns: int) -> dict[str, Any]:
    """A sine of a projection of normal columns, with noise; as many test rows."""
    random = np.random.default_rng(0)
    X = random.standard_normal((2 * rows, columns))
    y = np.sin(X @ random.standard_normal(columns)) + 0.1 * random.standard_normal(2 * rows)
    return {"X": X[:rows], "y": y[:rows], "X_test": X[rows:], "y_test": y[rows:]}


def swept(record: Record) -> None:
    """Sweeps at all sizes, where more of them are made the quicker they are."""
    sizes = [(rows, 10) for rows in ROWS] + [(5_000, units) for units in UNITS]
    for rows, units in [(200, 2), (400, 2)] if record.quick else sizes:
        count = int(np.clip(200_000 / rows, 3, 50))
        made = _made(rows, 8) | {"units": units, "sweeps": count, "repeats": 7}
        _add(record, SWEEPS, "cavity", made, "sweeps")


def memory(record: Record) -> None:
    """The peak of a fit of protein, or of a small table."""
    if record.quick:
        made = _made(200, 4) | {"units": 2}
    else:
        X, y, _, _ = uci("protein", 0)
        made = {"X": X, "y": y, "units": 20}
    _add(record, MEMORY, "cavity", made, "resident")


def _add(record: Record, part: str, library: str, made: dict[str, Any], what: str) -> None:
    """Measures what is not there yet."""
    key = {"part": part, "rows": len(made["X"]), "units": made["units"], "library": library}
    key |= {"threads": record.threads}
    if record.has(**key):
        return
    found = answer_of(library, record.threads, made, what)
    if found is not None:
        record.add(
            key | {"version": found["version"]} | {name: found.get(name, "") for name in NAMES}
        )


NAMES = (
    *(
        "seconds",
        "cpu_seconds",
        "first_seconds",
        "drawing_seconds",
        "density",
        "rmse",
        "converged",
    ),
    *("iterations", "effective", "divergences", "steps", "ms", "cpu_ms", "peak_gb", "evaluations"),
)


def main(record: Record) -> None:
    fitted(record)
    swept(record)
    memory(record)
