"""What covariances of kernels under Gaussian inputs cost, beside the exponentials alone.

1,000 rows of ten columns, 50 inducing points, one symmetric form, double precision: the sum of
`covariance_forms` and its gradient in everything, in milliseconds of the processor, one thread.
`differentiated` is the squared exponential with the plain formulas in the place of those whose
derivatives are written by hand; `sum over rows` is its `covariance_sum` in the place of forms.

XLA_FLAGS="--xla_cpu_multi_thread_eigen=false" python -m benchmarks.expectation_cost
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.deep_steps import seconds
from benchmarks.results import Table
from cavity.kernels import RBF, AbstractKernel, Linear, SpectralMixture
from cavity.kernels.expectations import (
    Expansion,
    GaussianInputs,
    closed_form,
    covariance_forms,
    covariance_sum,
)
from cavity.kernels.expectations.closed_form import Row
from cavity.numerics.types import Array

TABLE = Table("expectation_cost.csv", ("what",))
N, D, M, REPEATS = 1000, 10, 50, 15


def plain(log_a: Array, log_b: Array, log_ratio: Array) -> Array:
    """The formula of `excess`."""
    return jnp.exp(log_a)[:, None] * jnp.exp(log_b)[None, :] * jnp.expm1(log_ratio)


def plain_form(expansion: Expansion, row: Row, W: Array) -> Array:
    """The formula of `form`."""
    return jnp.sum(W * closed_form.covariance(expansion, row))


def measure(
    what: str, kernel: AbstractKernel, *, full: bool = False, over_rows: bool = False
) -> None:
    """Adds the time of a value, and of a value and gradient."""
    random = np.random.default_rng(0)
    mean, Z = random.normal(size=(N, D)), random.normal(size=(M, D))
    cov = random.uniform(0.01, 0.2, size=(N, D))
    cov = cov[:, :, None] * np.eye(D) if full else cov
    half = random.normal(size=(1, M, M))
    point = jax.tree.map(jnp.asarray, (kernel, mean, cov, Z, half @ half.swapaxes(1, 2)))

    def total(kernel: AbstractKernel, mean: Array, cov: Array, Z: Array, W: Array) -> Array:
        inputs = GaussianInputs(mean, cov)
        if over_rows:
            return jnp.sum(W * covariance_sum(kernel, inputs, Z, jnp.ones((N, 1))))
        return jnp.sum(covariance_forms(kernel, inputs, Z, W))

    value, gradient = jax.jit(total), jax.jit(jax.value_and_grad(total, (0, 1, 2, 3, 4)))
    add(what, seconds(lambda: value(*point), REPEATS), seconds(lambda: gradient(*point), REPEATS))


def add(what: str, value: float, gradient: float) -> None:
    row = {"what": what, "value_ms": 1e3 * value, "gradient_ms": 1e3 * gradient}
    print(row, flush=True)
    TABLE.add(row)


def exponentials() -> None:
    """Adds the time of one exponential per row and pair of points, and of two."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(N, M, M)))
    once, twice = jax.jit(jnp.exp), jax.jit(lambda x: (jnp.exp(x), jnp.exp(1.0 - x)))
    add("exponentials alone", *(seconds(lambda f=f: f(x), REPEATS) for f in (once, twice)))


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    bump = RBF(1.3, np.linspace(2.0, 3.0, D))
    exponentials()
    measure("rbf", bump)
    excess, form = closed_form.excess, closed_form.form
    closed_form.excess, closed_form.form = plain, plain_form
    measure("rbf, differentiated", bump)
    closed_form.excess, closed_form.form = excess, form
    measure("rbf, sum over rows", bump, over_rows=True)
    measure("rbf, full covariances", bump, full=True)
    measure("rbf + linear", bump + Linear(np.ones(D)))
    measure("rbf + rbf", bump + RBF(0.3, 3.0))
    frequencies = 0.1 * np.random.default_rng(0).normal(size=(2, D))
    measure("spectral_mixture2", SpectralMixture(np.ones(2), frequencies, np.full((2, D), 0.1)))


if __name__ == "__main__":
    main()
