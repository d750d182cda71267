"""Simulated systems: the kink, and the neuron of Hodgkin and Huxley.

References:
    Bui (2017), section 3.8, with the constants of the author's public code; Ialongo et al. (2019)
    for the kink; Hodgkin and Huxley (1952).
"""

from typing import NamedTuple

import numpy as np

# Fine steps of the integration per sample.
FINE = 20
SAMPLE = 0.5  # ms

CAPACITY = 1.0
CONDUCTANCES = {"Na": 120.0, "K": 36.0, "L": 0.3}
POTENTIALS = {"Na": 50.0, "K": -77.0, "L": -54.387}
START = np.array([-65.0, 0.05, 0.6, 0.32])
# Current, and the times between which it flows, in ms.
PULSES = ((2, 30, 60), (3, 80, 110), (5, 140, 170), (10, 200, 240), (15, 270, 310), (30, 350, 400))
RAMP = (430.0, 480.0)


class Series(NamedTuple):
    """Outputs and hidden states of a system, for training and after it.

    Attributes:
        y: outputs in training.
        x: hidden states in training.
        y_after: outputs after it.
        x_after: hidden states after it.
    """

    y: np.ndarray
    x: np.ndarray
    y_after: np.ndarray
    x_after: np.ndarray


def kink(x: np.ndarray) -> np.ndarray:
    """The function of the kink system: it rises with slope one to 5 at x = 4, then falls."""
    return np.where(x < 4.0, x + 1.0, -4.0 * x + 21.0)


def kink_series(
    seed: int,
    steps: int = 200,
    after: int = 20,
    process_variance: float = 0.2,
    observation_variance: float = 0.05,
) -> Series:
    """One series of the kink system; the state before its first has a standard normal prior."""
    random = np.random.default_rng(seed)
    x, states = random.standard_normal(), []
    for _ in range(steps + after):
        x = float(kink(np.asarray(x))) + np.sqrt(process_variance) * random.standard_normal()
        states.append(x)
    x = np.array(states)
    y = x + np.sqrt(observation_variance) * random.standard_normal(len(x))
    return Series(y[:steps], x[:steps], y[steps:], x[steps:])


def current(time: np.ndarray) -> np.ndarray:
    """The current that is injected in training: pulses of growing size, then a ramp."""
    value = np.zeros_like(time)
    for size, start, end in PULSES:
        value = np.where((time > start) & (time < end), float(size), value)
    start, end = RAMP
    return np.where((time > start) & (time < end), (time - start) / 3.0, value)


def neuron(steps: int = 1000, factor: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Potential and gates m, h, n of a neuron, (steps, 4), and the injected current, (steps, 1).

    Args:
        steps: samples, every 0.5 ms.
        factor: by which the current of training is multiplied; 1.5 for the test.
    """
    time = SAMPLE * np.arange(steps)
    state, states = START, [START]
    for start in time[:-1]:
        for i in range(FINE):
            state = _step(state, start + i * SAMPLE / FINE, factor)
        states.append(state)
    return np.array(states), factor * current(time)[:, None]


def _step(state: np.ndarray, time: float, factor: float) -> np.ndarray:
    """One step of Runge and Kutta's method of order four."""
    h = SAMPLE / FINE
    at = [factor * current(np.asarray(time + share * h)) for share in (0.0, 0.5, 1.0)]
    a = _slope(state, at[0])
    b = _slope(state + 0.5 * h * a, at[1])
    c = _slope(state + 0.5 * h * b, at[1])
    d = _slope(state + h * c, at[2])
    return state + h / 6.0 * (a + 2.0 * b + 2.0 * c + d)


def _slope(state: np.ndarray, injected: np.ndarray) -> np.ndarray:
    """The derivative of potential and gates in time."""
    V, m, h, n = state
    flows = {"Na": m**3 * h, "K": n**4, "L": 1.0}
    out = sum(CONDUCTANCES[k] * flow * (V - POTENTIALS[k]) for k, flow in flows.items())
    opening = np.array(
        [
            _rate(V + 40.0),
            0.07 * np.exp(-(V + 65.0) / 20.0),
            0.1 * _rate(V + 55.0),
        ]
    )
    closing = np.array(
        [
            4.0 * np.exp(-(V + 65.0) / 18.0),
            1.0 / (1.0 + np.exp(-(V + 35.0) / 10.0)),
            0.125 * np.exp(-(V + 65.0) / 80.0),
        ]
    )
    gates = opening * (1.0 - state[1:]) - closing * state[1:]
    return np.concatenate([[(injected - out) / CAPACITY], gates])


def _rate(v: float) -> float:
    """The rate 0.1 v / (1 - exp(-v / 10)), which is one at zero."""
    z = v / 10.0
    return 1.0 + 0.5 * z if abs(z) < 1e-6 else z / -np.expm1(-z)
