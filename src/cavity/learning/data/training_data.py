"""Training data: the interface that learning needs, and data in memory."""

import abc
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.energy import Sites
from cavity.inference.factors.slots import ObservedRows, observed_rows
from cavity.inference.graph.rows import Rows
from cavity.inference.past import Past
from cavity.inference.problem import Problem
from cavity.inference.variables.chain import SERIES
from cavity.learning.data.fingerprint import fingerprint
from cavity.learning.data.scales import Scales, Tallies, row_tallies, scales_of
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.base import AbstractModel
from cavity.models.problem import ModelOnRows
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.tree_sum import added
from cavity.numerics.types import Array, Scalar

T = TypeVar("T")


class Minibatch(NamedTuple):
    """Some rows that stand for all of them.

    Attributes:
        size: their number.
        index: their positions among the rows in memory; None for all rows of `data`.
        data: rows that are not in memory otherwise; None where `index` is given.
    """

    size: int
    index: np.ndarray | None = None
    data: "Data | None" = None


@dataclasses.dataclass(frozen=True)
class StoredSites:
    """Sites of rows that are kept with their parts.

    Attributes:
        fit: what they belong to; different for all fits.
        empty: the sites of a block that a search starts from: of the first argument of a pass,
            and of the block.
        name: the sites; None for those that a search starts from.
        written: the name of those that a pass makes; None where it makes none.
        forgotten: names that no later pass reads.
    """

    fit: str
    empty: Callable[..., Sites]
    name: str | None = None
    written: str | None = None
    forgotten: tuple[str, ...] = ()


class AbstractTrainingData(abc.ABC):
    """Checked rows in blocks of one shape; data in memory are one block.

    Attributes:
        power: the power of all rows.
        length: the number of rows, padding left out.
    """

    power: Power
    length: int | np.ndarray | jax.Array

    @property
    @abc.abstractmethod
    def exemplar(self) -> "Data":
        """Rows with the columns of all: those in memory themselves."""

    @property
    @abc.abstractmethod
    def largest(self) -> float:
        """The largest magnitude among inputs and outputs."""

    @property
    @abc.abstractmethod
    def in_memory(self) -> "Data | None":
        """The data, where all rows are in memory; None where they come in batches."""

    @property
    @abc.abstractmethod
    def n_blocks(self) -> int:
        """The number of blocks."""

    @property
    @abc.abstractmethod
    def n_observed(self) -> float:
        """The number of observed outputs."""

    @property
    @abc.abstractmethod
    def rows_observed(self) -> ObservedRows:
        """The number of observed rows."""

    @abc.abstractmethod
    def blocks(self) -> "Iterator[Data]":
        """One pass over all rows."""

    @abc.abstractmethod
    def summed(
        self,
        program: Callable[..., Any],
        *arguments: Any,
        sites: StoredSites | None = None,
        add: Callable[[T, T], T] = added,
    ) -> Any:
        """The sum of a function of blocks over all of them, in one order.

        Args:
            program: the function, of a module, which gives the sites that it makes as well where
                there are some to be written.
            arguments: what comes before the sites of a block and the block.
            sites: the rows' own sites; None for none.
            add: adds two values, of numpy arrays.
        """

    @abc.abstractmethod
    def drop_sites(self, fit: str) -> None:
        """Drops the sites that were kept with parts for a fit."""

    @abc.abstractmethod
    def minibatches(self, size: int, random: np.random.Generator) -> Iterator[Minibatch]:
        """Minibatches without end; every pass through the data is in another order."""

    @abc.abstractmethod
    def tallies(self, likelihood: AbstractLikelihood) -> Tallies:
        """Counts and moments of the columns, with those of earlier rows that are not stored."""

    def scales(self, likelihood: AbstractLikelihood) -> Scales:
        """Location and spread of the columns."""
        return scales_of(*self.tallies(likelihood))

    @abc.abstractmethod
    def fingerprint(self) -> Mapping[str, str | int | None]:
        """Identifying properties of these data, by name."""


