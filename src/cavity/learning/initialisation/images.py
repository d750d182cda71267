"""Starting values of convolutional models of images, from the images."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from cavity.inducing import InBase, OfParts, Points
from cavity.inducing.base import AbstractInducing
from cavity.kernels.base import AbstractKernel
from cavity.kernels.parts import Patches
from cavity.kernels.stationary import RBF, Matern32
from cavity.kernels.sum_over import SumOver
from cavity.learning.initialisation.inducing_points import select_inducing

# Images that starting values come from, and patches of them.
IMAGES, PATCHES = 500, 20_000
# Pairs whose distances give a lengthscale, and images whose variances give that of the kernel.
PAIRS, MEASURED = 2000, 50

SUMS = ("position", "weighted", "invariant")
BESIDE = ("rbf",)


@dataclasses.dataclass(frozen=True)
class Convolution:
    """A convolutional model as it was asked for.

    Attributes:
        patches: what takes images apart, with positions where those count.
        weighted: whether every place has a weight.
        plus: the kernel of whole images beside the sum, or None.
        count: inducing patches, and inducing images where there is a kernel beside.
    """

    patches: Patches
    weighted: bool
    plus: str | None
    count: int


def convolution_start(
    asked: Convolution, X: np.ndarray, seed: int
) -> tuple[AbstractKernel, AbstractInducing]:
    """A kernel whose functions have variance 1 or so at the images, and inducing variables.

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
    pixels = found.shape[1] - 2 * asked.patches.positions
    base: AbstractKernel = RBF(1.0, typical_distance(found[:, :pixels], random))
    if asked.patches.positions:
        reach = max(asked.patches.grid) * asked.patches.stride / 2.0
        base = base.on(*range(pixels)) * Matern32(1.0, reach).on(pixels, pixels + 1)
    patches = np.asarray(select_inducing(base, found, asked.count, seed=seed))
    weights = np.ones(asked.patches.size) if asked.weighted else None
    unit = SumOver(asked.patches, base, weights)
    share = 1.0 if asked.plus is None else 0.5
    variance = share / float(jnp.mean(unit.diag(jnp.asarray(some[:MEASURED]))))
    kernel: AbstractKernel = variance * unit
    inside: AbstractInducing = InBase(Points(patches))
    if asked.plus is None:
        return kernel, inside
    whole = RBF(share, typical_distance(some, random))
    images = np.asarray(select_inducing(whole, some, asked.count, seed=seed))
    return kernel + whole, OfParts((inside, Points(images)))


def typical_distance(X: np.ndarray, random: np.random.Generator) -> float:
    """The median distance between rows that differ; 1 where all are alike."""
    first, second = random.integers(0, len(X), (2, PAIRS))
    distances = np.sqrt(np.sum((X[first] - X[second]) ** 2, axis=1))
    distances = distances[distances > 0.0]
    return float(np.median(distances)) if len(distances) else 1.0
