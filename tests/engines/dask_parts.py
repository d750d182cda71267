"""Parts that worker processes can import, some of which end theirs."""

import os
import signal
import time

import numpy as np

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
