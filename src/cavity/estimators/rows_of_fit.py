"""What an estimator remembers of the rows of its fit, which files hold beside the model."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity.columns.encoder import Column, Encoder
from cavity.columns.ranges import Range, ranges_of
from cavity.learning.data.scales import Tally, tally


class RemembersRows:
    """An estimator of outputs that are functions of known inputs.

    Attributes:
        n_features_in_: number of columns of inputs as numbers.
        encoder_: the columns of the data frame of the fit and how they become numbers, where
            some hold text or categories; None otherwise.
    """

    n_features_in_: int
    encoder_: Encoder | None = None
    # names of the outputs, and their counts and moments
    _targets: tuple[str, ...]
    _moments: Tally
    # names of the columns of side data, by what these are
    _sides: Mapping[str, str]
    # ranges of the inputs by column; none where not all rows were in memory
    _ranges: Mapping[str, Range]

    @property
    def columns(self) -> Encoder:
        """The columns of the inputs, and how they become numbers."""
        if self.encoder_ is not None:
            return self.encoder_
        numbered = [f"x{i}" for i in range(self.n_features_in_)]
        names = map(str, getattr(self, "feature_names_in_", numbered))
        return Encoder(tuple(Column(name, "numeric") for name in names))

    @property
    def target_names(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return self._targets

    @property
    def output_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the outputs, (P,) each."""
        return np.asarray(self._moments.mean), np.asarray(self._moments.var)

    @property
    def side_columns(self) -> Mapping[str, str]:
        """Names of the columns of side data, by what these are."""
        return self._sides

    @property
    def input_ranges(self) -> Mapping[str, Range]:
        """Ranges of the inputs by column; none where not all rows were in memory."""
        return self._ranges

    def remember_rows(
        self,
        targets: tuple[str, ...],
        sides: Mapping[str, str],
        moments: Tally,
        ranges: Mapping[str, Range],
    ) -> None:
        """Remembers rows by what a file says of them; see the properties."""
        self._targets, self._sides = targets, sides
        self._moments, self._ranges = moments, ranges

    def _note(self, X: np.ndarray, y: np.ndarray, given: Any, side: Any, *, whole: bool) -> None:
        """Remembers the rows of a fit.

        Args:
            X: inputs, (N, D).
            y: outputs, or places of labels, (N,) or (N, P).
            given: the outputs or labels as they were given, for their names.
            side: side data by name.
            whole: whether these are all rows.
        """
        self._targets = tuple(target_names(given, self.columns.names))
        self._sides = {name: name for name in side}
        self._moments = _moments(y)
        self._ranges = ranges_of(self.columns, X) if whole else {}

    def _note_more(self, X: np.ndarray, y: np.ndarray) -> None:
        """Adds the rows of a further batch."""
        self._moments = self._moments + _moments(y)
        new = ranges_of(self.columns, X)
        self._ranges = {name: known + new[name] for name, known in self._ranges.items()}


def _moments(y: np.ndarray) -> Tally:
    outputs = y.reshape(len(y), -1)
    return tally(np.nan_to_num(outputs), (~np.isnan(outputs)).astype(float))


def target_names(y: Any, inputs: tuple[str, ...]) -> list[str]:
    """The names of outputs: those of a frame or a series, or "y", and numbered where several.

    Args:
        y: outputs, as they were given.
        inputs: names of the inputs, which the others are not to have.
    """
    named = getattr(y, "columns", None)
    if named is None:
        one = getattr(y, "name", None)
        count = np.shape(y)[1] if np.ndim(y) > 1 else 1
        named = [f"y{i}" for i in range(count)] if count > 1 else ["y" if one is None else one]
    names = [str(name) for name in named]
    if len({*names}) == len(names) and not {*names} & {*inputs}:
        return names
    return ["target"] if len(names) == 1 else [f"target{i}" for i in range(len(names))]
