"""Learning state-space models: from a linear one, the best of a few short runs."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from cavity.inference.energy import Sites
from cavity.learning.data.given import Layout, as_training_data
from cavity.learning.initialisation.state_space import (
    StateSpaceStart,
    closed_form_before,
    sites_after,
    starting_sites,
    state_space_starts,
)
from cavity.learning.methods.methods import PowerEP, TiedPowerEP
from cavity.learning.plans.trials import best_of
from cavity.learning.results.result import FitResult, starts_apart
from cavity.learning.run.fits import fits
from cavity.learning.run.stages import Run
from cavity.models.base import AbstractModel
from cavity.parameters import FIXED, bijections

# Iterations of `fit` where none are given, and what a stage without further runs has.
BUDGET, ALONE = 1000, {"n_restarts": 0, "seed": 0}


def fit_state_space(
    asked: StateSpaceStart,
    Y: np.ndarray,
    X: np.ndarray | None = None,
    *,
    series: np.ndarray | None = None,
    method: PowerEP | TiedPowerEP = PowerEP(),
    **options: Any,
) -> FitResult:
    """Learns a Gaussian-process state-space model of standardised outputs.

    States start as the components of the past that predict the future or, where there are as many
    as outputs or more, as lagged outputs; functions start close to those of a linear state-space
    model. Its transitions are the prior mean, and are held: if they were learned, they might grow
    without limit where there are no data, and forecasts with them. Runs of a few iterations from
    these states and several variances of the functions are compared, and the best goes on; with
    `TiedPowerEP()` the first of them is learned from.

    Args:
        asked: the model.
        Y: outputs (T, P), NaN where missing; rows are times, one series after another.
        X: controls (T, C) of unit variance, or None.
        series: labels of series, one per row; None for one series.
        method: how the model is learned. `TiedPowerEP(hidden="conditional")` goes on from where
            `PowerEP()` ends, `TiedPowerEP()` from the states and functions that
            `PowerEP(hidden="factorised")` has at the first parameters.
        **options: of `fit`, with 0 for the power of all rows where none is given;
            `max_iterations` count after the trials, and again where states go on to depend on the
            functions.

    Raises:
        TypeError: for another method.
        ValueError: as `fit`, and for an identity with other than one state per output.
        NumericalError: as `fit`.
    """
    _check_method(method)
    controls = np.zeros((len(Y), 0)) if X is None else np.asarray(X, float)
    labels = np.zeros(len(Y)) if series is None else np.asarray(series)
    ordered = np.cumsum(np.concatenate([[False], labels[1:] != labels[:-1]]))
    starts = state_space_starts(asked, Y, controls, ordered)
    models = [model for model, _ in starts]
    data: dict[str, Any] = {"rows": {"series": labels}, "missing": "skip"}
    data["power"] = options.pop("power", 0.0)
    store = options.pop("checkpoint", None)
    maps = bijections(models[0])
    maps = eqx.tree_at(lambda m: m.transition.mean.weights, maps, FIXED)
    before = closed_form_before(method)
    first = method if before is None else before
    sites = None
    if before is not None:  # refusals come before another method has begun
        as_training_data(models[0], X, Y, method, Layout(**data))
    if first.approximation.closed_form:
        coupled = first.hidden != "factorised"
        sites = [starting_sites(start, coupled=coupled) for _, start in starts]
    run = fits(X, Y, data | {"bijections": maps, "seed": asked.seed} | options, store)
    return run.carry_out(lambda run: state_space_plan(run, models, sites, method, first, controls))


def state_space_plan(
    run: Run,
    models: Sequence[AbstractModel],
    sites: Sequence[Sites] | None,
    method: PowerEP | TiedPowerEP,
    first: PowerEP | TiedPowerEP,
    controls: np.ndarray,
) -> FitResult:
    """The plan of `fit_state_space`: the best start, and what goes on from it by the method.

    Args:
        run: on all rows; further runs from perturbed starts are of what is learned first.
        models: with different starting values.
        sites: of each of them, where the first method starts from some.
        method: how the model is learned.
        first: how states and functions are found that the method goes on from; itself where it
            goes on from none.
        controls: of unit variance, (T, C).
    """
    budget = run.options.get("max_iterations", BUDGET)
    if first is method:
        return best_of(run.with_options(method=method), models, budget=budget, sites=sites)
    learned = method.hidden == "conditional"
    begun = run.with_options(method=first, **({} if learned else ALONE))
    limit = budget if learned else 0
    before = begun.follow("chain", lambda part: best_of(part, models, budget=limit, sites=sites))

    def joined(last: FitResult) -> FitResult:
        if not learned:
            return last
        return last.with_starts(before.trials, before.ends).saying(starts_apart(before.ends))

    last = run.with_options(method=method, **(ALONE if learned else {})).stage(
        method.hidden or "tied",
        before.model,
        sites=sites_after(before.posterior, controls, method),
        budget=budget,
        ended=joined,
    )
    return joined(last)


def _check_method(method: object) -> None:
    """Raises TypeError for a method that is none of state-space models."""
    if not isinstance(method, PowerEP | TiedPowerEP):
        raise TypeError(
            "state-space models are learned by method=cavity.PowerEP() or cavity.TiedPowerEP(), "
            f"given {type(method).__name__}"
        )
