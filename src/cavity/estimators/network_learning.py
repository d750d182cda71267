"""Networks by maximum evidence, from the best of several starts."""

import dataclasses
from typing import Any, TypeVar

import numpy as np

from cavity.estimators.learning import Learned, Problem
from cavity.estimators.network_settings import AbstractNetworkSettings
from cavity.estimators.registry import build_likelihood, whole
from cavity.estimators.settings import check_held
from cavity.learning.infer import NumericalError, infer
from cavity.learning.initialisation.network import (
    held_output,
    network_at_mode,
    starting_network,
)
from cavity.learning.methods.methods import TiedPowerEP
from cavity.learning.optimisers.lbfgs import INTERRUPTED
from cavity.learning.results.result import FitResult, Inference
from cavity.learning.run.fit import fit
from cavity.models.base import AbstractModel
from cavity.models.network.network import Network
from cavity.numerics.text import plural

R = TypeVar("R", bound=Inference)

# Residuals from which on sites are far from settled, in deviations, and a power at which sweeps
# of networks mostly settle.
FAR, LESS = 0.1, 0.5
# With minibatches: of Adam, and rows that the start is found by at the most.
LEARNING_RATE, ROWS_OF_START = 0.01, 5000


def learn_network(asked: AbstractNetworkSettings, problem: Problem, task: str) -> Learned:
    """The network that was asked for, by maximum evidence from the best of several starts."""
    settings, X, outputs = problem.settings, problem.X, problem.outputs
    likelihood = build_likelihood(settings.likelihood, task, settings.classes)
    check_held(likelihood)
    if outputs.shape[1] != 1:
        raise ValueError(
            f"a network has one output, y has {outputs.shape[1]}: fit one to each column, as "
            "sklearn.multioutput.MultiOutputRegressor does"
        )
    groups: Any = None if asked.groups is None else np.asarray(asked.groups)
    if groups is not None and groups.shape != (X.shape[1],):
        raise ValueError(
            f"groups must have one entry for each of {plural(X.shape[1], 'column')}, given shape "
            f"{groups.shape}"
        )
    units, prior, activation = _parts(asked)
    model = starting_network(
        units,
        prior,
        activation,
        likelihood,
        X,
        outputs,
        linear=bool(asked.linear),
        groups=groups,
        standardise=bool(asked.standardise),
        keep_likelihood=not isinstance(settings.likelihood, str),
    )
    data: dict[str, Any] = {"rows": problem.side or None, "missing": settings.missing}
    options: Any = {
        "power": settings.power,
        **data,
        "tolerance": asked.tolerance,
        "seed": settings.seed,
        "callback": problem.callback,
        "checkpoint": problem.checkpoint,
    }
    observed = np.sum(~np.isnan(outputs), axis=0)
    if asked.batch is not None:
        options["method"] = _of_minibatches(asked, problem)
        start = network_at_mode(
            model, problem.X, problem.y, seed=settings.seed, at_most=ROWS_OF_START, **data
        )
        result = fit(start, X, problem.y, bijections=held_output(start), **options)
        return Learned(result, observed, len(X), settings.power)
    options["max_iterations"] = whole("max_iterations", asked.max_iterations, 0)
    starts = _ranked(model, problem, whole("n_starts", asked.n_starts, 1), data)
    options["bijections"] = held_output(starts[0])
    result = _settled(starts[0], problem, options)
    result = result if result.interrupted else with_advice(result, settings.power)
    return Learned(result, observed, len(X), settings.power)


def _of_minibatches(asked: AbstractNetworkSettings, problem: Problem) -> TiedPowerEP:
    """The method with one site for all rows."""
    size = min(whole("batch", asked.batch, 1), len(problem.X))
    steps = whole("steps", asked.steps, 1)
    return TiedPowerEP(
        batch=size, max_sweeps=steps, learning_rate=LEARNING_RATE, seed=problem.settings.seed
    )


def _settled(start: Network, problem: Problem, options: dict[str, Any]) -> FitResult:
    """The fit; where sites do not settle at a large power, from what a smaller one learned.

    With many columns a large power may have no fixed point near the starting parameters, and have
    one where noise and prior suit the data.
    """
    own, smaller, again = (_part(options, problem, name) for name in ("own", "smaller", "again"))
    power = np.max(options["power"])
    first, error = _tried(start, problem, own)
    if power <= LESS or (first is not None and (first.interrupted or not _is_far(first))):
        return _or_raise(first, error)
    near, _ = _tried(start, problem, smaller | {"power": LESS})
    if near is None or (_is_far(near) and not near.interrupted):
        return _or_raise(first, error)
    last = None if near.interrupted else _tried(near.model, problem, again)[0]
    if last is not None and not _is_far(last):
        evaluations = (0 if first is None else first.n_evaluations) + near.n_evaluations
        return dataclasses.replace(last, n_evaluations=last.n_evaluations + evaluations)
    interrupted = near.interrupted or (last is not None and last.interrupted)
    why = INTERRUPTED if interrupted else f"sites did not settle at power {power:g}"
    message = f"{why}; the posterior is that of power {LESS:g}"
    return dataclasses.replace(near, converged=False, interrupted=interrupted, message=message)


def _part(options: dict[str, Any], problem: Problem, name: str) -> dict[str, Any]:
    """Options of a fit that keeps what it has done in a part of the checkpoint."""
    store = problem.checkpoint
    return options if store is None else options | {"checkpoint": store.part(name)}


def _tried(
    start: AbstractModel, problem: Problem, options: dict[str, Any]
) -> tuple[FitResult | None, NumericalError | None]:
    """The fit, or the error that ended it."""
    try:
        return fit(start, problem.X, problem.y, **options), None
    except NumericalError as error:
        return None, error


def _or_raise(result: FitResult | None, error: NumericalError | None) -> FitResult:
    if result is None:
        assert error is not None
        raise error
    return result


def _is_far(result: Inference) -> bool:
    """Whether sites are far from settled."""
    return not result.converged and not result.sites.residual < FAR


def with_advice(result: R, power: Any) -> R:
    """The result, with a word on the power where sites are far from settled at a large one."""
    if not _is_far(result) or np.max(power) <= LESS:
        return result
    message = f"{result.message}; at power={LESS:g} sites of networks settle more often"
    return dataclasses.replace(result, message=message)


def _parts(asked: AbstractNetworkSettings) -> tuple[Any, Any, Any]:
    """Units, prior and activation, which were checked."""
    return asked.hidden, asked.prior, asked.activation


def _ranked(model: Network, problem: Problem, count: int, data: dict[str, Any]) -> list[Network]:
    """Starts from several modes, those that settle first, and of these the likeliest first."""
    power: Any = problem.settings.power
    ranked = []
    for number in range(count):
        seed = (problem.settings.seed + number) % 2**32
        start = network_at_mode(model, problem.X, problem.y, seed=seed, **data)
        if count == 1:
            return [start]
        try:
            found = infer(start, problem.X, problem.y, power=power, **data)
        except NumericalError:
            continue
        key = (not found.converged, -float(found.log_evidence or -np.inf))
        ranked.append((*key, number, start))
    return [start for *_, start in sorted(ranked, key=lambda each: each[:3])] or [model]
