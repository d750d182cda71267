"""Examination of a fit: inducing variables, noise, and whether more than noise was learned."""

import math
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.variables.inducing import InducingBelief
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.given import TrainingRows
from cavity.learning.diagnostics.bracket import bracket_of, check_settings
from cavity.learning.diagnostics.evidence_terms import PointGains, evidence_terms, point_gains
from cavity.learning.diagnostics.examination import Examination, InducingCount, Noise
from cavity.learning.diagnostics.examined import Examined, examined
from cavity.learning.diagnostics.function_parts import FunctionParts, function_parts
from cavity.learning.diagnostics.inducing_verdict import EQUAL, judge_inducing
from cavity.learning.diagnostics.noise_alone import noise_alone, varying
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.results.result import Inference
from cavity.models.base import AbstractModel
from cavity.models.gp import GP
from cavity.models.process import SparseProcess
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float, Scalar
from cavity.numerics.validation import check_columns, check_finite, float_array
from cavity.parameters import bijections, free_parts

# Covariances of candidates for one more point with the rows, and candidates at the least.
ENTRIES, FEWEST = 4_000_000, 200
# Inducing variables of a correlation beyond this count as one.
MERGED = 1.0 - 1e-4
# Learned parameters of a kernel that may gain a nat each from noise, at the most.
MOST_LEARNABLE = 30


@with_one_blas_thread
def examine(
    model: AbstractModel | Inference,
    X: TrainingRows | None = None,
    y: ArrayLike | None = None,
    *,
    power: ArrayLike | None = None,
    method: AbstractMethod | None = None,
    jitter: float | None = None,
    rows: Mapping[str, ArrayLike] | None = None,
    missing: str = "error",
    products: int = 10,
    level: str | None = None,
    candidates: ArrayLike | None = None,
) -> Examination:
    """Examines a model on data: inducing variables, noise, and what was learned.

    A bracket judges inference at given parameters and not the parameters, so the examination
    compares with the evidence of noise alone, too.

    Args:
        model: the model; or the result of `cavity.infer` or `cavity.fit`.
        X: inputs, (N, D); may be left out, with y, where a result still has its rows.
        y: outputs, (N,) or (N, P).
        power: of the approximation, None for 0.5. A result has its own, so this, `method` and
            `jitter` are for models.
        method: how its sites are found, None for `PowerEP()`.
        jitter: as in `infer`, None for 1e-8.
        rows: side data of the rows, as in `infer`.
        missing: "error", or "skip" to leave out outputs that are NaN.
        products: products with the covariance of the rows for the bracket at the most.
        level: of the bracket, see `cavity.diagnostics.bracket`; without products beyond 20,000
            rows.
        candidates: places at which one more inducing point is tried, (C, D); None for the rows,
            or for as many of them, evenly spread, as make four million covariances.

    Returns:
        The examination. Without Gaussian noise everything but the evidence of noise alone takes
        sites for observations and is an estimate.

    Raises:
        ValueError: for models of other kinds or of several latent functions, for draws, batches
            and blocks, for rows that are not those of the result, and for a power, method or
            jitter beside a result.
        NumericalError: where the bounds of the evidence are not finite.

    References:
        van der Wilk (2018), items 27, 33, 34, 37 to 39, 41 and 42.
    """
    check_settings(products, level)
    options = {"power": power, "method": method, "jitter": jitter, "rows": rows}
    case = examined(model, X, y, missing=missing, **options)
    if case.result.left_out is None:
        raise ValueError(
            "an examination needs a site for every row, and the rows of a block share one: "
            "examine the model without blocks, as in cavity.examine(result.model, X, y)"
        )
    places = None
    if candidates is not None:
        places = float_array("candidates", candidates)
        check_columns("candidates", places, case.data.rows.x.shape[-1])
        check_finite("candidates", places)
        if not len(places):
            raise ValueError("candidates has no rows: give places, (C, D), or leave it out")
    found = bracket_of(case, products=products, level=level)
    alone = noise_alone(case.gp.likelihood, case.data)
    judged, beside = varying(case), (found, alone)
    if judged is not case:
        shown = bracket_of(judged, products=products, level=level)
        beside = (shown, noise_alone(case.gp.likelihood, judged.data))
    sparse = case.observed is not None
    parts = _parts(case) if sparse else None
    return Examination(
        bracket=found,
        noise_alone=alone,
        inducing=judge_inducing(*beside, least=max(EQUAL, _learnable(case.gp))),
        terms=evidence_terms(case),
        noise=_noise(case, parts if case.approximate else None),
        count=_count(case) if sparse else None,
        gains=_gains(case, places) if sparse and case.approximate else None,
        parts=parts,
        power=float(jnp.mean(case.result.left_out.problem.row_power)),
    )


