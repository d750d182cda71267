"""The posterior of a state-space model: transition, emission and states."""

import dataclasses
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.variables.chain import ChainBelief
from cavity.means import AbstractMean
from cavity.models.base import AbstractModel
from cavity.models.deep.layer import LayerProcess
from cavity.models.posterior import Marginals
from cavity.models.state_space.forecast import Forecast, forecast, outputs_of_states
from cavity.models.state_space.propagation import StateBelief
from cavity.numerics.jit import compiled
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.numerics.validation import check_columns, check_finite, float_array


class States(NamedTuple):
    """The posterior of the states, given all outputs.

    Attributes:
        mean: means.
        cov: covariances of the states of a row.
        cross: covariances of the states of the row before with those of a row; zero where a row
            starts a series.
    """

    mean: Float[np.ndarray, "T D"]
    cov: Float[np.ndarray, "T D D"]
    cross: Float[np.ndarray, "T D D"]

    @property
    def var(self) -> Float[np.ndarray, "T D"]:
        """Variances."""
        return np.diagonal(self.cov, axis1=1, axis2=2)


class StateSpacePosterior(eqx.Module):
    """The posterior of a state-space model at fixed parameters.

    Attributes:
        model: the model.
        transition: the functions that give the next state, with process noise.
        emission: the functions that give outputs: affine, or with Gaussian process posteriors.
        chain: the states, with padding.
        series: labels of the series of every row, below zero for padding.
        n_inputs: columns of controls.
        outputs: columns of y.
        single: whether y was given as a vector.
    """

    model: AbstractModel
    transition: LayerProcess
    emission: LayerProcess | AbstractMean
    chain: ChainBelief
    series: Float[Array, " T"]
    n_inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    single: bool = eqx.field(static=True)

    @property
    def states(self) -> States:
        """The posterior of the states of the training rows."""
        count = int(np.sum(np.asarray(self.series) >= 0.0))
        chain = self.chain
        return States(*(np.asarray(a)[:count] for a in (chain.mean, chain.cov, chain.cross)))

    def marginals(self, X: ArrayLike) -> Marginals:
        """Means and variances of the functions that give the next state, without process noise.

        Args:
            X: states (n, D), with the controls of the next row as columns after them where the
                transition takes them.

        Returns:
            `mean` and `var`, (n, D) each.

        Raises:
            ValueError: for another number of columns, and for values that are not finite.
        """
        inputs = jnp.asarray(float_array("X", np.asarray(X)), self.chain.mean.dtype)
        columns = self.chain.mean.shape[1]
        columns += self.n_inputs if self.transition.skip_connection else 0
        check_columns("X", inputs, columns)
        check_finite("X", inputs)
        mean, var = _functions(self.transition, inputs)
        return Marginals(mean, var)

    def smoothed(self, X: ArrayLike | None = None) -> Marginals:
        """Means and variances of the functions of outputs in the training rows, given all outputs.

        Args:
            X: controls of the training rows, where outputs depend on them; it keeps no data.

        Returns:
            `mean` and `var`, (T, P) each, without noise.

        Raises:
            ValueError: for controls that are missing or of another shape.
        """
        states, columns = self.states, self.n_inputs if self.model.takes_inputs else 0
        shape = (len(states.mean), columns)
        unseen = not columns or not cast(Any, self.model).emission.controlled
        controls = np.zeros(shape) if X is None and unseen else X
        if controls is None or np.shape(controls) != shape:
            given = "none" if X is None else f"shape {np.shape(X)}"
            raise ValueError(
                f"X must be the controls of the training rows, {shape}, given {given}"
            )
        arrays = (jnp.asarray(a, self.chain.mean.dtype) for a in (*states[:2], controls))
        mean, cov, known = arrays
        belief = StateBelief(mean, cov)
        return Marginals(*outputs_of_states(self.emission, belief, known, self.outputs))

    def forecast(
        self,
        steps: int | None = None,
        X: ArrayLike | None = None,
        *,
        propagation: str = "paths",
        paths: int = 500,
        draws: str = "inducing",
        key: PRNGKeyArray | None = None,
    ) -> Forecast:
        """Distributions of the states and outputs that follow every series.

        Args:
            steps: how many rows after the last one of a series; None for the rows of X.
            X: controls of these rows, where the model takes them: (steps, C), with several series
                (series, steps, C). Rows beyond `steps` are not used.
            propagation: how beliefs about states go on. `paths`: by sampled states; outputs are
                mixtures over them, with as many modes as they have. `moments`: one Gaussian with
                the exact mean and covariance of each step; `linearised`: by the tangent at the
                mean. Both widen where the dynamics fold.
            paths: how many.
            draws: how much of a function a path keeps. `inducing`: inducing variables are drawn
                once per path; `exact`: the whole function is; `fresh`: every step has a new one.
            key: `jax.random.key(...)` of the paths; the same in every call by default.

        Returns:
            A `Forecast` with `mean`, `var`, `quantile(p)`, `log_density(y)`, `states` and
            `joint_log_density(y)`: (steps, P) each, (steps,) where y was given as a vector, with
            a leading axis where there are several series. Paths that left the data are set aside,
            `left` of them, where that is a quarter of them at the most: those further from the
            middle path than three ranges of the states of the rows.

        Raises:
            ValueError: for controls that are missing, end before the forecast does or have another
                shape, for numbers that are not whole, and for unknown names.
        """
        for name, number in {"steps": steps, "paths": paths}.items():
            whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
            if not whole and not (name == "steps" and number is None):
                raise ValueError(f"{name} must be a whole number, given {number!r}")
        start = self._last_states()
        series = len(start.mean)
        future = forecast(
            self.transition,
            self.emission,
            self.model.likelihood,
            start,
            jnp.asarray(self._future_controls(steps, X, series), start.mean.dtype),
            self.outputs,
            propagation,
            paths=paths,
            draws=draws,
            key=jax.random.key(0) if key is None else key,
        )
        future = dataclasses.replace(future, one_series=series == 1, single=self.single)
        return future.without_strays(np.ptp(self.states.mean, axis=0))

    def _last_states(self) -> StateBelief:
        """Beliefs about the last state of every series."""
        labels = np.asarray(self.series)
        following = np.append(labels[1:], -1.0)
        last = np.flatnonzero((labels >= 0.0) & (labels != following))
        mean, cov = (jnp.asarray(np.asarray(a)[last]) for a in (self.chain.mean, self.chain.cov))
        return StateBelief(mean, cov)

    def _future_controls(
        self, steps: int | None, X: ArrayLike | None, series: int
    ) -> Float[np.ndarray, "series steps C"]:
        """Controls of future rows, checked."""
        columns = self.n_inputs if self.model.takes_inputs else 0
        if X is None and columns:
            raise ValueError(
                f"the model takes {plural(columns, 'control')}, so a forecast needs them for its "
                "rows: give X, one row for each step"
            )
        if X is not None and not columns:
            raise ValueError("the model takes no controls: leave X=None")
        if X is None:
            if steps is None:
                raise ValueError("give steps, the number of rows to forecast")
            return np.zeros((series, max(steps, 0), 0))
        controls = np.atleast_1d(np.asarray(float_array("X", np.asarray(X)), np.float64))
        check_finite("X", jnp.asarray(controls))
        if controls.ndim < 3 and series == 1:
            controls = controls.reshape(1, len(controls), -1)
        expected = f"(steps, {columns})" if series == 1 else f"({series}, steps, {columns})"
        if controls.ndim != 3 or controls.shape[::2] != (series, columns):
            raise ValueError(f"X must have shape {expected}, given {np.shape(X)}")
        rows = int(controls.shape[1])
        wanted = rows if steps is None else steps
        if rows < wanted:
            raise ValueError(
                f"controls end before the forecast does: X has {plural(rows, 'row')} for "
                f"{plural(wanted, 'step')}"
            )
        return controls[:, : max(wanted, 0)]


@compiled
def _functions(transition: LayerProcess, X: Float[Array, "n E"]) -> tuple[Array, Array]:
    """Means and variances of the functions of a transition at known inputs."""
    mean, var = transition.moments(X)
    return mean, jnp.maximum(var - cast(Array, transition.noise_variance), 0.0)
