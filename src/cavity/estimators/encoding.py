"""Inputs of estimators as numbers: text, categories and dates of data frames."""

import contextlib
import dataclasses
import re
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from cavity.columns.column_types import evidence
from cavity.columns.dates import NO_DATE, Dates
from cavity.columns.encoder import Column, Encoder, Unseen, complete_rows, learn_encoder
from cavity.columns.notation import Notation
from cavity.columns.warnings import EncodingWarnings
from cavity.estimators.frames import dates_as_days, is_dates
from cavity.numerics.callers import warn_caller
from cavity.numerics.text import quoted
from cavity.persistence.errors import CellError, DataError

_CATEGORICAL = ("CategoricalDtype", "Categorical", "Enum")
_TEXT = (*_CATEGORICAL, "String", "StringDtype")


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
    texts = _texts(X)
    if not texts:
        return None, _plain_numbers(X)
    with _in_python(texts):
        learned = learn_encoder([evidence(_series(X, name)) for name in texts])
    known = {column.name: column for column in learned.columns}
    names = [str(name) for name in X.columns]
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
    names, types = getattr(X, "columns", None), getattr(X, "dtypes", None)
    if names is None or types is None or len(set(names)) < len(names):
        return encoder
    columns = {column.name: column for column in encoder.columns}
    notations = dict(encoder.notations)
    for name, dtype in zip(names, types, strict=True):
        called = str(name)
        if called not in columns or columns[called].kind != "numeric":
            continue
        if getattr(dtype, "kind", "") == "b" or type(dtype).__name__ == "Boolean":
            columns[called] = Column(called, "boolean")
        elif is_dates(dtype):
            dates = evidence(_instants(X[name])).notation()
            if isinstance(dates, Dates):
                notations[called] = dataclasses.replace(dates, unit="days", origin=0)
    return Encoder(tuple(columns.values()), notations)


def _instants(column: Any) -> Any:
    """A column of dates as polars has it."""
    import polars as pl

    if isinstance(column, pl.Series):
        return column
    zoned = getattr(column.dtype, "tz", None) is not None
    plain = column.dt.tz_convert("UTC").dt.tz_localize(None) if zoned else column
    series = pl.Series("dates", plain.to_numpy())
    return series.dt.replace_time_zone("UTC") if zoned else series


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
    if encoder is None:
        texts = _texts(X)
        if texts:
            raise DataError(
                f"column {quoted(str(texts[0]))} holds text, and the model was fitted to numbers: "
                "give them as in fitting"
            )
        return _plain_numbers(X)
    names = {str(name): name for name in getattr(X, "columns", ())}
    missing = [quoted(name) for name in encoder.names if name not in names]
    if missing:
        lacks = f", and this one has no {', '.join(missing)}" if names else ""
        raise DataError(
            "the model was fitted to a data frame with columns of text or categories: give a "
            f"data frame with the same columns, {', '.join(encoder.names)}{lacks}"
        )
    X = X[[names[name] for name in encoder.names]]
    texts, found, unseen, blocks = _texts(X), {}, Unseen(), {}
    with _in_python([*X.columns]):
        for name, column in zip(X.columns, encoder.columns, strict=True):
            plain = column.kind == "numeric" and column.name not in encoder.notations
            if plain and name not in texts:
                found[column.name] = X[name]
                continue
            cells = encoder.as_numbers(_series(X, name))
            blocks[column.name] = column.numbers(cells, unseen)
            found |= dict(zip(column.features, blocks[column.name].T, strict=True))
        complete_rows([*blocks], [*blocks.values()], drop_missing=False)
    for warning in EncodingWarnings(len(X), len(X), unseen).warnings:
        warn_caller(warning)
    return dates_as_days(type(X)(found))


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


def _texts(X: Any) -> list[Any]:
    """The names of the columns of a data frame that hold text or categories."""
    names, types = getattr(X, "columns", None), getattr(X, "dtypes", None)
    if names is None or types is None or len(set(names)) < len(names):
        return []
    return [name for name, kind in zip(names, types, strict=True) if _is_text(X, name, kind)]


def _is_text(X: Any, name: Hashable, kind: object) -> bool:
    if type(kind).__name__ in _TEXT:
        return True
    objects = getattr(kind, "kind", "") == "O"
    return objects and any(isinstance(cell, str) for cell in X[name].tolist())


def _series(X: Any, name: Hashable) -> Any:
    """A column of a data frame as polars has it, text for objects, null where missing."""
    import polars as pl

    column = X[name]
    if isinstance(column, pl.Series):
        return column.alias(str(name))
    if column.dtype.kind in "biuf" and not column.isna().any():
        return pl.Series(str(name), column.to_numpy())
    missing = column.isna().tolist()
    cells = zip(column.tolist(), missing, strict=True)
    texts = [None if gone else str(cell) for cell, gone in cells]
    series = pl.Series(str(name), texts, dtype=pl.String)
    categorical = type(column.dtype).__name__ in _CATEGORICAL
    return series.cast(pl.Categorical) if categorical else series


def _as_typed(notation: Notation) -> Notation:
    """Dates that are text in the units of those that are not, days since 1970-01-01."""
    if not isinstance(notation, Dates) or notation.writing.order == NO_DATE:
        return notation
    return dataclasses.replace(notation, unit="days", origin=0)


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
