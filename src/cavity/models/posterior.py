"""Posteriors: Gaussian processes again."""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from cavity.inducing.slopes import columns_of
from cavity.inference.graph.rows import SLOPES, Rows
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.predictive.base import AbstractPredictive, Side
from cavity.models.base import AbstractModel
from cavity.models.contributions import contributions
from cavity.models.process import (
    AbstractProcess,
    IndependentProcess,
    MarginalProcess,
    function_covariances,
    moments_of_slopes,
    variances,
)
from cavity.numerics.chunking import cached_size, map_over_rows, padded_size
from cavity.numerics.jit import compiled
from cavity.numerics.linalg import root_of
from cavity.numerics.memory import naming_covariance
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.numerics.validation import (
    check_columns,
    check_finite,
    check_side,
    check_side_names,
    float_array,
)
from cavity.parameters.table import TabledModel

# Values of one N x M matrix held at a time by predictions, and on a GPU.
BUDGET, BUDGET_ON_GPU = 1 << 22, 1 << 26


class Marginals(NamedTuple):
    """Means and variances, one per row (and per output, as a second axis)."""

    mean: Float[Array, "..."]
    var: Float[Array, "..."]


class Joint(NamedTuple):
    """Mean and covariance over rows; with several outputs, covariances are (P, n, n)."""

    mean: Float[Array, "..."]
    cov: Float[Array, "..."]


