"""`cavity` by its estimators, with default settings, and its compiled programs."""

from collections import defaultdict
from typing import Any

import jax

import cavity
from benchmarks.startup import data
from benchmarks.startup.worker import Parts
from cavity.numerics.jit import PROGRAMS as KEPT


class Programs:
    """Programs that were compiled, counted from one moment to another.

    XLA compiles those that the library keeps, some of them twice (quickly, and with all passes),
    and one for each operation on arrays outside of them.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.before: set[Any] = set()
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, duration_secs: float, **about: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            self.seconds[str(about.get("fun_name", "?"))].append(duration_secs)

    def begin(self) -> None:
        """Counts from here on."""
        self.seconds.clear()
        self.before = set(KEPT.kept)

    def end(self) -> dict[str, Any]:
        """The counts; and by name seconds of XLA for each program, and operations."""
        new = [(key.name, p) for key, p in KEPT.kept.items() if key not in self.before]
        operations: dict[str, int] = defaultdict(int)
        for name, program in new:
            operations[name] += program.size.operations
        names = self.seconds.items()
        return {
            "programs": sum(map(len, self.seconds.values())),
            "own_programs": len(new),
            "optimised": sum(program.optimised for _, program in new),
            "operations": sum(operations.values()),
            "names": {name: (each, operations.get(_plain(name), 0)) for name, each in names},
        }


def _plain(name: str) -> str:
    """The name of a function that XLA calls jit(name) or jit_name."""
    return name.removeprefix("jit_").removeprefix("jit(").removesuffix(")")


PROGRAMS = Programs()


def _regression(rows: int = data.ROWS) -> None:
    X, y, _ = data.table()
    cavity.GPRegressor(random_state=0).fit(X[:rows], y[:rows])


def _classifier(rows: int = data.ROWS) -> None:
    X, _, labels = data.table()
    cavity.GPClassifier(random_state=0).fit(X[:rows], labels[:rows])


def first_regression(part: Parts) -> None:
    _ = cavity.GPRegressor  # imports it
    with part("first_regression"):
        _regression()


def second_regression(part: Parts) -> None:
    _regression()
    with part("second_regression"):
        _regression()


def first_sparse(part: Parts) -> None:
    X, y, _ = data.table()
    _ = cavity.GPRegressor
    with part("first_sparse"):
        fitted = cavity.GPRegressor(n_inducing=50, random_state=0).fit(X, y)
        fitted.predict(X, return_std=True)


def first_classifier(part: Parts) -> None:
    _ = cavity.GPClassifier
    with part("first_classifier"):
        _classifier()


def regressions(part: Parts) -> None:
    _ = cavity.GPRegressor
    with part("20_regressions"):
        for rows in data.LENGTHS:
            _regression(rows)


def classifiers(part: Parts) -> None:
    _ = cavity.GPClassifier
    with part("20_classifiers"):
        for rows in data.LENGTHS:
            _classifier(rows)


def deep(part: Parts) -> None:
    X, y, _ = data.table()
    _ = cavity.DeepGPRegressor
    for rows in (100, 90):
        with part(f"deep_{rows}_rows"):
            settings: Any = {"n_inducing": 20, "steps": 100, "random_state": 0}
            cavity.DeepGPRegressor(**settings).fit(X[:rows], y[:rows])


def series(part: Parts) -> None:
    y = data.series(70)
    _ = cavity.GPForecaster
    for rows in (60, 70):
        with part(f"series_{rows}_rows"):
            cavity.GPForecaster(max_iterations=100, random_state=0).fit(y[:rows])


def embedding(part: Parts) -> None:
    Y = data.incomplete()
    _ = cavity.GPEmbedding
    with part("embedding_200_rows"):
        fitted = cavity.GPEmbedding(random_state=0).fit(Y)
    with part("impute_200_rows"):
        fitted.impute(Y)


def update(part: Parts) -> None:
    X, _, labels = data.table()
    fitted = cavity.GPClassifier(random_state=0)
    for rows, name in zip(data.BATCHES, ("stream", "update", "update"), strict=True):
        with part(f"{name}_{rows.stop - rows.start}_rows"):
            fitted.partial_fit(X[rows], labels[rows])
