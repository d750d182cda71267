"""State-space models on published sets of system identification, beside the baselines.

Four states and twenty inducing points, as in the published models; the second half is simulated by
paths from the state at the end of the first. Scores are those of `baselines`.

python -m benchmarks.state_space.learned [--only drive,dryer] [--seeds 10] [--iterations 1000]
"""

import argparse
import time
import warnings
from typing import cast

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning

import cavity
from benchmarks.results import Table
from benchmarks.state_space.baselines import scores
from benchmarks.state_space.identification import PUBLISHED, SETS, load
from cavity.likelihoods import Gaussian

TABLE = Table("state_space_sets.csv", ("set", "states", "power", "seed"))
POINTS = 20


def measure(name: str, states: int, power: float, seed: int, iterations: int) -> None:
    """One fit and its simulation, if it is not in the table."""
    keys = {"set": name, "states": states, "power": power, "seed": seed}
    if TABLE.has(**keys):
        return
    data, began = load(name), time.perf_counter()
    forecaster = cavity.GPForecaster(
        states, n_inducing=POINTS, power=power, max_iterations=iterations, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        forecaster.fit(data.y, data.u)
    seconds = time.perf_counter() - began
    future = forecaster.time_map
    with jax.enable_x64(True):
        controls = future.controls.forward(data.u_test)
        paths = future.posterior.forecast(len(data.y_test), controls, paths=500)
        mean, var = (np.asarray(a)[:, 0, :, 0] for a in (paths.function_mean, paths.function_var))
        noise = float(np.ravel(cast(Gaussian, paths.likelihood).variance)[0])
    scale, centre = forecaster.y_scale_[0], forecaster.y_mean_[0]
    row = keys | scores(data, centre + scale * mean, scale**2 * (var + noise))
    row |= {"log_evidence": forecaster.log_evidence_, "converged": forecaster.converged_}
    row |= {"iterations": forecaster.n_iter_, "published_rmse": PUBLISHED[name]}
    print(row | {"seconds": seconds}, flush=True)
    TABLE.add(row | {"seconds": seconds})


def main() -> None:
    """Runs every seed on every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--states", type=int, default=4)
    parser.add_argument("--power", type=float, default=0.0)
    parser.add_argument("--iterations", type=int, default=1000)
    options = parser.parse_args()
    for seed in range(options.seeds):
        for name in options.only.split(","):
            measure(name, options.states, options.power, seed, options.iterations)


if __name__ == "__main__":
    main()
