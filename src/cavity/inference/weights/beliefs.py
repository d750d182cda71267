"""Beliefs about weights: by a p x p root, or by function values at the rows of the data."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.graph.base import AbstractMessages, AbstractProjectedBelief, AbstractResponse
from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.variables.function_values import FunctionValuesBelief
from cavity.inference.weights.block_sites import WeightBlockSites
from cavity.numerics.types import Array, Float, Int, Scalar

Pair = tuple[Array, Array]


class DenseWeights(AbstractProjectedBelief):
    r"""Weights with covariance $\mathbf R^\top \mathbf R$, one R per group of outputs.

    Attributes:
        sites: shifts and precisions of the sites of single weights, by which their priors count.
        block_sites: sites of blocks of weights; None where there are none.
        block_cavities: shifts and precisions of the blocks without their sites.
    """

    mean: Float[Array, "P p"]
    root: Float[Array, "G p p"]
    log_normaliser: Scalar
    sites: ScalarSites
    block_sites: WeightBlockSites | None = None
    block_cavities: tuple[Float[Array, "B P W"], Float[Array, "B P W W"]] | None = None

    def marginal(self, projection: Projection) -> Pair:
        A = projection.loadings
        if A is None:
            return self.weight_moments()
        mean, var = (self.mean @ A).T, jnp.sum((self.root @ A) ** 2, axis=1).T
        return mean, jnp.broadcast_to(var, mean.shape)

    def weight_moments(self) -> Pair:
        """Means and variances of the weights."""
        mean, var = self.mean.T, jnp.sum(self.root**2, axis=1).T
        return mean, jnp.broadcast_to(var, mean.shape)

    def row_moments(self) -> Pair | None:
        """Moments of the function at the rows of the data, where the belief knows them."""
        return None

    def joint(self, A: Float[Array, "p n"]) -> Float[Array, "P n n"]:
        """Covariances of the functions between rows with these loadings."""
        half = self.root @ A
        cov = jnp.swapaxes(half, 1, 2) @ half
        return jnp.broadcast_to(cov, (self.mean.shape[0], *cov.shape[1:]))

    def dense(self) -> tuple[Float[Array, "P p"], Float[Array, "P p p"]]:
        return self.mean, self.joint(jnp.eye(self.mean.shape[1], dtype=self.mean.dtype))

    def response(self) -> "WeightResponse":
        return WeightResponse(self.dense()[1], None)


class FactoredGroup(eqx.Module):
    r"""The weights of one output, by the values of its function at the rows of the data.

    Their covariance is $\mathbf D - \mathbf D \mathbf X^\top (\mathbf R^\top \mathbf R -
    \mathbf S^\top \mathbf S) \mathbf X \mathbf D + \mathbf U^\top \mathbf U$.

    Attributes:
        loadings: X.
        variance: D.
        mean: means of the weights.
        root: R.
        raised: S, where sites of the data may have negative precisions, and U, where those of
            the prior may; None elsewhere.
        row_mean: means of the function at the rows.
        row_var: variances there.
    """

    loadings: Float[Array, "N p"]
    variance: Float[Array, " p"]
    mean: Float[Array, " p"]
    root: Float[Array, "N N"]
    raised: tuple[Float[Array, "N N"] | None, Float[Array, "k p"] | None]
    row_mean: Float[Array, " N"]
    row_var: Float[Array, " N"]

    @classmethod
    def from_values(
        cls,
        X: Float[Array, "N p"],
        D: Float[Array, " p"],
        prior_mean: Float[Array, " p"],
        values: FunctionValuesBelief,
    ) -> "FactoredGroup":
        """The belief from the values of the function about those at the prior's mean."""
        mean = prior_mean + D * (X.T @ values.weights[:, 0])
        zero = jnp.zeros(X.shape[0], X.dtype)
        row_mean, row_var = values.marginal(Projection(None, zero, zero[:, None]))
        raised = None if values.raised is None else values.raised[0]
        row_mean = row_mean[:, 0] + X @ prior_mean
        return cls(X, D, mean, values.root[0], (raised, None), row_mean, row_var[:, 0])

    def covariance_with(self, index: Int[Array, " k"]) -> Float[Array, "k p"]:
        """Covariances of some weights with all."""
        X, D = self.loadings, self.variance
        some = X[:, index] * D[index]
        seen = -self.root.T @ (self.root @ some)
        if self.raised[0] is not None:
            seen = seen + self.raised[0].T @ (self.raised[0] @ some)
        cov = (seen.T @ X) * D
        return cov.at[jnp.arange(index.shape[0]), index].add(D[index])

    def raised_by(
        self, U: Float[Array, "k p"], change: Float[Array, " p"], row_var: Float[Array, " N"]
    ) -> "FactoredGroup":
        r"""The belief with $\mathbf U^\top \mathbf U$ more covariance, and its means changed.

        Args:
            U: what covariances are raised by.
            change: of the means.
            row_var: what $\mathbf U^\top \mathbf U$ is for the function at the rows.
        """
        return dataclasses.replace(
            self,
            mean=self.mean + change,
            raised=(self.raised[0], U),
            row_mean=self.row_mean + self.loadings @ change,
            row_var=self.row_var + row_var,
        )

    def variances(self) -> Float[Array, " p"]:
        """Variances of the weights."""
        XD = self.loadings * self.variance
        var = self.variance - jnp.sum((self.root @ XD) ** 2, axis=0)
        if self.raised[0] is not None:
            var = var + jnp.sum((self.raised[0] @ XD) ** 2, axis=0)
        var = jnp.maximum(var, 0.0)
        return var if self.raised[1] is None else var + jnp.sum(self.raised[1] ** 2, axis=0)

    def joint(self, A: Float[Array, "p n"], B: Float[Array, "p m"]) -> Float[Array, "n m"]:
        """Covariances between two sets of linear functions of the weights."""
        XD = self.loadings * self.variance
        a, b = XD @ A, XD @ B
        cov = A.T @ (self.variance[:, None] * B) - (self.root @ a).T @ (self.root @ b)
        if self.raised[0] is not None:
            cov = cov + (self.raised[0] @ a).T @ (self.raised[0] @ b)
        if self.raised[1] is not None:
            cov = cov + (self.raised[1] @ A).T @ (self.raised[1] @ B)
        return cov

    def spread(self, A: Float[Array, "p n"]) -> Float[Array, " n"]:
        """Variances of linear functions of the weights."""
        a = (self.loadings * self.variance) @ A
        var = self.variance @ A**2 - jnp.sum((self.root @ a) ** 2, axis=0)
        if self.raised[0] is not None:
            var = var + jnp.sum((self.raised[0] @ a) ** 2, axis=0)
        var = jnp.maximum(var, 0.0)
        return var if self.raised[1] is None else var + jnp.sum((self.raised[1] @ A) ** 2, axis=0)


