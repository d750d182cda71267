"""A result beside its rows: the Gaussian observations that diagnoses of its evidence compare."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.graph.rows import SLOPES
from cavity.inference.graph.sites import ScalarSites
from cavity.learning.data.arrays import prepare
from cavity.learning.data.given import TrainingRows, in_memory
from cavity.learning.data.training_data import Data
from cavity.learning.diagnostics.row_covariance import Observations, evidence_of_sites, residuals
from cavity.learning.infer import as_dtype, infer
from cavity.learning.results.result import Inference, check_whole
from cavity.likelihoods.capabilities import GaussianInLatent
from cavity.models.base import AbstractModel
from cavity.models.gp import GP
from cavity.models.latent_gp import shared_parameters
from cavity.models.process import AbstractProcess
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import Power
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float, Scalar


@dataclasses.dataclass(frozen=True, eq=False)
class Examined:
    """A result with one latent function, and its rows as Gaussian observations.

    Attributes:
        result: inference.
        data: its rows.
        gp: its model, in the precision of the data.
        observed: the rows as Gaussian observations: themselves, or their sites as if they were.
            None for a full GP, whose evidence needs no comparison.
        beyond: what the log evidence has beyond that of the observations, nats; 0 where they are
            the rows themselves.
        noise: the likelihood where its noise is Gaussian, None elsewhere.
    """

    result: Inference
    data: Data
    gp: GP
    observed: Observations | None
    beyond: float
    noise: GaussianInLatent | None

    @property
    def approximate(self) -> bool:
        """True if inducing variables approximate the function, as weights of features do not."""
        inducing = self.gp.latents[0].inducing
        return inducing is not None and not inducing.orthonormal

    @property
    def jitter(self) -> Scalar:
        """The jitter of the result."""
        return jnp.asarray(self.result.jitter, self.data.rows.y.dtype)

    @property
    def process(self) -> AbstractProcess:
        """The posterior process of the function."""
        return self.result.posterior.process

    @property
    def log_evidence(self) -> float:
        """The log evidence of the result."""
        return float(self.result.log_evidence)


def examined(
    model: AbstractModel | Inference,
    X: TrainingRows | None,
    y: ArrayLike | None,
    *,
    rows: Mapping[str, ArrayLike] | None,
    missing: str,
    **asked: Any,
) -> Examined:
    """Inference where a model is given, and rows as observations.

    Args:
        model: the model, or a result.
        X: inputs; None, with y, for the rows that a result holds on to.
        y: outputs.
        rows: side data of the rows.
        missing: "error", or "skip".
        **asked: power, method and jitter of the inference in a model, None for those of `infer`;
            not with a result, which has its own.

    Raises:
        ValueError: for models without a bracket, with the reason; see
            `cavity.diagnostics.bracket`.
    """
    layout = {"rows": rows, "missing": missing}
    asked = {name: value for name, value in asked.items() if value is not None}
    result, data = _result_and_data(model, X, y, asked, layout)
    if SLOPES in data.rows.side:
        raise ValueError("a bracket is for rows that observe values of the function, no slopes")
    gp = as_dtype(_checked(result._fitted), data)
    gaussian = gp.likelihood.gaussian_noise
    if not gp.sparse:
        return Examined(result, data, gp, None, 0.0, gaussian)
    if gaussian is not None:
        observed, beyond = _observations(gp, data, gaussian)
        return Examined(result, data, gp, observed, beyond, gaussian)
    jitter_used = jnp.asarray(result.jitter, data.rows.y.dtype)
    observed, beyond = _pseudo_data(gp, data, result, jitter_used)
    return Examined(result, data, gp, observed, beyond, None)


def _result_and_data(
    model: AbstractModel | Inference,
    X: TrainingRows | None,
    y: ArrayLike | None,
    asked: dict[str, Any],
    layout: dict[str, Any],
) -> tuple[Inference, Data]:
    """Inference in the model, where it is not a result already, and its rows."""
    if not isinstance(model, Inference):
        X, y = _given_rows(X, y)
        data = prepare(*in_memory(X, y), power=asked.get("power", 0.5), **layout)
        return infer(_checked(model), X, y, **asked, **layout), data
    if asked:
        raise ValueError(
            f"a result has its own {' and '.join(asked)}: leave out what it has, or give the "
            "model, as in cavity.diagnostics.bracket(result.posterior.model, X, y, power=0.0)"
        )
    _check_kind(model)
    check_whole(model, "its evidence")
    kept = model.data
    if X is None and y is None and kept is not None:
        return model, kept
    data = prepare(*in_memory(*_given_rows(X, y)), **layout)
    if kept is None:
        raise ValueError(
            "the rows of this result came in batches and are not kept, so that X and y cannot be "
            "compared with them: give the model and some rows, as in "
            "cavity.diagnostics.bracket(result.posterior.model, X, y)"
        )
    if not same_rows(kept, data):
        raise ValueError(
            "X and y, with side data and weights as rows, are not the rows of this result: leave "
            "all of them out, or give the model in place of the result"
        )
    return model, data


def _given_rows(X: TrainingRows | None, y: ArrayLike | None) -> tuple[TrainingRows, ArrayLike]:
    """The rows, where they are given."""
    if X is None or y is None:
        raise ValueError(
            "a bracket looks at all rows many times: give X and y, rows in memory; of a long "
            "table a few thousand of its rows will do, with "
            "cavity.diagnostics.bracket(model, X, y)"
        )
    return X, y


def same_rows(first: Data, second: Data) -> bool:
    """True if the observed rows are the same, in any order where they are those of blocks."""
    if not (first.rows.blocked or second.rows.blocked):
        return first.fingerprint() == second.fingerprint()
    if set(first.rows.side) != set(second.rows.side):
        return False
    a, b = _in_order(first), _in_order(second)
    return a.shape == b.shape and bool(np.all(a == b))


def _in_order(data: Data) -> np.ndarray:
    """Observed rows in lexical order, (N, D + 2P + S): inputs, outputs, presence, side data."""
    rows = data.rows
    presence = np.broadcast_to(np.asarray(rows.presence), rows.y.shape)
    seen = np.any(presence > 0.0, axis=-1)
    outputs = np.where(presence > 0.0, rows.y, 0.0)
    columns = [np.asarray(rows.x)[seen], outputs[seen], presence[seen]]
    columns += [np.asarray(rows.side[name])[seen][:, None] for name in sorted(rows.side)]
    table = np.concatenate(columns, axis=1)
    return table[np.lexsort(table.T)]


def _check_kind(result: Inference) -> None:
    """Raises ValueError where a result has no bracket, with the reason."""
    _checked(result._fitted)
    if result.chains is not None or result.log_evidence is None:
        raise ValueError("draws have no bracket of their evidence: give a model or use PowerEP()")


def _checked(model: AbstractModel) -> GP:
    """The model, after a check that a bracket of its evidence is defined.

    Raises:
        ValueError: where there is none, with the reason.
    """
    if not isinstance(model, GP):
        raise ValueError(
            f"a bracket compares with the full GP, which {type(model).__name__} does not have: "
            "the functions of its layers or states see uncertain inputs"
        )
    if shared_parameters(model.likelihood):
        raise ValueError(
            "a bracket is for parameters that are held, and this likelihood has some that are "
            "integrated out: fit without INTEGRATED"
        )
    if model.likelihood.latents > 1:
        raise ValueError(
            f"a bracket is for one latent function, {type(model.likelihood).__name__} has "
            f"{model.likelihood.latents}"
        )
    return model


def _observations(gp: GP, data: Data, likelihood: GaussianInLatent) -> tuple[Observations, float]:
    """The rows as observations with Gaussian noise, blocks taken apart.

    Returns:
        The observations, of which one with the w-th part of the noise stands for a row of weight
        w; and the log density of the rows less that of these, the same for any function.
    """
    rows = data.rows
    groups = max(rows.presence.shape[-1], _columns(likelihood, rows.columns))
    shape = (*rows.y.shape[:-1], groups)
    noise = jnp.broadcast_to(likelihood.noise_variance(**rows.columns), shape)
    weight = jnp.broadcast_to(rows.presence, shape)
    there = weight > 0.0
    presence, weight = there.astype(noise.dtype), jnp.where(there, weight, 1.0)
    # log N(y; f, s²)ʷ - log N(y; f, s²/w)
    each = -0.5 * ((weight - 1.0) * jnp.log(2.0 * jnp.pi * noise) + jnp.log(weight))
    beyond = jnp.sum(jnp.broadcast_to(presence * each, rows.y.shape))
    flat = [a.reshape(-1, a.shape[-1]) for a in (rows.x, rows.y, presence, noise / weight)]
    return _centred(gp, *flat), float(beyond)


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
    """Sites as Gaussian observations, and the log evidence of the rows less that of these.

    At power a the variance of a site on the function that inducing variables explain is that of an
    observation plus a times the residual. The difference of the evidences is taken to be the same
    in the full GP.
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
    presence, there = data.rows.presence, data.rows.observed > 0.0
    precision, shift = sites.precision * there, sites.shift * there
    spare = 1.0 - graph_power * residual * precision
    usable = (precision > 0.0) & (spare > 0.0)
    bad = int(jnp.sum(there & ~usable & (precision != 0.0)))
    if bad:
        raise ValueError(
            f"{plural(bad, 'site')} cannot stand for a Gaussian observation: the precision is "
            "negative, or above what the residual allows; this posterior has no bracket"
        )
    weight: Any = presence * jnp.where(usable, precision / jnp.where(usable, spare, 1.0), 0.0)
    positive: Any = jnp.where(usable, weight, 1.0)
    noise: Any = jnp.where(usable, 1.0 / positive, 1.0)
    y: Any = jnp.where(usable, shift / jnp.where(usable, precision, 1.0), 0.0)
    index = jnp.arange(y.shape[0])
    observed = Observations(data.rows.x, y, usable.astype(y.dtype), noise, index)
    value = _evidence_of_sites(gp, observed, jitter, graph_power)
    return observed, float(result.log_evidence) - float(value)


@compiled
def _residual(gp: GP, data: Data, jitter: Scalar) -> Float[Array, " N"]:
    _, view = gp.latents[0].sparse_layout(data.rows.y.shape[-1], jitter)
    return residuals(view, data.rows.x)


@compiled
def _evidence_of_sites(gp: GP, observed: Observations, jitter: Scalar, power: Power) -> Scalar:
    variable, view = gp.latents[0].sparse_layout(observed.y.shape[-1], jitter)
    return evidence_of_sites(variable, view, observed, power)
