"""Pictures on matplotlib's axes, from plain arrays.

Each function draws on the axes that it is given and returns nothing:

    from cavity import drawing

    fig, ax = plt.subplots()
    drawing.bands(ax, x, mean, quantiles)
    drawing.data(ax, x_train, y_train)

`cavity.plots` makes them from models. Fonts, sizes and axes are those of the caller's matplotlib
settings, and what is drawn can be changed afterwards. `STYLE` holds the settings of reports, for
`matplotlib.rc_context(STYLE)`.
"""

from cavity.drawing.classes import (
    class_areas,
    class_bars,
    class_histograms,
    confusion,
    reliability,
    roc,
)
from cavity.drawing.columns import MOST_NAMES, coefficients, relevance
from cavity.drawing.function import BANDS, bands, data, inducing_points, levels, point_gains, rug
from cavity.drawing.images import pixels, places
from cavity.drawing.latent import MOST_DEVIATIONS, embedding
from cavity.drawing.observed import (
    MOST_BARS,
    MOST_POINTS,
    predictions,
    residual_histogram,
    residuals,
)
from cavity.drawing.style import (
    ACCENT,
    COLOURS,
    DASHES,
    FAINT,
    INK,
    MODEL,
    STYLE,
    label,
    labels,
    legend_above,
    space_dates,
)
from cavity.drawing.time_series import forecast, moves, states, transition
from cavity.drawing.uncertainty import calibration, probability_transform

__all__ = [
    "ACCENT",
    "BANDS",
    "COLOURS",
    "DASHES",
    "FAINT",
    "INK",
    "MODEL",
    "MOST_BARS",
    "MOST_DEVIATIONS",
    "MOST_NAMES",
    "MOST_POINTS",
    "STYLE",
    "bands",
    "calibration",
    "class_areas",
    "class_bars",
    "class_histograms",
    "coefficients",
    "confusion",
    "data",
    "embedding",
    "forecast",
    "inducing_points",
    "label",
    "labels",
    "legend_above",
    "levels",
    "moves",
    "pixels",
    "places",
    "point_gains",
    "predictions",
    "probability_transform",
    "relevance",
    "reliability",
    "residual_histogram",
    "residuals",
    "roc",
    "rug",
    "space_dates",
    "states",
    "transition",
]


def __dir__() -> list[str]:
    return __all__
