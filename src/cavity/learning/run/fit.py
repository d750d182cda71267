"""Learning parameters: maximum evidence, or maximum a posteriori."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import ArrayLike

from cavity.inference.energy import Sites
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.given import (
    Layout,
    TrainingRows,
    as_training_data,
    in_memory,
    refuse_engine,
)
from cavity.learning.data.validation import all_fixed, check_model, inputs_first
from cavity.learning.diagnostics.undetermined import SAID, undetermined
from cavity.learning.dispatch import dispatch
from cavity.learning.engines.base import AbstractEngine
from cavity.learning.infer import KnownSites, checked_start, infer_from
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.mcmc import MCMC
from cavity.learning.methods.methods import PowerEP
from cavity.learning.optimisers.lbfgs import Progress, completing
from cavity.learning.progress.checkpoint import Searches, Store, open_for
from cavity.learning.results.result import FitResult, Inference, fields_as, starts_apart
from cavity.learning.results.unseen_periods import unseen_periods
from cavity.learning.run.integrated import (
    LEARNED,
    Release,
    check_schedule,
    release_of,
    released_plan,
)
from cavity.learning.run.sample import sample
from cavity.learning.run.stages import Run
from cavity.learning.search.restarts import Restarts
from cavity.models.base import AbstractModel
from cavity.parameters.constraints import asked_constraints
from cavity.parameters.priors import flat, learned_with


@with_one_blas_thread
def fit(
    model: AbstractModel,
    X: TrainingRows | None,
    y: ArrayLike | None = None,
    *,
    power: ArrayLike = 0.5,
    method: AbstractMethod | MCMC = PowerEP(),
    jitter: float = 1e-8,
    blocks: ArrayLike | None = None,
    rows: Mapping[str, ArrayLike] | None = None,
    missing: str = "error",
    fixed: Mapping[str, ArrayLike | None] | None = None,
    bounds: Mapping[str, object] | None = None,
    bijections: AbstractModel | None = None,
    priors: AbstractModel | Mapping[str, object] | None = None,
    schedule: Sequence[AbstractModel] = (),
    sites: Sites | None = None,
    n_restarts: int = 0,
    max_iterations: int = 1000,
    tolerance: float = 1e-3,
    seed: int = 0,
    callback: Callable[[Progress], None] | None = None,
    checkpoint: Store | None = None,
    engine: AbstractEngine | None = None,
) -> FitResult:
    r"""Learns the parameters of a model by minimising its energy, and infers the posterior.

    Learning starts from the parameters that the model has; where inputs are latent, these are
    found first. It moves positive parameters on the
    logarithmic scale, each by a factor of at most 6e7.

    With `method=cavity.MCMC()` it is `cavity.sample`: parameters are drawn instead;
    of the options below `priors`, `bijections`, `callback` and `checkpoint` apply, and
    `max_iterations=0`, which keeps the parameters.

    Args:
        model: the model.
        X: inputs, (N, D); None for models without, such as `GPLVM`; or batches of rows, for
            tables larger than memory: see `Batches` and `Parts`. With Gaussian noise an
            evaluation makes two passes over them, with other likelihoods some ten more for their
            sites; `method=cavity.TiedPowerEP(batch=...)` draws minibatches from them.
        y: outputs, (N,) or (N, P); left out where X is batches.
        power: as in `infer`.
        method: as in `infer`.
        jitter: as in `infer`.
        blocks: as in `infer`.
        rows: as in `infer`.
        missing: as in `infer`.
        fixed: parameters that are not learned, by dotted name as `print(model)` has it, with
            the value that each keeps: `{"likelihood.variance": 0.1}`; None for that of the model.
        bounds: a lower and an upper bound, of which one may be None, by dotted name:
            `{"kernel.lengthscale": (0.1, 10.0)}`. Parameters start within their bounds.
        bijections: an edited `cavity.parameters.bijections(model)`: `FIXED` entries are not
            learned, bounded ones stay within their bounds, and `INTEGRATED` ones are integrated
            out when all else was learned. A Gaussian likelihood's variance is
            FIXED anyway where the rows' own is known, because it has no effect then.
        priors: priors by dotted name, `{"kernel.lengthscale": priors.LogNormal(1.0, 0.5)}`, or an
            edited `cavity.parameters.priors.flat(model)`, for maximum a posteriori learning.
        schedule: trees of bijections, each learned in turn before `bijections`: freeze
            parameters in an early one to release them later.
        sites: tied sites to start from, such as `found` of an earlier result for the same model;
            None starts from the prior, and deep models near their mean functions.
        n_restarts: further runs from perturbed starts; the best run is kept, and `message` says
            where they ended more than 5 nats apart.
        max_iterations: iterations of one run at the most.
        tolerance: a run ends when the objective falls by less than this many nats per iteration;
            with more than 500 outputs the number grows in proportion to them, as what matters is
            the gain per row, and is eight times that where, with more than 500 outputs, inducing
            inputs are learned and sites are not tied: there the default is 1.6e-5 nats per output
            and iteration.
        seed: of the perturbed starts.
        callback: called with a `Progress` after every iteration.
        checkpoint: a `cavity.fitting.Checkpoint`, where the fit keeps what it has done and goes on
            from what it did before, to end exactly as one that was never stopped.
        engine: what works on the parts of `cavity.Parts`; None for this process. The result has
            the same bits on every engine.

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
    by_name, tree = (priors, None) if isinstance(priors, Mapping) else (None, priors)
    said = asked_constraints(fixed, bounds, by_name)
    start = said.model(model) if said else model
    given = said.densities(start, tree, bijections)
    moves, before = said.stages(start, bijections, schedule)

    def sampled(sampler: MCMC) -> FitResult:
        refuse_engine(engine)
        if schedule:
            raise ValueError("MCMC() draws all parameters at once: leave schedule=()")
        check_model(start, blocks, sampler)
        how: dict[str, Any] = {"jitter": jitter, "rows": rows, "missing": missing}
        how |= {"bijections": moves, "priors": given, "callback": callback}
        known = (*in_memory(X, y), sampler)
        return sample(start, *known, learn=max_iterations > 0, checkpoint=checkpoint, **how)

    def approximated(method: AbstractMethod) -> FitResult:
        layout = Layout(power, blocks, rows, missing, engine)
        data = as_training_data(start, X, y, method, layout)
        check_schedule(start, before)
        release = release_of(start, data, method, moves, given)
        last = moves if release is None else release.maps
        maps = (*_first_stage(start, method, sites, before), *before, last)
        checked, stages, first = checked_start(start, data.exemplar, jitter, maps)
        densities = flat(checked) if given is None else given
        if checkpoint is not None:
            search = (n_restarts, max_iterations, seed, jitter, tolerance)
            settings = _remembered(stages, densities, release, sites, *search)
            open_for(checkpoint, checked, data, method, settings)
        own = (data, method, densities, max_iterations, tolerance, callback)
        run = Restarts(*own, Searches(checkpoint), sites, n_restarts=n_restarts, seed=seed)
        searches = (run, checked, stages, first)
        return _determined(*searches) if release is None else _released(*searches, release)

    return dispatch(method, approximated, sampled)


