"""A state-space model of the neuron of Hodgkin and Huxley: reconstruction and a long forecast.

Four outputs, 1,000 samples under currents that grow; two hidden states, Gaussian processes for
transition and emission, both with the current as a control. The forecast is of 1,000 samples under
1.5 times the currents, from the state at the end of training. Errors are in deviations of an
output; the horizon of moments is the first step at which their deviation is more than twice that
of the paths, or less than half of it, in the mean over outputs.

python -m benchmarks.state_space.neuron [--power 0] [--iterations 300]
"""

import argparse
import time
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.results import Table
from benchmarks.state_space.systems import neuron

TABLE = Table("neuron.csv", ("power", "iterations"))
STATES, POINTS, STEPS, PATHS = 2, 30, 1000, 100


def learned(Y: np.ndarray, X: np.ndarray, power: float, iterations: int) -> Any:
    """A fitted model of outputs and controls in units of their deviations."""
    random = np.random.default_rng(0)
    away = Y - Y.mean(axis=0)
    U = np.linalg.svd(away, full_matrices=False)[0]
    components = U[:, :STATES] * np.sqrt(len(Y))
    rows = random.choice(len(Y), POINTS, replace=False)
    points = cavity.inducing.Points(np.column_stack([components[rows], X[rows]]))
    transition = cavity.Layer(
        cavity.kernels.RBF(0.1, np.full(STATES + 1, 2.0)),
        points,
        STATES,
        cavity.means.Identity(STATES),
        0.02,
        skip_connection=True,
    )
    emission = cavity.Layer(
        cavity.kernels.RBF(1.0, np.full(STATES + 1, 2.0)),
        points,
        Y.shape[1],
        cavity.means.Constant(Y.mean(axis=0)),
        skip_connection=True,
    )
    noise = cavity.likelihoods.Gaussian(0.02)
    model = cavity.GPSSM(transition, noise, emission, initial_variance=10.0)
    return cavity.fit(model, X, Y, power=power, max_iterations=iterations)


def first_apart(paths: np.ndarray, moments: np.ndarray) -> int:
    """The first step at which deviations differ by a factor of two, in the mean over outputs."""
    ratio = np.sqrt(moments / paths).mean(axis=1)
    apart = np.flatnonzero((ratio > 2.0) | (ratio < 0.5))
    return int(apart[0]) + 1 if len(apart) else len(ratio)


def main() -> None:
    """One fit and its forecasts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--power", type=float, default=0.0)
    parser.add_argument("--iterations", type=int, default=300)
    options = parser.parse_args()
    (raw, current), (raw_test, current_test) = neuron(STEPS), neuron(STEPS, 1.5)
    unit, scale = raw.std(axis=0), current.std()
    Y, X, Y_test, X_test = raw / unit, current / scale, raw_test / unit, current_test / scale
    began = time.perf_counter()
    with jax.enable_x64(True):
        result = learned(Y, X, options.power, options.iterations)
        seconds = time.perf_counter() - began
        posterior = result.posterior
        states = np.column_stack([posterior.states.mean, X])
        fitted = np.asarray(posterior.emission.moments(states)[0])
        by_paths = posterior.forecast(STEPS, X_test, paths=PATHS)
        by_moments = posterior.forecast(STEPS, X_test, propagation="moments")
        ends = by_paths.quantile([0.05, 0.95])
    row = {"power": options.power, "iterations": options.iterations}
    row |= {"log_evidence": result.log_evidence, "converged": result.converged}
    row["reconstruction"] = float(np.sqrt(np.mean((fitted - Y) ** 2)))
    row["forecast_100"] = float(np.sqrt(np.mean((by_paths.mean - Y_test)[:100] ** 2)))
    row["forecast_1000"] = float(np.sqrt(np.mean((by_paths.mean - Y_test) ** 2)))
    row["mean_only"] = float(np.sqrt(np.mean((Y.mean(axis=0) - Y_test) ** 2)))
    row["coverage_90"] = float(np.mean((Y_test > ends[0]) & (Y_test < ends[1])))
    row["moments_steps"] = first_apart(by_paths.var, by_moments.var)
    row["seconds"] = seconds
    print(row, flush=True)
    TABLE.add(row)


if __name__ == "__main__":
    main()
