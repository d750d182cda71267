"""An estimate of the time and memory of a fit, before it starts."""

import dataclasses
import functools
import time

import numpy as np

from cavity.models.base import AbstractGP

# Evaluations of the objective that a fit typically takes, and one of several classes.
TYPICAL_EVALUATIONS, CLASS_EVALUATIONS = 300, 65
# Seconds of processor time per evaluation and unit of the size below, with coupled classes: a
# little more than images take in benchmarks/results/class_forms.csv, where few sweeps are needed.
COUPLED_SECONDS = 5e-10


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
            f"about {duration(self.seconds)} for {self.evaluations} evaluations and "
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
    if model.functionals is None:
        operations, numbers = 8.0 * N**3 + 20.0 * N**2 * n_inputs, 10.0 * N**2
    else:
        M = float(model.functionals.size)
        operations = 20.0 * N * M**2 + 80.0 * N * M * n_inputs + 20.0 * M**3
        numbers = 12.0 * min(N, 8192.0) * M + 20.0 * M**2 + N * (n_inputs + 4 * outputs)
    seconds = operations / _speed() * TYPICAL_EVALUATIONS
    return Cost(seconds, numbers * 8e-9, TYPICAL_EVALUATIONS)


def coupled_seconds(rows: int, classes: int, points: int, *, max_iterations: int = 1000) -> float:
    r"""Processor time that learning coupled classes takes, roughly, on any machine of today.

    It grows as $C^2 N M^2 + C^3 M^3$, what the precision of all inducing variables costs. From
    counts alone, so that what follows from it does not depend on the machine.

    Args:
        rows: of the data.
        classes: their number.
        points: inducing points.
        max_iterations: iterations of learning at the most.
    """
    size = float(classes) ** 2 * rows * points**2 + (float(classes) * points) ** 3
    return COUPLED_SECONDS * size * (1 + min(max_iterations, CLASS_EVALUATIONS - 1))


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


def duration(seconds: float) -> str:
    """Seconds in words, rounded."""
    if seconds < 90:
        return f"{seconds:.2g} seconds"
    return f"{seconds / 60:.2g} minutes" if seconds < 5400 else f"{seconds / 3600:.2g} hours"
