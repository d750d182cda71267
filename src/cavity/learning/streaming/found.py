"""Inference and learning in the rows that are live, after their past."""

import dataclasses
from typing import NamedTuple

import equinox as eqx

from cavity.inference.energy import Sites
from cavity.inference.past import Past
from cavity.inference.problem import Problem, has_sites
from cavity.inference.solvers.convergence import ConvergenceReport
from cavity.learning.data.arrays import prepare
from cavity.learning.data.scales import Tallies
from cavity.learning.data.training_data import Data
from cavity.learning.data.validation import all_fixed
from cavity.learning.infer import NumericalError, checked_start, infer_from, posterior_at
from cavity.learning.methods.methods import PowerEP
from cavity.learning.progress.checkpoint import Searches
from cavity.learning.results.result import FitResult, Inference, unlearned
from cavity.learning.run.fit import learned_from
from cavity.learning.search.restarts import Restarts
from cavity.learning.streaming.live_rows import LiveRows
from cavity.learning.streaming.one_pass import visited_once
from cavity.learning.streaming.record import moved_along, tallies_of
from cavity.learning.streaming.settings import UpdateSettings
from cavity.models.base import AbstractGP

# Nats per iteration below which learning ends.
TOLERANCE = 1e-3


class Found(NamedTuple):
    """Inference in the live rows, after their past.

    Attributes:
        result: the result.
        data: the rows and their past.
        problem: the problem that was solved.
        sites: its sites.
    """

    result: FitResult
    data: Data
    problem: Problem
    sites: Sites


def better(chosen: Found | None, stayed: Found) -> Found:
    """The one that explains more: inducing points chosen anew may explain less."""
    if chosen is not None and chosen.result.objective < stayed.result.objective:
        return chosen
    return stayed


def as_before(found: Found, why: str) -> Found:
    """Inference with the old parameters, in the place of learning that gained nothing."""
    return found._replace(result=found.result.judged(why, converged=False))


def attempted(
    result: Inference, model: AbstractGP, data: Data, settings: UpdateSettings
) -> Found | None:
    """Inference with other inducing variables; None where it fails.

    A past of sites with negative precision, as outliers leave them, can be improper there.
    """
    try:
        return inferred(result, model, data, settings)
    except NumericalError:
        return None


def data_of(
    result: Inference,
    settings: UpdateSettings,
    past: Past | None,
    live: LiveRows,
    seen: Tallies | None = None,
) -> Data:
    """Rows beside their past, and what was counted of all of them."""
    y = live.y[:, 0] if result.posterior.single else live.y
    side = dict(live.side.items())
    data = prepare(live.X, y, power=settings.power, rows=side, missing="skip")
    if past is not None:
        past = dataclasses.replace(past, with_prior=settings.reuse == "posterior")
    return dataclasses.replace(data, past=past, seen=seen)


def same_functions(data: Data) -> Data:
    """The data with a past of the very functions that the model has."""
    if data.past is None or data.past.with_prior:
        return data
    return dataclasses.replace(data, past=dataclasses.replace(data.past, same=True))


def inferred(result: Inference, model: AbstractGP, data: Data, settings: UpdateSettings) -> Found:
    """Inference at fixed parameters."""
    model, _, jitter = checked_start(model, data, result.jitter)
    method, densities = PowerEP(), result._densities(model, data.seen)
    problem = data.problem(model, method.approximation, jitter)
    zero = problem.empty_sites()
    if settings.one_pass and has_sites(zero):
        sites, value = visited_once(problem, zero)
        posterior, _ = posterior_at(model, data, problem, sites)
        report = ConvergenceReport(1, 0.0, 0, "assumed density filtering")
        message = "each row was visited once"
        found = Inference(posterior, float(value), True, message, jitter, report, sites, None)
    else:
        found = infer_from(model, data, method, jitter)
        problem = data.problem(model, method.approximation, found.jitter)
    fit = unlearned(found, model, result._domains(model), densities)
    return Found(fit, data, problem, zero if found.found is None else found.found)


def learned(
    result: Inference, model: AbstractGP, data: Data, settings: UpdateSettings
) -> Found | None:
    """The model with parameters learned; None where its evidence is undefined."""
    maps, densities = result._domains(model), result._densities(model, data.seen)
    if settings.inducing == "keep":
        assert maps.inducing is not None
        held = all_fixed(maps.inducing)
        searched = eqx.tree_at(lambda m: m.inducing, maps, held)
    else:
        searched = maps
    method = PowerEP()
    limits = (settings.max_iterations, TOLERANCE, None)
    ends = []
    along = moved_along(model, searched, tallies_of(result), data.seen)
    for first in (model,) if along is None else (model, along):
        start, stages, jitter = checked_start(first, data, result.jitter, (searched,))
        run = Restarts(data, method, densities, *limits, Searches(None))
        try:
            ends.append(learned_from(run, start, stages, jitter))
        except NumericalError:
            continue
    if not ends:
        return None
    fit = min(ends, key=lambda end: end.objective)
    fit = dataclasses.replace(fit, bijections=maps)
    problem = data.problem(fit.model, method.approximation, fit.jitter)
    return Found(fit, data, problem, problem.empty_sites() if fit.found is None else fit.found)
