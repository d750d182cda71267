"""Gaussians that rows see of a variable, in the form that their sites and terms take."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.numerics.types import Array, Float

# A pair of arrays that a Gaussian has, in one of the forms below.
Moments = tuple[Array, Array]


class Projection(eqx.Module):
    r"""Linear map from a variable to rows: $f_n = o_n + \mathbf a_n^\top \mathbf v + \epsilon_n$.

    Attributes:
        loadings: $\mathbf a$, M x rows (several classes: one matrix for each, or for all,
            G x M x rows); None where row n sees the n-th element itself.
        residual: variance of $\epsilon$ given $\mathbf v$: one per row, or per row and output, or
            a covariance per block.
        offset: $o$, the prior mean of f.
    """

    loadings: Float[Array, "..."] | None
    residual: Float[Array, "..."]
    offset: Float[Array, "*rows P"]


class MeanRoot(NamedTuple):
    """A Gaussian that all rows share, as its mean and a root of its covariance, root^T root."""

    mean: Float[Array, "P M"]
    root: Float[Array, "P M M"]

    @property
    def row_moments(self) -> None:
        """None: no site of a row is on it."""
        return None


class Natural(NamedTuple):
    """A Gaussian, proper or not, by its natural parameters."""

    shift: Array
    precision: Array

    @property
    def row_moments(self) -> None:
        """None: no site of a row is on it."""
        return None


class ScaledSite(NamedTuple):
    r"""A site on a hidden value in units of its noise, $s \nu$ and $\log (1 + s^2 \tau)$."""

    shift: Array
    log_width: Array

    @property
    def row_moments(self) -> None:
        """None: no site of a row is on it."""
        return None


class Latent(NamedTuple):
    """The Gaussian distribution of f that a local term is given through one edge.

    Attributes:
        mean: mean of f, (rows, outputs), or (blocks, outputs, B).
        var: variance that comes from the variable.
        residual: variance that the variable does not explain.
    """

    mean: Array
    var: Array
    residual: Array

    @property
    def row_moments(self) -> Moments:
        """Mean and variance, which a site of the row is matched to."""
        return self.mean, self.var


# What a local term is given through one edge.
TermArgument = Latent | MeanRoot | Natural | ScaledSite


class AbstractMarginal(eqx.Module):
    """The Gaussian of a variable that a chunk of rows sees through one edge.

    To implement:
        `moments`, and `latent(first, second)`.
    """

    @property
    @abc.abstractmethod
    def moments(self) -> Moments:
        """The Gaussian, in the form that the sites of the edge take."""

    @abc.abstractmethod
    def latent(self, first: Array, second: Array) -> Any:
        """Argument of a term for another Gaussian of this form, such as a cavity."""

    @abc.abstractmethod
    def held(self) -> "AbstractMarginal":
        """The marginal with moments that are constant under differentiation."""


class SharedMarginal(AbstractMarginal):
    """A Gaussian that rows see as it is, in a form that is not a mean and a variance."""

    gaussian: MeanRoot | Natural | ScaledSite

    @property
    def moments(self) -> Moments:
        return self.gaussian

    def latent(self, first: Array, second: Array) -> MeanRoot | Natural | ScaledSite:
        return type(self.gaussian)(first, second)

    def held(self) -> "SharedMarginal":
        return SharedMarginal(jax.lax.stop_gradient(self.gaussian))


class Marginal(AbstractMarginal):
    """The marginal of a variable by its mean and variance.

    Attributes:
        mean: mean of what the sites are on, prior mean left out.
        var: variance or covariance of the same, residual left out.
        offset: prior mean of f.
        residual: variance that the variable does not explain.
    """

    mean: Array
    var: Array
    offset: Array
    residual: Array

    @classmethod
    def of_values(cls, mean: Array, var: Array) -> "Marginal":
        """The marginal of values themselves, without offset or residual."""
        zero = jnp.zeros((), mean.dtype)
        return cls(mean, var, zero, zero)

    @property
    def moments(self) -> Moments:
        return self.mean, self.var

    def latent(self, first: Array, second: Array) -> Latent:
        return Latent(first + self.offset, second, self.residual)

    def held(self) -> "Marginal":
        return Marginal(*jax.lax.stop_gradient(self.moments), self.offset, self.residual)


def projected_marginal(mean: Array, var: Array, projection: Projection) -> Marginal:
    """A marginal with the offset and residual of a projection, in the shapes of the mean."""
    offset, residual = projection.offset, projection.residual
    if mean.ndim == 2:
        residual = residual if residual.ndim == 2 else residual[:, None]
        return Marginal(mean, var, offset, residual)
    return Marginal(mean, var, jnp.swapaxes(offset, 1, 2), residual[:, None])
