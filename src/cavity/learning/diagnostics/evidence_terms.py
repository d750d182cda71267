r"""The terms of the evidence, and what one more inducing point would change of them.

With $\mathbf G = \boldsymbol\Lambda + a \operatorname{diag}(\mathbf d)$ at power a,

$$\log Z = -\tfrac N2 \log 2\pi - \tfrac12 \log|\mathbf Q + \mathbf G| - \tfrac12 \mathbf y^\top
(\mathbf Q + \mathbf G)^{-1} \mathbf y - \tfrac{1 - a}{2a} \sum_n \log(1 + a d_n / \lambda_n),$$

the last term being the trace $\tfrac12 \sum d_n / \lambda_n$ at power 0, and nothing at power 1.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from cavity.learning.diagnostics.examined import Examined
from cavity.learning.diagnostics.row_covariance import (
    Observations,
    low_rank,
    residuals,
    unobserved,
)
from cavity.models.gp import GP
from cavity.models.process import FullProcess
from cavity.numerics.chunking import cached_size, sum_over_rows
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import Power
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Scalar

# Conditional variances of a candidate below this many rounding units of its variance are rounding.
ROUNDING = 1e3


@dataclasses.dataclass(frozen=True)
class EvidenceTerms:
    r"""The terms of the log evidence, in nats; their sum is the log evidence.

    Attributes:
        constant: $-\tfrac N2 \log 2\pi$.
        complexity: $-\tfrac12 \log|\mathbf Q + \mathbf G|$: what a model pays for what it could
            have explained; a narrow one gains here.
        data_fit: $-\tfrac12 \mathbf y^\top (\mathbf Q + \mathbf G)^{-1} \mathbf y$, never
            positive.
        residual: minus what is charged for the variance that inducing variables leave
            unexplained: the trace at power 0, nothing at power 1 and in a full GP.
        beyond: what the evidence has beyond that of the sites as observations; 0 with Gaussian
            noise.
    """

    constant: float
    complexity: float
    data_fit: float
    residual: float
    beyond: float

    @property
    def log_evidence(self) -> float:
        """Their sum."""
        return self.constant + self.complexity + self.data_fit + self.residual + self.beyond


def evidence_terms(case: Examined) -> EvidenceTerms | None:
    """The terms of a result's evidence; None for a full GP without Gaussian noise.

    Args:
        case: the result and its rows.
    """
    constant = -0.5 * case.data.n_observed * float(LOG_2PI)
    if case.observed is None:
        if case.noise is None:
            return None
        data_fit = -0.5 * _quadratic_of_full(case)
        complexity = case.log_evidence - constant - data_fit
        return EvidenceTerms(constant, complexity, data_fit, 0.0, 0.0)
    assert case.result.left_out is not None
    power = case.result.left_out.problem.row_power
    volume, quadratic = map(float, _with_residual(case.gp, case.observed, case.jitter, power))
    # missing sites are no observations
    constant = -0.5 * float(LOG_2PI) * float(case.observed.summed(jnp.ones(())))
    data_fit = -0.5 * quadratic
    residual = case.log_evidence - case.beyond - volume - data_fit
    return EvidenceTerms(constant, volume - constant, data_fit, residual, case.beyond)


def _quadratic_of_full(case: Examined) -> float:
    """yᵀA⁻¹y of a full GP with Gaussian noise, from the weights of its posterior."""
    rows = case.data.rows
    process: FullProcess = case.result.posterior.process
    mean = case.gp.latents[0].output_mean(rows.y.shape[-1])(rows.x)
    weights = np.asarray(process.weights)
    centred = np.asarray((rows.y - mean) * rows.observed)[: len(weights)]
    return float(np.sum(centred * weights))


@compiled
def _with_residual(
    gp: GP, observed: Observations, jitter: Scalar, power: Power
) -> tuple[Scalar, Scalar]:
    variable, view = gp.latents[0].sparse_layout(observed.y.shape[-1], jitter)
    d = residuals(view, observed.x)[:, None]
    found = low_rank(variable, view, observed.widened(power * d))
    return found.volume, found.quadratic


class PointGains(NamedTuple):
    r"""Changes of the bound of power 0 with one more inducing point, nothing else moved.

    The entries of candidate c are changes of the terms of `EvidenceTerms`, in nats.

    Attributes:
        places: the candidates, (C, D).
        rows: the numbers of the rows that they are, from 0, (C,); None for places of one's own.
        complexity: never positive, (C,).
        data_fit: never negative, (C,).
        residual: never negative, (C,).
    """

    places: np.ndarray
    rows: np.ndarray | None
    complexity: np.ndarray
    data_fit: np.ndarray
    residual: np.ndarray

    @property
    def gain(self) -> np.ndarray:
        """Increase of the bound, never negative, (C,)."""
        return self.complexity + self.data_fit + self.residual

    @property
    def best(self) -> int:
        """The candidate of the largest gain."""
        return int(np.argmax(self.gain))


def point_gains(case: Examined, places: np.ndarray, rows: np.ndarray | None) -> PointGains:
    """The gains of single points, in closed form, at the cost N M of each.

    Args:
        case: a result with inducing variables, and its rows.
        places: candidates, (C, D).
        rows: the numbers of the rows that they are.

    References:
        van der Wilk (2018), items 38 and 39 (appendix B with erratum X-5).
    """
    assert case.observed is not None
    Z = jnp.asarray(places, case.data.rows.x.dtype)
    terms = _gains(case.gp, case.observed, case.jitter, Z)
    return PointGains(np.asarray(places, float), rows, *(np.asarray(t, float) for t in terms))


@compiled
def _gains(
    gp: GP, observed: Observations, jitter: Scalar, Z: Float[Array, "C D"]
) -> tuple[Array, Array, Array]:
    variable, view = gp.latents[0].sparse_layout(observed.y.shape[-1], jitter)
    belief = low_rank(variable, view, observed).belief
    candidates = view.project(unobserved(Z))
    seen = candidates.loadings
    assert seen is not None
    # of u at the candidate given the others, with jitter as all have it
    prior = view.kernel.diag(Z)
    own = candidates.residual + jitter * jnp.mean(jnp.sum(view.factor**2, axis=1))
    usable = own > ROUNDING * jnp.finfo(prior.dtype).eps * prior
    scale = jnp.where(usable, 1.0 / jnp.where(usable, own, 1.0), 0.0)
    flat_mean = belief.mean.reshape(-1, belief.mean.shape[-1])

    def of_chunk(data: Observations) -> tuple[Array, Array, Array]:
        loadings = view.project(unobserved(data.x)).loadings
        assert loadings is not None
        left = view.kernel.cross(data.x, Z) - loadings.T @ seen
        # B⁻¹y = Λ⁻¹(y - E[f | y]), of observed outputs
        solved = data.weight * (data.y - loadings.T @ flat_mean.T)
        messages = jnp.einsum("mn,ng,nc->gmc", loadings, data.weight, left)
        return data.weight.T @ left**2, messages, solved.T @ left

    square, messages, along = sum_over_rows(of_chunk, observed, cached_size(len(observed.x)))
    # bᵀΛ⁻¹b and bᵀB⁻¹b, of each group of outputs
    residual = square * scale
    explained = residual - jnp.sum((belief.root @ messages) ** 2, axis=1) * scale
    explained = jnp.maximum(explained, 0.0)
    outputs = observed.y.shape[-1]
    replicas = outputs // explained.shape[0]
    residual, explained = (jnp.repeat(part, replicas, axis=0) for part in (residual, explained))
    data_fit = along**2 * scale / (1.0 + explained)
    complexity = -jnp.log1p(explained)
    terms = 0.5 * jnp.sum(jnp.stack([complexity, data_fit, residual]), axis=1)
    return terms[0], terms[1], terms[2]