def _learnable(gp: GP) -> int:
    """Learned parameters of the kernel, each of which may gain a nat from noise.

    Weights of hundreds of places do not gain as many, so that there is a limit.
    """
    kernel = gp.kernels[0]
    free = free_parts(kernel, bijections(kernel))
    return min(sum(np.size(value) for value, _ in free), MOST_LEARNABLE)


def _inputs(case: Examined) -> Float[Array, "N D"]:
    return case.data.rows.x[: int(case.data.length)]


def _parts(case: Examined) -> FunctionParts:
    return function_parts(case.result.posterior, np.asarray(_inputs(case)))


def _noise(case: Examined, parts: FunctionParts | None) -> Noise | None:
    """The noise, with everything it may have been confused with."""
    if case.noise is None:
        return None
    rows, n = case.data.rows, int(case.data.length)
    y = np.asarray(rows.y, float)[:n]
    weights = np.broadcast_to(np.asarray(rows.presence), rows.y.shape)[:n]
    variance = np.asarray(case.noise.noise_variance(**rows.columns), float)
    variance = np.broadcast_to(variance, rows.y.shape)[:n]
    mean = np.asarray(case.result.posterior.marginals(np.asarray(_inputs(case))).mean)
    error = (y - mean.reshape(y.shape)) ** 2
    left = np.zeros(y.shape)
    if parts is not None:
        left = left + parts.unlearnable_var[:, None]
    each = (variance, left, left / variance, error)
    averages = (np.average(values, weights=weights) for values in each)
    assert case.result.left_out is not None
    charged = case.result.left_out.problem.approximation.volume != math.inf
    known = "noise_variance" in rows.side
    return Noise(*map(float, averages), known=known, charged=charged)


def _count(case: Examined) -> InducingCount:
    process: SparseProcess = case.result.posterior.process
    correlation, determined = _counted(case.gp, process.belief, case.jitter)
    near = np.abs(np.asarray(correlation)) > MERGED
    # the first of those that are as good as the same stands for them
    distinct = sum(not np.any(near[i, :i]) for i in range(len(near)))
    return InducingCount(len(near), distinct, float(determined), weights=not case.approximate)


@compiled
def _counted(gp: GP, belief: InducingBelief, jitter: Scalar) -> tuple[Float[Array, "M M"], Scalar]:
    _, view = gp.latents[0].sparse_layout(1, jitter)
    cov = view.factor @ view.factor.T
    scale = jnp.sqrt(jnp.diagonal(cov))
    root = belief.root
    determined = root.shape[-1] - jnp.mean(jnp.sum(root**2, axis=(1, 2)))
    return cov / scale[:, None] / scale[None, :], determined


def _gains(case: Examined, places: np.ndarray | None) -> PointGains:
    if places is not None:
        return point_gains(case, places, None)
    assert case.observed is not None
    seen = np.flatnonzero(np.any(np.asarray(case.observed.presence) > 0.0, axis=1))
    most = min(len(seen), max(ENTRIES // max(len(seen), 1), FEWEST))
    chosen = seen[np.linspace(0, len(seen) - 1, most).astype(int)]
    return point_gains(case, np.asarray(case.observed.x)[chosen], chosen)
