"""What measuring a row is worth: `cavity.suggest` beside BoTorch's integrated variance.

An exact GP of 60 rows, 40 candidates, the mean variance of f over 100 places.
"""

from typing import Any

import numpy as np

from benchmarks.peers import problems
from benchmarks.peers.record import Record
from benchmarks.peers.workers import answer_of


def main(record: Record) -> None:
    """One row: the greatest difference of a gain, and the greatest gain."""
    key = {"what": "integrated", "library": "botorch"}
    if record.has(**key):
        return
    made = problems.synthetic(60, 1, 3, tests=100)
    random = np.random.default_rng(1)
    made["candidates"] = random.standard_normal((40, 3))
    found: dict[str, Any] = {}
    for library in ("cavity", "botorch"):
        found[library] = answer_of(library, record.threads, made, "gains")
        if found[library] is None:
            return
    ours, theirs = (np.array(each["gains"]) for each in found.values())
    apart = float(np.max(np.abs(ours - theirs)))
    row = key | {"version": found["botorch"]["version"]}
    row |= {"threads": record.threads, "candidates": len(made["candidates"])}
    record.add(row | {"largest_gain": float(ours.max()), "apart": apart})
