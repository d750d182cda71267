"""Learning from the best of several starting values."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.energy import Sites
from cavity.learning.data.given import TrainingRows
from cavity.learning.dispatch import dispatch
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.mcmc import MCMC
from cavity.learning.methods.methods import PowerEP
from cavity.learning.progress.checkpoint import Store
from cavity.learning.results.result import FitResult
from cavity.learning.run.fits import fits
from cavity.learning.run.stages import Run, lowest
from cavity.models.base import AbstractModel

# Iterations after which starts are compared.
TRIAL = 20
# Iterations at power 1 after trials there, from whose end one more start comes. Where these make
# ten, noise stays too large on pumadyn32nm.
ALONG = 40
# The power of `fit` where none is given.
DEFAULT = 0.5
# Of latent inputs with an encoder, which store nothing.
NO_SITES = ((None,),)


def fit_best(
    starts: Sequence[AbstractModel],
    X: TrainingRows | None,
    y: ArrayLike | None,
    *,
    max_iterations: int = 1000,
    sites: Sequence[Sites] | None = None,
    checkpoint: Store | None = None,
    **options: Any,
) -> FitResult:
    """`fit` from the best of several models of one structure.

    Each is learned for a few iterations, and the one with the lowest objective to its end. The
    evidence of sparse models has poor optima that explain all data as noise, and no single start
    avoids them. Sparse models with Gaussian noise are tried at one more start, where a short fit
    of the first at power 1 ends: there the inducing points need not explain everything at once.
    Where that one leads, it and the best of the others are both learned to their ends, and the
    better is kept.

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
    run = fits(X, y, options, checkpoint)
    return run.carry_out(lambda run: best_of(run, starts, budget=max_iterations, sites=sites))


def best_of(
    run: Run,
    starts: Sequence[AbstractModel],
    *,
    budget: int = 1000,
    sites: Sequence[Sites] | None = None,
) -> FitResult:
    """The plan of `fit_best`.

    Args:
        run: on the table.
        starts: models with different starting values, the likeliest first.
        budget: iterations at the most after the trials.
        sites: of each start; None where `fit` starts from none.
    """
    each = [None] * len(starts) if sites is None else sites
    along = _goes_along(starts[0], run.options)
    few = len(starts) == 1 and not along
    if few or budget <= TRIAL or _has_fixed_length(run.options.get("method")):
        return run.stage("", starts[0], sites=each[0], budget=budget)
    tried: list[FitResult] = []
    for number, (start, own) in enumerate(zip(starts, each, strict=True), 1):
        short: dict[str, Any] = {"budget": TRIAL, "n_restarts": 0, "sites": own}
        trial = run.try_stage(f"start-{number}", start, beside=tried, **short)
        tried += [] if trial is None else [trial]
    finalists = [lowest(tried)] if tried else []
    if along:
        # It leads early on some data and ends behind: the best of the others is learned as well.
        trial = _start_along(run, starts, tried)
        tried += [] if trial is None else [trial]
        ahead = trial is not None and lowest(tried) is trial
        finalists = [trial, *finalists] if ahead else finalists
    ends: list[FitResult] = []
    for name, trial in zip(("best", "usual"), finalists, strict=False):
        own = None
        if trial.model.latent_rows:  # latent inputs go on from where they came
            own = NO_SITES if trial.found is None else trial.found
        more: dict[str, Any] = {"sites": own, "budget": budget, "after": trial, "beside": ends}
        ends.append(run.stage(name, trial.model, **more))
    return run.best(ends).with_starts(trials=[trial.objective for trial in tried])


def _start_along(
    run: Run, starts: Sequence[AbstractModel], tried: Sequence[FitResult]
) -> FitResult | None:
    """A trial from where the best of short fits at power 1 ended; None where there is none."""
    options: dict[str, Any] = {"power": 1.0, "n_restarts": 0}
    if has_volume(run.options.get("method")):
        options["method"] = PowerEP()  # a volume of its own is for power 0
    first = run.with_options(**options).try_follow(
        "power-1",
        lambda part: best_of(part, starts, budget=ALONG),
        ended=lambda _: run.best(tried).stopped(),
        otherwise=(lambda: run.best(tried).stopped()) if tried else None,
    )
    if first is None:
        return None
    how: dict[str, Any] = {"budget": TRIAL, "n_restarts": 0, "beside": tried}
    return run.try_stage("start-power-1", first.model, **how)


def _goes_along(start: AbstractModel, options: dict[str, Any]) -> bool:
    """True where a fit at power 1 leads to another start: sparse models with Gaussian noise."""
    gaussian = start.likelihood.gaussian_noise is not None
    below = bool(np.any(np.asarray(options.get("power", DEFAULT)) < 1.0))
    return below and gaussian and start.approximate and not (start.latent_rows or start.ordered)


def _has_fixed_length(method: AbstractMethod | MCMC | None) -> bool:
    """True where learning makes a fixed number of steps, so that a trial is as long as all."""
    if method is None:
        return False
    return dispatch(method, lambda m: m.training.steps is not None, lambda _: True)


def has_volume(method: AbstractMethod | MCMC | None) -> bool:
    """True where residuals have a volume of their own: the tighter bound, and DTC."""
    if method is None:
        return False
    return dispatch(method, lambda m: m.approximation.volume is not None, lambda _: False)
