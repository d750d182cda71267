"""Learning from the best of several starting values."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from cavity.learning.dispatch import dispatch
from cavity.learning.fit import fit
from cavity.learning.infer import NumericalError
from cavity.learning.mcmc.settings import MCMC
from cavity.learning.method import AbstractMethod
from cavity.learning.optimisers.checkpoint import Store
from cavity.learning.optimisers.lbfgs import INTERRUPTED
from cavity.learning.result import FitResult
from cavity.models.base import AbstractModel

# Iterations after which starts are compared.
TRIAL = 20
# Of a factor with an encoder, which stores nothing.
NO_SITES = ((None, None),)


def fit_best(
    starts: Sequence[AbstractModel],
    X: Any,
    y: Any,
    *,
    max_iterations: int = 1000,
    checkpoint: Store | None = None,
    **options: Any,
) -> FitResult:
    """`fit` from the best of several models of one structure.

    Each is learned for a few iterations, and the one that came furthest to its end. The evidence
    of sparse models has poor optima where all is called noise, and no single start avoids them.

    Args:
        starts: models with different starting values, the likeliest first.
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P).
        max_iterations: iterations at the most after the trial. Where they are no more than the
            trial's own, there is none, and only the first start counts.
        checkpoint: as in `fit`; the fit of each start is kept in a part of its own.
        **options: of `fit`.

    Raises:
        NumericalError: if the objective is undefined at every start.
    """
    if len(starts) == 1 or max_iterations <= TRIAL or _of_fixed_length(options.get("method")):
        once: dict[str, Any] = options | {"checkpoint": checkpoint}
        return fit(starts[0], X, y, max_iterations=max_iterations, **once)
    tried: list[FitResult] = []
    for number, start in enumerate(starts, 1):
        try:
            trial: dict[str, Any] = options | {"max_iterations": TRIAL, "n_restarts": 0}
            part = None if checkpoint is None else checkpoint.part(f"start-{number}")
            tried.append(fit(start, X, y, checkpoint=part, **trial))
        except NumericalError:
            if number == len(starts) and not tried:
                raise
            continue
        except KeyboardInterrupt:
            if not tried:
                raise
            return _interrupted(*_best(tried))
        if tried[-1].interrupted:
            break
    best, evaluations = _best(tried)
    if tried[-1].interrupted:
        return _interrupted(best, evaluations)
    try:
        part = None if checkpoint is None else checkpoint.part("best")
        last: dict[str, Any] = options | {"checkpoint": part}
        if best.model.latent_rows:  # latent inputs go on from where they came
            last["sites"] = NO_SITES if best.found is None else best.found
        result = fit(best.model, X, y, max_iterations=max_iterations, **last)
    except KeyboardInterrupt:
        return _interrupted(best, evaluations)
    return dataclasses.replace(
        result,
        history=best.history + result.history,
        n_iterations=best.n_iterations + result.n_iterations,
        n_evaluations=evaluations + result.n_evaluations,
    )


def _best(tried: Sequence[FitResult]) -> tuple[FitResult, int]:
    """The best trial, and the evaluations of all."""
    best = min(tried, key=lambda result: result.objective)
    return best, sum(result.n_evaluations for result in tried)


def _of_fixed_length(method: AbstractMethod | MCMC | None) -> bool:
    """Whether learning makes a fixed number of steps, so that a trial is as long as all of it."""
    if method is None:
        return False
    return dispatch(method, lambda m: m.training.steps is not None, lambda _: True)


def _interrupted(best: FitResult, evaluations: int) -> FitResult:
    """The best trial, as the result of a search that was interrupted."""
    return dataclasses.replace(
        best,
        n_evaluations=evaluations,
        converged=False,
        interrupted=True,
        message=INTERRUPTED,
    )
