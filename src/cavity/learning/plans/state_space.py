"""Learning state-space models: from a linear one, the best of a few short runs."""

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import equinox as eqx
import numpy as np

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
from cavity.learning.plans.trials import fit_best
from cavity.learning.progress.checkpoint import Store
from cavity.learning.results.result import FitResult, starts_apart
from cavity.learning.run.fit import fit
from cavity.likelihoods.base import AbstractLikelihood
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

    States start from what the past tells of the future or, where there are as many as outputs or
    more, are lagged outputs, and functions start about those of a linear state-space model. Its
    transitions are the prior mean, and are held: if they were learned, they might grow without
    limit where there are no data, and forecasts with them. Runs of a few iterations from these
    states and several variances of the functions are compared, and the best goes on; with
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
    options, maps = dict(data), bijections(models[0])
    options["bijections"] = eqx.tree_at(lambda m: m.transition.mean.weights, maps, FIXED)
    options |= {"jitter": jitter, "callback": callback}
    limits: dict[str, Any] = {"max_iterations": max_iterations}
    several: dict[str, Any] = {"n_restarts": n_restarts, "seed": seed}
    before = closed_form_before(method)
    first = method if before is None else before
    sites = None
    if before is not None:  # refusals come before another method has begun
        as_training_data(models[0], X, Y, method=method, blocks=None, **data)
    if first.approximation.closed_form:
        coupled = first.hidden != "factorised"
        sites = [starting_sites(*each, coupled=coupled) for each in starts]
    part = checkpoint if before is None or checkpoint is None else checkpoint.part("chain")
    learned = before is None or method.hidden == "conditional"
    how = limits | several if learned else {"max_iterations": 0}
    result = fit_best(models, X, Y, method=first, sites=sites, checkpoint=part, **how, **options)
    if before is None or result.interrupted:
        return result
    part = None if checkpoint is None else checkpoint.part(method.hidden or "tied")
    sites = sites_after(cast(StateSpacePosterior, result.posterior), controls, method)
    how = limits if learned else limits | several
    last = fit(result.model, X, Y, method=method, sites=sites, checkpoint=part, **how, **options)
    if not learned:
        return last
    return _with_starts(last, result)


def _check_method(method: object) -> None:
    """Raises TypeError for a method that is none of state-space models."""
    if not isinstance(method, PowerEP | TiedPowerEP):
        raise TypeError(
            "state-space models are learned by method=cavity.PowerEP() or cavity.TiedPowerEP(), "
            f"given {type(method).__name__}"
        )


def _is_identity(emission: str, states: int, outputs: int) -> bool:
    """Whether outputs observe the states themselves.

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


def _with_starts(last: FitResult, first: FitResult) -> FitResult:
    """A result with what is known of the starts of the one that it went on from."""
    apart = starts_apart(first.ends)
    message = last.message if apart is None else f"{last.message}; {apart}"
    return dataclasses.replace(last, ends=first.ends, trials=first.trials, message=message)