class Data(eqx.Module, AbstractTrainingData):
    """Checked and padded data, ready for a model.

    Attributes:
        rows: the data, padded; blocks are rows with an axis more.
        power: the power of all rows: a Python number at 0 and 1, an array in between.
        chunk: rows worked on at a time.
        single: whether y was a vector.
        length: rows without padding; of blocks, all their rows.
        past: messages of earlier rows that are no longer in memory; None without any.
        seen: counts and moments of all rows so far; None if these rows are all.
    """

    rows: Rows
    power: Power
    chunk: int = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    length: int | np.ndarray | jax.Array = 0
    past: Past | None = None
    seen: Tallies | None = None

    @property
    def n_observed(self) -> float:
        """The number of observed outputs."""
        presence = np.asarray(self.rows.presence)
        return float(np.sum(np.broadcast_to(presence, self.rows.y.shape)))

    @property
    def rows_observed(self) -> ObservedRows:
        """The number of observed rows."""
        return observed_rows(self.rows)

    @property
    def exemplar(self) -> "Data":
        """The data themselves."""
        return self

    @property
    def largest(self) -> float:
        """The largest magnitude among inputs and outputs."""
        return max(float(np.max(np.abs(a), initial=0.0)) for a in (self.rows.x, self.rows.y))

    @property
    def in_memory(self) -> "Data":
        """The data themselves."""
        return self

    @property
    def n_blocks(self) -> int:
        """One."""
        return 1

    def blocks(self) -> Iterator["Data"]:
        """One pass over all rows: the data themselves."""
        yield self

    def summed(
        self,
        program: Callable[..., Any],
        *arguments: Any,
        sites: StoredSites | None = None,
        add: Callable[[T, T], T] = added,
    ) -> Any:
        """The value of the data themselves, without sites."""
        return program(*arguments, (), self)

    def drop_sites(self, fit: str) -> None:
        """There are none."""

    def with_power_traced(self) -> "Data":
        """The same, with a power of exactly 1 as an array like those below it."""
        if not is_exactly(self.power, 1.0):
            return self
        return dataclasses.replace(self, power=jnp.asarray(1.0, self.rows.y.dtype))

    def problem(
        self,
        model: AbstractModel,
        approximation: AbstractApproximation,
        jitter: Scalar | float,
        *,
        total: ObservedRows | None = None,
        scale: Scalar | float = 1.0,
    ) -> Problem:
        """Inference in a model of these data.

        Args:
            model: the model.
            approximation: what stands in the place of the likelihood terms.
            jitter: share of the mean prior variance added to the diagonal of a covariance.
            total: the number of observed rows in all the data, where these are some.
            scale: rows in all the data for each of these.
        """
        build = ModelOnRows(
            approximation=approximation,
            rows=self.rows,
            power=self.power,
            model=model,
            chunk=self.chunk,
            total=total,
            scale=scale,
            past=self.past,
        )
        return Problem(build, jnp.asarray(jitter, self.rows.y.dtype))

    def tallies(self, likelihood: AbstractLikelihood) -> Tallies:
        """Counts and moments of the columns."""
        return row_tallies(self.rows, likelihood) if self.seen is None else self.seen

    def minibatches(self, size: int, random: np.random.Generator) -> Iterator[Minibatch]:
        """Minibatches without end; every pass through the data is in another order.

        Rows of series come as subsequences: every pass cuts them, from a random one on and around
        the end, into runs of `size`, and leaves out what is less than a run. Every row is in a
        minibatch as often as any other.
        """
        n = int(self.length)
        if SERIES in self.rows.side:
            while True:
                order = np.roll(np.arange(n), -random.integers(n))
                for run in random.permutation(n // size):
                    yield Minibatch(size, order[run * size : (run + 1) * size])
        order = random.permutation(n)
        while True:
            if order.size < size:
                order = np.concatenate([order, random.permutation(n)])
            yield Minibatch(size, order[:size])
            order = order[size:]

    def fingerprint(self) -> dict[str, str]:
        """Hashes of the arrays of the data, by name."""
        return {
            "inputs X": fingerprint(self.rows.x),
            "outputs y": fingerprint((self.rows.y, self.rows.presence)),
            "side data of the rows": fingerprint(self.rows.side),
        }


@compiled
def some_rows(data: Data, index: Array) -> Data:
    """Some rows of prepared data, without blocks."""
    some = (data.rows.take(index), data.power, index.shape[0], data.single, data.length)
    return Data(*some, data.past)
