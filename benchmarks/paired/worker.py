"""The process in which one checkout works: requests come in and answers go out as lines of JSON.

python -P benchmarks/paired/worker.py, with `src` and the root of a checkout on PYTHONPATH. It has
the rows of that checkout's benchmarks, and is given to a checkout that has no such script: it
imports nothing beside it. A row has the same name in all checkouts, whatever becomes of the
functions that it calls.
"""

import dataclasses
import functools
import importlib
import itertools
import json
import operator
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import jax

COMPILING = "/jax/core/compile/backend_compile_duration"
# Calls before the clock, until so many in a row compile nothing.
WARM, QUIET = 8, 2
# Minibatches of rows that make steps: more than there are calls.
STEPS = 3_000
# What is cut short, so that all rows take half an hour: iterations of learning, updates, batches
# of 500 rows, sweeps of networks.
FEW, UPDATES, BATCHES, SWEEPS = 2, 20, 4, 2
Work = Callable[[], Any]


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a benchmark.

    Attributes:
        rows: of its table.
        build: what makes the function to be timed.
    """

    rows: int
    build: Callable[[], Work]


class _Found(Exception):
    """A benchmark has asked for the time of the function that was looked for."""


def asked(module: str, timer: str, place: int, run: Callable[[Any], Any]) -> Work:
    """The function that a benchmark is about to time, without what it times before.

    Args:
        module: the benchmark.
        timer: the name that its timing function has in the module `module`, and before a colon
            in another one: it takes functions, or a list of them.
        place: which of the functions, in the order in which they are timed.
        run: what is called with the module to have them timed.
    """
    holder, _, name = timer.rpartition(":")
    seen: list[Work] = []

    def instead(*given: Any, **_: Any) -> Any:
        listed = isinstance(given[0], list)
        works = [work for work in (given[0] if listed else given) if callable(work)]
        seen.extend(works)
        if len(seen) > place:
            raise _Found
        return [1.0] * len(works) if listed or len(works) > 1 else 1.0

    found = importlib.import_module(module)
    with mock.patch.object(importlib.import_module(holder or module), name, instead):
        try:
            run(found)
        except _Found:
            return seen[place]
    raise LookupError(f"{module} times {len(seen)} functions only")


def _cavity() -> Any:
    return importlib.import_module("benchmarks.peers.with_cavity")


def turns() -> dict[str, Row]:
    """`benchmarks.peers`, calls in turn: objectives, steps, EP, predictions, updates."""
    from benchmarks.peers import turns as table

    def build(kind: str, method: str, task: str, N: int, M: int) -> Work:
        step = kind == "step"
        problem = table.problem(task, N, M, STEPS if step else 0)
        return getattr(_cavity(), kind)(problem, *([] if step else [method]))

    found = {}
    for task, (kind, methods) in (table.TASKS | table.STREAMING).items():
        for N, M in table.SIZES[task]:
            for method in methods["cavity"]:
                work = functools.partial(build, kind, method, task, N, M)
                found[f"peers {task} {method} N={N} M={M}"] = Row(N, work)
    return found


def peers() -> dict[str, Row]:
    """The other parts of `benchmarks.peers` but those of fresh processes; fits are cut short."""
    from benchmarks.peers import problems

    def deep(method: str) -> Work:
        made = problems.deep(5_000, 100, batch=500, steps=STEPS)
        return _cavity().deep(made, method)

    def fit(name: str, M: int) -> Work:
        made = problems.table(name, M)
        return lambda: _cavity().fit(made, lambda value: False, FEW)

    def stream(case: str, M: int, power: float) -> Work:
        made = importlib.import_module("benchmarks.peers.streams").problem(case, "random", 0, M)
        made |= {"power": power}
        if case == "kin40k":
            first = {name: made[name][: 500 * BATCHES] for name in ("X", "y")}
            made |= first | {"batches": BATCHES}
        return lambda: _cavity().stream(made)

    def gains() -> Work:
        import numpy as np

        made: dict[str, Any] = problems.synthetic(60, 1, 3, tests=100)
        made["candidates"] = np.random.default_rng(1).standard_normal((40, 3))
        return lambda: _cavity().gains(made)

    found = {f"peers deep {m}": Row(5_000, lambda m=m: deep(m)) for m in ("one", "two", "step")}
    sets = (("kin40k", 200, 10_000), ("kin40k", 500, 10_000), ("protein", 500, 41_157))
    for name, M, N in (*sets, ("pol", 500, 10_000)):
        found[f"peers fits {name} M={M}"] = Row(N, functools.partial(fit, name, M))
    for (case, M, N), power in itertools.product(
        (("banana", 30, 400), ("kin40k", 200, 500 * BATCHES)), (0.0, 0.5)
    ):
        work = functools.partial(stream, case, M, power)
        found[f"peers streaming {case} power={power:g}"] = Row(N, work)
    return found | {"peers active gains": Row(60, gains)}


def linear() -> dict[str, Row]:
    """`benchmarks.peers`, sparse linear regression and networks, cut short where they are long."""

    def regression(columns: int, prior: str) -> Work:
        import cavity

        made = importlib.import_module("benchmarks.peers.linear").problem(columns, 0)
        short = {} if columns < 1_000 else {"max_iterations": 0}
        settings: Any = {"prior": prior} | short
        return lambda: cavity.LinearRegressor(**settings).fit(made["X"], made["y"])

    def network() -> Work:
        made = importlib.import_module("benchmarks.peers.networks")._boston()
        return lambda: _cavity().resident(made)

    def sweeps(rows: int, units: int) -> Work:
        made = importlib.import_module("benchmarks.peers.networks")._made(rows, 8)
        its = _cavity()
        data = its.prepare(made["X"], made["y"], power=0.5)
        model = its.as_dtype(its._network(made | {"units": units}, its.FEW), data)
        problem = data.problem(model, its.cavity.PowerEP().approximation, 1e-8)
        on = its.SweepSettings(patience=SWEEPS, shortest=0.0)
        solver = its.FixedPointSolver(step=0.1, tolerance=0.0, max_sweeps=SWEEPS, sweeps=on)
        sites = problem.empty_sites()
        return lambda: its.run_sweeps(problem, solver, sites)

    found = {"peers networks boston": Row(455, network)}
    sizes = [(rows, 10) for rows in (1_000, 10_000, 100_000)]
    for rows, units in sizes + [(5_000, units) for units in (5, 10, 20, 40)]:
        work = functools.partial(sweeps, rows, units)
        found[f"peers networks sweeps N={rows} units={units}"] = Row(rows, work)
    sizes = [(500, prior) for prior in ("spike_slab", "horseshoe", "laplace")]
    # of more columns a horseshoe takes minutes, without any learning
    for columns, prior in (*sizes, (10_000, "spike_slab"), (10_000, "laplace")):
        work = functools.partial(regression, columns, prior)
        found[f"peers linear {prior} columns={columns}"] = Row(100, work)
    return found


def class_cost() -> dict[str, Row]:
    """`benchmarks.class_cost`; learning is cut short."""
    module = "benchmarks.class_cost"

    def learning() -> Work:
        import cavity

        X, y = importlib.import_module(module).problem(500, 6)
        settings: Any = {"n_inducing": None, "random_state": 0, "max_iterations": FEW}
        return lambda: cavity.GPClassifier(**settings).fit(X, y)

    found = {"class_cost learning N=500 classes=6": Row(500, learning)}
    for place, what in enumerate(("sweep", "row blocks")):
        for classes in (3, 4, 6, 8, 12):
            run = functools.partial(lambda its, c: its.sweep_time(500, c), c=classes)
            work = functools.partial(asked, module, "median", place, run)
            found[f"class_cost {what} N=500 classes={classes}"] = Row(500, work)
    for place, what in enumerate(("sparse sweep", "sparse gradient")):
        work = functools.partial(
            asked, module, "median", place, lambda its: its.sparse_time(2_079, 7, 100)
        )
        found[f"class_cost {what} N=2079 classes=7"] = Row(2_079, work)
    return found


def ep_cost() -> dict[str, Row]:
    """`benchmarks.ep_cost`, without factorisations and objectives beside which it sets them."""
    find = functools.partial(asked, "benchmarks.ep_cost", "timed")
    found = {}
    for place, power in enumerate((1.0, 0.5), 1):
        work = functools.partial(find, place, lambda its: its.sparse(10_000, 200, 1))
        found[f"ep_cost sparse sweep N=10000 M=200 power={power:g}"] = Row(10_000, work)
    for place, tolerance in enumerate((1e-8, 1e-4), 1):
        work = functools.partial(find, place, lambda its: its.full(1_000, 1, None))
        found[f"ep_cost full inference N=1000 tolerance={tolerance:g}"] = Row(1_000, work)
    return found


def stream_cost() -> dict[str, Row]:
    """`benchmarks.stream_cost`; of the updates with memory the first."""
    module = "benchmarks.stream_cost"
    find = functools.partial(asked, module, "alternating")
    found = {}
    for place, what in ((0, "without"), (1, "past power=0"), (3, "past power=0.5")):
        work = functools.partial(find, place, lambda its: its.gradient(10_000, 200))
        found[f"stream_cost gradient {what} N=10000 M=200"] = Row(10_000, work)
    for rows in (10_000, 1_000):
        for place, what in enumerate(("infer", "update")):
            run = functools.partial(lambda its, rows: its.update(rows, 200), rows=rows)
            work = functools.partial(find, place, run)
            found[f"stream_cost {what} N={rows} M=200"] = Row(rows, work)
    adf = functools.partial(find, 0, lambda its: its.adf(1_000, 200))
    found["stream_cost adf N=1000 M=200"] = Row(1_000, adf)

    def memory() -> Work:
        its = importlib.import_module(module)
        return lambda: its.memory(UPDATES, 1_000, 30)

    return found | {"stream_cost memory N=1000 M=30": Row(1_000, memory)}


def state_space() -> dict[str, Row]:
    """`benchmarks.state_space.cost`."""
    found = {}
    for rows, power in itertools.product((1_000, 10_000, 100_000), (0.0, 0.5)):
        run = functools.partial(lambda its, N, p: its.measured(N, p, 1), N=rows, p=power)
        timer = "benchmarks.objective:medians_ms"
        work = functools.partial(asked, "benchmarks.state_space.cost", timer, 0, run)
        found[f"state_space evaluation N={rows} power={power:g}"] = Row(rows, work)
    return found


GROUPS = (turns, peers, linear, class_cost, ep_cost, stream_cost, state_space)


def spent() -> float:
    """Processor seconds of this process so far, and of those that it started and that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class Worker:
    """What can be asked; an answer is what was asked for, or how it failed.

    Args:
        rows: by their names.
    """

    def __init__(self, rows: dict[str, Row]):
        self.rows, self.compiled = rows, 0
        self.built: dict[str, Work] = {}
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration_secs: float, **_: Any) -> None:
        self.compiled += event == COMPILING

    def answer(self, do: str, **options: Any) -> dict[str, Any]:
        """What one of the methods below gives."""
        try:
            return getattr(self, do)(**options)
        except Exception as failure:  # of a row, which the other checkout may well have
            return {"failed": f"{type(failure).__name__}: {failure}"}

    def warm(self, name: str, least: int) -> dict[str, Any]:
        """Builds a row, and calls it until it does not compile; seconds of the last call."""
        self.built = {name: self.rows[name].build()}
        quiet = calls = 0
        found: dict[str, Any] = {}
        while calls < least or (quiet < QUIET and calls < WARM):
            found, calls = self.call(name, 1), calls + 1
            quiet = 0 if found["compiled"] else quiet + 1
        return found | {"calls": calls}

    def call(self, name: str, times: int) -> dict[str, Any]:
        """Calls a row so often: seconds of one call, and how many programs were compiled."""
        work, compiled, start = self.built[name], self.compiled, spent()
        for _ in range(times):
            jax.block_until_ready(work())
        return {"seconds": (spent() - start) / times, "compiled": self.compiled - compiled}

    def drop(self) -> dict[str, Any]:
        """Forgets the row that was built."""
        self.built = {}
        return {}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what benchmarks print is no answer
    start = time.perf_counter()
    import cavity
    from benchmarks import results

    jax.config.update("jax_enable_x64", True)
    with tempfile.TemporaryDirectory() as folder:
        results.FOLDER = Path(folder)  # what benchmarks add to their tables is not kept
        worker = Worker(functools.reduce(operator.or_, (group() for group in GROUPS)))
        hello: dict[str, Any] = {"version": cavity.__version__, "source": cavity.__file__}
        hello |= {"rows": {name: row.rows for name, row in worker.rows.items()}}
        print(json.dumps(hello | {"import_seconds": time.perf_counter() - start}), file=answers)
        for line in sys.stdin:
            print(json.dumps(worker.answer(**json.loads(line))), file=answers)


if __name__ == "__main__":
    main()
