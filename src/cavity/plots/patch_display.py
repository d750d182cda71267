"""The inducing patches of models of images."""

import dataclasses

import numpy as np

from cavity.drawing.axes import Axes
from cavity.learning.double_precision import in_double
from cavity.plots.base import AbstractDisplay
from cavity.plots.subjects import subject_of
from cavity.report.image_figures import (
    MOST_PATCHES,
    TellingPatches,
    draw_patches,
    patch_model,
    telling_patches,
)


@dataclasses.dataclass(eq=False, repr=False)
class PatchDisplay(AbstractDisplay):
    """The inducing patches that speak for each class most, a row of panels for each class.

    Made by `from_estimator`.

    Attributes:
        names: of the classes, C.
        pixels: of the patches, the strongest first, (C, n, height, width, channels).
        scores: posterior means of the function of one patch there, (C, n): what such a patch adds
            to the function of its class.
    """

    names: tuple[str, ...]
    pixels: np.ndarray
    scores: np.ndarray

    @classmethod
    @in_double
    def from_estimator(
        cls, model: object, *, n_patches: int = MOST_PATCHES, ax: object = None
    ) -> "PatchDisplay":
        """Draws the inducing patches that speak for each class most.

        Args:
            model: a fitted `ConvGPClassifier`, or another model of classes with a kernel such as
                "conv(rbf, (5, 5), image=(28, 28))" and inducing patches.
            n_patches: patches for each class, at the most.
            ax: matplotlib's axes, which the panels divide among themselves, or an array with one
                for each panel; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for what is no fitted model, and an `ax` that is no axes.
            NotFittedError: for an estimator before `fit`.
            ValueError: for models without inducing patches, with those that have some.
        """
        if n_patches < 1:
            raise ValueError(f"n_patches must be at least 1, given {n_patches}")
        fitted = subject_of(model, "patches").fitted
        found = patch_model(fitted)
        if found is None or not fitted.classes:
            raise ValueError(
                f"this {type(model).__name__} has no inducing patches of classes: "
                "ConvGPClassifier has them, and classifiers with a kernel of patches, such as "
                "'conv(rbf, (5, 5), image=(28, 28))'"
            )
        functions = found.means.shape[1]
        if functions not in (1, len(fitted.classes)):
            raise ValueError(
                f"the {functions} functions of this model are not those of its "
                f"{len(fitted.classes)} classes"
            )
        return cls(*telling_patches(found, fitted.classes, n_patches)).plot(ax)

    @property
    def panels(self) -> int:
        """A panel for each patch."""
        return int(self.scores.size)

    @property
    def shape(self) -> tuple[int, int]:
        """A row of panels for each class."""
        rows, columns = self.scores.shape
        return rows, columns

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a panel of a new figure, in inches."""
        return 0.9, 1.05

    def _draw(self, axes: list[Axes]) -> None:
        rows = TellingPatches(self.names, self.pixels, self.scores)
        draw_patches(np.array(axes, object).reshape(self.shape), rows)


patches = PatchDisplay.from_estimator
