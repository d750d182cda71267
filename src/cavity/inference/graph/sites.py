r"""Sites: the Gaussian factors that stand for the likelihood terms, and their arithmetic.

A site on a projected value z is $t(z) = \exp(\nu z - \tfrac12 \tau z^2)$; a block's site has a
vector and a matrix. Precisions may be negative. The functions of a site need only the
marginal of z under the belief: a cavity, what removing a power of the site does to the
log-partition, and the site that matches given derivatives.
"""

import abc
from typing import ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.graph.rows import Rows
from cavity.numerics import site_arithmetic
from cavity.numerics.power_limits import Power, log_determinant_ratio
from cavity.numerics.types import Array, Bool, Float

S = TypeVar("S", bound="AbstractSites")


class AbstractSites(eqx.Module):
    """The sites of a factor's rows on one variable.

    To implement:
        fields `shift` and `precision`; `cavity`, `log_normaliser_ratio`, `moment_match`, `where`,
        `moment_change` and `fisher_scale` for whole chunks.

    Attributes:
        moves_improper: whether sites move, and count as skipped all the same, where their cavity
            is not proper: those of which `cavity` gives one that is, next to it.
    """

    moves_improper: ClassVar[bool] = False
    shift: eqx.AbstractVar[Array]
    precision: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def cavity(self, mean: Array, var: Array, power: Power) -> tuple[Array, Array, Array]:
        """Cavity mean and variance, and whether the cavity is a proper distribution."""

    @abc.abstractmethod
    def log_normaliser_ratio(self, mean: Array, var: Array, power: Power) -> Array:
        r"""$D_a = [\Phi(q / t^a) - \Phi(q)] / a$ per row, its limit at power 0."""

    @abc.abstractmethod
    def moment_match(
        self: S, mean: Array, var: Array, slope: Array, curvature: Array, power: Power
    ) -> S:
        """The site that matches the derivatives G and H of log M at the given cavity."""

    @abc.abstractmethod
    def where(self: S, new: S, ok: Array) -> S:
        """`new` where `ok`, these sites elsewhere."""

    @abc.abstractmethod
    def moment_change(self: S, new: S, var: Array) -> Array:
        """Change of the moments that new sites would make, in deviations, per row and output."""

    @abc.abstractmethod
    def fisher_scale(self: S, var: Array) -> S:
        """Scales that make changes of different numbers of a site comparable.

        Square roots of the diagonal of the Fisher information of the belief in the site's
        numbers: its deviation for a shift, its variance times 2^(-1/2) for a precision.
        """


class ScalarSites(AbstractSites):
    """One scalar site per row and output."""

    shift: Float[Array, "N P"]
    precision: Float[Array, "N P"]

    def cavity(self, mean: Array, var: Array, power: Power) -> tuple[Array, Array, Array]:
        return site_arithmetic.cavity(mean, var, self.shift, self.precision, power)

    def log_normaliser_ratio(self, mean: Array, var: Array, power: Power) -> Array:
        return site_arithmetic.log_normaliser_ratio(mean, var, self.shift, self.precision, power)

    def moment_match(
        self, mean: Array, var: Array, slope: Array, curvature: Array, power: Power
    ) -> "ScalarSites":
        return ScalarSites(*site_arithmetic.moment_match(mean, var, slope, curvature, power))

    def where(self, new: "ScalarSites", ok: Array) -> "ScalarSites":
        return jax.tree.map(lambda a, b: jnp.where(ok, b, a), self, new)

    def moment_change(self, new: "ScalarSites", var: Array) -> Array:
        precision = jnp.abs(new.precision - self.precision) * var
        return jnp.maximum(precision, jnp.abs(new.shift - self.shift) * jnp.sqrt(var))

    def fisher_scale(self, var: Array) -> "ScalarSites":
        return ScalarSites(jnp.sqrt(var), var * 0.5**0.5)


