"""What inference gives: a Gaussian process again."""

import abc
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from cavity.inference.graph.rows import Rows
from cavity.inference.graph.views import InducingView, OutputMean
from cavity.inference.variables.inducing import InducingBelief
from cavity.likelihoods.predictive.base import AbstractPredictive
from cavity.models.base import AbstractGP
from cavity.numerics.chunking import cached_size, map_over_rows, padded_size
from cavity.numerics.jit import compiled
from cavity.numerics.linalg import jittered, product_lower
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.numerics.validation import (
    as_floats,
    check_columns,
    check_finite,
    check_side,
    check_side_names,
)

# Values of one N x M matrix held at a time by predictions.
BUDGET = 1 << 22


class Marginals(NamedTuple):
    """Means and variances, one per row (and per output, as a second axis)."""

    mean: Float[Array, "..."]
    var: Float[Array, "..."]


class Joint(NamedTuple):
    """Mean and covariance over rows; with several outputs, covariances are (P, n, n)."""

    mean: Float[Array, "..."]
    cov: Float[Array, "..."]


class AbstractPosterior(eqx.Module):
    """The posterior process of a model: marginals, joint distributions, samples, predictions.

    Marginals are computed in chunks, so their memory does not grow with the square of the rows.

    To implement:
        fields `model`, `n_inputs`, `outputs`, `single`, `side`; `size`, `moments(X)` and
        `covariance(X)`.
    """

    model: eqx.AbstractVar[AbstractGP]
    n_inputs: eqx.AbstractVar[int]
    outputs: eqx.AbstractVar[int]
    single: eqx.AbstractVar[bool]  # y was given as a vector
    side: eqx.AbstractVar[tuple[str, ...]]  # names of the side data that came with the data

    @property
    def known_noise(self) -> bool:
        """Whether the data came with noise variances of their own."""
        return "noise_variance" in self.side

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Values that each row is compared with."""

    @abc.abstractmethod
    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Float[Array, "n P"]]:
        """Means and variances of f at the rows of X."""

    @abc.abstractmethod
    def covariance(self, X: Float[Array, "n D"]) -> Float[Array, "P n n"]:
        """Covariances of f between the rows of X, per output."""

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
        mean, var = self._in_chunks(_moments, self._inputs(X))
        return Marginals(self._shape(mean), self._shape(var))

    def joint(self, X: Any) -> Joint:
        """Mean and covariance of f over the rows of X, n x n.

        Returns:
            `mean` (n,) and `cov` (n, n); with several outputs (n, P) and (P, n, n).

        Raises:
            ValueError: if X has the wrong number of columns or is not finite.
        """
        X = self._inputs(X)
        mean, _ = self._in_chunks(_moments, X)
        cov = _covariance(self, X)
        return Joint(self._shape(mean), cov[0] if self.single else cov)

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
        """
        X = self._inputs(X)
        mean, _ = self._in_chunks(_moments, X)
        draws = mean + self._about_mean(X, (n, *mean.shape), key)
        return draws[..., 0] if self.single else draws

    def _about_mean(self, X: Array, shape: tuple[int, ...], key: PRNGKeyArray) -> Array:
        """Joint samples about the mean, (n, rows, P); outputs are independent."""
        roots = _root(_covariance(self, X))
        noise = jax.random.normal(key, (shape[0], roots.shape[0], shape[1]), roots.dtype)
        return jnp.einsum("pij,spj->sip", roots, noise)

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
        X = self._inputs(X)
        side: Any = check_side(rows, X.shape[0])
        check_side_names(side, self.model.likelihood.side, "this model")
        missing = [name for name in self.side if name not in side]
        if missing:
            known = missing[0].replace("_", " ")
            raise ValueError(
                f"the model was fitted with a known {known} per row, so predicting y needs them "
                f'too: pass rows={{"{missing[0]}": ...}}, or use marginals(X) for the function'
            )
        return self._predicted(X, side)

    def _predicted(self, X: Array, side: Any) -> AbstractPredictive:
        """The predictive distribution at inputs and with side data that were checked."""
        mean, var = self._for_likelihood(X)
        if self.model.likelihood.latents > 1:
            mean, var = mean.T, jnp.moveaxis(var, 0, -1)
        elif not self.single:
            side = {name: values[:, None] for name, values in side.items()}
        return _predictive(self.model.likelihood, mean, var, side)

    def _for_likelihood(self, X: Any) -> Marginals:
        """Means, and variances or the covariances between the latent functions of a row."""
        return self.marginals(X)

    def _inputs(self, X: Any) -> Float[Array, "n D"]:
        X = as_floats("X", X)
        check_columns("X", X, self.n_inputs)
        check_finite("X", X)
        return X

    def _shape(self, x: Float[Array, "n P"]) -> Any:
        # not jnp.asarray, which compiles for every shape
        return jax.device_put(x[:, 0] if self.single else x)

    def _in_chunks(self, fn: Callable, X: Float[Array, "n D"]) -> Any:
        if isinstance(X, Tracer):
            return fn(self, X)
        inputs = np.asarray(X)
        n = inputs.shape[0]
        chunk = max(1 << max((BUDGET // max(self.size, 1)).bit_length() - 1, 0), 64)
        size = min(chunk, padded_size(n))
        parts = []
        for start in range(0, n, size):
            part = inputs[start : start + size]
            rows = part.shape[0]
            padded = np.concatenate([part, np.repeat(part[:1], size - rows, axis=0)])
            parts.append(jax.tree.map(lambda x, rows=rows: _first(x, rows), fn(self, padded)))
        if len(parts) == 1:
            return parts[0]
        known = isinstance(parts[0][0], np.ndarray)
        return jax.tree.map(lambda *x: (np if known else jnp).concatenate(x), *parts)


def _first(x: Any, rows: int) -> Any:
    """The first rows; of known values in numpy, because JAX compiles a slice of every length."""
    return x[:rows] if isinstance(x, Tracer) else np.asarray(x)[:rows]


@compiled
def _moments(posterior: AbstractPosterior, X: Array) -> tuple[Array, Array]:
    return map_over_rows(posterior.moments, X, cached_size(X.shape[0]))


@compiled
def _covariance(posterior: AbstractPosterior, X: Array) -> Array:
    _, var = posterior.moments(X)
    index = jnp.arange(X.shape[0])
    # a difference of two matrices may leave a negative variance; the marginals' never are
    return posterior.covariance(X).at[:, index, index].set(var.T)


@compiled
def _root(cov: Float[Array, "P n n"]) -> Float[Array, "P n n"]:
    # an eigendecomposition, because covariances of near points are singular to rounding
    values, vectors = jnp.linalg.eigh(cov)
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))[:, None, :]


class SparsePosterior(AbstractPosterior):
    r"""Posterior of a sparse GP, through its M inducing variables.

    $f(\mathbf x)$ has mean $\mathbf a^\top \mathbf m$ and variance $d + \mathbf a^\top \mathbf
    B^{-1} \mathbf a$: a sum of terms that are never negative.
    """

    model: AbstractGP
    view: InducingView
    belief: InducingBelief
    n_inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    side: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def size(self) -> int:
        return self.view.inducing.size

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Float[Array, "n P"]]:
        projection = self.view.project(_rows(X, self.outputs))
        mean, var = self.belief.marginal(projection)
        return mean + projection.offset, var + projection.residual[:, None]

    def covariance(self, X: Float[Array, "n D"]) -> Float[Array, "P n n"]:
        block = self.view.project(_rows(X[None], self.outputs))
        _, cov = self.belief.marginal(block)
        return cov[0] + block.residual


