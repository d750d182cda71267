"""Settings of linear models, and how they are learned."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.estimators.asked_types import Count, LikelihoodAsked, PowerAsked
from cavity.estimators.blocks import asked_groups, feature_blocks, widths_of
from cavity.estimators.learning import Learned, Problem
from cavity.estimators.registry import REGRESSION, build_likelihood
from cavity.estimators.settings import parts_given
from cavity.families.linear import LINEAR, PARTS, asked_parts
from cavity.families.values import one_of, whole
from cavity.learning.data.row_weights import WeightedTable
from cavity.learning.initialisation.linear import (
    PRIORS,
    AskedLinear,
    output_spread,
    starting_linear,
)
from cavity.learning.initialisation.linear_priors import averaged_over, linear_priors
from cavity.learning.integration.averaged import MOST, QUICK, averaged
from cavity.learning.methods.methods import PowerEP
from cavity.learning.plans.linear import linear_plan
from cavity.learning.results.result import FitResult
from cavity.learning.run.fits import fits
from cavity.parameters.constraints import asked_constraints
from cavity.weights.base import AbstractWeightPrior


@dataclasses.dataclass(eq=False, repr=False)
class AbstractLinearSettings:
    """Settings of a linear model; see `LinearRegressor` for each."""

    prior: object = "spike_slab"
    likelihood: LikelihoodAsked = "gaussian"
    power: PowerAsked = 1.0
    groups: object = None
    blocks: object = None
    integrate: object = "all"
    fit_intercept: object = True
    standardise: object = True
    fixed: object = None
    bounds: object = None
    max_iterations: Count = 200
    tolerance: object = 1e-3
    random_state: object = None


def check_linear(asked: AbstractLinearSettings) -> None:
    """Refuses impossible settings before any work."""
    if not isinstance(asked.prior, AbstractWeightPrior):
        one_of("prior", asked.prior, PRIORS)
    LINEAR.check(asked)
    asked_parts(asked.integrate)


def _groups(asked: AbstractLinearSettings, count: int) -> np.ndarray | None:
    """The group of each feature; None where blocks take their place."""
    alone = asked.groups is None and asked.blocks is not None
    return None if alone else asked_groups(asked, count)


def _blocks(asked: AbstractLinearSettings, count: int) -> list[list[int]] | None:
    """The features of each block that was asked for."""
    fitted: Any = asked
    names = fitted._input_names if fitted.encoder_ is None else fitted.encoder_.names
    return feature_blocks(asked.blocks, widths_of(asked, count), names)


def learn_linear(asked: AbstractLinearSettings, problem: Problem) -> Learned:
    """Learns a linear model; parameters named by `asked.integrate` are averaged over."""
    settings, X = problem.settings, problem.X
    likelihood = build_likelihood(settings.likelihood, settings.task, settings.classes)
    if likelihood.latents > 1 and settings.task == REGRESSION:
        raise ValueError(
            f"the likelihood {type(likelihood).__name__} has several latent functions, whose "
            "coefficients have units of their own: use GPRegressor, or cavity.LinearModel"
        )
    prior: Any = asked.prior
    groups = _groups(asked, X.shape[1])
    table = WeightedTable(X, problem.outputs, problem.side)
    starts = starting_linear(
        AskedLinear(
            prior,
            likelihood,
            groups,
            _blocks(asked, X.shape[1]),
            standardise=bool(asked.standardise),
            keep_likelihood=parts_given(settings).likelihood,
            intercept=bool(asked.fit_intercept),
        ),
        table,
    )
    said = asked_constraints(asked.fixed, asked.bounds, None)
    starts = [said.started(start) for start in starts]
    options: Any = {
        "power": settings.power,
        "fixed": said.fixed,
        "bounds": said.bounds,
        "method": PowerEP(coupled=False),
        "rows": problem.side or None,
        "missing": settings.missing,
        "max_iterations": whole("max_iterations", asked.max_iterations, 0),
        "tolerance": asked.tolerance,
        "seed": settings.seed,
        "callback": problem.course.callback,
    }
    parts = asked_parts(asked.integrate) if options["max_iterations"] else ()
    if parts:
        named = {
            "named_prior": isinstance(prior, str),
            "named_likelihood": not parts_given(settings).likelihood,
        }
        spread = output_spread(likelihood, table)
        options |= {"method": QUICK, "priors": linear_priors(starts[0], spread, **named)}
        # much noise first, from which sites settle; the priors keep it from the largest
        starts = [*starts[1:2], starts[0], *starts[2:]]

    run = fits(X, problem.y, options, problem.course.checkpoint)
    result = run.carry_out(
        lambda run: linear_plan(run, starts, lambda found: _averaged(found, asked, parts))
    )
    return Learned(result, problem.observed, len(X), settings.power)


def _averaged(result: FitResult, asked: AbstractLinearSettings, parts: Sequence[str]) -> FitResult:
    """The result with the parameters of these parts averaged over."""
    if not parts or result.undetermined:
        return result
    model: Any = result.model
    names = averaged_over(model, result.bijections, [PARTS[part] for part in parts], MOST)
    for part in parts:
        free = averaged_over(model, result.bijections, [PARTS[part]], 10**9)
        if not free and asked.integrate != "all":
            kind = type(getattr(model, PARTS[part][:-1])).__name__
            raise ValueError(
                f"{kind} has no parameter that is learned: leave '{part}' out of integrate"
            )
    return averaged(result, names) if names else result
