r"""The covariance of Gaussian observations, exact and as inducing variables have it.

$\mathbf A = \mathbf K + \boldsymbol\Lambda$ is never held: it multiplies columns in chunks of
rows. $\mathbf B = \mathbf Q + \boldsymbol\Lambda$, with $\mathbf Q \preceq \mathbf K$ what
inducing variables explain, is solved with by way of their posterior.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.graph.base import Messages
from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.gaussian_sites import exact_sites
from cavity.inference.variables.inducing import InducingBelief, WhitenedInducing
from cavity.inference.variables.inducing_view import InducingView
from cavity.kernels.base import AbstractKernel
from cavity.numerics.chunking import cached_size, map_over_rows, sum_over_rows
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Int, Scalar

# Entries of the covariance that are computed at a time: 128 megabytes.
ENTRIES = 1 << 24


class Observations(eqx.Module):
    """Gaussian observations of functions with prior mean zero, one function per output.

    Attributes:
        x: inputs.
        y: outputs minus prior means, 0 where absent.
        presence: 1 for an observed output, 0 for a missing one or padding; G as in `Rows`.
        noise: noise variances, positive where absent, too.
        index: positions of the rows.
    """

    x: Float[Array, "N D"]
    y: Float[Array, "N P"]
    presence: Float[Array, "N G"]
    noise: Float[Array, "N G"]
    index: Int[Array, " N"]

    @property
    def weight(self) -> Float[Array, "N G"]:
        """Noise precisions, 0 where absent."""
        return self.presence / self.noise

    def widened(self, variance: Scalar | Float[Array, "N _"]) -> "Observations":
        """The same with so much more noise in every row."""
        return dataclasses.replace(self, noise=self.noise + variance)

    def summed(self, values: Array) -> Scalar:
        """The sum over observed outputs of values of shape (N, G)."""
        return jnp.sum(jnp.broadcast_to(self.presence * values, self.y.shape))


class LowRank(eqx.Module):
    r"""Gaussian observations as inducing variables have them, with covariance B.

    Attributes:
        belief: the posterior of the inducing variables given the observations.
        volume: $-\tfrac12 \log |2 \pi \mathbf B|$, summed over outputs.
        quadratic: $\mathbf y^\top \mathbf B^{-1} \mathbf y$, summed over outputs.
        trace: the sum of the residuals d of the rows of an output, the largest one.
        share: $\sum d / \lambda$.
        log_share: $\sum \log(1 + d / \lambda)$.
    """

    belief: InducingBelief
    volume: Scalar
    quadratic: Scalar
    trace: Scalar
    share: Scalar
    log_share: Scalar


def low_rank(variable: WhitenedInducing, view: InducingView, data: Observations) -> LowRank:
    """Evidence and its terms without what inducing variables leave unexplained.

    Args:
        variable: the whitened inducing variables.
        view: how rows see them.
        data: the observations.
    """

    def of_chunk(data: Observations) -> tuple[Messages, Scalar, Array, Scalar, Scalar]:
        rows = Rows(data.x, data.y, data.presence)
        projection = view.project(rows)
        d = projection.residual[:, None]
        bare = Projection(projection.loadings, jnp.zeros_like(d[:, 0]), jnp.zeros_like(data.y))
        sites = exact_sites(rows, bare, lambda **_: data.noise, 0.0)
        messages = variable.messages_from_sites(*sites, bare)
        share = d * data.weight
        square = jnp.sum(data.weight * data.y**2)
        trace = jnp.sum(data.presence * d, axis=0)
        return messages, square, trace, data.summed(share), data.summed(jnp.log1p(share))

    messages, square, trace, share, log_share = sum_over_rows(
        of_chunk, data, cached_size(len(data.x))
    )
    belief = variable.belief(messages)
    # yᵀB⁻¹y = yᵀΛ⁻¹y - hᵀ(I + P)⁻¹h
    quadratic = square - jnp.sum(messages.shift * belief.mean)
    volume = belief.log_normaliser + 0.5 * quadratic
    return LowRank(belief, volume, quadratic, jnp.max(trace), share, log_share)


def residuals(view: InducingView, x: Float[Array, "N D"]) -> Float[Array, " N"]:
    """The variances d of the function that inducing variables leave unexplained at inputs."""

    def of_chunk(x: Array) -> Array:
        return view.project(unobserved(x)).residual

    return map_over_rows(of_chunk, x, cached_size(x.shape[0]))


def unobserved(x: Float[Array, "n D"]) -> Rows:
    """Rows with inputs alone."""
    nothing = jnp.zeros((x.shape[0], 1), x.dtype)
    return Rows(x, nothing, nothing)


def evidence_of_sites(
    variable: WhitenedInducing, view: InducingView, data: Observations, power: Power
) -> Scalar:
    """The log evidence of observations in a sparse GP, at a power or one per row, (N, 1)."""
    powers = jnp.reshape(power, -1) if jnp.ndim(power) else None

    def of_chunk(part: tuple[Observations, Array | None]) -> Messages:
        data, powers = part
        rows = Rows(data.x, data.y, data.presence, power=powers)
        seen = view.project(rows)
        centred = Projection(seen.loadings, seen.residual, jnp.zeros_like(data.y))
        sites = exact_sites(rows, centred, lambda **_: data.noise, power)
        return variable.messages_from_sites(*sites, centred)

    messages = sum_over_rows(of_chunk, (data, powers), cached_size(len(data.x)))
    return variable.belief(messages).log_normaliser


class RowCovariance(eqx.Module):
    """Products with A, and solutions with B.

    Attributes:
        kernel: covariance function.
        data: the observations.
        loadings: of the whitened inducing variables.
        root: inverse Cholesky factors of the precisions of their beliefs.
        chunk: rows of K at a time.
    """

    kernel: AbstractKernel
    data: Observations
    loadings: Float[Array, "N M"]
    root: Float[Array, "G M M"]
    chunk: int = eqx.field(static=True)

    def multiply(self, v: Float[Array, "N P"]) -> Float[Array, "N P"]:
        """A v, over observed outputs."""
        data = self.data
        v = data.presence * v
        rows = (data.x, data.index)
        product = map_over_rows(lambda part: self.covariances(*part) @ v, rows, self.chunk)
        return data.presence * (product + data.noise * v)

    def covariances(self, x: Float[Array, "n D"], index: Int[Array, " n"]) -> Float[Array, "n N"]:
        """Rows of K; variances as the kernel has them, without the rounding of distances."""
        K = self.kernel.cross(x, self.data.x)
        return K.at[jnp.arange(x.shape[0]), index].set(self.kernel.diag(x))

    def solve(self, r: Float[Array, "N P"]) -> Float[Array, "N P"]:
        """The inverse of B times r."""
        weight = self.data.weight
        # Λ⁻¹ (r - Aᵀ (I + P)⁻¹ A Λ⁻¹ r)
        h = (self.loadings.T @ (weight * r)).T.reshape(self.root.shape[0], -1, self.root.shape[1])
        mean = jnp.einsum("gnm,gnk,grk->grm", self.root, self.root, h)
        return weight * (r - self.loadings @ mean.reshape(-1, mean.shape[-1]).T)

    def largest_row_sum(self) -> Scalar:
        """The largest sum of absolute values in a row of K - Q."""

        def of_chunk(part: tuple[Array, Array, Array]) -> Array:
            x, index, loadings = part
            left = self.covariances(x, index) - loadings @ self.loadings.T
            return jnp.abs(left) @ self.present

        rows = (self.data.x, self.data.index, self.loadings)
        sums = map_over_rows(of_chunk, rows, self.chunk)
        return jnp.max(sums * self.present)

    @property
    def present(self) -> Float[Array, " N"]:
        """1 for rows of which any output was observed."""
        return jnp.max(self.data.presence, axis=1)


def row_covariance(
    view: InducingView, data: Observations, belief: InducingBelief
) -> RowCovariance:
    """Products with the exact covariance, and solutions with that of inducing variables."""

    def of_chunk(x: Array) -> Array:
        loadings = view.project(unobserved(x)).loadings
        assert loadings is not None
        return loadings.T

    chunk = _rows_at_a_time(data.x.shape[0])
    loadings = map_over_rows(of_chunk, data.x, chunk)
    return RowCovariance(view.kernel, data, loadings, belief.root, chunk)


def _rows_at_a_time(count: int) -> int:
    """Rows of a square matrix at a time, a divisor of their number."""
    size = count
    while size * count > ENTRIES and size % 2 == 0:
        size //= 2
    return size
