"""Numbers of a long table, kept in a temporary file, and a random sample of its rows."""

import tempfile
import weakref
from collections.abc import Callable, Iterator

import numpy as np

from cavity.learning.data.batches import Batch
from cavity.learning.data.scales import Tally, tally
from cavity.persistence.atomic_file import reason
from cavity.persistence.errors import DataError
from cavity.tables.schema import Encoded

# Rows from which starting values and inducing points come; of fewer all.
SAMPLED = 20_000


class RowCache:
    """Rows of numbers on disk, 8 bytes each, read back batch by batch as often as need be.

    The file has no name, and is gone with the object.

    Args:
        sides: names of the side data of the rows.
        targets: the number of targets.
        seed: of the sample.

    Attributes:
        rows: rows so far.
        passes: passes begun.
        watch: called with the rows done, before each batch of a pass.
    """

    def __init__(self, sides: tuple[str, ...], targets: int, seed: int):
        self.sides, self.targets = sides, targets
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as this object
        weakref.finalize(self, self.file.close)
        self.random = np.random.default_rng(seed)
        self.rows = self.passes = 0
        self.tally: Tally | None = None
        self.places: np.ndarray | None = None
        self.watch: Callable[[int], None] = _nobody
        self._sample, self._keys = np.zeros((0, 0)), np.zeros(0)
        self._classes: dict[float, np.ndarray] = {}

    def add(self, part: Encoded, *, labels: bool) -> None:
        """Adds rows that were encoded; `labels` if their target is the place of a class.

        Raises:
            DataError: if there is no room for them.
        """
        assert part.y is not None
        if not len(part.X):
            return
        known = part.side_and_weight
        side = [known[name][:, None] for name in self.sides]
        table = np.ascontiguousarray(np.hstack([part.X, part.y, *side]))
        self._write(table)
        self.rows += len(table)
        plural = tally(part.y, None if part.weight is None else part.weight[:, None])
        self.tally = plural if self.tally is None else self.tally + plural
        self._draw(table)
        for label in np.setdiff1d(part.y, [*self._classes]) if labels else ():
            self._classes[float(label)] = table[np.argmax(part.y[:, 0] == label)]

    def _write(self, table: np.ndarray) -> None:
        try:
            self.file.write(table.data)
            self.file.flush()
        except OSError as error:
            raise DataError(
                f"the numbers of a long table are kept in a temporary file in "
                f"{tempfile.gettempdir()}, and it cannot be written: {reason(error)}; make room, "
                "or name another folder by the environment variable TMPDIR",
                kind="io",
            ) from None

    def _draw(self, table: np.ndarray) -> None:
        """Keeps the rows of smallest random keys, in order."""
        keys = self.random.random(len(table))
        together = np.vstack([self._sample, table]) if len(self._sample) else table
        keys = np.concatenate([self._keys, keys])
        if len(keys) > SAMPLED:
            kept = np.sort(np.argpartition(keys, SAMPLED)[:SAMPLED])
            together, keys = together[kept], keys[kept]
        self._sample, self._keys = together, keys

    @property
    def seen(self) -> np.ndarray:
        """The places of the classes that there are, ascending."""
        return np.sort(np.array([*self._classes]))

    def recode(self) -> None:
        """Numbers the classes that there are without gaps."""
        places = np.zeros(int(self.seen[-1]) + 1)
        places[self.seen.astype(int)] = np.arange(len(self.seen))
        self.places = places

    def sample(self) -> Batch:
        """Random rows in their order, all of a short table; with a row of every class."""
        missing = [
            row
            for label, row in self._classes.items()
            if label not in self._sample[:, -len(self.sides) - 1]
        ]
        return self._batch(np.vstack([self._sample, *missing]))

    def batches(self, size: int) -> Iterator[Batch]:
        """One pass over all rows, `size` at a time."""
        self.passes += 1
        width, done = self._sample.shape[1], 0
        while done < self.rows:
            self.watch(done)
            self.file.seek(8 * width * done)
            count = min(size, self.rows - done)
            table = np.frombuffer(self.file.read(8 * width * count)).reshape(count, width)
            yield self._batch(table)
            done += count

    def _batch(self, table: np.ndarray) -> Batch:
        """The rows as inputs, outputs and side data."""
        inputs = table.shape[1] - self.targets - len(self.sides)
        y = table[:, inputs : inputs + self.targets]
        if self.places is not None:
            y = self.places[y.astype(int)]
        side = table[:, inputs + self.targets :].T
        rows = dict(zip(self.sides, side, strict=True)) or None
        return Batch(table[:, :inputs], y[:, 0] if self.targets == 1 else y, rows)


def _nobody(_: int) -> None:
    """Nobody watches."""
