"""Draws of the parameters and of the latent function by Markov chain Monte Carlo."""

from collections.abc import Callable, Mapping

from numpy.typing import ArrayLike

from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.data.training_data import Data
from cavity.learning.data.validation import all_fixed, check_model
from cavity.learning.dispatch import check_sampler
from cavity.learning.failures import NumericalError, diagnose_failure
from cavity.learning.infer import checked_start, from_draws
from cavity.learning.mcmc.checks import check_draws
from cavity.learning.mcmc.problem import Moving
from cavity.learning.mcmc.run import Drawn, draw, weak_priors
from cavity.learning.methods.mcmc import MCMC
from cavity.learning.optimisers.lbfgs import INTERRUPTED, Progress
from cavity.learning.progress.checkpoint import Searches, Store, open_for
from cavity.learning.results.result import FitResult, Inference, fields_as
from cavity.learning.results.unseen_periods import unseen_periods
from cavity.learning.run.integrated import integrated_names
from cavity.models.base import AbstractModel
from cavity.parameters.priors import flat


@with_one_blas_thread
def sample(
    model: AbstractModel,
    X: ArrayLike,
    y: ArrayLike,
    sampler: MCMC = MCMC(),
    *,
    jitter: float = 1e-8,
    rows: Mapping[str, ArrayLike] | None = None,
    missing: str = "error",
    bijections: AbstractModel | None = None,
    priors: AbstractModel | None = None,
    learn: bool = True,
    callback: Callable[[Progress], None] | None = None,
    checkpoint: Store | None = None,
) -> FitResult:
    """Draws the parameters of a model with its latent function; predictions average over both.

    For the full GP on up to some hundred rows. Of a `LinearModel` and a `Network` the weights are
    drawn, for every prior of weights but a spike that is a point. Parameters without a proper
    prior get a weak one about their starting value.

    Args:
        model: the model, without inducing variables.
        X: inputs, (N, D).
        y: outputs, (N,).
        sampler: settings of the chains.
        jitter: share of the mean prior variance on the diagonal of covariances, at least.
        rows: side data per row, as in `infer`.
        missing: "error", or "skip" to leave out outputs that are NaN.
        bijections: an edited `cavity.parameters.bijections(model)`; FIXED parameters stay.
        priors: an edited `cavity.parameters.priors.flat(model)`.
        learn: whether parameters are drawn; False draws the function, or the weights, alone.
        callback: called with a `Progress` now and then.
        checkpoint: a `cavity.fitting.Checkpoint`, from which an interrupted run goes on.

    Returns:
        The posterior over the draws, the chains, and the model at the medians of its parameters.

    Raises:
        ValueError: for unusable data, and models that chains are not for.
        TypeError: for data that are not numbers, in 32-bit mode, and for another kind of sampler.
        NumericalError: where a chain cannot start.

    References:
        See `MCMC`.
    """
    check_sampler(sampler)
    check_model(model, None, sampler)
    data = prepare(X, y, rows=rows, missing=missing)
    model, (maps,), first = checked_start(model, data, jitter, (bijections,))
    densities = flat(model) if priors is None else priors
    if integrated_names(model, maps):
        raise ValueError("MCMC() draws every parameter: leave out INTEGRATED")
    check_draws(model, data, sampler, learning=True)
    if checkpoint is not None:
        settings = {"bijections": maps, "priors": densities, "jitter": jitter, "learn": learn}
        open_for(checkpoint, model, data, sampler, settings)
    maps = maps if learn else all_fixed(maps)
    proper = weak_priors(model, maps, densities, data)
    search = Searches(checkpoint).next()
    drawn = draw(model, data, sampler, Moving(maps, proper, first), callback, search)
    if drawn is None:
        raise NumericalError(diagnose_failure(model, data))
    return _result(drawn, data, maps, proper)


def _result(drawn: Drawn, data: Data, maps: AbstractModel, priors: AbstractModel) -> FitResult:
    inference = from_draws(drawn)
    shared = fields_as(inference, Inference)
    if drawn.interrupted:
        shared["message"] = f"{INTERRUPTED}: {inference.message}"
    unseen = unseen_periods(drawn.model, data)
    shared["message"] = "; ".join([shared["message"], *map(str, unseen)])
    return FitResult(
        **shared,
        model=drawn.model,
        objective=None,
        history=(),
        n_iterations=drawn.iterations,
        n_evaluations=drawn.steps,
        interrupted=drawn.interrupted,
        bijections=maps,
        priors=priors,
        unseen_periods=unseen,
    )
