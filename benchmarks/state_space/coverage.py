"""Shares of outputs of the kink system within 90 % intervals 1, 10 and 50 steps ahead.

A forecaster learns from 200 rows of a series. Then rows come ten by ten, states follow at the
parameters that were learned, and from each such end intervals are compared with what comes.

python -m benchmarks.state_space.coverage [--series 14] [--origins 10] [--iterations 60]
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import cavity
from benchmarks.results import Table
from benchmarks.state_space.systems import kink_series

TABLE = Table("kink_coverage.csv", ("observation", "hidden", "seed"))
ROWS, APART, HORIZONS = 200, 10, (1, 10, 50)


def measure(seed: int, observation: float, hidden: str, origins: int, iterations: int) -> None:
    """One series, if it is not in the table."""
    keys = {"observation": observation, "hidden": hidden, "seed": seed}
    if TABLE.has(**keys):
        return
    after = APART * (origins - 1) + max(HORIZONS)
    series = kink_series(seed, after=after, observation_variance=observation)
    y, began = np.concatenate([series.y, series.y_after]), time.perf_counter()
    forecaster = cavity.GPForecaster(
        1, emission="identity", hidden=hidden, max_iterations=iterations, random_state=seed
    )
    inside = np.zeros(len(HORIZONS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        forecaster.fit(y[:ROWS])
        converged = forecaster.converged_
        print(f"seed {seed}: fitted in {time.perf_counter() - began:.0f} s", flush=True)
        for origin in range(ROWS, ROWS + APART * origins, APART):
            if origin > ROWS:
                forecaster.update(y[origin - APART : origin], update_params=False)
            low, high = forecaster.predict_interval(HORIZONS, coverage=0.9).T
            came = y[origin - 1 + np.array(HORIZONS)]
            inside += (came >= low) & (came <= high)
    shares = zip(HORIZONS, inside / origins, strict=True)
    row = keys | {"origins": origins} | {f"inside_{k}": float(share) for k, share in shares}
    row |= {"converged": converged, "seconds": time.perf_counter() - began}
    print(row, flush=True)
    TABLE.add(row)


def main() -> None:
    """Runs every series."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=14)
    parser.add_argument("--origins", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--observation", type=float, default=0.05)
    parser.add_argument("--hidden", default="chain")
    options = parser.parse_args()
    for seed in range(options.series):
        measure(seed, options.observation, options.hidden, options.origins, options.iterations)


if __name__ == "__main__":
    main()
