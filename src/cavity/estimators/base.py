"""What the estimators share: scikit-learn's interface, numpy in, numpy out, always float64."""

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity.estimators.frames import dates_as_days
from cavity.estimators.predictions import Predictions, function_of, predict_outputs
from cavity.estimators.registry import build_method, whole
from cavity.estimators.reinference import infer_again, left_out_densities
from cavity.estimators.settings import AUTO_INDUCING, Settings, build, check_side
from cavity.learning.data.batched import survey
from cavity.learning.data.batches import Batches
from cavity.learning.infer import one_blas_thread
from cavity.learning.initialisation.inducing_points import cluster_blocks
from cavity.learning.optimisers.checkpoint import Store
from cavity.learning.optimisers.lbfgs import Progress
from cavity.learning.optimisers.trials import fit_best
from cavity.learning.result import FitResult
from cavity.models.posterior import AbstractPosterior
from cavity.numerics.validation import check_magnitude

Tree = TypeVar("Tree")


def to_numpy(tree: Tree) -> Tree:
    """A module with its arrays as numpy arrays, which keep their precision anywhere."""
    return jax.tree.map(lambda a: np.array(a) if eqx.is_array(a) else a, tree)


# Settings are kept as they were given and checked by `fit`, as scikit-learn asks.


@dataclasses.dataclass(eq=False, repr=False)
class AbstractModelSettings:
    """Settings of model and inference; see `GPRegressor` for each."""

    kernel: object = "rbf"
    likelihood: object = "gaussian"
    method: object = "power_ep"
    power: object = 0.5
    n_inducing: object = "auto"
    inducing: object = "greedy"
    learn_inducing: object = True
    mean: object = "constant"


@dataclasses.dataclass(eq=False, repr=False)
class AbstractOutputSettings:
    """Settings that labels do not have; see `GPRegressor` for each."""

    block_size: object = None
    missing: object = "error"


