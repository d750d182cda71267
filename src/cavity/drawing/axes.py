"""Types of matplotlib, for checkers of types; it is imported when something is drawn."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
else:
    Axes = Figure = SubFigure = Any

__all__ = ["Axes", "Figure", "SubFigure"]
