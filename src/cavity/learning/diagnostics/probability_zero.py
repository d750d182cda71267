"""The probability that all coefficients of a set of columns are zero."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from cavity.inference.weights.blocks import units_of
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.infer import infer_from
from cavity.learning.methods.methods import PowerEP
from cavity.learning.results.result import Inference
from cavity.likelihoods.capabilities import capability
from cavity.models.linear.linear_model import LinearModel
from cavity.numerics.callers import warn_caller
from cavity.weights.mixtures import HasPointSpike


@with_one_blas_thread
def probability_zero(result: Inference, columns: Sequence[int] | np.ndarray) -> float:
    r"""The posterior probability that the coefficients of some columns are all zero.

    It is the evidence of the model in which they are, times the prior probability of that, over
    the evidence, so that inference is done once more, without the columns. Coefficients of alike
    columns are not independent: one of them may matter where each alone may well be zero.

    Args:
        result: of `infer` or `fit`, for a `LinearModel` with a spike at zero, in memory.
        columns: numbers of columns, counted from 0; of a block all or none.

    Returns:
        A probability; above one only as far as the approximation is wrong, and cut there.

    Raises:
        TypeError: for the result of another model.
        ValueError: for a prior without a spike at zero, several latent functions, columns that
            there are not, and some columns of a block.
    """
    left_out = result.left_out
    build: Any = None if left_out is None else left_out.problem.build
    model = None if build is None else build.model
    if left_out is None or not isinstance(model, LinearModel):
        raise TypeError(
            "probability_zero is for the result of a LinearModel by PowerEP, not MCMC: give what "
            "cavity.infer or cavity.fit gave for one"
        )
    prior = capability(model.prior, HasPointSpike)
    if prior is None or not np.all(prior.point_spikes):
        raise ValueError(
            "only a prior with a spike at zero says that coefficients are zero: give the model "
            "cavity.weights.SpikeSlab(share, slab)"
        )
    if len(model.priors) > 1:
        raise ValueError(
            "probability_zero is for one latent function: the coefficients of classes are apart"
        )
    if model.integrated is not None:
        raise ValueError(
            "probability_zero is for a prior whose share of the slab is held: infer again with a "
            "model that has it"
        )
    count = left_out.data.rows.x.shape[1]
    chosen = _numbers(columns)
    if len(chosen) and not 0 <= chosen[0] <= chosen[-1] < count:
        raise ValueError(f"columns must be numbers from 0 to {count - 1}, given {columns!r}")
    if len(chosen) == count:
        raise ValueError("without all columns no model is left: leave one of them out")
    kept = np.setdiff1d(np.arange(count), chosen)
    for block in model.blocks or ():
        if 0 < len(np.intersect1d(block, chosen)) < len(block):
            raise ValueError(
                f"columns {', '.join(map(str, block))} are a block, which is zero as a whole: "
                "give all of them, or none"
            )
    rows = dataclasses.replace(left_out.data.rows, x=left_out.data.rows.x[:, kept])
    data = dataclasses.replace(left_out.data, rows=rows)
    without = infer_from(_with_columns(model, kept, count), data, PowerEP(), 0.0)
    # a block is zero once
    _, first = np.unique(units_of(model.blocks or (), count)[chosen], return_index=True)
    each: Any = prior.for_weights(model.units(count), count)
    if not (without.converged and result.converged):
        warn_caller(
            "sites did not converge, so that the probability is not to be trusted",
            RuntimeWarning,
        )
    outputs = left_out.data.rows.y.shape[1]
    log_prior = outputs * float(np.sum(np.log1p(-np.asarray(each.share)[chosen[first]])))
    difference = log_prior + float(without.log_evidence) - float(result.log_evidence)
    return float(np.exp(min(difference, 0.0)))


def _numbers(columns: Any) -> np.ndarray:
    """Column numbers, from numbers or from a truth value for each column."""
    given = np.asarray(columns)
    if given.dtype == bool:
        return np.flatnonzero(given)
    if given.size and given.dtype.kind not in "iu":
        raise ValueError(f"columns must be numbers of columns, given values of type {given.dtype}")
    return np.unique(given.astype(int))


def _with_columns(model: LinearModel, kept: np.ndarray, count: int) -> LinearModel:
    """The model of some of the columns, of each block all or none."""
    prior: Any = model.prior
    groups, centre, scale = (
        None if x is None else x[kept] for x in (model.groups, model.centre, model.scale)
    )
    if groups is None:
        units = units_of(model.blocks or (), count)
        prior = _sliced(prior, np.unique(units[kept]), int(np.max(units)) + 1)
    place = np.cumsum(np.isin(np.arange(count), kept)) - 1
    left = [place[list(block)] for block in model.blocks or () if block[0] in kept]
    return LinearModel(
        prior,
        model.likelihood,
        False if model.intercept is None else float(model.intercept),
        groups,
        model.prior_power,
        centre,
        scale,
        blocks=[block.tolist() for block in left],
    )


def _sliced(prior: Any, kept: np.ndarray, count: int) -> Any:
    """The prior with the parameters of some columns or blocks, where there is one for each."""

    def of(x: Any) -> Any:
        return x[kept] if np.shape(x) == (count,) else x

    return jax.tree.map(of, prior)
