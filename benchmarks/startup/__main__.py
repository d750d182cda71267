"""First fits, commands and imports, in fresh processes: python -m benchmarks.startup [--only ...].

GPflow needs its environment (`make bench-environments`); rows without it are left out. Processor
seconds are medians, of a part without imports and, at the last part of a job, of the whole process
with them; the ratio is that of whole processes, the median over turns. `least` and `most` are of
the first of the figures.
`programs` are those that XLA compiled, `own_programs` those of the library, `optimised` those of
them with all passes of the compiler, and `operations` theirs all together.
"""

import argparse
import os
from collections import defaultdict
from statistics import median
from typing import Any

from benchmarks.peers.page import called
from benchmarks.startup import commands, sessions
from benchmarks.startup.page import LIBRARIES, TABLE, tables
from benchmarks.startup.processes import job_of, one_core, plain, python_of, run, seconds_of

# The libraries that do a job.
JOBS = {
    "first_regression": LIBRARIES,
    "second_regression": LIBRARIES,
    "first_sparse": ("gpflow", "cavity"),
    "first_classifier": LIBRARIES,
    "regressions": LIBRARIES,
    "classifiers": ("sklearn", "cavity"),
    "deep": ("cavity",),
    "series": ("cavity",),
    "embedding": ("cavity",),
    "update": ("cavity",),
}
# Imports what jobs import, so that compiled Python files are there when these are measured.
IMPORTS = {
    "sklearn": "import sklearn.gaussian_process",
    "gpflow": "import gpflow",
    "cavity": """
import contextlib, importlib, pkgutil, cavity
for module in pkgutil.walk_packages(cavity.__path__, "cavity."):
    with contextlib.suppress(ImportError):
        importlib.import_module(module.name)
""",
}
FIGURES = ("cpu_s", "seconds", "whole_process_cpu_s")
COUNTS = ("programs", "own_programs", "optimised", "operations")
Row = dict[str, Any]
# What a turn has found, by library.
Turn = dict[str, Row]


def measure_job(job: str, repeats: int, *, names: bool) -> list[Row]:
    """Rows of a job, of each library that is there; the libraries take turns."""
    there = [library for library in JOBS[job] if python_of(library) is not None]
    turns: list[dict[str, Turn]] = []
    for _ in range(repeats):
        turns.append(defaultdict(dict))
        for library in there:
            answer = job_of(library, job)
            answer["parts"][-1]["whole_process_cpu_s"] = answer["whole_process_cpu_s"]
            for part in answer["parts"]:
                turns[-1][part.pop("what")][library] = part | {"version": answer["version"]}
    if names:
        print_names(turns[-1])
    return [
        row_of(what, library, [turn[what] for turn in turns])
        for what, found in turns[0].items()
        for library in found
    ]


def measure_commands(repeats: int) -> list[Row]:
    """Rows of the command line."""
    turns = [commands.turn() for _ in range(repeats)]
    return [
        row_of(what, "cavity", [{"cavity": turn[what]} for turn in turns]) for what in turns[0]
    ]


def measure_sessions(repeats: int) -> list[Row]:
    """Rows of imports, predictions and overhead."""
    rows = []
    for code in sessions.CODES:
        found = [seconds_of(code) for _ in range(repeats)]
        for what in found[0]:
            turns = [{"cavity": {"seconds": one[what]}} for one in found]
            rows.append(row_of(what, "cavity", turns) | {"threads": os.cpu_count()})
    return rows


def row_of(what: str, library: str, turns: list[Turn]) -> Row:
    """A row: medians of what the turns have found."""
    mine = [turn[library] for turn in turns]
    row: Row = {"what": what, "library": library, "version": mine[0].get("version", "")}
    row |= {
        name: float(median(one[name] for one in mine)) if name in mine[0] else ""
        for name in FIGURES
    }
    first = [one[next(name for name in FIGURES if name in one)] for one in mine]
    row |= {"least": float(min(first)), "most": float(max(first)), "ratio_to_scikit_learn": ""}
    whole = "whole_process_cpu_s"
    if "sklearn" in turns[0] and whole in mine[0]:
        ratios = [turn[library][whole] / turn["sklearn"][whole] for turn in turns]
        row["ratio_to_scikit_learn"] = float(median(ratios))
    row |= {name: mine[-1].get(name, "") for name in COUNTS}
    return row | {"threads": 1, "repeats": len(turns)}


def print_names(turn: dict[str, Turn]) -> None:
    """Prints the compiled programs of each part, those that took XLA longest first."""
    for what, found in turn.items():
        print(f"{what}: seconds of XLA, operations where it is one of the library's own, times")
        names = found["cavity"]["names"]
        for name, (seconds, size) in sorted(names.items(), key=lambda item: -sum(item[1][0])):
            each = " + ".join(f"{one:.2f}" for one in sorted(seconds, reverse=True)[:6])
            print(f"  {sum(seconds):8.2f} {size or '':>7} {len(seconds):4d} {name}  {each}")


def kept(rows: list[Row]) -> set[str]:
    """The names of rows, once they are printed and in the csv."""
    for row in rows:
        print({name: value for name, value in row.items() if value != ""}, flush=True)
        TABLE.add(row)
    return {row["what"] for row in rows}


def prepare() -> None:
    """Says which libraries are not there, and imports the others once."""
    for library in LIBRARIES:
        python = python_of(library)
        if python is None:
            print(f"{called(library)} has no environment: make bench-environments", flush=True)
        else:
            run([python, "-c", IMPORTS[library]], plain(1))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.startup", description=__doc__)
    parts = (*JOBS, "commands", "sessions")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--names", action="store_true", help="print the programs by their names")
    asked = parser.parse_args()
    done: set[str] = set()
    prepare()
    with one_core():
        for job in [job for job in JOBS if job in asked.only]:
            done |= kept(measure_job(job, asked.repeats, names=asked.names))
        if "commands" in asked.only:
            done |= kept(measure_commands(asked.repeats))
    if "sessions" in asked.only:
        done |= kept(measure_sessions(asked.repeats))
    print(tables(done))


if __name__ == "__main__":
    main()
