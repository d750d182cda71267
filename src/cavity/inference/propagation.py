r"""Propagation: a Gaussian through functions that are Gaussian at every known input.

The outputs of a layer at a Gaussian input are no Gaussian. Three approximations stand for them:
weighted points at which everything is exact (`Nodes`), their mean and variance (`Moments`), and
those of the tangent of the mean at the mean input (`Linearised`). The same choice serves learning,
where layers are at their cavities, and prediction, where they are at their beliefs.

References:
    Bui (2017), S41, S59 and S65.
"""

import abc
import typing
from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri

from cavity.kernels.expectations import GaussianInputs
from cavity.numerics.gauss_hermite import gauss_hermite
from cavity.numerics.linalg import safe_sqrt
from cavity.numerics.qmc import golden_points, normal_points
from cavity.numerics.types import Array, Float, Int

# Points per row in predictions, at least; and with one hidden value, where they are cheap.
PREDICTION, PREDICTION_OF_ONE = 64, 256
# From so many points on, one hidden value has those of Gauss-Hermite quadrature.
GAUSS_HERMITE = 8
# Nodes for what outputs differ by between inputs; two are exact with Gaussian noise.
AVERAGE = 8


class Spread(NamedTuple):
    """Independent Gaussians for the coordinates of every row, K of them per row.

    Attributes:
        mean: means.
        var: variances.
    """

    mean: Float[Array, "K N D"]
    var: Float[Array, "K N D"]


@runtime_checkable
class LayerFunctions(Protocol):
    """The functions of a layer, Gaussian at every known input."""

    @property
    def width(self) -> int:
        """The number of functions."""
        ...

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n W"], Float[Array, "n W"]]:
        """Means and variances of the layer's outputs at known inputs."""
        ...

    def moments_under(self, inputs: GaussianInputs) -> tuple[Array, Array, Array]:
        """Means of the layer's outputs at Gaussian inputs, and both parts of their variances."""
        ...

    def with_inputs(self, values: Float[Array, "n D"], x: Float[Array, "n C"]) -> Array:
        """Inputs of the layer: values of the layer below, and the model's inputs if used."""
        ...


class AbstractPropagation(eqx.Module):
    """A rule that takes Gaussians through the functions of a layer.

    To implement:
        `points(dimensions, rows, index, dtype)`, `through(layer, values, x, z)`,
        `averaged(layer, values, x, z, log_weights)`, `for_predictions()` and `repeats`.
    """

    @property
    @abc.abstractmethod
    def repeats(self) -> int:
        """Gaussians per row."""

    @abc.abstractmethod
    def for_predictions(self) -> "AbstractPropagation":
        """The same with more points, the same and of equal weight for all rows."""

    @abc.abstractmethod
    def with_points(self, count: int) -> "AbstractPropagation":
        """The same with so many points per row at least, where there are points."""

    @abc.abstractmethod
    def points(
        self, dimensions: int, rows: int, index: Int[Array, " N"] | None, dtype: jnp.dtype
    ) -> tuple[Float[Array, "K N dimensions"], Float[Array, " K"]]:
        """Values that stand for standard normal ones, per row, and their log weights.

        Args:
            dimensions: hidden values of a row.
            rows: the number of rows.
            index: the positions of these rows in the table; None for the first ones.
            dtype: of the values.
        """

    @abc.abstractmethod
    def through(
        self,
        layer: LayerFunctions,
        values: Spread,
        x: Float[Array, "N C"],
        z: Float[Array, "K N D"],
    ) -> Spread:
        """The outputs of a layer where its inputs are Gaussian.

        Args:
            layer: the functions.
            values: their inputs.
            x: the inputs of the model, for layers that see them too.
            z: standard normal values that stand for those inputs.
        """

    @abc.abstractmethod
    def averaged(
        self,
        layer: LayerFunctions,
        values: Spread,
        x: Float[Array, "N C"],
        z: Float[Array, "K N D"],
        log_weights: Float[Array, " K"],
    ) -> tuple[Spread, Float[Array, " J"]]:
        """Outputs whose terms are to be averaged, where inputs have a variational posterior.

        A term at a Gaussian of outputs is a power mean over the functions at one input; it is its
        logarithm that is averaged over inputs.

        Args:
            layer: the functions.
            values: their inputs.
            x: the inputs of the model, for layers that see them too.
            z: standard normal values that stand for those inputs.
            log_weights: of these.

        Returns:
            The outputs, and their log weights.
        """


