"""Where the tests' time goes: wall, processor and compile seconds of each test.

    CAVITY_TEST_TIMES=folder python -m pytest ...    writes one csv file per worker into the folder
    python -m tests.compile_times folder [most]      prints the table by file and by test
    python -m tests.compile_times folder outside     writes the list of tests outside `make test`

conftest.py registers `Recorder` where the variable is set; `make test-times` does both. Fixtures
of a module or of the session have rows of their own, so that the first test that asks for one does
not look slow; imports of files have rows too. Processor seconds include finished child processes.
"""

import csv
import os
import resource
import sys
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import jax
import pytest

from tests import selection

CAUGHT = Path(__file__).parents[1] / "benchmarks" / "results" / "mutations.csv"
# Processor seconds, with an empty folder of programs, above which a test is outside the sample
# unless a fault is caught by it first, or it is about the code as a whole.
MOST_SECONDS = 0.75
TRACING = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
)
COMPILING = "/jax/core/compile/backend_compile_duration"
COLUMNS = ("wall", "cpu", "tracing", "compiling", "programs")


class Union:
    """Seconds covered by intervals that are reported when they end and may contain earlier ones.

    JAX reports a function traced inside another twice: alone, and within the outer one.
    """

    def __init__(self):
        self.total = 0.0
        self.intervals = []

    def add(self, seconds):
        start = time.perf_counter() - seconds
        while self.intervals and self.intervals[-1][0] >= start:
            self.total -= self.intervals.pop()[1]
        self.intervals.append((start, seconds))
        self.total += seconds


@dataclass
class Clock:
    """What this process has used since it began."""

    tracing: Union = field(default_factory=Union)
    compiling: Union = field(default_factory=Union)
    programs: int = 0

    def listen(self, event, seconds, **_):
        if event == COMPILING:
            self.compiling.add(seconds)
            self.programs += 1
        elif event in TRACING:
            self.tracing.add(seconds)

    def read(self):
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = time.process_time() + children.ru_utime + children.ru_stime
        totals = self.tracing.total, self.compiling.total, self.programs
        return (time.perf_counter(), cpu, *totals)


class Recorder:
    """A pytest plugin that adds what each test uses to a csv file of this worker."""

    def __init__(self, folder):
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self.path = Path(folder).resolve() / f"{worker}.csv"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("", encoding="utf-8")
        self.clock = Clock()
        self.inner = []  # for each measurement under way, what shared fixtures in it have used
        jax.monitoring.register_event_duration_secs_listener(self.clock.listen)

    @contextmanager
    def measured(self, name):
        start = self.clock.read()
        self.inner.append((0.0,) * len(COLUMNS))
        try:
            yield
        finally:
            used = tuple(b - a for a, b in zip(start, self.clock.read(), strict=True))
            inside = self.inner.pop()
            if self.inner:
                sums = zip(self.inner[-1], used, strict=True)
                self.inner[-1] = tuple(a + b for a, b in sums)
            net = (f"{a - b:.4f}" for a, b in zip(used, inside, strict=True))
            with self.path.open("a", encoding="utf-8", newline="") as file:
                csv.writer(file).writerow((name, *net))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        with self.measured(item.nodeid):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        if fixturedef.scope == "function":
            return (yield)
        # a fixture of one file is counted there, one of a conftest.py as that file's
        with self.measured(f"{fixturedef.baseid}::fixture {fixturedef.argname}"):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector):
        if not isinstance(collector, pytest.Module):
            return (yield)
        with self.measured(f"{collector.nodeid}::import"):
            return (yield)


def totals(folder, key):
    """The sums of all columns by key(name of the test), with the number of rows in front."""
    sums = defaultdict(lambda: [0.0] * (1 + len(COLUMNS)))
    for path in sorted(Path(folder).glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for name, *values in csv.reader(file):
                row = (1.0, *map(float, values))
                sums[key(name)] = [a + b for a, b in zip(sums[key(name)], row, strict=True)]
    return sums


def lines(sums, most):
    """A table of the largest `most` sums by processor seconds, and the total."""
    columns = ("rows", *COLUMNS)
    ranked = sorted(sums.items(), key=lambda pair: -pair[1][columns.index("cpu")])
    whole = [sum(column) for column in zip(*sums.values(), strict=True)]
    yield " ".join(f"{column:>9}" for column in columns)
    for name, row in [*ranked[:most], ("total", whole)]:
        yield " ".join(f"{value:9.1f}" for value in row) + f"  {name}"


def write_outside(folder):
    """Writes which tests are outside the sample; those that were not measured stay there."""
    with CAUGHT.open(encoding="utf-8", newline="") as file:
        needed = {row["caught by"] for row in csv.DictReader(file)}
    found = selection.outside() if selection.OUTSIDE.exists() else {}
    for name, (_, _, cpu, *_) in totals(folder, lambda name: name).items():
        found.pop(name, None)
        test = "::fixture " not in name and not name.endswith("::import")
        test &= not name.startswith("tests/meta/")
        if test and cpu > MOST_SECONDS and name not in needed:
            found[name] = cpu
    with selection.OUTSIDE.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("test", "seconds"))
        table.writerows((name, f"{found[name]:.1f}") for name in sorted(found))


def main(folder, most="40"):
    if most == "outside":
        write_outside(folder)
        return
    by_file = totals(folder, lambda name: name.split("::")[0])
    by_test = totals(folder, lambda name: name)
    for title, sums in (("by file", by_file), ("by test", by_test)):
        sys.stdout.write(f"\n{title}\n" + "\n".join(lines(sums, int(most))) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
