"""Identities of passes over parts with the table in memory, in one process."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from tests.learning.part_engines import N
from tests.learning.pass_cases import CASES, Case, F, Rows, X, parts

import cavity
from benchmarks.distributed.errors import BITS, Said, differing, relative
from cavity.inference.energy import Sites
from cavity.learning.data.arrays import prepare
from cavity.learning.data.batched import BatchedData
from cavity.learning.data.survey import survey
from cavity.learning.engines.kept import KeptBlocks
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.by_passes import PassObjective
from cavity.learning.objectives.evidence import Objective
from cavity.learning.objectives.passes import At, value_and_grad_by_passes
from cavity.learning.objectives.settling import Settled
from cavity.numerics.tree import to_numpy

POWERS = (0.0, 0.5, 1.0)
JITTER, TOLERANCE = 1e-8, 1e-12
MEMORY, SITES, SLOPES, EXACT = 1e-10, 1e-8, 1e-6, 1e-12
# Of finite differences of the fourth order.
STEP = 1e-4


def exact_rows() -> Iterator[Said]:
    """Gaussian noise in closed form: the table in memory."""
    case = dataclasses.replace(CASES["gaussian"], exact=True)
    for power in POWERS:
        ours = cavity.infer(case.model, parts("gaussian"), power=power)
        theirs = cavity.infer(case.model, X, F, power=power)
        errors = {"evidence": relative(ours.log_evidence, theirs.log_evidence)}
        names = "posterior means", "posterior variances"
        both = (each.posterior.marginals(X) for each in (ours, theirs))
        errors |= {n: relative(a, b) for n, a, b in zip(names, *both, strict=True)}
        points = (each(_anywhere(each.size)) for each in _objectives(case, "gaussian", power))
        pairs = zip(("energy", "gradient"), *points, strict=True)
        errors |= {n: relative(a, b) for n, a, b in pairs}
        for name, error in errors.items():
            yield Said(f"{name}, that in memory", "gaussian", power, 1, error, MEMORY)
        few: dict[str, Any] = {"power": power, "max_iterations": 5}
        fits = (
            cavity.fit(case.model, parts("gaussian"), **few),
            cavity.fit(case.model, X, F, **few),
        )
        error = relative(*(each.history for each in fits))
        yield Said("energies of a fit, those in memory", "gaussian", power, 1, error, MEMORY)


def sites_of_rows() -> Iterator[Said]:
    """Sites by passes: those in memory, their evidence and its gradient."""
    for name in CASES:
        for power in POWERS:
            yield from _sites_of_case(name, power)


def _sites_of_case(name: str, power: float) -> Iterator[Said]:
    case = CASES[name]
    passes, memory = _objectives(case, name, power)
    data = passes.data
    assert isinstance(passes, PassObjective)
    assert isinstance(data, BatchedData)
    x = _anywhere(passes.size)
    value, slope = memory(x)
    at = passes.point(x, JITTER)

    def found(settled: Settled) -> tuple[float, np.ndarray, float, list[np.ndarray]]:
        known = settled.total, settled.sites
        ours = value_and_grad_by_passes(at, data, *known)
        return *ours, settled.report.residual, sites_by_parts(data, at, settled)

    its_value, gradient, residual, sites = passes.sweeper.at_settled(at, TOLERANCE, found)
    its_slope = passes.coordinates.gradient(gradient, np.zeros(0))
    errors = {"evidence": (its_value, value), "gradient": (its_slope, slope)}
    for what, pair in errors.items():
        error = relative(*pair)
        yield Said(f"{what} with sites by passes, that in memory", name, power, 1, error, SITES)
    error = max(relative(*pair) for pair in zip(sites, _of_rows(memory.sites), strict=True))
    yield Said("sites by passes, those in memory", name, power, 1, error, SITES)
    yield Said("residual of a further sweep", name, power, 1, residual, SITES)
    direction = np.cos(np.arange(passes.size))

    def energy(length: float) -> float:
        there = passes.point(x + length * direction, JITTER)
        return passes.sweeper.at_settled(
            there,
            TOLERANCE,
            lambda s: value_and_grad_by_passes(there, data, s.total, s.sites)[0],
        )

    near, far = ((energy(k * STEP) - energy(-k * STEP)) / (2.0 * k * STEP) for k in (1, 2))
    difference = (4.0 * near - far) / 3.0
    error = abs(float(its_slope @ direction) / difference - 1.0)
    yield Said("gradient by passes, finite differences", name, power, 1, error, SLOPES)
    if name == "gaussian":
        closed = _objectives(dataclasses.replace(case, exact=True), name, power)[1](x)
        known = {"evidence": (its_value, closed[0]), "gradient": (its_slope, closed[1])}
        for what, (ours, theirs) in known.items():
            error = relative(ours, theirs)
            yield Said(
                f"{what} of swept Gaussian sites, closed form", name, power, 1, error, SITES
            )
    passes.close()


def sites_by_parts(data: BatchedData, at: At, settled: Settled) -> list[np.ndarray]:
    """The sites of all rows, read where they are kept, in the order of rows."""
    stored, found = settled.sites, list[Sites]()
    assert stored.name is not None
    for part in data.parts:
        for number, block in enumerate(data.layout.blocks(part)):
            like = to_numpy(stored.empty(at, block))
            leaves, tree = jax.tree.flatten(like)
            flat = np.concatenate([leaf.ravel() for leaf in leaves])
            kept = KeptBlocks(stored.fit, part.index, stored.name).read(number, flat)
            ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
            pairs = zip(np.split(kept, ends), leaves, strict=True)
            rows = [values.reshape(leaf.shape)[: int(block.length)] for values, leaf in pairs]
            found.append(tree.unflatten(rows))
    return jax.tree.leaves(jax.tree.map(lambda *blocks: np.concatenate(blocks), *found))


def _of_rows(sites: Sites) -> list[np.ndarray]:
    """Sites in memory without those of padded rows."""
    return [np.asarray(leaf)[:N] for leaf in jax.tree.leaves(sites)]


def _objectives(case: Case, name: str, power: float) -> tuple[Objective, Objective]:
    """The objective by passes and that in memory."""
    data = survey(parts(name), case.likelihood, power=power)
    model, method = as_dtype(case.model, data.exemplar), case.method(tolerance=TOLERANCE)
    memory = Objective(model, prepare(X, case.y, power=power), method=method, jitter=JITTER)
    passes = Objective if case.exact and name == "gaussian" else PassObjective
    return passes(model, data, method=method, jitter=JITTER), memory


def _anywhere(size: int) -> np.ndarray:
    """A point near the start."""
    return 0.05 * np.sin(np.arange(size))


def surveys() -> Iterator[Said]:
    """The survey of parts: that of the whole."""
    for name, case in CASES.items():
        found = survey(parts(name), case.likelihood)
        whole = survey(cavity.Parts([Rows(name, 0, N)], size=64), case.likelihood)
        pairs = list(zip(found.counted, whole.counted, strict=True))
        exact = (
            (
                (seen.length, seen.observed, seen.first, seen.largest, seen.layout.filler),
                [tally.count for tally in seen.counted],
            )
            for seen in (found, whole)
        )
        error = differing(*exact)
        yield Said("counts of the survey, those of the whole", name, 0.5, 1, error, BITS)
        sums = max(relative(getattr(a, k), getattr(b, k)) for a, b in pairs for k in MOMENTS)
        yield Said("moments of the survey, those of the whole", name, 0.5, 1, sums, EXACT)


MOMENTS = ("mean", "squares")
