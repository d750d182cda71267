"""Base of regressors: outputs checked and scaled, and predictions of them."""

import dataclasses
from typing import Any

import jax
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, validate_data

from cavity.estimators.asked_constraints import by_name
from cavity.estimators.asked_types import KernelAsked, outputs_on_request
from cavity.estimators.base import AbstractPredictor, given, not_both
from cavity.estimators.by_rows import (
    OutputDensities,
    OutputMoments,
    OutputQuantiles,
    Rows,
)
from cavity.estimators.going_on import for_streams
from cavity.estimators.learning import Course, Problem
from cavity.estimators.outputs import check_shape, stated_once
from cavity.estimators.registry import REGRESSION
from cavity.estimators.row_weights import checked_weights, with_weights
from cavity.estimators.sampling import sample_outputs
from cavity.estimators.settings import check
from cavity.families.base import loaded
from cavity.families.values import one_of, whole
from cavity.kernels.text_syntax import Mentioned
from cavity.learning.data.row_weights import presence_of, weights_of
from cavity.learning.data.scales import tally
from cavity.learning.double_precision import in_double
from cavity.learning.engines.base import AbstractEngine
from cavity.likelihoods.support import Support


class AbstractRegressor(RegressorMixin, AbstractPredictor):
    """A regression of one output or several.

    Attributes:
        kernel: covariance function, as it was asked for.
        mean: prior mean, as it was asked for.
        missing: "error", or "skip" to leave out outputs that are NaN.
    """

    kernel: KernelAsked
    mean: object
    missing: object

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @in_double
    def fit(
        self,
        X,
        y,
        noise_variance=None,
        exposure=None,
        callback=None,
        checkpoint=None,
        sample_weight=None,
    ):
        """Learns the parameters and infers the posterior.

        Args:
            X: inputs, (N, D); an array of numbers, or a data frame, whose columns of text and
                categories become a 0/1 column per category; dates are days since 1970-01-01.
            y: outputs, (N,) or (N, P); networks take one output, (N,).
            noise_variance: known noise variance of each row, (N,), in squared units of y; takes
                the place of a learned one.
            exposure: exposure of each row, (N,), for likelihoods of counts.
            callback: called with a `Progress` after every iteration and step.
            checkpoint: a `cavity.fitting.Checkpoint`, where the fit keeps what it has done and
                goes on from what it did before; `random_state` must be a number.
            sample_weight: weight of each row, (N,): one of weight w counts as w rows that are
                alike, one of weight 0 not at all.

        Returns:
            The estimator itself. Interrupting from the keyboard keeps the best found so far.

        Raises:
            ValueError: for unusable data or settings.
        """
        self._check_settings()
        side = given(noise_variance=noise_variance, exposure=exposure, weight=sample_weight)
        self._fit_outputs(X, y, side, Course(callback, checkpoint))
        return self

    def _fit_outputs(
        self,
        X,
        y,
        side: dict[str, np.ndarray],
        course: Course,
    ) -> None:
        """Learns from outputs (N,) or (N, P), with side data of the rows."""
        X, y, side = with_weights(X, y, side)
        given, weights = (X, y), weights_of(side)
        X, y = self._validated(X, y)
        settings = self._settings(REGRESSION)
        settings = for_streams(settings, len(X)) if course.streaming else settings
        likelihood = check(settings, X, y, side)
        problem = Problem(settings, X, y, side, course)
        self._note(problem, given)
        real = likelihood.support is Support.REAL
        scale, constant = self._relative_spread(y.reshape(len(y), -1), weights, real=real)
        in_logarithms = any(latent.log_output for latent in likelihood.latent_functions)
        if in_logarithms and not self._has_values():
            scale = self._own_spread(y, weights)
        if "noise_variance" in side and np.ptp(scale) > 0:
            raise ValueError(
                "known noise variances with several outputs need outputs of one scale: set "
                "standardise=False, or fit each output alone"
            )
        apart = real and isinstance(self.mean, str) and self.mean != "zero"
        apart = apart and not (
            course.streaming or course.batches is not None or "noise_variance" in side
        )
        if apart and 0 < np.sum(constant) < len(scale):
            settings = dataclasses.replace(settings, missing="skip")
            y, scale = stated_once(y, scale, constant)
            problem = dataclasses.replace(problem, settings=settings, y=y)
        self._learn(problem, scale)

    @outputs_on_request
    @in_double
    def predict(
        self,
        X,
        return_std=False,
        return_cov=False,
        noise_variance=None,
        exposure=None,
        engine=None,
    ):
        """Predictive mean of y, and its standard deviation or covariance on request.

        Args:
            X: inputs, (n, D).
            return_std: also return the standard deviation of y, noise included; infinite where
                the likelihood has none (Student-t with df of at most 2).
            return_cov: also return the covariance of y over the rows, noise included.
            noise_variance: known noise variance of each row, where the fit had them.
            exposure: exposure of each row, where the fit had them.
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
        side = given(noise_variance=noise_variance, exposure=exposure)
        if return_cov:
            self._adds_noise("return_cov=True", "predict_latent(X, return_cov=True)")
            mean, cov = self._joint(X)
            index = np.arange(len(cov))
            cov[index, index] = self._single(self._moments(X, side)[1] ** 2)
            return mean, cov
        if self.posterior_.known_noise and noise_variance is None and not return_std:
            return self._marginals(X, engine)[0]
        mean, std = map(self._single, self._moments(X, side, engine))
        return (mean, std) if return_std else mean

    @in_double
    def predict_quantiles(self, X, q, noise_variance=None, exposure=None, engine=None):
        """Quantiles of the predictive distribution of y; finite also where the variance is not.

        Args:
            X: inputs, (n, D).
            q: probabilities, in (0, 1).
            noise_variance: known noise variance of each row, where the fit had them.
            exposure: exposure of each row, where the fit had them.
            engine: what works on parts of the rows; None for this process.

        Returns:
            (n, len(q)); with several outputs (n, P, len(q)).

        Raises:
            ValueError: for unusable inputs or probabilities outside (0, 1).
        """
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(f"quantiles are asked for by probabilities in (0, 1), given {q}")
        X, side = self._inputs(X), given(noise_variance=noise_variance, exposure=exposure)
        answer = OutputQuantiles(self.posterior_, self.output_scale_, levels)
        return self._single(*self._answered(answer, Rows(X, side), engine))

    @in_double
    def log_predictive_density(self, X, y, noise_variance=None, exposure=None, engine=None):
        """Log predictive density of each row's outputs, in nats.

        Of counts it is the log probability. An output that the likelihood does not take, such as
        a negative count, has minus infinity.

        Args:
            X: inputs, (n, D).
            y: outputs, as in fit.
            noise_variance: known noise variance of each row, where the fit had them.
            exposure: exposure of each row, where the fit had them.
            engine: what works on parts of the rows; None for this process.

        Returns:
            (n,); with several outputs the sum over them.

        Raises:
            ValueError: for unusable inputs, or outputs of another shape than in fit.
        """
        X, side = self._inputs(X), given(noise_variance=noise_variance, exposure=exposure)
        y = check_array(y, dtype="float64", ensure_2d=False, input_name="y")
        shape = (len(X), len(self.output_scale_))
        check_shape(y, shape[:1] if self._function.vector else shape)
        answer = OutputDensities(self.posterior_, self.output_scale_)
        (found,) = self._answered(answer, Rows(X, side, y.reshape(shape)), engine)
        return found.sum(axis=1)

    @in_double
    def sample_y(self, X, n_samples=1, random_state=0, noise_variance=None, exposure=None):
        """Joint samples of outputs y at the rows of X, noise included.

        Args:
            X: inputs, (n, D).
            n_samples: number of samples.
            random_state: seed or generator.
            noise_variance: known noise variance of each row, where the fit had them.
            exposure: exposure of each row, where the fit had them.

        Returns:
            (n, n_samples), or (n, P, n_samples).

        Raises:
            ValueError: for unusable inputs.
        """
        whole("n_samples", n_samples, 1)
        X = self._inputs(X)
        random = check_random_state(random_state)
        side = given(noise_variance=noise_variance, exposure=exposure)
        self._check_predictable(side)
        key = jax.random.key(random.randint(2**31 - 1))
        f = np.asarray(self.posterior_.sample(X, n_samples, key=key))
        drawn = self.posterior_.drawn_likelihoods(n_samples, key)
        y = sample_outputs(self.likelihood_, f, side, random, drawn)
        y = y if y.ndim == 3 or self._function.vector else y[..., None]
        return np.moveaxis(y * self._scale, 0, -1)

    @in_double
    def score(self, X, y, sample_weight=None, exposure=None, engine=None):
        """The coefficient of determination R² of the predictive means.

        Args:
            X: inputs, (n, D).
            y: outputs, as in fit.
            sample_weight: weight of each row, (n,).
            exposure: exposure of each row, where the fit had them.
            engine: what works on parts of the rows; None for this process.

        Returns:
            R²: 1 is perfect, 0 no better than the mean of y.

        Raises:
            ValueError: for unusable inputs.
        """
        weights = None if sample_weight is None else checked_weights(sample_weight, X)
        predicted = self.predict(X, exposure=exposure, engine=engine)
        return r2_score(y, predicted, sample_weight=weights)

    @in_double
    def report(self, path, X, y=None, noise_variance=None, exposure=None):
        """Writes one self-contained HTML page on the model and data, as `cavity report` does.

        Args:
            path: the file, such as "report.html"; what it held before is replaced.
            X: inputs, (n, D).
            y: outputs, as in fit; without them the page does not judge predictions. Rows in which
                some are missing are left out.
            noise_variance: known noise variance of each row, where the fit had them.
            exposure: exposure of each row, where the fit had them.

        Returns:
            The names of the page's figures.

        Raises:
            ValueError: for unusable data.
            DataError: if the file cannot be written.
        """
        X, y, side = self.as_numbers(X, y, noise_variance, exposure)
        return loaded(self.family.report)(self, path, X, y, side)

    @in_double
    def as_numbers(self, X, y=None, noise_variance=None, exposure=None):
        """Rows as pages and pictures take them; those in which some outputs are missing left out.

        Args:
            X: inputs, (n, D).
            y: outputs, as in fit, or None.
            noise_variance: known noise variance of each row, where the fit had them.
            exposure: exposure of each row, where the fit had them.

        Returns:
            Inputs as numbers (n, D), outputs (n, P) or None, and side data by name.

        Raises:
            ValueError: for unusable data.
        """
        X, side = self._inputs(X), given(noise_variance=noise_variance, exposure=exposure)
        self._check_predictable(side)
        if y is not None:
            finite: Any = "allow-nan" if self.missing == "skip" else True
            y = check_array(
                y, dtype="float64", ensure_2d=False, input_name="y", ensure_all_finite=finite
            )
            count = self._function.outputs
            check_shape(y, (len(X),) if self._function.vector else (len(X), count))
            y = y.reshape(len(X), count)
            known = ~np.isnan(y).any(axis=1)
            X, y = X[known], y[known]
            side = {name: values[known] for name, values in side.items()}
        return X, y, side

    # ------------------------------------------------------------------------- inside

    def _validated(self, X, y) -> tuple[Any, Any]:
        one_of("missing", self.missing, ("error", "skip"))
        X = self._fit_inputs(X)
        if self.missing == "error":
            both: Any = {"multi_output": True, "y_numeric": True}
            found: Any = validate_data(self, X, y, dtype=np.float64, order="C", **both)
            return found[0], np.asarray(found[1], dtype=np.float64)
        X = validate_data(self, X, dtype=np.float64, order="C")
        allowed: Any = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        y = check_array(y, ensure_2d=False, input_name="y", **allowed)
        empty = np.flatnonzero(np.all(np.isnan(y), axis=0)) if y.ndim > 1 else ()
        if len(empty):
            named = ", ".join(map(str, empty))
            raise ValueError(
                f"no row has a value of output {named} (counted from 0), so that nothing can be "
                "learned of it: leave it out of y"
            )
        return X, y

    def _relative_spread(self, outputs, weights, *, real: bool):
        """The spread of each output over their geometric mean, and which outputs are constant.

        The spread of a constant one is 1. Outputs that are not real numbers have no unit to be
        divided by.
        """
        count = outputs.shape[1]
        counted = tally(np.nan_to_num(outputs), presence_of(outputs, weights))
        spread, varies = np.ones(count), counted.varies
        if count > 1 and self.standardise and real and np.any(varies):
            own = counted.spread[varies]
            spread[varies] = own / np.exp(np.mean(np.log(own)))
        return spread, ~varies

    def _has_values(self):
        """True if a parameter was given a value or bounds, in the units of the outputs."""
        if not (isinstance(self.kernel, str) and isinstance(self.mean, str)):
            return True
        known = self.get_params(deep=False)
        asked = (known.get(name) for name in ("fixed", "bounds", "priors"))
        return Mentioned(self.kernel).values or any(by_name(each) is not None for each in asked)

    def _own_spread(self, y, weights):
        """The spread of one output; steps in the logarithm of its noise must not grow with it."""
        outputs = y.reshape(len(y), -1)
        counted = tally(np.nan_to_num(outputs), presence_of(outputs, weights))
        return counted.spread if self.standardise else np.ones(1)

    def _moments(
        self, X, side: dict[str, np.ndarray], engine: AbstractEngine | None = None
    ) -> tuple[np.ndarray, ...]:
        """Means and standard deviations of y given side data of the rows, (n, P) each."""
        answer = OutputMoments(self.posterior_, self.output_scale_)
        return self._answered(answer, Rows(X, side), engine)

    def _adds_noise(self, asked: str, instead: str) -> None:
        """Refuses what is in closed form only if outputs are function plus noise."""
        if self.likelihood_.support is not Support.REAL:
            raise ValueError(
                f"{asked} needs outputs that are the function plus noise, and with the likelihood "
                f"{type(self.likelihood_).__name__} they are not: use {instead} for the function, "
                "or sample_y(X, n_samples) for the outputs"
            )

    def _single(self, values):
        """Values (n, P, ...) without the axis of the outputs where y was a vector."""
        return values[:, 0] if self._function.vector else values
