"""State-space models of a series that goes on: the states of new rows at known parameters."""

from typing import Any, cast

import equinox as eqx
import numpy as np

from cavity.learning.initialisation.state_space import (
    closed_form_before,
    filled_in_time,
    linear_start,
    sites_after,
    starting_sites,
)
from cavity.learning.methods.methods import PowerEP, TiedPowerEP
from cavity.learning.results.result import FitResult
from cavity.learning.run.fits import fits
from cavity.learning.run.stages import Run
from cavity.models.state_space.gpssm import GPSSM
from cavity.models.state_space.posterior import StateSpacePosterior
from cavity.parameters import FIXED, bijections


def follow_states(
    posterior: StateSpacePosterior,
    Y: np.ndarray,
    X: np.ndarray | None = None,
    *,
    method: PowerEP | TiedPowerEP = PowerEP(),
    **options: Any,
) -> FitResult:
    """The posterior of one series with more rows or fewer, parameters as they are.

    States and functions follow from these rows. The search for them starts, for rows that were
    there, where they were, and for new ones where they were expected.

    Args:
        posterior: of the rows before.
        Y: outputs of all rows (T, P), NaN where missing.
        X: controls of all rows (T, C), or None.
        method: as in `fit`.
        **options: of `fit`, the power 0 where none is given; `max_iterations` are those by which
            parameters are learned again from here, the linear functions that others are about
            excepted, by default none.

    Raises:
        ValueError: as `fit`.
        NumericalError: as `fit`.
    """
    model, mean = cast(GPSSM, posterior.model), np.asarray(posterior.states.mean)
    budget = options.pop("max_iterations", 0)
    new, mean = len(Y) - len(mean), mean[: len(Y)]
    if new > 0:
        controls = None if X is None else X[-new:]
        future = posterior.forecast(new, controls, propagation="linearised").states
        mean = np.concatenate([mean, np.asarray(future.mean)[0]])
    series, known = np.zeros(len(Y)), np.zeros((len(Y), 0)) if X is None else X
    start = linear_start(filled_in_time(Y, series), known, series, mean)
    noise = np.broadcast_to(np.asarray(model.transition.noise_variance), (mean.shape[1],))
    before = closed_form_before(method)
    first, sites = method if before is None else before, None
    if first.approximation.closed_form:
        start = start._replace(process_noise=noise)
        sites = starting_sites(start, coupled=first.hidden != "factorised")
    maps = bijections(model)
    maps = eqx.tree_at(lambda m: m.transition.mean.weights, maps, FIXED)

    def plan(run: Run) -> FitResult:
        if before is None:
            return run.stage("", model, sites=sites, method=method, budget=budget)
        found = run.stage("", model, sites=sites, method=before, budget=0)
        own = sites_after(found.posterior, known, method)
        return run.stage("", found.model, sites=own, method=method, budget=budget)

    usual = {"power": 0.0, "missing": "skip", "bijections": maps}
    return fits(X, Y, usual | options).carry_out(plan)
