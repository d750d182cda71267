"""The checks of a case: what the library gives beside the oracles.

A check gives an error and what it may be. Errors of values and gradients are relative.
"""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

import cavity
from benchmarks.fuzz import differences, gaussian, sites
from benchmarks.fuzz.cases import Case
from benchmarks.fuzz.covariances import wide
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import NumericalError, checked_start
from cavity.learning.objectives.evidence import Objective

EXACT, BY_SITES = ("full", "sparse"), ("sites", "sparse sites", "laplace")
VALUE, SLOPE, FIXED_POINT, MOMENTS = 1e-6, 1e-5, 1e-5, 1e-5
# Outcomes that are no errors of the library's.
REFUSED, UNDECIDED = "refused", "undecided"


class Finding(NamedTuple):
    """What a check found.

    Attributes:
        check: its name.
        error: the error; NaN where there is none to give.
        limit: what it may be.
        outcome: "" for an error that counts, or why it does not.
        note: what helps to find the cause.
    """

    check: str
    error: float
    limit: float
    outcome: str = ""
    note: str = ""

    @property
    def failed(self) -> bool:
        """Whether the library is at fault."""
        return not self.outcome and not self.error <= self.limit


def findings(case: Case) -> list[Finding]:
    """All checks of a case; an exception that is not a documented one is a finding as well."""
    options = {"method": case.method, **case.data_options}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = cavity.infer(case.model, case.X, case.y, **options)
            return [Finding("exception", 0.0, 0.0), *_checks(case, result)]
        except NumericalError as error:
            return [Finding("exception", np.nan, 0.0, REFUSED, str(error)[:80])]
        except Exception as error:
            note = f"{type(error).__name__}: {error}"[:80]
            return [Finding("exception", np.inf, 0.0, note=note)]


def _checks(case: Case, result: Any) -> Iterator[Finding]:
    yield from _predictions(case, result)
    if case.kind in EXACT:
        yield from _exact(case, result)
        return
    if not result.converged:
        yield Finding("converges", np.nan, 0.0, UNDECIDED)
        return
    yield Finding("converges", 0.0, 0.0)
    if case.kind in BY_SITES:
        yield from _fixed_point(case, result)
    if case.kind != "tied":
        yield from _converged_gradient(case)


def _relative(a: Any, b: Any, floor: float = 1.0) -> float:
    """The difference relative to the larger of b and a floor; infinite for NaN."""
    error = np.max(np.abs(np.asarray(a - b, float))) / max(float(np.max(np.abs(b))), floor)
    return float(error) if np.isfinite(error) else np.inf


def _predictions(case: Case, result: Any) -> Iterator[Finding]:
    """Finite numbers, and variances that are not negative; also at the data."""
    bad = negative = 0.0
    X = np.concatenate([case.test, case.X[:1]])
    mean, var = map(np.asarray, result.posterior.marginals(X))
    bad = float(np.sum(~np.isfinite(mean)) + np.sum(~np.isfinite(var)))
    negative = float(max(0.0, -np.min(var)))
    yield Finding("finite", bad + float(not np.isfinite(result.log_evidence)), 0.0)
    yield Finding("variance", negative, 0.0)
    known = None
    if case.known is not None:
        known = {"noise_variance": np.full(len(X), np.median(case.known))}
    predicted = result.posterior.predict(X, rows=known)
    if case.kind == "classes" or not hasattr(predicted, "quantile"):
        return
    low, middle, high = (np.asarray(predicted.quantile(p), float) for p in (0.05, 0.5, 0.95))
    yield Finding("quantiles", float(np.sum(~((low <= middle) & (middle <= high)))), 0.0)


# ------------------------------------------------------------------------------ exact rows


def _laid(case: Case, jitter: float) -> gaussian.Laid:
    n = len(case.X)
    blocked = case.blocks is not None and case.model.inducing is not None
    return gaussian.Laid(
        X=wide(case.X),
        y=case.y.reshape(n, -1),
        power=np.broadcast_to(case.power, n),
        blocks=np.asarray(case.blocks) if blocked else np.arange(n),
        known=case.known,
        jitter=jitter,
    )


