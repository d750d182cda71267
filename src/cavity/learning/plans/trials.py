"""Learning from the best of several starting values."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cavity.inference.energy import Sites
from cavity.learning.dispatch import dispatch
from cavity.learning.infer import NumericalError
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.mcmc import MCMC
from cavity.learning.methods.methods import PowerEP
from cavity.learning.optimisers.lbfgs import INTERRUPTED
from cavity.learning.progress.checkpoint import Store
from cavity.learning.results.result import FitResult
from cavity.learning.run.fit import fit
from cavity.likelihoods.capabilities import GaussianInLatent, capability
from cavity.models.base import AbstractModel

# Iterations after which starts are compared.
TRIAL = 20
# Iterations at power 1 after trials there, from whose end one more start comes. Where these make
# ten, noise stays too large on pumadyn32nm.
ALONG = 40
# The power of `fit` where none is given.
DEFAULT = 0.5
# Of a factor with an encoder, which stores nothing.
NO_SITES = ((None, None),)


def fit_best(
    starts: Sequence[AbstractModel],
    X: Any,
    y: Any,
    *,
    max_iterations: int = 1000,
    sites: Sequence[Sites] | None = None,
    checkpoint: Store | None = None,
    **options: Any,
) -> FitResult:
    """`fit` from the best of several models of one structure.

    Each is learned for a few iterations, and the one that came furthest to its end. The evidence
    of sparse models has poor optima where all is called noise, and no single start avoids them.
    Sparse models with Gaussian noise are tried at one more start, where a short fit of the first
    at power 1 ends: there the inducing points need not explain everything at once. Where that
    one leads, it and the best of the others are both learned to their ends, and the better is
    kept.

    Args:
        starts: models with different starting values, the likeliest first.
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P).
        max_iterations: iterations at the most after the trial. Where they are no more than the
            trial's own, there is none, and only the first start counts.
        sites: where `fit` starts from them, those of each start.
        checkpoint: as in `fit`; the fit of each start is kept in a part of its own.
        **options: of `fit`.

    Raises:
        NumericalError: if the objective is undefined at every start.

    References:
        van der Wilk (2018), E14: the bound started from where FITC ended.
    """
    along = _goes_along(starts[0], options)
    few = len(starts) == 1 and not along
    if few or max_iterations <= TRIAL or _of_fixed_length(options.get("method")):
        once: dict[str, Any] = options | {"checkpoint": checkpoint}
        once["sites"] = None if sites is None else sites[0]
        return fit(starts[0], X, y, max_iterations=max_iterations, **once)
    trials = _Trials(X, y, checkpoint, options)
    each = [None] * len(starts) if sites is None else sites
    attempts = [
        _first(trials, number, *start)
        for number, start in enumerate(zip(starts, each, strict=True), 1)
    ]
    if along:
        attempts.append(lambda: trials.along(starts))
    tried: list[FitResult] = []
    for attempt in attempts:
        try:
            tried.append(attempt())
        except NumericalError:
            if attempt is attempts[-1] and not tried:
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
        finalists = zip(("best", "usual"), _finalists(tried, along=along), strict=False)
        ends = [trials.to_the_end(trial, max_iterations, name) for name, trial in finalists]
    except KeyboardInterrupt:
        return _interrupted(best, evaluations)
    return dataclasses.replace(
        min(ends, key=lambda result: result.objective),
        n_evaluations=evaluations + sum(end.n_evaluations for end in ends),
        trials=tuple(float(trial.objective) for trial in tried),
    )


def _finalists(tried: Sequence[FitResult], *, along: bool) -> list[FitResult]:
    """The trials that are learned to their end: the best, beside a start from power 1 another.

    The start from power 1 leads early on some data and ends behind, so that where it leads the
    best of the others is learned to its end as well.
    """
    best, _ = _best(tried)
    usual, _ = _best(tried[:-1] if along and len(tried) > 1 else tried)
    return [best] if usual is best else [best, usual]


@dataclasses.dataclass(frozen=True)
class _Trials:
    """Short fits to the same data, each kept in a part of its own.

    Attributes:
        X: inputs.
        y: outputs.
        checkpoint: as in `fit`.
        options: of `fit`.
    """

    X: Any
    y: Any
    checkpoint: Store | None
    options: dict[str, Any]

    def once(self, start: AbstractModel, name: str, sites: Sites | None = None) -> FitResult:
        """A short fit from one start."""
        part = None if self.checkpoint is None else self.checkpoint.part(name)
        limits: dict[str, Any] = {"max_iterations": TRIAL, "n_restarts": 0, "sites": sites}
        return fit(start, self.X, self.y, **(self.options | limits), checkpoint=part)

    def to_the_end(self, trial: FitResult, max_iterations: int, name: str) -> FitResult:
        """A trial learned to its end, with the iterations of both."""
        part = None if self.checkpoint is None else self.checkpoint.part(name)
        last: dict[str, Any] = self.options | {"checkpoint": part}
        if trial.model.latent_rows:  # latent inputs go on from where they came
            last["sites"] = NO_SITES if trial.found is None else trial.found
        end = fit(trial.model, self.X, self.y, max_iterations=max_iterations, **last)
        return dataclasses.replace(
            end,
            history=trial.history + end.history,
            n_iterations=trial.n_iterations + end.n_iterations,
        )

    def along(self, starts: Sequence[AbstractModel]) -> FitResult:
        """A short fit from where the best of short ones at power 1 ended."""
        part = None if self.checkpoint is None else self.checkpoint.part("power-1")
        short: dict[str, Any] = {"power": 1.0, "n_restarts": 0, "max_iterations": ALONG}
        options = self.options | short
        if has_volume(options.get("method")):
            options["method"] = PowerEP()  # a volume of its own is for power 0
        first = fit_best(starts, self.X, self.y, checkpoint=part, **options)
        if first.interrupted:
            raise KeyboardInterrupt
        second = self.once(first.model, "start-power-1")
        return dataclasses.replace(
            second, n_evaluations=first.n_evaluations + second.n_evaluations
        )


def _first(
    trials: _Trials, number: int, start: AbstractModel, sites: Sites | None
) -> Callable[[], FitResult]:
    """The trial of one start."""
    return lambda: trials.once(start, f"start-{number}", sites)


def _goes_along(start: AbstractModel, options: dict[str, Any]) -> bool:
    """Whether a fit at power 1 leads to another start: of sparse models with Gaussian noise."""
    gaussian = capability(start.likelihood, GaussianInLatent) is not None
    below = bool(np.any(np.asarray(options.get("power", DEFAULT)) < 1.0))
    return below and gaussian and start.approximate and not (start.latent_rows or start.ordered)


def _best(tried: Sequence[FitResult]) -> tuple[FitResult, int]:
    """The best trial, and the evaluations of all."""
    best = min(tried, key=lambda result: result.objective)
    return best, sum(result.n_evaluations for result in tried)


def _of_fixed_length(method: AbstractMethod | MCMC | None) -> bool:
    """Whether learning makes a fixed number of steps, so that a trial is as long as all of it."""
    if method is None:
        return False
    return dispatch(method, lambda m: m.training.steps is not None, lambda _: True)


def has_volume(method: AbstractMethod | MCMC | None) -> bool:
    """Whether residuals have a volume of their own: the tighter bound, and DTC."""
    if method is None:
        return False
    return dispatch(method, lambda m: m.approximation.volume is not None, lambda _: False)


def _interrupted(best: FitResult, evaluations: int) -> FitResult:
    """The best trial, as the result of a search that was interrupted."""
    return dataclasses.replace(
        best,
        n_evaluations=evaluations,
        converged=False,
        interrupted=True,
        message=INTERRUPTED,
    )
