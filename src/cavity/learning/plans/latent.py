"""Learning latent-variable models: from principal components, the best of a few short runs."""

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import Sites
from cavity.inference.propagation import Moments
from cavity.inference.variables.inputs import InputMoments
from cavity.learning.initialisation.deep import tied_site
from cavity.learning.initialisation.latent import (
    LatentStart,
    latent_starts,
    with_row_sites,
    with_sites,
)
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.methods import PowerEP, TiedPowerEP
from cavity.learning.plans.trials import best_of
from cavity.learning.progress.checkpoint import Store
from cavity.learning.results.result import FitResult
from cavity.learning.run.fits import fits
from cavity.learning.run.stages import Run
from cavity.models.base import AbstractModel
from cavity.models.latent.posterior import LatentPosterior
from cavity.models.process import TakesGaussianInputs
from cavity.numerics.chunking import padded_size

# Rows at the most from which learning by minibatches starts.
ROWS = 2000
# Deviations of latent means below which points are alike.
ALIKE = 0.01


def fit_latent(
    asked: LatentStart,
    Y: np.ndarray,
    *,
    method: AbstractMethod | None = None,
    max_iterations: int = 1000,
    checkpoint: Store | None = None,
    **options: Any,
) -> FitResult:
    """Learns a Gaussian process latent-variable model of standardised outputs.

    Latent inputs start as principal components, each of unit variance. Runs of a few iterations
    from several lengthscales and noise variances are compared, and the best goes on. Learning by
    minibatches starts from what some of the rows give with all of them in every evaluation. Where
    latent inputs are to have sites, their variational posteriors are learned first, and the sites
    start from these: from afar, sweeps do not find them.

    Args:
        asked: the model; an encoder is learned with it, by minibatches where the method has them.
        Y: outputs, (N, P), NaN where missing.
        method: how the model is learned; None for `PowerEP()` with Gaussian noise and
            `TiedPowerEP(propagation=Moments())` otherwise.
        max_iterations: iterations at the most.
        checkpoint: as in `fit`.
        **options: of `fit`; the power is 0 and missing outputs are skipped where none say
            otherwise.

    Raises:
        ValueError: as `fit`.
        NumericalError: as `fit`.
    """
    exact, seed = asked.likelihood.gaussian_noise is not None, asked.seed
    if method is None:
        method = PowerEP() if exact else TiedPowerEP(propagation=Moments())
    rows_sites = not method.approximation.tied and not method.approximation.closed_form
    if asked.encoder and (rows_sites or method.solver.rowwise):
        raise ValueError(
            "an encoder takes the place of sites on latent inputs: give encoder=False or a method "
            "without them (input_sites=False, exact=True)"
        )
    first, some = method, Y
    if method.training.steps is not None:
        first = _full_data_method(method, exact=exact)
        some = _some_rows(Y, seed)
    elif method.solver.rowwise:
        first = dataclasses.replace(method, input_sites=False)
    elif rows_sites:
        first = PowerEP() if exact else TiedPowerEP(propagation=Moments())
    starts = latent_starts(asked, some)
    run = fits(None, Y, {"power": 0.0, "missing": "skip"} | options, checkpoint)
    how: dict[str, Any] = {"first": first, "some": some, "budget": max_iterations}
    return _told(run.carry_out(lambda run: latent_plan(run, starts, method=method, **how)))


def latent_plan(
    run: Run,
    starts: Sequence[AbstractModel],
    *,
    method: AbstractMethod,
    first: AbstractMethod,
    some: np.ndarray,
    budget: int,
) -> FitResult:
    """The plan of `fit_latent`: the best start, and what goes on from it by the method itself.

    Args:
        run: on all rows.
        starts: models with different starting values.
        method: how the model is learned.
        first: how it is learned from the starts.
        some: the rows that these are learned from.
        budget: iterations at the most.
    """
    alone, whole = first is method, len(some) == len(run.y)

    def ended(result: FitResult) -> FitResult:
        if alone or whole:
            return result
        sites = _next_sites(result, run.y, method)  # all rows have their place all the same
        how: dict[str, Any] = {"sites": sites, "method": method, "budget": 0}
        return run.unrecorded().stage("last", result.model, **how).stopped()

    result = run.with_table(None, some, method=first).follow(
        "", lambda part: best_of(part, starts, budget=budget), ended=ended
    )
    if alone or (whole and budget == 0):
        return result
    sites = _next_sites(result, run.y, method)
    return run.stage("last", result.model, sites=sites, method=method, budget=budget)


def _told(result: FitResult) -> FitResult:
    """The result of a fit, which says where all latent points are alike."""
    spread = np.std(np.asarray(result.posterior.latent.mean), axis=0)
    alike = "all latent points are alike, so that the model calls everything noise"
    return result if np.max(spread) > ALIKE else result.saying(alike)


def _full_data_method(method: AbstractMethod, *, exact: bool) -> AbstractMethod:
    """The method by which a start is learned from some rows, all of them in every evaluation."""
    if exact:
        return PowerEP()
    return dataclasses.replace(method, batch=None, natural=None)


def _some_rows(Y: np.ndarray, seed: int) -> np.ndarray:
    """Rows from which a start is learned, in the order of the table."""
    order = np.random.default_rng(seed).permutation(len(Y))
    return Y[np.sort(order[:ROWS])]


def _next_sites(result: FitResult, Y: np.ndarray, method: AbstractMethod) -> Sites:
    """The sites that learning by another method goes on from."""
    posterior: LatentPosterior = result.posterior
    process = cast(TakesGaussianInputs, posterior.functions.layers[0].process)
    belief, count = process.sparse_functions()[0][1], int(posterior.count)
    if method.training.steps is None:
        assert result.found is not None
        if method.approximation.tied:
            return with_sites(result.found, count)
        return with_row_sites(belief, result.found[0][-1], count)
    tied = tied_site(belief)
    if posterior.encoder is not None:
        return ((tied, None),)
    mean, var = posterior.transform(Y)
    more = ((0, padded_size(len(Y)) - len(Y)), (0, 0))
    log_deviation = 0.5 * np.log(np.asarray(var))
    moments = (jnp.asarray(np.pad(a, more)) for a in (np.asarray(mean), log_deviation))
    return ((tied, InputMoments(*moments)),)
