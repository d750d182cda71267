"""From future controls to future outputs, in the units of the data, by a state-space model."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity.estimators.latent_map import Gaussians, Standardised
from cavity.learning.double_precision import in_double
from cavity.models.state_space.posterior import StateSpacePosterior
from cavity.numerics.text import plural

# Growth of errors over a forecast from which on that is said.
LARGE = 10.0
# Where functions are away from the data, in deviations of the states.
FAR = 1e6
LEAVING = (
    "the linear functions that were learned grow away from the data, by a factor of {growth:.2g} "
    "over {steps}: use fewer steps, or fewer states"
)
GROWING = (
    "the linear functions that were learned grow where there are no rows, by a factor of "
    "{growth:.3g} from row to row, and long forecasts with them"
)
STRAYED = (
    "{left} of {paths} left the data and are set aside: the functions that were learned do not "
    "hold them where there are no rows; use fewer steps or fewer states, or more rows"
)


@dataclasses.dataclass(frozen=True, eq=False)
class TimeMap:
    """A fitted state-space model and the standardisation of its columns.

    Attributes:
        posterior: of the standardised outputs that vary.
        outputs: how outputs are standardised.
        controls: how controls are standardised.
        propagation: how forecasts go on: "paths", "moments" or "linearised".
        paths: paths of a forecast.
        seed: of paths.
        several: whether forecasts have an axis of series in front, be it of one.
        widening: what forecasts are widened by, one number per output that varies; see
            `learning.free_simulation`.
    """

    posterior: StateSpacePosterior
    outputs: Standardised
    controls: Standardised
    propagation: str = "paths"
    paths: int = 500
    seed: int = 0
    several: bool = False
    widening: tuple[float, ...] | None = None

    @in_double
    def growth(self, steps: int) -> float:
        """Factor by which an error may grow over some steps where there are no data.

        Functions are about linear ones there: those of the mean, and what kernels such as the
        linear one add to them far away. It is the largest eigenvalue of these to the power of the
        steps.
        """
        functions = self.posterior.transition
        size = functions.width
        at = jnp.zeros(size + self.controls.mean.size)
        slopes = np.asarray(jax.jacfwd(lambda x: functions.mean(x[None])[0])(at))[:, :size]
        far = jnp.concatenate([sign * FAR * jnp.eye(size, len(at)) for sign in (1.0, -1.0)])
        values = np.asarray(functions.process.moments(far)[0]).reshape(2, size, size)
        # of functions that go on differently in the two directions, the one that grows more
        sides = [slopes + value.T / away for value, away in zip(values, (FAR, -FAR), strict=True)]
        radius = max(float(np.max(np.abs(np.linalg.eigvals(side)))) for side in sides)
        return float(np.exp(min(steps * np.log(max(radius, 1e-300)), 700.0)))

    def leaving(self, steps: int) -> str | None:
        """Warning about a forecast of so many steps that may leave the data; None otherwise."""
        growth = self.growth(steps)
        if growth < LARGE:
            return None
        return LEAVING.format(growth=growth, steps=plural(steps, "step"))

    @in_double
    def forecast(self, steps: int, X: np.ndarray | None) -> "Outlook":
        """The next outputs, noise included, of so many steps.

        Args:
            steps: how many rows ahead.
            X: controls of these rows at least, (n, C), of several series (S, n, C); None where the
                model takes none.
        """
        future = self.posterior.forecast(
            steps,
            None if X is None else self.controls.forward(X),
            propagation=self.propagation,
            paths=self.paths,
            key=jax.random.key(self.seed),
        )
        future = dataclasses.replace(future, one_series=not self.several)
        wide = 1.0 if self.widening is None else np.asarray(self.widening)
        return Outlook(future, self.outputs, future.left, wide)

    @in_double
    def smoothed(self, X: np.ndarray | None = None) -> "Outlook":
        """Smoothed outputs: those of the rows of the fit given all rows, noise included.

        Args:
            X: controls of these rows, (T, C), where the functions of outputs take them.
        """
        scaled = None if X is None else self.controls.forward(X)
        mean, var = (jnp.asarray(a) for a in self.posterior.smoothed(scaled))
        past = self.posterior.model.likelihood.predictive(mean, var, {})
        return Outlook(past, self.outputs)


@dataclasses.dataclass(frozen=True, eq=False)
class Outlook:
    """Distributions of outputs, in the units of the data.

    Rows are future steps, or the rows of the fit. With several series their axis comes first.

    Attributes:
        standard: distributions of standardised outputs, those that vary.
        outputs: how outputs are standardised.
        left: paths that were set aside because they left the data.
        widening: what distributions are widened by, about their means.
    """

    standard: Any
    outputs: Standardised
    left: int = 0
    widening: float | np.ndarray = 1.0

    @property
    def strayed(self) -> str | None:
        """Warning about paths that left the data; None if none did."""
        if not self.left:
            return None
        count = self.left + len(self.standard.function_mean)
        return STRAYED.format(left=self.left, paths=plural(count, "path"))

    @in_double
    def moments(self) -> Gaussians:
        """Means and deviations, (..., P) each."""
        mean, var = np.asarray(self.standard.mean), np.asarray(self.standard.var)
        return self.outputs.back(Gaussians(mean, self.widening * np.sqrt(var)))

    @in_double
    def quantiles(self, levels: Sequence[float] | np.ndarray) -> np.ndarray:
        """Quantiles, (..., P, levels)."""
        probabilities = jnp.asarray([float(level) for level in levels])
        values = np.asarray(self.standard.quantile(probabilities))
        mean = np.asarray(self.standard.mean)
        if np.any(np.asarray(self.widening) != 1.0):
            values = mean + self.widening * (values - mean)
        each = [self.outputs.back(Gaussians(value, np.zeros_like(value))) for value in values]
        return np.stack([value.mean for value in each], axis=-1)

    @in_double
    def log_density(self, Y: np.ndarray) -> np.ndarray:
        """Log densities of outputs (..., P), each by itself, in nats, NaN where they are.

        Constant outputs do not count: theirs are zero.
        """
        varying, missing = self.outputs.varying, np.isnan(Y)
        scaled = self.outputs.forward(Y)
        seen = ~np.isnan(scaled)
        # an observed value stands for missing ones, as it is within the support
        typical = scaled[seen][0] if np.any(seen) else 1.0
        filled = np.where(seen, scaled, typical)
        if np.any(np.asarray(self.widening) != 1.0):
            mean = np.asarray(self.standard.mean)
            filled = mean + (filled - mean) / self.widening
        density = np.asarray(self.standard.log_density(filled)) - np.log(self.widening)
        out = np.where(missing, np.nan, 0.0)
        out[..., varying] += density - np.log(self.outputs.scale[varying])
        return out
