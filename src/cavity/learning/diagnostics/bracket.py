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

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.given import TrainingRows
from cavity.learning.diagnostics.examined import Examined, examined
from cavity.learning.diagnostics.row_covariance import Observations, low_rank, row_covariance
from cavity.learning.infer import NumericalError
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.results.result import Inference
from cavity.models.base import AbstractModel
from cavity.models.gp import GP
from cavity.numerics.conjugate_gradients import bound_quadratic
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Scalar
from cavity.numerics.validation import check_whole

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

    def shifted(self, by: float) -> "Bracket":
        """The bracket of outputs in other units, nats added to all evidences."""
        moved = (self.lower + by, self.upper + by, self.per_row, self.log_evidence + by)
        return Bracket(*moved, self.overestimate, self.proved, self.level, self.products)

    def __str__(self) -> str:
        kind = "" if self.proved else " (an estimate: the noise is not Gaussian)"
        text = (
            f"exact log evidence between {self.lower:.4f} and {self.upper:.4f} nats{kind}, "
            f"{self.per_row:.2g} per output"
        )
        if self.overestimate > 0.0:
            text += f"; the approximation is {self.overestimate:.4g} nats too high"
        return text


@with_one_blas_thread
def bracket(
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
        power: of the approximation that is compared, None for 0.5. A result has its own, so
            this, `method` and `jitter` are for models.
        method: how its sites are found, None for `PowerEP()`.
        jitter: as in `infer`, None for 1e-8; it can only widen the bracket.
        rows: side data of the rows, as in `infer`.
        missing: "error", or "skip" to leave out outputs that are NaN.
        products: products with the N x N covariance of the rows at the most.
        level: "products"; or without them from the trace of K - Q, "trace", at the cost of
            inference; or from its largest absolute row sum, "row sums", at the cost N² M. None
            for products up to 20,000 rows, and the trace beyond.

    Raises:
        ValueError: for models of other kinds or of several latent functions, for draws and
            batches, for non-Gaussian rows that share a site, for rows that are not those of
            the result, and for a power, method or jitter beside a result.
        NumericalError: where bounds are not finite.

    References:
        Titsias (2009, 2014); van der Wilk (2018), items 33 and 34, of which "trace" and "row sums"
        are the upper bounds.
    """
    check_settings(products, level)
    case = examined(
        model, X, y, power=power, method=method, jitter=jitter, rows=rows, missing=missing
    )
    return bracket_of(case, products=products, level=level)


def check_settings(products: object, level: object) -> None:
    """Raises ValueError for a number of products or a level that there is not."""
    if level not in (None, *LEVELS):
        raise ValueError(f"level must be None or one of {', '.join(LEVELS)}, given {level!r}")
    check_whole("products", products, 1)


def bracket_of(case: Examined, *, products: int = 10, level: str | None = None) -> Bracket:
    """The bracket of a result whose rows are there as observations.

    Args:
        case: the result and its rows.
        products: products with the covariance of the rows at the most.
        level: as of `bracket`.

    Raises:
        NumericalError: where bounds are not finite.
    """
    value, proved = case.log_evidence, case.noise is not None
    if case.observed is None or not case.approximate:
        return Bracket(value, value, 0.0, value, 0.0, proved, "exact", 0)
    if level is None:
        level = "products" if int(case.data.length) <= MOST_ROWS else "trace"
    bounds = _bounds(case.gp, case.observed, case.jitter, level, jnp.asarray(products))
    lower, upper = float(bounds.lower) + case.beyond, float(bounds.upper) + case.beyond
    if not np.isfinite(upper - lower):
        raise NumericalError(
            "the bounds are not finite: the noise is too small beside the kernel's variance, or "
            "the inducing variables nearly repeat each other; give more jitter"
        )
    return Bracket(
        lower,
        upper,
        max(upper - lower, 0.0) / case.data.n_observed,
        value,
        max(value - upper, 0.0),
        proved,
        level,
        int(bounds.products),
    )


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
