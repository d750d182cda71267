r"""Hidden values of layers as Gaussian variables: what the functions of every layer give a row.

A layer's values may be independent of all else, depend on those of the layer below, or on the
inducing variables of their own functions,

$$q(\mathbf h_l \mid \cdot) = \mathcal N(\mathbf T_n\, \cdot + \mathbf m_n,
\operatorname{diag} \mathbf s_n),$$

so that a row's values are jointly Gaussian, and the entropy is that of the conditionals. Jointly
with those of the row's other functions they have slopes in the inducing variables of all of
these, and a full covariance in the place of $\operatorname{diag} \mathbf s_n$.

References:
    Chamberlin (2016), S10, S19, S20 and S22; Bui (2017), S56, S57 and S63.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.graph.base import AbstractBelief
from cavity.numerics.linalg import lower_root
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Scalar


class LayerValues(NamedTuple):
    """Gaussian values of one layer.

    Attributes:
        mean: means.
        cov: variances, or covariances between the values of a row.
        cross: covariances with the values of the layer below (rows of the matrix); None for none.
    """

    mean: Float[Array, "N W"]
    cov: Float[Array, "N W *matrix"]
    cross: Float[Array, "N D W"] | None = None

    @property
    def variances(self) -> Float[Array, "N W"]:
        """The variance of every value."""
        return self.cov if self.cov.ndim == 2 else jnp.diagonal(self.cov, axis1=1, axis2=2)

    def covariances(self) -> Float[Array, "N W W"]:
        """The covariances between the values of a row."""
        return (
            self.cov if self.cov.ndim == 3 else self.cov[:, :, None] * jnp.eye(self.cov.shape[1])
        )


class LayeredBelief(AbstractBelief):
    """The hidden values of every row.

    Attributes:
        layers: the values of hidden layers, the first one first.
        log_normaliser: their entropy.
    """

    layers: tuple[LayerValues, ...]
    log_normaliser: Scalar

    def followed_by(self, values: LayerValues, entropy: Scalar) -> "LayeredBelief":
        """The belief with the values of one more layer."""
        return LayeredBelief(
            layers=(*self.layers, values), log_normaliser=self.log_normaliser + entropy
        )


def no_layers(dtype: jnp.dtype) -> LayeredBelief:
    """The belief of no layers."""
    return LayeredBelief(layers=(), log_normaliser=jnp.zeros((), dtype))


class LayerMoments(eqx.Module):
    """The conditionals of the values of one layer, as free numbers that an optimiser moves.

    Attributes:
        mean: means where what they depend on is zero; of the layer below, where it has its mean.
        log_deviation: logarithms of standard deviations; with `lower`, of the diagonals of roots.
        slopes: of the layer below, (N, D, W), or of the inducing variables of each group of
            functions, (M, N, W); none for values that are independent. With `lower`, of the
            inducing variables of all functions, one function after another, (all, N, W).
        lower: what lower triangular roots of covariances between the values of a row have below
            their diagonals; None for values that are independent given what they depend on.
    """

    mean: Float[Array, "N W"]
    log_deviation: Float[Array, "N W"]
    slopes: tuple[Array, ...] = ()
    lower: Float[Array, "N W W"] | None = None

    def alone(self) -> LayerValues:
        """The values where what they depend on is zero."""
        return LayerValues(self.mean, self.var)

    def following(self, below: LayerValues) -> LayerValues:
        """The values given those of the layer below, on which they depend."""
        (slopes,) = self.slopes
        cross = below.covariances() @ slopes
        if slopes.shape[2] == 1:
            return LayerValues(self.mean, self.var + jnp.sum(slopes * cross, axis=1), cross)
        own = self.var[:, :, None] * jnp.eye(slopes.shape[2])
        return LayerValues(self.mean, own + jnp.swapaxes(slopes, 1, 2) @ cross, cross)

    @property
    def var(self) -> Float[Array, "N W"]:
        """The variances of the conditionals."""
        return LayerValues(self.mean, self.cov).variances

    @property
    def cov(self) -> Float[Array, "N W *matrix"]:
        """The variances of the conditionals, or covariances between the values of a row."""
        if self.lower is None:
            return jnp.exp(2.0 * self.log_deviation)
        root = lower_root(self.lower, self.log_deviation)
        return root @ jnp.swapaxes(root, 1, 2)


class LayeredMoments(eqx.Module):
    """The conditionals of the hidden values of all layers.

    Attributes:
        layers: those of each layer; none where all follow from inducing variables.
    """

    layers: tuple[LayerMoments, ...]

    def belief(self, present: Float[Array, "N 1"], *, chained: bool) -> LayeredBelief:
        """The hidden values themselves, where they do not depend on inducing variables.

        Args:
            present: 1 where a row has hidden values.
            chained: whether they depend on those of the layer below.
        """
        values: list[LayerValues] = []
        entropy = jnp.zeros((), present.dtype)
        for layer in self.layers:
            after = chained and values
            values.append(layer.following(values[-1]) if after else layer.alone())
            entropy = entropy + conditional_entropy(layer.var, present)
        return LayeredBelief(layers=tuple(values), log_normaliser=entropy)


def conditional_entropy(var: Float[Array, "N W"], present: Float[Array, "N 1"]) -> Scalar:
    """The entropy of conditionals with these variances, of all rows that are present."""
    return jnp.sum(present * (0.5 * (1.0 + LOG_2PI + jnp.log(var))))
