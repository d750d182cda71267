"""The rows of a table in a latent space."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity import drawing
from cavity.drawing.axes import Axes
from cavity.estimators.embedding import GPEmbedding
from cavity.estimators.frames import colour_name
from cavity.estimators.latent_map import Gaussians, LatentMap, Standardised
from cavity.learning.double_precision import in_double
from cavity.plots.base import AbstractDisplay
from cavity.plots.subjects import checked, posterior_of
from cavity.report.figures import thinned
from cavity.report.latent_figures import MOST_ROWS


@dataclasses.dataclass(eq=False, repr=False)
class EmbeddingDisplay(AbstractDisplay):
    """Rows at the two latent dimensions that matter most, with their deviations.

    Made by `from_estimator`, or of arrays by `from_predictions`.

    Attributes:
        mean: posterior means of the latent points, (N, Q).
        std: their standard deviations, (N, Q), drawn for up to 300 rows; None for none.
        colour: numbers or texts of the rows, which colour them, (N,); None for one colour.
        name: of what colours them.
    """

    mean: np.ndarray
    std: np.ndarray | None = None
    colour: Sequence[Any] | None = None
    name: str = ""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a new figure, in inches."""
        return 6.0, 4.8

    @classmethod
    @in_double
    def from_estimator(
        cls, model: object, X: object = None, *, colour: object = None, ax: object = None
    ) -> "EmbeddingDisplay":
        """Draws rows in the latent space of an embedding.

        Args:
            model: a fitted `GPEmbedding`, or a result of `cavity.fit` of a `GPLVM`.
            X: rows, (n, P), NaN where missing; None for the rows of the fit.
            colour: what colours the rows, (n,): numbers or texts; None for one colour.
            ax: matplotlib's axes; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for what is no fitted model, and an `ax` that is no axes.
            NotFittedError: for an estimator before `fit`.
            ValueError: for models that are no embeddings, colours of another number of rows, and
                unusable rows.
        """
        checked(model, "embedding")
        return cls.from_predictions(*_latent(model, X), colour=colour, ax=ax)

    @classmethod
    def from_predictions(
        cls, mean: object, std: object = None, *, colour: object = None, ax: object = None
    ) -> "EmbeddingDisplay":
        """Draws latent points.

        Args:
            mean: the points, (n, Q).
            std: their standard deviations, (n, Q), or None.
            colour: what colours them, (n,): numbers or texts; None for one colour.
            ax: matplotlib's axes; None for a new figure.

        Returns:
            The display, drawn.

        Raises:
            TypeError: for an `ax` that is no axes.
            ValueError: for colours of another number of rows.
        """
        points, values = np.asarray(mean, float), None
        if colour is not None:
            values = np.asarray(colour).tolist()
            if len(values) != len(points):
                raise ValueError(f"colour has {len(values)} entries, there are {len(points)} rows")
        name = colour_name(colour)
        spread = None if std is None else np.asarray(std, float)
        return cls(points, spread, values, name).plot(ax)

    def _draw(self, axes: list[Axes]) -> None:
        (ax,) = axes
        rows = thinned(len(self.mean), MOST_ROWS)
        std = None if self.std is None else self.std[rows]
        colour = None if self.colour is None else [self.colour[i] for i in rows]
        drawing.embedding(ax, self.mean[rows], std, colour, self.name)


@functools.singledispatch
def _latent(model: object, X: object) -> Gaussians:
    """Latent points of the rows of the fit, or of others."""
    posterior = posterior_of(model)
    columns = np.ones(posterior.outputs)
    latent = LatentMap(posterior, Standardised(0.0 * columns, columns))
    return latent.latent if X is None else latent.transform(np.asarray(X, float))


@_latent.register(GPEmbedding)
def _(model: GPEmbedding, X: object) -> Gaussians:
    if X is None:
        return Gaussians(model.embedding_, model.embedding_std_)
    return Gaussians(*model.transform(X, return_std=True))


embedding = EmbeddingDisplay.from_estimator
