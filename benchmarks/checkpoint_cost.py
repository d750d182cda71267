"""What checkpoints cost: the time a fit spends on writing them, and how large they are.

Fits are small ones, which keep more in proportion. Times are of a second fit, without compilation.

python -m benchmarks.checkpoint_cost
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods
from cavity.learning.progress.checkpoint import Search
from cavity.persistence.checkpoint import Checkpoint, FileJournal

TABLE = Table("checkpoint_cost.csv", ("fit",))

Fit = tuple[Any, Any, int, int | None, dict[str, Any]]
# A likelihood, a method, rows, inducing points, and options of the fit.
FITS: dict[str, Fit] = {
    "full GP": (likelihoods.Gaussian(), cavity.PowerEP(), 500, None, {"n_restarts": 3}),
    "sparse GP": (likelihoods.Gaussian(), cavity.PowerEP(), 5_000, 100, {"max_iterations": 60}),
    "sites": (likelihoods.Bernoulli(), cavity.PowerEP(), 5_000, 50, {"max_iterations": 20}),
    "minibatches": (
        *(likelihoods.Bernoulli(), cavity.TiedPowerEP(batch=200, max_sweeps=500)),
        *(20_000, 50, {}),
    ),
}


class Clock:
    """Adds up the time that is spent in some methods, but not in one within another."""

    def __init__(self) -> None:
        self.seconds, self.inside = 0.0, False

    def around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            if self.inside:
                return method(*arguments, **options)
            self.inside, began = True, time.perf_counter()
            try:
                return method(*arguments, **options)
            finally:
                self.inside = False
                self.seconds += time.perf_counter() - began

        return timed


def size(folder: str) -> int:
    return sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())


def measured(fit: Callable[..., Any], clock: Clock) -> dict[str, Any]:
    """Seconds of a fit and of its writing, the largest size, and seconds when it is repeated."""
    largest = 0
    with tempfile.TemporaryDirectory() as folder:

        def seen(_: Any) -> None:
            nonlocal largest
            largest = max(largest, size(folder))

        clock.seconds, began = 0.0, time.perf_counter()
        fit(checkpoint=Checkpoint(folder), callback=seen)
        whole, writing = time.perf_counter() - began, clock.seconds
        began = time.perf_counter()
        fit(checkpoint=Checkpoint(folder, resume=True))
        again = time.perf_counter() - began
    share = {"seconds": whole, "writing": writing, "percent": 100.0 * writing / whole}
    return share | {"again": again, "largest_kb": largest / 1e3}


def main() -> None:
    clock = Clock()
    for cls, name in ((Search, "keep"), (Search, "end"), (FileJournal, "write")):
        setattr(cls, name, clock.around(getattr(cls, name)))
    rng = np.random.default_rng(0)
    for name, (likelihood, method, n, points, options) in FITS.items():
        if TABLE.has(fit=name):
            continue
        X = rng.standard_normal((n, 4))
        y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(n)
        if isinstance(likelihood, likelihoods.Bernoulli):
            y = (y > 0.0).astype(float)
        places = None if points is None else inducing.Points(X[:points])
        model = cavity.GP(kernels.RBF(1.0, np.ones(4)), likelihood, places)

        def fit(model: Any = model, y: Any = y, X: Any = X, **more: Any) -> Any:
            return cavity.fit(model, X, y, method=method, **options, **more)  # noqa: B023

        with jax.enable_x64(True):
            fit()
            row = {"fit": name, "rows": n, **measured(fit, clock)}
        print(row, flush=True)
        TABLE.add(row)


if __name__ == "__main__":
    main()
