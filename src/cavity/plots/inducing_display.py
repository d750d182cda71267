"""Inducing points beside the data and the function."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from cavity import drawing
from cavity.drawing import ACCENT, FAINT
from cavity.drawing.axes import Axes
from cavity.learning.double_precision import in_double
from cavity.plots.base import AbstractDisplay
from cavity.plots.function_display import FunctionDisplay
from cavity.plots.subjects import check_no_pixels, listed, place_among, subject_of
from cavity.report.figure_data import inducing_points as points_of
from cavity.report.figures import MOST_DATA, thinned
from cavity.report.subject import Subject


@dataclasses.dataclass(eq=False, repr=False)
class InducingDisplay(AbstractDisplay):
    """Inducing points: on the function of one column, or in two columns among the data.

    Made by `from_estimator`.

    Attributes:
        points: inducing points in the columns that are shown, in their units, (M, 1) or (M, 2).
        data: the data there, (N, 1) or (N, 2); without rows where none were given.
        names: of the columns.
        function: the function, where there is one column; None otherwise.
    """

    points: np.ndarray
    data: np.ndarray
    names: Sequence[str]
    function: FunctionDisplay | None = None

    @classmethod
    @in_double
    def from_estimator(
        cls,
        model: object,
        X: object = None,
        *,
        columns: object = None,
        target: object = None,
        ax: object = None,
    ) -> "InducingDisplay":
        """Draws the inducing points of a model, of a deep one those of its first layer.

        Args:
            model: a fitted estimator, a result of `cavity.fit` or `cavity.infer`, or a posterior.
            X: inputs, (n, D), drawn beside them; None for those of a result, or for none.
            columns: names or places of the two columns to draw, where there are more.
            target: name or place of the output whose function is drawn, where there is one
                column and several outputs.
            ax: matplotlib's axes; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for what is no fitted model, and an `ax` that is no axes.
            NotFittedError: for an estimator before `fit`.
            ValueError: for models without inducing points; for more than two columns, with what
                to ask for; for columns that are not there, and unusable data.
        """
        subject = subject_of(model, "inducing_points", X)
        check_no_pixels(subject.fitted, "inducing_points")
        schema, Z = subject.fitted.schema, points_of(subject.fitted)
        if Z is None:
            raise ValueError(
                "this model has no inducing points: it is a full Gaussian process, or sees the "
                "data through other variables; n_inducing asks for some"
            )
        if len(schema.inputs) == 1 and schema.inputs[0].kind == "numeric":
            whole = FunctionDisplay.from_estimator(model, X, target=target, ax=ax)
            found = cls(Z, subject.encoded.X, [whole.x_name], whole)
            found.ax_, found.axes_, found.figure_ = whole.ax_, whole.axes_, whole.figure_
            return found
        pair = _pair(subject, columns)
        names = [schema.features[i] for i in pair]
        return cls(Z[:, pair], subject.encoded.X[:, pair], names).plot(ax)

    def plot(self, ax: object = None) -> "InducingDisplay":
        """Draws the picture; see `AbstractDisplay.plot`."""
        if self.function is None:
            return super().plot(ax)
        self.function.plot(ax)
        self.ax_, self.axes_ = self.function.ax_, self.function.axes_
        self.figure_ = self.function.figure_
        return self

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        rows = self.data[thinned(len(self.data), MOST_DATA)]
        if len(rows):
            ax.scatter(*rows.T[:2], s=12, color=FAINT, alpha=0.6, linewidths=0, label="data")
        x, y = self.points.T
        ax.scatter(x, y, s=36, marker="v", color=ACCENT, linewidths=0, label="inducing points")
        ax.set(xlabel=drawing.label(self.names[0]), ylabel=drawing.label(self.names[1]))
        drawing.legend_above(ax)


def _pair(subject: Subject, columns: object) -> list[int]:
    """The places of two features.

    Raises:
        ValueError: where two have to be chosen, and for others that are not there.
    """
    features = subject.fitted.schema.features
    if columns is None and len(features) > 2:
        raise ValueError(
            f"inducing points are drawn in two columns, and the model has {len(features)}: say "
            f"which, such as columns={[*features[:2]]}"
        )
    asked = features if columns is None else columns
    asked = listed(asked)
    if len(asked) != 2:
        raise ValueError(f"inducing points are drawn in two columns, given {len(asked)}")
    return [place_among("column", name, features) for name in asked]


inducing_points = InducingDisplay.from_estimator
