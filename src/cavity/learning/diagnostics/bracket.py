r"""A bracket of the exact evidence of a sparse Gaussian process: how good an approximation is.

With $\mathbf A = \mathbf K + \boldsymbol\Lambda$, $\mathbf B = \mathbf Q + \boldsymbol\Lambda$,
$\mathbf d = \operatorname{diag}(\mathbf K - \mathbf Q)$, any $\mathbf v$ and
$\mathbf r = \mathbf y - \mathbf A \mathbf v$,

$$\text{upper} = -\tfrac12 \log |2 \pi \mathbf B| - \tfrac12 (2 \mathbf y^\top \mathbf v -
\mathbf v^\top \mathbf A \mathbf v), \quad \text{lower} = \text{upper} - \tfrac12 \sum_n
\log(1 + d_n / \lambda_n) - \tfrac12 \mathbf r^\top \mathbf B^{-1} \mathbf r$$

bound $\log \mathcal N(\mathbf y; 0, \mathbf A)$; the proof is in `docs/theory/bracket.md`.
"""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.graph.rows import SLOPES
from cavity.inference.graph.sites import ScalarSites
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.data.batched import TrainingRows, in_memory
from cavity.learning.data.training_data import Data
from cavity.learning.diagnostics.row_covariance import (
    Observations,
    evidence_of_sites,
    low_rank,
    row_covariance,
)
from cavity.learning.infer import NumericalError, as_dtype, infer
from cavity.learning.method import AbstractMethod
from cavity.learning.methods import PowerEP
from cavity.learning.result import FitResult, Inference
from cavity.likelihoods.capabilities import GaussianInLatent, capability
from cavity.models.base import AbstractModel
from cavity.models.gp import GP
from cavity.numerics.conjugate_gradients import bound_quadratic
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import Power
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float, Scalar

LEVELS = ("products", "trace", "row sums")
# Rows up to which ten products with their covariance take a minute or so.
MOST_ROWS = 20_000
# The share of the width that may come from conjugate gradients that were stopped.
SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class Bracket:
    """Bounds of the exact log evidence of a Gaussian process at given parameters, in nats.

    It judges inference at these parameters, not the parameters: a model that takes everything
    for noise has a bracket of width zero.

    Attributes:
        lower: lower bound of the exact log evidence.
        upper: upper bound of it.
        per_row: upper minus lower, per observed output.
        log_evidence: of the approximation, at the power it was made with.
        overestimate: by how much that is above the upper bound at the least, 0 where it is not.
        proved: whether the bounds hold for certain, to rounding: with Gaussian noise. Otherwise
            rows enter with their sites as if those were Gaussian observations, and both numbers
            are estimates of what the full GP with these sites would give.
        level: how they were computed: "products", "trace" or "row sums"; "exact" for a full GP.
        products: products with the covariance of the rows that it took.
    """

    lower: float
    upper: float
    per_row: float
    log_evidence: float
    overestimate: float
    proved: bool
    level: str
    products: int

    @property
    def width(self) -> float:
        """Upper minus lower, nats."""
        return self.upper - self.lower

    def __str__(self) -> str:
        kind = "" if self.proved else " (an estimate: the noise is not Gaussian)"
        text = (
            f"exact log evidence between {self.lower:.4f} and {self.upper:.4f} nats{kind}, "
            f"{self.per_row:.2g} per output"
        )
        if self.overestimate > 0.0:
            text += f"; the approximation is {self.overestimate:.4g} nats too high"
        return text


