"""Starting values of deep models: a sparse GP as last layer, inner layers near their means."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import Points
from cavity.inference.energy import Sites
from cavity.inference.factors.tied import TiedSite
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.views import InducingView, OutputMean, inducing_view
from cavity.inference.variables.inducing import InducingBelief
from cavity.kernels.stationary import RBF
from cavity.learning.data.scales import tally
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.likelihoods.capabilities import HasNoiseParameter, capability
from cavity.means import AbstractMean, Columns, Identity, Linear, Zero
from cavity.models.deep.deep_gp import INNER_DEVIATION, DeepGP
from cavity.models.deep.layer import Layer
from cavity.models.gp import GP
from cavity.models.process import AbstractProcess, TakesGaussianInputs
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float

# The prior variance of inner functions about their means: at most this share of that of the means.
INNER_VARIANCE = 0.1
# What uncertain hidden values add to the variance of an output: at most this share of its noise.
NOISE_SHARE = 0.1
# Hidden functions at their prior do not change an output with this share of that variance.
REST = 1e-2 * INNER_DEVIATION**2
JITTER = 1e-8
# Rows at which slopes of the sparse GP are taken.
SLOPES = 500


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

    Hidden functions are so certain that they do not spoil what the sparse GP explains: through its
    slopes their uncertainty adds no more than a share of the noise, where that is Gaussian.

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
    for i, mean in enumerate(start.maps):
        steepness = _steepness(single, process, start, i, seed)
        layer, site = _hidden_layer(
            mean, start.inputs[i], start.inputs[i + 1], points, steepness, seed
        )
        layers.append(layer)
        sites.append(site)
    parts = cast(TakesGaussianInputs, process).sparse_functions()
    sites += [tied_site(belief) for _, belief in parts]
    layers.append(_last(single, [view for view, _ in parts]))
    return DeepGP(layers, single.likelihood), (tuple(sites),)


def at_rest(model: DeepGP, sites: Sites) -> tuple[DeepGP, Sites]:
    """The start of a deep GP with hidden functions at their prior and hardly off their means.

    It predicts as the sparse GP from which it was made.

    Args:
        model: of `deepen`.
        sites: likewise.
    """
    hidden = range(len(model.layers) - 1)
    if not hidden:
        return model, sites
    variances = [cast(RBF, model.layers[i].kernel).variance * REST for i in hidden]
    resting = eqx.tree_at(
        lambda m: [m.layers[i].kernel.variance for i in hidden], model, variances
    )
    (tied,) = sites
    still = [jax.tree.map(jnp.zeros_like, tied[i]) for i in hidden]
    return resting, ((*still, *tied[len(still) :]),)


class _Steepness(NamedTuple):
    """How steeply an output follows hidden values.

    Attributes:
        inputs: inputs of their layer at some rows, (n, D).
        squares: squared slopes of an output there over its noise variance, (n, width), times the
            number of hidden layers.
    """

    inputs: np.ndarray
    squares: np.ndarray


def _steepness(
    single: GP, process: AbstractProcess, start: HiddenStart, layer: int, seed: int
) -> _Steepness | None:
    """Slopes of the outputs in the values of a hidden layer; None where noise is not Gaussian."""
    noise = capability(single.likelihood, HasNoiseParameter)
    if noise is None:
        return None
    inputs, outputs = start.inputs[layer], start.inputs[layer + 1]
    chosen = np.random.default_rng(seed).permutation(len(inputs))[:SLOPES]
    slopes = _slopes(process, start.maps[layer + 1 :], jnp.asarray(outputs[chosen]))
    variance = np.asarray(noise.variance)[..., None]
    squares = np.mean(np.asarray(slopes) ** 2 / variance, axis=1)
    return _Steepness(inputs[chosen], squares * len(start.maps))


@compiled
def _slopes(
    process: AbstractProcess, maps: tuple[AbstractMean, ...], values: Float[Array, "n W"]
) -> Float[Array, "n P W"]:
    """Slopes of the means of a process in values that go through mean functions first."""

    def means(row: Array) -> Array:
        values = row[None]
        for mean in maps:
            values = mean(values)
        return process.moments(values)[0][0]

    return jax.vmap(jax.jacrev(means))(values)


def _hidden_layer(
    mean: AbstractMean,
    inputs: np.ndarray,
    outputs: np.ndarray,
    points: int,
    steepness: _Steepness | None,
    seed: int,
) -> tuple[Layer, TiedSite]:
    """A hidden layer near its mean function, and its site."""
    Z = select_inducing(RBF(), inputs, points, choice="kmeans", seed=seed)
    width = outputs.shape[1]
    variance = INNER_VARIANCE * float(np.mean(tally(outputs).spread ** 2))
    kernel = RBF(1.0, tally(inputs).spread * np.sqrt(inputs.shape[1]))
    if steepness is not None:
        view = inducing_view(kernel, Points(Z), OutputMean(Zero(), 1), JITTER)
        at = jnp.asarray(steepness.inputs)
        residual = np.asarray(view.project(Rows(at, at[:, :1], at[:, :1])).residual)
        own = residual + INNER_DEVIATION**2 * (1.0 - residual)
        added = float(np.mean(np.sum(steepness.squares, axis=1) * own))
        variance = min(variance, NOISE_SHARE / added) if added > 0.0 else variance
    layer = Layer(RBF(variance, kernel.lengthscale), Points(Z), width, mean)
    raw = np.broadcast_to(np.log(INNER_DEVIATION) * np.eye(len(Z)), (width, len(Z), len(Z)))
    return layer, TiedSite(jnp.zeros((width, len(Z))), jnp.asarray(raw))


def _last(single: GP, views: list[InducingView]) -> Layer:
    """The functions of a sparse GP as a layer."""
    if len(views) == 1:
        view = views[0]
        return Layer(view.kernel, view.inducing, view.mean.outputs, single.means[0])
    means = single.means if len(single.means) > 1 else single.means * len(views)
    kernels, inducing = tuple(v.kernel for v in views), tuple(v.inducing for v in views)
    return Layer(kernels, inducing, len(views), Columns(means))


def tied_site(belief: InducingBelief) -> TiedSite:
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