@dataclasses.dataclass(eq=False, repr=False)
class AbstractEstimator(BaseEstimator):
    """A model with starting values from the data, learned and kept as numpy float64.

    The fields are settings of learning; see `GPRegressor` for each.

    To implement:
        `fit`, and how outputs are predicted. Classes derive from `AbstractModelSettings` too.
    """

    standardise: object = True
    n_restarts: object = 0
    max_iterations: object = 1000
    tolerance: object = 1e-3
    jitter: object = 1e-8
    random_state: object = None

    def predict_latent(self, X, return_std=False, return_cov=False):
        """Mean of the latent function f, and its standard deviation or covariance on request.

        Where the noise level is a function too, this is the function f alone; `posterior_` has
        the log noise variance as its second.

        Args:
            X: inputs, (n, D).
            return_std: also return the standard deviation of f, without noise.
            return_cov: also return the covariance of f over the rows.

        Returns:
            The mean (n,) or (n, P); with `return_std` a pair with the deviation of the same
            shape, with `return_cov` a pair with the covariance (n, n) or (n, n, P).

        Raises:
            ValueError: for unusable inputs, or when both std and cov are asked for.
        """
        not_both(return_std, return_cov)
        X = self._inputs(X)
        if return_cov:
            return self._joint(X)
        mean, std = self._marginals(X)
        return (mean, std) if return_std else mean

    # ---------------------------------------------------------------------------- learning

    def _learn(
        self,
        settings: Settings,
        X: np.ndarray,
        y: np.ndarray,
        scale: np.ndarray,
        side: dict[str, np.ndarray],
        callback: Callable[[Progress], None] | None,
        checkpoint: Store | None,
        batches: Batches | None,
    ) -> None:
        """Learns from outputs that are divided by `scale` first, and keeps the result.

        With batches these hold the data, and X and y are a sample of them to start from.
        """
        if checkpoint is not None and self.random_state is None:
            raise ValueError(
                "a checkpoint is for a fit that can be repeated: give the estimator a whole "
                "number as random_state, such as random_state=0"
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        settings = dataclasses.replace(settings, seed=seed)
        outputs = y.reshape(len(y), -1)
        size = settings.block_size
        with jax.enable_x64(True), one_blas_thread():
            if batches is not None and settings.n_inducing == "auto":
                settings = dataclasses.replace(settings, n_inducing=AUTO_INDUCING)
            starts, maps = build(settings, X, outputs / scale, side)
            divisor = scale if y.ndim > 1 else scale[0]
            data: tuple[object, object] = X, y / divisor
            observed, rows = np.sum(~np.isnan(outputs), axis=0), len(outputs)
            if batches is not None:
                scaled = divided(batches, divisor)
                stream = survey(
                    scaled,
                    starts[0].likelihood,
                    power=cast(ArrayLike, settings.power),
                    missing=settings.missing,
                )
                data, side = (stream, None), {}
                observed, rows = stream.observed, stream.length
            result = fit_best(
                starts,
                *data,
                power=cast(ArrayLike, settings.power),
                method=build_method(settings.method, seed),
                jitter=settings.jitter,
                blocks=None if size is None else cluster_blocks(X, whole("", size, 1), seed=seed),
                rows=side or None,
                missing=settings.missing,
                bijections=maps,
                n_restarts=settings.n_restarts,
                max_iterations=whole("max_iterations", settings.max_iterations, 0),
                tolerance=settings.tolerance,
                seed=seed,
                callback=callback,
                checkpoint=checkpoint,
            )
            self._keep(result, observed, rows, scale)
        if not (self.converged_ or self.interrupted_):
            warnings.warn(f"not converged: {self.message_}", ConvergenceWarning, stacklevel=3)

    def _settings(self, task: str, classes: int = 2) -> Settings:
        """The settings of this estimator, as they were given."""
        names = getattr(self, "feature_names_in_", None)
        chosen = {k: v for k, v in self.get_params(deep=False).items() if k != "random_state"}
        columns = None if names is None else tuple(map(str, names))
        return Settings(**chosen, task=task, classes=classes, names=columns)

    def _keep(self, result: FitResult, observed: np.ndarray, rows: int, scale: np.ndarray) -> None:
        self.output_scale_ = scale
        self.posterior_ = to_numpy(result.posterior)
        model = self.posterior_.model
        self.kernel_, self.likelihood_ = model.kernel, model.likelihood
        self.mean_, self.inducing_ = model.mean, model.inducing
        shift = float(observed @ np.log(self.output_scale_))
        value = result.log_evidence
        self.log_evidence_ = None if value is None else value - shift
        self.chains_ = result.chains
        self.converged_, self.message_ = result.converged, result.message
        self.n_iter_, self.n_evaluations_ = result.n_iterations, result.n_evaluations
        self.jitter_, self.sites_ = result.jitter, result.sites
        self.interrupted_ = result.interrupted
        self.n_rows_ = rows

    # ---------------------------------------------------------------------------- predicting

    @property
    def _scale(self) -> np.ndarray | np.floating:
        return self.output_scale_[0] if self._function.vector else self.output_scale_

    @property
    def _function(self) -> AbstractPosterior:
        """The posterior of the function f."""
        return function_of(self.posterior_)

    def _inputs(self, X) -> np.ndarray:
        check_is_fitted(self, "posterior_")
        X = dates_as_days(X)
        checked = np.asarray(validate_data(self, X, dtype=np.float64, order="C", reset=False))
        check_magnitude("X", checked, small=False)
        return checked

    def _marginals(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of f."""
        with jax.enable_x64(True), one_blas_thread():
            mean, var = map(np.asarray, self._function.marginals(X))
        return mean * self._scale, np.sqrt(var) * self._scale

    def _joint(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Means of f, and covariances with the axis of the outputs last."""
        with jax.enable_x64(True), one_blas_thread():
            mean, cov = map(np.asarray, self._function.joint(X))
        cov = cov if self._function.vector else np.moveaxis(cov, 0, -1)
        return mean * self._scale, cov * self._scale**2

    def _outputs(self, X, side: dict[str, np.ndarray]) -> Predictions:
        """The predictive distribution of y, given side data of the rows."""
        self._check_predictable(side)
        return predict_outputs(self.posterior_, self.output_scale_, X, side)

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
        settings = self._settings("")
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
            power=cast(ArrayLike, settings.power),
            jitter=settings.jitter,
            missing=settings.missing,
        )
        if not result.converged:
            warnings.warn(f"not converged: {result.message}", ConvergenceWarning, stacklevel=3)
        return left_out_densities(result, self.output_scale_)

    def _check_predictable(self, side: dict[str, np.ndarray]) -> None:
        """Refuses side data that nobody reads, and asks for those that came with the fit."""
        check_side(side, self.likelihood_, self._settings("").likelihood)
        missing = [name for name in self.posterior_.side if name not in side]
        if missing:
            raise ValueError(
                f"the model was fitted with a known {missing[0].replace('_', ' ')} per row, so "
                f"predicting y needs them too: pass {missing[0]}=..., or use predict_latent(X) "
                "for the function"
            )


def divided(batches: Batches, divisor: np.ndarray | np.floating) -> Batches:
    """Batches in float64, with their outputs divided."""

    def scaled() -> Iterator[tuple]:
        for batch in batches:
            X, y = (np.asarray(a) for a in (batch.X, batch.y))
            # what are no numbers is refused with its batch
            X, y = (a.astype(float) if a.dtype.kind in "fiub" else a for a in (X, y))
            yield X, y / divisor if y.dtype.kind == "f" else y, batch.rows

    return Batches(scaled, size=batches.size, buffer=batches.buffer)


def given(**side: object) -> dict[str, np.ndarray]:
    """The side data that are not None, as arrays."""
    return {name: np.asarray(values) for name, values in side.items() if values is not None}


def not_both(return_std: bool, return_cov: bool) -> None:
    """Refuses to give deviations and covariances at once."""
    if return_std and return_cov:
        raise ValueError("ask for either return_std or return_cov, not both")
