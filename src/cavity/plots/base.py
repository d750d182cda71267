"""Displays: numbers of a picture, which is drawn from them on any axes."""

import abc
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from cavity.drawing.axes import Axes, Figure, SubFigure
from cavity.numerics.text import plural

D = TypeVar("D", bound="AbstractDisplay")

MOST_ABREAST = 3  # panels beside each other


class AbstractDisplay(abc.ABC):
    """Numbers of a picture, which `plot` draws, as displays of scikit-learn.

    To implement:
        `_draw`, and `panels` where there are several; `shape` and `size` where others suit.

    Attributes:
        ax_: matplotlib's axes of the picture; of several panels the first.
        axes_: the axes of all panels, (n,).
        figure_: the figure that they are in.
    """

    ax_: Axes
    axes_: np.ndarray
    figure_: Figure | SubFigure
    _own = False

    @property
    def panels(self) -> int:
        """The number of panels."""
        return 1

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a panel of a new figure, in inches."""
        return (6.4, 4.2) if self.panels == 1 else (3.4, 2.8)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of panels."""
        count = self.panels
        abreast = 2 if count == 4 else min(count, MOST_ABREAST)
        return -(-count // abreast), abreast

    def plot(self: D, ax: object = None) -> D:
        """Draws the picture.

        Args:
            ax: matplotlib's axes to draw on, which several panels divide among themselves; an
                array of axes, one for each panel; or None for a new figure of pyplot.

        Returns:
            The display itself.

        Raises:
            TypeError: for anything else than axes.
            ValueError: for another number of axes than there are panels.
        """
        self._own = ax is None
        axes = self._new() if ax is None else panels_on(ax, self.panels, self.shape)
        self.axes_ = np.array(axes, object)
        self.ax_, self.figure_ = axes[0], axes[0].figure
        self._draw(axes)
        return self

    def _new(self) -> list[Axes]:
        """The panels of a new figure."""
        from matplotlib import pyplot

        (height, width), (w, h) = self.shape, self.size
        _, grid = pyplot.subplots(
            height, width, squeeze=False, figsize=(w * width, h * height), layout="constrained"
        )
        axes = [*grid.ravel()]
        for left in axes[self.panels :]:
            left.remove()
        return axes[: self.panels]

    def _legend(self) -> None:
        """A legend above all panels of a figure of our own, otherwise within the first."""
        handles, words = self.ax_.get_legend_handles_labels()
        if handles and self._own:
            room = int(self.figure_.get_figwidth() / 2.1)  # type: ignore[union-attr]
            count = min(len(words), max(room, 2))
            self.figure_.legend(handles, words, loc="outside upper center", ncols=count)
        elif handles:
            self.ax_.legend(fontsize="small")

    @abc.abstractmethod
    def _draw(self, axes: list[Axes]) -> None:
        """Draws on so many axes as there are panels."""


def panels_on(ax: object, count: int, shape: tuple[int, int]) -> list[Axes]:
    """So many panels on axes of the caller.

    Args:
        ax: axes, or an array of them.
        count: the panels.
        shape: rows and columns of panels where one is divided.

    Raises:
        TypeError: for anything else than axes.
        ValueError: for another number of axes.
    """
    from matplotlib.axes import Axes

    given = [*np.ravel(np.asarray(ax, object))]
    strange = [each for each in given if not isinstance(each, Axes)]
    if strange or not given:
        kind = type(strange[0] if strange else ax).__name__
        raise TypeError(
            f"ax must be matplotlib's axes, such as those of plt.subplots(), given {kind}"
        )
    if len(given) == count:
        return given
    if len(given) > 1:
        raise ValueError(
            f"the picture has {plural(count, 'panel')}, and ax holds {len(given)} axes: give one, "
            "which they divide among themselves, or as many"
        )
    return _divided(given[0], count, shape)


def _divided(ax: Axes, count: int, shape: tuple[int, int]) -> list[Axes]:
    """Panels in the place of one axes, which itself shows nothing any more."""
    from matplotlib.gridspec import GridSpecFromSubplotSpec

    ax.set_axis_off()
    place, figure = ax.get_subplotspec(), ax.figure
    if place is not None:
        cells = GridSpecFromSubplotSpec(*shape, subplot_spec=place, hspace=0.5, wspace=0.35)
        return [figure.add_subplot(cells[divmod(i, shape[1])]) for i in range(count)]
    high, wide = shape
    each = [divmod(i, wide) for i in range(count)]
    size = 0.82 / wide, 0.74 / high
    return [ax.inset_axes((c / wide, 1.0 - (r + 0.9) / high, *size)) for r, c in each]


def on_one_scale(axes: Sequence[Axes]) -> None:
    """The same limits of the vertical axis for all panels."""
    ends = np.array([ax.get_ylim() for ax in axes])
    for ax in axes:
        ax.set_ylim(ends[:, 0].min(), ends[:, 1].max())


def percent(level: float) -> str:
    """A level in words: "90 %"."""
    return f"{100 * level:.4g} %"
