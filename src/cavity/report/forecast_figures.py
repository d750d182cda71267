"""Pictures of a state-space model: its forecasts, its states, and how these move."""

import jax.numpy as jnp
import numpy as np

from cavity import drawing
from cavity.drawing.axes import Figure
from cavity.learning.double_precision import in_double
from cavity.models.deep.layer import LayerProcess
from cavity.report.sections import Picture
from cavity.report.svg import picture

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

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        drawing.forecast(axes, steps, mean, quantiles, observed, name)
        axes.set_xlabel("steps after the fit")

    came = "" if np.all(np.isnan(observed)) else " Points are what came."
    return Picture(
        f"fan_{name}",
        f"Forecast of {name}",
        f"The forecast of {name} over {len(mean)} steps, with bands that widen.",
        f"Bands hold an output with 50 and 95 %, noise included.{came}",
        picture(draw),
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
        drawing.forecast(axes, rows, mean, quantiles, observed, name)
        axes.set_xlabel("row of the fit")

    return Picture(
        f"described_{name}",
        f"{name} in rows of the fit",
        f"Rows of the fit of {name}, with bands about what the states of all rows say.",
        "Bands hold an output with 50 and 95 %, noise included, given all rows of the fit, its "
        "own among them. Points are the rows.",
        picture(draw),
    )


def states(mean: np.ndarray, std: np.ndarray, starts: np.ndarray | None = None) -> Picture:
    """The states of the rows of the fit: one along time, or two against each other.

    Args:
        mean: of every row.
        std: likewise.
        starts: the rows at which further series start; None for one series.
    """

    def draw(figure: Figure) -> None:
        drawing.states(figure.subplots(), mean, std, starts)

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
        picture(draw, width=6.0 if two else 8.4, height=4.4 if two else 3.0),
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
        drawing.moves(figure.subplots(), places, moves, mean, starts)

    return Picture(
        "transition",
        "How states move",
        "Arrows from states to where they are expected at the next row, over the states of the "
        "fit.",
        "Expected moves of the first two states, other states and controls at their means; the "
        "line is the states of the fit.",
        picture(draw, width=6.0, height=4.4),
    )


def _curve(grid: np.ndarray, value: np.ndarray, std: np.ndarray, visited: np.ndarray) -> Picture:
    """The next state against the state, where there is one."""

    def draw(figure: Figure) -> None:
        drawing.transition(figure.subplots(), grid, value, std, visited)

    return Picture(
        "transition",
        "How the state moves",
        "The expected next state as a function of the state.",
        "Mean and two standard deviations of the next state, noise of the process included, "
        "controls at their means. Ticks are states of the fit.",
        picture(draw, width=6.0, height=4.0),
    )


def _moved(
    functions: LayerProcess, controls: int, grid: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of the next states, standardised controls at zero."""
    at_mean = jnp.zeros((len(grid), controls))
    inputs = functions.with_inputs(jnp.asarray(grid), at_mean)
    mean, var = functions.moments(inputs)
    return np.asarray(mean), np.asarray(var)
