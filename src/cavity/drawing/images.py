"""Pictures of pixels, and of places in an image."""

import numpy as np

from cavity.drawing.axes import Axes
from cavity.drawing.style import FAINT


def pixels(
    axes: Axes, values: np.ndarray, ends: tuple[float, float] | None = None, words: str = ""
) -> None:
    """An image: of three channels in colours, else the mean of its channels in shades of grey.

    Args:
        axes: matplotlib's axes to draw on.
        values: the pixels, (h, w, C).
        ends: values that are black and white; None for the smallest and the largest.
        words: to stand below.
    """
    low, high = (float(np.min(values)), float(np.max(values))) if ends is None else ends
    shades = np.clip((values - low) / ((high - low) or 1.0), 0.0, 1.0)
    shown = shades if shades.shape[-1] == 3 else np.mean(shades, axis=-1)
    axes.imshow(shown, cmap="gray", vmin=0.0, vmax=1.0, interpolation="nearest")
    _framed(axes)
    axes.set_xlabel(words, fontsize=9)


def places(
    axes: Axes,
    values: np.ndarray,
    image: tuple[int, ...],
    patch: tuple[int, int],
    *,
    stride: int = 1,
    ends: tuple[float, float] | None = None,
    colours: str = "RdBu",
) -> None:
    """Values of the places of patches, each at the middle of its patch in the image.

    `axes.images[-1]` is what a colour bar needs.

    Args:
        axes: matplotlib's axes to draw on.
        values: of the places, by rows and columns of patches, (r, c).
        image: height and width of the image, in pixels.
        patch: those of a patch.
        stride: pixels from one patch to the next.
        ends: values at the ends of the colours; None for the smallest and the largest.
        colours: the name of matplotlib's colour map.
    """
    top, left = ((p - 1 - stride) / 2.0 for p in patch)
    rows, columns = values.shape
    low, high = (None, None) if ends is None else ends
    axes.imshow(
        values,
        cmap=colours,
        vmin=low,
        vmax=high,
        interpolation="nearest",
        extent=(left, left + columns * stride, top + rows * stride, top),
    )
    axes.set(xlim=(-0.5, image[1] - 0.5), ylim=(image[0] - 0.5, -0.5))
    _framed(axes)


def _framed(axes: Axes) -> None:
    """A thin frame, and no numbers."""
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color=FAINT, linewidth=0.6)
