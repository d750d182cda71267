"""An examination as a record for programs and as text for people."""

import dataclasses
from typing import Any

import numpy as np

from cavity.learning.diagnostics.examination import Examination
from cavity.numerics.text import aligned

# Rows with the largest gains of one more point that are listed.
LISTED = 10


def examination_record(found: Examination, numbers: np.ndarray) -> dict[str, Any]:
    """Record of an examination for `cavity examine --json`.

    Args:
        found: the examination.
        numbers: the numbers of the rows in the table, (N,).
    """
    verdict, gains = found.inducing, found.gains
    best = None
    if gains is not None and gains.rows is not None:
        order = np.argsort(-gains.gain, kind="stable")[:LISTED]
        best = [{"row": int(numbers[gains.rows[i]]), "gain": float(gains.gain[i])} for i in order]
    noise = None if found.noise is None else found.noise._asdict()
    if noise is not None and found.noise is not None:
        noise["trusted"] = bool(found.noise.trusted)
    return {
        "log_evidence": found.bracket.log_evidence,
        "noise_alone": found.noise_alone,
        "bracket": {
            name: value
            for name, value in dataclasses.asdict(found.bracket).items()
            if name != "log_evidence"
        },
        "enough": verdict.enough,
        "more_than_noise": verdict.more_than_noise,
        "explained": verdict.explained,
        "share": verdict.share,
        "terms": None if found.terms is None else dataclasses.asdict(found.terms),
        "noise": noise,
        "inducing": None if found.count is None else found.count._asdict(),
        "gains": best,
        "learnable": found.learnable,
        "learned": found.learned,
        "verdicts": list(found.sentences),
    }


def describe_examination(found: Examination, numbers: np.ndarray) -> str:
    """The numbers of an examination, and its verdicts."""
    rows = aligned(found.rows(numbers.tolist()), indent="  ")
    return "\n\n".join([rows, *found.sentences])
