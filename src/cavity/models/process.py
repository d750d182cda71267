"""Posterior processes: moments of latent functions at any inputs."""

import abc
import dataclasses
import functools
from collections.abc import Mapping
from typing import Protocol, cast, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import (
    AbstractInducing,
    Points,
    covariance,
    inducing_points,
    variances_from,
)
from cavity.inference.graph.rows import SLOPES, Rows
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inducing_view import (
    InducingView,
    OutputMean,
    observed,
    observed_mean,
)
from cavity.kernels.base import AbstractKernel
from cavity.kernels.expectations import (
    GaussianInputs,
    covariance_forms,
    expected_cross,
    expected_diag,
    expected_slopes,
)
from cavity.numerics.linalg import jittered, product_lower, remainder
from cavity.numerics.types import Array, Float


class AbstractProcess(eqx.Module):
    """Posterior moments of P functions, independent of each other or jointly Gaussian.

    To implement:
        `size`, `moments(X)` and `covariance(X)`; `rows`, where it holds those of the data.
    """

    @property
    def rows(self) -> Array | None:
        """Inputs of the rows that it is the posterior of, (N, D); None where it holds none."""
        return None

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of inducing variables, rows or weights that predictions are computed from."""

    @abc.abstractmethod
    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Array]:
        """Means at the rows of X; variances, or covariances between dependent functions."""

    @abc.abstractmethod
    def covariance(self, X: Float[Array, "n D"]) -> Array:
        """Covariances between the rows of X: (P, n, n), of dependent functions (P, n, P, n)."""


@runtime_checkable
class TakesGaussianInputs(Protocol):
    """A process of sparse functions, whose moments at Gaussian inputs are known."""

    def sparse_functions(self) -> list[tuple[InducingView, InducingBelief]]:
        """Views and beliefs of independent functions."""
        ...

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Array]:
        """Means and variances at inputs."""
        ...

    def moments_under(
        self, inputs: GaussianInputs
    ) -> tuple[Float[Array, "n P"], Float[Array, "n P"], Float[Array, "n P"]]:
        """Means at Gaussian inputs and both parts of variances, prior means left out."""
        ...

    def slopes_under(self, inputs: GaussianInputs) -> Float[Array, "n D P"]:
        """Expected slopes of the means at Gaussian inputs, prior means left out."""
        ...


class SparseProcess(AbstractProcess):
    r"""The posterior of a sparse GP, through its M inducing variables.

    $f(\mathbf x)$ has mean $\mathbf a^\top \mathbf m$ and variance $d + \mathbf a^\top \mathbf
    B^{-1} \mathbf a$: a sum of terms that are never negative.
    """

    view: InducingView
    belief: InducingBelief

    @property
    def size(self) -> int:
        return self.view.inducing.size

    def moments(self, X: Float[Array, "n D"]) -> tuple[Array, Array]:
        return self._moments(self._rows(X))

    def moments_of_slopes(
        self, X: Float[Array, "n D"], columns: Float[Array, " n"]
    ) -> tuple[Array, Array]:
        """Means and variances of slopes along columns; of values where the column is -1."""
        return self._moments(dataclasses.replace(self._rows(X), side={SLOPES: columns}))

    def _moments(self, rows: Rows) -> tuple[Array, Array]:
        projection = self.view.project(rows)
        mean, var = self.belief.marginal(projection)
        return mean + projection.offset, var + projection.residual[:, None]

    def sparse_functions(self) -> list[tuple[InducingView, InducingBelief]]:
        """The functions themselves, as view and belief."""
        return [(self.view, self.belief)]

    def moments_under(
        self, inputs: GaussianInputs
    ) -> tuple[Float[Array, "n P"], Float[Array, "n P"], Float[Array, "n P"]]:
        r"""Means of the functions at Gaussian inputs and both parts of their variances.

        Prior means are left out. The variance at an input, averaged over inputs, is the sum of
        what inducing variables leave unexplained and of their own uncertainty, $\mathbb E d +
        \mathbb E \mathbf a^\top \mathbf B^{-1} \mathbf a$. The second part is the variance of the
        mean, $\operatorname{Var} \mathbf a^\top \mathbf m$. Only $\mathbb E d$ is a difference.

        Raises:
            ValueError: for inducing variables that are no points.

        References:
            Bui (2017), S2; Chamberlin (2016), S16.
        """
        kernel, root = self.view.kernel, self.view.root
        Z = inducing_points(self.view.inducing)
        mean, own = self.belief.mean.reshape(-1, root.shape[0]), self.belief.root @ root
        half = root @ expected_cross(kernel, inputs, Z).T
        spread = jnp.swapaxes(own, -1, -2) @ own
        weights = mean @ root
        matrices = jnp.concatenate(
            [(root.T @ root)[None], spread, weights[:, :, None] * weights[:, None, :]]
        )
        forms = covariance_forms(kernel, inputs, Z, matrices)
        count = spread.shape[0]
        left = expected_diag(kernel, inputs) - jnp.sum(half**2, axis=0) - forms[:, 0]
        own_var = jnp.sum((self.belief.root @ half) ** 2, axis=1).T + forms[:, 1 : 1 + count]
        of_mean = forms[:, 1 + count :]
        left, own_var, of_mean = (jnp.maximum(x, 0.0) for x in (left[:, None], own_var, of_mean))
        # functions of the same noise share their own variances
        return (mean @ half).T, jnp.broadcast_to(left + own_var, of_mean.shape), of_mean

    def slopes_under(self, inputs: GaussianInputs) -> Float[Array, "n D P"]:
        """Expected slopes of the functions' means at Gaussian inputs, prior mean left out."""
        mean = self.belief.mean.reshape(-1, self.view.root.shape[0])
        Z = inducing_points(self.view.inducing)
        slopes = expected_slopes(self.view.kernel, inputs, Z)
        return jnp.einsum("nmd,pm->ndp", slopes, mean @ self.view.root)

    def covariance(self, X: Float[Array, "n D"]) -> Array:
        block = self.view.project(self._rows(X[None]))
        _, cov = self.belief.marginal(block)
        return cov[0] + block.residual

    def _rows(self, X: Array) -> Rows:
        return rows_of(X, self.view.mean)


