"""The first pass over the parts of a table: what it checks, counts and measures."""

import dataclasses
import hashlib
import operator
from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.graph.rows import Rows
from cavity.learning.data.arrays import check_power
from cavity.learning.data.batched import BatchedData
from cavity.learning.data.batches import LEAST, MOST, Batches
from cavity.learning.data.blocks import (
    MODULUS,
    BlockLayout,
    Columns,
    checked,
    columns_of,
    difference,
    row_checksum,
    row_range,
)
from cavity.learning.data.parts import Parts, as_parts
from cavity.learning.data.scales import Tallies, latent_tallies, summable_tallies
from cavity.learning.engines.base import AbstractEngine, InProcess, Part
from cavity.likelihoods.base import AbstractLikelihood
from cavity.numerics.chunking import padded_size
from cavity.numerics.types import Array

# Rows that are kept in memory, which have the columns of all.
KEPT = 64


class PartSeen(NamedTuple):
    """A part as the first pass found it.

    Attributes:
        name: the part.
        rows: its rows, those without any output left out.
        digests: hashes of inputs, outputs and side data; none without rows.
        columns: as all parts have them.
        checksum: of the rows, quicker than the hashes.
    """

    name: str
    rows: int
    digests: Mapping[str, str]
    columns: Columns
    checksum: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Seen:
    """What the first pass found in parts that follow one another and have rows.

    Attributes:
        parts: each of them.
        largest: rows of the largest batch.
        observed: observed outputs, (P,).
        counted: of the inputs, and of the latent function as the outputs tell it.
        filler: the first observed value of each output, NaN where there is none, (P,).
        shared: whether outputs are missing in whole rows only.
        single: whether all outputs are vectors.
        first: the first rows.
    """

    parts: tuple[PartSeen, ...]
    largest: int
    observed: np.ndarray
    counted: Tallies
    filler: np.ndarray
    shared: bool
    single: bool
    first: Rows

    def __add__(self, later: "Seen") -> "Seen":
        """What was found in both.

        Raises:
            ValueError: where later parts have other columns.
        """
        before, after = self.parts[-1], later.parts[0]
        if before.columns != after.columns:
            told = difference(after.columns, before.columns, before.name)
            raise ValueError(f"{after.name} has other {told}")
        (x, latent), (more_x, more_latent) = self.counted, later.counted
        return Seen(
            parts=self.parts + later.parts,
            largest=max(self.largest, later.largest),
            observed=self.observed + later.observed,
            counted=(x + more_x, latent + more_latent),
            filler=np.where(np.isnan(self.filler), later.filler, self.filler),
            shared=self.shared and later.shared,
            single=self.single and later.single,
            first=self.first,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Survey:
    """The first pass over one part.

    Attributes:
        likelihood: which outputs must suit.
        missing: "error" or "skip".
    """

    likelihood: AbstractLikelihood
    missing: str

    def __call__(self, part: Part) -> Seen | None:
        """What is found in a part; None where it has no rows."""
        hashes: dict[str, hashlib._Hash] = {}
        found: list[Seen] = []
        count = total = 0
        for rows, single in checked(part, self.missing, self.likelihood):
            presence = np.broadcast_to(np.asarray(rows.presence), rows.y.shape)
            observations = np.where(presence > 0.0, rows.y, np.nan)
            for name, a in ({"X": rows.x, "y": observations} | dict(rows.side)).items():
                hashes.setdefault(name, hashlib.sha256()).update(np.ascontiguousarray(a).tobytes())
            batch = Seen(
                parts=(PartSeen(part.name, len(rows.x), {}, columns_of(rows)),),
                largest=len(rows.x),
                observed=presence.sum(axis=0),
                counted=summable_tallies(rows, self.likelihood),
                filler=np.where(presence.any(axis=0), _first_observed(rows.y, presence), np.nan),
                shared=rows.presence.shape[1] == 1,
                single=single,
                first=jax.tree.map(np.array, row_range(rows, 0, KEPT)),
            )
            found = [found[0] + batch if found else batch]
            total += row_checksum(rows, count)
            count += len(rows.x)
        if not found:
            return None
        (seen,) = found
        digests = {name: f"sha256 {sha.hexdigest()}" for name, sha in hashes.items()}
        whole = PartSeen(part.name, count, digests, seen.parts[0].columns, total % MODULUS)
        return dataclasses.replace(seen, parts=(whole,))


def _first_observed(y: Array, presence: np.ndarray) -> np.ndarray:
    """The first observed value of each output."""
    return np.asarray(y)[np.argmax(presence > 0.0, axis=0), np.arange(y.shape[1])]


def survey(
    batches: Batches | Parts,
    likelihood: AbstractLikelihood,
    *,
    power: ArrayLike = 0.5,
    missing: str = "error",
    engine: AbstractEngine | None = None,
) -> BatchedData:
    """The first pass: checks all batches, counts rows and measures columns.

    Raises:
        ValueError: for unusable data, naming the batch, and for a part that is given twice.
        TypeError: for data that are not numbers, or float64 data in 32-bit mode.
    """
    engine, table = InProcess() if engine is None else engine, as_parts(batches)
    found = engine.sum(Survey(likelihood, missing), table.parts, operator.add)
    if found is None:
        raise ValueError(
            "the batches hold no rows, or none whose weight is positive: give at least one batch "
            "with a row (a generator that was read before is empty)"
        )
    _refuse_twice(found.parts)
    seen = {each.name: each for each in found.parts}
    longest = max(each.rows for each in found.parts)
    shared_power, _ = check_power(power, longest)
    if shared_power is None:
        raise ValueError("batches have no power per row: give one power for all")
    asked = table.size or min(max(found.largest, LEAST), MOST)
    layout = BlockLayout(
        size=padded_size(min(asked, longest)),
        power=shared_power,
        single=found.single,
        filler=np.nan_to_num(found.filler),
        shared=found.shared,
        missing=missing,
        lengths=tuple(seen[p.name].rows if p.name in seen else 0 for p in table.parts),
        checksums=tuple(seen[p.name].checksum if p.name in seen else 0 for p in table.parts),
    )
    return BatchedData(
        parts=table.parts,
        layout=layout,
        buffer=table.buffer,
        engine=engine,
        first=found.first,
        observed=found.observed,
        counted=latent_tallies(found.counted, likelihood),
        digests=_digests(found.parts),
    )


def _digests(parts: tuple[PartSeen, ...]) -> dict[str, str]:
    """Hashes of all rows, by name: of several parts their hashes in order."""
    if len(parts) == 1:
        return dict(parts[0].digests)
    return {name: ", ".join(part.digests[name] for part in parts) for name in parts[0].digests}


def _refuse_twice(parts: tuple[PartSeen, ...]) -> None:
    """Raises ValueError where two parts have the same rows."""
    known: dict[tuple[str, ...], str] = {}
    for part in parts:
        digest = tuple(part.digests.values())
        if digest in known:
            raise ValueError(
                f"{known[digest]} and {part.name} have the same rows: each part counts, so give "
                "it once"
            )
        known[digest] = part.name