class FullPosterior(AbstractPosterior):
    r"""Posterior of a full GP, through its values at the N training inputs.

    Mean $\mathbf k^\top \mathbf w$, variance $k - |\mathbf R \mathbf k|^2$, plus
    $|\mathbf S \mathbf k|^2$ where the data raise it (sites of negative precision).
    """

    model: AbstractGP
    inputs: Float[Array, "N D"]
    weights: Float[Array, "N P"]
    root: Float[Array, "G N N"]
    n_inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    side: tuple[str, ...] = eqx.field(static=True, default=())
    raised: Float[Array, "G N N"] | None = None

    @property
    def size(self) -> int:
        return self.inputs.shape[0]

    @property
    def _parts(self) -> tuple[Any, Any]:
        """The kernel and the mean of the one latent function."""
        return self.model.kernel, self.model.mean

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Float[Array, "n P"]]:
        kernel, mean_function = self._parts
        cross = kernel.cross(self.inputs, X)
        mean = cross.T @ self.weights + OutputMean(mean_function, self.outputs)(X)
        half = jax.vmap(product_lower, (0, None))(self.root, cross)
        var = kernel.diag(X)[:, None] - jnp.sum(half**2, axis=1).T
        if self.raised is not None:
            var = var + jnp.sum((self.raised @ cross) ** 2, axis=1).T
        var = jnp.maximum(var, 0.0)
        return mean, jnp.broadcast_to(var, mean.shape)

    def covariance(self, X: Float[Array, "n D"]) -> Float[Array, "P n n"]:
        kernel, _ = self._parts
        cross = kernel.cross(self.inputs, X)
        half = self.root @ cross
        prior = jittered(kernel.cross(X, X), 0.0, kernel.diag(X))
        cov = prior - jnp.swapaxes(half, -1, -2) @ half
        if self.raised is not None:
            half = self.raised @ cross
            cov = cov + jnp.swapaxes(half, -1, -2) @ half
        return jnp.broadcast_to(cov, (self.outputs, *cov.shape[1:]))


class LatentsPosterior(AbstractPosterior):
    """Posterior of several latent functions of one output, which are columns of its moments.

    Attributes:
        parts: the posterior of each.
    """

    model: AbstractGP
    parts: tuple[AbstractPosterior, ...]
    n_inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    side: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Float[Array, "n P"]]:
        means, variances = zip(*(part.moments(X) for part in self.parts), strict=True)
        return jnp.concatenate(means, axis=1), jnp.concatenate(variances, axis=1)

    def covariance(self, X: Float[Array, "n D"]) -> Float[Array, "P n n"]:
        return jnp.concatenate([part.covariance(X) for part in self.parts])


def _predictive(likelihood: Any, mean: Array, var: Array, side: Any) -> AbstractPredictive:
    if isinstance(mean, Tracer):
        return likelihood.predictive(mean, var, side)
    return _compiled_predictive(likelihood, mean, var, side)


@compiled
def _compiled_predictive(likelihood: Any, mean: Array, var: Array, side: Any) -> Any:
    return likelihood.predictive(mean, var, side)


def _rows(X: Array, outputs: int) -> Rows:
    y = jnp.zeros((*X.shape[:-1], outputs), X.dtype)
    return Rows(X, y, y)
