"""Integration over parameters beside Markov chains: boston, all rows, a lengthscale per column.

fit: the parameters at their most likely values.
design: `cavity.integrate`, a central composite design about them.
mcmc: `cavity.MCMC`, two chains, under the same weak priors about the same fitted values.

python -m benchmarks.integration [--splits 1] [--ways fit design mcmc]
"""

import argparse
import time
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.data import uci
from benchmarks.results import Table

TABLE = Table("integration.csv", ("set", "split", "way"))
WAYS = ("fit", "design", "mcmc")
SETTINGS = cavity.MCMC(chains=2, warmup=150, draws=150, keep=100)


def standardised(split: int) -> tuple[np.ndarray, ...]:
    """The rows of boston in units of the training rows, and the unit of the outputs."""
    X, y, new, out = uci("boston", split)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    middle, unit = y.mean(), y.std()
    return (
        (X - centre) / spread,
        (y - middle) / unit,
        (new - centre) / spread,
        (out - middle) / unit,
    )


def posterior(way: str, result: cavity.fitting.FitResult, X: np.ndarray, y: np.ndarray) -> Any:
    """The posterior of one way, and what it says of itself."""
    if way == "fit":
        return result.posterior, result.message
    if way == "design":
        found = cavity.integrate(result, X, y)
        return found.posterior, found.message
    drawn = cavity.fit(result.model, X, y, method=SETTINGS)
    return drawn.posterior, drawn.message


def measure(split: int, ways: list[str]) -> None:
    """The test density of every way on one split; its time counts beside that of the fit."""
    X, y, new, out = standardised(split)
    began = time.process_time()
    kernel = cavity.kernels.RBF(1.0, np.full(X.shape[1], 3.0))
    result = cavity.fit(cavity.GP(kernel, cavity.likelihoods.Gaussian(0.1)), X, y)
    fitting = time.process_time() - began
    for way in ways:
        if TABLE.has(set="boston", split=split, way=way):
            continue
        began = time.process_time()
        found, message = posterior(way, result, X, y)
        seconds = fitting if way == "fit" else time.process_time() - began
        predictive = found.predict(new)
        density = np.mean(np.asarray(predictive.log_density(out)))
        error = np.sqrt(np.mean((np.asarray(predictive.mean) - out) ** 2))
        row = {"set": "boston", "split": split, "way": way, "nlpd": -float(density)}
        row |= {"rmse": float(error), "seconds": seconds, "message": message}
        TABLE.add(row)
        print(row, flush=True)


def main() -> None:
    """Runs what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    asked = parser.parse_args()
    with jax.enable_x64(True):
        for split in range(asked.splits):
            measure(split, asked.ways)


if __name__ == "__main__":
    main()
