"""Identities of fits on worker processes with those in one process: the same bits."""

import dataclasses
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tests.learning.part_engines import N
from tests.learning.pass_cases import CASES, Case, X, parts

import cavity
from benchmarks.distributed.clusters import cluster, grown
from benchmarks.distributed.errors import BITS, Said, differing
from cavity.engines import AbstractEngine
from cavity.learning.data.survey import survey
from cavity.learning.metrics.regression import nlpd, rmse
from cavity.numerics.types import PyTree

# Unequal parts, one without rows and one of a row.
EDGES = (0, 60, 60, 150, 151, 200, N)
WORKERS = (1, 2, 3)
# Cases with their powers, and iterations of a fit.
FITS = (("gaussian", 0.5, 5), ("probit", 0.5, 3), ("classes", 0.5, 1))
OTHERS = (("probit", 0.0), ("logit", 0.5), ("poisson", 0.0), ("student", 0.5), ("ordinal", 1.0))
CASES_OF_BITS = (*FITS, *((name, power, 0) for name, power in OTHERS))
# The processes of a fit until it is stopped, and of the one that goes on.
STOPPED, RESUMED = 3, 1


def case_of(name: str) -> Case:
    """A case; Gaussian noise in closed form."""
    return dataclasses.replace(CASES[name], exact=True)


def on_workers() -> Iterator[Said]:
    """Evaluations, fits, posteriors, predictions and metrics on 1, 2 and 3 workers."""
    here = {case: computed(*case, None) for case in CASES_OF_BITS}
    with cluster(WORKERS[0]) as client:
        for workers, case in itertools.product(WORKERS, CASES_OF_BITS):
            engine = grown(client, workers)
            there = computed(*case, engine)
            assert engine.processes == workers
            for what, tree in there.items():
                error = differing(tree, here[case][what])
                yield Said(f"bits of {what}", *case[:2], workers, error, BITS)


def computed(
    name: str, power: float, iterations: int, engine: AbstractEngine | None
) -> dict[str, PyTree]:
    """What is compared of a case, by what it is called."""
    case, table = case_of(name), parts(name, EDGES)
    seen = survey(table, case.likelihood, engine=engine)
    found: dict[str, Any] = {"the survey": (seen.counted, seen.digests, seen.first)}
    options: dict[str, Any] = {"power": power, "method": case.method(), "engine": engine}
    result: Any = cavity.infer(case.model, table, **options)
    found["an evaluation"] = result.log_evidence
    found["its posterior"] = result.posterior
    if iterations:
        result = cavity.fit(case.model, table, max_iterations=iterations, **options)
        found["a fit"] = (result.log_evidence, result.history, result.model)
        found["the posterior of a fit"] = result.posterior
    predicted = result.posterior.predict(X)
    density = np.asarray(predicted.log_density(case.y))
    found["predictions"] = (predicted, density)
    found["NLPD and RMSE"] = (nlpd(density), rmse(case.y, predicted.mean))
    return found


def resumed() -> Iterator[Said]:
    """Fits stopped on 3 workers that go on with one, each in a process of its own."""
    for name, power, iterations in FITS[:2]:
        with tempfile.TemporaryDirectory() as folder:
            once = _said_by(name, power, iterations)
            stopped = _said_by(name, power, iterations, "--stop", folder)
            assert not stopped, stopped
            gone_on = _said_by(name, power, iterations, "--resume", folder)
        error = sum(a != b for a, b in itertools.zip_longest(once, gone_on))
        told = f"bits of a fit stopped on {STOPPED} processes and resumed"
        yield Said(told, name, power, RESUMED, error if once else np.nan, BITS)


def _said_by(name: str, power: float, iterations: int, *options: str) -> list[str]:
    """What a fit in a fresh process says of its result."""
    words = [name, str(power), str(iterations), *options]
    command = [sys.executable, "-m", "benchmarks.distributed.fresh", *words]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root)
    if done.returncode not in (0, -9):
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout.split()
