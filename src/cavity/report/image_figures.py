"""Pictures of a model of images: inducing patches, places, and the images it judges worst."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cavity import drawing
from cavity.drawing.axes import Axes, Figure
from cavity.estimators.layers import first_functions, layers_of
from cavity.inducing.base import Points
from cavity.inducing.sums import InBase, OfParts
from cavity.kernels.base import AbstractKernel
from cavity.kernels.parts import Patches
from cavity.kernels.sum_over import SumOver
from cavity.learning.double_precision import in_double
from cavity.models.base import AbstractModel
from cavity.models.contributions import functions_of_parts
from cavity.numerics.text import plural
from cavity.report.sections import Picture
from cavity.report.svg import picture
from cavity.tables.schema import Encoded
from cavity.tables.table_model import TableModel

# Classes that have a row of patches, patches in a row, and images that are shown.
MOST_CLASSES, MOST_PATCHES, MOST_IMAGES = 10, 10, 4


@dataclasses.dataclass(frozen=True, eq=False)
class PatchModel:
    """Parts of a model, whose functions are sums over patches, that the pictures show.

    Attributes:
        parts: the patches.
        base: covariance of the function of one patch.
        weights: of the places, (P,), or None.
        Z: inducing patches, (M, E).
        means: of the function of one patch there, one for each function of images, (M, F).
        alone: whether there is no other kernel beside the sum over patches.
    """

    parts: Patches
    base: AbstractKernel
    weights: np.ndarray | None
    Z: np.ndarray
    means: np.ndarray
    alone: bool

    def draw(self, axes: Axes, values: np.ndarray, low: float, high: float, **more: Any) -> None:
        """Draws values of the places, (P,) or by rows and columns, between two ends."""
        parts = self.parts
        shapes = parts.image_shape[:2], parts.patch_shape
        ends, by_place = (low, high), values.reshape(parts.grid)
        drawing.places(axes, by_place, *shapes, stride=parts.stride, ends=ends, **more)

    @property
    def patches(self) -> np.ndarray:
        """The pixels of the inducing patches, (M, h, w, C)."""
        shape = self.parts.patch_shape
        pixels = self.Z[:, : self.Z.shape[1] - 2] if self.parts.positions else self.Z
        return pixels.reshape(len(pixels), *shape, -1)


@in_double
def patch_model(fitted: TableModel) -> PatchModel | None:
    """Parts of a model of images to show; None for a model without inducing patches.

    Raises:
        ValueError: for inducing patches of functions that depend on each other.
    """
    posterior: Any = fitted.posterior
    if not _of_patches(posterior.model):
        return None
    functions = functions_of_parts(posterior.process, sparse=posterior.model.sparse)
    part = functions[0][1]
    if not isinstance(part.whole.parts, Patches) or not isinstance(part.inducing, Points):
        return None  # the patches are in another term, which has no inducing patches
    means = [np.asarray(g.moments(jnp.asarray(part.inducing.Z))[0]) for g, _ in functions]
    weights = None if part.whole.weights is None else np.asarray(part.whole.weights)
    return PatchModel(
        part.whole.parts,
        part.kernel,
        weights,
        np.asarray(part.inducing.Z),
        np.concatenate(means, axis=1),
        part.inducing.size == posterior.model.inducing.size,
    )


def _of_patches(model: AbstractModel) -> bool:
    """True if a model has a sum over patches, and points in the space of one part."""
    if layers_of(model):
        return False
    functions: Any = first_functions(model)
    given = functions.inducing
    each = given.each if isinstance(given, OfParts) else (given,)
    own = [one for one in each if isinstance(one, InBase) and isinstance(one.inner, Points)]
    nodes = jax.tree.leaves(functions.kernel, is_leaf=lambda node: isinstance(node, SumOver))
    sums = [node for node in nodes if isinstance(node, SumOver)]
    return len(own) == 1 and any(isinstance(one.parts, Patches) for one in sums)


def image_pictures(
    fitted: TableModel, encoded: Encoded, log_probabilities: np.ndarray | None
) -> tuple[list[Picture], list[str]]:
    """The pictures of a model of images, and what to say where some are not drawn.

    A regression has those of the places alone; a model without inducing patches has none.

    Args:
        fitted: the model.
        encoded: the table to report on.
        log_probabilities: of the classes of its rows, (N, C); None without targets, and for a
            regression.
    """
    try:
        found, classes = patch_model(fitted), fitted.classes
    except ValueError as error:
        return [], [f"There are no pictures of the inducing patches: {error}."]
    functions = 0 if found is None else found.means.shape[1]
    if found is None or (classes and functions not in (1, len(classes))):
        return [], []
    pictures = [inducing_patches(found, classes)] if classes else []
    if found.weights is not None:
        pictures.append(weight_map(found))
    if found.parts.positions:
        pictures.append(likeness_of_places(found))
    ordered = functions == 1 and len(classes) > 2
    if log_probabilities is not None and not ordered:
        pictures.append(least_expected(fitted, encoded, found, log_probabilities))
    return pictures, []


def inducing_patches(found: PatchModel, classes: tuple[str, ...]) -> Picture:
    """The inducing patches that speak for each class most, the strongest first."""
    single = found.means.shape[1] == 1
    names = (classes[0], classes[-1]) if single else classes
    rows = telling_patches(found, classes)
    shown, columns = rows.scores.shape

    def draw(figure: Figure) -> None:
        draw_patches(figure.subplots(shown, columns, squeeze=False), rows)

    texts = [
        "Patches that the model knows, in a row for each class the "
        f"{plural(columns, 'patch', 'patches')} with the largest posterior mean of the function "
        "of one patch, which is the number below: what such a patch adds to the function of its "
        "class each time that it is in an image."
    ]
    if single:
        texts.append(
            f"There is one function, large where {names[1]} is likely; the numbers of {names[0]} "
            "are its means with the sign turned round."
        )
    if not found.alone:
        texts.append(
            "If these numbers are nearly equal, the kernel of whole images explains the classes."
        )
    if found.parts.positions:
        texts.append("That is at the place that the patch has learned; elsewhere it adds less.")
    if found.weights is not None:
        texts.append("That is where its place has the weight 1; the next picture has the weights.")
    if len(names) > shown:
        texts.append(f"The first {shown} of {len(names)} classes are shown.")
    return Picture(
        "inducing_patches",
        "Inducing patches",
        f"The {columns} of {plural(len(found.Z), 'inducing patch', 'inducing patches')} that "
        f"speak most for each of: {', '.join(names[:shown])}.",
        " ".join(texts),
        picture(draw, height=0.3 + 0.95 * shown),
    )


class TellingPatches(NamedTuple):
    """The inducing patches that speak for each class most, a row for each class.

    Attributes:
        names: of the classes.
        pixels: of the patches, (C, n, h, w, channels).
        scores: means of the function of one patch there, the largest first, (C, n).
    """

    names: tuple[str, ...]
    pixels: np.ndarray
    scores: np.ndarray


def telling_patches(
    found: PatchModel, classes: tuple[str, ...], most: int = MOST_PATCHES
) -> TellingPatches:
    """The inducing patches that speak for each class most.

    Args:
        found: the patches of a model.
        classes: names of the classes, of which the first are shown.
        most: patches in a row.
    """
    single = found.means.shape[1] == 1
    scores = np.concatenate([-found.means, found.means], axis=1) if single else found.means
    names = ((classes[0], classes[-1]) if single else classes)[:MOST_CLASSES]
    orders = np.argsort(-scores, axis=0, kind="stable")[:most, : len(names)].T
    chosen = np.take_along_axis(scores.T[: len(names)], orders, axis=1)
    return TellingPatches(names, found.patches[orders], chosen)


def draw_patches(grid: np.ndarray, rows: TellingPatches) -> None:
    """Draws patches, each with its number below, and the names of their classes at the left.

    Args:
        grid: matplotlib's axes, (C, n).
        rows: the patches.
    """
    ends = float(np.min(rows.pixels)), float(np.max(rows.pixels))
    for k, label in enumerate(drawing.labels(rows.names, 16)):
        for axes, pixels, score in zip(grid[k], rows.pixels[k], rows.scores[k], strict=True):
            drawing.pixels(axes, pixels, ends, f"{score:+.2g}")
        first: Any = grid[k, 0]  # the name of a row stands to the left of it
        first.set_ylabel(label, rotation=0, ha="right", va="center", labelpad=6)


def weight_map(found: PatchModel) -> Picture:
    """The weights of the places, as an image of each channel that has its own."""
    assert found.weights is not None
    maps = found.weights.reshape(-1, *found.parts.grid)
    most = float(np.max(np.abs(maps)))

    def draw(figure: Figure) -> None:
        grid = figure.subplots(1, len(maps), squeeze=False)[0]
        for i, (axes, weights) in enumerate(zip(grid, maps, strict=True)):
            found.draw(axes, weights, -most, most)
            axes.set_title(f"channel {i + 1}" if len(maps) > 1 else "")
        _colour_bar(figure, list(grid), label="weight")

    row, column = np.unravel_index(np.argmax(np.abs(maps[0])), maps[0].shape)
    return Picture(
        "weights",
        "Weights of the places",
        f"A map of the weights of {plural(maps.size, 'place')}; the strongest is in row "
        f"{row + 1} and column {column + 1}.",
        "How much a patch counts at each place, at the middle of the patch. Where the weight is "
        "next to 0 images do not matter; where it is negative, what a patch says is turned "
        "round. The sign of all weights together means nothing.",
        picture(draw, width=1.6 + 3.0 * len(maps), height=3.2),
    )


def _colour_bar(figure: Figure, axes: list[Any], **more: Any) -> None:
    """The colours of all of these axes beside the last."""
    figure.colorbar(axes[-1].images[-1], ax=axes, **more).outline.set_visible(False)


@in_double
def likeness_of_places(found: PatchModel) -> Picture:
    """Map of the correlation of one patch's function with that in the middle of the image."""
    rows, columns = (np.arange(n) * found.parts.stride for n in found.parts.grid)
    places = np.stack(np.meshgrid(rows, columns, indexing="ij"), -1).reshape(-1, 2)
    typical = np.broadcast_to(
        np.median(found.Z[:, :-2], axis=0), (len(places), len(found.Z[0]) - 2)
    )
    same = np.concatenate([typical, places], axis=1)
    middle = len(columns) * (len(rows) // 2) + len(columns) // 2
    cov = np.asarray(found.base.cross(jnp.asarray(same[[middle]]), jnp.asarray(same)))[0]
    deviations = np.sqrt(np.asarray(found.base.diag(jnp.asarray(same))))
    correlation = cov / (deviations * deviations[middle])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        found.draw(axes, correlation, 0.0, 1.0, colours="viridis")
        _colour_bar(figure, [axes], label="correlation")

    least = float(np.min(correlation))
    return Picture(
        "places",
        "How alike places are",
        f"A map of the correlation of places with the middle one; the smallest is {least:.2f}.",
        "The prior correlation of what a patch says in the middle of the image and of what the "
        "same patch says elsewhere. Bright all over means that places do not matter; a small "
        "bright spot means that each place has to be learned on its own.",
        picture(draw, width=4.6, height=3.2),
    )


def least_expected(
    fitted: TableModel, encoded: Encoded, found: PatchModel, log_probabilities: np.ndarray
) -> Picture:
    """The images whose classes were least expected, and what their patches say of these."""
    assert encoded.y is not None
    labels, classes = encoded.y[:, 0].astype(int), fitted.classes
    every = np.arange(len(labels))
    order = np.argsort(log_probabilities[every, labels], kind="stable")
    rows = order[: min(MOST_IMAGES, len(order))]
    rivals = log_probabilities[rows].copy()
    rivals[np.arange(len(rows)), labels[rows]] = -np.inf
    rival = np.argmax(rivals, axis=1)
    evidence = evidence_of(fitted, encoded.X[rows], found, (labels[rows], rival))
    shape = found.parts.image_shape
    images = encoded.X[rows][:, : math.prod(shape)].reshape(len(rows), *shape[:2], -1)
    ends = float(np.min(images)), float(np.max(images))
    most = float(np.max(np.abs(evidence))) or 1.0
    short, numbers = drawing.labels(classes, 12), encoded.numbers

    def draw(figure: Figure) -> None:
        grid = figure.subplots(2, len(rows), squeeze=False)
        for i, n in enumerate(map(int, rows)):
            chance = float(np.exp(log_probabilities[n, labels[n]]))
            words = f"{short[labels[n]]}: {chance:.2g}"
            drawing.pixels(grid[0, i], images[i], ends, words)
            grid[0, i].set_title(f"row {numbers[n]}")
            found.draw(grid[1, i], evidence[i], -most, most)
            grid[1, i].set_xlabel(f"against {short[rival[i]]}")
        _colour_bar(figure, list(grid[1]))

    beside = (
        ""
        if found.alone
        else " The kernel of whole images also contributes, and is not in these maps."
    )
    return Picture(
        "least_expected",
        "Images least expected",
        "The images of rows "
        + ", ".join(str(numbers[n]) for n in rows)
        + ", whose classes have the lowest probabilities, with maps of what their patches say.",
        f"The {plural(len(rows), 'image')} whose class has the lowest probability, which stands "
        "below with its class. Under each what its patches add, at their middles, to the function "
        "of that class, less what they add to that of the likeliest other one: blue speaks for "
        f"the right class, red for the other.{beside} If nothing is blue the model has learned "
        "no patch that tells the two apart, or the label is wrong.",
        picture(draw, height=4.6),
    )


@in_double
def evidence_of(
    fitted: TableModel, X: np.ndarray, found: PatchModel, classes: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Contributions of places to one class rather than to another, (n, rows, columns).

    Args:
        fitted: the model.
        X: images as rows of pixels, (n, D).
        found: its patches.
        classes: the numbers of both classes for every image, each (n,).
    """
    posterior: Any = fitted.posterior
    mean = np.asarray(posterior.contributions(X).mean)
    mean = mean.reshape(*mean.shape[:2], -1)
    first, second = classes
    each = np.arange(len(X))
    if mean.shape[2] == 1:  # one function, which speaks for the last of two classes
        told = mean[:, :, 0] * np.where(first > second, 1.0, -1.0)[:, None]
    else:
        told = mean[each, :, first] - mean[each, :, second]
    return told.reshape(len(X), -1, *found.parts.grid).sum(axis=1)
