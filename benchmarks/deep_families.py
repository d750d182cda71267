"""Families of posteriors of a deep GP: their bounds on a step, what they predict, what they cost.

`python -m benchmarks.deep_families` fills `results/deep_families.csv`, a row for each family:

- the best bounds at fixed parameters of the toy of seven rows of Chamberlin's thesis, with two
  layers and with three (hidden noise 0.03);
- over five tables of 100 rows of a step, all parameters learned at power 0: the log evidence, the
  log density of 200 new rows, and the seconds of a fit;
- milliseconds of a value with its gradient: 1,000 rows, three layers, two hidden functions in
  each, 20 inducing points;
- numbers that the posterior stores for a row with these layers.
"""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods, means
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective

EXPLICIT, SITES = "explicit conditional", "explicit conditional with sites"
OWN = (
    *("factorised", "chain", "conditional", "conditional_local", "conditional_nodes"),
    *("coupled", "coupled_values", "nested"),
)
FAMILIES = (*OWN, EXPLICIT, SITES)
SEEDS = range(5)


def method_of(family: str) -> cavity.PowerEP | cavity.TiedPowerEP:
    """The method; what is explicit is the doubly stochastic bound."""
    if family not in OWN:
        nodes = cavity.fitting.Nodes(32, kept=True)
        return cavity.TiedPowerEP(propagation=nodes, hidden_sites=family == SITES)
    return cavity.PowerEP(hidden=family)


def layer(variance: float, lengthscale: float, Z: np.ndarray, **options: Any) -> cavity.Layer:
    """A layer with a squared exponential."""
    return cavity.Layer(kernels.RBF(variance, lengthscale), inducing.Points(Z), **options)


def toy_bound(family: str, depth: int) -> float:
    """The best bound of the toy at fixed parameters."""
    x = np.linspace(-1.0, 1.0, 7)[:, None]
    y = np.sign(x[:, 0] + 1e-3) + 0.05 * np.random.default_rng(2).normal(size=7)
    noise = 0.15 if depth == 2 else 0.03
    first = layer(1.1, 0.6, np.linspace(-1.0, 1.0, 4)[:, None], noise_variance=noise)
    Z = np.linspace(-1.5, 1.5, 4)[:, None]
    middle = [layer(0.9, 0.8, Z, noise_variance=noise)] * (depth - 2)
    model = cavity.DeepGP([first, *middle, layer(0.9, 0.8, Z)], likelihoods.Gaussian(0.1))
    result = cavity.infer(model, x, y, power=0.0, method=method_of(family), jitter=1e-9)
    return result.log_evidence


def step(family: str, seed: int) -> tuple[float, float, float]:
    """Evidence, log density of new rows and seconds of a fit to a step."""
    rng = np.random.default_rng(seed)
    X, T = rng.uniform(0.0, 1.0, (100, 1)), rng.uniform(0.0, 1.0, (200, 1))
    y, new = (0.5 * np.sign(x[:, 0] - 0.5) + 0.02 * rng.standard_normal(len(x)) for x in (X, T))
    Z = np.linspace(0.0, 1.0, 12)[:, None]
    first = layer(0.03, 0.3, Z, mean=means.Identity(), noise_variance=1e-3)
    model = cavity.DeepGP([first, layer(0.5, 0.1, Z)], likelihoods.Gaussian(0.01))
    begin = time.perf_counter()
    result = cavity.fit(model, X, y, power=0.0, method=method_of(family))
    seconds = time.perf_counter() - begin
    density = result.posterior.predict(T).log_density(jnp.asarray(new))
    return result.log_evidence, float(np.mean(density)), seconds


def milliseconds(family: str) -> tuple[float, float]:
    """Of a value with its gradient, and numbers of a posterior for a row."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 2))
    y = np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(1000)
    Z = rng.standard_normal((20, 2))
    hidden = [
        layer(1.0, 1.0, Z, width=2, mean=means.Identity(), noise_variance=0.01) for _ in range(2)
    ]
    model = cavity.DeepGP([*hidden, layer(1.0, 1.0, Z)], likelihoods.Gaussian(0.1))
    data = prepare(X, y, power=0.0)
    objective = Objective(as_dtype(model, data), data, method=method_of(family))
    start, times = objective.first, []
    for _ in range(8):
        begin = time.perf_counter()
        objective(start)
        times.append(time.perf_counter() - begin)
    stored = jax.tree.leaves(objective.empty)
    padded = len(data.rows.y)
    numbers = sum(leaf.size for leaf in stored if padded in leaf.shape)
    return 1e3 * float(np.min(times[1:])), numbers / padded


def main() -> None:
    """All families that the table lacks."""
    table = Table("deep_families.csv", ("family",))
    for family in FAMILIES:
        if table.has(family=family):
            continue
        # nodes are for few inducing variables, and a search with them takes minutes
        few = family == "conditional_nodes"
        nothing = np.full((len(SEEDS), 3), np.nan)
        fits = nothing if few else np.array([step(family, seed) for seed in SEEDS])
        evidence, density, seconds = fits.mean(axis=0)
        cost, numbers = (np.nan, np.nan) if few else milliseconds(family)
        row = {
            "family": family,
            "bound_two_layers": toy_bound(family, 2),
            "bound_three_layers": toy_bound(family, 3),
            "step_evidence": evidence,
            "step_log_density": density,
            "step_log_density_error": fits[:, 1].std(ddof=1) / np.sqrt(len(fits)),
            "step_seconds": seconds,
            "milliseconds": cost,
            "numbers_per_row": numbers,
        }
        table.add(row)
        print(row, flush=True)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
