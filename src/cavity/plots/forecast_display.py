"""The forecast of a time series, behind its last rows."""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from cavity import drawing
from cavity.drawing import MODEL
from cavity.drawing.axes import Axes
from cavity.drawing.style import ink
from cavity.estimators.forecaster import GPForecaster
from cavity.estimators.frames import Index
from cavity.estimators.latent_map import Standardised
from cavity.estimators.time_map import TimeMap
from cavity.estimators.times import following
from cavity.learning.double_precision import in_double
from cavity.plots.base import AbstractDisplay, percent
from cavity.plots.curves import check_level
from cavity.plots.subjects import checked, data_of, place_among, posterior_of

STEPS, PAST = 20, 100  # ahead, and rows before them, where no number is given


class _Rows(NamedTuple):
    """Rows of a series, and forecasts of one output of it."""

    past: np.ndarray
    mean: np.ndarray
    values: np.ndarray
    times: np.ndarray | None
    name: str


@dataclasses.dataclass(eq=False, repr=False)
class ForecastDisplay(AbstractDisplay):
    """An output of a time series: its last rows, and the forecast of the next.

    Made by `from_estimator`.

    Attributes:
        past_times: times of the last rows, or their numbers from 1, (T,).
        past: the output there, (T,), NaN where it is missing.
        times: times of the forecast, or numbers of its rows, (n,).
        mean: predictive means, in the units of the output, (n,).
        values: ends of the band of new values, noise included, (2, n).
        observed: what came, (n,), NaN where it did not; None where it was not given.
        level: share of the band.
        name: of the output.
        dated: whether times are dates.
    """

    past_times: np.ndarray
    past: np.ndarray
    times: np.ndarray
    mean: np.ndarray
    values: np.ndarray
    observed: np.ndarray | None = None
    level: float = 0.9
    name: str = "y"
    dated: bool = False

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 7.2, 3.6

    @classmethod
    @in_double
    def from_estimator(
        cls,
        model: object,
        fh: object = STEPS,
        X: object = None,
        y: object = None,
        *,
        target: object = None,
        series: object = None,
        n_past: int = PAST,
        level: float = 0.9,
        ax: object = None,
    ) -> "ForecastDisplay":
        """Draws the forecast of an output behind the last rows of the fit.

        Args:
            model: a fitted `GPForecaster`, or a result of `cavity.fit` of a `GPSSM`.
            fh: steps ahead.
            X: controls of these steps, where the fit had some.
            y: what came, (n,) or (n, P), drawn as points; None for nothing.
            target: name or place of the output, where there are several.
            series: label or place of the series, where the fit had labels.
            n_past: rows of the fit that are drawn, at the most.
            level: share of the band.
            ax: matplotlib's axes; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for what is no fitted model, and an `ax` that is no axes.
            NotFittedError: for an estimator before `fit`.
            ValueError: for models that are no time series, outputs and series that are not there,
                and unusable horizons and controls.
        """
        check_level(level)
        checked(model, "forecast")
        if not isinstance(fh, int | np.integer) or fh < 1 or n_past < 0:
            raise ValueError(
                "fh is the number of steps, from 1, and n_past at least 0; given "
                f"{fh!r}, {n_past!r}"
            )
        ends = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
        which = target, series
        rows = _rows_of(model, int(fh), X, which, ends)
        came, dated = None, rows.times is not None
        if y is not None:
            given = np.atleast_2d(np.asarray(y, float).T).T
            column = place_among("output", target, _names(model)) if given.shape[1] > 1 else 0
            came = np.full(len(rows.mean), np.nan)
            came[: len(given)] = given[: len(came), column]
        count = len(rows.past)
        times = np.arange(1, count + fh + 1) if rows.times is None else rows.times
        first = max(count - n_past, 0)
        return cls(
            times[first:count],
            rows.past[first:],
            times[count:],
            rows.mean,
            rows.values,
            came,
            level,
            rows.name,
            dated,
        ).plot(ax)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        if len(self.past):
            ax.plot(
                self.past_times,
                self.past,
                ".-",
                color=ink(),
                alpha=0.6,
                linewidth=0.8,
                markersize=3,
                label="rows of the fit",
            )
        word = f"{percent(self.level)} of new values"
        ax.fill_between(self.times, *self.values, color=MODEL, alpha=0.25, linewidth=0, label=word)
        ax.plot(self.times, self.mean, color=MODEL, linewidth=1.8, label="mean")
        if self.observed is not None:
            ax.plot(
                self.times, self.observed, ".", color=drawing.ACCENT, markersize=5, label="came"
            )
        ax.set(xlabel="" if self.dated else "row", ylabel=drawing.label(self.name))
        drawing.space_dates(ax)
        self._legend()


