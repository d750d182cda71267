"""Estimators with scikit-learn's interface: numpy in, numpy out, always float64."""

import warnings
from numbers import Real
from typing import Any

import equinox as eqx
import jax
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from cavity.interfaces.build import Settings, build, build_method, one_of, whole
from cavity.interfaces.predictions import predict_outputs
from cavity.learning.data import prepare
from cavity.learning.fit import FitResult
from cavity.learning.inducing_points import cluster_blocks
from cavity.learning.infer import one_blas_thread
from cavity.learning.trials import fit_best
from cavity.numerics.linalg import MOST_JITTER


def to_numpy(tree: Any) -> Any:
    """A module with its arrays as numpy arrays, which keep their precision anywhere."""
    return jax.tree.map(lambda a: np.array(a) if eqx.is_array(a) else a, tree)


class GPRegressor(RegressorMixin, BaseEstimator):
    r"""Gaussian process regression, exact or sparse, by Power EP.

    All work is done in float64 and JAX's own settings are left as they are. Parameters, evidence
    and predictions are in the units of the data: standardising only chooses the starting values
    and centres the prior mean; nothing is transformed. With several outputs of different spread,
    each is divided by its own relative spread first (`output_scale_`), because they share one
    kernel and one noise variance; the fitted parameters are then those of the divided outputs.

    Args:
        kernel: text such as "rbf", "rbf + linear" or "matern52 * periodic[0]", with one
            lengthscale per column and starting values from the data; or a kernel object, whose
            values are taken as they are, in the units of the data.
        likelihood: "gaussian", or a likelihood object.
        method: "power_ep", or a method object such as `cavity.PowerEP(step=0.5)`.
        power: in [0, 1]. 0 is the variational bound, 1 is FITC (EP). Plays no part in a full GP.
        n_inducing: number of inducing points; "auto" is the full GP up to 1,000 rows and 200
            points beyond; None is the full GP, up to 20,000 rows; at or above the number of
            distinct rows all of them are used.
        inducing: how the points start: "greedy" (largest conditional variance), "kmeans",
            "random", or the points themselves, (M, D).
        learn_inducing: whether the points move in learning.
        mean: prior mean: "constant", "zero", "linear", or a mean object.
        block_size: rows of the blocks that share a site, found by clustering; None for none.
            At power 1 this is PITC.
        missing: "error", or "skip" to leave out outputs that are NaN.
        standardise: start from the location and spread of the data; otherwise from unit values.
        n_restarts: further runs from perturbed starting values; the best is kept.
        max_iterations: iterations of one run at the most; 0 keeps the starting values.
        tolerance: a run ends when the objective falls by less than this many nats per iteration.
        jitter: share of the mean prior variance added to the inducing covariance.
        random_state: seed or generator for everything random.

    Attributes:
        log_evidence_: approximate log marginal likelihood, nats, outputs in their own units.
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
        output_scale_: relative spread of each output; 1 for a single one.
        n_features_in_: number of input columns.
        feature_names_in_: their names, if X had names.

    References:
        Bui (2017), S21 to S27.
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        likelihood: Any = "gaussian",
        method: Any = "power_ep",
        power: Any = 0.5,
        n_inducing: Any = "auto",
        inducing: Any = "greedy",
        learn_inducing: Any = True,
        mean: Any = "constant",
        block_size: Any = None,
        missing: Any = "error",
        standardise: Any = True,
        n_restarts: Any = 0,
        max_iterations: Any = 1000,
        tolerance: Any = 1e-3,
        jitter: Any = 1e-8,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.method = method
        self.power = power
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.learn_inducing = learn_inducing
        self.mean = mean
        self.block_size = block_size
        self.missing = missing
        self.standardise = standardise
        self.n_restarts = n_restarts
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.jitter = jitter
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X, y, noise_variance=None, callback=None):
        """Learns the parameters and infers the posterior.

        Args:
            X: inputs, (N, D); arrays or data frames of numbers.
            y: outputs, (N,) or (N, P).
            noise_variance: known noise variance of each row, (N,), in squared units of y; takes
                the place of a learned one.
            callback: called with a `Progress` after every iteration.

        Returns:
            The estimator itself. Interrupting from the keyboard keeps the best found so far.

        Raises:
            ValueError: for unusable data or settings.
        """
        X, y = self._validated(X, y)
        rows = None if noise_variance is None else {"noise_variance": np.asarray(noise_variance)}
        self._check_settings(X, y, rows)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        outputs = y.reshape(len(y), -1)
        scale = self._relative_spread(outputs)
        if rows is not None and np.ptp(scale) > 0:
            raise ValueError(
                "known noise variances with several outputs need outputs of one scale: set "
                "standardise=False, or fit each output alone"
            )
        with jax.enable_x64(True), one_blas_thread():
            noise = None if rows is None else rows["noise_variance"]
            starts, maps = build(self._settings(seed), X, outputs / scale, noise)
            result = fit_best(
                starts,
                X,
                y / (scale if y.ndim > 1 else 1.0),
                power=self.power,
                method=build_method(self.method),
                jitter=self.jitter,
                blocks=self._blocks(X, seed),
                rows=rows,
                missing=self.missing,
                bijections=maps,
                n_restarts=self.n_restarts,
                max_iterations=self.max_iterations,
                tolerance=self.tolerance,
                seed=seed,
                callback=callback,
            )
            self._keep(result, outputs, scale)
        if not (self.converged_ or self.interrupted_):
            warnings.warn(f"not converged: {self.message_}", ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X, return_std=False, return_cov=False, noise_variance=None):
        """Predictive mean of y, and its standard deviation or covariance on request.

        Args:
            X: inputs, (n, D).
            return_std: also return the standard deviation of y, noise included.
            return_cov: also return the covariance of y over the rows, noise included.
            noise_variance: known noise variance of each row, where the fit had them.

        Returns:
            The mean (n,) or (n, P); with `return_std` a pair with the deviation of the same
            shape, with `return_cov` a pair with the covariance (n, n) or (n, n, P).

        Raises:
            ValueError: for unusable inputs, or when both std and cov are asked for.
        """
        _not_both(return_std, return_cov)
        X = self._inputs(X)
        if return_cov:
            mean, cov = self._joint(X)
            index = np.arange(len(cov))
            cov[index, index] = self._single(self._outputs(X, noise_variance).std ** 2)
            return mean, cov
        if self.posterior_.known_noise and noise_variance is None and not return_std:
            return self._marginals(X)[0]
        out = self._outputs(X, noise_variance)
        mean, std = self._single(out.mean), self._single(out.std)
        return (mean, std) if return_std else mean

    def predict_latent(self, X, return_std=False, return_cov=False):
        """Mean of the latent function f, and its standard deviation or covariance on request.

        Args:
            X: inputs, (n, D).
            return_std: also return the standard deviation of f, without noise.
            return_cov: also return the covariance of f over the rows.

        Returns:
            As `predict`.

        Raises:
            ValueError: for unusable inputs, or when both std and cov are asked for.
        """
        _not_both(return_std, return_cov)
        X = self._inputs(X)
        if return_cov:
            return self._joint(X)
        mean, std = self._marginals(X)
        return (mean, std) if return_std else mean

    def predict_quantiles(self, X, q, noise_variance=None):
        """Quantiles of the predictive distribution of y.

        Args:
            X: inputs, (n, D).
            q: probabilities, in (0, 1).
            noise_variance: known noise variance of each row, where the fit had them.

        Returns:
            (n, len(q)); with several outputs (n, P, len(q)).

        Raises:
            ValueError: for unusable inputs or probabilities outside (0, 1).
        """
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(f"quantiles are asked for by probabilities in (0, 1), given {q}")
        return self._single(self._outputs(self._inputs(X), noise_variance).quantiles(levels))

    def log_predictive_density(self, X, y, noise_variance=None):
        """Log predictive density of each row's outputs, in nats.

        Args:
            X: inputs, (n, D).
            y: outputs, as in fit.
            noise_variance: known noise variance of each row, where the fit had them.

        Returns:
            (n,); with several outputs the sum over them.

        Raises:
            ValueError: for unusable inputs, or outputs of another shape than in fit.
        """
        out = self._outputs(self._inputs(X), noise_variance)
        y = check_array(y, dtype="float64", ensure_2d=False, input_name="y")
        shape = self._single(out.mean).shape
        if y.shape != shape:
            raise ValueError(f"y must have shape {shape}, as in fit, given {y.shape}")
        return out.log_density(y.reshape(out.mean.shape)).sum(axis=1)

    def sample_y(self, X, n_samples=1, random_state=0, noise_variance=None):
        """Joint samples of outputs y at the rows of X, noise included.

        Args:
            X: inputs, (n, D).
            n_samples: number of samples.
            random_state: seed or generator.
            noise_variance: known noise variance of each row, where the fit had them.

        Returns:
            (n, n_samples), or (n, P, n_samples).

        Raises:
            ValueError: for unusable inputs.
        """
        whole("n_samples", n_samples, 1)
        X = self._inputs(X)
        random = check_random_state(random_state)
        with jax.enable_x64(True), one_blas_thread():
            key = jax.random.key(random.randint(2**31 - 1))
            draws = np.asarray(self.posterior_.sample(X, n_samples, key=key)) * self._scale
        total = self._single(self._outputs(X, noise_variance).std)
        noise = np.sqrt(np.maximum(total**2 - self._marginals(X)[1] ** 2, 0.0))
        return np.moveaxis(draws + random.standard_normal(draws.shape) * noise, 0, -1)

    # ------------------------------------------------------------------------- inside

    def _validated(self, X, y) -> tuple[Any, Any]:
        one_of("missing", self.missing, ("error", "skip"))
        if self.missing == "error":
            both: Any = {"multi_output": True, "y_numeric": True}
            found: Any = validate_data(self, X, y, dtype=np.float64, order="C", **both)
            return found[0], np.asarray(found[1], dtype=np.float64)
        X = validate_data(self, X, dtype=np.float64, order="C")
        allowed: Any = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        return X, check_array(y, ensure_2d=False, input_name="y", **allowed)

    def _check_settings(self, X, y, rows):
        """Refuses impossible numbers before any work."""
        with jax.enable_x64(True):
            prepare(X, y, power=self.power, rows=rows, missing=self.missing)
        build_method(self.method)
        whole("n_restarts", self.n_restarts, 0)
        whole("max_iterations", self.max_iterations, 0)
        if self.block_size is not None:
            whole("block_size", self.block_size, 1, "None or ")
        for name, value, most in (
            ("tolerance", self.tolerance, np.inf),
            ("jitter", self.jitter, MOST_JITTER),
        ):
            if not isinstance(value, Real) or not 0.0 <= float(value) <= most:
                raise ValueError(f"{name} must be a number in [0, {most:g}], given {value!r}")

    def _settings(self, seed):
        names = getattr(self, "feature_names_in_", None)
        return Settings(
            self.kernel,
            self.likelihood,
            self.mean,
            self.n_inducing,
            self.inducing,
            self.learn_inducing,
            self.block_size,
            self.standardise,
            seed,
            None if names is None else tuple(map(str, names)),
        )

    def _relative_spread(self, outputs):
        """The spread of each output over their geometric mean; 1 for a constant one."""
        count = outputs.shape[1]
        if count == 1 or not self.standardise:
            return np.ones(count)
        seen = [column[~np.isnan(column)] for column in outputs.T]
        spread = np.array([np.std(y) if len(y) else 0.0 for y in seen])
        varies = spread > [1e-12 * np.max(np.abs(y), initial=0.0) for y in seen]
        if not np.any(varies):
            return np.ones(count)
        typical = np.exp(np.mean(np.log(spread[varies])))
        return np.where(varies, spread / typical, 1.0)

    def _blocks(self, X, seed):
        if self.block_size is None:
            return None
        return cluster_blocks(X, self.block_size, seed=seed)

    def _keep(self, result: FitResult, outputs, scale):
        self.output_scale_ = scale
        self.posterior_ = to_numpy(result.posterior)
        model = self.posterior_.model
        self.kernel_, self.likelihood_ = model.kernel, model.likelihood
        self.mean_, self.inducing_ = model.mean, model.inducing
        counts = np.sum(~np.isnan(outputs), axis=0)
        self.log_evidence_ = result.log_evidence - float(counts @ np.log(self.output_scale_))
        self.converged_, self.message_ = result.converged, result.message
        self.n_iter_, self.n_evaluations_ = result.n_iterations, result.n_evaluations
        self.jitter_, self.sites_ = result.jitter, result.sites
        self.interrupted_ = result.interrupted
        self.n_rows_ = len(outputs)

    @property
    def _scale(self):
        return self.output_scale_[0] if self.posterior_.single else self.output_scale_

    def _inputs(self, X) -> Any:
        check_is_fitted(self, "posterior_")
        return validate_data(self, X, dtype=np.float64, order="C", reset=False)

    def _marginals(self, X):
        """Means and standard deviations of f."""
        with jax.enable_x64(True), one_blas_thread():
            mean, var = map(np.asarray, self.posterior_.marginals(X))
        return mean * self._scale, np.sqrt(var) * self._scale

    def _joint(self, X):
        """Means of f, and covariances with the axis of the outputs last."""
        with jax.enable_x64(True), one_blas_thread():
            mean, cov = map(np.asarray, self.posterior_.joint(X))
        cov = cov if self.posterior_.single else np.moveaxis(cov, 0, -1)
        return mean * self._scale, cov * self._scale**2

    def _outputs(self, X, noise_variance):
        return predict_outputs(self.posterior_, self.output_scale_, X, noise_variance)

    def _single(self, values):
        """Values (n, P, ...) without the axis of the outputs where y was a vector."""
        return values[:, 0] if self.posterior_.single else values


def _not_both(return_std, return_cov):
    if return_std and return_cov:
        raise ValueError("ask for either return_std or return_cov, not both")
