"""Pictures of a state-space model: its forecasts, its states, and how these move."""

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from cavity.learning.double_precision import in_double
from cavity.models.deep.layer import LayerProcess
from cavity.report import plots
from cavity.report.figures import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    Figure = Any

# Arrows along an axis, and points of a curve.
ARROWS, POINTS = 14, 120


def fan(name: str, mean: np.ndarray, quantiles: np.ndarray, observed: np.ndarray) -> Picture:
    """The forecast of an output with its bands, and what came.

    Args:
        name: of the output.
        mean: of every step.
        quantiles: at probabilities 0.025, 0.25, 0.75 and 0.975, (steps, 4).
        observed: what came, NaN where it did not.
    """
    steps = np.arange(1, len(mean) + 1)
    any_came = not np.all(np.isnan(observed))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        plots.draw_bands(axes, steps, mean, quantiles, "steps after the fit")
        if any_came:
            axes.plot(steps, observed, ".", color=plots.ACCENT, markersize=4, label="observed")
        axes.set(ylabel=plots.label(name))
        plots.legend_above(axes)

    came = " Points are what came." if any_came else ""
    return Picture(
        f"fan_{name}",
        f"Forecast of {name}",
        f"The forecast of {name} over {len(mean)} steps, with bands that widen.",
        f"Bands hold an output with 50 and 95 %, noise included.{came}",
        plots.picture(draw),
    )


def described(
    name: str, first: int, mean: np.ndarray, quantiles: np.ndarray, observed: np.ndarray
) -> Picture:
    """Rows of the fit given all rows, smoothed.

    Args:
        name: of the output.
        first: the number of the first of them, from 1.
        mean: of every row.
        quantiles: as in `fan`.
        observed: the outputs, NaN where missing.
    """
    rows = np.arange(first, first + len(mean))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        plots.draw_bands(axes, rows, mean, quantiles, "row of the fit")
        axes.plot(rows, observed, ".", color=plots.ACCENT, markersize=4, label="observed")
        axes.set(ylabel=plots.label(name))
        plots.legend_above(axes)

    return Picture(
        f"described_{name}",
        f"{name} in rows of the fit",
        f"Rows of the fit of {name}, with bands about what the states of all rows say.",
        "Bands hold an output with 50 and 95 %, noise included, given all rows of the fit, its "
        "own among them. Points are the rows.",
        plots.picture(draw),
    )


def _broken(path: np.ndarray, starts: np.ndarray | None) -> np.ndarray:
    """States with a row of NaN in front of every further series, so that no line joins two."""
    return path if starts is None else np.insert(path, starts, np.nan, axis=0)


def states(mean: np.ndarray, std: np.ndarray, starts: np.ndarray | None = None) -> Picture:
    """The states of the rows of the fit: one along time, or two against each other.

    Args:
        mean: of every row.
        std: likewise.
        starts: the rows at which further series start; None for one series.
    """
    line = _broken(mean, starts)
    time = _broken(np.arange(1.0, len(mean) + 1.0)[:, None], starts)[:, 0]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        if mean.shape[1] > 1:
            axes.plot(line[:, 0], line[:, 1], color=plots.MODEL, linewidth=0.9)
            axes.plot(*mean[-1, :2], "o", color=plots.ACCENT, label="last row")
            axes.set(xlabel="state 1", ylabel="state 2")
            axes.legend()
            return
        spread = 2.0 * _broken(std, starts)[:, 0]
        low, high = line[:, 0] - spread, line[:, 0] + spread
        axes.fill_between(time, low, high, color=plots.MODEL, alpha=0.25, linewidth=0)
        axes.plot(time, line[:, 0], color=plots.MODEL)
        axes.set(xlabel="row of the fit", ylabel="state")
        axes.margins(x=0)

    two = mean.shape[1] > 1
    return Picture(
        "states",
        "States of the fit",
        "The first two hidden states against each other." if two else "The hidden state in time.",
        "Posterior means of the first two states, from row to row. Their units and signs mean "
        "nothing."
        if two
        else "Posterior mean of the state, and two standard deviations. Its "
        "unit and sign mean nothing.",
        plots.picture(draw, width=6.0 if two else 8.4, height=4.4 if two else 3.0),
    )


@in_double
def transition(
    functions: LayerProcess, controls: int, mean: np.ndarray, starts: np.ndarray | None = None
) -> Picture:
    """Picture of the transition: one state's function, or two states' moves, at mean controls.

    Args:
        functions: that give the next state.
        controls: how many they take.
        mean: states of the rows of the fit.
        starts: the rows at which further series start; None for one series.
    """
    line = _broken(mean, starts)
    low, high = mean.min(axis=0), mean.max(axis=0)
    room = 0.1 * (high - low) + 1e-9
    low, high = low - room, high + room
    if mean.shape[1] == 1:
        grid = np.linspace(low, high, POINTS)
        value, var = _moved(functions, controls, grid)
        return _curve(grid[:, 0], value[:, 0], np.sqrt(var[:, 0]), mean[:, 0])
    axes = [np.linspace(low[i], high[i], ARROWS) for i in range(2)]
    places = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    grid = np.tile(mean.mean(axis=0), (len(places), 1))
    grid[:, :2] = places
    moves = (_moved(functions, controls, grid)[0] - grid)[:, :2]

    def draw(figure: Figure) -> None:
        panel = figure.subplots()
        panel.plot(line[:, 0], line[:, 1], color=plots.FAINT, linewidth=0.6, alpha=0.7)
        panel.quiver(*places.T, *moves.T, color=plots.MODEL, angles="xy", width=0.003)
        panel.set(xlabel="state 1", ylabel="state 2")

    return Picture(
        "transition",
        "How states move",
        "Arrows from states to where they are expected at the next row, over the states of the "
        "fit.",
        "Expected moves of the first two states, other states and controls at their means; the "
        "line is the states of the fit.",
        plots.picture(draw, width=6.0, height=4.4),
    )


def _curve(grid: np.ndarray, value: np.ndarray, std: np.ndarray, visited: np.ndarray) -> Picture:
    """The next state against the state, where there is one."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.fill_between(
            grid, value - 2.0 * std, value + 2.0 * std, color=plots.MODEL, alpha=0.25, linewidth=0
        )
        axes.plot(grid, value, color=plots.MODEL, label="next state")
        axes.plot(grid, grid, color=plots.FAINT, linestyle=plots.DASHES, label="no change")
        plots.draw_rug(axes, visited)
        axes.set(xlabel="state", ylabel="state of the next row")
        plots.legend_above(axes)

    return Picture(
        "transition",
        "How the state moves",
        "The expected next state as a function of the state.",
        "Mean and two standard deviations of the next state, noise of the process included, "
        "controls at their means. Ticks are states of the fit.",
        plots.picture(draw, width=6.0, height=4.0),
    )


def _moved(
    functions: LayerProcess, controls: int, grid: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of the next states, standardised controls at zero."""
    at_mean = jnp.zeros((len(grid), controls))
    inputs = functions.with_inputs(jnp.asarray(grid), at_mean)
    mean, var = functions.moments(inputs)
    return np.asarray(mean), np.asarray(var)