class Nodes(AbstractPropagation):
    r"""Points with weights: hidden values are $h = m + \sqrt v z$ for a few z per row.

    Each point goes through all layers, and the term of a row is the power mean over its points.
    That tends to the exact integral as their number grows. With one hidden value per row and
    eight points or more these are those of Gauss-Hermite quadrature. Otherwise they are a
    golden-ratio sequence with a random shift for every row; in minibatches the shift belongs to
    the place in the minibatch, so that a row has other points each time that it is drawn, and at
    power 0 the energy is unbiased for any count.

    Args:
        count: points per row; with one hidden value up to 1,000, and more raise ValueError where
            they are used.
        kept: whether shifts belong to the rows of a table in memory, also in minibatches.
        shared: whether all rows have the same quasi-random points, as they do in predictions,
            which must not depend on the order of rows.

    References:
        Bui (2017), S59 and S60; Salimbeni and Deisenroth (2017).
    """

    count: int = eqx.field(static=True, default=8)
    kept: bool = eqx.field(static=True, default=False)
    shared: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        if not isinstance(self.count, int) or self.count < 1:
            raise ValueError(f"Nodes needs at least one point per row, given {self.count!r}")

    def points(
        self, dimensions: int, rows: int, index: Int[Array, " N"] | None, dtype: jnp.dtype
    ) -> tuple[Float[Array, "K N dimensions"], Float[Array, " K"]]:
        if self.shared and dimensions:
            least = PREDICTION_OF_ONE if dimensions == 1 else 2 * dimensions + 2
            count = 2 * (max(self.count, least) // 2)
            z = jnp.asarray(normal_points(dimensions, count), dtype)
            points = jnp.broadcast_to(z[:, None], (count, rows, dimensions))
            return points, jnp.full(count, -np.log(count), dtype)
        if dimensions == 0 or (dimensions == 1 and self.count >= GAUSS_HERMITE):
            z, log_weights = gauss_hermite(self.count if dimensions else 1)
            points = jnp.broadcast_to(z[:, None, None], (len(z), rows, dimensions))
            return points.astype(dtype), jnp.asarray(log_weights, dtype)
        index = index if self.kept and index is not None else jnp.arange(rows)
        uniform = golden_points(self.count, dimensions)
        shifts = _shifts(index, dimensions)
        shifted = (uniform[:, None, :] + shifts[None]) % 1.0
        edge = 0.5**26
        points = ndtri(jnp.clip(shifted, edge, 1.0 - edge))
        return points.astype(dtype), jnp.full(self.count, -np.log(self.count), dtype)

    @property
    def repeats(self) -> int:
        return self.count

    def with_points(self, count: int) -> "Nodes":
        return Nodes(max(self.count, count), self.kept, self.shared)

    def for_predictions(self) -> "Nodes":
        return Nodes(max(self.count, PREDICTION), shared=True)

    def through(
        self,
        layer: LayerFunctions,
        values: Spread,
        x: Float[Array, "N C"],
        z: Float[Array, "K N D"],
    ) -> Spread:
        return at_points(layer, values.mean + safe_sqrt(values.var) * z, x)

    def averaged(
        self,
        layer: LayerFunctions,
        values: Spread,
        x: Float[Array, "N C"],
        z: Float[Array, "K N D"],
        log_weights: Float[Array, " K"],
    ) -> tuple[Spread, Float[Array, " K"]]:
        return self.through(layer, values, x, z), log_weights


class AbstractOneGaussian(AbstractPropagation):
    """One Gaussian per row, in learning and in prediction.

    To implement:
        `parts(layer, values, x)`.
    """

    @abc.abstractmethod
    def parts(
        self, layer: LayerFunctions, values: Spread, x: Float[Array, "N C"]
    ) -> tuple[Float[Array, "N W"], Float[Array, "N W"], Float[Array, "N W"]]:
        """Means of outputs, and two parts of their variances.

        The first is that of the functions at an input, averaged over inputs; the second that of
        the functions' mean, which differs between inputs.
        """

    @typing.final
    def through(
        self,
        layer: LayerFunctions,
        values: Spread,
        x: Float[Array, "N C"],
        z: Float[Array, "K N D"],
    ) -> Spread:
        mean, within, between = self.parts(layer, values, x)
        return Spread(mean[None], (within + between)[None])

    @typing.final
    def averaged(
        self,
        layer: LayerFunctions,
        values: Spread,
        x: Float[Array, "N C"],
        z: Float[Array, "K N D"],
        log_weights: Float[Array, " K"],
    ) -> tuple[Spread, Float[Array, " J"]]:
        mean, within, between = self.parts(layer, values, x)
        nodes, weights = gauss_hermite(AVERAGE)
        away = jnp.asarray(nodes, mean.dtype)[:, None, None] * safe_sqrt(between)
        spread = Spread(mean + away, jnp.broadcast_to(within, away.shape))
        return spread, jnp.asarray(weights, mean.dtype)

    @typing.final
    def points(
        self, dimensions: int, rows: int, index: Int[Array, " N"] | None, dtype: jnp.dtype
    ) -> tuple[Float[Array, "K N dimensions"], Float[Array, " K"]]:
        return jnp.zeros((1, rows, dimensions), dtype), jnp.zeros(1, dtype)

    @property
    @typing.final
    def repeats(self) -> int:
        return 1

    @typing.final
    def with_points(self, count: int) -> "AbstractOneGaussian":
        return self

    @typing.final
    def for_predictions(self) -> "AbstractOneGaussian":
        return self


class Moments(AbstractOneGaussian):
    r"""The mean and the variance of a layer's outputs at a Gaussian input, which are exact.

    From expectations of the kernel, with means that are affine; covariances between functions are
    left out. Exact for one hidden layer at power 0 with Gaussian noise; a distribution with
    several modes becomes one wide Gaussian.

    References:
        Bui (2017), S2, S59 and S60; Bui et al. (2016).
    """

    def parts(
        self, layer: LayerFunctions, values: Spread, x: Float[Array, "N C"]
    ) -> tuple[Float[Array, "N W"], Float[Array, "N W"], Float[Array, "N W"]]:
        return layer.moments_under(with_known(layer, values, x))


class Linearised(AbstractOneGaussian):
    r"""The tangent of a layer's mean at the mean input, with slope $\mathbf J$.

    The variance is that at the mean input plus the diagonal of $\mathbf J \mathbf V \mathbf
    J^\top$; covariances between the functions are left out. Exact for one hidden layer where means
    are linear and variances constant. As the power goes to zero, it does not tend to the
    variational bound.

    References:
        Bui (2017), S41 and E15.
    """

    def parts(
        self, layer: LayerFunctions, values: Spread, x: Float[Array, "N C"]
    ) -> tuple[Float[Array, "N W"], Float[Array, "N W"], Float[Array, "N W"]]:
        (out,), (within,) = at_points(layer, values.mean, x)
        (point,), (spread,) = values.mean, values.var

        def mean(point: Array) -> Array:
            return layer.moments(layer.with_inputs(point, x))[0]

        between = jnp.zeros_like(within)
        for column in range(point.shape[1]):
            along = jnp.zeros_like(point).at[:, column].set(1.0)
            _, slope = jax.jvp(mean, (point,), (along,))
            between = between + slope**2 * spread[:, column, None]
        return out, within, between


def with_known(layer: LayerFunctions, values: Spread, x: Float[Array, "N C"]) -> GaussianInputs:
    """The inputs of a layer, one Gaussian per row, and the known ones that it sees too."""
    (mean,), (var,) = values
    inputs = layer.with_inputs(mean, x)
    known = jnp.zeros((len(x), inputs.shape[1] - mean.shape[1]), mean.dtype)
    spread = jnp.concatenate([var, known], axis=1)
    return GaussianInputs(inputs, spread, tuple(range(mean.shape[1])))


def propagate(
    propagation: AbstractPropagation,
    layers: Sequence[LayerFunctions],
    x: Float[Array, "N C"],
    index: Int[Array, " N"] | None = None,
    first: Float[Array, "N Q"] | None = None,
) -> tuple[Spread, Float[Array, " K"]]:
    """The outputs of the last layer at known inputs of the first, and log weights.

    Args:
        propagation: how Gaussians go through layers.
        layers: the functions of every layer.
        x: inputs.
        index: the positions of the rows in the table; None for the first ones.
        first: what the first layer takes beside x; None for nothing.
    """
    widths = [layer.width for layer in layers[:-1]]
    z, log_weights = propagation.points(sum(widths), x.shape[0], index, x.dtype)
    values = at_points(layers[0], (x if first is None else first)[None], x)
    start = 0
    for layer, width in zip(layers[1:], widths, strict=True):
        values = propagation.through(layer, values, x, z[..., start : start + width])
        start += width
    return values, log_weights


def at_points(
    layer: LayerFunctions, points: Float[Array, "K N D"], x: Float[Array, "N C"]
) -> Spread:
    """The outputs of a layer at known values of the layer below."""
    count, rows, columns = points.shape
    repeated = jnp.tile(x, (count, 1))
    inputs = layer.with_inputs(points.reshape(-1, columns), repeated)
    mean, var = layer.moments(inputs)
    return Spread(mean.reshape(count, rows, -1), var.reshape(count, rows, -1))


def _shifts(index: Int[Array, " N"], dimensions: int) -> Float[Array, "N dimensions"]:
    """Pseudo-random shifts in the unit cube, a function of the positions of rows alone."""

    def one(position: Array) -> Array:
        key = jax.random.fold_in(jax.random.key(0), position)
        return jax.random.uniform(key, (dimensions,), jnp.float32)

    return jax.vmap(one)(index)
