"""Parts that worker processes can import, some of which end theirs."""

import contextlib
import os
import signal
import time
from pathlib import Path

import numpy as np

from cavity.learning.engines.base import AbstractPartWork
from cavity.learning.engines.kept import KeptBlocks
from tests.learning.part_engines import Slice


class Deadly(Slice):
    """A slice whose reader is killed at some of its readings, counted in a file."""

    def __init__(self, start, end, count, at):
        super().__init__(start, end)
        self.count, self.at = str(count), at

    def __iter__(self):
        with open(self.count, "ab", buffering=0) as file:
            file.write(b".")
            if file.tell() in self.at:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__iter__()


class Missing:
    """A file that is nowhere."""

    def __iter__(self):
        return iter(open("nowhere.parquet"))


def process(part):
    """The process that works on a part."""
    return np.array([os.getpid()])


def slowly(part):
    """The same after a while, but for the first part."""
    time.sleep(0.0 if part.index == 0 else 0.5)
    return process(part)


def rows(part):
    """The number of rows of a part."""
    return sum(len(batch.X) for batch in part.source)


class DeadlyLabels(Deadly):
    """The same of labels."""

    def __iter__(self):
        return ((X, (Y[:, 0] > 0.0).astype(float)) for X, Y in super().__iter__())


FIT = "a-fit"


def kept(part):
    """Keeps a number with a part."""
    blocks = KeptBlocks(FIT, part.index, "number")
    with blocks.begin() as file:
        file.write(np.array([float(part.index)]).tobytes())
    blocks.end()
    return process(part)


class Uneven(DeadlyLabels):
    """Labels that are slow to read in the process that was the first to read some."""

    def __init__(self, start, end, first):
        super().__init__(start, end, first, ())
        self.first = first

    def __iter__(self):
        with contextlib.suppress(FileExistsError), open(self.first, "x") as file:
            file.write(str(os.getpid()))
        if Path(self.first).read_text() == str(os.getpid()):
            time.sleep(0.4)
        return ((X, (Y[:, 0] > 0.0).astype(float)) for X, Y in Slice.__iter__(self))


class Read(AbstractPartWork):
    """The number that was kept, after some seconds for every other part."""

    reads_kept = True

    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self, part):
        found = KeptBlocks(FIT, part.index, "number").read(0, np.zeros(1))
        time.sleep(self.seconds if part.index % 2 == 0 else 0.0)
        return found


def folder(part):
    """Where numbers are kept, and the process."""
    return np.array([str(KeptBlocks(FIT, part.index, "number").path.parent), str(os.getpid())])


class OneOutput(Slice):
    """A slice of the first output."""

    def __iter__(self):
        return ((X, Y[:, 0]) for X, Y in super().__iter__())