class BlockSites(AbstractSites):
    """One Gaussian site over the B values of each block, per output."""

    shift: Float[Array, "K P B"]
    precision: Float[Array, "K P B B"]

    def cavity(self, mean: Array, var: Array, power: Power) -> tuple[Array, Array, Array]:
        def one(m: Array, V: Array, h: Array, T: Array, a: Power) -> tuple[Array, Array, Array]:
            # (I - aVT)⁻¹ applied to m - aVν and to V; proper iff V⁻¹ - aT > 0
            left = jnp.eye(V.shape[0], dtype=V.dtype) - a * V @ T
            solved = jnp.linalg.solve(left, jnp.column_stack([m - a * V @ h, V]))
            cov = 0.5 * (solved[:, 1:] + solved[:, 1:].T)
            # a factorisation takes less time than eigenvalues, and tells as much
            least = 1e-10 * jnp.abs(jnp.trace(cov)) + jnp.finfo(cov.dtype).tiny
            root = jnp.linalg.cholesky(cov + least * jnp.eye(V.shape[0], dtype=V.dtype))
            proper = jnp.all(jnp.isfinite(root))
            return solved[:, 0], cov, proper

        return _mapped_over_blocks(one, power)(mean, var, self.shift, self.precision)

    def log_normaliser_ratio(self, mean: Array, var: Array, power: Power) -> Array:
        def one(m: Array, V: Array, h: Array, T: Array, a: Power) -> Array:
            # -mᵀν + aνᵀVν/2 + wᵀT(I - aVT)⁻¹w/2 - log|I - aVT|/2a,  w = m - aVν
            w = m - a * V @ h
            left = jnp.eye(V.shape[0], dtype=V.dtype) - a * V @ T
            quadratic = w @ T @ jnp.linalg.solve(left, w)
            volume = log_determinant_ratio(a, -V @ T)
            return -m @ h + 0.5 * a * h @ V @ h + 0.5 * quadratic - 0.5 * volume

        return _mapped_over_blocks(one, power)(mean, var, self.shift, self.precision)

    def moment_match(
        self, mean: Array, var: Array, slope: Array, curvature: Array, power: Power
    ) -> "BlockSites":
        def one(m: Array, V: Array, g: Array, H: Array, a: Power) -> tuple[Array, Array]:
            left = jnp.eye(V.shape[0], dtype=V.dtype) + a * H @ V
            solved = jnp.linalg.solve(left, jnp.column_stack([g, -H]))
            precision = 0.5 * (solved[:, 1:] + solved[:, 1:].T)
            return precision @ m + solved[:, 0], precision

        return BlockSites(*_mapped_over_blocks(one, power)(mean, var, slope, curvature))

    def where(self, new: "BlockSites", ok: Bool[Array, "K P"]) -> "BlockSites":
        shift = jnp.where(ok[..., None], new.shift, self.shift)
        return BlockSites(shift, jnp.where(ok[..., None, None], new.precision, self.precision))

    def moment_change(self, new: "BlockSites", var: Array) -> Array:
        return _block_change(new.shift - self.shift, new.precision - self.precision, var)

    def fisher_scale(self, var: Array) -> "BlockSites":
        scale = jnp.sqrt(jnp.diagonal(var, axis1=-2, axis2=-1))
        return BlockSites(scale, scale[..., None] * scale[..., None, :] * 0.5**0.5)


