"""Inference at fixed parameters."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.energy import Sites, beliefs, energy
from cavity.inference.problem import Problem, has_sites
from cavity.inference.solvers.convergence import EXACT, ConvergenceReport
from cavity.inference.solvers.fixed_point import find_fixed_point
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.data.given import (
    Layout,
    TrainingRows,
    as_training_data,
    in_memory,
    refuse_engine,
)
from cavity.learning.data.training_data import AbstractTrainingData, Data
from cavity.learning.data.validation import (
    all_fixed,
    check_domains,
    check_model,
    check_shapes,
    fix_unused_noise,
    verbs,
)
from cavity.learning.dispatch import dispatch
from cavity.learning.engines.base import AbstractEngine
from cavity.learning.failures import NumericalError, diagnose_failure
from cavity.learning.infer_parts import infer_by_passes
from cavity.learning.mcmc.checks import check_draws
from cavity.learning.mcmc.problem import Moving
from cavity.learning.mcmc.run import Drawn, draw
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.mcmc import MCMC
from cavity.learning.methods.methods import PowerEP
from cavity.learning.objectives.evidence import Objective
from cavity.learning.objectives.learning_energy import split_optimised
from cavity.learning.objectives.settling import check_passes
from cavity.learning.optimisers.lbfgs import Minimum, StartFailed
from cavity.learning.results.result import Inference, Posterior
from cavity.learning.results.row_diagnostics import RowDiagnostics
from cavity.learning.results.sites_said import said_of
from cavity.learning.search.tied import minimise_over_tied_sites
from cavity.models.base import AbstractModel
from cavity.numerics.jit import compiled
from cavity.numerics.linalg import MOST_JITTER, with_escalating_jitter
from cavity.numerics.types import Scalar
from cavity.parameters import bijections
from cavity.parameters.priors import flat

M = TypeVar("M", bound=AbstractModel)

# What is said of sites where there are none.
BY_DRAWS = ConvergenceReport(0, 0.0, 0, "mcmc")


@with_one_blas_thread
def infer(
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
    engine: AbstractEngine | None = None,
) -> Inference:
    r"""Posterior and evidence of a model at its present parameters.

    With Gaussian noise the result is in closed form. At power 0 it is the variational bound
    (VFE), at 1 FITC (with `blocks`, PITC), in between Power EP; without inducing variables every
    power gives the exact GP.

    Args:
        model: the model; its parameters are used as they are.
        X: inputs, (N, D); None for models without, such as `GPLVM`; or batches of rows, see
            `Batches` and `Parts`, which are read without keeping them.
        y: outputs, (N,) or (N, P); left out where X is batches.
        power: a number in [0, 1], or one per row.
        method: how sites are found.
        jitter: share of the mean prior variance added to the diagonal of the covariance of
            the inducing variables; raised ten-fold at a time where a factorisation fails. A full
            GP starts without any.
        blocks: one integer label per row: rows of a block share a site (PITC at power 1).
        rows: side data per row, `{"noise_variance": (N,)}`: noise variances that are known and
            take the place of the likelihood's.
        missing: "error", or "skip" to leave out outputs that are NaN.
        engine: what works on the parts of `cavity.Parts`; None for this process.

    Returns:
        The posterior process, the log evidence in nats, and how they came about.

    Raises:
        ValueError: for unusable data, a model that does not suit them, and parameters outside
            their domains.
        TypeError: for data that are not numbers, or float64 data in 32-bit mode.
        NumericalError: where no jitter up to 1e-3 makes the covariance positive definite.

    References:
        Bui (2017), S21 to S27; Turner's slides, S7 and S10.
    """

    def approximated(method: AbstractMethod) -> Inference:
        data = as_training_data(model, X, y, method, Layout(power, blocks, rows, missing, engine))
        start, _, first = checked_start(model, data.exemplar, jitter)
        return infer_from(start, data, method, first)

    def sampled(sampler: MCMC) -> Inference:
        refuse_engine(engine)
        check_model(model, blocks, sampler)
        data = prepare(*in_memory(X, y), rows=rows, missing=missing)
        start, _, first = checked_start(model, data, jitter)
        return _infer_by_draws(start, data, sampler, first)

    return dispatch(method, approximated, sampled)


def _infer_by_draws(model: AbstractModel, data: Data, sampler: MCMC, jitter: float) -> Inference:
    """Draws at fixed parameters; of a GP in closed form where noise is Gaussian."""
    check_draws(model, data, sampler, learning=False)
    has_weights = model.drawn_weights is not None
    if model.likelihood.gaussian_noise is not None and not has_weights:
        return infer_from(model, data, PowerEP(), jitter)
    held = Moving(all_fixed(bijections(model)), flat(model), jitter)
    drawn = draw(model, data, sampler, held)
    if drawn is None:
        raise NumericalError(diagnose_failure(model, data))
    return from_draws(drawn)


def from_draws(drawn: Drawn) -> Inference:
    """The result of inference by draws."""
    chains = drawn.chains
    return Inference(
        posterior=drawn.posterior,
        log_evidence=drawn.log_evidence,
        converged=chains.converged and not drawn.interrupted,
        message=chains.message,
        jitter=drawn.jitter,
        sites=BY_DRAWS,
        found=None,
        left_out=None,
        chains=chains,
    )


def checked_start(
    model: M, data: Data, jitter: float, schedule: Sequence[M | None] = ()
) -> tuple[M, tuple[M, ...], float]:
    """A model in the precision of the data, checked against them.

    Args:
        model: the model.
        data: the data, or their first block.
        jitter: the jitter that was asked for.
        schedule: bijections of the stages in which the model is to be learned, if it is; None for
            the default ones.

    Returns:
        The model, the bijections of the stages, and the jitter to begin with.

    Raises:
        ValueError: for a model that does not suit the data, parameters outside their domains, and
            a jitter outside [0, 1e-3].
    """
    model = as_dtype(model, data)
    check_shapes(model, data)
    default = bijections(model)
    stages = tuple(
        fix_unused_noise(model, default if maps is None else maps, data) for maps in schedule
    )
    if stages:
        for maps, verb in zip(stages, verbs(len(stages)), strict=True):
            check_domains(model, maps, verb)
    else:
        check_domains(model)
    return model, stages, first_jitter(model, jitter)


def first_jitter(model: AbstractModel, jitter: float) -> float:
    """The jitter to begin with: none for a full GP.

    Raises:
        ValueError: for a jitter outside [0, 1e-3].
    """
    if not 0.0 <= jitter <= MOST_JITTER:
        raise ValueError(f"jitter must lie in [0, {MOST_JITTER:g}], given {jitter}")
    return jitter if model.sparse else 0.0


def as_dtype(model: M, data: Data) -> M:
    """The model with its parameters as JAX arrays of the data's precision."""
    dtype = data.rows.x.dtype

    def is_float(leaf: object) -> bool:
        return eqx.is_inexact_array(leaf) or isinstance(leaf, float | np.floating)

    return jax.tree.map(lambda x: jnp.asarray(x, dtype) if is_float(x) else x, model)


