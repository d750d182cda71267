"""Inputs of estimators as numbers: text, categories and dates of data frames."""

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cavity.columns.column_types import evidence
from cavity.columns.dates import NO_DATE
from cavity.columns.encoder import Column, Encoder, Unseen, complete_rows, learn_encoder
from cavity.columns.notation import Notation, dates_of
from cavity.columns.warnings import EncodingWarnings
from cavity.estimators.frames import dates_as_days, frame_of
from cavity.numerics.callers import warn_caller
from cavity.numerics.text import quoted
from cavity.persistence.errors import CellError, DataError


@dataclasses.dataclass(frozen=True)
class NumericInputs:
    """Inputs of a fit that are numbers already, (N, D), with the encoder that made them."""

    numbers: np.ndarray
    encoder: Encoder

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.numbers, dtype)


def learn_inputs(X: Any) -> tuple[Encoder | None, Any]:
    """The encoder of the inputs of a fit, and these as numbers.

    Args:
        X: an array, a data frame of pandas or polars, or `NumericInputs`.

    Returns:
        None as the encoder of what has no columns of text or categories.

    Raises:
        DataError: for columns that can be neither numbers nor categories, and arrays of text.
    """
    if isinstance(X, NumericInputs):
        return X.encoder, X.numbers
    frame = frame_of(X)
    texts = [] if frame is None else frame.texts
    if frame is None or not texts:
        return None, _plain_numbers(X)
    with _in_python(texts):
        seen = [evidence(each.series) for each in frame.columns if each.name in texts]
        learned = learn_encoder(seen)
    known = {column.name: column for column in learned.columns}
    names = map(str, frame.names)
    columns = tuple(known.get(name, Column(name, "numeric")) for name in names)
    notations = {name: _as_typed(notation) for name, notation in learned.notations.items()}
    encoder = Encoder(columns, notations)
    return encoder, numbers_of(X, encoder)


def typed_columns(X: Any, encoder: Encoder) -> Encoder:
    """The columns of a data frame, with truth values and dates told from other numbers.

    In a file other tables have these as text.

    Args:
        X: what was fitted to.
        encoder: its columns, of which those without text are numbers.
    """
    frame = frame_of(X)
    if frame is None or frame.repeats:
        return encoder
    columns = {column.name: column for column in encoder.columns}
    notations = dict(encoder.notations)
    for each in frame.columns:
        called = str(each.name)
        if called not in columns or columns[called].kind != "numeric":
            continue
        if each.letter == "b":
            columns[called] = Column(called, "boolean")
        elif each.letter == "M":
            dates = dates_of(evidence(each.instants).notation())
            if dates is not None:
                notations[called] = dataclasses.replace(dates, unit="days", origin=0)
    return Encoder(tuple(columns.values()), notations)


def numbers_of(X: Any, encoder: Encoder | None) -> Any:
    """Inputs as numbers: of a data frame with text one with columns such as `colour=red`.

    Categories that were not there in fitting are none of the known ones, which is said in a
    warning.

    Args:
        X: an array, or a data frame of pandas or polars.
        encoder: of the fit; None where that had no columns of text or categories.

    Raises:
        DataError: for other columns than in fitting, and naming the first cell that is missing
            or cannot be read.
    """
    frame = frame_of(X)
    if encoder is None:
        texts = [] if frame is None else frame.texts
        if texts:
            raise DataError(
                f"column {quoted(str(texts[0]))} holds text, and the model was fitted to numbers: "
                "give them as in fitting"
            )
        return _plain_numbers(X)
    names = {} if frame is None else {str(name): name for name in frame.names}
    missing = [quoted(name) for name in encoder.names if name not in names]
    if frame is None or missing:
        lacks = f", and this one has no {', '.join(missing)}" if names else ""
        raise DataError(
            "the model was fitted to a data frame with columns of text or categories: give a "
            f"data frame with the same columns, {', '.join(encoder.names)}{lacks}"
        )
    frame = frame.only([names[name] for name in encoder.names])
    texts, found, unseen, blocks = frame.texts, {}, Unseen(), {}
    with _in_python(frame.names):
        for own, column in zip(frame.columns, encoder.columns, strict=True):
            plain = column.kind == "numeric" and column.name not in encoder.notations
            if plain and own.name not in texts:
                found[column.name] = own.values
                continue
            cells = encoder.as_numbers(own.series)
            blocks[column.name] = column.numbers(cells, unseen)
            found |= dict(zip(column.features, blocks[column.name].T, strict=True))
        complete_rows([*blocks], [*blocks.values()], drop_missing=False)
    for warning in EncodingWarnings(len(X), len(X), unseen).warnings:
        warn_caller(warning)
    return dates_as_days(frame.made(found))


def _plain_numbers(X: Any) -> Any:
    """Arrays and frames of numbers and dates; arrays with text are refused."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "OU":
        words = [cell for cell in X.ravel() if isinstance(cell, str) and not _is_number(cell)]
        if words:
            raise DataError(
                f"X is an array with text, such as {quoted(words[0])}: give a data frame of "
                "pandas or polars, whose columns of text are read as categories, or numbers alone"
            )
    return dates_as_days(X)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _as_typed(notation: Notation) -> Notation:
    """Dates that are text in the units of those that are not, days since 1970-01-01."""
    dates = dates_of(notation)
    if dates is None or dates.writing.order == NO_DATE:
        return notation
    return dataclasses.replace(dates, unit="days", origin=0)


@contextlib.contextmanager
def _in_python(names: Sequence[Any]) -> Iterator[None]:
    """Tells of cells by rows from 0, and without the options of the command line."""
    known = "|".join(re.escape(str(name)) for name in names)
    options = re.compile(rf"( with)?( --(ignore ({known})|drop-missing))+")
    try:
        yield
    except CellError as error:
        where = f"column {quoted(error.column)}, row {error.row} (counted from 0)"
        raise DataError(f"{where}: {options.sub('', error.story)}") from None
    except DataError as error:
        raise DataError(options.sub("", str(error))) from None