class AbstractPosterior(TabledModel, eqx.Module):
    """The posterior process of a model: marginals, joint distributions, samples, predictions.

    Marginals are computed in chunks, so their memory does not grow with the square of the rows.

    To implement:
        the fields, `size`, `moments(X)`, `covariance(X)` and `of_function(i)`; `_about_mean` and
        `drawn_likelihoods` for samples, and `_predicted` for predictions.

    Attributes:
        model: the model.
        n_inputs: columns of the inputs.
        outputs: number of functions, whether of several outputs or of one.
        single: whether y was given as a vector.
        side: names of the side data that came with the data.
    """

    model: eqx.AbstractVar[AbstractModel]
    n_inputs: eqx.AbstractVar[int]
    outputs: eqx.AbstractVar[int]
    single: eqx.AbstractVar[bool]
    side: eqx.AbstractVar[tuple[str, ...]]

    @property
    def known_noise(self) -> bool:
        """True if the data came with noise variances of their own."""
        return "noise_variance" in self.side

    @property
    def vector(self) -> bool:
        """True if moments are vectors: of one function, with outputs given as a vector."""
        return self.single and self.outputs == 1

    @property
    def numbers(self) -> int:
        """Number of real numbers in the posterior, and in a file of it."""
        leaves = jax.tree.leaves(self)
        return sum(int(np.size(x)) for x in leaves if isinstance(x, float) or eqx.is_array(x))

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of inducing variables, rows or weights that predictions are computed from."""

    @abc.abstractmethod
    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Array]:
        """Means of f at the rows of X; variances, or covariances between dependent functions."""

    @abc.abstractmethod
    def covariance(self, X: Float[Array, "n D"]) -> Array:
        """Covariances of f between the rows of X, (P, n, n), or (P, n, P, n) where dependent."""

    @abc.abstractmethod
    def of_function(self, i: int) -> "AbstractPosterior":
        """The posterior of one of several latent functions of one output."""

    @abc.abstractmethod
    def drawn_likelihoods(self, n: int, key: PRNGKeyArray) -> AbstractLikelihood | None:
        """Likelihoods of the samples of a key, on a first axis; None where all are the model's."""

    @abc.abstractmethod
    def _about_mean(self, X: Array, shape: tuple[int, ...], key: PRNGKeyArray) -> Array:
        """Joint samples about the mean, (n, rows, P)."""

    @abc.abstractmethod
    def _predicted(self, X: Array, side: Side) -> AbstractPredictive:
        """The predictive distribution at inputs and with side data that were checked."""

    def marginals(self, X: Any) -> Marginals:
        """Means and variances of the latent function f.

        Args:
            X: inputs, (n, D).

        Returns:
            `mean` and `var`, each (n,), or (n, P) if the model was given a matrix of outputs;
            of a likelihood with several latent functions, one column for each of them.

        Raises:
            ValueError: if X has the wrong number of columns or is not finite.
        """
        mean, spread = self._map_chunks(_moments, self.checked_inputs(X))
        return Marginals(self._shape(mean), self._shape(variances(spread)))

    def joint(self, X: Any) -> Joint:
        """Mean and covariance of f over the rows of X, n x n.

        Returns:
            `mean` (n,) and `cov` (n, n); with several outputs (n, P) and (P, n, n).

        Raises:
            ValueError: if X has the wrong number of columns or is not finite.
            MemoryError: if the covariances between so many rows do not fit into it.
        """
        X = self.checked_inputs(X)
        with naming_covariance(X.shape[0], self.outputs):
            mean, _ = self._map_chunks(_moments, X)
            cov = function_covariances(covariance_between_rows(self, X))
        return Joint(self._shape(mean), cov[0] if self.vector else cov)

    def sample(self, X: Any, n: int = 1, *, key: PRNGKeyArray) -> Array:
        """Joint samples of f at the rows of X.

        Args:
            X: inputs, (n_rows, D).
            n: number of samples.
            key: `jax.random.key(...)`.

        Returns:
            (n, n_rows), or (n, n_rows, P).

        Raises:
            ValueError: if X has the wrong number of columns or is not finite.
            MemoryError: if the covariances between so many rows do not fit into it.
        """
        X = self.checked_inputs(X)
        with naming_covariance(X.shape[0], self.outputs):
            mean, _ = self._map_chunks(_moments, X)
            draws = mean + self._about_mean(X, (n, *mean.shape), key)
        return draws[..., 0] if self.vector else draws

    def predict(self, X: Any, *, rows: Mapping[str, Any] | None = None) -> AbstractPredictive:
        """The predictive distribution of outputs y at new inputs, noise included.

        Args:
            X: inputs, (n, D).
            rows: side data of the rows, `{"noise_variance": (n,)}` where the model was given
                noise variances with its data.

        Returns:
            A distribution with `mean`, `var`, `log_density(y)` and `quantile(p)`.

        Raises:
            ValueError: if X is unusable, or noise variances are missing or unusable.
        """
        X, side = self.checked(X, rows)
        return self._predicted(X, side)

    def checked(
        self, X: Any, rows: Mapping[str, Any] | None = None
    ) -> tuple[Float[Array, "n D"], Side]:
        """New inputs and their side data, checked.

        Raises:
            ValueError: if X is unusable, or noise variances are missing or unusable.
        """
        X = self.checked_inputs(X)
        side: Any = check_side(rows, X.shape[0])
        check_side_names(side, self.model.side, "this model")
        missing = [name for name in self.side if name not in side and name != SLOPES]
        if missing:
            known = missing[0].replace("_", " ")
            raise ValueError(
                f"the model was fitted with a known {known} per row, so predicting y needs them "
                f'too: pass rows={{"{missing[0]}": ...}}, or use marginals(X) for the function'
            )
        return X, side

    def checked_inputs(self, X: Any) -> Float[Array, "n D"]:
        """New inputs, checked.

        Raises:
            ValueError: if X has the wrong number of columns or is not finite.
        """
        X = float_array("X", X)
        check_columns("X", X, self.n_inputs)
        check_finite("X", X)
        return X

    def moments_at(self, X: Float[Array, "n D"]) -> tuple[Array, Array]:
        """`moments` at any number of checked inputs, in chunks."""
        return self._map_chunks(_moments, X)

    def _shape(self, x: Array) -> Float[Array, "n *P"]:
        # not jnp.asarray, which compiles for every shape
        return jax.device_put(x[:, 0] if self.vector else x)

    def _map_chunks(self, fn: Callable[..., tuple[Array, Array]], X: Array) -> tuple[Array, Array]:
        if isinstance(X, Tracer):
            return fn(self, X)
        inputs: Any = np.asarray(X)
        n = inputs.shape[0]
        budget = BUDGET if jax.default_backend() == "cpu" else BUDGET_ON_GPU
        chunk = max(1 << max((budget // max(self.size, 1)).bit_length() - 1, 0), 64)
        size, parts = min(chunk, padded_size(n)), []
        for start in range(0, n, size):
            part = inputs[start : start + size]
            rows = part.shape[0]
            padded = np.concatenate([part, np.repeat(part[:1], size - rows, axis=0)])
            parts.append(jax.tree.map(lambda x, rows=rows: _first(x, rows), fn(self, padded)))
        if len(parts) == 1:
            return parts[0]
        known = isinstance(parts[0][0], np.ndarray)
        return jax.tree.map(lambda *x: (np if known else jnp).concatenate(x), *parts)


def _first(x: Array, rows: int) -> Any:
    """The first rows; of known values in numpy, because JAX compiles a slice of every length."""
    return x[:rows] if isinstance(x, Tracer) else np.asarray(x)[:rows]


@compiled
def _moments(posterior: AbstractPosterior, X: Array) -> tuple[Array, Array]:
    return map_over_rows(posterior.moments, X, cached_size(X.shape[0]))


@compiled
def _slopes(posterior: "Posterior", X: Array, columns: Array) -> tuple[Array, Array]:
    return moments_of_slopes(posterior.process, X, columns)


@compiled
def covariance_between_rows(posterior: AbstractPosterior, X: Array) -> Array:
    """Covariances of f between rows, (P, n, n), or (P, n, P, n); no variance is negative."""
    _, spread = posterior.moments(X)
    cov = posterior.covariance(X)
    function, row = jnp.arange(cov.shape[0])[:, None], jnp.arange(X.shape[0])
    diagonal = (function, row, row) if cov.ndim == 3 else (function, row, function, row)
    # a difference of two matrices may leave a negative variance; the marginals' never are
    return cov.at[diagonal].set(variances(spread).T)


_root = compiled(root_of)


class Posterior(AbstractPosterior):
    """The posterior of a model at fixed parameters.

    Attributes:
        process: moments of its latent functions. They are columns of `marginals`, be they
            several outputs or several functions of one output.
    """

    model: AbstractModel
    process: AbstractProcess
    n_inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    side: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def size(self) -> int:
        return self.process.size

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Array]:
        return self.process.moments(X)

    def covariance(self, X: Float[Array, "n D"]) -> Array:
        return self.process.covariance(X)

    def slopes(self, X: Any, column: int) -> Marginals:
        """Means and variances of the slopes of the latent function along one input column.

        Args:
            X: inputs, (n, D).
            column: counted from 0.

        Returns:
            `mean` and `var`, each (n,), or (n, P) if the model was given a matrix of outputs.

        Raises:
            ValueError: for unusable inputs, no such column, and a kernel without slopes.
        """
        X = self.checked_inputs(X)
        columns = columns_of("column", column, X.shape[0], self.n_inputs)
        mean, spread = _slopes(self, X, jnp.asarray(columns, X.dtype))
        return Marginals(self._shape(mean), self._shape(spread))

    def contributions(self, X: Any) -> Marginals:
        r"""Contribution of each part of the inputs to the function: $w_p\, g(\mathbf x^{[p]})$.

        Means add up to that of the function, its prior mean left out; variances do not, because
        parts are correlated. For `kernels.SumOver` with `inducing.InBase`; of a sum of kernels
        with `inducing.OfParts`, for the one term that is such a sum, to which means add up.

        Args:
            X: inputs, (n, D).

        Returns:
            `mean` and `var`, each (n, P) with P parts, or (n, P, F) of F functions.

        Raises:
            ValueError: for unusable inputs, and for other models.

        References:
            van der Wilk (2018), item 93.
        """
        mean, var = contributions(self.process, self.checked_inputs(X), sparse=self.model.sparse)
        return Marginals(*(a[..., 0] if self.vector else a for a in (mean, var)))

    def of_function(self, i: int) -> "Posterior":
        if self.model.likelihood.latents == 1:
            return self
        return dataclasses.replace(self, process=MarginalProcess(self.process, i), outputs=1)

    def drawn_likelihoods(self, n: int, key: PRNGKeyArray) -> None:
        return None

    def _about_mean(self, X: Array, shape: tuple[int, ...], key: PRNGKeyArray) -> Array:
        roots = _root(covariance_between_rows(self, X))
        noise = jax.random.normal(key, (shape[0], *roots.shape[:2]), roots.dtype)
        draws = jnp.einsum("bij,sbj->sbi", roots, noise).reshape(shape[0], -1, shape[1])
        return jnp.swapaxes(draws, 1, 2)

    def _predicted(self, X: Array, side: Side) -> AbstractPredictive:
        columns = side.get(SLOPES)
        if columns is None:
            mean, spread = self._map_chunks(_moments, X)
        else:
            side = {name: values for name, values in side.items() if name != SLOPES}
            columns = columns_of(SLOPES, columns, X.shape[0], self.n_inputs)
            mean, spread = _slopes(self, X, jnp.asarray(columns, X.dtype))
        if self.model.likelihood.latents > 1:
            mean, spread = mean.T, jnp.moveaxis(spread, 0, -1)
        else:
            mean, spread = self._shape(mean), self._shape(spread)
        if not self.single and self.model.likelihood.latents == 1:
            side = {name: values[:, None] for name, values in side.items()}
        return _predictive(self.model.likelihood, mean, spread, side)


@compiled
def _predictive(
    likelihood: AbstractLikelihood, mean: Array, var: Array, side: Side
) -> AbstractPredictive:
    return likelihood.predictive(mean, var, side)


def posterior_of_functions(
    model: AbstractModel, parts: Sequence[AbstractProcess], rows: Rows, *, single: bool
) -> Posterior:
    """The posterior of one function, or of several that are independent of each other."""
    latents = model.likelihood.latents
    return Posterior(
        model=model,
        process=parts[0] if len(parts) == 1 else IndependentProcess(tuple(parts)),
        n_inputs=rows.x.shape[-1],
        outputs=rows.y.shape[-1] if latents == 1 else latents,
        single=single,
        side=tuple(sorted(rows.side)),
    )
