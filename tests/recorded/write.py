"""Writes what the code of today gives: `python -m tests.recorded.write [names of cases]`.

Only for cases that are new: what is there is what later code must give again.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np

from tests.recorded import commands
from tests.recorded.cases import CASES
from tests.recorded.evaluation import FILE, after_inference, at_sites, leaves_of, recorded


def written(name: str) -> dict[str, np.ndarray]:
    """Sites, and what is recorded at them and of inference."""
    case = CASES[name]()
    leaves = leaves_of(case)
    found = {f"sites {i}": leaf for i, leaf in enumerate(leaves)}
    return found | at_sites(case, leaves) | after_inference(case)


def main() -> None:
    known = recorded() if FILE.exists() else {}
    names = sys.argv[1:] or [name for name in CASES if name not in known]
    with jax.enable_x64(True):
        for name in names:
            known[name] = written(name)
            flat = {f"{case}: {k}": v for case, each in known.items() for k, v in each.items()}
            np.savez_compressed(FILE, **flat)  # type: ignore[arg-type]
    if not commands.FILE.exists():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            printed = commands.ran(Path(folder))
        commands.FILE.write_text(json.dumps(printed, indent=1) + "\n")


if __name__ == "__main__":
    main()
