"""Numbers that belong to a part, in files of the process that works on it."""

import atexit
import contextlib
import dataclasses
import functools
import shutil
import tempfile
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

import numpy as np

from cavity.learning.engines.base import Part


class Lost(RuntimeError):
    """Numbers of a part that are not in this process: it has to be worked on again."""


class KeptBlocks:
    """Vectors of one length, one for each block of a part, under a name.

    They are there whole or not at all: what was begun and not ended is not found.

    Args:
        fit: what they belong to; different for all fits.
        part: the index of the part.
        name: used once, so that work done twice reads the same.
    """

    def __init__(self, fit: str, part: int, name: str):
        self.path = kept_folder() / f"{fit}-{part}-{name}"

    def read(self, number: int, like: np.ndarray) -> np.ndarray:
        """The vector of a block.

        Raises:
            Lost: where it is not here.
        """
        try:
            start = number * like.nbytes
            found = np.fromfile(self.path, like.dtype, like.size, offset=start)
        except (FileNotFoundError, ValueError):
            found = like[:0]
        if found.size != like.size:
            raise Lost(f"the sites of {self.path.name} are not in this process")
        return found

    def begin(self) -> BinaryIO:
        """A file to append the vectors to, block by block."""
        return self.path.with_suffix(".begun").open("wb")

    def end(self) -> None:
        """What was appended is there from now on."""
        self.path.with_suffix(".begun").replace(self.path)

    def forget(self) -> None:
        """Drops the vectors."""
        self.path.unlink(missing_ok=True)


@dataclasses.dataclass(frozen=True)
class Dropped:
    """Drops what a process keeps for a fit, and what was begun of it.

    Attributes:
        fit: what it belongs to.
    """

    fit: str

    def __call__(self, part: Part) -> None:
        """Of all parts, in this process."""
        del part
        for path in kept_folder().glob(f"{self.fit}-*"):
            path.unlink(missing_ok=True)


_GIVEN: ContextVar[str | None] = ContextVar("where numbers are kept", default=None)


@contextlib.contextmanager
def kept_in(folder: str) -> Iterator[None]:
    """Numbers are kept in a folder of this process that others clear, also where it is killed."""
    token = _GIVEN.set(folder)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def kept_folder() -> Path:
    """Where this process keeps its numbers."""
    given = _GIVEN.get()
    if given is None:
        return _own_folder()
    folder = Path(given) / "cavity"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@functools.cache
def _own_folder() -> Path:
    """A folder of this process, which goes when it ends."""
    folder = tempfile.mkdtemp(prefix="cavity-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
