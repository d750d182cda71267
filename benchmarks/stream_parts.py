"""Where a stream of kin40k loses what a fit of all rows together has: points, or parameters.

20 batches, 200 points, power 0.5 for new rows and 0 for the past. The fit of all rows gives
parameters and points; streams hold both, one of them, or none:

batch: all rows together.
both: the parameters and the points of the fit of all rows (which is identity 12: no loss).
parameters, points of all rows: those parameters; points chosen among all rows, and kept.
parameters, points of the first batch: those parameters; points chosen among the first, and kept.
parameters, moved: those parameters; points chosen anew at every batch.
points: those points, kept; parameters learned from batch to batch.
points and kernel: those of all rows; the variance of the noise learned.
points and noise: those of all rows; the kernel's parameters learned.
parameters; points learned: those parameters; points chosen among the first and learned.
points, with memory: those points, kept; 2,000 rows of largest leverage stay in memory.
none: points and parameters learned from batch to batch; with 2,000 rows in memory; with the
points kept that were learned from the first batch; and with new rows at power 1.
all, after 1, 4 or 8 batches: learned from these together, and held from there on.

python -m benchmarks.stream_parts [--inducing 200] [--batches 20]
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

import cavity
from benchmarks.results import Table
from benchmarks.streaming import kin40k
from cavity import initialisation, parameters

TABLE = Table("streaming_parts.csv", ("held", "batches", "M"))
Where = Callable[[Any], Any]
POINTS: tuple[Where, ...] = (lambda m: m.inducing.Z,)
KERNEL: tuple[Where, ...] = (lambda m: m.kernel.variance, lambda m: m.kernel.lengthscale)
VARIANCE: tuple[Where, ...] = (lambda m: m.likelihood.variance,)
HELD: dict[str, Any] = {"learn": False, "inducing": "keep"}


def at_points(model: cavity.GP, Z: np.ndarray) -> cavity.GP:
    """The model with other inducing points."""
    return eqx.tree_at(lambda m: m.inducing, model, cavity.inducing.Points(Z))


class Streams:
    """Streams of the same batches, whose results go to the table.

    Args:
        table: inputs and outputs of the training rows, in their order, and of the test rows.
        batches: number of batches.
        inducing: number of inducing points.
    """

    def __init__(self, table: tuple[np.ndarray, ...], batches: int, inducing: int):
        self.X, self.y, self.X_test, self.y_test = table
        self.parts = np.array_split(np.arange(len(self.X)), batches)
        self.key = {"batches": batches, "M": inducing}

    def report(self, held: str, result: Any, began: float, lost: float) -> None:
        """Adds a row with the errors and the parameters of a result."""
        predicted, model = result.posterior.predict(self.X_test), result.posterior.model
        error = float(np.mean((np.asarray(predicted.mean) - self.y_test) ** 2))
        row = {"held": held, **self.key, "smse": error}
        row |= {"nlpd": float(-np.mean(predicted.log_density(self.y_test))), "lost": lost}
        row |= {"log_evidence": float(result.log_evidence)}
        row |= {"noise": float(model.likelihood.variance)}
        row |= {"variance": float(model.kernel.variance)}
        row |= {"lengthscale": float(np.exp(np.mean(np.log(model.kernel.lengthscale))))}
        TABLE.add(row | {"seconds": time.perf_counter() - began})
        print(row, flush=True)

    def run(
        self,
        held: str,
        model: cavity.GP,
        first: int,
        fixed: Sequence[Where] = (),
        opening: int = 1,
        **settings: Any,
    ) -> None:
        """One stream; its opening batches are learned from together in so many iterations."""
        if TABLE.has(held=held, **self.key):
            return
        began, lost, rows = time.perf_counter(), 0.0, np.concatenate(self.parts[:opening])
        maps = parameters.bijections(model)
        for where in fixed:
            maps = eqx.tree_at(where, maps, replace_fn=lambda _: parameters.FIXED)
        learned: Any = {"bijections": maps, "max_iterations": first}
        result: Any = cavity.fit(model, self.X[rows], self.y[rows], power=0.5, **learned)
        for rows in self.parts[opening:]:
            result = cavity.update(result, self.X[rows], self.y[rows], **settings)
            lost += result.lost
        self.report(held, result, began, lost)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument("--batches", type=int, default=20)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".* new outputs")
    jax.config.update("jax_enable_x64", True)
    M, (X, y, *tests) = options.inducing, kin40k()
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    streams = Streams((X, y, *tests), options.batches, M)
    head = X[streams.parts[0]]
    kernel = cavity.kernels.RBF(1.0, np.full(X.shape[1], 2.0))
    chosen = cavity.inducing.Points(initialisation.select_inducing(kernel, X, M))
    start = cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), chosen)
    whole: Any = cavity.fit(start, X, y, power=0.5, max_iterations=300)

    def points_among(rows: np.ndarray) -> cavity.GP:
        return at_points(whole.model, initialisation.select_inducing(whole.model.kernel, rows, M))

    if not TABLE.has(held="batch", **streams.key):
        streams.report("batch", whole, time.perf_counter(), 0.0)
    streams.run("both", whole.model, 0, **HELD)
    streams.run("parameters, points of all rows", points_among(X), 0, **HELD)
    streams.run("parameters, points of the first batch", points_among(head), 0, **HELD)
    streams.run("parameters, moved", points_among(head), 0, learn=False)
    fresh = at_points(start, np.asarray(whole.model.inducing.Z))
    streams.run("points", fresh, 200, POINTS, inducing="keep")
    streams.run("points, with memory", fresh, 200, POINTS, inducing="keep", memory=2000)
    noisy = eqx.tree_at(VARIANCE[0], whole.model, np.asarray(0.1))
    streams.run("points and kernel", noisy, 200, POINTS + KERNEL, inducing="keep")
    rough = eqx.tree_at(lambda m: m.kernel, whole.model, kernel)
    streams.run("points and noise", rough, 200, POINTS + VARIANCE, inducing="keep")
    streams.run("parameters; points learned", points_among(head), 200, KERNEL + VARIANCE)
    begun = at_points(start, initialisation.select_inducing(kernel, head, M))
    streams.run("none", begun, 200)
    streams.run("none, with memory", begun, 200, memory=2000)
    streams.run("none, points of the first fit", begun, 200, inducing="keep")
    streams.run("none, new rows at power 1", begun, 200, power=1.0)
    for opening in (1, 4, 8):
        rows = X[np.concatenate(streams.parts[:opening])]
        opened = at_points(start, initialisation.select_inducing(kernel, rows, M))
        streams.run(f"all, after {opening}", opened, 200, opening=opening, **HELD)


if __name__ == "__main__":
    main()
