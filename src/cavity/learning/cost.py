"""An estimate of the time and memory of a fit, before it starts."""

import dataclasses
import functools
import time

import numpy as np

from cavity.models.base import AbstractGP

# Evaluations of the objective that a fit typically takes.
TYPICAL_EVALUATIONS = 300


@dataclasses.dataclass(frozen=True)
class Cost:
    """An estimate of what learning takes.

    Attributes:
        seconds: of a fit with a typical number of evaluations, compilation left out.
        gigabytes: of memory at the peak, beside the program itself.
        evaluations: the number of evaluations assumed.
    """

    seconds: float
    gigabytes: float
    evaluations: int

    def __str__(self) -> str:
        return (
            f"about {_duration(self.seconds)} for {self.evaluations} evaluations and "
            f"{self.gigabytes:.2g} GB of memory"
        )


def estimate_cost(model: AbstractGP, n_rows: int, n_inputs: int, *, outputs: int = 1) -> Cost:
    """A rough estimate of the time and memory of learning.

    From the count of matrix products of one evaluation, and the measured speed of one.

    Args:
        model: the model.
        n_rows: rows of data.
        n_inputs: input columns.
        outputs: outputs.
    """
    N = float(n_rows)
    if model.inducing is None:
        operations, numbers = 8.0 * N**3 + 20.0 * N**2 * n_inputs, 10.0 * N**2
    else:
        M = float(model.inducing.size)
        operations = 20.0 * N * M**2 + 80.0 * N * M * n_inputs + 20.0 * M**3
        numbers = 12.0 * min(N, 8192.0) * M + 20.0 * M**2 + N * (n_inputs + 4 * outputs)
    seconds = operations / _speed() * TYPICAL_EVALUATIONS
    return Cost(seconds, numbers * 8e-9, TYPICAL_EVALUATIONS)


@functools.cache
def _speed() -> float:
    """Floating-point operations per second of a matrix product, measured once."""
    A = np.ones((400, 400))
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        product = A @ A
        best = min(best, time.perf_counter() - start)
        assert product.shape == A.shape
    return 2.0 * 400**3 / best


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.2g} seconds"
    return f"{seconds / 60:.2g} minutes" if seconds < 5400 else f"{seconds / 3600:.2g} hours"
