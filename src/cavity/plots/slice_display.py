"""A model along one of several columns each: slices, and partial effects."""

import dataclasses
from typing import Any

import numpy as np

from cavity import drawing
from cavity.drawing.axes import Axes
from cavity.learning.double_precision import in_double
from cavity.plots.base import AbstractDisplay, on_one_scale
from cavity.plots.curves import Curve, check_level, curves, partial_curves
from cavity.plots.function_display import draw_bands, four, y_name_of
from cavity.plots.subjects import check_no_pixels, listed, place_among, subject_of, target_of
from cavity.report.figure_data import order_of_swings
from cavity.report.figures import MOST_TICKS, thinned
from cavity.report.slices import Slice
from cavity.report.slices import slices as slices_along
from cavity.report.subject import Subject

MOST_SLICES = 8  # drawn without being asked for
POINTS, FEW_POINTS = 60, 25  # along a numeric column; of an average over rows


@dataclasses.dataclass(eq=False, repr=False)
class SliceDisplay(AbstractDisplay):
    """A target along one column each.

    Made by `from_estimator`, also as `cavity.plots.slices` and `cavity.plots.partial_effects`.

    Attributes:
        cuts: the slices, one for each panel: `cuts[i].column.name` is its column, `cuts[i].places`
            the values of a numeric one, (n,), `cuts[i].levels` the names of others.
        curves: the target along each: `mean` (n,), `function` and `values`, ends of bands (2, n)
            or None, and `shares` (n, C) of more than two classes.
        classes: names of classes; none of a regression.
        level: share of the bands.
        y_name: name of the target.
        averaged: whether the others keep the values of the rows, and predictions are averaged.
    """

    cuts: list[Slice]
    curves: list[Curve]
    classes: tuple[str, ...] = ()
    level: float = 0.9
    y_name: str = "y"
    averaged: bool = False

    @classmethod
    @in_double
    def from_estimator(
        cls,
        model: object,
        X: object = None,
        *,
        columns: object = None,
        kind: str = "typical",
        target: object = None,
        level: float = 0.9,
        noise_variance: object = None,
        exposure: object = None,
        ax: object = None,
    ) -> "SliceDisplay":
        """Draws a model along one column at a time, in a panel for each.

        Args:
            model: a fitted estimator, a result of `cavity.fit` or `cavity.infer`, or a posterior.
            X: inputs, (n, D), such as those of the fit; None for those of a result.
            columns: names or places of the columns to draw; None for all, up to eight.
            kind: "typical" holds the others at their median or most frequent value; "partial"
                averages over up to 100 of the rows with their own values of the others.
            target: name or place of the output, where there are several.
            level: share of the bands. Of "partial" there is one, of the averaged function.
            noise_variance: known noise variances of the rows, (n,), where the fit had them.
            exposure: exposures of the rows, (n,), where the fit had them.
            ax: matplotlib's axes, which the panels divide among themselves, or an array with one
                for each panel; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for what is no fitted model, and an `ax` that is no axes.
            NotFittedError: for an estimator before `fit`.
            ValueError: for more than eight columns, with those to ask for; for columns and
                targets that are not there, for models without such a picture and for unusable
                data.
        """
        check_level(level)
        if kind not in ("typical", "partial"):
            raise ValueError(f"kind must be 'typical' or 'partial', given {kind!r}")
        called = "slices" if kind == "typical" else "partial_effects"
        side = {"noise_variance": noise_variance, "exposure": exposure}
        subject = subject_of(model, called, X, needs="X", side=side)
        check_no_pixels(subject.fitted, called)
        place = target_of(subject.fitted, target)
        cuts = _chosen(subject, columns, place, POINTS if kind == "typical" else FEW_POINTS)
        draw = curves if kind == "typical" else partial_curves
        found, name = draw(subject, cuts, place, level), y_name_of(subject, place)
        classes = subject.fitted.classes
        return cls(cuts, found, classes, level, name, kind == "partial").plot(ax)

    @property
    def panels(self) -> int:
        """A panel for each column."""
        return len(self.cuts)

    def _draw(self, axes: list[Axes]) -> None:
        names = drawing.labels([cut.column.name for cut in self.cuts], 30)
        for ax, cut, curve, name in zip(axes, self.cuts, self.curves, names, strict=True):
            self._panel(ax, cut, curve)
            ax.set_xlabel(name)
        on_one_scale(axes)
        for ax, cut in zip(axes, self.cuts, strict=True):
            if not cut.levels and len(cut.data):
                drawing.rug(ax, cut.data[thinned(len(cut.data), MOST_TICKS)])
            drawing.space_dates(ax)
        of = "average " if self.averaged else ""
        for ax in axes[:: self.shape[1]]:
            ax.set_ylabel(of + drawing.label(self.y_name, 24))
        self._legend()

    def _panel(self, ax: Axes, cut: Slice, curve: Curve) -> None:
        """One column."""
        if curve.shares is not None:
            short = drawing.labels(self.classes, 18)
            if cut.levels:
                drawing.class_bars(ax, cut.levels, curve.shares, short)
            else:
                drawing.class_areas(ax, cut.places, curve.shares, short)
        elif cut.levels:
            drawing.levels(ax, cut.levels, curve.mean, four(curve))
        else:
            draw_bands(ax, cut.places, curve, self.level)


def _chosen(subject: Subject, columns: object, target: int, points: int) -> list[Slice]:
    """Slices along the columns that were asked for, or along all.

    Raises:
        ValueError: for columns that are not there, and for too many.
    """
    schema, X = subject.fitted.schema, subject.encoded.X
    names = [column.name for column in schema.inputs]
    if columns is not None:
        places = [place_among("column", name, names) for name in listed(columns)]
        if not places:
            raise ValueError("columns are none: name at least one")
        return slices_along(schema, X, points, [names[i] for i in places])
    if len(names) > MOST_SLICES:
        coarse = slices_along(schema, X, 5)
        best = [coarse[i].column.name for i in _order(subject, coarse, target)[:3]]
        raise ValueError(
            f"the model has {len(names)} columns, too many to draw all: say which, such as "
            f"columns={best or names[:3]}, along which the prediction moves most"
        )
    cuts = slices_along(schema, X, points)
    if not cuts:
        raise ValueError(
            "slices need a column with at least two different values in X, and there is none"
        )
    return cuts


def _order(subject: Subject, coarse: list[Slice], target: int) -> list[int]:
    """Slices in the order in which they move the prediction of a target."""
    if not coarse:
        return []
    if len(subject.fitted.classes) > 2:
        found = curves(subject, coarse, target, 0.9)
        moved = [-float(np.max(np.ptp(np.asarray(each.shares), axis=0))) for each in found]
        return [*map(int, np.argsort(moved, kind="stable"))]
    return [*map(int, order_of_swings(coarse, subject.predict)[:, target])]


slices = SliceDisplay.from_estimator


def partial_effects(model: object, X: object = None, **options: Any) -> SliceDisplay:
    """Draws predictions along one column each, averaged over rows; see `SliceDisplay`.

    Args:
        model: a fitted estimator, a result of `cavity.fit` or `cavity.infer`, or a posterior.
        X: rows to average over, (n, D); None for those of a result.
        **options: those of `SliceDisplay.from_estimator` but `kind`.

    Returns:
        The display, drawn.

    Raises:
        TypeError: for what is no fitted model, and an `ax` that is no axes.
        ValueError: as `SliceDisplay.from_estimator`.
    """
    return SliceDisplay.from_estimator(model, X, **options, kind="partial")
