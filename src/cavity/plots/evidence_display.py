"""The evidence in the course of learning."""

import dataclasses

import numpy as np

from cavity.drawing import MODEL
from cavity.drawing.axes import Axes
from cavity.learning.double_precision import in_double
from cavity.plots.base import AbstractDisplay
from cavity.plots.subjects import checked


@dataclasses.dataclass(eq=False, repr=False)
class EvidenceDisplay(AbstractDisplay):
    """The log evidence with log priors, from iteration to iteration.

    Made by `from_estimator`.

    Attributes:
        values: what learning maximised after each iteration of the best run, in nats, (n,).
    """

    values: np.ndarray

    @classmethod
    @in_double
    def from_estimator(cls, model: object, *, ax: object = None) -> "EvidenceDisplay":
        """Draws what learning maximised, from iteration to iteration.

        Args:
            model: a fitted estimator, or a result of `cavity.fit`.
            ax: matplotlib's axes; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for what is no fitted model, and an `ax` that is no axes.
            NotFittedError: for an estimator before `fit`.
            ValueError: for results without a course of learning: of `cavity.infer`, of draws, of
                a fit without iterations.
        """
        checked(model, "evidence")
        known = vars(model)
        history = known.get("history", known.get("history_", ()))
        if not len(history):
            raise ValueError(
                "nothing was learned from iteration to iteration here: cavity.plots.evidence is "
                "of an estimator, or of a result of cavity.fit, that searched for parameters"
            )
        return cls(-np.asarray(history, float)).plot(ax)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        steps = np.arange(1, len(self.values) + 1)
        mark = "o" if len(steps) <= 30 else None
        ax.plot(steps, self.values, color=MODEL, linewidth=1.8, marker=mark, markersize=4)
        ax.set(xlabel="iteration", ylabel="log evidence and log priors (nats)")
        ax.locator_params(axis="x", integer=True)


evidence = EvidenceDisplay.from_estimator
