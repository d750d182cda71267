"""Starting values of deep models: one layer is a sparse GP, and others are near their means."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import Points
from cavity.inference.energy import Sites
from cavity.inference.factors.tied import TiedSite
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inducing_view import InducingView, OutputMean, inducing_view
from cavity.kernels.stationary import RBF
from cavity.learning.data.scales import tally
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.likelihoods.base import AbstractLikelihood
from cavity.means import AbstractMean, Columns, Identity, Linear, Zero
from cavity.models.deep.deep_gp import INNER_DEVIATION, DeepGP
from cavity.models.deep.layer import Layer
from cavity.models.gp import GP
from cavity.models.process import TakesGaussianInputs
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float

# The prior variance of inner functions about their means: at most this share of that of the means.
INNER_VARIANCE = 0.1
# What uncertain hidden values add to the variance of an output: at most this share of its noise.
NOISE_SHARE = 0.1
# Hidden functions at their prior do not change an output with this share of that variance.
REST = 1e-2 * INNER_DEVIATION**2
JITTER = 1e-8
# Rows at which slopes of the sparse GP are taken, and so many at a time.
SLOPES, TOGETHER = 500, 50
LEAST_DEVIATION = 1e-6  # of a direction that varies, of inputs of deviation one
# Rows at the most whose hidden values place inducing points above the sparse GP.
ROWS = 20_000


# A layer, and its tied sites.
Placed = tuple[Layer, list[TiedSite]]


class HiddenStart(NamedTuple):
    """Layer of a deep GP that begins as a sparse GP, and the data that it is learned from.

    Attributes:
        maps: mean functions of the layers below it.
        inputs: inputs of these layers and of the sparse GP, where outputs are means, (N, width)
            each.
        above: hidden layers from it on, their widths; none where it is the last layer.
        points: inducing points of every other layer.
        seed: of the clusters that place them, of rows that are looked at, and of minibatches.
    """

    maps: tuple[AbstractMean, ...]
    inputs: tuple[np.ndarray, ...]
    above: tuple[int, ...] = ()
    points: int = 100
    seed: int = 0


def chosen_start(
    X: np.ndarray,
    widths: Sequence[int],
    likelihood: AbstractLikelihood,
    outputs: int,
    points: int = 100,
    seed: int = 0,
) -> HiddenStart:
    """Initial hidden layers of a deep GP.

    Hidden layers as wide as their inputs, or wider, pass the inputs on to a sparse GP in the last
    layer. Narrower ones would lose information there: they pass on the functions of a sparse GP in
    the first layer. Where that is not possible, they pass on principal components: where they have
    fewer functions than the last layer, and where noise is not Gaussian, so that the uncertainty
    of functions in the first layer needs more points per row than steps of learning have.

    Args:
        X: inputs, (N, D).
        widths: of the hidden layers.
        likelihood: of the outputs.
        outputs: their number.
        points: inducing points of every layer but that of the sparse GP.
        seed: of everything random.
    """
    columns = (X.shape[1], *widths)
    narrow = any(width < below for width, below in zip(widths, columns, strict=False))
    gaussian = likelihood.gaussian_noise is not None
    if narrow and gaussian and min(widths) >= outputs:
        return HiddenStart((), (np.asarray(X, np.float64),), tuple(widths), points, seed)
    return hidden_start(X, widths, points, seed)


def hidden_start(
    X: np.ndarray, widths: Sequence[int], points: int = 100, seed: int = 0
) -> HiddenStart:
    """Mean functions that preserve the information of the inputs.

    A layer as wide as its inputs passes them on. A narrower one passes on their leading principal
    components, in units of their deviations; a wider one has random directions beside them.

    Args:
        X: inputs, (N, D).
        widths: of the hidden layers.
        points: inducing points of every layer but that of the sparse GP.
        seed: of everything random.

    References:
        Salimbeni and Deisenroth (2017), section 3.1.
    """
    maps: list[AbstractMean] = []
    inputs = [np.asarray(X, np.float64)]
    random = np.random.default_rng(seed)
    for width in widths:
        H = inputs[-1]
        if width == H.shape[1]:
            maps.append(Identity())
        else:
            centre = H.mean(axis=0)
            weights = _directions(H, centre, width, random)
            maps.append(Linear(weights, np.zeros(width), centre))
        inputs.append(np.asarray(maps[-1](jnp.asarray(H)), np.float64))
    return HiddenStart(tuple(maps), tuple(inputs), (), points, seed)


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
    return _with_random(weights, width, random)


def _with_random(weights: np.ndarray, width: int, random: np.random.Generator) -> np.ndarray:
    """Weights (D, width): those given, and random combinations of them."""
    missing = width - weights.shape[1]
    if missing > 0:
        turns = random.standard_normal((weights.shape[1], missing))
        turns /= np.linalg.norm(turns, axis=0) if len(turns) else 1.0
        weights = np.concatenate([weights, weights @ turns], axis=1)
    return weights


def deepen(single: GP, process: TakesGaussianInputs, start: HiddenStart) -> tuple[DeepGP, Sites]:
    """A deep GP that begins as a sparse GP, in its first layer or its last.

    Other functions are so certain that they do not spoil what the sparse GP explains: to an
    output their uncertainty adds no more than a share of the noise, where that is Gaussian.

    Args:
        single: the sparse GP, a model of `start.inputs[-1]`.
        process: its posterior process, whose functions are independent.
        start: of the hidden layers.

    Returns:
        The model, and its tied sites to start from.
    """
    parts = process.sparse_functions()
    layer, sites = _functions(single, parts)
    if start.above:
        first, values = _with_others(layer, sites, process, start)
        widths = (*start.above[1:], sum(view.mean.outputs for view, _ in parts))
        placed = [first, *_passing_on(single, values, widths, start)]
    else:
        placed = [*_below(single, process, start), (layer, sites)]
    layers = [layer for layer, _ in placed]
    return DeepGP(layers, single.likelihood), (tuple(site for _, own in placed for site in own),)


def _below(single: GP, process: TakesGaussianInputs, start: HiddenStart) -> list[Placed]:
    """Hidden layers near mean functions that keep what the inputs say."""
    placed = []
    for i, mean in enumerate(start.maps):
        steepness = _steepness(single, process, start, i)
        ends = start.inputs[i], start.inputs[i + 1]
        placed.append(_near_mean(mean, *ends, steepness, start))
    return placed


def _with_others(
    layer: Layer, sites: list[TiedSite], process: TakesGaussianInputs, start: HiddenStart
) -> tuple[Placed, np.ndarray]:
    """A sparse GP with other functions beside it, and the values of all at some rows.

    The others begin near the directions in which it is steepest, in the units of its functions.
    """
    random = np.random.default_rng(start.seed)
    X = start.inputs[-1]
    X = X[random.permutation(len(X))[:ROWS]]
    values = np.asarray(_means(process, jnp.asarray(X)))
    own, others = values.shape[1], start.above[0] - values.shape[1]
    if not others:
        return (layer, sites), values
    weights = _steepest(process, X, others, random) * np.mean(tally(values).spread)
    beside = Linear(weights, np.zeros(others), X.mean(axis=0))
    outputs = np.asarray(beside(jnp.asarray(X)))
    near, still = _near_mean(beside, X, outputs, None, start)
    groups = (*layer.groups, *near.groups)
    kernels, inducing, sizes = zip(*groups, strict=True)
    mean = Columns((*_columns(layer.mean, own, X), beside))
    both = Layer(kernels, inducing, own + others, mean, sizes=sizes)
    return (both, [*sites, *still]), np.concatenate([values, outputs], axis=1)


def _columns(mean: AbstractMean, count: int, X: np.ndarray) -> tuple[AbstractMean, ...]:
    """Mean functions that have so many columns together."""
    value = mean(jnp.asarray(X[:1]))
    return (mean,) * count if value.size == 1 else (mean,)


def _steepest(
    process: TakesGaussianInputs, X: np.ndarray, count: int, random: np.random.Generator
) -> np.ndarray:
    """Weights (D, count) of the directions in which functions are steepest, of unit deviation."""
    columns = tally(X)
    spread = columns.spread
    standard = np.where(columns.varies, X - columns.mean, 0.0) / spread
    slopes = np.asarray(_slopes(process, (), jnp.asarray(X[:SLOPES])))
    slopes = np.where(columns.varies, slopes * spread, 0.0).reshape(-1, X.shape[1])
    _, _, vectors = np.linalg.svd(slopes, full_matrices=False)
    deviations = np.std(standard @ vectors[:count].T, axis=0)
    kept = deviations > LEAST_DEVIATION
    weights = vectors[:count][kept].T / spread[:, None] / deviations[kept]
    return _with_random(weights, count, random)


def _passing_on(
    single: GP, values: np.ndarray, widths: Sequence[int], start: HiddenStart
) -> list[Placed]:
    """Layers above the sparse GP, close to mean functions that copy its outputs.

    Args:
        single: the sparse GP.
        values: of the layer that it is in, at some rows; its own functions come first.
        widths: of the layers.
        start: of the hidden layers.
    """
    random = np.random.default_rng(start.seed)
    noise = single.likelihood.noise_parameter
    placed = []
    for width in widths:
        columns, mean = values.shape[1], Identity()
        if width < columns:
            mean = Identity(width)
        elif width > columns:
            mean = Linear(_with_random(np.eye(columns), width, random), np.zeros(width))
        outputs = np.asarray(mean(jnp.asarray(values)))
        steepness = None
        if noise is not None:
            own = np.arange(width) < widths[-1]
            squares = np.broadcast_to(own / np.min(noise.variance), outputs.shape)
            steepness = _Steepness(values[:SLOPES], squares[:SLOPES] * len(widths))
        placed.append(_near_mean(mean, values, outputs, steepness, start))
        values = outputs
    return placed


def at_rest(model: DeepGP, sites: Sites, start: HiddenStart) -> tuple[DeepGP, Sites]:
    """The start of a deep GP with the layers at their prior that do not begin as the sparse GP.

    They are hardly off their means, so that the model predicts as the sparse GP does.

    Args:
        model: of `deepen`.
        sites: likewise.
        start: of the hidden layers.
    """
    others = [i for i in range(len(model.layers)) if i != len(start.maps)]
    if not others:
        return model, sites
    where = lambda m: [m.layers[i].kernel.variance for i in others]  # noqa: E731
    resting = eqx.tree_at(where, model, replace_fn=lambda variance: variance * REST)
    (tied,) = sites
    # one site for each of these layers, and as many as there are for the sparse GP
    below, above = len(start.maps), len(model.layers) - 1 - len(start.maps)
    still = [jax.tree.map(jnp.zeros_like, site) for site in tied]
    return resting, (
        (*still[:below], *tied[below : len(tied) - above], *still[len(tied) - above :]),
    )


class _Steepness(NamedTuple):
    """Squared slopes of an output in hidden values.

    Attributes:
        inputs: inputs of their layer at some rows, (n, D).
        squares: squared slopes of an output there over its noise variance, (n, width), times the
            number of hidden layers.
    """

    inputs: np.ndarray
    squares: np.ndarray


def _steepness(
    single: GP, process: TakesGaussianInputs, start: HiddenStart, layer: int
) -> _Steepness | None:
    """Slopes of the outputs in the values of a hidden layer; None where noise is not Gaussian."""
    noise = single.likelihood.noise_parameter
    if noise is None:
        return None
    inputs, outputs = start.inputs[layer], start.inputs[layer + 1]
    chosen = np.random.default_rng(start.seed).permutation(len(inputs))[:SLOPES]
    slopes = _slopes(process, start.maps[layer + 1 :], jnp.asarray(outputs[chosen]))
    variance = np.asarray(noise.variance)[..., None]
    squares = np.mean(np.asarray(slopes) ** 2 / variance, axis=1)
    return _Steepness(inputs[chosen], squares * len(start.maps))


@compiled
def _slopes(
    process: TakesGaussianInputs, maps: tuple[AbstractMean, ...], values: Float[Array, "n W"]
) -> Float[Array, "n P W"]:
    """Slopes of the means of a process in values that go through mean functions first."""

    def means(row: Array) -> Array:
        values = row[None]
        for mean in maps:
            values = mean(values)
        return process.moments(values)[0][0]

    return jax.lax.map(jax.jacrev(means), values, batch_size=TOGETHER)


@compiled
def _means(process: TakesGaussianInputs, X: Float[Array, "n D"]) -> Float[Array, "n P"]:
    """Means of the functions of a process."""
    return process.moments(X)[0]


def _near_mean(
    mean: AbstractMean,
    inputs: np.ndarray,
    outputs: np.ndarray,
    steepness: _Steepness | None,
    start: HiddenStart,
) -> Placed:
    """A layer near its mean function, and its site."""
    Z = select_inducing(RBF(), inputs, start.points, choice="kmeans", seed=start.seed)
    variance = INNER_VARIANCE * float(np.mean(tally(outputs).spread ** 2))
    kernel = RBF(1.0, tally(inputs).spread * np.sqrt(inputs.shape[1]))
    if steepness is not None:
        view = inducing_view(kernel, Points(Z), OutputMean(Zero(), 1), JITTER)
        at = jnp.asarray(steepness.inputs)
        residual = np.asarray(view.project(Rows(at, at[:, :1], at[:, :1])).residual)
        own = residual + INNER_DEVIATION**2 * (1.0 - residual)
        added = float(np.mean(np.sum(steepness.squares, axis=1) * own))
        variance = min(variance, NOISE_SHARE / added) if added > 0.0 else variance
    width = outputs.shape[1]
    layer = Layer(RBF(variance, kernel.lengthscale), Points(Z), width, mean)
    return layer, [_still(width, len(Z))]


def _still(width: int, size: int) -> TiedSite:
    """The site of functions near their prior mean, and certain of that."""
    raw = np.broadcast_to(np.log(INNER_DEVIATION) * np.eye(size), (width, size, size))
    return TiedSite(jnp.zeros((width, size)), jnp.asarray(raw))


def _functions(single: GP, parts: list[tuple[InducingView, InducingBelief]]) -> Placed:
    """The functions of a sparse GP as a layer."""
    views, sites = [view for view, _ in parts], [tied_site(belief) for _, belief in parts]
    if len(views) == 1:
        view = views[0]
        return Layer(view.kernel, view.inducing, view.mean.outputs, single.means[0]), sites
    means = single.means if len(single.means) > 1 else single.means * len(views)
    kernels, inducing = tuple(v.kernel for v in views), tuple(v.inducing for v in views)
    return Layer(kernels, inducing, len(views), Columns(means)), sites


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
