"""Sparse priors by expectation propagation beside draws by NUTS, at the same parameters.

diabetes: 353 of its 442 rows, ten columns, and these with their squares and products (64). A
linear model with each prior learns its parameters; coefficients are then inferred at them by
expectation propagation, and drawn by NUTS. A row has the largest and the median difference of
means, in deviations of the draws, ratios of deviations, and the Monte Carlo error of a mean.

python -m benchmarks.sparse_draws [--priors horseshoe,laplace,spike_slab] [--draws 2000]
"""

import argparse
import time
import warnings
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.results import Table
from benchmarks.sparse_real import split_of

TABLE = Table("sparse_draws.csv", ("set", "columns", "prior", "draws"))


def beside_draws(columns: int, prior: str, draws: int) -> dict[str, Any]:
    """How means and deviations of coefficients differ, and the seconds of both."""
    X, y, _, _ = split_of("diabetes", 0)
    X = X[:, :columns]
    fitted: Any = cavity.LinearRegressor(prior=prior).fit(X, y)
    model = fitted.posterior_.model
    start = time.perf_counter()
    inferred = cavity.infer(model, X, y, power=1.0)
    ours = cavity.diagnostics.coefficients(inferred.posterior)
    by_ep = time.perf_counter() - start
    method = cavity.MCMC(draws=draws, warmup=draws, chains=2, keep=2 * draws, acceptance=0.95)
    start = time.perf_counter()
    drawn = cavity.infer(model, X, y, method=method)
    theirs = cavity.diagnostics.coefficients(drawn.posterior)
    by_nuts = time.perf_counter() - start
    ess: Any = drawn.chains
    ess = np.min(np.asarray(ess.ess["weights"]))
    away = np.abs(ours.mean - theirs.mean) / theirs.deviation
    ratio = ours.deviation / theirs.deviation
    return {
        "mean_away": float(np.max(away)),
        "mean_away_median": float(np.median(away)),
        "deviation_least": float(np.min(ratio)),
        "deviation_most": float(np.max(ratio)),
        "deviation_median": float(np.median(ratio)),
        "error_of_draws": float(1.0 / np.sqrt(ess)),
        "ep_converged": inferred.converged,
        "nuts_converged": drawn.converged,
        "ep_seconds": by_ep,
        "nuts_seconds": by_nuts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--priors", default="horseshoe,laplace,spike_slab")
    parser.add_argument("--draws", type=int, default=2000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    jax.config.update("jax_enable_x64", True)
    for prior in options.priors.split(","):
        for columns in (10, 64):
            key = {"set": "diabetes", "columns": columns, "prior": prior, "draws": options.draws}
            if not TABLE.has(**key):
                found = beside_draws(columns, prior, options.draws)
                TABLE.add(key | found)
                print(key, found, flush=True)


if __name__ == "__main__":
    main()
