"""Batched data: the first pass, which checks and measures them, and the blocks of later passes."""

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.factors.slots import ObservedRows
from cavity.inference.graph.rows import Rows
from cavity.learning.data.arrays import (
    check_arrays,
    check_power,
    pad_rows,
    prepare,
    to_device,
    without_columns,
)
from cavity.learning.data.batches import (
    BUFFER,
    LEAST,
    MOST,
    Batch,
    Batches,
    BatchSource,
    as_batches,
    refuse_side,
)
from cavity.learning.data.fingerprint import to_text
from cavity.learning.data.scales import Tallies, row_tallies
from cavity.learning.data.training_data import AbstractTrainingData, Data, Minibatch
from cavity.learning.data.validation import (
    check_approximation,
    check_model,
    check_order,
    check_outputs,
    check_volume,
)
from cavity.learning.methods.base import AbstractMethod
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.base import AbstractModel
from cavity.numerics.chunking import padded_size
from cavity.numerics.text import plural


class Layout(NamedTuple):
    """Arguments of `infer` and `fit` that belong to single rows, as `prepare` has them."""

    power: ArrayLike = 0.5
    blocks: ArrayLike | None = None
    rows: Mapping[str, ArrayLike] | None = None
    missing: str = "error"


@dataclasses.dataclass(frozen=True, eq=False)
class BatchedData(AbstractTrainingData):
    """Batches that were looked through once, in blocks of one shape.

    Attributes:
        batches: where rows come from.
        missing: "error" or "skip".
        size: rows of a block.
        power: the power of all rows.
        single: whether outputs are vectors.
        length: rows, those without any output left out.
        observed: observed outputs, (P,).
        counted: of the inputs, and of the latent function as the outputs tell it.
        filler: an observed value of each output, (P,), which stands for missing ones.
        shared: whether outputs are missing in whole rows only.
        digests: hashes of the inputs, outputs and side data of all rows.
    """

    batches: Batches
    missing: str
    size: int
    power: float
    single: bool
    length: int
    observed: np.ndarray
    counted: Tallies
    filler: np.ndarray
    shared: bool
    digests: Mapping[str, str]

    @functools.cached_property
    def first_block(self) -> Data:
        """The first block, which has the shapes of all."""
        return next(self.blocks())

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
        dtype = self.first_block.rows.y.dtype
        return ObservedRows(*(jnp.asarray(count, dtype) for count in counts))

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        return -(-self.length // self.size)

    def tallies(self, likelihood: AbstractLikelihood) -> Tallies:
        """Counts and moments of the columns."""
        return self.counted

    def blocks(self) -> Iterator[Data]:
        """One pass over all rows; the last block is padded.

        Raises:
            ValueError: where it gives another number of rows than the first pass.
        """
        for rows in cut(self._rows(), self.size):
            yield self._data(pad_rows(rows, self.size), len(rows.x))

    def minibatches(self, size: int, random: np.random.Generator) -> Iterator[Minibatch]:
        """Minibatches of `size` rows for ever, shuffled among those of some blocks at a time."""
        asked = self.batches.buffer
        buffer = BUFFER * self.size if asked is None else asked
        remainder: list[Rows] = []
        while True:
            for rows in cut(self._rows(), max(buffer, size)):
                order = random.permutation(len(rows.x))
                shuffled = jax.tree.map(lambda a, order=order: a[order], rows)
                pool = joined([*remainder, shuffled])
                count = len(pool.x)
                for start in range(0, count - size + 1, size):
                    data = self._data(row_range(pool, start, start + size), size)
                    yield Minibatch(size, data=data)
                remainder = [row_range(pool, count - count % size, count)]

    def fingerprint(self) -> dict[str, str | int | None]:
        """Hashes of all rows from the first pass, by name, and how the rows are cut."""
        side = {name: text for name, text in self.digests.items() if name not in ("X", "y")}
        return {
            "inputs X": self.digests["X"],
            "outputs y": self.digests["y"],
            "side data of the rows": to_text(side),
            "rows worked on at a time": self.size,
            "rows among which minibatches are shuffled": self.batches.buffer,
        }

    def _data(self, rows: Rows, length: int) -> Data:
        """Rows as data of the shapes of all."""
        presence = np.asarray(rows.presence)
        if not self.shared:
            presence = np.ascontiguousarray(np.broadcast_to(presence, rows.y.shape))
        y = np.where(presence > 0.0, rows.y, self.filler)
        laid = dataclasses.replace(rows, y=y, presence=presence)
        return to_device(laid, self.power, single=self.single, length=length)

    def _rows(self) -> Iterator[Rows]:
        count = 0
        for rows, _ in _checked(self.batches, self.missing):
            count += len(rows.x)
            yield rows
        if count != self.length:
            raise ValueError(
                f"the batches gave {plural(self.length, 'row')} in the first pass and "
                f"{count} in a later one: they must give the same rows every time"
            )


# What users give as X, with or without a y.
TrainingRows = ArrayLike | Batches | BatchSource | BatchedData


def in_memory(X: TrainingRows | None, y: ArrayLike | None) -> tuple[ArrayLike, ArrayLike]:
    """X and y where both are arrays.

    Raises:
        TypeError: for batches, and where X or y is missing.
    """
    if isinstance(X, Batches | BatchedData) and y is not None:
        raise TypeError("batches hold X and y both: leave y out")
    if X is None or y is None:
        raise TypeError(
            "every row is looked at many times, so that the rows must be in memory: give X and y"
        )
    return cast(ArrayLike, X), y


def _has_one_program(model: AbstractModel) -> bool:
    """True if power 1 has no closed form of its own, and shares the programs of those below it."""
    exact = model.likelihood.gaussian_noise is not None
    return exact and model.approximate and not (model.latent_rows or model.ordered)


def as_training_data(
    model: AbstractModel,
    X: TrainingRows | None,
    y: ArrayLike | None,
    method: AbstractMethod,
    layout: Layout,
) -> AbstractTrainingData:
    """The data that `infer` and `fit` were given: arrays, or batches in the place of both.

    Raises:
        ValueError: for unusable data, and for what batches are not for.
        TypeError: for data that are not numbers, batches that can be read only once, and float64
            data in 32-bit mode.
    """
    power, blocks, rows, missing = layout
    check_model(model, blocks, method)
    check_volume(model, method, power)
    check_approximation(model, method)
    check_order(model, method, in_memory=y is not None or X is None)
    if not model.takes_inputs:
        X = without_columns(X, y, empty_rows=model.ordered)
    elif X is None:
        raise ValueError(f"{type(model).__name__} needs inputs: give X, one row for each of y")
    if y is not None:
        rows = model.row_data(rows, len(np.asarray(y)))
        data = prepare(*in_memory(X, y), power=power, blocks=blocks, rows=rows, missing=missing)
        model.check_power(data.rows, data.power, method.approximation)
        return data.with_power_traced() if _has_one_program(model) else data
    batches = X if isinstance(X, BatchedData) else as_batches(X)
    refuse_side(rows)
    if blocks is not None or np.ndim(power):
        raise ValueError(
            "batches have neither blocks nor a power per row: leave blocks=None, and give one "
            "power for all"
        )
    if not model.sparse:
        raise ValueError(
            "a full GP compares every row with all others and needs them in memory: give X and y, "
            "or a model with inducing variables"
        )
    approximation = method.approximation
    if approximation.hidden is not None:
        raise ValueError(
            "posteriors of hidden values have numbers for every row, so that the rows must be in "
            "memory: give X and y, or method=cavity.TiedPowerEP(batch=1000)"
        )
    check_streamed(model, method)
    if isinstance(batches, BatchedData):
        return batches
    return survey(batches, model.likelihood, power=power, missing=missing)


def check_streamed(model: AbstractModel, method: AbstractMethod) -> None:
    """Raises ValueError for a model whose rows need sites, and thus to be in memory."""
    approximation = method.approximation
    exact = approximation.closed_form and model.likelihood.gaussian_noise is not None
    if not (exact or approximation.tied):
        raise ValueError(
            f"{type(method).__name__}() keeps a site for every row of the likelihood "
            f"{type(model.likelihood).__name__}, so that the rows must be in memory: give X and "
            "y, or method=cavity.TiedPowerEP(batch=1000)"
        )


def survey(
    batches: Batches,
    likelihood: AbstractLikelihood,
    *,
    power: ArrayLike = 0.5,
    missing: str = "error",
) -> BatchedData:
    """The first pass: checks all batches, counts rows and measures columns.

    Raises:
        ValueError: for unusable data, naming the batch.
        TypeError: for data that are not numbers, or float64 data in 32-bit mode.
    """
    largest, length, shared, singles = 0, 0, True, set()
    observed, tallies, filler = np.zeros(0), None, np.zeros(0)
    hashes: dict[str, hashlib._Hash] = {}
    for rows, single in _checked(batches, missing, likelihood):
        presence = np.broadcast_to(np.asarray(rows.presence), rows.y.shape)
        observations = np.where(presence > 0.0, rows.y, np.nan)
        for name, a in ({"X": rows.x, "y": observations} | dict(rows.side)).items():
            hashes.setdefault(name, hashlib.sha256()).update(np.ascontiguousarray(a).tobytes())
        shared = shared and rows.presence.shape[1] == 1
        if tallies is None:
            observed = np.zeros(rows.y.shape[1])
            filler = np.full(observed.shape, np.nan)
        x, latent = row_tallies(rows, likelihood)
        tallies = (x, latent) if tallies is None else (tallies[0] + x, tallies[1] + latent)
        filler = np.where(np.isnan(filler) & presence.any(axis=0), rows.y[0], filler)
        observed = observed + presence.sum(axis=0)
        largest, length = max(largest, len(rows.x)), length + len(rows.x)
        singles.add(single)
    if tallies is None:
        raise ValueError(
            "the batches hold no rows: give at least one batch with a row (a generator that was "
            "read before is empty)"
        )
    asked = batches.size or min(max(largest, LEAST), MOST)
    shared_power, _ = check_power(power, length)
    if shared_power is None:
        raise ValueError("batches have no power per row: give one power for all")
    return BatchedData(
        batches=batches,
        missing=missing,
        size=padded_size(min(asked, length)),
        power=shared_power,
        single=singles == {True},
        length=length,
        observed=observed,
        counted=tallies,
        filler=np.nan_to_num(filler),
        shared=shared,
        digests={name: f"sha256 {sha.hexdigest()}" for name, sha in hashes.items()},
    )


def _checked(
    batches: Batches, missing: str, likelihood: AbstractLikelihood | None = None
) -> Iterator[tuple[Rows, bool]]:
    """Every batch that has rows, checked, and whether its y was a vector."""
    shape, count = None, 0
    for number, batch in enumerate(batches, 1):
        try:
            arrays = _arrays(batch, missing)
            if arrays is None:
                continue
            rows, single = arrays
            if likelihood is not None:
                check_outputs(likelihood, Data(rows, 0.0, len(rows.x), single))
            columns = (rows.x.shape[1], rows.y.shape[1], sorted(rows.side), rows.x.dtype)
            if shape is not None and columns != shape:
                raise ValueError(_another_shape(columns, shape))
        except (TypeError, ValueError) as error:
            where = f"batch {number}, whose index 0 is row {count} of all"
            raise type(error)(f"{where}: {error}") from None
        shape, count = columns, count + len(rows.x)
        yield rows, single


def _arrays(batch: Batch, missing: str) -> tuple[Rows, bool] | None:
    """The arrays of a batch, rows without any output left out; None where none are left."""
    X, y = np.asarray(batch.X), np.asarray(batch.y)
    side = dict(batch.rows or {})
    if len(np.atleast_1d(X)) == 0 and len(np.atleast_1d(y)) == 0:
        return None
    if missing == "skip" and y.dtype.kind == "f" and X.shape[:1] == y.shape[:1]:
        observed = ~np.all(np.isnan(y.reshape(len(y), -1)), axis=1)
        if not np.any(observed):
            return None
        if not np.all(observed):
            X, y = X[observed], y[observed]
            side = {name: np.asarray(values)[observed] for name, values in side.items()}
    return check_arrays(X, y, side, missing)


def _another_shape(shape: tuple[object, ...], before: tuple[object, ...]) -> str:
    names = ("input columns", "output columns", "side data", "numbers")
    pairs = zip(names, shape, before, strict=True)
    name, value, wanted = next(pair for pair in pairs if pair[1] != pair[2])
    return f"it has other {name} than the batches before it: {value}, not {wanted}"


def joined(parts: list[Rows]) -> Rows:
    """Rows one after another; if some share the presence of their outputs, it is unshared."""
    if len(parts) == 1:
        return parts[0]
    if len({rows.presence.shape[1] for rows in parts}) > 1:
        parts = [
            dataclasses.replace(r, presence=np.broadcast_to(np.asarray(r.presence), r.y.shape))
            for r in parts
        ]
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


def row_range(rows: Rows, start: int, end: int) -> Rows:
    """Some consecutive rows."""
    return jax.tree.map(lambda a: a[start:end], rows)


def cut(parts: Iterable[Rows], size: int) -> Iterator[Rows]:
    """The same rows in the same order, `size` at a time; the last ones may be fewer."""
    waiting: list[Rows] = []
    count = 0
    for rows in parts:
        waiting.append(rows)
        count += len(rows.x)
        if count < size:
            continue
        together, whole = joined(waiting), count - count % size
        for start in range(0, whole, size):
            yield row_range(together, start, start + size)
        waiting, count = [row_range(together, whole, count)], count - whole
    if count:
        yield joined(waiting)