def _exact(case: Case, result: Any) -> Iterator[Finding]:
    laid, model = _laid(case, result.jitter), jax.tree.map(np.asarray, case.model)
    expected = gaussian.log_evidence(model, laid)
    if not np.isfinite(expected):
        yield Finding("evidence", np.nan, VALUE, UNDECIDED)
        return
    yield Finding("evidence", _relative(result.log_evidence, expected), VALUE)
    mean, var = gaussian.posterior(model, laid, wide(case.test))
    ours = [np.asarray(x).reshape(mean.shape) for x in result.posterior.marginals(case.test)]
    unit = float(np.sqrt(np.max(np.abs(var)))) + float(np.nanmax(np.abs(case.y)))
    yield Finding("mean", _relative(ours[0], mean, unit), MOMENTS)
    yield Finding("marginal variance", _relative(ours[1], var, 1e-300), MOMENTS)
    scales = differences.natural_scales(model, case.unit)

    def energy(model: Any) -> np.floating:
        return -gaussian.log_evidence(model, laid)

    _, slope, jitter = _Objective(case).at(np.zeros(scales.size))
    if jitter != result.jitter:
        yield Finding("gradient", np.nan, SLOPE, UNDECIDED, "another jitter")
        return
    yield _compared(slope, *differences.gradient(energy, model, scales))


def _compared(slope: np.ndarray, expected: np.ndarray, uncertain: np.ndarray) -> Finding:
    size = float(np.max(np.abs(expected), initial=0.0)) + 1e-3
    error = float(np.max(np.abs(slope - expected), initial=0.0)) / size
    doubt = float(np.max(uncertain, initial=0.0)) / size
    unsure = not doubt <= SLOPE / 3.0
    entry = int(np.argmax(np.abs(slope - expected))) if len(slope) else -1
    note = f"entry {entry}, doubt {doubt:.0e}"
    return Finding("gradient", error, SLOPE, UNDECIDED if unsure else "", note)


class _Objective:
    """The objective of learning in natural units."""

    def __init__(self, case: Case, method: Any = None):
        data = prepare(case.X, case.y, **case.data_options)
        model, _, jitter = checked_start(case.model, data, 1e-8)
        method = case.method if method is None else method
        self.objective = Objective(model, data, method=method, jitter=jitter)
        natural = differences.natural_scales(model, case.unit)
        self.ratio = natural / self.objective.coordinates.scale

    def at(self, move: np.ndarray) -> tuple[float, np.ndarray, float]:
        """Value, slope and the jitter used."""
        value, slope = self.objective(move * self.ratio)
        return value, slope[: self.ratio.size] * self.ratio, self.objective.jitter


# ------------------------------------------------------------------------------ with sites


def _fixed_point(case: Case, result: Any) -> Iterator[Finding]:
    """Sites that are said to be at a fixed point, judged by quadrature."""
    ((store,),) = result.found
    n = len(case.X)
    shift, precision = (np.asarray(x)[:n, 0] for x in (store.shift, store.precision))
    judgement = sites.judge(case, shift, precision, result.jitter)
    yield Finding("fixed point", judgement.gap, FIXED_POINT)
    found = judgement.log_evidence
    yield Finding("evidence", _relative(result.log_evidence, np.asarray(found)), VALUE)


def _converged_gradient(case: Case) -> Iterator[Finding]:
    """The slope along a direction beside differences of energies whose sites converge anew."""
    tight = type(case.method)(tolerance=1e-11)
    objective = _Objective(case, tight)
    origin = np.zeros(objective.ratio.size)
    _, slope, _ = objective.at(origin)
    if not np.all(np.isfinite(slope)):
        yield Finding("gradient", np.nan, SLOPE, UNDECIDED, "sites do not converge to 1e-11")
        return
    direction = np.random.default_rng(origin.size).choice([-1.0, 1.0], origin.size)

    def along(step: float) -> float:
        return float(differences.central(lambda h: objective.at(h * direction)[0], step))

    table = np.array([along(step) for step in (1e-2, 3e-3, 1e-3)])
    apart = np.abs(np.diff(table))
    best = int(np.argmin(np.where(np.isnan(apart), np.inf, apart)))
    size = float(np.max(np.abs(slope), initial=0.0)) + 1e-3
    error, doubt = abs(table[best + 1] - slope @ direction) / size, apart[best] / size
    unsure = UNDECIDED if not doubt <= SLOPE / 3.0 else ""
    yield Finding("gradient", float(error), SLOPE, unsure, f"doubt {doubt:.0e}")
