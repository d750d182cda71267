"""What coupled classes cost: a sweep of the full GP against their number, and learning.

The time of a sweep at n = 500 for 3 to 12 classes, with the part that is quadratic in them (the
blocks of the rows) by itself, and the time to learn six classes; of the sparse form with the
rows, classes and points of segment (2,079, seven, 100) the time of a sweep and of a gradient.

python -m benchmarks.class_cost [--rows 500]
"""

import argparse
import time
import warnings
from typing import Any

import equinox as eqx
import jax
import numpy as np

import cavity
from benchmarks.results import Table
from benchmarks.timing import median
from cavity.inference.energy import Graph, beliefs, empty_sites, energy
from cavity.inference.solvers.parallel import sweep
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare

TABLE = Table("class_cost.csv", ("what", "rows", "classes"))


def problem(rows: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in two dimensions, labels by the largest of smooth functions and noise."""
    r = np.random.default_rng(seed)
    X = r.uniform(0.0, 1.0, (rows, 2))
    centres = r.uniform(0.0, 1.0, (classes, 2))
    f = 4.0 * np.exp(-np.sum((X[:, None] - centres) ** 2, axis=2) / 0.1)
    return X, np.argmax(f + 0.5 * r.standard_normal(f.shape), axis=1).astype(float)


def laid_out(model: Any, data: Any) -> Graph:
    """The model's graph on prepared data."""
    return data.problem(model, cavity.PowerEP().approximation, 0.0).graph()


def sweep_time(rows: int, classes: int) -> dict[str, float]:
    """A sweep at power 1, and within it the moments of all rows."""
    X, y = problem(rows, classes)
    kernel = cavity.kernels.RBF(4.0, 0.3)
    model = cavity.GP(kernel, cavity.likelihoods.MultinomialProbit(classes))
    data = prepare(X, y, power=1.0)

    @eqx.filter_jit
    def once(sites: Any) -> Any:
        return sweep(laid_out(model, data), sites, 0.5)

    @eqx.filter_jit
    def blocks(q: Any) -> Any:
        half = q.blocks
        return jax.numpy.einsum("kmn,lmn->nkl", half, half)

    graph = laid_out(model, data)
    sites = once(empty_sites(graph))[0]
    (q,) = beliefs(graph, sites)
    return {"sweep": median(lambda: once(sites)), "row blocks": median(lambda: blocks(q))}


def sparse_time(rows: int, classes: int, points: int) -> dict[str, float]:
    """Of the sparse form at power 1, a sweep, and the energy and its gradient after one."""
    X, y = problem(rows, classes)
    kernel, likelihood = (
        cavity.kernels.RBF(4.0, 0.3),
        cavity.likelihoods.MultinomialProbit(classes),
    )
    model = cavity.GP(kernel, likelihood, cavity.inducing.Points(X[:points]))
    data = prepare(X, y, power=1.0)

    @eqx.filter_jit
    def once(sites: Any) -> Any:
        return sweep(laid_out(model, data), sites, 0.5)

    @eqx.filter_jit
    def gradient(model: Any, sites: Any) -> Any:
        return eqx.filter_value_and_grad(
            lambda model: energy(laid_out(model, data), sites, settled=True)
        )(model)

    sites = once(empty_sites(laid_out(model, data)))[0]
    return {
        "sparse sweep": median(lambda: once(sites)),
        "sparse gradient": median(lambda: gradient(model, sites)),
    }


def learning_time(rows: int, classes: int) -> dict[str, Any]:
    """Learning a full GP with default settings; the second time, when all is compiled."""
    X, y = problem(rows, classes)
    for _ in range(2):
        start = time.perf_counter()
        gp = cavity.GPClassifier(n_inducing=None, random_state=0).fit(X, y)
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "iterations": gp.n_iter_, "converged": gp.converged_}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500)
    rows = parser.parse_args().rows
    warnings.simplefilter("ignore")
    with jax.enable_x64(True), one_blas_thread():
        for classes in (3, 4, 6, 8, 12):
            for what, seconds in sweep_time(rows, classes).items():
                found = {"what": what, "rows": rows, "classes": classes, "seconds": seconds}
                print(found, flush=True)
                TABLE.add(found | {"iterations": "", "converged": ""})
        for what, seconds in sparse_time(2079, 7, 100).items():
            found = {"what": what, "rows": 2079, "classes": 7, "seconds": seconds}
            print(found, flush=True)
            TABLE.add(found | {"iterations": "", "converged": ""})
    found = {"what": "learning", "rows": rows, "classes": 6} | learning_time(rows, 6)
    print(found, flush=True)
    TABLE.add(found)


if __name__ == "__main__":
    main()
