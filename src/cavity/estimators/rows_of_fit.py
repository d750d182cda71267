"""Knowledge of an estimator about the rows of its fit, which files hold beside the model."""

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from cavity.columns.encoder import Column, Encoder
from cavity.columns.ranges import Range, ranges_of
from cavity.estimators.frames import names_in
from cavity.inference.graph.rows import WEIGHT
from cavity.learning.data.row_weights import presence_of, weights_of
from cavity.learning.data.scales import Tally, tally


@dataclasses.dataclass(frozen=True, eq=False)
class RowsOfFit:
    """The rows of a fit, as far as files hold them.

    Attributes:
        inputs: the columns of the inputs, and how they become numbers.
        targets: names of the outputs.
        moments: counts and moments of the outputs, or of the places of labels.
        sides: names of the columns of side data, by what these are.
        ranges: of the inputs by column; none where not all rows were in memory.
    """

    inputs: Encoder
    targets: tuple[str, ...]
    moments: Tally
    sides: Mapping[str, str]
    ranges: Mapping[str, Range]

    @staticmethod
    def of(
        inputs: Encoder,
        X: np.ndarray,
        y: np.ndarray,
        given: object,
        side: Mapping[str, np.ndarray],
    ) -> "RowsOfFit":
        """Of all rows of a fit.

        Args:
            inputs: the columns of the inputs.
            X: inputs, (N, D).
            y: outputs, or places of labels, (N,) or (N, P).
            given: the outputs or labels as they were given, for their names.
            side: side data of the rows by name, their weights among them.
        """
        targets = tuple(target_names(given, inputs.names))
        sides = {name: name for name in side if name != WEIGHT}
        outputs = y.reshape(len(y), -1)
        moments = tally(np.nan_to_num(outputs), presence_of(outputs, weights_of(side)))
        return RowsOfFit(inputs, targets, moments, sides, ranges_of(inputs, X))

    def __add__(self, batch: "RowsOfFit") -> "RowsOfFit":
        """With the rows of a further batch."""
        ranges = {n: known + batch.ranges[n] for n, known in self.ranges.items()}
        moments = self.moments + batch.moments
        return dataclasses.replace(self, moments=moments, ranges=ranges)


def columns_of(encoder: Encoder | None, names: Iterable[str] | None, count: int) -> Encoder:
    """The columns of inputs.

    Args:
        encoder: where some hold text or categories; None otherwise.
        names: of the others; None for "x0" and so on.
        count: how many these are.
    """
    if encoder is not None:
        return encoder
    called = [f"x{i}" for i in range(count)] if names is None else map(str, names)
    return Encoder(tuple(Column(name, "numeric") for name in called))


def target_names(y: object, inputs: tuple[str, ...]) -> list[str]:
    """The names of outputs: those of a frame or a series, or "y", and numbered where several.

    Args:
        y: outputs, as they were given.
        inputs: names of the inputs, which the others are not to have.
    """
    named = names_in(y)
    if named is None:
        shape = np.shape(np.asarray(y))
        count = shape[1] if len(shape) > 1 else 1
        named = [f"y{i}" for i in range(count)] if count > 1 else ["y"]
    names = [str(name) for name in named]
    if len({*names}) == len(names) and not {*names} & {*inputs}:
        return names
    return ["target"] if len(names) == 1 else [f"target{i}" for i in range(len(names))]
