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
none: points and parameters learned from batch to batch; with 2,000 rows in memory; and with the
points kept that were learned from the first batch.

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
from cavity import parameters

TABLE = Table("streaming_parts.csv", ("held", "batches", "M"))
Where = Callable[[Any], Any]
POINTS: tuple[Where, ...] = (lambda m: m.inducing.Z,)
KERNEL: tuple[Where, ...] = (lambda m: m.kernel.variance, lambda m: m.kernel.lengthscale)
VARIANCE: tuple[Where, ...] = (lambda m: m.likelihood.variance,)
HELD: dict[str, Any] = {"learn": False, "inducing": "keep"}


def at_points(model: cavity.GP, Z: np.ndarray) -> cavity.GP:
    """The model with other inducing points."""
    return eqx.tree_at(lambda m: m.inducing, model, cavity.inducing.Points(Z))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument("--batches", type=int, default=20)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message=".* new outputs")
    jax.config.update("jax_enable_x64", True)
    M, (X, y, X_test, y_test) = options.inducing, kin40k()
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    parts = np.array_split(np.arange(len(X)), options.batches)
    kernel = cavity.kernels.RBF(1.0, np.full(X.shape[1], 2.0))
    chosen = cavity.inducing.Points(cavity.select_inducing(kernel, X, M))
    start = cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1), chosen)
    whole: Any = cavity.fit(start, X, y, power=0.5, max_iterations=300)

    def points_among(rows: np.ndarray) -> cavity.GP:
        Z = cavity.select_inducing(whole.model.kernel, rows, M)
        return at_points(whole.model, Z)

    def report(held: str, result: Any, began: float, lost: float) -> None:
        predicted = result.posterior.predict(X_test)
        error = float(np.mean((np.asarray(predicted.mean) - y_test) ** 2))
        row = {"held": held, "batches": options.batches, "M": M, "smse": error}
        row |= {"nlpd": float(-np.mean(predicted.log_density(y_test))), "lost": lost}
        row |= {"log_evidence": float(result.log_evidence)}
        model = result.posterior.model
        row |= {
            "noise": float(model.likelihood.variance),
            "variance": float(model.kernel.variance),
        }
        row |= {"lengthscale": float(np.exp(np.mean(np.log(model.kernel.lengthscale))))}
        TABLE.add(row | {"seconds": time.perf_counter() - began})
        print(row, flush=True)

    def stream(
        held: str, model: cavity.GP, first: int, fixed: Sequence[Where] = (), **settings: Any
    ) -> None:
        if TABLE.has(held=held, batches=options.batches, M=M):
            return
        began, rows, lost = time.perf_counter(), parts[0], 0.0
        maps = parameters.bijections(model)
        for where in fixed:
            maps = eqx.tree_at(where, maps, replace_fn=lambda _: parameters.FIXED)
        learned: Any = {"bijections": maps, "max_iterations": first}
        result: Any = cavity.fit(model, X[rows], y[rows], power=0.5, **learned)
        for rows in parts[1:]:
            result = cavity.update(result, X[rows], y[rows], **settings)
            lost += result.lost
        report(held, result, began, lost)

    if not TABLE.has(held="batch", batches=options.batches, M=M):
        report("batch", whole, time.perf_counter(), 0.0)
    head = X[parts[0]]
    stream("both", whole.model, 0, **HELD)
    stream("parameters, points of all rows", points_among(X), 0, **HELD)
    stream("parameters, points of the first batch", points_among(head), 0, **HELD)
    stream("parameters, moved", points_among(head), 0, learn=False)
    fresh = at_points(start, np.asarray(whole.model.inducing.Z))
    stream("points", fresh, 200, POINTS, inducing="keep")
    stream("points, with memory", fresh, 200, POINTS, inducing="keep", memory=2000)
    noisy = eqx.tree_at(VARIANCE[0], whole.model, np.asarray(0.1))
    stream("points and kernel", noisy, 200, POINTS + KERNEL, inducing="keep")
    rough = eqx.tree_at(lambda m: m.kernel, whole.model, kernel)
    stream("points and noise", rough, 200, POINTS + VARIANCE, inducing="keep")
    stream("parameters; points learned", points_among(head), 200, KERNEL + VARIANCE)
    Z = cavity.select_inducing(kernel, head, M)
    stream("none", at_points(start, Z), 200)
    stream("none, with memory", at_points(start, Z), 200, memory=2000)
    stream("none, points of the first fit", at_points(start, Z), 200, inducing="keep")


if __name__ == "__main__":
    main()
