"""Learning state-space models: from a linear one, the best of a few short runs."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import equinox as eqx
import numpy as np

from cavity.inference.energy import Sites
from cavity.kernels.base import AbstractKernel
from cavity.learning.data.batched import as_training_data
from cavity.learning.initialisation.state_space import (
    closed_form_before,
    sites_after,
    starting_sites,
    state_space_starts,
)
from cavity.learning.methods.methods import PowerEP, TiedPowerEP
from cavity.learning.optimisers.lbfgs import Progress
from cavity.learning.plans.trials import best_of
from cavity.learning.progress.checkpoint import Store
from cavity.learning.results.result import FitResult, starts_apart
from cavity.learning.run.fits import fits
from cavity.learning.run.stages import Run
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.base import AbstractModel
from cavity.models.state_space.posterior import StateSpacePosterior
from cavity.parameters import FIXED, bijections


def fit_state_space(
    Y: np.ndarray,
    X: np.ndarray | None = None,
    *,
    states: int,
    series: np.ndarray | None = None,
    kernel: AbstractKernel | None = None,
    likelihood: AbstractLikelihood | None = None,
    points: int = 30,
    emission: str = "linear",
    power: float = 0.0,
    method: PowerEP | TiedPowerEP = PowerEP(),
    jitter: float = 1e-8,
    seed: int = 0,
    n_restarts: int = 0,
    max_iterations: int = 1000,
    callback: Callable[[Progress], None] | None = None,
    checkpoint: Store | None = None,
) -> FitResult:
    """Learns a Gaussian-process state-space model of standardised outputs.

    States start as the components of the past that predict the future or, where there are as many
    as outputs or more, as lagged outputs; functions start close to those of a linear state-space
    model. Its transitions are the prior mean, and are held: if they were learned, they might grow
    without limit where there are no data, and forecasts with them. Runs of a few iterations from
    these states and several variances of the functions are compared, and the best goes on; with
    `TiedPowerEP()` the first of them is learned from.

    Args:
        Y: outputs (T, P), NaN where missing; rows are times, one series after another.
        X: controls (T, C) of unit variance, or None.
        states: hidden states.
        series: labels of series, one per row; None for one series.
        kernel: covariance function, for states and controls of unit variance; None for an RBF.
        likelihood: density of an output; None for Gaussian noise, one variance per output.
        points: inducing points at the most.
        emission: "linear", or "identity" where outputs observe the states themselves.
        power: of all rows.
        method: how the model is learned. `TiedPowerEP(hidden="conditional")` goes on from where
            `PowerEP()` ends, `TiedPowerEP()` from the states and functions that
            `PowerEP(hidden="factorised")` has at the first parameters.
        jitter: as in `fit`.
        seed: of inducing points, and of perturbed starts.
        n_restarts: further runs from perturbed starts, as in `fit`.
        max_iterations: iterations at the most, after the trials, and again where states go on to
            depend on the functions.
        callback: called after every iteration.
        checkpoint: as in `fit`.

    Raises:
        TypeError: for another method.
        ValueError: as `fit`, and for an identity with other than one state per output.
        NumericalError: as `fit`.
    """
    _check_method(method)
    identity = _is_identity(emission, states, Y.shape[1])
    controls = np.zeros((len(Y), 0)) if X is None else np.asarray(X, float)
    labels = np.zeros(len(Y)) if series is None else np.asarray(series)
    ordered = np.cumsum(np.concatenate([[False], labels[1:] != labels[:-1]]))
    layout: dict[str, Any] = {"states": states, "points": points, "identity": identity}
    starts = state_space_starts(Y, controls, ordered, kernel, likelihood, **layout, seed=seed)
    models = [model for model, _ in starts]
    data: dict[str, Any] = {"rows": {"series": labels}, "missing": "skip", "power": power}
    maps = bijections(models[0])
    maps = eqx.tree_at(lambda m: m.transition.mean.weights, maps, FIXED)
    before = closed_form_before(method)
    first = method if before is None else before
    sites = None
    if before is not None:  # refusals come before another method has begun
        as_training_data(models[0], X, Y, method=method, blocks=None, **data)
    if first.approximation.closed_form:
        coupled = first.hidden != "factorised"
        sites = [starting_sites(*each, coupled=coupled) for each in starts]
    options = data | {"bijections": maps, "jitter": jitter, "callback": callback}
    run = fits(X, Y, options, checkpoint)

    def plan(run: Run) -> FitResult:
        how: dict[str, Any] = {"budget": max_iterations, "controls": controls}
        how |= {"n_restarts": n_restarts, "seed": seed}
        return state_space_plan(run, models, sites, method, first, **how)

    return run.carry_out(plan)


def state_space_plan(
    run: Run,
    models: Sequence[AbstractModel],
    sites: Sequence[Sites] | None,
    method: PowerEP | TiedPowerEP,
    first: PowerEP | TiedPowerEP,
    *,
    controls: np.ndarray,
    budget: int,
    n_restarts: int,
    seed: int,
) -> FitResult:
    """The plan of `fit_state_space`: the best start, and what goes on from it by the method.

    Args:
        run: on all rows.
        models: with different starting values.
        sites: of each of them, where the first method starts from some.
        method: how the model is learned.
        first: how states and functions are found that the method goes on from; itself where it
            goes on from none.
        controls: of unit variance, (T, C).
        budget: iterations at the most.
        n_restarts: further runs from perturbed starts, of what is learned first.
        seed: of these.
    """
    several = {"n_restarts": n_restarts, "seed": seed}
    if first is method:
        plain = run.with_options(method=method, **several)
        return best_of(plain, models, budget=budget, sites=sites)
    learned = method.hidden == "conditional"
    begun = run.with_options(method=first, **(several if learned else {}))
    limit = budget if learned else 0
    before = begun.follow("chain", lambda part: best_of(part, models, budget=limit, sites=sites))
    posterior = cast(StateSpacePosterior, before.posterior)

    def joined(last: FitResult) -> FitResult:
        if not learned:
            return last
        return last.with_starts(before.trials, before.ends).saying(starts_apart(before.ends))

    last = run.with_options(method=method, **({} if learned else several)).stage(
        method.hidden or "tied",
        before.model,
        sites=sites_after(posterior, controls, method),
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


def _is_identity(emission: str, states: int, outputs: int) -> bool:
    """True where outputs observe the states themselves.

    Raises:
        ValueError: for another word, and for an identity with other than one state per output.
    """
    if emission not in ("linear", "identity"):
        raise ValueError(f'emission must be "linear" or "identity", given {emission!r}')
    if emission == "identity" and states != outputs:
        raise ValueError(
            f"where outputs observe the states, there is one state per output: {outputs}, "
            f"given {states}"
        )
    return emission == "identity"
