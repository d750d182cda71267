"""Six simulated series, the first half for training and the second to be simulated freely.

Three are driven by a control, one by two, and two go on by themselves.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.state_space.identification import Identification

ROWS = 400  # half of them in training


def held(random: np.random.Generator, rows: int, steps: int) -> np.ndarray:
    """A control that is drawn anew every few rows."""
    return np.repeat(random.uniform(-1.0, 1.0, -(-rows // steps)), steps)[:rows]


def swing(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A damped linear swing, noise on its states and on its output."""
    u, x, y = random.standard_normal(ROWS), np.zeros(2), []
    for control in u:
        x = np.array([[0.95, 0.25], [-0.25, 0.9]]) @ x + [0.0, 0.3 * control]
        x += 0.05 * random.standard_normal(2)
        y.append(x[0] + 0.1 * random.standard_normal())
    return u, np.array(y)


def spring(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Duffing's oscillator, pushed by a control that is held for ten rows."""
    u, x, y = held(random, ROWS, 10), np.zeros(2), []
    for control in u:
        for _ in range(10):
            force = 2.0 * control - 0.4 * x[1] - x[0] - x[0] ** 3
            x = x + 0.03 * np.array([x[1], force])
        x = x + 0.01 * random.standard_normal(2)
        y.append(x[0] + 0.05 * random.standard_normal())
    return u, np.array(y)


def tanks(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two tanks, one above the other, that empty by the root of their levels."""
    u, x, y = 1.0 + held(random, ROWS, 8), np.ones(2), []
    for control in u:
        flow = np.sqrt(np.maximum(x, 0.0))
        x = x + 0.2 * np.array([control - flow[0], flow[0] - flow[1]])
        x = np.maximum(x + 0.02 * random.standard_normal(2), 0.0)
        y.append(x[1] + 0.05 * random.standard_normal())
    return u, np.array(y)


def saturated(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two controls, the second of which saturates, behind a slow sensor."""
    u, level, y = random.standard_normal((ROWS, 2)), np.zeros(2), []
    for first, second in u:
        level[0] = 0.7 * level[0] + 0.3 * first + np.tanh(2.0 * second)
        level[1] = 0.85 * level[1] + 0.15 * level[0]
        y.append(level[1] + 0.05 * random.standard_normal())
    return u, np.array(y)


def cycle(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Van der Pol's oscillator; nothing drives it but noise."""
    x, y = np.array([2.0, 0.0]), []
    for _ in range(ROWS):
        for _ in range(20):
            x = x + 0.0125 * np.array([x[1], (1.0 - x[0] ** 2) * x[1] - x[0]])
        x = x + 0.03 * random.standard_normal(2)
        y.append(x[0] + 0.1 * random.standard_normal())
    return np.zeros((ROWS, 0)), np.array(y)


def threshold(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """An autoregression with another slope above its threshold."""
    level, y = 0.0, []
    for _ in range(ROWS):
        level = (0.9 * level + 0.5 if level < 1.0 else -0.6 * level) + (
            0.3 * random.standard_normal()
        )
        y.append(level + 0.1 * random.standard_normal())
    return np.zeros((ROWS, 0)), np.array(y)


SERIES: dict[str, Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]] = {
    "swing": swing,
    "spring": spring,
    "tanks": tanks,
    "saturated": saturated,
    "cycle": cycle,
    "threshold": threshold,
}


def simulated(name: str, seed: int = 0) -> Identification:
    """One of the series, standardised by its first half."""
    u, y = SERIES[name](np.random.default_rng([seed, sum(map(ord, name))]))
    u, half = u.reshape(len(y), -1), len(y) // 2
    u = (u - u[:half].mean(axis=0)) / u[:half].std(axis=0)
    unit = float(y[:half].std())
    y = (y - y[:half].mean()) / unit
    return Identification(u[:half], y[:half], u[half:], y[half:], unit)
