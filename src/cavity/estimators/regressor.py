"""Gaussian process regression with scikit-learn's interface."""

import dataclasses
from typing import Any

import jax
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, validate_data

from cavity.estimators.base import (
    AbstractEstimator,
    AbstractModelSettings,
    AbstractOutputSettings,
    given,
    not_both,
)
from cavity.estimators.frames import dates_as_days
from cavity.estimators.registry import REGRESSION, one_of, whole
from cavity.estimators.sampling import sample_outputs
from cavity.estimators.settings import check
from cavity.learning.infer import one_blas_thread
from cavity.likelihoods.support import Support


@dataclasses.dataclass(eq=False, repr=False)
class GPRegressor(
    RegressorMixin, AbstractEstimator, AbstractOutputSettings, AbstractModelSettings
):
    r"""Gaussian process regression, exact or sparse, by Power EP; of outliers and counts too.

    All work is done in float64 and JAX's own settings are left as they are. Parameters, evidence
    and predictions are in the units of the data: standardising only chooses the starting values
    and centres the prior mean; nothing is transformed. With several outputs of different spread,
    each is divided by its own relative spread first (`output_scale_`), because they share one
    kernel and one noise variance; the fitted parameters are then those of the divided outputs.

    Args:
        kernel: text such as "rbf", "rbf + linear" or "matern52 * periodic[0]", with one
            lengthscale per column and starting values from the data; or a kernel object, whose
            values are taken as they are, in the units of the data.
        likelihood: how outputs scatter about the function: "gaussian", with outliers
            "student_t" or "laplace"; "heteroscedastic" is Gaussian with a level that is a
            function of the inputs too, with a kernel of the same form. Of counts "poisson" or
            "negative_binomial" and of numbers above zero "gamma" or "exponential", all about the
            exponential of the function; of shares between 0 and 1 "beta", about its sigmoid. Or a
            likelihood object.
        method: "power_ep"; "laplace", Laplace's method; "local_bound" or "mean_field",
            variational, for "student_t" and "laplace"; "tied", all rows with one
            site, for long tables, on inducing points; "mcmc", draws of parameters and function,
            for the full GP on small tables. Or a method object such as
            `cavity.PowerEP(step=0.5)`.
        power: in [0, 1]. 0 is the variational bound, 1 is EP (with Gaussian noise FITC). Plays no
            part in a full GP with Gaussian noise, which is exact.
        n_inducing: number of inducing points; "auto" is the full GP up to 1,000 rows and 200
            points beyond, or where the method needs them; None is the full GP, up to 20,000 rows;
            at or above the number of distinct rows all of them are used.
        inducing: how the points start: "greedy" (largest conditional variance), "kmeans",
            "random", or the points themselves, (M, D).
        learn_inducing: whether the points move in learning.
        mean: prior mean: "constant", "zero", "linear", or a mean object.
        block_size: rows of the blocks that share a site, found by clustering; None for none.
            At power 1 this is PITC. With Gaussian noise only.
        missing: "error", or "skip" to leave out outputs that are NaN.
        standardise: start from the location and spread of the data; otherwise from unit values.
        n_restarts: further runs from perturbed starting values; the best is kept.
        max_iterations: iterations of one run at the most; 0 keeps the starting values.
        tolerance: a run ends when the objective falls by less than this many nats per iteration;
            with more than 500 outputs the number grows in proportion to them, and is eight times
            that where, with more than 500 outputs, inducing inputs are learned and sites are not
            tied (any method but "tied").
        jitter: share of the mean prior variance added to the inducing covariance.
        random_state: seed or generator for everything random; an `MCMC` object has its own seed.

    Attributes:
        log_evidence_: approximate log marginal likelihood, nats, outputs in their own units;
            None for the method "mcmc".
        kernel_: the fitted kernel.
        likelihood_: the fitted likelihood.
        mean_: the fitted prior mean.
        inducing_: the fitted inducing variables; None for a full GP.
        converged_: whether learning and inference converged.
        message_: why learning ended.
        n_iter_: iterations.
        n_evaluations_: evaluations of the objective.
        jitter_: the jitter that was used.
        sites_: how the sites came about.
        interrupted_: whether fit was interrupted from the keyboard.
        posterior_: the posterior process, its arrays numpy float64.
        chains_: the draws of the method "mcmc" with their diagnostics, of outputs divided by
            `output_scale_`; None for other methods.
        output_scale_: relative spread of each output; 1 for a single one, but with
            "heteroscedastic" its spread, where kernel and mean came without values.
        n_features_in_: number of input columns.
        feature_names_in_: their names, if X had names.

    References:
        Bui (2017), S21 to S27.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(
        self,
        X,
        y,
        noise_variance=None,
        exposure=None,
        callback=None,
        checkpoint=None,
        batches=None,
    ):
        """Learns the parameters and infers the posterior.

        Args:
            X: inputs, (N, D); arrays or data frames of numbers; dates are days since 1970-01-01.
            y: outputs, (N,) or (N, P).
            noise_variance: known noise variance of each row, (N,), in squared units of y; takes
                the place of a learned one.
            exposure: exposure of each row, (N,), for likelihoods of counts.
            callback: called with a `Progress` after every iteration.
            batches: all rows, as `cavity.Batches` of pairs of inputs and outputs, for tables
                larger than memory. X and y are a sample of their rows then, from which starting
                values and inducing points come; "auto" is 200 of these.
            checkpoint: a `cavity.Checkpoint`, where the fit keeps what it has done and goes on
                from what it did before; `random_state` must be a number.

        Returns:
            The estimator itself. Interrupting from the keyboard keeps the best found so far.

        Raises:
            ValueError: for unusable data or settings.
        """
        X, y = self._validated(X, y)
        side = given(noise_variance=noise_variance, exposure=exposure)
        settings = self._settings(REGRESSION)
        likelihood = check(settings, X, y, side)
        real = likelihood.support is Support.REAL
        scale = self._relative_spread(y.reshape(len(y), -1), real=real)
        in_logarithms = any(latent.log_output for latent in likelihood.latent_functions)
        if in_logarithms and isinstance(self.kernel, str) and isinstance(self.mean, str):
            scale = self._own_spread(y)
        if "noise_variance" in side and np.ptp(scale) > 0:
            raise ValueError(
                "known noise variances with several outputs need outputs of one scale: set "
                "standardise=False, or fit each output alone"
            )
        self._learn(settings, X, y, scale, side, callback, checkpoint, batches)
        return self

    def predict(self, X, return_std=False, return_cov=False, noise_variance=None, exposure=None):
        """Predictive mean of y, and its standard deviation or covariance on request.

        Args:
            X: inputs, (n, D).
            return_std: also return the standard deviation of y, noise included; infinite where
                the likelihood has none (Student-t with df of at most 2).
            return_cov: also return the covariance of y over the rows, noise included.
            noise_variance: known noise variance of each row, where the fit had them.
            exposure: exposure of each row, where the fit had them.

        Returns:
            The mean (n,) or (n, P); with `return_std` a pair with the deviation of the same
            shape, with `return_cov` a pair with the covariance (n, n) or (n, n, P).

        Raises:
            ValueError: for unusable inputs, or when both std and cov are asked for.
        """
        not_both(return_std, return_cov)
        X = self._inputs(X)
        side = given(noise_variance=noise_variance, exposure=exposure)
        if return_cov:
            self._adds_noise("return_cov=True", "predict_latent(X, return_cov=True)")
            mean, cov = self._joint(X)
            index = np.arange(len(cov))
            cov[index, index] = self._single(self._outputs(X, side).std ** 2)
            return mean, cov
        if self.posterior_.known_noise and noise_variance is None and not return_std:
            return self._marginals(X)[0]
        out = self._outputs(X, side)
        mean, std = self._single(out.mean), self._single(out.std)
        return (mean, std) if return_std else mean

    def predict_quantiles(self, X, q, noise_variance=None, exposure=None):
        """Quantiles of the predictive distribution of y; finite also where the variance is not.

        Args:
            X: inputs, (n, D).
            q: probabilities, in (0, 1).
            noise_variance: known noise variance of each row, where the fit had them.
            exposure: exposure of each row, where the fit had them.

        Returns:
            (n, len(q)); with several outputs (n, P, len(q)).

        Raises:
            ValueError: for unusable inputs or probabilities outside (0, 1).
        """
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(f"quantiles are asked for by probabilities in (0, 1), given {q}")
        side = given(noise_variance=noise_variance, exposure=exposure)
        return self._single(self._outputs(self._inputs(X), side).quantiles(levels))

    def log_predictive_density(self, X, y, noise_variance=None, exposure=None):
        """Log predictive density of each row's outputs, in nats.

        Of counts it is the log probability. An output that the likelihood does not take, such as
        a negative count, has minus infinity.

        Args:
            X: inputs, (n, D).
            y: outputs, as in fit.
            noise_variance: known noise variance of each row, where the fit had them.
            exposure: exposure of each row, where the fit had them.

        Returns:
            (n,); with several outputs the sum over them.

        Raises:
            ValueError: for unusable inputs, or outputs of another shape than in fit.
        """
        side = given(noise_variance=noise_variance, exposure=exposure)
        out = self._outputs(self._inputs(X), side)
        y = check_array(y, dtype="float64", ensure_2d=False, input_name="y")
        shape = self._single(out.mean).shape
        _check_shape(y, shape)
        return out.log_density(y.reshape(out.mean.shape)).sum(axis=1)

    def leave_one_out(self, X, y, noise_variance=None, exposure=None):
        """Log predictive density of each output given the others of these rows, in nats.

        Inference is done once more on these rows, with the fitted parameters: none are learned
        again. Given the rows of the fit, it says what a refit without each would say of it.

        Args:
            X: inputs, (n, D).
            y: outputs, as in fit.
            noise_variance: known noise variance of each row, where the fit had them.
            exposure: exposure of each row, where the fit had them.

        Returns:
            (n,) or (n, P), as y; NaN for missing outputs, and where no proper posterior is left.

        Raises:
            ValueError: for unusable data, and for fits by draws or with blocks.
        """
        X, side = self._inputs(X), given(noise_variance=noise_variance, exposure=exposure)
        y, count = np.asarray(y, dtype=np.float64), self._function.outputs
        shape = (len(X),) if self._function.vector else (len(X), count)
        _check_shape(y, shape)
        return self._left_out(X, y.reshape(len(X), count), side).reshape(shape)

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
        posterior = self.posterior_
        with jax.enable_x64(True), one_blas_thread():
            key = jax.random.key(random.randint(2**31 - 1))
            f = np.asarray(posterior.sample(X, n_samples, key=key))
            drawn = posterior.drawn_likelihoods(n_samples, key)
        y = sample_outputs(self.likelihood_, f, side, random, drawn)
        y = y if y.ndim == 3 or self._function.vector else y[..., None]
        return np.moveaxis(y * self._scale, 0, -1)

    def score(self, X, y, sample_weight=None, exposure=None):
        """The coefficient of determination R² of the predictive means.

        Args:
            X: inputs, (n, D).
            y: outputs, as in fit.
            sample_weight: weight of each row, (n,).
            exposure: exposure of each row, where the fit had them.

        Returns:
            R²: 1 is perfect, 0 no better than the mean of y.

        Raises:
            ValueError: for unusable inputs.
        """
        return r2_score(y, self.predict(X, exposure=exposure), sample_weight=sample_weight)

    # ------------------------------------------------------------------------- inside

    def _validated(self, X, y) -> tuple[Any, Any]:
        one_of("missing", self.missing, ("error", "skip"))
        X = dates_as_days(X)
        if self.missing == "error":
            both: Any = {"multi_output": True, "y_numeric": True}
            found: Any = validate_data(self, X, y, dtype=np.float64, order="C", **both)
            return found[0], np.asarray(found[1], dtype=np.float64)
        X = validate_data(self, X, dtype=np.float64, order="C")
        allowed: Any = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        return X, check_array(y, ensure_2d=False, input_name="y", **allowed)

    def _relative_spread(self, outputs, *, real: bool):
        """The spread of each output over their geometric mean; 1 for a constant one.

        Outputs that are not real numbers have no unit to be divided by.
        """
        count = outputs.shape[1]
        if count == 1 or not self.standardise or not real:
            return np.ones(count)
        seen = [column[~np.isnan(column)] for column in outputs.T]
        spread = np.array([np.std(y) if len(y) else 0.0 for y in seen])
        varies = spread > [1e-12 * np.max(np.abs(y), initial=0.0) for y in seen]
        if not np.any(varies):
            return np.ones(count)
        typical = np.exp(np.mean(np.log(spread[varies])))
        return np.where(varies, spread / typical, 1.0)

    def _own_spread(self, y):
        """The spread of one output; steps in the logarithm of its noise must not grow with it."""
        seen = y[~np.isnan(y)]
        spread = np.std(seen) if len(seen) else 0.0
        usable = self.standardise and spread > 1e-12 * np.max(np.abs(seen), initial=0.0)
        return np.array([spread if usable else 1.0])

    def _adds_noise(self, asked: str, instead: str) -> None:
        """Refuses what only outputs that are the function plus noise have in closed form."""
        if self.likelihood_.support is not Support.REAL:
            raise ValueError(
                f"{asked} needs outputs that are the function plus noise, and with the likelihood "
                f"{type(self.likelihood_).__name__} they are not: use {instead} for the function, "
                "or sample_y(X, n_samples) for the outputs"
            )

    def _single(self, values):
        """Values (n, P, ...) without the axis of the outputs where y was a vector."""
        return values[:, 0] if self._function.vector else values


def _check_shape(y: np.ndarray, shape: tuple[int, ...]) -> None:
    """Refuses outputs of another shape than in fit."""
    if y.shape != shape:
        raise ValueError(f"y must have shape {shape}, as in fit, given {y.shape}")
