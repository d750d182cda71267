"""A picture of a forecast: the fan of future outputs, and the states behind them.

An oscillator of van der Pol of which the position is observed with noise, its velocity never.

python -m benchmarks.state_space.figure docs/guides/state_space.svg
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import numpy as np

import cavity
from cavity import drawing
from cavity.report.svg import picture

ROWS, AHEAD = 160, 60


def oscillator(rows: int, noise: float = 0.1, seed: int = 0) -> np.ndarray:
    """Positions observed with noise, (rows,)."""
    random = np.random.default_rng(seed)
    x, path = np.array([2.0, 0.0]), []
    for _ in range(rows):
        for _ in range(30):
            x = x + 0.25 / 30 * np.array([x[1], (1.0 - x[0] ** 2) * x[1] - x[0]])
        x = x + 0.03 * random.standard_normal(2)
        path.append(x[0])
    return np.array(path) + noise * random.standard_normal(rows)


def draw(path: Path) -> None:
    """The fan on the left, states and sampled paths on the right."""
    y = oscillator(ROWS + AHEAD)
    forecaster = cavity.GPForecaster(n_inducing=20, max_iterations=4000, random_state=0)
    forecaster.fit(y[:ROWS])
    steps = np.arange(1, AHEAD + 1)
    mean, quantiles = (
        forecaster.predict(steps),
        forecaster.predict_quantiles(steps, alpha=drawing.BANDS),
    )
    future = y[ROWS:]
    inside = np.mean((future > quantiles[:, 0]) & (future < quantiles[:, 3]))
    error = np.sqrt(np.mean((mean - future) ** 2))
    print(f"error {error:.3f}, {inside:.3f} of the outputs within 95 % intervals")
    with jax.enable_x64(True):
        paths = np.asarray(forecaster.posterior_.forecast(AHEAD, paths=8).paths)[:, 0]

    def panels(figure: Any) -> None:
        left, right = figure.subplots(1, 2, width_ratios=(2, 1))
        drawing.bands(left, ROWS - 1 + steps, mean, quantiles)
        time = np.arange(ROWS + AHEAD)
        left.plot(time[:ROWS], y[:ROWS], ".", color=drawing.INK, markersize=3, label="observed")
        left.plot(time[ROWS:], future, ".", color=drawing.ACCENT, markersize=3, label="future")
        left.set(xlabel="time", xlim=(ROWS - 80, ROWS + AHEAD), ylabel="position")
        drawing.legend_above(left)
        states = forecaster.states_
        right.plot(*states.T, color=drawing.INK, linewidth=0.8, label="states")
        for number, each in enumerate(paths):
            named = "paths" if number == 0 else None
            right.plot(*each.T, color=drawing.MODEL, linewidth=0.7, alpha=0.7, label=named)
        right.set(xlabel="first state", ylabel="second state")
        drawing.legend_above(right)

    path.write_text(picture(panels, width=9.0, height=3.6))


def main() -> None:
    """Draws into the file that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    draw(parser.parse_args().file)


if __name__ == "__main__":
    main()