def rows_of(X: Array, mean: OutputMean) -> Rows:
    """Rows without data at these inputs."""
    y = jnp.zeros((*X.shape[:-1], mean.outputs), X.dtype)
    return Rows(X, y, y)


class FullProcess(AbstractProcess):
    r"""A posterior through N functionals: of a full GP its values at the training inputs.

    Mean $\mathbf k^\top \mathbf w$, variance $k - |\mathbf R \mathbf k|^2$, plus
    $|\mathbf S \mathbf k|^2$ where the data raise it (sites of negative precision).

    Attributes:
        inputs: where values are known, or other functionals that are.
    """

    kernel: AbstractKernel
    mean: OutputMean
    inputs: Float[Array, "N D"] | AbstractInducing
    weights: Float[Array, "N P"]
    root: Float[Array, "G N N"]
    raised: Float[Array, "G N N"] | None = None

    @property
    def size(self) -> int:
        return self.weights.shape[0]

    @property
    def rows(self) -> Array | None:
        return None if isinstance(self.inputs, AbstractInducing) else self.inputs

    def moments(self, X: Float[Array, "n D"]) -> tuple[Array, Array]:
        return self._moments(rows_of(X, self.mean))

    def moments_of_slopes(
        self, X: Float[Array, "n D"], columns: Float[Array, " n"]
    ) -> tuple[Array, Array]:
        """Means and variances of slopes along columns; of values where the column is -1."""
        return self._moments(dataclasses.replace(rows_of(X, self.mean), side={SLOPES: columns}))

    def _moments(self, rows: Rows) -> tuple[Array, Array]:
        seen = observed(rows)
        cross = self._cross(seen)
        mean = cross.T @ self.weights + observed_mean(self.mean, rows)
        half = jax.vmap(product_lower, (0, None))(self.root, cross)
        prior = variances_from(seen, self.kernel)[:, None]
        var = remainder(prior, jnp.sum(half**2, axis=1).T, self.size)
        if self.raised is not None:
            var = var + jnp.sum((self.raised @ cross) ** 2, axis=1).T
        return mean, jnp.broadcast_to(var, mean.shape)

    def covariance(self, X: Float[Array, "n D"]) -> Array:
        cross = self._cross(Points(X))
        prior = jittered(self.kernel.cross(X, X), 0.0, self.kernel.diag(X))
        return self._lowered(prior, cross, cross)

    def covariance_across(self, X: Float[Array, "n D"], Z: Float[Array, "m D"]) -> Array:
        """Covariances between the rows of X and those of Z, (P, n, m)."""
        left, right = (self._cross(Points(x)) for x in (X, Z))
        return self._lowered(self.kernel.cross(X, Z), left, right)

    def _lowered(self, prior: Array, left: Array, right: Array) -> Float[Array, "P n m"]:
        """Covariances given the data, from those before and those with what is known."""
        cov = prior - jnp.swapaxes(self.root @ left, -1, -2) @ (self.root @ right)
        if self.raised is not None:
            cov = cov + jnp.swapaxes(self.raised @ left, -1, -2) @ (self.raised @ right)
        return jnp.broadcast_to(cov, (self.mean.outputs, *cov.shape[1:]))

    def _cross(self, functionals: AbstractInducing) -> Float[Array, "N n"]:
        known = self.inputs
        known = known if isinstance(known, AbstractInducing) else Points(known)
        return covariance(self.kernel, known, functionals)


