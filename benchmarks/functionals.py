"""What inducing variables of other domains cost beside points, at equal M.

Rows of eight columns and an RBF kernel: covariances with all rows and among the variables, with
derivatives in all parameters, compiled; the matrix products of an evaluation are left out. Times
are the least of six. Memory is what the program needs beside its arguments and results; `of_one`
is over that of sums of one point.

python -m benchmarks.functionals
"""

import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.results import Table
from cavity import inducing, kernels
from cavity.inducing import Points, covariance

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
) -> Callable[[], tuple[float, int]]:
    """Seconds and bytes of covariances with derivatives."""

    def value(parts: tuple) -> jax.Array:
        kernel, functional = parts
        with_rows = covariance(kernel, functional, Points(X))
        return jnp.sum(jnp.sin(with_rows)) + jnp.sum(
            jnp.sin(covariance(kernel, *[functional] * 2))
        )

    parts = kernels.RBF(1.0, np.full(COLUMNS, 2.0)), functional
    arrays, others = eqx.partition(jax.tree.map(jnp.asarray, parts), eqx.is_inexact_array)
    compiled = jax.jit(jax.grad(lambda a: value(eqx.combine(a, others)))).lower(arrays).compile()

    def measure() -> tuple[float, int]:
        best = np.inf
        for _ in range(REPEATS + 1):
            start = time.perf_counter()
            jax.block_until_ready(compiled(arrays))
            best = min(best, time.perf_counter() - start)
        analysis = compiled.memory_analysis()
        return best, 0 if analysis is None else analysis.temp_size_in_bytes

    return measure


def main() -> None:
    """Measures every kind."""
    X = np.random.default_rng(1).normal(size=(ROWS, COLUMNS))
    found = {name: program(functional, X)() for name, functional in kinds().items()}
    for name, (seconds, size) in found.items():
        row = {
            "kind": name,
            "rows": ROWS,
            "M": M,
            "milliseconds": f"{1e3 * seconds:.2f}",
            "of_points": f"{seconds / found['points'][0]:.2f}",
            "megabytes": f"{size / 1e6:.1f}",
            "of_one": f"{size / found['sums of 1'][1]:.2f}",
        }
        TABLE.add(row)
        print(row)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
