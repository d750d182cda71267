"""What inducing variables of other domains cost beside points, at equal M.

Rows of eight columns and an RBF kernel: covariances with all rows and among the variables, with
derivatives in all parameters, compiled, without the matrix products of an evaluation; and a value
and gradient of the bound of power 0 as learning asks for it. Processor times are the least of six,
of all kinds in turns. Memory is what the program needs beside its arguments and results; `of_one`
is over that of sums of one point.

python -m benchmarks.functionals
"""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods
from cavity.inducing import Points, covariance
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective

TABLE = Table("functionals.csv", ("kind", "rows", "M"))
ROWS, M, COLUMNS, REPEATS = 4096, 200, 8, 5


def kinds() -> dict[str, inducing.AbstractInducing]:
    """The inducing variables that are compared."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(M, COLUMNS))

    def sums(C: int) -> inducing.Combinations:
        places = np.repeat(Z, C, axis=0) + 0.1 * rng.normal(size=(M * C, COLUMNS))
        return inducing.Combinations(Points(places), rng.normal(size=(M, C)))

    return {
        "points": Points(Z),
        "windows": inducing.Windows(Z, 0.3),
        "waves": inducing.Waves(Z, 0.3, 0.1),
        "slopes": inducing.Slopes(Z, np.arange(M) % COLUMNS),
        "sums of 1": sums(1),
        "sums of 20": sums(20),
    }


def program(
    functional: inducing.AbstractInducing, X: np.ndarray
) -> tuple[Callable[[], object], int]:
    """Covariances with derivatives, and the bytes that they need."""

    def value(parts: tuple) -> jax.Array:
        kernel, functional = parts
        with_rows = covariance(kernel, functional, Points(X))
        return jnp.sum(jnp.sin(with_rows)) + jnp.sum(
            jnp.sin(covariance(kernel, *[functional] * 2))
        )

    parts = kernels.RBF(1.0, np.full(COLUMNS, 2.0)), functional
    arrays, others = eqx.partition(jax.tree.map(jnp.asarray, parts), eqx.is_inexact_array)
    compiled = jax.jit(jax.grad(lambda a: value(eqx.combine(a, others)))).lower(arrays).compile()

    analysis = compiled.memory_analysis()
    size = 0 if analysis is None else analysis.temp_size_in_bytes
    return lambda: jax.block_until_ready(compiled(arrays)), size


def evaluation(
    functional: inducing.AbstractInducing, X: np.ndarray, y: np.ndarray
) -> Callable[[], object]:
    """A value and gradient of the bound of power 0."""
    kernel = kernels.RBF(1.0, np.full(COLUMNS, 2.0))
    data = prepare(X, y, power=0.0)
    model: Any = as_dtype(cavity.GP(kernel, likelihoods.Gaussian(0.1), functional), data)
    objective = Objective(model, data, method=cavity.PowerEP())
    return lambda: objective(np.zeros(objective.size))


def least(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The least processor seconds of each call, in turns; the first turn compiles."""
    best = dict.fromkeys(calls, np.inf)
    for turn in range(REPEATS + 2):
        for name, call in calls.items():
            start = time.process_time()
            call()
            taken = time.process_time() - start
            best[name] = min(best[name], taken) if turn else np.inf
    return best


def main() -> None:
    """Measures every kind."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(ROWS, COLUMNS)), rng.normal(size=ROWS)
    made = {name: program(functional, X) for name, functional in kinds().items()}
    seconds = least({name: call for name, (call, _) in made.items()})
    with one_blas_thread():
        whole = least({name: evaluation(f, X, y) for name, f in kinds().items()})
    for name, (_, size) in made.items():
        row = {
            "kind": name,
            "rows": ROWS,
            "M": M,
            "milliseconds": f"{1e3 * seconds[name]:.2f}",
            "of_points": f"{seconds[name] / seconds['points']:.2f}",
            "evaluation_ms": f"{1e3 * whole[name]:.2f}",
            "evaluation_of_points": f"{whole[name] / whole['points']:.2f}",
            "megabytes": f"{size / 1e6:.1f}",
            "of_one": f"{size / made['sums of 1'][1]:.2f}",
        }
        TABLE.add(row)
        print(row)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
