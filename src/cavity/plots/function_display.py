"""The function of a single column, with its bands and the data."""

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from cavity import drawing
from cavity.drawing.axes import Axes
from cavity.learning.double_precision import in_double
from cavity.plots.base import AbstractDisplay, percent
from cavity.plots.curves import Curve, check_level, curves
from cavity.plots.subjects import check_no_pixels, subject_of, target_of
from cavity.report.figure_data import along_only_input
from cavity.report.figures import MOST_DATA, thinned
from cavity.report.subject import Subject


@dataclasses.dataclass(eq=False, repr=False)
class FunctionDisplay(AbstractDisplay):
    """A function of one column: its mean, a band of itself, a band of new values, and data.

    Made by `from_estimator`, or of arrays by `from_predictions`.

    Attributes:
        x: places along the column, numbers or dates, (n,).
        mean: predictive means, in the units of the target, (n,); of two classes the probability
            of the second.
        function: ends of the band of the function without noise, (2, n); None where there is none.
        values: ends of the band of new values, noise included, (2, n); None for classes.
        data_x: the column in the data, (N,).
        data_y: the target in the data, (N,); None where it was not given.
        inducing: inducing points, (M,); None for none.
        shares: probabilities of classes, (n, C), where there are more than two; None otherwise.
        classes: their names.
        level: share of the bands.
        x_name: name of the column.
        y_name: name of the target.
    """

    x: np.ndarray
    mean: np.ndarray
    function: np.ndarray | None = None
    values: np.ndarray | None = None
    data_x: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    data_y: np.ndarray | None = None
    inducing: np.ndarray | None = None
    shares: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    level: float = 0.9
    x_name: str = "x"
    y_name: str = "y"

    @classmethod
    @in_double
    def from_estimator(
        cls,
        model: object,
        X: object = None,
        y: object = None,
        *,
        target: object = None,
        level: float = 0.9,
        noise_variance: object = None,
        exposure: object = None,
        ax: object = None,
    ) -> "FunctionDisplay":
        """Draws the function of a model of one column.

        Args:
            model: a fitted estimator, a result of `cavity.fit` or `cavity.infer`, or a posterior.
            X: inputs, (n, 1), over whose range the function is drawn; None for those of the
                result, or for the range of the fit of an estimator.
            y: outputs or labels, (n,) or (n, P), which are drawn as points.
            target: name or place of the output, where there are several.
            level: share of both bands.
            noise_variance: known noise variances of the rows, (n,), where the fit had them.
            exposure: exposures of the rows, (n,), where the fit had them.
            ax: matplotlib's axes; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for what is no fitted model, and an `ax` that is no axes.
            NotFittedError: for an estimator before `fit`.
            ValueError: for models of several columns, with what to ask for; for models without
                such a picture, targets that are not there, and unusable data.
        """
        check_level(level)
        side = {"noise_variance": noise_variance, "exposure": exposure}
        subject = subject_of(model, "function", X, y, side=side)
        _check_one_column(subject)
        fitted, place = subject.fitted, target_of(subject.fitted, target)
        x = subject.encoded.X[:, 0]
        cut, inducing = along_only_input(fitted, x if len(x) else _range_of(subject))
        (curve,) = curves(subject, [cut], place, level)
        outputs = subject.encoded.y
        return cls(
            cut.places,
            curve.mean,
            curve.function,
            curve.values,
            cut.data if len(x) else np.zeros(0),
            None if outputs is None else outputs[:, place],
            inducing,
            curve.shares,
            fitted.classes,
            level,
            cut.column.name,
            y_name_of(subject, place),
        ).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        x: object,
        mean: object,
        *,
        function: object = None,
        values: object = None,
        data: tuple[ArrayLike, ArrayLike] | None = None,
        level: float = 0.9,
        names: tuple[str, str] = ("x", "y"),
        ax: object = None,
    ) -> "FunctionDisplay":
        """Draws a function of arrays.

        Args:
            x: places, (n,).
            mean: means there, (n,).
            function: ends of the band of the function, (2, n), or None.
            values: ends of the band of new values, (2, n), or None.
            data: a pair of inputs and outputs, (N,) each, or None.
            level: share of the bands, for the legend.
            names: of the column and of the target.
            ax: matplotlib's axes; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for an `ax` that is no axes.
        """
        inner, outer = (None if b is None else np.asarray(b) for b in (function, values))
        own = cls(np.asarray(x), np.asarray(mean), inner, outer, level=level)
        own.x_name, own.y_name = names
        if data is not None:
            own.data_x, own.data_y = map(np.asarray, data)
        return own.plot(ax)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        if self.shares is not None:
            drawing.class_areas(ax, self.x, self.shares, drawing.labels(self.classes, 18))
        else:
            draw_bands(ax, self.x, Curve(self.mean, self.function, self.values), self.level)
            rows = thinned(len(self.data_x), MOST_DATA)
            if len(rows) and self.data_y is not None:
                drawing.data(ax, self.data_x[rows], self.data_y[rows])
            elif len(rows):
                drawing.rug(ax, self.data_x[rows])
            if self.inducing is not None and len(self.inducing):
                drawing.inducing_points(ax, self.inducing)
        ax.set(xlabel=drawing.label(self.x_name), ylabel=drawing.label(self.y_name))
        drawing.space_dates(ax)
        self._legend()


