"""Forecasts: distributions of future states, and of the outputs that they give."""

import dataclasses
from collections.abc import Sequence
from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.variables.inducing_view import OutputMean
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.predictive.base import AbstractPredictive
from cavity.means import AbstractMean
from cavity.models.deep.layer import LayerProcess
from cavity.models.deep.posterior import mixture
from cavity.models.state_space.paths import filtered_densities, sampled_paths
from cavity.models.state_space.propagation import (
    RULES,
    AffineFunctions,
    StateBelief,
    StateFunctions,
    inputs_of,
    moments_under,
    propagated,
    tangent_under,
)
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float, PRNGKeyArray

PROPAGATIONS = ("paths", *RULES)
# A path has left the data where it is this many ranges of their states from the middle path.
LEFT = 3.0
# Where more than this share of the paths did, that is what the model says of the future.
SHARE = 0.25


class Simulator(eqx.Module):
    """Simulation of paths: functions, initial states and controls.

    Attributes:
        transition: the functions that give the next state.
        emission: the functions of outputs.
        start: beliefs about the last states.
        controls: of future steps.
        key: of random numbers.
        draws: how much of a function a path keeps.
    """

    transition: LayerProcess
    emission: StateFunctions
    start: StateBelief
    controls: Float[Array, "S K C"]
    key: PRNGKeyArray
    draws: str = eqx.field(static=True)


