"""From future controls to future outputs, in the units of the data, by a state-space model."""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from cavity.estimators.latent_map import Gaussians, Standardised
from cavity.learning.infer import one_blas_thread
from cavity.models.state_space.forecast import Forecast
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


@dataclasses.dataclass(frozen=True, eq=False)
class TimeMap:
    """A fitted state-space model of one series with the columns that it is of.

    Attributes:
        posterior: of the standardised outputs that vary.
        outputs: how outputs are standardised.
        controls: how controls are standardised.
        propagation: how forecasts go on: "paths", "moments" or "linearised".
        paths: paths of a forecast.
        seed: of paths.
    """

    posterior: StateSpacePosterior
    outputs: Standardised
    controls: Standardised
    propagation: str = "paths"
    paths: int = 500
    seed: int = 0

    def growth(self, steps: int) -> float:
        """How much an error may grow over some steps where there are no data.

        Functions are about linear ones there: those of the mean, and what kernels such as the
        linear one add to them far away. It is the largest eigenvalue of these to the power of the
        steps.
        """
        functions = self.posterior.transition
        size = functions.width
        with jax.enable_x64(True):
            at = jnp.zeros(size + self.controls.mean.size)
            slopes = np.asarray(jax.jacfwd(lambda x: functions.mean(x[None])[0])(at))[:, :size]
            far = jnp.concatenate([sign * FAR * jnp.eye(size, len(at)) for sign in (1.0, -1.0)])
            values = np.asarray(functions.process.moments(far)[0]).reshape(2, size, size)
        # of functions that go on differently in the two directions, the one that grows more
        sides = [slopes + value.T / away for value, away in zip(values, (FAR, -FAR), strict=True)]
        radius = max(float(np.max(np.abs(np.linalg.eigvals(side)))) for side in sides)
        return float(np.exp(min(steps * np.log(max(radius, 1e-300)), 700.0)))

    def leaving(self, steps: int) -> str | None:
        """What to say of a forecast of so many steps that may leave the data; None for nothing."""
        growth = self.growth(steps)
        if growth < LARGE:
            return None
        return LEAVING.format(growth=growth, steps=plural(steps, "step"))

    def moments(self, steps: int, X: np.ndarray | None) -> Gaussians:
        """Means and deviations of the next outputs, noise included, (steps, P) each.

        Args:
            steps: how many rows ahead.
            X: controls of these rows at least, (n, C); None where the model takes none.
        """
        mean, var = self._of_forecast(steps, X, lambda future: [future.mean, future.var])
        return self.outputs.back(Gaussians(mean, np.sqrt(var)))

    def quantiles(
        self, steps: int, X: np.ndarray | None, levels: Sequence[float] | np.ndarray
    ) -> np.ndarray:
        """Quantiles of the next outputs, (steps, P, levels); arguments as `moments`."""
        probabilities = [float(level) for level in levels]
        values = self._of_forecast(steps, X, lambda future: [*future.quantile(probabilities)])
        each = [self.outputs.back(Gaussians(value, np.zeros_like(value))) for value in values]
        return np.stack([value.mean for value in each], axis=-1)

    def log_density(self, Y: np.ndarray, X: np.ndarray | None) -> np.ndarray:
        """Log densities of the rows that follow, each by itself, in nats, NaN where Y is.

        Constant outputs do not count: theirs are zero.

        Args:
            Y: outputs in the units of the data, (n, P), NaN where missing.
            X: their controls at least, (m, C); None where the model takes none.
        """
        scaled, varying = self.outputs.forward(Y), self.outputs.varying
        (density,) = self._of_forecast(len(Y), X, lambda future: [future.log_density(scaled)])
        out = np.where(np.isnan(Y), np.nan, 0.0)
        out[:, varying] = density - np.log(self.outputs.scale[varying])
        return out

    def _of_forecast(
        self,
        steps: int,
        X: np.ndarray | None,
        wanted: Callable[[Forecast], list[np.ndarray]],
    ) -> list[np.ndarray]:
        """What is wanted of the forecast of standardised outputs."""
        with jax.enable_x64(True), one_blas_thread():
            future = self.posterior.forecast(
                steps,
                None if X is None else self.controls.forward(X),
                propagation=self.propagation,
                paths=self.paths,
                key=jax.random.key(self.seed),
            )
            return wanted(future)
