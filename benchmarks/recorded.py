"""Neal's outlier regression by learning, beside recorded runs of the authors' own toolbox.

Student-t noise by EP (power 1) and by Laplace's method, with df fixed at 4 and learned, and
Gaussian noise: energies at the optimum (minus log evidence, minus log priors) and parameters,
from default starts; with Gaussian noise, whose energy has several minima, also from the recorded
one. Priors are those of the recorded runs, as densities of the logarithms that were moved there:
Student-t with 4 degrees of freedom on the lengthscale, uniform on the deviation of the kernel,
log-uniform on the noise; of df uniform in log log df (EP) or in log df (Laplace). The recorded
numbers are those of Jylanki (2013) E-R1.

python -m benchmarks.recorded
"""

import dataclasses
import math
import time
import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import cavity
from benchmarks.neal import data
from benchmarks.results import Table
from cavity.parameters import FIXED
from cavity.parameters.priors import Flat, Normal

TABLE = Table("recorded.csv", ("model",))

# energy, lengthscale and variance of the kernel
RECORDED = {
    "Gaussian noise": (27.0141, 1.066, 5.420),
    "Gaussian noise, from the recorded optimum": (27.0141, 1.066, 5.420),
    "Laplace, df learned": (-24.079, 1.047, 3.092),
    "EP, df learned": (-25.6526, 1.040, 2.920),
    "Laplace, df 4": (-14.9305, 1.040, 3.095),
    "EP, df 4": (-15.1794, 1.033, 2.966),
}
JITTER = {"EP": 1e-4, "Laplace": 1e-6, "Gaussian noise": 1e-6}


@dataclasses.dataclass(frozen=True)
class OfLengthscale(Normal):
    """Student-t with 4 degrees of freedom and scale 1, as a density of the logarithm."""

    def log_prob(self, value: jax.Array) -> jax.Array:
        height = math.lgamma(2.5) - math.lgamma(2.0) - 0.5 * math.log(4.0 * math.pi)
        return height - 2.5 * jnp.log1p(value**2 / 4.0) + jnp.log(value)


@dataclasses.dataclass(frozen=True)
class OfVariance(Normal):
    """Uniform on the square root, as a density of the logarithm."""

    def log_prob(self, value: jax.Array) -> jax.Array:
        return 0.5 * jnp.log(value) - math.log(2.0)


@dataclasses.dataclass(frozen=True)
class OfDf(Normal):
    """Uniform on the logarithm, as a density of the logarithm of the logarithm."""

    def log_prob(self, value: jax.Array) -> jax.Array:
        return jnp.log(jnp.log(value))


def learned(name: str) -> cavity.fitting.FitResult:
    """The fit of one row."""
    x, y = data()
    method_name = name.split(",", maxsplit=1)[0]
    start = RECORDED[name][:0:-1] if name.endswith("optimum") else (1.0, 1.0)
    kernel = cavity.kernels.RBF(*start) + cavity.kernels.White(JITTER[method_name])
    gaussian = name.startswith("Gaussian")
    noise = cavity.likelihoods.Gaussian(0.1) if gaussian else cavity.likelihoods.StudentT(0.3, 4.0)
    model = cavity.GP(kernel, noise)
    maps, priors = cavity.parameters.bijections(model), cavity.parameters.priors.flat(model)
    maps = eqx.tree_at(lambda m: m.kernel.second.variance, maps, FIXED)
    kernel_of = lambda m: (m.kernel.first.lengthscale, m.kernel.first.variance)  # noqa: E731
    priors = eqx.tree_at(kernel_of, priors, (OfLengthscale(), OfVariance()))
    schedule = ()
    if not gaussian:
        known = eqx.tree_at(lambda m: m.likelihood.df, maps, FIXED)
        if name.endswith("df 4"):
            maps = known
        else:  # df after all else: a free df can lead a search from afar astray
            schedule = (known,)
            maps = eqx.tree_at(lambda m: m.likelihood.df, maps, cavity.parameters.Positive(1.0))
            prior = OfDf() if method_name == "Laplace" else Flat()
            priors = eqx.tree_at(lambda m: m.likelihood.df, priors, prior)
    method = cavity.Laplace() if method_name == "Laplace" else cavity.PowerEP()
    options = {"power": 1.0, "method": method, "tolerance": 1e-7, "schedule": schedule}
    return cavity.fit(model, x[:, None], y, bijections=maps, priors=priors, **options)


def main() -> None:
    for name, recorded in RECORDED.items():
        start = time.perf_counter()
        with jax.enable_x64(True), warnings.catch_warnings(action="ignore"):
            result: Any = learned(name)
        kernel, noise = result.model.kernel.first, result.model.likelihood
        gaussian = name.startswith("Gaussian")
        row = {
            "model": name,
            "recorded_energy": recorded[0],
            "energy": result.objective,
            "difference": result.objective - recorded[0],
            "recorded_lengthscale": recorded[1],
            "lengthscale": float(kernel.lengthscale),
            "recorded_variance": recorded[2],
            "variance": float(kernel.variance),
            "noise_variance": float(noise.variance if gaussian else noise.scale**2),
            "df": math.inf if gaussian else float(noise.df),
            "log_evidence": result.log_evidence,
            "converged": result.converged,
            "seconds": time.perf_counter() - start,
        }
        print(row, flush=True)
        TABLE.add(row)


if __name__ == "__main__":
    main()