def bracket(
    model: AbstractModel | Inference,
    X: TrainingRows | None = None,
    y: ArrayLike | None = None,
    *,
    power: ArrayLike = 0.5,
    method: AbstractMethod = PowerEP(),
    jitter: float = 1e-8,
    rows: Mapping[str, ArrayLike] | None = None,
    missing: str = "error",
    products: int = 10,
    level: str | None = None,
) -> Bracket:
    r"""Bounds of the exact log evidence of a sparse model, at its present parameters.

    The exact evidence is that of the full GP with the same kernel, mean and noise. Costs N M²,
    and N² for each product with the covariance of the rows, of which a chunk is held at a time;
    loadings take N M numbers.

    Args:
        model: the model; or the result of `cavity.infer` or `cavity.fit`, whose log evidence is
            then compared.
        X: inputs, (N, D); may be left out, with y, where a result still has its rows.
        y: outputs, (N,) or (N, P).
        power: of the approximation that is compared; a result has its own.
        method: how its sites are found; a result has its own.
        jitter: as in `infer`; it can only widen the bracket.
        rows: side data of the rows, as in `infer`.
        missing: "error", or "skip" to leave out outputs that are NaN.
        products: products with the N x N covariance of the rows at the most.
        level: "products"; or without them from the trace of K - Q, "trace", at the cost of
            inference; or from its largest absolute row sum, "row sums", at the cost N² M. None
            for products up to 20,000 rows, and the trace beyond.

    Raises:
        ValueError: for models of other kinds or of several latent functions, for draws and
            batches, for non-Gaussian rows that share a site, and for rows that are not those of
            the result.
        NumericalError: where bounds are not finite.

    References:
        Titsias (2009, 2014); van der Wilk (2018), items 33 and 34, of which "trace" and "row sums"
        are the upper bounds.
    """
    if level not in (None, *LEVELS):
        raise ValueError(f"level must be None or one of {', '.join(LEVELS)}, given {level!r}")
    if products < 1:
        raise ValueError(f"products must be 1 or more, given {products}")
    layout = {"rows": rows, "missing": missing}
    result, data = _result_and_data(model, X, y, power, method, jitter, layout)
    if SLOPES in data.rows.side:
        raise ValueError("a bracket is for rows that observe values of the function, no slopes")
    gp = result.model if isinstance(result, FitResult) else result.posterior.model
    gp = as_dtype(_checked(gp, result), data)
    gaussian = capability(gp.likelihood, GaussianInLatent)
    value = float(result.log_evidence)
    if not gp.sparse:
        return Bracket(value, value, 0.0, value, 0.0, gaussian is not None, "exact", 0)
    if level is None:
        level = "products" if int(data.length) <= MOST_ROWS else "trace"
    shift = 0.0
    used = jnp.asarray(result.jitter, data.rows.y.dtype)
    with one_blas_thread():
        if gaussian is None:
            observed, shift = _pseudo_data(gp, data, result, used)
        else:
            observed = _observations(gp, data, gaussian)
        bounds = _bounds(gp, observed, used, level, jnp.asarray(products))
    lower, upper = float(bounds.lower) + shift, float(bounds.upper) + shift
    if not np.isfinite(upper - lower):
        raise NumericalError(
            "the bounds are not finite: the noise is too small beside the kernel's variance, or "
            "the inducing variables nearly repeat each other; give more jitter"
        )
    return Bracket(
        lower,
        upper,
        max(upper - lower, 0.0) / data.n_observed,
        value,
        max(value - upper, 0.0),
        gaussian is not None,
        level,
        int(bounds.products),
    )


def _result_and_data(
    model: AbstractModel | Inference,
    X: TrainingRows | None,
    y: ArrayLike | None,
    power: ArrayLike,
    method: AbstractMethod,
    jitter: float,
    layout: dict,
) -> tuple[Inference, Data]:
    """Inference in the model, where it is not a result already, and its rows."""
    result = model if isinstance(model, Inference) else None
    diagnostics = None if result is None else result.left_out
    if X is None and y is None and result is not None and diagnostics is not None:
        return result, diagnostics.data
    if X is None or y is None:
        raise ValueError(
            "a bracket looks at all rows many times: give X and y, rows in memory; of a long "
            "table a few thousand of its rows will do, with cavity.bracket(model, X, y)"
        )
    data = prepare(*in_memory(X, y), power=power, **layout)
    if not isinstance(model, Inference):
        _checked(model, None)
        options = {"power": power, "method": method, "jitter": jitter}
        return infer(model, X, y, **options, **layout), data
    if diagnostics is not None and diagnostics.data.fingerprint() != data.fingerprint():
        raise ValueError(
            "X and y are not the rows of this result: leave both out, or give the model, as in "
            "cavity.bracket(result.posterior.model, X, y)"
        )
    return model, data


def _checked(model: AbstractModel, result: Inference | None) -> GP:
    """The model where there is a bracket of its evidence.

    Raises:
        ValueError: where there is none, with the reason.
    """
    if not isinstance(model, GP):
        raise ValueError(
            f"a bracket compares with the full GP, which {type(model).__name__} does not have: "
            "the functions of its layers or states see uncertain inputs"
        )
    if model.likelihood.latents > 1:
        raise ValueError(
            f"a bracket is for one latent function, {type(model.likelihood).__name__} has "
            f"{model.likelihood.latents}"
        )
    if result is not None and (result.chains is not None or result.log_evidence is None):
        raise ValueError("draws have no bracket of their evidence: give a model or use PowerEP()")
    return model


def _observations(gp: GP, data: Data, likelihood: GaussianInLatent) -> Observations:
    """The rows as observations with Gaussian noise, blocks taken apart."""
    rows = data.rows
    noise = jnp.broadcast_to(
        likelihood.noise_variance(**rows.columns),
        (*rows.y.shape[:-1], max(rows.presence.shape[-1], _columns(likelihood, rows.columns))),
    )
    flat = [a.reshape(-1, a.shape[-1]) for a in (rows.x, rows.y, rows.presence, noise)]
    return _centred(gp, *flat)