class FactoredWeights(AbstractProjectedBelief):
    """Weights of which there are more than rows, output by output.

    Attributes:
        sites: shifts and precisions of the sites of single weights, by which their priors count.
    """

    groups: tuple[FactoredGroup, ...]
    log_normaliser: Scalar
    sites: ScalarSites

    def marginal(self, projection: Projection) -> Pair:
        A = projection.loadings
        if A is None:
            return self.weight_moments()
        pairs = [(group.mean @ A, group.spread(A)) for group in self.groups]
        mean, var = (jnp.stack(each, axis=1) for each in zip(*pairs, strict=True))
        return mean, var

    def weight_moments(self) -> Pair:
        """Means and variances of the weights."""
        mean = jnp.stack([group.mean for group in self.groups], axis=1)
        return mean, jnp.stack([group.variances() for group in self.groups], axis=1)

    def row_moments(self) -> Pair | None:
        """Moments of the function at the rows of the data, where the belief knows them."""
        mean = jnp.stack([group.row_mean for group in self.groups], axis=1)
        return mean, jnp.stack([group.row_var for group in self.groups], axis=1)

    def joint(self, A: Float[Array, "p n"]) -> Float[Array, "P n n"]:
        """Covariances of the functions between rows with these loadings."""
        return jnp.stack([group.joint(A, A) for group in self.groups])

    def dense(self) -> tuple[Float[Array, "P p"], Float[Array, "P p p"]]:
        size = self.groups[0].mean.shape[0]
        mean = jnp.stack([group.mean for group in self.groups])
        return mean, self.joint(jnp.eye(size, dtype=mean.dtype))

    def response(self) -> "WeightResponse":
        loadings = self.groups[0].loadings
        eye = jnp.eye(loadings.shape[1], dtype=loadings.dtype)
        both = jnp.concatenate([loadings.T, eye], axis=1)
        return WeightResponse(self.joint(both), loadings.shape[0])


class WeightChange(NamedTuple):
    """First-order changes of moments, of rows of the data first where there are sites on them."""

    mean: Array
    var: Array


class WeightResponse(AbstractResponse):
    r"""Through the covariance: mean + Σh, covariance - ΣPΣ.

    Attributes:
        covariance: of the weights; or of the functions at the rows of the data, and the weights.
        rows: how many rows these are; None where it is of the weights alone.
    """

    covariance: Float[Array, "P s s"]
    rows: int | None = eqx.field(static=True)

    def change(self, messages: AbstractMessages) -> WeightChange:
        m: Any = messages
        outputs = self.covariance.shape[0]
        if self.rows is None:
            shift = m.row_shift + jnp.broadcast_to(m.shift.T, m.row_shift.shape)
            own = jnp.broadcast_to(m.precision.T, (outputs, m.precision.shape[0]))
            precision = m.row_precision + own[:, :, None] * jnp.eye(own.shape[1], dtype=own.dtype)
            mean = jnp.einsum("pij,pj->pi", self.covariance, shift)
            return WeightChange(mean, -self.covariance @ precision @ self.covariance)
        shift, precision = (
            jnp.concatenate([jnp.broadcast_to(x, (x.shape[0], outputs)) for x in pair]).T
            for pair in ((m.row_shift, m.shift), (m.row_precision, m.precision))
        )
        mean = jnp.einsum("pij,pj->pi", self.covariance, shift)
        return WeightChange(mean, -jnp.einsum("pij,pj->pi", self.covariance**2, precision))

    def marginal(self, change: WeightChange, projection: Projection) -> Pair:
        A = projection.loadings
        if self.rows is not None:
            part = slice(self.rows, None) if A is None else slice(self.rows)
            return change.mean[:, part].T, change.var[:, part].T
        if A is None:
            return change.mean.T, jnp.diagonal(change.var, axis1=1, axis2=2).T
        return (change.mean @ A).T, jnp.sum(A * (change.var @ A), axis=1).T
