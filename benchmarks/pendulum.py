"""A driven pendulum: controls chosen by what their trajectory would tell, beside random ones.

Five rounds: the pendulum is at rest, one of 40 random sequences of 15 torques is applied, and the
model of next states learns from all steps so far. A sequence is a sum of two waves of random
sizes, up to the largest torque. The first round is the same for both. The error is that of the
mean angle and speed ten steps ahead, in the model's units, from 200 states of a box with random
torques.

python -m benchmarks.pendulum [--seeds 10]
"""

import argparse
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.results import Table

TABLE = Table("pendulum.csv", ("choice", "seed", "round"))
CHOICES = ("random", "information")
ROUNDS, STEPS, AHEAD, CANDIDATES = 5, 15, 10, 40
LARGEST = 8.0  # torque
STEP, FINE = 0.1, 10
NOISE = np.array([0.01, 0.03])
BOX = np.array([2.5, 5.0])  # angle and speed of states to predict from
SCALE = np.array([1.0, 2.0])  # of angles and speeds in the model


def advance(x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """States (n, 2) one step on under torques (n,), without noise."""
    h = STEP / FINE
    angle, speed = x.T
    for _ in range(FINE):
        speed = speed + h * (u - 9.8 * np.sin(angle) - 0.2 * speed)
        angle = angle + h * speed
    return np.column_stack([angle, speed])


def torques(count: int, steps: int, random: np.random.Generator) -> np.ndarray:
    """Random sequences, (count, steps)."""
    size = LARGEST * random.uniform(0.0, 1.0, (count, 1, 2)) / 2.0
    rate, phase = random.uniform(0.5, 6.0, (count, 1, 2)), random.uniform(0.0, 6.3, (count, 1, 2))
    return np.sum(size * np.sin(rate * STEP * np.arange(steps)[None, :, None] + phase), axis=2)


def applied(u: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and next states of a sequence from rest, with process noise."""
    x, inputs, after = np.zeros((1, 2)), [], []
    for torque in u:
        inputs.append([*(x[0] / SCALE), torque / LARGEST])
        x = advance(x, np.array([torque])) + NOISE * random.standard_normal(2)
        after.append(x[0] / SCALE)
    return np.array(inputs), np.array(after)


def learned(X: np.ndarray, y: np.ndarray) -> Any:
    """A model of next states, with inducing points at all rows."""
    kernel = cavity.kernels.RBF(0.3, np.array([1.0, 2.0, 2.0]))
    points = cavity.inducing.Points(X)
    likelihood, mean = cavity.likelihoods.Gaussian(1e-3), cavity.means.Identity(2)
    model = cavity.GP(kernel, likelihood, points, mean)
    return cavity.fit(model, X, y, max_iterations=60)


def error(result: Any, random: np.random.Generator) -> float:
    """Root mean squared error of means ten steps ahead."""
    x = random.uniform(-1.0, 1.0, (200, 2)) * BOX
    believed, u = x / SCALE, torques(200, AHEAD, random)
    for k in range(AHEAD):
        inputs = np.column_stack([believed, u[:, k] / LARGEST])
        believed = np.asarray(result.posterior.marginals(inputs).mean)
        x = advance(x, u[:, k])
    return float(np.sqrt(np.mean((believed - x / SCALE) ** 2)))


def run(choice: str, seed: int) -> None:
    if TABLE.has(choice=choice, seed=seed, round=ROUNDS):
        return
    random, noise = np.random.default_rng(seed), np.random.default_rng(1_000 + seed)
    X, y = applied(torques(1, STEPS, random)[0], noise)
    for number in range(1, ROUNDS + 1):
        result = learned(X, y)
        row = {"choice": choice, "seed": seed, "round": number, "rows": len(X)}
        TABLE.add(row | {"error": error(result, np.random.default_rng(99))})
        candidates, best = torques(CANDIDATES, STEPS, random), 0
        if choice == "information":
            scaled = candidates / LARGEST
            best = cavity.fitting.suggest_controls(result, np.zeros(2), scaled, seed=number).best
        more = applied(candidates[best], noise)
        X, y = np.concatenate([X, more[0]]), np.concatenate([y, more[1]])


def last_errors(seed: int) -> dict[str, float]:
    """Errors after the last round."""
    rows = [r for r in TABLE.rows() if r["seed"] == str(seed) and r["round"] == str(ROUNDS)]
    return {row["choice"]: float(row["error"]) for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    below = 0
    with jax.enable_x64(True):
        for seed in range(options.seeds):
            for choice in CHOICES:
                run(choice, seed)
            last = last_errors(seed)
            below += last["information"] < last["random"]
            print(seed, last, flush=True)
    print(f"below random: {below} of {options.seeds}")


if __name__ == "__main__":
    main()