class Forecast(eqx.Module):
    """Forecasts of K steps for S series.

    With paths the distribution of outputs is an equal mixture over N of them; otherwise it is that
    of one Gaussian for the functions, N = 1. Of one series the axis S is left out, and of outputs
    that were given as a vector the axis P.

    Attributes:
        states: means (S, K, D) and covariances (S, K, D, D) of future states.
        paths: sampled future states; None for propagation by moments and linearised.
        simulator: what they were sampled from.
        function_mean: means of the functions of outputs, for each path.
        function_var: their variances.
        likelihood: the density of outputs given these.
        left: how many paths were set aside because they left the data. A few that do so
            say nothing of the future, and would take means and variances with them.
        one_series: whether the axis of series is left out.
        single: whether the axis of outputs is left out.
    """

    states: StateBelief
    paths: Float[Array, "N S K D"] | None
    simulator: Simulator | None
    function_mean: Float[Array, "N S K P"]
    function_var: Float[Array, "N S K P"]
    likelihood: AbstractLikelihood
    left: int = eqx.field(static=True, default=0)
    one_series: bool = eqx.field(static=True, default=False)
    single: bool = eqx.field(static=True, default=False)

    @property
    def mean(self) -> Float[np.ndarray, "..."]:
        """Means of future outputs."""
        return self._shaped(self._outputs.mean)

    @property
    def var(self) -> Float[np.ndarray, "..."]:
        """Variances of future outputs, noise included."""
        return self._shaped(self._outputs.var)

    def quantile(self, p: float | Sequence[float] | Array) -> Float[np.ndarray, "..."]:
        """The values below which outputs fall with probability p; a leading axis for several p.

        Raises:
            ValueError: for numbers that are no probabilities strictly between 0 and 1.
        """
        levels = p if isinstance(p, float) else jnp.asarray(p, float)
        return self._shaped(self._outputs.quantile(levels))

    def log_density(self, y: ArrayLike) -> Float[np.ndarray, "..."]:
        """Log predictive densities of future outputs, each by itself; NaN where y is.

        Args:
            y: outputs in the shape of `mean`.

        Raises:
            ValueError: for another shape.
        """
        values, observed = self._observed(y)
        rows = jnp.asarray(values.reshape(-1, values.shape[-1]))
        density = self._outputs.log_density(rows)
        shaped = self._shaped(density)
        return np.where(observed.reshape(shaped.shape), shaped, np.nan)

    def joint_log_density(self, y: ArrayLike) -> Float[np.ndarray, "*S K"]:
        """Log densities of all outputs up to each step; entries that are NaN do not count.

        With paths they are averages over paths of products over steps and outputs, estimated by a
        particle filter of as many paths, in which those that explain the outputs go on. Otherwise
        they are sums of `log_density`, as if steps were independent of each other.

        Args:
            y: outputs in the shape of `mean`.

        Raises:
            ValueError: for another shape.
        """
        values, observed = self._observed(y)
        arrays = jnp.asarray(values), jnp.asarray(observed)
        count = len(self.function_mean)
        if self.simulator is None:
            joint = np.asarray(_sums(self, *arrays))
        else:
            joint = np.asarray(_filtered(self.simulator, self.likelihood, count, arrays))
        return joint[0] if self.one_series else joint

    def without_strays(self, ranges: Float[np.ndarray, " D"]) -> "Forecast":
        """The forecast without the paths that left the data, where they are a few.

        Args:
            ranges: of the states of the data.
        """
        if self.paths is None:
            return self
        paths = np.asarray(self.paths)
        with np.errstate(invalid="ignore", over="ignore"):
            far = np.abs(paths - np.median(paths, axis=0)) > LEFT * ranges
        stays = ~np.any(far | ~np.isfinite(paths), axis=(1, 2, 3))
        left = int(np.sum(~stays))
        if not left or left > SHARE * len(paths):
            return self
        kept, mean, var = (
            jnp.asarray(np.asarray(a)[stays])
            for a in (paths, self.function_mean, self.function_var)
        )
        states = _moments_of_paths(kept)
        moments = {"states": states, "function_mean": mean, "function_var": var}
        return dataclasses.replace(self, paths=kept, left=left, **moments)

    @property
    def _outputs(self) -> AbstractPredictive:
        """Distributions of outputs, one per series and step along the first axis."""
        count, *_, outputs = self.function_mean.shape
        mean, var = (
            a.reshape(count, -1, outputs) for a in (self.function_mean, self.function_var)
        )
        return mixture(self.likelihood, mean, var, {})

    def _shaped(self, values: Array) -> Float[np.ndarray, "..."]:
        """Values of rows and outputs, with axes for series and steps in the place of rows."""
        _, series, steps, outputs = self.function_mean.shape
        shaped = np.asarray(values).reshape(*values.shape[:-2], series, steps, outputs)
        shaped = shaped[..., 0, :, :] if self.one_series else shaped
        return shaped[..., 0] if self.single else shaped

    def _observed(self, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Outputs with all axes and values in place of NaN, and where they are observed."""
        y = np.asarray(y, float)
        shape = self.function_mean.shape[1:]
        expected = shape[1:] if self.one_series else shape
        expected = expected[:-1] if self.single else expected
        if y.shape != expected:
            raise ValueError(
                f"y must have the shape of the forecast, {expected}, given shape {y.shape}"
            )
        y = y.reshape(shape)
        observed = ~np.isnan(y)
        # an observed value stands for missing ones, as it is within the support
        typical = y[observed][0] if np.any(observed) else 1.0
        return np.where(observed, y, typical), observed


def forecast(
    transition: LayerProcess,
    emission: LayerProcess | AbstractMean,
    likelihood: AbstractLikelihood,
    start: StateBelief,
    controls: Float[Array, "S K C"],
    outputs: int,
    propagation: str = "paths",
    *,
    paths: int = 500,
    draws: str = "inducing",
    key: PRNGKeyArray,
) -> Forecast:
    """Forecasts of K steps from beliefs about the last states of S series.

    Args:
        transition: the functions that give the next state, with process noise.
        emission: the functions of outputs.
        likelihood: density of an output given its function.
        start: means (S, D) and covariances (S, D, D) of the last states.
        controls: of the K steps; C may be zero.
        outputs: the number of outputs.
        propagation: `paths`, `moments` or `linearised`.
        paths: how many.
        draws: how much of a function a path keeps: `fresh`, `inducing` or `exact`.
        key: `jax.random.key(...)`, for paths.

    Raises:
        ValueError: for unknown names, for less than one path or step, and for exact draws that
            need too much memory.
    """
    if propagation not in PROPAGATIONS:
        raise ValueError(
            f"propagation must be one of {', '.join(PROPAGATIONS)}, given {propagation!r}"
        )
    if controls.shape[1] < 1 or paths < 1:
        raise ValueError("a forecast needs at least one step and one path")
    affine = isinstance(emission, AbstractMean)
    functions = AffineFunctions(OutputMean(emission, outputs)) if affine else emission
    if propagation == "paths":
        sampled = sampled_paths(transition, start, controls, paths, draws, key=key)
        states, mean, var = _sampled_moments(functions, sampled, controls)
        simulator = Simulator(transition, functions, start, controls, key, draws)
        return Forecast(states, sampled, simulator, mean, var, likelihood)
    states = propagated(transition, start, controls, propagation)
    # the tangent of affine functions is the functions
    rule = "linearised" if affine else propagation
    mean, var = _propagated_moments(functions, states, controls, rule)
    return Forecast(states, None, None, mean, var, likelihood)


def outputs_of_states(
    emission: LayerProcess | AbstractMean,
    states: StateBelief,
    controls: Float[Array, "T C"],
    outputs: int,
) -> tuple[Float[Array, "T P"], Float[Array, "T P"]]:
    """Means and variances of the functions of outputs at Gaussian states.

    Args:
        emission: the functions.
        states: beliefs about states (T, D).
        controls: of the same rows.
        outputs: columns of y.
    """
    affine = isinstance(emission, AbstractMean)
    functions = AffineFunctions(OutputMean(emission, outputs)) if affine else emission
    rule = "linearised" if affine else "moments"
    together = StateBelief(states.mean[None], states.cov[None])
    mean, var = _propagated_moments(functions, together, controls[None], rule)
    return mean[0, 0], var[0, 0]


@compiled
def _sampled_moments(
    emission: StateFunctions, paths: Float[Array, "N S K D"], controls: Array
) -> tuple[StateBelief, Array, Array]:
    """Moments of sampled states, and moments of the functions of outputs at each of them."""
    flat = _flat(controls)

    def output_moments(path: Float[Array, "S K D"]) -> tuple[Array, Array]:
        inputs = emission.with_inputs(path.reshape(-1, path.shape[2]), flat)
        mean, var = emission.moments(inputs)
        return mean.reshape(*path.shape[:2], -1), var.reshape(*path.shape[:2], -1)

    return _moments_of_paths(paths), *jax.lax.map(output_moments, paths)


def _moments_of_paths(paths: Float[Array, "N S K D"]) -> StateBelief:
    average = jnp.mean(paths, axis=0)
    away = paths - average
    return StateBelief(average, jnp.einsum("nskd,nske->skde", away, away) / len(paths))


@compiled
def _propagated_moments(
    emission: LayerProcess | AffineFunctions, states: StateBelief, controls: Array, rule: str
) -> tuple[Float[Array, "1 S K P"], Float[Array, "1 S K P"]]:
    series, steps, size = states.mean.shape
    rows = StateBelief(states.mean.reshape(-1, size), states.cov.reshape(-1, size, size))
    inputs = inputs_of(emission, rows, _flat(controls))
    if rule == "linearised":
        mean, cov = tangent_under(emission, inputs)
    else:
        mean, cov = moments_under(cast(LayerProcess, emission), inputs)
    var = jnp.diagonal(cov, axis1=1, axis2=2)
    return mean.reshape(1, series, steps, -1), var.reshape(1, series, steps, -1)


def _flat(values: Float[Array, "S K C"]) -> Float[Array, "n C"]:
    """Rows of all series and steps; C may be zero."""
    series, steps, columns = values.shape
    return values.reshape(series * steps, columns)


@compiled
def _sums(forecast: Forecast, y: Array, observed: Array) -> Float[Array, "S K"]:
    """Sums of the log densities of all outputs up to each step."""
    outputs = y.shape[2]
    mean, var = (a.reshape(-1, outputs) for a in (forecast.function_mean, forecast.function_var))
    density = forecast.likelihood.predictive(mean, var, {}).log_density(y.reshape(-1, outputs))
    density = jnp.where(observed, density.reshape(y.shape), 0.0)
    return jnp.cumsum(jnp.sum(density, axis=2), axis=1)


@compiled
def _filtered(
    simulator: Simulator, likelihood: AbstractLikelihood, count: int, outputs: tuple[Array, Array]
) -> Float[Array, "S K"]:
    """Log densities of all outputs up to each step, by particle filters."""

    def densities(states: Float[Array, "N D"], row: tuple[Array, ...]) -> Float[Array, " N"]:
        y, observed, x = row
        copies = jnp.broadcast_to(x, (len(states), *x.shape))
        mean, var = simulator.emission.moments(simulator.emission.with_inputs(states, copies))
        density = likelihood.predictive(mean, var, {}).log_density(jnp.broadcast_to(y, mean.shape))
        return jnp.sum(jnp.where(observed, density, 0.0), axis=1)

    return filtered_densities(
        simulator.transition,
        simulator.start,
        simulator.controls,
        densities,
        (*outputs, simulator.controls),
        count,
        simulator.draws,
        simulator.key,
    )
