"""Forecasts of time series with hidden states, with sktime's names."""

import dataclasses
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.asked_types import Amount, Count, KernelAsked, LikelihoodAsked, PowerAsked
from cavity.estimators.forecaster_learning import followed, learned
from cavity.estimators.forecaster_settings import checked_settings, going_on
from cavity.estimators.kept_series import KeptSeries
from cavity.estimators.latent_map import Standardised
from cavity.estimators.latent_settings import check_values, latent_likelihood
from cavity.estimators.time_map import GROWING, Outlook, TimeMap
from cavity.estimators.time_tables import (
    TimeData,
    followed_by,
    future_controls,
    horizons,
    names_of,
    probabilities,
    rows_after,
    time_data,
)
from cavity.estimators.times import following
from cavity.learning.double_precision import in_double
from cavity.learning.results.result import FitResult
from cavity.models.state_space.posterior import StateSpacePosterior
from cavity.numerics.callers import warn_caller
from cavity.numerics.tree import to_numpy

# Levels of quantiles that are asked for by default.
LEVELS = (0.05, 0.95)
NO_HORIZONS = "give horizons fh, here or in fit"


@dataclasses.dataclass(eq=False, repr=False)
class GPForecaster(KeptSeries, BaseEstimator):
    r"""Forecasts by a state-space model whose states move by Gaussian processes.

    The series observes hidden states, and each next state is a smooth function of the last one and
    of known controls, plus noise: a linear state-space model with nonlinear corrections where the
    data support them. Forecasts are mixtures over paths of functions drawn from their posterior,
    so that they include the uncertainty about the dynamics. NaN values are missing, and their rows
    still have states.

    Methods have the names and the order of arguments of sktime, which is not needed; horizons
    `fh` are steps after the last row. All work is done in float64 and JAX's own settings are left
    as they are.

    Args:
        n_states: hidden states.
        kernel: of the functions beside the linear ones: text such as "rbf" or "rbf + linear", or
            a kernel object, for states and controls of unit variance.
        likelihood: how outputs scatter about functions of the states: "gaussian", "student_t" or
            "laplace"; of truth values "bernoulli" or "logit", of counts "poisson" or
            "negative_binomial", above zero "gamma" or "exponential", between 0 and 1 "beta"; or a
            likelihood object of one latent function.
        n_inducing: inducing points of the functions.
        emission: "linear" functions of the states, or "identity" where outputs observe the states
            themselves, one for each.
        hidden: the posterior of the states: "chain", where neighbours depend on each other;
            "factorised", where they do not; "conditional", at power 0, where they depend on the
            functions as well, which takes longer and is less ready to call dynamics noise; "tied",
            which is "factorised" at power 0; above it one Gaussian stands for everything that is
            known of a state.
        power: in [0, 1]. At 0 the evidence is a lower bound.
        propagation: how forecasts go on: by so many paths, or one Gaussian per step by "moments"
            or "linearised".
        n_restarts: further runs from perturbed starts; the best is kept, and `message_` says where
            they ended more than 5 nats apart.
        batch: rows of the pieces of series that steps of learning see, with `hidden="tied"`; for
            long series. None for all rows at once.
        max_iterations: iterations at the most; with `batch`, steps of Adam; 0 keeps starting
            values.
        jitter: share of the mean prior variance added to the inducing covariance.
        random_state: seed or `numpy.random.RandomState` for everything random.
        verbose: 1 to show the progress of a fit, 0 for nothing; the fit is the same.
        calibrate: whether the last fifth of a series of 100 rows or more is simulated from the
            rows before it, and forecasts are widened by what was missing there.

    Attributes:
        states_: posterior means of the states of all rows, (T, n_states).
        states_std_: their standard deviations.
        log_evidence_: approximate log marginal likelihood, nats, in the units of the data.
        model_: the fitted `cavity.GPSSM`, of standardised columns.
        posterior_: its posterior, with arrays of numpy.
        y_mean_: what was subtracted from every output, (P,).
        y_scale_: what every output was divided by, (P,); 0 for a constant one.
        X_mean_: what was subtracted from every control, (C,).
        X_scale_: what every control was divided by, (C,).
        n_rows_: rows so far.
        series_: labels of the series; None where `fit` was given none.
        converged_: whether learning converged.
        message_: why learning ended.
        n_iter_: iterations.
        history_: what learning minimised after each iteration, the negative log evidence, nats.
        interrupted_: whether fit was interrupted from the keyboard.
        free_simulation_: how well the last fifth of the rows was told by the others, beside a
            linear model of lagged outputs: `rows`, `crps`, `crps_lags`, `coverage`, `widening`,
            `better`; None where that was not tried, with labels of series, less than 100 rows,
            or outputs that are not real numbers.
        growth_: by how much an error grows from row to row where there are no data; at most 0.995
            where the kernel has no linear part.
        paths_left_: paths of the last forecast that left the data and were set aside.

    References:
        Bui (2017), S31 to S44; Frigola et al. (2014).
    """

    n_states: object = 2
    kernel: KernelAsked = "rbf"
    likelihood: LikelihoodAsked = "gaussian"
    n_inducing: object = 30
    emission: object = "linear"
    hidden: object = "chain"
    power: PowerAsked = 0.0
    propagation: object = 500
    n_restarts: Count = 0
    batch: object = None
    max_iterations: Count = 1000
    jitter: Amount = 1e-8
    random_state: object = None
    calibrate: object = True

    @in_double
    def fit(self, y, X=None, fh=None, callback=None, checkpoint=None, series=None):
        """Learns the dynamics and the states of a series, or of several with the same dynamics.

        Args:
            y: the series, (T,) or (T, P), NaN where missing; arrays or data frames of numbers.
                Times of pandas must be sorted and without gaps; text that is no date is names.
            X: controls of the same rows, (T, C) or (T,), or None.
            fh: horizons that `predict` uses where it is given none.
            callback: called with a `Progress` after every iteration.
            checkpoint: a `cavity.fitting.Checkpoint`, where the fit keeps what it has done and
                goes on from what it did before; `random_state` must be a number.
            series: labels of the series of every row, (T,), one series after another; None for
                one series. With labels predictions have an axis of series in front, in the order
                of `series_`, and so have the controls and outputs that methods take.

        Returns:
            The forecaster itself. Interrupting from the keyboard keeps the best found so far.

        Raises:
            ValueError: for unusable data or settings.
        """
        if checkpoint is not None and self.random_state is None:
            raise ValueError(
                "a checkpoint is for a fit that can be repeated: give the forecaster a whole "
                "number as random_state, such as random_state=0"
            )
        checked_settings(self)
        self._fh = None if fh is None else horizons(fh)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._names = names_of(y, X)
        data = time_data(y, X, series=series)
        if len(data.y) < 2:
            raise ValueError("a series of one row has no dynamics: give at least two rows")
        self._learn(data, callback, checkpoint)
        return self

    @in_double
    def predict(self, fh=None, X=None):
        """Means of future outputs.

        Args:
            fh: horizons, steps after the last row: a number, or several in any order.
            X: controls of all rows up to the last horizon, where the fit had some: by their times,
                or without times in the order of rows.

        Returns:
            (len(fh),), or (len(fh), P) where the fit was of a matrix.

        Raises:
            ValueError: for unusable horizons or controls.
        """
        steps, controls = self._steps(fh, X)
        return self._at(steps, self._forecast(steps, controls).moments().mean)

    @in_double
    def predict_var(self, fh=None, X=None):
        """Variances of future outputs, noise included; arguments and shape as `predict`."""
        steps, controls = self._steps(fh, X)
        return self._at(steps, self._forecast(steps, controls).moments().std ** 2)

    @in_double
    def predict_quantiles(self, fh=None, X=None, alpha=None):
        """Quantiles of future outputs.

        Args:
            fh: as in `predict`.
            X: as in `predict`.
            alpha: probabilities, in (0, 1); one or several, by default 0.05 and 0.95.

        Returns:
            (len(fh), len(alpha)); of a matrix of outputs (len(fh), P, len(alpha)).

        Raises:
            ValueError: for unusable horizons, controls or probabilities.
        """
        levels = np.atleast_1d(probabilities("alpha", LEVELS if alpha is None else alpha))
        steps, controls = self._steps(fh, X)
        return self._at(steps, self._forecast(steps, controls).quantiles(levels))

    @in_double
    def predict_interval(self, fh=None, X=None, coverage=0.9):
        """Lower and upper ends of central intervals of future outputs.

        Args:
            fh: as in `predict`.
            X: as in `predict`.
            coverage: the probability of an interval, in (0, 1), or several of them.

        Returns:
            (len(fh), 2), of several coverages (len(fh), len(coverage), 2); of a matrix of outputs
            with an axis of length P after the first.

        Raises:
            ValueError: for unusable horizons, controls or probabilities.
        """
        shares = probabilities("coverage", coverage)
        ends = np.stack([0.5 - 0.5 * shares, 0.5 + 0.5 * shares], axis=-1)
        values = self.predict_quantiles(fh, X, ends.ravel())
        return values.reshape(*values.shape[:-1], *ends.shape)

    @in_double
    def times(self, fh=None):
        """Times of future outputs, which go on from those of the rows of the fit.

        Args:
            fh: as in `predict`.

        Returns:
            An index of pandas of the kind that the fit had, with an entry for each horizon; None
            where it had none, where its steps are not equal, and with labels of series.

        Raises:
            ValueError: for unusable horizons.
        """
        check_is_fitted(self, "posterior_")
        steps = self._fh if fh is None else horizons(fh)
        if steps is None:
            raise ValueError(NO_HORIZONS)
        if self._data.index is None:
            return None
        ahead = following(self._data.index, int(steps.max()))
        return None if ahead is None else ahead[steps - 1].rename(self._data.index.name)

    @in_double
    def log_predictive_density(self, y, X=None):
        """Log densities of the rows that follow, each by itself, in nats; NaN where y is.

        Args:
            y: the rows after the last one, (n,) or (n, P).
            X: their controls, where the fit had some.

        Returns:
            In the shape of y. Constant outputs have density zero nats.

        Raises:
            ValueError: for unusable rows or controls.
        """
        outputs, controls = self._new_rows(y, X)[:2]
        controls = None if X is None else controls
        future = self.time_map.forecast(outputs.shape[-2], controls)
        return self._shaped(future.log_density(outputs))

    @in_double
    def update(self, y, X=None, update_params=True):
        """Adds rows that follow the last one.

        Args:
            y: the new rows. Where they and the fit have times, they go on from those of the fit;
                an index that pandas has numbered from 0 is none.
            X: their controls, where the fit had some.
            update_params: whether everything is learned again from all rows; otherwise parameters
                stay, and states and functions follow from all rows.

        Returns:
            The forecaster itself.

        Raises:
            ValueError: for unusable rows or controls, and where the fit had labels of series.
        """
        check_is_fitted(self, "posterior_")
        if self._data.series is not None:
            raise ValueError(
                "rows are added to one series, and the fit had labels of series: call fit with "
                "all rows"
            )
        whole_series = followed_by(self._data, self._new_rows(y, X))
        checked_settings(self)
        if update_params:
            self._learn(whole_series, None, None)
        else:
            found = followed(self, whole_series, self._columns, self._controls)
            self._keep(found, whole_series)
        return self

    # ------------------------------------------------------------------------- inside

    def _learn(self, data: TimeData, callback: Any, checkpoint: Any) -> None:
        """Learns from all rows and keeps the result."""
        with self._shown(callback) as watched:
            found = learned(self, data, watched, checkpoint, seed=self._seed)
        self.y_mean_, self.y_scale_ = found.outputs.mean, found.outputs.scale
        self.X_mean_, self.X_scale_ = found.controls.mean, found.controls.scale
        self.free_simulation_ = found.simulated
        self._keep(found.result, data)

    def _keep(self, result: FitResult, data: TimeData) -> None:
        self._data = data
        self._derive(cast(StateSpacePosterior, to_numpy(result.posterior)))
        varying = self.y_scale_ > 0.0
        observed = np.sum(~np.isnan(data.y[:, varying]), axis=0)
        shift = float(observed @ np.log(self.y_scale_[varying]))
        self.log_evidence_ = result.log_evidence - shift
        self.history_ = tuple(float(value) + shift for value in result.history)
        grows = [] if self.growth_ <= 1.0 else [GROWING.format(growth=self.growth_)]
        self.converged_, self.message_ = result.converged, "; ".join([result.message, *grows])
        self.n_iter_, self.interrupted_ = result.n_iterations, result.interrupted
        if not (self.converged_ or self.interrupted_):
            warn_caller(f"not converged: {self.message_}", ConvergenceWarning)

    def _derive(self, posterior: StateSpacePosterior) -> None:
        self.n_rows_, self.series_ = len(self._data.y), self._data.names
        self.posterior_, self.model_ = posterior, posterior.model
        states = posterior.states
        self.states_, self.states_std_ = np.asarray(states.mean), np.sqrt(np.asarray(states.var))
        self.growth_ = self.time_map.growth(1)

    @property
    def _columns(self) -> Standardised:
        return Standardised(self.y_mean_, self.y_scale_)

    @property
    def _controls(self) -> Standardised:
        return Standardised(self.X_mean_, self.X_scale_)

    def _new_rows(self, y: Any, X: Any) -> TimeData:
        """Rows after those of the fit, checked against them; of series with an axis of these."""
        check_is_fitted(self, "posterior_")
        data = rows_after(y, X, self._data)
        names = [f"output {j}" for j in range(len(self.y_scale_))]
        flat = data.y.reshape(-1, len(names))
        check_values(flat, latent_likelihood(self.likelihood), names)
        return data

    @property
    def time_map(self) -> TimeMap:
        """The map from future controls to future outputs that all methods use."""
        check_is_fitted(self, "posterior_")
        return TimeMap(
            self.posterior_,
            self._columns,
            self._controls,
            **going_on(self.propagation),
            seed=self._seed,
            several=self._data.series is not None,
            widening=None if self.free_simulation_ is None else self.free_simulation_.widening,
        )

    def _steps(self, fh: Any, X: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Horizons, and the controls up to the last of them."""
        check_is_fitted(self, "posterior_")
        steps = self._fh if fh is None else horizons(fh)
        if steps is None:
            raise ValueError(NO_HORIZONS)
        controls = future_controls(X, self._data, int(steps.max()))
        leaving = self.time_map.leaving(int(steps.max()))
        if leaving is not None:
            warn_caller(leaving)
        return steps, controls

    def _forecast(self, steps: np.ndarray, controls: np.ndarray | None) -> Outlook:
        found = self.time_map.forecast(int(steps.max()), controls)
        self.paths_left_ = found.left
        if found.strayed is not None:
            warn_caller(found.strayed)
        return found

    def _at(self, steps: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Values at some horizons, of those at all up to the last."""
        return self._shaped(np.take(values, steps - 1, axis=0 if self.series_ is None else 1))

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """Values without the axis of outputs where y was a vector."""
        axis = 1 if self.series_ is None else 2
        return np.take(values, 0, axis=axis) if self._data.single else values
