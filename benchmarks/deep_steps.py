"""The time of a step of a deep GP, its value and gradient, beside its matrix products alone.

Two layers of eight and one functions, 100 inducing points each, minibatches of 500 rows of eight
columns, double precision. Times are of the processor, so that other work on the machine counts
little; medians over repetitions.

python -m benchmarks.deep_steps [--repeats 30]
"""

import argparse
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.results import Table
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.data.training_data import Minibatch
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from cavity.numerics.types import Array

TABLE = Table("deep_steps.csv", ("what", "nodes"))
ROWS, BATCH, COLUMNS, POINTS = 5000, 500, 8, 100


def seconds(fn: Callable[[], object], repeats: int) -> float:
    """Median processor time of a call, the first one left out."""
    jax.block_until_ready(fn())
    times = []
    for _ in range(repeats):
        began = time.process_time()
        jax.block_until_ready(fn())
        times.append(time.process_time() - began)
    return float(np.median(times))


def step(nodes: int, power: float) -> Callable[[], object]:
    """A value and gradient from a minibatch."""
    random = np.random.default_rng(0)
    X = random.standard_normal((ROWS, COLUMNS))
    y = np.sin(X[:, 0]) * X[:, 1] + 0.1 * random.standard_normal(ROWS)
    lengthscale = np.full(COLUMNS, 2.0)
    kernels, inducing = cavity.kernels, cavity.inducing
    layers = [
        cavity.Layer(
            kernels.RBF(0.1, lengthscale),
            inducing.Points(X[:POINTS]),
            COLUMNS,
            cavity.means.Identity(),
        ),
        cavity.Layer(kernels.RBF(1.0, lengthscale), inducing.Points(X[:POINTS])),
    ]
    model = cavity.DeepGP(layers, cavity.likelihoods.Gaussian(0.1))
    data = prepare(X, y, power=power)
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(nodes), batch=BATCH)
    objective = Objective(as_dtype(model, data), data, method=method)
    batch = Minibatch(BATCH, np.arange(BATCH))
    return lambda: objective.on_rows(objective.first, batch, ROWS / BATCH)


def products(nodes: int) -> Callable[[], object]:
    """The matrix products of a step: forward, and twice as many backward."""
    random = np.random.default_rng(0)
    root = jnp.asarray(random.standard_normal((POINTS, POINTS)))
    roots = jnp.asarray(random.standard_normal((COLUMNS, POINTS, POINTS)))
    cross = jnp.asarray(random.standard_normal((POINTS, BATCH)))
    wide = jnp.asarray(random.standard_normal((POINTS, BATCH * nodes)))

    @jax.jit
    def all_products(root: Array, roots: Array, cross: Array, wide: Array) -> list[Array]:
        out = []
        for i in range(3):  # one forward and two backward, of other values each
            A = (root + i) @ cross
            B = (root - i) @ wide
            out += [(roots + i) @ A, (roots[0] - i) @ B]
        return out

    return lambda: all_products(root, roots, cross, wide)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    with jax.enable_x64(True), one_blas_thread():
        for nodes in (1, 2, 4):
            floor = seconds(products(nodes), options.repeats)
            TABLE.add({"what": "products", "nodes": nodes, "cpu_ms": 1e3 * floor})
            for power in (0.0, 0.5):
                used = seconds(step(nodes, power), options.repeats)
                what = f"step, power {power:g}"
                TABLE.add({"what": what, "nodes": nodes, "cpu_ms": 1e3 * used})
                print(f"{nodes} nodes, {what}: {1e3 * used:.1f} ms; products {1e3 * floor:.1f}")


if __name__ == "__main__":
    main()
