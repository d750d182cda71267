"""Predictions beside what was observed: predicted values, residuals, calibration."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from cavity import drawing
from cavity.drawing import BANDS
from cavity.drawing.axes import Axes
from cavity.learning.double_precision import in_double
from cavity.plots.base import AbstractDisplay
from cavity.plots.subjects import place_among, subject_of, target_of
from cavity.report.class_figures import ClassOutcome
from cavity.report.figure_data import coverage_of
from cavity.report.outcomes import Outcome
from cavity.report.subject import Subject


def outcome_of(
    model: object, kind: str, X: object, y: object, target: object, side: Mapping[str, object]
) -> tuple[Outcome, str]:
    """A target of rows beside the predictions of a model, and its name.

    Raises:
        ValueError: for classes, which have other pictures, and as `subject_of`.
    """
    subject = subject_of(model, kind, X, y, needs="y", side=side)
    classes = subject.fitted.classes
    if classes:
        raise ValueError(
            f"cavity.plots.{kind} is of numbers, and this model tells the classes "
            f"{', '.join(classes[:5])} apart: cavity.plots.calibration is of their probabilities, "
            "and ConfusionMatrixDisplay of scikit-learn of the decisions"
        )
    place = target_of(subject.fitted, target)
    return subject.outcomes[place], subject.fitted.targets[place]


def normal_outcome(y_true: object, y_pred: object, y_std: object) -> Outcome:
    """Observed values beside normal predictions.

    Raises:
        ValueError: for arrays of different lengths.
    """
    from scipy.special import ndtri

    each = [np.asarray(a, float).ravel() for a in (y_true, y_pred, y_std)]
    if len({*map(len, each)}) > 1:
        raise ValueError(
            f"y_true, y_pred and y_std must be of one length, given {[*map(len, each)]}"
        )
    observed, mean, std = each
    quantiles = mean[:, None] + std[:, None] * ndtri(np.array(BANDS))
    return Outcome(observed, mean, std, quantiles, np.arange(1, len(mean) + 1))


@dataclasses.dataclass(eq=False, repr=False)
class PredictionDisplay(AbstractDisplay):
    """Predicted against observed values.

    Made by `from_estimator` or `from_predictions`.

    Attributes:
        observed: outputs, in their units, (N,).
        mean: predictive means, (N,).
        lower: lower ends of 95 % intervals of new values, (N,), drawn for up to 150 rows.
        upper: upper ends, (N,).
        name: of the output.
    """

    observed: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    name: str = ""

    @classmethod
    @in_double
    def from_estimator(
        cls,
        model: object,
        X: object = None,
        y: object = None,
        *,
        target: object = None,
        noise_variance: object = None,
        exposure: object = None,
        ax: object = None,
    ) -> "PredictionDisplay":
        """Draws predicted against observed values.

        Args:
            model: a fitted estimator, a result of `cavity.fit` or `cavity.infer`, or a posterior.
            X: inputs, (n, D), best of rows that the fit has not seen; None for those of a result.
            y: outputs, (n,) or (n, P).
            target: name or place of the output, where there are several.
            noise_variance: known noise variances of the rows, (n,), where the fit had them.
            exposure: exposures of the rows, (n,), where the fit had them.
            ax: matplotlib's axes; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for what is no fitted model, and an `ax` that is no axes.
            NotFittedError: for an estimator before `fit`.
            ValueError: for models of classes, targets that are not there, and unusable data.
        """
        side = {"noise_variance": noise_variance, "exposure": exposure}
        outcome, name = outcome_of(model, "predictions", X, y, target, side=side)
        return cls._of(outcome, name).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: object,
        y_pred: object,
        y_std: object = None,
        *,
        name: str = "",
        ax: object = None,
    ) -> "PredictionDisplay":
        """Draws predicted against observed values of arrays.

        Args:
            y_true: observed outputs, (n,).
            y_pred: predictive means, (n,).
            y_std: standard deviations of normal predictions, (n,); None for no intervals.
            name: of the output.
            ax: matplotlib's axes; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for an `ax` that is no axes.
            ValueError: for arrays of different lengths.
        """
        std = np.full(np.asarray(y_pred).shape, np.nan) if y_std is None else y_std
        return cls._of(normal_outcome(y_true, y_pred, std), name).plot(ax)

    @classmethod
    def _of(cls, outcome: Outcome, name: str) -> "PredictionDisplay":
        ends = outcome.quantiles[:, 0], outcome.quantiles[:, -1]
        return cls(outcome.observed, outcome.mean, *ends, name)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        drawing.predictions(ax, self.observed, self.mean, self.lower, self.upper)
        of = f" {drawing.label(self.name)}" if self.name else ""
        ax.set(xlabel=f"observed{of}", ylabel=f"predicted{of}")
        drawing.legend_above(ax)


@dataclasses.dataclass(eq=False, repr=False)
class ResidualDisplay(AbstractDisplay):
    """Standardised residuals against predictions.

    Made by `from_estimator` or `from_predictions`.

    Attributes:
        mean: predictive means, in the units of the output, (N,).
        standardised: observed less predicted values over the predictive deviation of each, (N,);
            where predictions are not normal, the normal deviate of the same probability.
        name: of the output.
    """

    mean: np.ndarray
    standardised: np.ndarray
    name: str = ""

    @classmethod
    @in_double
    def from_estimator(
        cls,
        model: object,
        X: object = None,
        y: object = None,
        *,
        target: object = None,
        noise_variance: object = None,
        exposure: object = None,
        ax: object = None,
    ) -> "ResidualDisplay":
        """Draws standardised residuals against predictions.

        Arguments, result and errors are those of `PredictionDisplay.from_estimator`.
        """
        side = {"noise_variance": noise_variance, "exposure": exposure}
        outcome, name = outcome_of(model, "residuals", X, y, target, side=side)
        return cls(outcome.mean, outcome.residuals, name).plot(ax)

    @classmethod
    def from_predictions(
        cls, y_true: object, y_pred: object, y_std: object, *, name: str = "", ax: object = None
    ) -> "ResidualDisplay":
        """Draws standardised residuals of arrays.

        Arguments, result and errors are those of `PredictionDisplay.from_predictions`.
        """
        outcome = normal_outcome(y_true, y_pred, y_std)
        return cls(outcome.mean, outcome.residuals, name).plot(ax)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        drawing.residuals(ax, self.mean, self.standardised)
        of = f" {drawing.label(self.name)}" if self.name else ""
        ax.set_xlabel(f"predicted{of}")
        drawing.legend_above(ax)


@dataclasses.dataclass(eq=False, repr=False)
class CalibrationDisplay(AbstractDisplay):
    """Calibration: coverage of intervals, or frequencies against probabilities of a class.

    Made by `from_estimator` or `from_predictions`.

    Attributes:
        stated: nominal coverage of central intervals, (L,); of a class the mean probability of
            each bin of rows, (B,).
        observed: the share of rows inside; of a class the share for which it came true.
        lower: shares between which chance alone leaves a calibrated model, with 95 %.
        upper: the upper end of these.
        name: of the output, or of the class.
        of_class: whether it is of a class.
    """

    stated: np.ndarray
    observed: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    name: str = ""
    of_class: bool = False

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 4.8, 4.6

    @classmethod
    @in_double
    def from_estimator(
        cls,
        model: object,
        X: object = None,
        y: object = None,
        *,
        target: object = None,
        noise_variance: object = None,
        exposure: object = None,
        ax: object = None,
    ) -> "CalibrationDisplay":
        """Draws how far the stated uncertainty of a model is right.

        Args:
            model: a fitted estimator, a result of `cavity.fit` or `cavity.infer`, or a posterior.
            X: inputs, (n, D), best of rows that the fit has not seen; None for those of a result.
            y: outputs or labels.
            target: name or place of the output where there are several; of classes the class, by
                default the second of two.
            noise_variance: known noise variances of the rows, (n,), where the fit had them.
            exposure: exposures of the rows, (n,), where the fit had them.
            ax: matplotlib's axes; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for what is no fitted model, and an `ax` that is no axes.
            NotFittedError: for an estimator before `fit`.
            ValueError: for models without predictions of rows, targets or classes that are not
                there, and unusable data.
        """
        side = {"noise_variance": noise_variance, "exposure": exposure}
        subject = subject_of(model, "calibration", X, y, needs="y", side=side)
        if subject.fitted.classes:
            place = _class_of(subject, target)
            return cls._of_class(subject.class_outcome, place).plot(ax)
        place = target_of(subject.fitted, target)
        return cls._of_target(subject.outcomes[place], subject.fitted.targets[place]).plot(ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: object,
        y_pred: object,
        y_std: object = None,
        *,
        name: str = "",
        ax: object = None,
    ) -> "CalibrationDisplay":
        """Draws how far stated uncertainty is right, from arrays.

        Args:
            y_true: observed outputs, (n,); or, without `y_std`, whether a class came true.
            y_pred: predictive means, (n,); or, without `y_std`, probabilities of the class.
            y_std: standard deviations of normal predictions, (n,); None for probabilities.
            name: of the output or the class.
            ax: matplotlib's axes; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for an `ax` that is no axes.
            ValueError: for arrays of different lengths, and for what is no probability.
        """
        if y_std is not None:
            return cls._of_target(normal_outcome(y_true, y_pred, y_std), name).plot(ax)
        labels, chance = np.asarray(y_true).ravel(), np.asarray(y_pred, float).ravel()
        if len(labels) != len(chance):
            raise ValueError(f"y_true has {len(labels)} entries, y_pred has {len(chance)}")
        if np.any((chance < 0.0) | (chance > 1.0)) or not np.isin(labels, (0, 1)).all():
            raise ValueError(
                "without y_std y_pred holds probabilities and y_true 0 or 1, or truth values: "
                "give y_std for predictions of numbers"
            )
        with np.errstate(divide="ignore"):
            both = np.log(np.stack([1.0 - chance, chance], axis=1))
        return cls._of_class(ClassOutcome(labels.astype(int), both, ("", name)), 1).plot(ax)

    @classmethod
    def _of_target(cls, outcome: Outcome, name: str) -> "CalibrationDisplay":
        return cls(*coverage_of(outcome), name)

    @classmethod
    def _of_class(cls, outcome: ClassOutcome, place: int) -> "CalibrationDisplay":
        bins, lower, upper = outcome.reliability(place)
        name = outcome.classes[place]
        return cls(bins.predicted, bins.observed, lower, upper, name, of_class=True)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        numbers = self.stated, self.observed, self.lower, self.upper
        if not self.of_class:
            drawing.calibration(ax, *numbers)
            return
        drawing.reliability(ax, *numbers)
        if self.name:
            ax.set_xlabel(f"predicted probability of {drawing.label(self.name)}")
        drawing.legend_above(ax)


def _class_of(subject: Subject, target: object) -> int:
    """The place of the class that was asked for, of two the second.

    Raises:
        ValueError: where one of several has to be chosen, and for one that is not there.
    """
    classes = subject.fitted.classes
    if target is not None:
        return place_among("class", target, classes)
    if len(classes) > 2:
        raise ValueError(
            f"the model has {len(classes)} classes, and calibration is of one: choose it, such as "
            f"target={classes[0]!r}; there are {', '.join(classes[:20])}"
        )
    return len(classes) - 1


predictions = PredictionDisplay.from_estimator
residuals = ResidualDisplay.from_estimator
calibration = CalibrationDisplay.from_estimator
