"""Times of the terms of the evidence: values alone, their slopes, and moments of sites.

Rows of one width of cavity at random means, at power 0.5. Slopes are those in the parameters of
the likelihood, of the sum of all values. Two likelihoods without closed moments, and the
multinomial probit of ten classes: averages over points, as minibatches need them, and the
probabilities of functions with a variance.

python -m benchmarks.terms [--rows 8192]
"""

import argparse
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.results import Table
from benchmarks.timing import median
from cavity.likelihoods import AbstractLikelihood, Gamma, MultinomialProbit, StudentT

TABLE = Table("terms.csv", ("likelihood", "rows", "power"))
CLASSES, SOME = 10, 16  # the probit takes one of so many rows
CASES: dict[str, tuple[Callable[[], AbstractLikelihood], float]] = {
    "student_t": (StudentT, 0.5),
    "gamma": (Gamma, 0.5),
    "probit_of_10": (lambda: MultinomialProbit(CLASSES), 0.5),
    "probit_of_10_at_power_1": (lambda: MultinomialProbit(CLASSES), 1.0),
}


def run(name: str, rows: int) -> dict[str, float]:
    """Milliseconds of values, of slopes in the likelihood's parameters, and of moments."""
    make, power = CASES[name]
    likelihood, random = make(), np.random.default_rng(0)
    count = rows if likelihood.latents == 1 else rows // SOME
    shape = (count,) if likelihood.latents == 1 else (likelihood.latents, count)
    mean = jnp.asarray(random.standard_normal(shape))
    var = jnp.full_like(mean, 0.5)
    labels = random.integers(likelihood.latents, size=count)
    numbers = labels if likelihood.latents > 1 else np.exp(random.standard_normal(count))
    y = jnp.asarray(numbers, mean.dtype)

    def total(likelihood: AbstractLikelihood) -> jax.Array:
        return jnp.sum(likelihood.log_power_mean(mean, var, y, power))

    value = eqx.filter_jit(lambda m, v: likelihood.log_power_mean(m, v, y, power))
    moments = eqx.filter_jit(lambda m, v: likelihood.tilted(m, v, y, power))
    slopes = eqx.filter_jit(eqx.filter_grad(total))
    found = {"value_ms": 1e3 * median(lambda: value(mean, var))}
    found["moments_ms"] = 1e3 * median(lambda: moments(mean, var))
    learned = jax.tree.leaves(eqx.filter(likelihood, eqx.is_inexact_array))
    found["slopes_ms"] = 1e3 * median(lambda: slopes(likelihood)) if learned else float("nan")
    return {"power": power, "timed_rows": count} | found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8192)
    rows = parser.parse_args().rows
    with jax.enable_x64(True):
        for name in CASES:
            found = {"likelihood": name, "rows": rows} | run(name, rows)
            TABLE.add(found)
            print(found, flush=True)


if __name__ == "__main__":
    main()
