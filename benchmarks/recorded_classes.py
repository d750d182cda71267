"""Neal's three classes by learning, beside the recorded demonstration (Jylanki 2013, E-R2).

The multinomial probit at power 1 (nested EP) for the full GP, from two starts, with the priors of
the demonstration as densities of the logarithms that were moved there: Student-t with 10 degrees
of freedom and scale sqrt(10) on the lengthscales and on the deviation of the kernel.

python -m benchmarks.recorded_classes
"""

import dataclasses
import math
import time
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.results import Table
from benchmarks.three_classes import CLASSES, JITTER, LENGTHSCALES, RECORDED, VARIANCE, data
from cavity.parameters import FIXED
from cavity.parameters.priors import Normal

TABLE = Table("recorded_classes.csv", ("start",))
STARTS = {"recorded": (VARIANCE, LENGTHSCALES), "ones": (1.0, np.ones(4))}
DF, SCALE = 10.0, math.sqrt(10.0)


def student_t(value: jax.Array) -> jax.Array:
    """Log density."""
    height = math.lgamma(0.5 * (DF + 1.0)) - math.lgamma(0.5 * DF)
    height -= 0.5 * math.log(DF * math.pi) + math.log(SCALE)
    return height - 0.5 * (DF + 1.0) * jnp.log1p((value / SCALE) ** 2 / DF)


@dataclasses.dataclass(frozen=True)
class OfLengthscale(Normal):
    """Of the logarithm, one for each column."""

    def log_prob(self, value: jax.Array) -> jax.Array:
        return student_t(value) + jnp.log(value)


@dataclasses.dataclass(frozen=True)
class OfVariance(Normal):
    """Of the logarithm; the Student-t is of the square root."""

    def log_prob(self, value: jax.Array) -> jax.Array:
        return student_t(jnp.sqrt(value)) + 0.5 * jnp.log(value) - math.log(2.0)


def learned(start: str) -> cavity.fitting.FitResult:
    """The fit from one start."""
    X, y, _, _ = data()
    kernel = cavity.kernels.RBF(*STARTS[start]) + cavity.kernels.White(JITTER)
    model = cavity.GP(kernel, cavity.likelihoods.MultinomialProbit(CLASSES))
    maps, priors = cavity.parameters.bijections(model), cavity.parameters.priors.flat(model)
    maps = eqx.tree_at(lambda m: m.kernel.second.variance, maps, FIXED)
    kernel_of = lambda m: (m.kernel.first.lengthscale, m.kernel.first.variance)  # noqa: E731
    priors = eqx.tree_at(kernel_of, priors, (OfLengthscale(), OfVariance()))
    return cavity.fit(model, X, y, power=1.0, bijections=maps, priors=priors, tolerance=1e-6)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    _, _, new, labels = data()
    for start in STARTS:
        began = time.perf_counter()
        result: Any = learned(start)
        kernel = result.model.kernel.first
        scales = np.asarray(kernel.lengthscale)
        predictive: Any = result.posterior.predict(new)
        chosen = np.argmax(np.asarray(predictive.probabilities), axis=-1)
        row = {
            "start": start,
            "recorded_energy": RECORDED["energy"],
            "energy": result.objective,
            "difference": result.objective - RECORDED["energy"],
            "variance": float(kernel.variance),
            "lengthscales": " ".join(f"{x:.5f}" for x in scales),
            "largest_relative_difference": float(np.max(np.abs(scales / LENGTHSCALES - 1.0))),
            "recorded_error": RECORDED["error"],
            "error": float(np.mean(chosen != labels)),
            "converged": result.converged,
            "seconds": time.perf_counter() - began,
        }
        print(row, flush=True)
        TABLE.add(row)


if __name__ == "__main__":
    main()
