"""Summary statistics of the layers of a deep model."""

from typing import NamedTuple, cast

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.variables.inducing import InducingBelief
from cavity.models.deep.layer import CONSTANT
from cavity.models.deep.posterior import DeepPosterior, mixed, outputs_of
from cavity.models.process import TakesGaussianInputs
from cavity.numerics.jit import compiled
from cavity.numerics.text import aligned
from cavity.numerics.types import Array, Scalar


class LayerSummary(NamedTuple):
    """Summary statistics of one layer, at some rows.

    Shares are means over its functions; those that are constant over the rows do not count.

    Attributes:
        width: the number of functions.
        points: the number of inducing variables that are stored, those of a kernel that functions
            share once.
        divergence: of their posteriors from the prior, in nats.
        departure: share of the variance of an output between rows that its prior mean function
            does not give.
        linear: share of that variance which a linear function of the layer's inputs gives.
        uncertainty: mean variance of an output, as a share of its variance between rows.
    """

    width: int
    points: int
    divergence: float
    departure: float
    linear: float
    uncertainty: float


def summarise(posterior: DeepPosterior, X: ArrayLike) -> list[LayerSummary]:
    """Summarise every layer at the rows of X, (n, D) with at least two different rows.

    Inputs of a layer are the mean outputs of the one below; latent inputs are zero, their mean.
    """
    X = jnp.asarray(X)
    inputs, summaries = X, []
    if posterior.latent_inputs:
        inputs = jnp.zeros((len(X), posterior.latent_inputs), inputs.dtype)
    for i, layer in enumerate(posterior.layers):
        seen = layer.with_inputs(inputs, X)
        mean, var, prior = map(np.asarray, _outputs(posterior, X, i, seen))
        total, varies = mean.var(axis=0), _varies(mean)
        with_one = np.column_stack([np.asarray(seen), np.ones(len(seen))])
        fitted = with_one @ np.linalg.lstsq(with_one, mean, rcond=None)[0]
        beliefs = [b for _, b in cast(TakesGaussianInputs, layer.process).sparse_functions()]
        summaries.append(
            LayerSummary(
                width=layer.width,
                points=sum(belief.root.shape[-1] for belief in beliefs),
                divergence=sum(float(_divergence(belief)) for belief in beliefs),
                departure=_share((mean - prior).var(axis=0), total, varies),
                linear=1.0 - _share((mean - fitted).var(axis=0), total, varies),
                uncertainty=_share(var.mean(axis=0), total, varies),
            )
        )
        inputs = jnp.asarray(mean)
    return summaries


def summary_table(summaries: list[LayerSummary]) -> str:
    """The summaries as text, one line per layer."""
    head = ("layer", "width", "points", "divergence", "departure", "linear", "uncertainty")
    lines = []
    for i, s in enumerate(summaries, 1):
        shares = [f"{100.0 * share:.0f} %" for share in (s.departure, s.linear, s.uncertainty)]
        lines.append([str(i), str(s.width), str(s.points), f"{s.divergence:.1f} nats", *shares])
    return aligned([head, *lines])


def _varies(mean: np.ndarray) -> np.ndarray:
    """True where a column varies beyond rounding."""
    return mean.std(axis=0) > CONSTANT * np.abs(mean).max(axis=0)


def _share(part: np.ndarray, total: np.ndarray, varies: np.ndarray) -> float:
    """The mean of parts of totals over the columns that vary; zero where none does."""
    return float(np.mean(part[varies] / total[varies])) if np.any(varies) else 0.0


@compiled
def _outputs(
    posterior: DeepPosterior, X: Array, last: int, inputs: Array
) -> tuple[Array, Array, Array]:
    """Means and variances of a layer's outputs, and its prior means at given inputs."""
    above = len(posterior.layers) - last - 1
    layers = posterior.all_layers[: len(posterior.all_layers) - above]
    mean, var = mixed(outputs_of(posterior.propagation, layers, X))
    return mean, var, posterior.layers[last].mean(inputs)


def _divergence(belief: InducingBelief) -> Scalar:
    """Divergence of the posterior of whitened inducing variables from their prior."""
    count = belief.mean.shape[0] * belief.mean.shape[1]
    cov = jnp.sum(belief.root**2, axis=(1, 2))
    log_det = 2.0 * jnp.linalg.slogdet(belief.root)[1]
    each = 0.5 * (cov - log_det - belief.root.shape[-1])
    shared = count // belief.root.shape[0]
    return shared * jnp.sum(each) + 0.5 * jnp.sum(belief.mean**2)
