"""Tables in parts that were looked through once, and the blocks of later passes."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.factors.slots import ObservedRows
from cavity.inference.graph.rows import Rows
from cavity.learning.data.arrays import pad_rows
from cavity.learning.data.batches import BUFFER
from cavity.learning.data.block_sum import BlockSum
from cavity.learning.data.blocks import BlockLayout, cut, joined, row_range
from cavity.learning.data.fingerprint import to_text
from cavity.learning.data.scales import Tallies
from cavity.learning.data.training_data import (
    AbstractTrainingData,
    Data,
    Minibatch,
    StoredSites,
)
from cavity.learning.engines.base import AbstractEngine, Part
from cavity.learning.engines.kept import Dropped
from cavity.likelihoods.base import AbstractLikelihood
from cavity.numerics.chunking import padded_size
from cavity.numerics.tree import to_numpy
from cavity.numerics.tree_sum import added

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, eq=False)
class BatchedData(AbstractTrainingData):
    """A table in parts that was looked through once, in blocks of one shape.

    Attributes:
        parts: where rows come from.
        layout: how they become blocks.
        buffer: rows among which minibatches are shuffled; None: those of eight blocks.
        engine: what works on parts.
        first: some rows of the first part.
        observed: observed outputs, (P,).
        counted: of the inputs, and of the latent function as the outputs tell it.
        digests: hashes of the inputs, outputs and side data of all rows.
    """

    parts: tuple[Part, ...]
    layout: BlockLayout
    buffer: int | None
    engine: AbstractEngine
    first: Rows
    observed: np.ndarray
    counted: Tallies
    digests: Mapping[str, str]

    @property
    def power(self) -> float:
        """The power of all rows."""
        return self.layout.power

    @property
    def single(self) -> bool:
        """Whether outputs are vectors."""
        return self.layout.single

    @property
    def length(self) -> int:
        """Rows, those without any output left out."""
        return sum(self.layout.lengths)

    @functools.cached_property
    def exemplar(self) -> Data:
        count = len(self.first.x)
        return self.layout.data(pad_rows(self.first, padded_size(count)), count)

    @property
    def in_memory(self) -> None:
        """The rows are not in memory."""

    @property
    def n_observed(self) -> float:
        """The number of observed outputs."""
        return float(self.observed.sum())

    @property
    def rows_observed(self) -> ObservedRows:
        """The number of observed rows."""
        counts = np.maximum(self.observed, 1.0), float(self.length)
        dtype = self.exemplar.rows.y.dtype
        return ObservedRows(*(jnp.asarray(count, dtype) for count in counts))

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        return self.layout.n_blocks

    @property
    def largest(self) -> float:
        """The largest magnitude among inputs and latent values."""
        return max(float(np.max(each.largest, initial=0.0)) for each in self.counted)

    def tallies(self, likelihood: AbstractLikelihood) -> Tallies:
        """Counts and moments of the columns."""
        return self.counted

    def blocks(self) -> Iterator[Data]:
        """One pass over all rows, part by part; the last block of each is padded.

        Raises:
            ValueError: where it gives another number of rows than the first pass.
        """
        return (block for part in self.parts for block in self.layout.blocks(part))

    def summed(
        self,
        program: Callable[..., Any],
        *arguments: Any,
        sites: StoredSites | None = None,
        add: Callable[[T, T], T] = added,
    ) -> Any:
        work = BlockSum(program, to_numpy(arguments), self.layout, add, sites)
        return self.engine.sum(work, self.parts, add)

    def drop_sites(self, fit: str) -> None:
        for _ in self.engine.each(Dropped(fit), self.parts):
            pass

    def minibatches(self, size: int, random: np.random.Generator) -> Iterator[Minibatch]:
        """Minibatches of `size` rows for ever, shuffled among those of some blocks at a time."""
        buffer = BUFFER * self.layout.size if self.buffer is None else self.buffer
        remainder: list[Rows] = []
        while True:
            for rows in cut(self._rows(), max(buffer, size)):
                order = random.permutation(len(rows.x))
                shuffled = jax.tree.map(lambda a, order=order: a[order], rows)
                pool = joined([*remainder, shuffled])
                count = len(pool.x)
                for start in range(0, count - size + 1, size):
                    data = self.layout.data(row_range(pool, start, start + size), size)
                    yield Minibatch(size, data=data)
                remainder = [row_range(pool, count - count % size, count)]

    def fingerprint(self) -> dict[str, str | int | None]:
        """Hashes of all rows from the first pass, by name, and how the rows are cut."""
        side = {name: text for name, text in self.digests.items() if name not in ("X", "y")}
        return {
            "inputs X": self.digests["X"],
            "outputs y": self.digests["y"],
            "side data of the rows": to_text(side),
            "rows worked on at a time": self.layout.size,
            "rows among which minibatches are shuffled": self.buffer,
        }

    def _rows(self) -> Iterator[Rows]:
        return (rows for part in self.parts for rows in self.layout.rows(part))
