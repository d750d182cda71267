"""The relevance of columns, or of latent dimensions."""

import dataclasses

import numpy as np

from cavity import drawing
from cavity.drawing.axes import Axes
from cavity.estimators.layers import last_functions
from cavity.learning.double_precision import in_double
from cavity.plots.base import AbstractDisplay
from cavity.plots.subjects import check_no_pixels, checked, posterior_of, subject_of
from cavity.report.parameters import Relevance, of_units, relevances
from cavity.report.subject import Subject
from cavity.tables.coefficients import model_coefficients

MOST_PARTS = 6
BY_COEFFICIENT, BY_SHARE = "|coefficient| × spread", "share of the variation, %"


@dataclasses.dataclass(eq=False, repr=False)
class RelevanceDisplay(AbstractDisplay):
    """Bars of relevance, a panel for each part of the kernel, the largest on top.

    Made by `from_estimator`.

    Attributes:
        names: of the columns in each panel.
        values: their relevance, not negative, an array for each panel.
        measures: what the values are, such as "spread / lengthscale": the standard deviation of a
            column by its lengthscale, without units.
        titles: of the panels: the kernels, where there are several.
    """

    names: list[list[str]]
    values: list[np.ndarray]
    measures: list[str]
    titles: list[str]

    @classmethod
    @in_double
    def from_estimator(
        cls, model: object, X: object = None, *, ax: object = None
    ) -> "RelevanceDisplay":
        """Draws how much each column matters to a model.

        Of a Gaussian process it is the spread of a column by its lengthscale, or its spread times
        the deviation of slopes; of a network how strongly its units follow the column; of a linear
        model the size of the coefficient times the spread; of an embedding the share of each
        latent dimension in the variation of all columns.

        Args:
            model: a fitted estimator, a result of `cavity.fit` or `cavity.infer`, or a posterior.
            X: inputs, (n, D), whose spread counts; None for those of a result, and of networks
                and embeddings, which need none.
            ax: matplotlib's axes, which the panels divide among themselves, or an array with one
                for each panel; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for what is no fitted model, and an `ax` that is no axes.
            NotFittedError: for an estimator before `fit`.
            ValueError: for kernels without a parameter for each column, models without such a
                picture, and unusable data.
        """
        word = checked(model, "relevance")
        if word == "latent":
            return cls._of_dimensions(model).plot(ax)
        needs = "" if word == "network" else "X"
        subject = subject_of(model, "relevance", X, needs=needs)
        check_no_pixels(subject.fitted, "relevance")
        features = subject.fitted.schema.features
        found = _of_parts(subject, word)[:MOST_PARTS]
        if not found:
            raise ValueError(
                "the kernel has no parameter of its own for each column, so it does not say how "
                "relevant each is: cavity.plots.slices shows what each one does"
            )
        names = [part.names(features) for part in found]
        titles = [part.part if len(found) > 1 else "" for part in found]
        values, measures = [part.values for part in found], [part.measure for part in found]
        return cls(names, values, measures, titles).plot(ax)

    @classmethod
    def _of_dimensions(cls, model: object) -> "RelevanceDisplay":
        """Of an embedding."""
        shares = np.sort(np.asarray(posterior_of(model).relevance, float))[::-1]
        names = [f"dimension {i}" for i in range(1, len(shares) + 1)]
        return cls([names], [100.0 * shares], [BY_SHARE], [""])

    @property
    def panels(self) -> int:
        """A panel for each part of the kernel."""
        return len(self.values)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a panel of a new figure, in inches."""
        longest = min(max(map(len, self.values)), drawing.MOST_NAMES)
        return (6.4 if self.panels == 1 else 3.4), 1.2 + 0.28 * longest

    def _draw(self, axes: list[Axes]) -> None:
        each = zip(axes, self.names, self.values, self.measures, self.titles, strict=True)
        for ax, names, values, measure, title in each:
            drawing.relevance(ax, drawing.labels(names, max(48 // len(axes), 16)), values)
            ax.set(xlabel=measure, title=title)


def _of_parts(subject: Subject, word: str) -> list[Relevance]:
    """The relevance to each part of a model of rows."""
    fitted = subject.fitted
    if word == "network":
        return of_units(fitted.record)
    spread = np.std(subject.encoded.X, axis=0)
    if word == "linear":
        table = model_coefficients(fitted, 0.1)
        size = np.abs(np.asarray(table["mean"], float)).reshape(-1, len(spread))
        every = tuple(range(len(spread)))
        return [Relevance("", BY_COEFFICIENT, every, size.max(axis=0) * spread)]
    functions = fitted.posterior.model.likelihood.latent_functions
    return relevances(last_functions(fitted.posterior.model).kernel, spread, functions)


relevance = RelevanceDisplay.from_estimator