def _determined(
    run: Restarts, start: AbstractModel, stages: tuple[AbstractModel, ...], jitter: float
) -> FitResult:
    """The fit; parameters stay where the data determine none of them."""
    maps = stages[-1]
    names = undetermined(start, run.data, maps)
    if not names:
        return learned_from(run, start, stages, jitter)
    run = dataclasses.replace(run, n_restarts=0)
    result = learned_from(run, start, (all_fixed(maps),), jitter)
    message = SAID if result.converged else f"{SAID}; {result.message}"
    return dataclasses.replace(result, bijections=maps, undetermined=names, message=message)


def _first_stage(
    model: AbstractModel,
    method: AbstractMethod,
    sites: Sites | None,
    schedule: Sequence[AbstractModel],
) -> tuple[AbstractModel, ...]:
    """A stage in which latent inputs alone move, where they are to be found from afar."""
    afar = model.latent_rows and not model.ordered and sites is None and not schedule
    afar = afar and method.training.steps is None and not method.solver.rowwise
    return inputs_first(model) if afar else ()


def _remembered(
    stages: tuple[AbstractModel, ...],
    densities: AbstractModel,
    release: Release | None,
    sites: Sites | None,
    *search: float,
) -> dict[str, object]:
    """Settings that identify a fit in a checkpoint; without those that most fits do not have."""
    found = {"bijections or schedule": stages, "priors": densities}
    found |= {} if sites is None else {"sites": sites}
    names = ("n_restarts", "max_iterations", "seed", "jitter", "tolerance")
    found |= dict(zip(names, search, strict=True))
    return found if release is None else found | release.settings


def _released(
    restarts: Restarts,
    start: AbstractModel,
    stages: tuple[AbstractModel, ...],
    jitter: float,
    release: Release,
) -> FitResult:
    """The result with parameters integrated out, after one in which they are learned."""

    def searched(
        path: tuple[str, ...], model: AbstractModel, *table: Any, sites: Sites | None, **how: Any
    ) -> FitResult:
        if path == (LEARNED,):
            return learned_from(restarts, model, stages, jitter)
        first, each = how["jitter"], (how["maps"],)
        model, maps, _ = checked_start(model, restarts.data.exemplar, first, each)
        known: dict[str, Any] = {
            "densities": how["densities"],
            "first_sites": None,
            "settled": sites,
        }
        again = dataclasses.replace(restarts, n_restarts=0, **known)
        return learned_from(again, model, maps, first)

    run = Run(searched, None, None)
    return run.carry_out(
        lambda run: released_plan(run, start, release, restarts.data, restarts.method)
    )


def learned_from(
    run: Restarts, start: AbstractModel, stages: tuple[AbstractModel, ...], jitter: float
) -> FitResult:
    """The result of runs of the optimiser from the parameters of `start`."""
    model, minimum, jitter = run.all(start, stages, jitter)
    known = KnownSites(run.sites, minimum if run.max_iterations else None, run.energy)
    inference = completing(lambda: infer_from(model, run.data, run.method, jitter, known))
    shared = fields_as(inference, Inference)
    message = minimum.message if inference.converged else inference.message
    apart = starts_apart(minimum.ends)
    unseen = unseen_periods(model, run.data)
    said = [message, *filter(None, [apart]), *map(str, unseen), *map(str, run.at_bounds)]
    message = "; ".join(said)
    shared |= {"converged": inference.converged and minimum.converged, "message": message}
    shared |= {"tallies": run.data.tallies(model.likelihood)}
    return FitResult(
        **shared,
        model=model,
        objective=-inference.log_evidence - float(learned_with(model, run.densities)),
        history=minimum.history,
        n_iterations=minimum.iterations,
        n_evaluations=minimum.evaluations,
        interrupted=minimum.interrupted,
        bijections=stages[-1],
        priors=run.densities,
        ends=minimum.ends,
        unseen_periods=unseen,
        at_bounds=run.at_bounds,
    )
