"""Which tests run: all of them, the sample of `make test`, or a tenth of those outside of it.

    python -m pytest                        all tests
    python -m pytest --sample               the sample
    python -m pytest --tenth 3              the third tenth of the others
    python -m pytest --sample --tenth 3     both, in one session

The sample has every test without a mark that is not in `outside.csv`: tests that cost more than a
second and by which no deliberate fault is caught first, listed by `python -m tests.compile_times`
from a measurement. `slow` tests are outside of it, and `sampled(n)`, on a
parametrised test of one law for many settings, leaves n cases of it inside. These are the same in
every run; they are drawn so that the settings of a file (kernels, likelihoods, powers) occur about
equally often. Cases that catch a fault which others do not are named, `sampled(n, "rbf-0.5")`, and
are among the n. Ten runs with other tenths together run every test.
"""

import csv
import zlib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

TENTHS = 10
OUTSIDE = Path(__file__).parent / "outside.csv"


def pytest_addoption(parser):
    group = parser.getgroup("selection")
    group.addoption("--sample", action="store_true", help="the tests of `make test`")
    group.addoption("--tenth", type=int, help="a tenth of the tests outside the sample, 0 to 9")


def check_tenth(config):
    """Refuses what is no tenth, before anything is collected."""
    tenth = config.getoption("tenth")
    if tenth is not None and not 0 <= tenth < TENTHS:
        raise pytest.UsageError(f"--tenth must be a number from 0 to {TENTHS - 1}, given {tenth}")


def pytest_collection_modifyitems(config, items):
    sample, tenth = config.getoption("sample"), config.getoption("tenth")
    if not sample and tenth is None:
        return
    inside = sample_of(items)
    chosen = [
        item
        for item in items
        if (sample if item.nodeid in inside else tenth_of(item.nodeid) == tenth)
    ]
    if len(chosen) < len(items):
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen


def outside():
    """The tests that cost too much for the sample, with the processor seconds of each."""
    with OUTSIDE.open(encoding="utf-8", newline="") as file:
        return {row["test"]: float(row["seconds"]) for row in csv.DictReader(file)}


def sample_of(items):
    """Names of the tests inside the sample."""
    inside, laws, dear = set(), defaultdict(list), outside()
    for item in items:
        law = item.get_closest_marker("sampled")
        if item.get_closest_marker("slow"):
            continue
        if law is None:
            inside.add(item.nodeid)
        else:
            laws[item.nodeid.partition("[")[0], law.args].append(item.nodeid)
    used = Counter()  # how often a setting of a file has been taken
    for (law, (count, *first)), names in sorted(laws.items()):
        inside.update(drawn(names, count, used, {f"{law}[{case}]" for case in first}))
    return inside.difference(dear)


def drawn(names, count, used, first=frozenset()):
    """`count` of these names: `first`, then those whose settings have been taken least often."""
    left = sorted(names, key=lambda name: (name not in first, zlib.crc32(name.encode())))

    def rank(name):
        return name not in first, sum(used[setting] for setting in settings(name))

    for _ in range(min(count, len(left))):
        best = min(left, key=rank)
        left.remove(best)
        used.update(settings(best))
        yield best


def settings(name):
    """The parameters in a test's name, each with its file."""
    function, _, parameters = name.rstrip("]").partition("[")
    file = function.partition("::")[0]
    return [(file, parameter) for parameter in parameters.split("-")]


def tenth_of(name):
    """The tenth of the tests outside the sample to which this one belongs."""
    return zlib.crc32(name.encode()) % TENTHS
