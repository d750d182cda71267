"""Starting values of deep models: a sparse GP as last layer, inner layers near their means."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import Points
from cavity.inference.energy import Sites
from cavity.inference.factors.tied import TiedSite
from cavity.inference.graph.views import InducingView
from cavity.inference.variables.inducing import InducingBelief
from cavity.kernels.stationary import RBF
from cavity.learning.data.scales import tally
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.means import AbstractMean, Columns, Identity, Linear
from cavity.models.deep.deep_gp import INNER_DEVIATION, DeepGP
from cavity.models.deep.layer import Layer
from cavity.models.gp import GP
from cavity.models.process import AbstractProcess, TakesGaussianInputs

# The prior variance of inner functions about their means, as a share of that of the means.
INNER_VARIANCE = 0.1


class HiddenStart(NamedTuple):
    """Mean functions of hidden layers, and the inputs of every layer where outputs are means.

    Attributes:
        maps: one mean function per hidden layer.
        inputs: inputs of every layer, the last one included, (N, width) each.
    """

    maps: tuple[AbstractMean, ...]
    inputs: tuple[np.ndarray, ...]


def hidden_start(X: np.ndarray, widths: Sequence[int], seed: int = 0) -> HiddenStart:
    """Mean functions that keep what the inputs say.

    A layer as wide as its inputs passes them on. A narrower one passes on their leading principal
    components, in units of their deviations; a wider one has random directions beside them.

    Args:
        X: inputs, (N, D).
        widths: of the hidden layers.
        seed: of random directions.

    References:
        Salimbeni and Deisenroth (2017), section 3.1.
    """
    maps: list[AbstractMean] = []
    inputs = [np.asarray(X, np.float64)]
    random = np.random.default_rng(seed)
    for width in widths:
        H = inputs[-1]
        columns = H.shape[1]
        if width == columns:
            maps.append(Identity())
        else:
            centre = H.mean(axis=0)
            weights = _directions(H, centre, width, random)
            maps.append(Linear(weights, np.zeros(width), centre))
        inputs.append(np.asarray(maps[-1](jnp.asarray(H)), np.float64))
    return HiddenStart(tuple(maps), tuple(inputs))


def _directions(
    H: np.ndarray, centre: np.ndarray, width: int, random: np.random.Generator
) -> np.ndarray:
    """Weights (D, width) of principal components, and of random directions beyond them."""
    columns = tally(H)
    spread = columns.spread
    standard = np.where(columns.varies, H - centre, 0.0) / spread
    _, values, vectors = np.linalg.svd(standard, full_matrices=False)
    least = 1e-6 * float(values[0]) if values[0] > 0.0 else 1.0
    deviations = np.maximum(values / np.sqrt(len(H)), least)
    weights = (vectors / deviations[:, None])[:width].T / spread[:, None]
    missing = width - weights.shape[1]
    if missing > 0:
        turns = random.standard_normal((weights.shape[1], missing))
        turns /= np.linalg.norm(turns, axis=0)
        weights = np.concatenate([weights, weights @ turns], axis=1)
    return weights


def deepen(
    single: GP, process: AbstractProcess, start: HiddenStart, points: int, seed: int = 0
) -> tuple[DeepGP, Sites]:
    """A deep GP that begins as a sparse GP on the start of its hidden values.

    Args:
        single: the sparse GP, a model of `start.inputs[-1]`.
        process: its posterior process, whose functions are independent.
        start: of the hidden layers.
        points: inducing points of every hidden layer.
        seed: of the clusters that place them.

    Returns:
        The model, and its tied sites to start from.
    """
    layers, sites = [], []
    for mean, inputs, outputs in zip(start.maps, start.inputs, start.inputs[1:], strict=False):
        Z = select_inducing(RBF(), inputs, points, choice="kmeans", seed=seed)
        variance = INNER_VARIANCE * float(np.mean(tally(outputs).spread ** 2))
        kernel = RBF(variance, tally(inputs).spread * np.sqrt(inputs.shape[1]))
        width = outputs.shape[1]
        layers.append(Layer(kernel, Points(Z), width, mean))
        raw = np.broadcast_to(np.log(INNER_DEVIATION) * np.eye(len(Z)), (width, len(Z), len(Z)))
        sites.append(TiedSite(jnp.zeros((width, len(Z))), jnp.asarray(raw)))
    parts = cast(TakesGaussianInputs, process).sparse_functions()
    sites += [_tied(belief) for _, belief in parts]
    layers.append(_last(single, [view for view, _ in parts]))
    return DeepGP(layers, single.likelihood), (tuple(sites),)


def _last(single: GP, views: list[InducingView]) -> Layer:
    """The functions of a sparse GP as a layer."""
    if len(views) == 1:
        view = views[0]
        return Layer(view.kernel, view.inducing, view.mean.outputs, single.means[0])
    means = single.means if len(single.means) > 1 else single.means * len(views)
    kernels, inducing = tuple(v.kernel for v in views), tuple(v.inducing for v in views)
    return Layer(kernels, inducing, len(views), Columns(means))


def _tied(belief: InducingBelief) -> TiedSite:
    """The tied site that makes a belief of the prior."""
    size = belief.root.shape[-1]
    mean = np.asarray(belief.mean).reshape(-1, size)
    root: Any = np.asarray(belief.root)
    # RᵀR = SSᵀ: the triangular factor of R, transposed and with positive diagonal
    upper = np.linalg.qr(root, mode="r")
    signs = np.sign(np.diagonal(upper, axis1=-2, axis2=-1))
    S = np.swapaxes(signs[..., None] * upper, -1, -2)
    diagonal = np.log(np.diagonal(S, axis1=-2, axis2=-1))
    raw = np.tril(S, -1) + diagonal[..., None] * np.eye(size)
    raw = np.broadcast_to(np.repeat(raw, len(mean) // len(raw), axis=0), (len(mean), size, size))
    return TiedSite(jnp.asarray(mean), jnp.asarray(raw))
