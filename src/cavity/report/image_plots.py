"""Pictures of pixels and of places in an image; `plots` says how they are drawn."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cavity.report.plots import FAINT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
else:
    Axes = Any


class Frame(NamedTuple):
    """Geometry of patches in an image, all in pixels.

    Attributes:
        image: height and width of the image.
        patch: those of a patch.
        stride: from one patch to the next.
        grid: patches along rows and along columns.
    """

    image: tuple[int, ...]
    patch: tuple[int, int]
    stride: int
    grid: tuple[int, int]


def as_image(values: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    """Pixels (h, w, C) as shades between 0 and 1: of three channels colours, else their mean.

    Args:
        values: the pixels.
        ends: what is black and what is white.
    """
    shades = np.clip((values - ends[0]) / ((ends[1] - ends[0]) or 1.0), 0.0, 1.0)
    return shades if shades.shape[-1] == 3 else np.mean(shades, axis=-1)


def picture_of_pixels(axes: Axes, shades: np.ndarray, words: str) -> None:
    """An image, and words below."""
    axes.imshow(shades, cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
    _frame(axes)
    axes.set_xlabel(words, fontsize=9)


def name_row(axes: Axes, name: str) -> None:
    """The name of a row of pictures, to the left of its first."""
    axes.set_ylabel(name, rotation=0, ha="right", va="center", labelpad=6)


def draw_places(
    axes: Axes, values: np.ndarray, frame: Frame, ends: tuple[float, float], cmap: str = "RdBu"
) -> Any:
    """Values of places, each at the middle of its patch in the image; gives what has colours."""
    (height, width), step = frame.image, frame.stride
    top, left = ((p - 1 - step) / 2.0 for p in frame.patch)
    rows, columns = frame.grid
    drawn = axes.imshow(
        values,
        cmap=cmap,
        vmin=ends[0],
        vmax=ends[1],
        interpolation="nearest",
        extent=(left, left + columns * step, top + rows * step, top),
    )
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    _frame(axes)
    return drawn


def _frame(axes: Axes) -> None:
    """A thin frame, and no numbers."""
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color=FAINT, linewidth=0.6)
