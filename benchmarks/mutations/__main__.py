"""Deliberate faults, one at a time, and whether the nearest tests notice: mutation testing.

`python -m benchmarks.mutations` copies the source and the tests into a temporary folder, checks
that the named tests pass there, and runs them once with each fault until the first failure. The
checkout is not touched. `--only WORD ...` takes the faults whose name or file has one of the
words, and leaves the rows of other faults in the csv as they are. `--sample` leaves out what
`make test` leaves out, says how many faults the rest catches, and writes nothing.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.mutations.fault import Fault
from benchmarks.mutations.table import FAULTS
from benchmarks.results import Table

ROOT = Path(__file__).parents[2]
# Seconds after which the tests of a fault end: a loop without end is noticed too.
LIMIT = 300.0
# The share of faults that must be caught, and by the sample of `make test`.
LEAST_SHARE, LEAST_BY_SAMPLE = 1.0, 0.9
# What pytest ends with where no test was selected.
NO_TESTS = 5


class Outcome(NamedTuple):
    """What tests said of a source.

    Attributes:
        caught_by: the first test that failed, or "time limit"; empty where all passed.
        seconds: how long they ran.
        output: what they wrote.
    """

    caught_by: str
    seconds: float
    output: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="WORD", help="faults whose name or file has one of the words"
    )
    parser.add_argument("--sample", action="store_true", help="by the tests of `make test` alone")
    arguments = parser.parse_args()
    words, sample = arguments.only, arguments.sample
    faults = [f for f in FAULTS if not words or any(w in f.name or w in f.file for w in words)]
    table = Table("mutations.csv", keys=("fault",))
    survivors: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(Path(folder))
        check_unchanged(copy, faults)
        if not words and not sample:
            table.path.unlink(missing_ok=True)
        for fault in faults:
            with mutated(copy, fault):
                outcome = run_tests(copy, fault.tests, sample=sample)
            if not outcome.caught_by:
                survivors.append(fault.name)
            seconds = round(outcome.seconds, 1)
            row = {"fault": fault.name, "file": fault.file, "caught by": outcome.caught_by}
            if not sample:
                table.add(row | {"seconds": seconds})
            print(f"{seconds:6.1f} s  {fault.name}: {outcome.caught_by or 'SURVIVES'}", flush=True)
    caught = len(faults) - len(survivors)
    print(f"{caught} of {len(faults)} faults caught, {100.0 * caught / len(faults):.1f} %")
    for name in survivors:
        print(f"survivor: {name}")
    least = LEAST_BY_SAMPLE if sample else LEAST_SHARE
    if caught < least * len(faults):
        raise SystemExit(f"fewer than {100.0 * least:.0f} % are caught")


def copied(folder: Path) -> Path:
    """A copy of what tests need, in a new folder."""
    without = shutil.ignore_patterns("__pycache__")
    for name in ("src", "tests", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=without)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def check_unchanged(copy: Path, faults: list[Fault]) -> None:
    """Stops unless the named tests test the copy, and pass without a fault."""
    command = [sys.executable, "-c", "import cavity; print(cavity.__file__)"]
    origin = subprocess.run(
        command, cwd=copy, env=environment(copy), capture_output=True, text=True, check=True
    ).stdout
    if not Path(origin.strip()).resolve().is_relative_to(copy.resolve()):
        raise SystemExit(f"tests would import {origin.strip()}, not the copy in {copy}")
    tests = tuple(dict.fromkeys(test for fault in faults for test in fault.tests))
    outcome = run_tests(copy, tests, limit=len(tests) * LIMIT)
    if outcome.caught_by:
        raise SystemExit(f"without a fault {outcome.caught_by} fails:\n{outcome.output}")
    print(f"{outcome.seconds:6.1f} s  all named tests pass without a fault", flush=True)


@contextmanager
def mutated(copy: Path, fault: Fault) -> Iterator[None]:
    """The copy with a fault."""
    path = copy / "src" / "cavity" / fault.file
    source = path.read_text()
    try:
        _write(path, fault.applied(source))
        yield
    finally:
        _write(path, source)


def _write(path: Path, source: str) -> None:
    """A source without its compiled forms, whose times of change have whole seconds only."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()
    path.write_text(source)


def run_tests(
    copy: Path, tests: tuple[str, ...], limit: float = LIMIT, *, sample: bool = False
) -> Outcome:
    """Runs tests of a copy until the first failure, those of the sample alone if asked for.

    Raises:
        RuntimeError: where pytest ends in another way than by passed or failed tests.
    """
    names = [f"tests/{test}" for test in tests]
    options = ["-q", "-x", "-rfE", "--tb=line", "-p", "no:cacheprovider"]
    options += ["--sample"] if sample else []
    command = [sys.executable, "-m", "pytest", *options, *names]
    begin = time.perf_counter()
    try:
        ended = subprocess.run(
            command, cwd=copy, env=environment(copy), capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return Outcome("time limit", limit, "")
    seconds, output = time.perf_counter() - begin, ended.stdout + ended.stderr
    if ended.returncode == 0 or (sample and ended.returncode == NO_TESTS):
        return Outcome("", seconds, output)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", ended.stdout, re.MULTILINE)
    if ended.returncode != 1 or failed is None:
        raise RuntimeError(f"pytest ended with status {ended.returncode}:\n{output}")
    return Outcome(failed.group(1), seconds, output)


def environment(copy: Path) -> dict[str, str]:
    """Variables of the tests' process.

    Compiled programs may be shared, because that of a changed source is another program. Shape
    checks at run time are left out: they cost seconds to import, and tests do not rely on them.
    """
    programs = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(copy / "programs"))
    return os.environ | {
        "PYTHONPATH": str(copy / "src"),
        "CAVITY_TYPECHECK": "0",
        "CAVITY_DATA": os.environ.get("CAVITY_DATA", str(ROOT.parent / "shared" / "data")),
        "JAX_COMPILATION_CACHE_DIR": programs,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


if __name__ == "__main__":
    main()