@functools.singledispatch
def _names(model: object) -> list[str]:
    """The names of the outputs."""
    count = posterior_of(model).outputs
    return [f"y{i}" for i in range(count)] if count > 1 else ["y"]


@_names.register(GPForecaster)
def _(model: GPForecaster) -> list[str]:
    return [*model.rows_and_names[1]]


def _place(model: object, target: object) -> int:
    """The place of an output.

    Raises:
        ValueError: where one of several has to be chosen, and for one that is not there.
    """
    names = _names(model)
    if target is None and len(names) > 1:
        raise ValueError(
            f"the series has {len(names)} outputs: choose one, such as target={names[0]!r}; there "
            f"are {', '.join(names[:20])}"
        )
    return 0 if target is None else place_among("output", target, names)


@functools.singledispatch
def _rows_of(
    model: object, steps: int, X: object, which: tuple[object, object], ends: np.ndarray
) -> _Rows:
    """The rows of a result, or of a fitted forecaster."""
    posterior, place = posterior_of(model), _place(model, which[0])
    if which[1] is not None:
        raise ValueError("series are labels of a GPForecaster: leave series out")
    every = Standardised(np.zeros(posterior.outputs), np.ones(posterior.outputs))
    controls = Standardised(np.zeros(posterior.n_inputs), np.ones(posterior.n_inputs))
    told = TimeMap(posterior, every, controls).forecast(
        steps, None if X is None else np.asarray(X, float)
    )
    mean, band = told.moments().mean[:, place], told.quantiles(ends)[:, place]
    data, past = data_of(model), np.zeros(0)
    if data is not None:
        rows = np.asarray(data.rows.y, float)[: int(data.length)]
        past = rows.reshape(len(rows), -1)[:, place]
    return _Rows(past, mean, band.T, None, _names(model)[place])


@_rows_of.register(GPForecaster)
def _(
    model: GPForecaster, steps: int, X: object, which: tuple[object, object], ends: np.ndarray
) -> _Rows:
    target, series = which
    place, data = _place(model, target), model.rows_and_names[0]
    past, horizon = data.y, np.arange(1, steps + 1)
    mean = model.predict(horizon, X)
    band = model.predict_quantiles(horizon, X, ends)
    name = _names(model)[place]
    if data.names is not None:
        labels = [*map(str, data.names)]
        if series is None and len(labels) > 1:
            raise ValueError(
                f"the fit had {len(labels)} series: choose one, such as series={labels[0]!r}"
            )
        which_one = 0 if series is None else place_among("series", series, labels)
        past = past[np.asarray(data.series) == which_one]
        mean, band, name = mean[which_one], band[which_one], f"{name}, {labels[which_one]}"
    elif series is not None:
        raise ValueError("the fit had no labels of series: leave series out")
    if not data.single:
        mean, band = mean[:, place], band[:, place]
    return _Rows(past[:, place], mean, band.T, _times(data.index, steps), name)


def _times(index: Index | None, steps: int) -> np.ndarray | None:
    """Dates of the rows of a fit and of the next; None without, and where they cannot go on."""
    after = None if index is None else following(index, steps)
    if index is None or after is None:
        return None
    if type(index).__name__ == "PeriodIndex":
        index, after = index.to_timestamp(), after.to_timestamp()
    both = np.concatenate([np.asarray(part) for part in (index, after)])
    return both if np.issubdtype(both.dtype, np.datetime64) else None


forecast = ForecastDisplay.from_estimator