class IndependentProcess(AbstractProcess):
    """Several latent functions that are independent of each other, one after the other.

    Attributes:
        functions: the posterior process of each.
    """

    functions: tuple[AbstractProcess, ...]

    @property
    def size(self) -> int:
        return sum(function.size for function in self.functions)

    @property
    def rows(self) -> Array | None:
        return self.functions[0].rows

    def moments(self, X: Float[Array, "n D"]) -> tuple[Array, Array]:
        means, variances = zip(*(f.moments(X) for f in self.functions), strict=True)
        return jnp.concatenate(means, axis=1), jnp.concatenate(variances, axis=1)

    def sparse_functions(self) -> list[tuple[InducingView, InducingBelief]]:
        """Views and beliefs of all functions."""
        return [pair for f in self._sparse for pair in f.sparse_functions()]

    def moments_under(self, inputs: GaussianInputs) -> tuple[Array, Array, Array]:
        """Means at Gaussian inputs and both parts of variances, prior means left out."""
        each = [f.moments_under(inputs) for f in self._sparse]
        mean, within, between = (
            jnp.concatenate(parts, axis=1) for parts in zip(*each, strict=True)
        )
        return mean, within, between

    def slopes_under(self, inputs: GaussianInputs) -> Float[Array, "n D P"]:
        """Expected slopes of the means of all functions at Gaussian inputs."""
        return jnp.concatenate([f.slopes_under(inputs) for f in self._sparse], axis=2)

    @property
    def _sparse(self) -> tuple[TakesGaussianInputs, ...]:
        return cast(tuple[TakesGaussianInputs, ...], self.functions)

    def covariance(self, X: Float[Array, "n D"]) -> Array:
        return jnp.concatenate([function.covariance(X) for function in self.functions])


@functools.singledispatch
def functions_of(process: AbstractProcess) -> tuple[AbstractProcess, ...]:
    """The independent functions of a process, one or several."""
    return (process,)


@functions_of.register
def _(process: IndependentProcess) -> tuple[AbstractProcess, ...]:
    return process.functions


class MarginalProcess(AbstractProcess):
    """One of the functions of a process.

    Attributes:
        process: the process of all functions.
        index: which of them.
    """

    process: AbstractProcess
    index: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.process.size

    def moments(self, X: Float[Array, "n D"]) -> tuple[Array, Array]:
        mean, spread = self.process.moments(X)
        column = slice(self.index, self.index + 1)
        return mean[:, column], variances(spread)[:, column]

    def covariance(self, X: Float[Array, "n D"]) -> Array:
        return function_covariances(self.process.covariance(X))[self.index][None]


def variances(spread: Array) -> Float[Array, "n P"]:
    """Variances of each function, from variances or covariances between functions."""
    index = np.arange(spread.shape[1])
    return spread if spread.ndim == 2 else spread[:, index, index]


def function_covariances(cov: Float[Array, "P n ..."]) -> Float[Array, "P n n"]:
    """Covariances between rows of each function, where those between functions may be known."""
    index = np.arange(cov.shape[0])
    return cov if cov.ndim == 3 else cov[index, :, index]


@functools.singledispatch
def moments_of_slopes(
    process: AbstractProcess, X: Float[Array, "n D"], columns: Float[Array, " n"]
) -> tuple[Float[Array, "n P"], Array]:
    """Means and variances of slopes along columns; of values where the column is -1.

    Raises:
        ValueError: for several latent functions.
    """
    raise ValueError("slopes are those of the function of a model with one latent function")


@moments_of_slopes.register(SparseProcess)
@moments_of_slopes.register(FullProcess)
def _(
    process: SparseProcess | FullProcess, X: Float[Array, "n D"], columns: Float[Array, " n"]
) -> tuple[Float[Array, "n P"], Array]:
    return process.moments_of_slopes(X, columns)


def along_draws(
    mean: Float[Array, "n S P"],
    var: Float[Array, "n S P"],
    side: Mapping[str, Array],
    *,
    several: bool,
    single: bool,
) -> tuple[Float[Array, "S ..."], Float[Array, "S ..."], Mapping[str, Array]]:
    """Moments of f in S draws as a likelihood takes them, with the draws along a first axis.

    Args:
        mean: means.
        var: variances.
        side: side data by name.
        several: whether an output has several latent functions.
        single: whether outputs were given as a vector.
    """
    if not several and not single:
        side = {name: values[:, None] for name, values in side.items()}
    elif not several:
        mean, var = mean[..., 0], var[..., 0]
    else:
        mean, var = jnp.moveaxis(mean, 2, 0), jnp.moveaxis(var, 2, 0)
    axis = 2 if several else 1
    mean, var = (jnp.moveaxis(jnp.asarray(a), axis, 0) for a in (mean, var))
    return mean, var, side