class KnownSites(NamedTuple):
    """Sites that inference starts from.

    Attributes:
        sites: the sites; None for sites of precision zero.
        learned: the search by which the tied ones among them were learned with the model; None
            where they were not.
        energy_at: the energy of the model at private sites and a jitter, where there is a program
            for it.
    """

    sites: Sites | None = None
    learned: Minimum | None = None
    energy_at: Callable[[Sites, float], float] | None = None


def infer_from(
    model: AbstractModel,
    data: AbstractTrainingData,
    method: AbstractMethod,
    jitter: float,
    known: KnownSites = KnownSites(),
) -> Inference:
    """`infer` on prepared data.

    Args:
        model: the model.
        data: prepared data.
        method: the inference method.
        jitter: the jitter to begin with.
        known: sites to start from.
    """
    block, whole = data.exemplar, data.in_memory
    problem = block.problem(model, method.approximation, jitter)
    empty = problem.empty_sites()
    tied = has_sites(split_optimised(empty)[0])
    start = None if known.sites is None else problem.adopted(known.sites)
    known = known._replace(sites=start)
    if tied:
        result = _infer_by_search(model, data, method, jitter, known)
    elif whole is None:
        names = type(method).__name__, type(model.likelihood).__name__
        check_passes(problem, *names)
        result = infer_by_passes(model, data, method, jitter, sited=has_sites(empty))
    else:
        result = _infer_by_sweeps(model, whole, method, jitter, known, empty)
    if result is None:
        raise NumericalError(diagnose_failure(model, data))
    return dataclasses.replace(result, streamed=whole is None, n_rows=int(data.length))