def _columns(likelihood: GaussianInLatent, columns: dict[str, Array]) -> int:
    shape = np.shape(likelihood.noise_variance(**columns))
    return shape[-1] if shape else 1


def _centred(gp: GP, x: Array, y: Array, presence: Array, noise: Array) -> Observations:
    mean = gp.latents[0].output_mean(y.shape[-1])(x)
    centred = jnp.where(jnp.broadcast_to(presence, y.shape) > 0.0, y - mean, 0.0)
    return Observations(x, centred, presence, noise, jnp.arange(x.shape[0]))


def _pseudo_data(
    gp: GP, data: Data, result: Inference, jitter: Scalar
) -> tuple[Observations, float]:
    """Sites as Gaussian observations, and what their evidence lacks of that of the rows.

    A site of power a on what inducing variables explain has the variance of an observation and
    a shares of the residual. What is left of the evidence is taken to be the same in the full GP.
    """
    leaves = jax.tree.leaves(result.found, is_leaf=lambda x: isinstance(x, ScalarSites))
    if len(leaves) != 1 or result.left_out is None:
        raise ValueError(
            "without Gaussian noise a bracket needs a site for every row: use PowerEP(), "
            "Laplace() or LocalBound()"
        )
    (sites,) = leaves
    graph_power = result.left_out.problem.row_power
    residual = _residual(gp, data, jitter)[:, None]
    presence = jnp.broadcast_to(data.rows.presence, data.rows.y.shape)
    precision, shift = sites.precision * presence, sites.shift * presence
    spare = 1.0 - graph_power * residual * precision
    usable = (precision > 0.0) & (spare > 0.0)
    bad = int(jnp.sum((presence > 0.0) & ~usable & (precision != 0.0)))
    if bad:
        raise ValueError(
            f"{plural(bad, 'site')} cannot stand for a Gaussian observation: the precision is "
            "negative, or above what the residual allows; this posterior has no bracket"
        )
    weight = jnp.where(usable, precision / jnp.where(usable, spare, 1.0), 0.0)
    noise = jnp.where(usable, 1.0 / jnp.where(usable, weight, 1.0), 1.0)
    y = jnp.where(usable, shift / jnp.where(usable, precision, 1.0), 0.0)
    index = jnp.arange(y.shape[0])
    observed = Observations(data.rows.x, y, usable.astype(y.dtype), noise, index)
    value = _evidence_of_sites(gp, observed, jitter, graph_power)
    return observed, float(result.log_evidence) - float(value)


@compiled
def _residual(gp: GP, data: Data, jitter: Scalar) -> Float[Array, " N"]:
    _, view = gp.latents[0].sparse_layout(data.rows.y.shape[-1], jitter)
    return view.project(data.rows).residual


@compiled
def _evidence_of_sites(gp: GP, observed: Observations, jitter: Scalar, power: Power) -> Scalar:
    variable, view = gp.latents[0].sparse_layout(observed.y.shape[-1], jitter)
    return evidence_of_sites(variable, view, observed, power)


class Bounds(NamedTuple):
    """Bounds of the log evidence of observations, and the products with K that they took."""

    lower: Scalar
    upper: Scalar
    products: Array | int


@compiled
def _bounds(gp: GP, observed: Observations, jitter: Scalar, level: str, products: Array) -> Bounds:
    variable, view = gp.latents[0].sparse_layout(observed.y.shape[-1], jitter)
    bare = low_rank(variable, view, observed)
    # the bound of Titsias (2009) with log(1 + d/λ) in the place of d/λ
    tight = bare.volume - 0.5 * (bare.quadratic + bare.log_share)
    if level == "trace":
        wide = low_rank(variable, view, observed.widened(bare.trace))
        return Bounds(tight, bare.volume - 0.5 * wide.quadratic, 0)
    system = row_covariance(view, observed, bare.belief)
    if level == "row sums":
        wide = low_rank(variable, view, observed.widened(system.largest_row_sum()))
        return Bounds(tight, bare.volume - 0.5 * wide.quadratic, 1)
    enough = SHARE * bare.log_share + jnp.finfo(observed.y.dtype).eps * bare.quadratic
    quadratic = bound_quadratic(
        system.multiply, system.solve, observed.y, enough=enough, products=products
    )
    lower = bare.volume - 0.5 * (quadratic.upper + bare.log_share)
    upper = bare.volume - 0.5 * quadratic.lower
    return Bounds(jnp.maximum(lower, tight), upper, quadratic.products)