def draw_bands(ax: Axes, x: np.ndarray, curve: Curve, level: float) -> None:
    """The mean of a curve and those of its bands that there are, named for a legend."""
    quantiles, words = four(curve), words_of(curve, level)
    drawing.bands(ax, x, curve.mean, quantiles, words)


def words_of(curve: Curve, level: float) -> tuple[str | None, str | None]:
    """Labels of the bands of new values and of the function; None for none."""
    share = percent(level)
    return (
        None if curve.values is None else f"{share} of new values",
        None if curve.function is None else f"{share} of the function",
    )


def four(curve: Curve) -> np.ndarray:
    """Ends of the outer band, of the inner one between them, (n, 4); the mean where none is."""
    none = np.stack([curve.mean, curve.mean])
    outer, inner = (none if band is None else band for band in (curve.values, curve.function))
    return np.column_stack([outer[0], inner[0], inner[1], outer[1]])


def y_name_of(subject: Subject, target: int) -> str:
    """The label of a target's axis: its name, or the probability of the second class."""
    classes = subject.fitted.classes
    if len(classes) == 2:
        return f"probability of {classes[-1]}"
    return "probability" if classes else subject.fitted.targets[target]


def _check_one_column(subject: Subject) -> None:
    """Refuses models of several columns, and of one that is no number.

    Raises:
        ValueError: with what to ask for.
    """
    check_no_pixels(subject.fitted, "function")
    names = [column.name for column in subject.fitted.schema.inputs]
    if len(names) > 1:
        listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        raise ValueError(
            f"cavity.plots.function is for a model of one column, and this one has {len(names)} "
            f"({listed}): draw a slice along one with cavity.plots.slices(model, X, "
            f"columns=[{names[0]!r}]), the others at typical values (on the command line with "
            f"the kind slices and --column {names[0]})"
        )
    (column,) = subject.fitted.schema.inputs
    if column.kind != "numeric":
        raise ValueError(
            f"the column {column.name!r} holds {column.kind} values: "
            "cavity.plots.slices(model, X) draws the function at each of them"
        )


def _range_of(subject: Subject) -> np.ndarray:
    """The ends of the rows of the fit along the only column.

    Raises:
        ValueError: where they are not known.
    """
    schema = subject.fitted.schema
    known = schema.ranges.get(schema.inputs[0].name)
    if known is None:
        raise ValueError(
            "give X, rows over whose range the function is drawn: the model does not hold the "
            "range of its own"
        )
    return np.array([known.low, known.high])


function = FunctionDisplay.from_estimator
