"""State-space models of the kink system: noises, the function, and densities of what follows.

For each series of 200 rows and each power: the evidence and both noise variances; the error of the
function over the inputs that the series visits; joint log densities of the next outputs up to 1,
5, 10 and 20 steps and the share within 90 % intervals, by paths, by moments and linearised.

python -m benchmarks.state_space.kink [--series 10] [--powers 0,0.2,0.5,0.8] [--observation 0.05]
    [--states chain,factorised,conditional,tied] [--starts 1]

States that are tied have one site each for all their terms, and are learned from minibatches.
With several starts each series is learned from so many, parameters perturbed and states found
anew: how far apart the objectives end, how many are within five nats of the best, and whether the
result says so.
"""

import argparse
import itertools
import time
from typing import Any, cast

import jax
import numpy as np

import cavity
from benchmarks.results import Table
from benchmarks.state_space.systems import Series, kink, kink_series
from cavity.learning.initialisation.state_space import conditional_sites
from cavity.learning.results.result import NATS_APART
from cavity.models.state_space.posterior import StateSpacePosterior

TABLE = Table("kink.csv", ("observation", "states", "power", "propagation", "seed"))
POINTS, PATHS, HORIZONS = 30, 500, (1, 5, 10, 20)
# Rows of a minibatch, steps and the learning rate of states with one tied site each.
ROWS, STEPS, RATE = 50, 5000, 0.03
STARTS = Table("kink_starts.csv", ("observation", "states", "power", "seed", "starts"))
PROPAGATIONS = ("paths", "moments", "linearised")


def learned(series: Series, power: float, states: str, iterations: int, restarts: int = 0) -> Any:
    """A fitted model: outputs observe the state, whose prior mean is that of no change."""
    Z = np.linspace(series.y.min(), series.y.max(), POINTS)[:, None]
    transition = cavity.Layer(
        cavity.kernels.RBF(4.0, 2.0),
        cavity.inducing.Points(Z),
        mean=cavity.means.Identity(1),
        noise_variance=0.5,
    )
    model = cavity.GPSSM(transition, cavity.likelihoods.Gaussian(0.5))
    if states == "tied":
        training: dict[str, Any] = {"batch": ROWS, "max_sweeps": STEPS, "learning_rate": RATE}
        method = cavity.TiedPowerEP(propagation=cavity.fitting.Moments(), **training)
        starts: dict[str, Any] = {"power": power, "n_restarts": restarts}
        return cavity.fit(model, None, series.y, method=method, **starts)
    conditional = states == "conditional"
    method = cavity.PowerEP(hidden="chain" if conditional else states)
    options = {"power": power, "max_iterations": iterations, "n_restarts": restarts}
    result = cavity.fit(model, None, series.y, method=method, **options)
    if not conditional:
        return result
    posterior = cast(StateSpacePosterior, result.posterior)
    sites = conditional_sites(posterior, np.zeros((len(series.y), 0)))
    method = cavity.TiedPowerEP(hidden=states)
    return cavity.fit(result.model, None, series.y, method=method, sites=sites, **options)


def several(
    seed: int, power: float, states: str, observation: float, iterations: int, starts: int
) -> None:
    """Where several starts on one series end, if it is not in the table."""
    keys = {"observation": observation, "states": states, "power": power, "seed": seed}
    keys |= {"starts": starts}
    if STARTS.has(**keys):
        return
    series = kink_series(seed, observation_variance=observation)
    began = time.perf_counter()
    result = learned(series, power, states, iterations, starts - 1)
    ends = np.asarray(result.ends)
    row = keys | {
        "apart": float(np.ptp(ends)),
        "near_the_best": int(np.sum(ends - ends.min() <= NATS_APART)),
        "said": "starts" in result.message,
        "converged": result.converged,
        "seconds": time.perf_counter() - began,
    }
    print(row, ends, flush=True)
    STARTS.add(row)


def function_error(posterior: Any, series: Series) -> float:
    """Root mean squared error of the function at the states of the series."""
    mean, _ = posterior.transition.moments(np.asarray(series.x)[:, None])
    return float(np.sqrt(np.mean((np.asarray(mean)[:, 0] - kink(series.x)) ** 2)))


def measure(seed: int, power: float, states: str, observation: float, iterations: int) -> None:
    """One series at one power, if it is not in the table."""
    keys = {"observation": observation, "states": states, "power": power, "seed": seed}
    if TABLE.has(**keys, propagation=PROPAGATIONS[-1]):
        return
    series = kink_series(seed, observation_variance=observation)
    began = time.perf_counter()
    result = learned(series, power, states, iterations)
    seconds = time.perf_counter() - began
    noises = {
        "process": float(np.ravel(result.model.transition.noise_variance)[0]),
        "noise": float(np.ravel(result.model.likelihood.variance)[0]),
    }
    for propagation in PROPAGATIONS:
        future = result.posterior.forecast(20, propagation=propagation, paths=PATHS)
        joint, y = future.joint_log_density(series.y_after), series.y_after
        ends = future.quantile([0.05, 0.95])
        row = keys | {"propagation": propagation, "log_evidence": result.log_evidence, **noises}
        row["function_error"] = function_error(result.posterior, series)
        row |= {f"density_{k}": float(joint[k - 1]) for k in HORIZONS}
        row["coverage_90"] = float(np.mean((y > ends[0]) & (y < ends[1])))
        row |= {"converged": result.converged, "iterations": result.n_iterations}
        TABLE.add(row | {"seconds": seconds})
    print({name: row[name] for name in row if name != "propagation"}, flush=True)


def main() -> None:
    """Runs every power on every series."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=10)
    parser.add_argument("--powers", default="0,0.2,0.5,0.8")
    parser.add_argument("--states", default="chain,factorised")
    parser.add_argument("--observation", type=float, default=0.05)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--starts", type=int, default=1)
    options = parser.parse_args()
    powers: list[float] = [float(power) for power in options.powers.split(",")]
    states: list[str] = options.states.split(",")
    with jax.enable_x64(True):
        for seed, power, kind in itertools.product(range(options.series), powers, states):
            case = (seed, power, kind, options.observation, options.iterations)
            if options.starts == 1:
                measure(*case)
            else:
                several(*case, options.starts)


if __name__ == "__main__":
    main()
