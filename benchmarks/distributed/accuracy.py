"""Scores of fits of tables in 16 files by two Dask workers, beside those of fits in memory.

evans_keggundirected with Gaussian noise (its first split), and magic with a probit (a tenth of the
rows for tests, drawn at random) by sites of every row, and by one site that all rows share. All
have the same start, number of points and, but for shared sites, number of iterations.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cavity
from benchmarks.data import FOLDER, Split
from benchmarks.deep_classes import magic
from benchmarks.defaults.sets import ten_fold
from benchmarks.distributed.clusters import cluster
from benchmarks.distributed.files import FILES, written
from benchmarks.results import Table
from cavity import inducing, initialisation, kernels, likelihoods
from cavity.engines import Dask
from cavity.learning.metrics.regression import nlpd, rmse
from cavity.likelihoods.base import AbstractLikelihood

TABLE = Table("distributed_accuracy.csv", ("set", "sites", "processes"))
KEGG = "evans_keggundirected"
M, ITERATIONS, POWER, WORKERS = 100, 40, 0.5, 2
# Of Adam, for sites that all rows share.
STEPS, BATCH = 3000, 1000


class Set(NamedTuple):
    """A table.

    Attributes:
        load: gives its rows for training and for tests.
        likelihood: of its outputs.
    """

    load: Callable[[], Split]
    likelihood: AbstractLikelihood


def kegg() -> Split:
    """The first of ten splits, outputs standardised."""
    X, y, X_test, y_test = ten_fold(KEGG, 0)
    return X, (y - y.mean()) / y.std(), X_test, (y_test - y.mean()) / y.std()


SETS = {KEGG: Set(kegg, likelihoods.Gaussian(0.1)), "magic": Set(magic, likelihoods.Bernoulli())}


def standardised(split: Split) -> Split:
    """Inputs with the means and deviations of the training rows."""
    X, y, X_test, y_test = split
    spread = X.std(axis=0)
    spread = np.where(spread > 0.0, spread, 1.0)
    return (X - X.mean(axis=0)) / spread, y, (X_test - X.mean(axis=0)) / spread, y_test


def started(X: np.ndarray, likelihood: AbstractLikelihood) -> cavity.GP:
    """The model that fits begin with."""
    kernel = kernels.RBF(1.0, np.full(X.shape[1], np.sqrt(X.shape[1])))
    chosen = initialisation.select_inducing(kernel, X, M)
    return cavity.GP(kernel, likelihood, inducing.Points(chosen))


def scores(name: str, result: Any, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """The NLPD of predictions, and the RMSE or, of labels, the share that is wrong."""
    predicted = result.posterior.predict(X)
    mean, density = np.asarray(predicted.mean), predicted.log_density(y)
    if name == KEGG:
        return {"nlpd": nlpd(density), "rmse": rmse(y, mean), "error": np.nan}
    wrong = float(np.mean((mean > 0.5) != (y > 0.5)))
    return {"nlpd": nlpd(density), "rmse": np.nan, "error": wrong}


def fitted(name: str, split: Split, processes: int, sites: str) -> tuple[Any, float]:
    """A fit, and its seconds."""
    X, y, *_ = split
    model = started(X, SETS[name].likelihood)
    shared = cavity.TiedPowerEP(batch=BATCH, max_sweeps=STEPS)
    method = shared if sites == "shared" else cavity.PowerEP()
    options: dict[str, Any] = {"power": POWER, "method": method, "max_iterations": ITERATIONS}
    began = time.perf_counter()
    if not processes:
        result = cavity.fit(model, X, y, **options)
    else:
        with tempfile.TemporaryDirectory() as folder, cluster(processes) as client:
            began, engine = time.perf_counter(), Dask(client)
            result = cavity.fit(model, written(Path(folder), X, y), engine=engine, **options)
            assert (engine.processes, engine.parts) == (processes, FILES)
    return result, time.perf_counter() - began


def runs() -> Iterator[tuple[str, str, int]]:
    """The sets with their kinds of sites, and worker processes; none for rows in memory."""
    yield from ((KEGG, "exact", n) for n in (0, WORKERS))
    yield from (("magic", "private", n) for n in (0, WORKERS))
    yield "magic", "shared", 0


def measure() -> None:
    """Measures what is missing."""
    for name, sites, processes in runs():
        key = {"set": name, "sites": sites, "processes": processes}
        if TABLE.has(**key):
            continue
        if not (FOLDER / name).exists():
            print(f"{name} is left out: there is no folder {FOLDER / name}")
            continue
        split = standardised(SETS[name].load())
        result, seconds = fitted(name, split, processes, sites)
        found = scores(name, result, *split[2:])
        counts = {"rows": len(split[1]), "M": M, "power": POWER}
        counts |= {"iterations": STEPS if sites == "shared" else ITERATIONS}
        counts |= {"evaluations": result.n_evaluations, "log_evidence": result.log_evidence}
        TABLE.add(key | counts | found | {"seconds": seconds})
        print(key, {k: round(v, 5) for k, v in found.items()}, f"{seconds:.0f} s", flush=True)
