"""Rows of a table that a model was fitted to, recognised without keeping their values."""

import hashlib
from typing import NamedTuple

import numpy as np

# Bytes of the mark of a row; such numbers are exact in float64, and in JSON.
BYTES = 6
# Deviations of a count beyond which it is not by chance.
DEVIATIONS = 4.0


class Known(NamedTuple):
    """Rows at the beginning of a table that are rows of a fit.

    Attributes:
        first: the row of the fit that the first row of the table is.
        count: how many are, from the first row of the table on; 0 for none.
        to_the_end: whether they go on to the last row of the fit.
        elsewhere: how many rows after them are rows of the fit all the same; 0 where they are no
            more than may be alike by chance.
    """

    first: int
    count: int
    to_the_end: bool
    elsewhere: int = 0


NONE = Known(0, 0, to_the_end=False)


def marks(values: np.ndarray) -> np.ndarray:
    """A number for each row (N, C) that equal rows share, and others do not but by chance."""
    clean = np.where(np.isnan(values), np.nan, values + 0.0)  # one NaN, and one zero
    digests = (hashlib.blake2b(row.tobytes(), digest_size=BYTES).digest() for row in clean)
    return np.array([int.from_bytes(digest, "little") for digest in digests], float)


def known_rows(table: np.ndarray, fitted: np.ndarray) -> Known:
    """The rows of a table that are rows of a fit: the whole table, or the end of the fit and on.

    Where most rows of the fit are like others, as of truth values, the table must begin with all
    of them: shorter runs may be alike by chance.

    Args:
        table: marks of the table's rows.
        fitted: marks of those of the fit.
    """
    if not len(table) or not len(fitted):
        return NONE
    found = NONE
    telling = 2 * len(np.unique(fitted)) > len(fitted)
    for first in np.flatnonzero(fitted == table[0]) if telling else (0,):
        most = min(len(table), len(fitted) - first)
        same = fitted[first : first + most] == table[:most]
        count = int(most if same.all() else np.argmin(same))
        to_the_end = first + count == len(fitted)
        enough = to_the_end or (telling and count == len(table))
        if count > found.count and enough:
            found = Known(int(first), count, to_the_end=bool(to_the_end))
    if not telling:
        return found
    after = table[found.count :]
    alike = int(np.sum(np.isin(after, fitted)))
    return found._replace(elsewhere=alike if alike > _by_chance(fitted, len(after)) else 0)


def _by_chance(fitted: np.ndarray, count: int) -> float:
    """Number of new rows that may equal rows of the fit by chance."""
    _, times = np.unique(fitted, return_counts=True)
    share = float(np.sum(times[times > 1]) / len(fitted))
    return count * share + DEVIATIONS * float(np.sqrt(count * share * (1.0 - share)))