class ClassSites(AbstractSites):
    r"""Sites on the functions of all classes at a row, as a softmax has them.

    Their precision is $\operatorname{diag}(\boldsymbol\pi) - \boldsymbol\pi \boldsymbol\pi^\top /
    \mathbf 1^\top \boldsymbol\pi$. They are for methods that see the mean alone.

    Attributes:
        shift: the shifts.
        precision: $\boldsymbol\pi$.
    """

    shift: Float[Array, "N 1 C"]
    precision: Float[Array, "N 1 C"]

    def cavity(self, mean: Array, var: Array, power: Power) -> tuple[Array, Array, Array]:
        return mean, var, jnp.ones(mean.shape[:2], bool)

    def log_normaliser_ratio(self, mean: Array, var: Array, power: Power) -> Array:
        pushed = 0.5 * _class_product(self.precision, mean) - self.shift
        return jnp.sum(mean * pushed, axis=-1)

    def moment_match(
        self, mean: Array, var: Array, slope: Array, curvature: Array, power: Power
    ) -> "ClassSites":
        return ClassSites(_class_product(-curvature, mean) + slope, -curvature)

    def where(self, new: "ClassSites", ok: Array) -> "ClassSites":
        return jax.tree.map(lambda a, b: jnp.where(ok[..., None], b, a), self, new)

    def moment_change(self, new: "ClassSites", var: Array) -> Array:
        now, after = class_precision(self.precision), class_precision(new.precision)
        return _block_change(new.shift - self.shift, after - now, var)

    def fisher_scale(self, var: Array) -> "ClassSites":
        own = jnp.diagonal(var, axis1=-2, axis2=-1)
        return ClassSites(jnp.sqrt(own), own * 0.5**0.5)


def empty_row_sites(rows: Rows) -> AbstractSites:
    """Sites of precision zero on what rows, or blocks of them, observe."""
    y = rows.y
    if not rows.blocked:
        zero = jnp.zeros(y.shape, y.dtype)
        return ScalarSites(zero, zero)
    shift = jnp.zeros((y.shape[0], y.shape[2], y.shape[1]), y.dtype)
    return BlockSites(shift, jnp.zeros((*shift.shape, y.shape[1]), y.dtype))


def masked(sites: S, presence: Array) -> S:
    """Sites times their presence, which leaves out those of absent rows."""
    return jax.tree.map(
        lambda x: x * presence.reshape(presence.shape + (1,) * (x.ndim - presence.ndim)), sites
    )


def class_precision(weights: Float[Array, "... C"]) -> Float[Array, "... C C"]:
    r"""$\operatorname{diag}(\boldsymbol\pi) - \boldsymbol\pi \boldsymbol\pi^\top / s$."""
    s = jnp.sum(weights, axis=-1, keepdims=True)
    shares = weights / jnp.where(s > 0.0, s, 1.0)
    own = weights[..., None] * jnp.eye(weights.shape[-1], dtype=weights.dtype)
    return own - weights[..., :, None] * shares[..., None, :]


def _class_product(weights: Float[Array, "... C"], x: Float[Array, "... C"]) -> Array:
    s = jnp.sum(weights, axis=-1, keepdims=True)
    common = jnp.sum(weights * x, axis=-1, keepdims=True) / jnp.where(s > 0.0, s, 1.0)
    return weights * (x - common)


def _block_change(shift: Array, precision: Array, var: Array) -> Array:
    """The size of changes of matrix sites, in deviations."""
    scale = jnp.sqrt(jnp.diagonal(var, axis1=-2, axis2=-1))
    change = jnp.abs(precision) * scale[..., None] * scale[..., None, :]
    return jnp.maximum(jnp.max(change, axis=(-2, -1)), jnp.max(jnp.abs(shift) * scale, axis=-1))


def _mapped_over_blocks(one, power: Power):
    """Maps a function of one block and its power over blocks and outputs."""
    if isinstance(power, jax.Array) and power.ndim:
        over_outputs = jax.vmap(one, in_axes=(0, 0, 0, 0, None))
        blocks = jax.vmap(over_outputs)
        return lambda *args: blocks(*args, power.reshape(-1))
    return jax.vmap(jax.vmap(lambda m, V, h, T: one(m, V, h, T, power)))


def all_proper(proper: list[Array]) -> Array:
    """True where all cavities of a row are proper; broadcasts against the row's sites."""
    shapes = {ok.shape for ok in proper if ok.ndim}
    if len(shapes) > 1:
        proper = [
            jnp.all(ok, axis=tuple(range(1, ok.ndim)))[:, None] if ok.ndim else ok for ok in proper
        ]
    out = proper[0]
    for ok in proper[1:]:
        out = out & ok
    return out
