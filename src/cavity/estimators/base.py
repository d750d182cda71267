"""Base classes of estimators: scikit-learn's interface, numpy in, numpy out, always float64."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity.columns.encoder import Encoder
from cavity.estimators.asked_types import (
    Amount,
    Count,
    KernelAsked,
    LikelihoodAsked,
    MethodAsked,
    PowerAsked,
    latent_on_request,
)
from cavity.estimators.by_rows import AbstractAnswer, FunctionMoments, Rows, row_by_row
from cavity.estimators.encoding import learn_inputs, numbers_of, typed_columns
from cavity.estimators.going_on import learned_on
from cavity.estimators.kept import AbstractKept
from cavity.estimators.layers import last_functions
from cavity.estimators.learning import Learned, Problem
from cavity.estimators.predictions import function_of
from cavity.estimators.registry import build_method
from cavity.estimators.reinference import infer_again, left_out_densities
from cavity.estimators.rows_of_fit import RowsOfFit, columns_of
from cavity.estimators.settings import Settings, check_side
from cavity.inference.solvers.convergence import ConvergenceReport
from cavity.learning.data.scales import Tallies
from cavity.learning.double_precision import in_double
from cavity.learning.engines.base import AbstractEngine
from cavity.learning.results.at_bounds import AtBound
from cavity.learning.results.unseen_periods import UnseenPeriod
from cavity.models.base import AbstractModel
from cavity.models.mean_function import with_found_mean
from cavity.models.posterior import AbstractPosterior
from cavity.numerics.callers import warn_caller
from cavity.numerics.tree import to_numpy
from cavity.numerics.validation import check_magnitude
from cavity.persistence.typed_values import Large

# Settings are kept as they were given and checked by `fit`, as scikit-learn asks.


@dataclasses.dataclass(eq=False, repr=False)
class AbstractModelSettings:
    """Settings of model and inference; see `GPRegressor` for each."""

    kernel: KernelAsked = "rbf"
    likelihood: LikelihoodAsked = "gaussian"
    method: MethodAsked = "power_ep"
    power: PowerAsked = 0.5
    n_inducing: object = "auto"
    inducing: object = "greedy"
    mean: object = "constant"


@dataclasses.dataclass(eq=False, repr=False)
class AbstractOutputSettings:
    """Settings that labels do not have; see `GPRegressor` for each."""

    block_size: object = None
    missing: object = "error"


@dataclasses.dataclass(eq=False, repr=False)
class AbstractSearchSettings:
    """Settings of learning by maximum evidence; see `GPRegressor` for each."""

    standardise: object = True
    fixed: object = None
    bounds: object = None
    priors: object = "weak"
    n_restarts: Count = 0
    max_iterations: Count = 1000
    tolerance: object = 1e-3
    jitter: Amount = 1e-8
    random_state: object = None


class AbstractEstimator(AbstractKept, BaseEstimator, abc.ABC):
    """A model with starting values from the data, learned and kept as numpy float64.

    To implement:
        `fit`, and `_learned`, which fits a model to a problem. Settings are fields of classes
        such as `AbstractModelSettings`.

    Attributes:
        standardise: start from the location and spread of the data.
        random_state: seed or generator for everything random.
    """

    standardise: object
    random_state: object
    # parts of models have parameters of their own, which checkers of types do not know
    kernel_: Any
    likelihood_: Any
    mean_: Any
    inducing_: Any

    remembered: ClassVar[Mapping[str, Any]] = {
        "log_evidence_": float | None,
        "converged_": bool,
        "message_": str,
        "unseen_periods_": tuple[UnseenPeriod, ...],
        "undetermined_": tuple[str, ...],
        "at_bounds_": tuple[AtBound, ...],
        "n_iter_": Large,
        "n_evaluations_": Large,
        "history_": tuple[float, ...],
        "jitter_": float,
        "sites_": ConvergenceReport,
        "interrupted_": bool,
        "n_rows_": Large,
        "n_observed_": np.ndarray,
    }

    @abc.abstractmethod
    def _learned(self, problem: Problem) -> Learned:
        """A fitted model of the data; called in float64."""

    def _check_settings(self) -> None:
        """Refuses impossible settings, before any work."""
        self.family.check(self)

    def _learn(self, problem: Problem, scale: np.ndarray) -> None:
        """Learns from outputs that are divided by `scale` first, and keeps the result.

        With batches these hold the data, and X and y are a sample of them to start from.
        """
        course = problem.course
        if course.checkpoint is not None and self.random_state is None:
            raise ValueError(
                "a checkpoint is for a fit that can be repeated: give the estimator a whole "
                "number as random_state, such as random_state=0"
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        problem = problem.scaled(scale, seed)
        with self._shown(course.callback) as watched:
            course = dataclasses.replace(problem.course, callback=watched)
            learned = self._learned(dataclasses.replace(problem, course=course))
        self._keep(learned, scale)
        if not (self.converged_ or self.interrupted_):
            warn_caller(f"not converged: {self.message_}", ConvergenceWarning)

    def _settings(self, task: str, classes: int = 2) -> Settings:
        """The settings of this estimator, as they were given."""
        known = {field.name for field in dataclasses.fields(Settings)}
        chosen = {k: v for k, v in self.get_params(deep=False).items() if k in known}
        return Settings(**chosen, task=task, classes=classes, names=self._input_names)

    @property
    def _input_names(self) -> tuple[str, ...] | None:
        """The names of the columns of the fit; None where they had none."""
        names = vars(self).get("feature_names_in_")
        return None if names is None else tuple(map(str, names))

    def _settings_used(self) -> Settings:
        """The settings of this estimator as the fit used them."""
        return self._settings("")

    def _keep(self, learned: Learned, scale: np.ndarray) -> None:
        result = learned.result
        self.output_scale_ = scale
        self.posterior_ = to_numpy(result.posterior)
        self._keep_parts(with_found_mean(self.posterior_))
        shift = float(learned.observed @ np.log(self.output_scale_))
        value = result.log_evidence
        self.log_evidence_ = None if value is None else value - shift
        self.chains_ = result.chains
        self.converged_, self.message_ = result.converged, result.message
        self.unseen_periods_, self.undetermined_ = result.unseen_periods, result.undetermined
        self.at_bounds_ = result.at_bounds
        self.n_iter_, self.n_evaluations_ = result.n_iterations, result.n_evaluations
        self.history_ = tuple(float(value) + shift for value in result.history)
        self.jitter_, self.sites_ = result.jitter, result.sites
        self.interrupted_ = result.interrupted
        self.n_rows_, self.n_observed_ = learned.rows, learned.observed
        self.tallies_ = result.tallies

    def _derive(self, posterior: AbstractPosterior) -> None:
        self.posterior_, self.chains_ = posterior, None
        self._keep_parts(with_found_mean(posterior))

    def _keep_parts(self, model: AbstractModel) -> None:
        """Keeps the fitted parts of a model as attributes."""
        last = last_functions(model)
        self.kernel_, self.likelihood_ = last.kernel, model.likelihood
        self.mean_, self.inducing_ = last.mean, last.inducing


class AbstractPredictor(AbstractEstimator):
    """An estimator of outputs that are functions of known inputs.

    To implement:
        as `AbstractEstimator`, and how outputs are predicted.

    Attributes:
        encoder_: the columns of the data frame of the fit and how they become numbers, where
            some hold text or categories; None otherwise.
        rows_of_fit_: names of columns, moments and ranges, which files hold.
    """

    encoder_: Encoder | None = None
    tallies_: Tallies | None = None
    rows_of_fit_: RowsOfFit

    @property
    def _class_labels(self) -> np.ndarray | None:
        """The labels of a classification, sorted; None of a regression."""
        return None

    def _settings(self, task: str, classes: int = 2) -> Settings:
        settings, encoder = super()._settings(task, classes), self.encoder_
        if encoder is None:
            return settings
        kernel = settings.kernel
        if settings.names is not None and isinstance(kernel, str):
            kernel = encoder.with_features(kernel)
        return dataclasses.replace(settings, kernel=kernel, feature_groups=encoder.groups)

    def _note(self, problem: Problem, given: tuple[Any, Any]) -> None:
        """Remembers the rows of a fit, or what a sample of them says; see `RowsOfFit.of`.

        `given` are inputs and outputs as they were given.
        """
        X, whole = problem.X, problem.course.batches is None
        inputs = columns_of(self.encoder_, self._input_names, X.shape[1])
        inputs = typed_columns(given[0], inputs)
        rows = RowsOfFit.of(inputs, X, problem.y, given[1], problem.side)
        self.rows_of_fit_ = rows if whole else dataclasses.replace(rows, ranges={})

    @latent_on_request
    @in_double
    def predict_latent(self, X, return_std=False, return_cov=False, engine=None):
        """Mean of the latent function f, and its standard deviation or covariance on request.

        Where the noise level is a function too, this is the function f alone; `posterior_` has
        the log noise variance as its second.

        Args:
            X: inputs, (n, D).
            return_std: also return the standard deviation of f, without noise.
            return_cov: also return the covariance of f over the rows.
            engine: what works on parts of the rows, such as `cavity.engines.Dask(client)`; None
                for this process. The results have the same bits.

        Returns:
            The mean (n,) or (n, P); with `return_std` a pair with the deviation of the same
            shape, with `return_cov` a pair with the covariance (n, n) or (n, n, P).

        Raises:
            ValueError: for unusable inputs, when both std and cov are asked for, or a covariance
                of an engine.
        """
        not_both(return_std, return_cov, engine)
        X = self._inputs(X)
        if return_cov:
            return self._joint(X)
        mean, std = self._marginals(X, engine)
        return (mean, std) if return_std else mean

    @property
    def _scale(self) -> np.ndarray | np.floating:
        return self.output_scale_[0] if self._function.vector else self.output_scale_

    @property
    def _function(self) -> AbstractPosterior:
        """The posterior of the function f."""
        return function_of(self.posterior_)

    def _fit_inputs(self, X):
        """Inputs of a fit as numbers; how they became these is remembered."""
        self.encoder_, X = learn_inputs(X)
        return X

    def _go_on(
        self, settings: Settings, X, y, side: dict[str, np.ndarray], half_life: float | None
    ) -> None:
        """Learns on from further rows, their outputs in the units of the data."""
        outputs = y / (self.output_scale_ if np.ndim(y) > 1 else self.output_scale_[0])
        learned = learned_on(self, settings, X, outputs, side, half_life)
        self._keep(learned, self.output_scale_)
        known = self.rows_of_fit_
        self.rows_of_fit_ = known + RowsOfFit.of(known.inputs, X, y, y, side)

    def _inputs(self, X) -> np.ndarray:
        check_is_fitted(self, "posterior_")
        X = numbers_of(X, self.encoder_)
        checked = np.asarray(validate_data(self, X, dtype=np.float64, order="C", reset=False))
        check_magnitude("X", checked, small=False)
        return checked

    def _marginals(self, X, engine: AbstractEngine | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of f."""
        mean, std = row_by_row(FunctionMoments(self._function), Rows(X, {}), engine)
        return mean * self._scale, std * self._scale

    def _joint(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Means of f, and covariances with the axis of the outputs last."""
        mean, cov = map(np.asarray, self._function.joint(X))
        cov = cov if self._function.vector else np.moveaxis(cov, 0, -1)
        return mean * self._scale, cov * self._scale**2

    def _answered(
        self, answer: AbstractAnswer, rows: Rows, engine: AbstractEngine | None
    ) -> tuple[np.ndarray, ...]:
        """What is asked of the outputs of every row."""
        self._check_predictable(rows.side)
        return row_by_row(answer, rows, engine)

    def _left_out(self, X, y, side: dict[str, np.ndarray]) -> np.ndarray:
        """Log densities of outputs (n, P) given all others of these rows, (n, P).

        Raises:
            ValueError: for draws and blocks, which leave out no single rows.
        """
        if self.chains_ is not None:
            raise ValueError(
                "the method 'mcmc' draws, and draws have no sites to leave out; fit with another "
                "method"
            )
        settings = self._settings_used()
        if settings.block_size is not None:
            raise ValueError(
                "rows of a block share a site, so single rows cannot be left out; fit with "
                "block_size=None"
            )
        self._check_predictable(side)
        result = infer_again(
            self.posterior_,
            self.output_scale_,
            X,
            y,
            side,
            method=build_method(settings.method),
            power=settings.power,
            jitter=settings.jitter,
            missing=settings.missing,
        )
        if not result.converged:
            warn_caller(f"not converged: {result.message}", ConvergenceWarning)
        return left_out_densities(result, self.output_scale_)

    def _check_predictable(self, side: Mapping[str, np.ndarray]) -> None:
        """Refuses side data that nobody reads, and asks for those that came with the fit."""
        check_side(side, self.likelihood_, self._settings("").likelihood)
        missing = [name for name in self.posterior_.side if name not in side]
        if missing:
            raise ValueError(
                f"the model was fitted with a known {missing[0].replace('_', ' ')} per row, so "
                f"predicting y needs them too: pass {missing[0]}=..., or use predict_latent(X) "
                "for the function"
            )


def given(**side: object) -> dict[str, np.ndarray]:
    """The side data that are not None, as arrays."""
    return {name: np.asarray(values) for name, values in side.items() if values is not None}


def not_both(return_std: bool, return_cov: bool, engine: AbstractEngine | None) -> None:
    """Refuses to give deviations and covariances at once, and covariances of an engine."""
    if return_std and return_cov:
        raise ValueError("ask for either return_std or return_cov, not both")
    if return_cov and engine is not None:
        raise ValueError(
            "an engine works on some rows at a time, and return_cov is of all pairs of rows: "
            "leave engine out"
        )
