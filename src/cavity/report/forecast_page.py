"""A model of a time series and its forecast, on one HTML page that needs nothing else."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from cavity.report import forecast_figures
from cavity.report.figures import BANDS, Picture
from cavity.report.rendering import check_page, templates, write_page
from cavity.tables.forecasting import TableForecaster, columns_of

if TYPE_CHECKING:
    from polars import DataFrame
else:
    DataFrame = Any

# Steps that are judged by themselves, beside all of them; pictures of outputs at the most.
NEAR, MOST_FANS = 10, 6


class Judged(NamedTuple):
    """How well some steps of an output were forecast.

    Attributes:
        name: of the output.
        steps: which steps, in words.
        count: outputs that were observed.
        error: root mean squared error, in the units of the output.
        plain: that of the mean of the output in the fit.
        density: mean log density, in nats per output.
        inside: the share within 95 % intervals.
    """

    name: str
    steps: str
    count: int
    error: float
    plain: float
    density: float
    inside: float


def write_forecast(path: str | Path, fitted: TableForecaster, table: DataFrame) -> list[str]:
    """Writes the page, whole or not at all.

    Args:
        path: the file; what it held before is replaced.
        fitted: the model.
        table: the rows that follow those of the fit: controls, and outputs where they are known.

    Returns:
        The names of the page's figures.

    Raises:
        DataError: for controls that are not there, and of kind "io" if the file cannot be written.
    """
    from importlib.metadata import version

    check_page(path)
    X = columns_of(table, fitted.schema, fitted.schema.inputs)
    controls, steps = X if X.shape[1] else None, len(table)
    came = all(name in table.columns for name in fitted.targets)
    y = columns_of(table, fitted.schema, fitted.schema.targets) if came else None
    maps = fitted.time_map
    mean = maps.moments(steps, controls).mean
    quantiles = maps.quantiles(steps, controls, BANDS)
    judged = [] if y is None else _judged(fitted, y, controls, mean, quantiles)
    pictures = _pictures(fitted, mean, quantiles, y)
    text = (
        templates()
        .get_template("forecast.html")
        .render(
            version=version("cavity"),
            record=fitted.record,
            steps=steps,
            judged=judged,
            pictures=pictures,
            parameters=_parameters(fitted),
        )
    )
    write_page(path, text)
    return [picture.name for picture in pictures]


def _pictures(
    fitted: TableForecaster, mean: np.ndarray, quantiles: np.ndarray, y: np.ndarray | None
) -> list[Picture]:
    """Fans of outputs, states and how they move."""
    pictures = [
        forecast_figures.fan(name, mean[:, p], quantiles[:, p], None if y is None else y[:, p])
        for p, name in enumerate(fitted.targets[:MOST_FANS])
    ]
    posterior = fitted.time_map.posterior
    with jax.enable_x64(True):
        states = posterior.states
    at = np.asarray(states.mean)
    pictures.append(forecast_figures.states(at, np.sqrt(np.asarray(states.var))))
    pictures.append(forecast_figures.transition(posterior.transition, posterior.n_inputs, at))
    return pictures


def _judged(
    fitted: TableForecaster,
    y: np.ndarray,
    controls: np.ndarray | None,
    mean: np.ndarray,
    quantiles: np.ndarray,
) -> list[Judged]:
    """How the first steps and all of them went, for every output that was observed."""
    density = fitted.time_map.log_density(y, controls)
    inside = (y >= quantiles[..., 0]) & (y <= quantiles[..., -1])
    found = []
    for p, name in enumerate(fitted.targets):
        spans = {f"1 to {len(y)}": len(y)}
        if len(y) > NEAR:
            spans = {f"1 to {NEAR}": NEAR} | spans
        for steps, most in spans.items():
            at = np.flatnonzero(~np.isnan(y[:most, p]))
            if not len(at):
                continue
            plain = y[at, p] - fitted.time_map.outputs.mean[p]
            found.append(
                Judged(
                    name=name,
                    steps=steps,
                    count=len(at),
                    error=float(np.sqrt(np.mean((y[at, p] - mean[at, p]) ** 2))),
                    plain=float(np.sqrt(np.mean(plain**2))),
                    density=float(np.mean(density[at, p])),
                    inside=float(np.mean(inside[at, p])),
                )
            )
    return found


def _parameters(fitted: TableForecaster) -> list[tuple[str, str]]:
    """The parameters in short, but for inducing points."""
    values = fitted.record["parameters"].items()
    kept = {n: np.ravel(np.asarray(v, float)) for n, v in values if ".inducing." not in n}
    return [(name, " ".join(f"{x:.4g}" for x in array)) for name, array in kept.items()]