def _infer_by_sweeps(
    model: AbstractModel,
    data: Data,
    method: AbstractMethod,
    jitter: float,
    known: KnownSites,
    zero: Sites,
) -> Inference | None:
    """The posterior at the fixed point of the sites, or in closed form where there are none."""

    def at(jitter: float) -> tuple[tuple[Inference, Sites], bool]:
        problem = data.problem(model, method.approximation, jitter)
        fixed_point, report = zero, EXACT
        if has_sites(zero):
            fixed_point, report = find_fixed_point(problem, method.solver, known.sites, zero=zero)
        if known.energy_at is None:
            posterior, value = posterior_at(model, data, problem, fixed_point)
        else:
            posterior = _posterior(model, data, problem, fixed_point)
            value = known.energy_at(fixed_point, jitter)
        stored = fixed_point if has_sites(zero) else None
        result = Inference(
            posterior,
            -float(value),
            report.converged,
            said_of(report),
            jitter,
            report,
            stored,
            None,
        )
        return (result, fixed_point), bool(np.isfinite(value))

    (result, fixed_point), used = with_escalating_jitter(at, jitter)
    if used is None:
        return None
    if data.rows.blocked:
        return dataclasses.replace(result, blocked=data)
    diagnostics = _diagnostics(model, data, method, used, fixed_point)
    return dataclasses.replace(result, left_out=diagnostics)


def _infer_by_search(
    model: AbstractModel,
    data: AbstractTrainingData,
    method: AbstractMethod,
    jitter: float,
    known: KnownSites,
) -> Inference | None:
    """The posterior at the minimum of the energy over tied sites."""
    if known.learned is not None and known.sites is not None:
        sites, minimum = known.sites, known.learned
        report = ConvergenceReport(0, 0.0, 0, "learning", minimum.converged)
    else:
        try:
            objective, minimum = minimise_over_tied_sites(model, data, method, jitter, known.sites)
        except StartFailed:
            return None
        sites, jitter = objective.sites_at(minimum.x), objective.jitter
        optimiser = "L-BFGS-B" if method.training.steps is None else objective.moved_by
        report = ConvergenceReport(minimum.iterations, 0.0, 0, optimiser, minimum.converged)
    block = data.exemplar
    posterior, value = posterior_at(
        model, block, block.problem(model, method.approximation, jitter), sites
    )
    diagnostics = None
    if data.in_memory is None:
        maps = all_fixed(bijections(model))
        objective = Objective(model, data, maps=maps, method=method, jitter=jitter, sites=sites)
        value = objective(objective.first)[0]
    else:
        diagnostics = _diagnostics(model, block, method, jitter, sites)
    if not np.isfinite(value):
        return None
    result = posterior, -float(value), minimum.converged, minimum.message, jitter
    return Inference(*result, report, sites, diagnostics)


def _diagnostics(
    model: AbstractModel, data: Data, method: AbstractMethod, jitter: float, sites: Sites
) -> RowDiagnostics:
    return RowDiagnostics(data, data.problem(model, method.approximation, jitter), sites)


@compiled
def posterior_at(
    model: AbstractModel, data: Data, problem: Problem, sites: Sites
) -> tuple[Posterior, Scalar]:
    """The posterior and the energy at some sites."""
    graph = problem.graph()
    q = beliefs(graph, sites)
    posterior = model.posterior(graph, q, data.rows, single=data.single)
    return posterior, energy(graph, sites, q=q)


@compiled
def _posterior(model: AbstractModel, data: Data, problem: Problem, sites: Sites) -> Posterior:
    """The posterior at some sites."""
    graph = problem.graph()
    return model.posterior(graph, beliefs(graph, sites), data.rows, single=data.single)
