"""Learning parameters: maximum evidence, or maximum a posteriori."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cavity.learning.data.batched import as_training_data
from cavity.learning.data.validation import (
    check_domains,
    check_model,
    check_shapes,
    without_effect,
)
from cavity.learning.infer import (
    as_dtype,
    first_jitter,
    infer_from,
    one_blas_thread,
)
from cavity.learning.mcmc.settings import MCMC
from cavity.learning.method import AbstractMethod
from cavity.learning.methods import PowerEP
from cavity.learning.optimisers.checkpoint import Searches, Store, claim
from cavity.learning.optimisers.lbfgs import Minimum, Progress, completing
from cavity.learning.optimisers.restarts import Run, verbs
from cavity.learning.result import FitResult, Inference
from cavity.learning.sample import sample
from cavity.models.base import AbstractModel
from cavity.parameters import bijections as default_bijections
from cavity.parameters.priors import flat, log_prior


def fit(
    model: AbstractModel,
    X: Any,
    y: Any = None,
    *,
    power: Any = 0.5,
    method: AbstractMethod | MCMC = PowerEP(),
    jitter: float = 1e-8,
    blocks: Any = None,
    rows: Mapping[str, Any] | None = None,
    missing: str = "error",
    bijections: Any = None,
    priors: Any = None,
    schedule: Sequence[Any] = (),
    n_restarts: int = 0,
    max_iterations: int = 1000,
    tolerance: float = 1e-3,
    seed: int = 0,
    callback: Callable[[Progress], None] | None = None,
    checkpoint: Store | None = None,
) -> FitResult:
    r"""Learns the parameters of a model by minimising its energy, and infers the posterior.

    Learning starts from the parameters that the model has. It moves positive parameters on the
    logarithmic scale, each by a factor of at most 6e7.

    With `method=cavity.MCMC()` it is `cavity.sample`: parameters are drawn instead;
    of the options below `priors`, `bijections`, `callback` and `checkpoint` apply, and
    `max_iterations=0`, which keeps the parameters.

    Args:
        model: the model.
        X: inputs, (N, D); or batches of rows, for tables larger than memory: see `Batches`. With
            Gaussian noise an evaluation makes two passes over them; other likelihoods need
            `method=cavity.TiedPowerEP(batch=...)`, which draws its minibatches from them.
        y: outputs, (N,) or (N, P); left out where X is batches.
        power: as in `infer`.
        method: as in `infer`.
        jitter: as in `infer`.
        blocks: as in `infer`.
        rows: as in `infer`.
        missing: as in `infer`.
        bijections: an edited `cavity.parameters.bijections(model)`: `FIXED` entries are not
            learned, bounded ones stay within their bounds. A Gaussian likelihood's variance is
            FIXED anyway where the rows' own is known, because it has no effect then.
        priors: an edited `cavity.priors.flat(model)`, for maximum a posteriori learning.
        schedule: trees of bijections, each learned in turn before `bijections`: freeze
            parameters in an early one to release them later.
        n_restarts: further runs from perturbed starts; the best run is kept.
        max_iterations: iterations of one run at the most.
        tolerance: a run ends when the objective falls by less than this many nats per iteration;
            beyond 500 outputs in proportion to them, as what matters is the gain per row.
        seed: of the perturbed starts.
        callback: called with a `Progress` after every iteration.
        checkpoint: a `cavity.Checkpoint`, where the fit keeps what it has done and goes on from
            what it did before, to end exactly as one that was never stopped.

    Returns:
        The fitted model, its posterior and evidence. Interrupting from the keyboard returns the
        best found so far.

    Raises:
        ValueError: for unusable data, a model that does not suit them, and parameters that
            start outside their domains; a `StorageError` for a checkpoint that cannot be used, or
            is that of another fit.
        TypeError: for data that are not numbers, or float64 data in 32-bit mode.
        NumericalError: if the objective is undefined where learning starts.

    References:
        Bui (2017), S23, S69; van der Wilk (2018), items 5 and 47.
    """
    if isinstance(method, MCMC):
        if schedule:
            raise ValueError("MCMC() draws all parameters at once: leave schedule=()")
        check_model(model, blocks, method)
        shared: Any = {"bijections": bijections, "priors": priors, "callback": callback}
        shared |= {"jitter": jitter, "rows": rows, "missing": missing, "checkpoint": checkpoint}
        return sample(model, X, y, method, learn=max_iterations > 0, **shared)
    given: Any = {"power": power, "blocks": blocks, "rows": rows, "missing": missing}
    data = as_training_data(model, X, y, method=method, **given)
    model = as_dtype(model, data.head)
    check_shapes(model, data.head)
    last = default_bijections(model) if bijections is None else bijections
    stages = tuple(without_effect(model, maps, data.head) for maps in (*schedule, last))
    for maps, verb in zip(stages, verbs(len(stages)), strict=True):
        check_domains(model, maps, verb)
    densities = flat(model) if priors is None else priors
    level = first_jitter(model, jitter)
    if checkpoint is not None:
        limits = {"n_restarts": n_restarts, "max_iterations": max_iterations, "seed": seed}
        limits |= {"jitter": jitter, "tolerance": tolerance}
        settings = {"bijections or schedule": stages, "priors": densities, **limits}
        claim(checkpoint, model, data, method, settings)
    searches = Searches(checkpoint)
    run = Run(data, method, densities, max_iterations, tolerance, callback, searches)
    with one_blas_thread():
        learned, minimum, level = run.all(model, stages, level, n_restarts, seed)
        last = (learned, data, method, level, run.found)
        result = completing(lambda: infer_from(*last, learned=True))
    return _result(result, learned, minimum, stages[-1], densities)


def _result(
    inference: Inference, model: AbstractModel, minimum: Minimum, maps: Any, densities: Any
) -> FitResult:
    shared = {f.name: getattr(inference, f.name) for f in dataclasses.fields(inference)}
    message = minimum.message if inference.converged else inference.message
    shared |= {"converged": inference.converged and minimum.converged, "message": message}
    return FitResult(
        **shared,
        model=model,
        objective=-inference.log_evidence - float(log_prior(model, densities)),
        history=minimum.history,
        n_iterations=minimum.iterations,
        n_evaluations=minimum.evaluations,
        interrupted=minimum.interrupted,
        bijections=maps,
        priors=densities,
    )
