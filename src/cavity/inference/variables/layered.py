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

from cavity.inference.graph.base import AbstractBelief, AbstractVariable
from cavity.numerics.linalg import lower_root
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
        log_normaliser: the entropy, and terms of the energy of inducing variables whose beliefs
            are given directly.
    """

    layers: tuple[LayerValues, ...]
    log_normaliser: Scalar


class LayeredValues(AbstractVariable):
    """Hidden values whose belief is given directly.

    The factor of the layers defines their prior.
    """

    def belief(self, messages: LayeredBelief) -> LayeredBelief:
        return messages


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
