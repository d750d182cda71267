"""Starting values of convolutional models of images, from the images."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from cavity.inducing import InBase, OfParts, Points
from cavity.inducing.base import AbstractInducing
from cavity.inducing.tabulated import tabulated
from cavity.kernels.base import AbstractKernel
from cavity.kernels.parts import AbstractParts
from cavity.kernels.stationary import RBF, Matern32
from cavity.kernels.sum_over import SumOver
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.numerics.jit import compiled

# Images that starting values come from, and patches of them.
IMAGES, PATCHES = 500, 20_000
# Pairs whose distances give a lengthscale, and images that inducing patches are to explain.
PAIRS, MEASURED = 2000, 100
# Patches to choose from: so many, or as many times the inducing patches.
LEAST, CHOICE = 1000, 3
# The share of their variances by which images differ that are not all alike.
ALIKE = 1e-8

tabulated_values = compiled(tabulated)

SUMS = ("position", "weighted", "invariant")
BESIDE = ("rbf",)


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A convolutional model as it was asked for.

    Attributes:
        patches: what takes images apart: patches, with positions where those count, or whole
            images under transformations.
        weighted: whether every place has a weight.
        plus: the kernel of whole images beside the sum, or None.
        count: inducing patches, and inducing images where there is a kernel beside.
    """

    patches: AbstractParts
    weighted: bool
    plus: str | None
    count: int


def convolution_start(
    asked: Convolution, X: np.ndarray, seed: int
) -> tuple[AbstractKernel, AbstractInducing]:
    """A kernel whose functions differ between images by 1 or so, and inducing variables.

    Args:
        asked: the model.
        X: images as rows of pixels, (N, D).
        seed: of everything random.
    """
    random = np.random.default_rng(seed)
    some = X[random.permutation(len(X))[:IMAGES]]
    found = np.asarray(asked.patches.of(some))
    found = found.reshape(-1, found.shape[-1])
    found = found[random.permutation(len(found))[:PATCHES]]
    reach = asked.patches.reach
    pixels = found.shape[1] - (0 if reach is None else 2)
    distance = typical_distance(found[:, :pixels], random)
    # patches are small, and what they have in common is most of an image
    base: AbstractKernel = RBF(1.0, 0.5 * distance if pixels < X.shape[1] else distance)
    if reach is not None:
        base = base.on(*range(pixels)) * Matern32(1.0, 0.5 * reach).on(pixels, pixels + 1)
    weights = np.ones(asked.patches.size) if asked.weighted else None
    unit = SumOver(asked.patches, base, weights)
    patches, variance = choose_patches(
        unit, _candidates(found, asked.count, random), some[:MEASURED], asked.count
    )
    share = 1.0 if asked.plus is None else 0.5
    kernel: AbstractKernel = (share / variance) * unit
    inside: AbstractInducing = InBase(Points(patches))
    if asked.plus is None:
        return kernel, inside
    whole = RBF(share, typical_distance(some, random))
    images = np.asarray(select_inducing(whole, some, asked.count, seed=seed))
    return kernel + whole, OfParts((inside, Points(images)))


def _candidates(found: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """Distinct patches to choose from, (C, E): common ones, and as many of all kinds."""
    most = max(LEAST, CHOICE * count)
    kinds = np.unique(found, axis=0)
    if len(kinds) <= most:
        return kinds
    rare = kinds[random.permutation(len(kinds))[: most // 2]]
    return np.unique(np.concatenate([found[: most // 2], rare]), axis=0)


def choose_patches(
    kernel: SumOver, candidates: np.ndarray, X: np.ndarray, count: int
) -> tuple[np.ndarray, float]:
    r"""Inducing patches one after another, each the one that explains most of the images.

    Given those before, patch c explains $\sum_n \mathrm{cov}(g(\mathbf c), f(\mathbf x_n))^2 /
    \mathrm{var}\, g(\mathbf c)$ of the variances of the function of images. Patches that are
    most unlike each other, which `select_inducing` finds, explain half as much: what images share,
    such as blank patches, is most of these variances.

    Args:
        kernel: of the images.
        candidates: patches to choose from, (C, E).
        X: images, (N, D).
        count: how many to choose, at the most.

    Returns:
        The patches, (M, E), and the mean over images of the variance of their functions about the
        images' mean, as far as these patches explain it: what tells images apart.
    """
    K, rows = map(np.asarray, tabulated_values(kernel, InBase(Points(candidates)), jnp.asarray(X)))
    left, cross = np.diagonal(K).copy(), rows[:, :-1].copy()
    usable, count = 1e-6 * left, min(count, len(K))
    loadings, explained = np.zeros((count, len(K))), np.zeros((count, len(X)))
    chosen: list[int] = []
    while len(chosen) < count:
        gains = np.where(left > usable, np.sum(cross**2, axis=0), 0.0)
        gains = gains / np.maximum(left, usable)
        gains[chosen] = -1.0
        m, best = len(chosen), int(np.argmax(gains))
        if gains[best] <= 0.0:
            break  # all others are combinations of those that are there
        chosen.append(best)
        root = np.sqrt(left[best])
        loadings[m] = (K[best] - loadings[:m, best] @ loadings[:m]) / root
        explained[m] = cross[:, best] / root
        left = left - loadings[m] ** 2
        cross = cross - np.outer(explained[m], loadings[m])
    apart = explained - np.mean(explained, axis=1, keepdims=True)
    variance = float(np.mean(np.sum(apart**2, axis=0)))
    whole = float(np.mean(rows[:, -1]))
    # images that are all alike differ by rounding
    return candidates[chosen], variance if variance > ALIKE * whole else whole


def typical_distance(X: np.ndarray, random: np.random.Generator) -> float:
    """The median distance between rows that differ; 1 where all are alike."""
    first, second = random.integers(0, len(X), (2, PAIRS))
    distances = np.sqrt(np.sum((X[first] - X[second]) ** 2, axis=1))
    distances = distances[distances > 0.0]
    return float(np.median(distances)) if len(distances) else 1.0
