r"""Messages of rows with Gaussian noise to inducing variables, in as few products as there are.

With $\mathbf A = \mathbf L^{-1} \mathbf K_{uf}$ and $q_n = |\mathbf a_n|^2$, rows send
$\mathbf P = \mathbf A \operatorname{diag}(\boldsymbol\tau) \mathbf A^\top$ and
$\mathbf h = \mathbf A \boldsymbol\nu$, where site n depends on $q_n$. Given derivatives
$\bar{\mathbf P}$ (symmetrised, twice), $\bar{\mathbf h}$,

$$\bar{\mathbf A} = \bar{\mathbf P} \mathbf A \operatorname{diag}(\boldsymbol\tau) +
\bar{\mathbf h} \boldsymbol\nu^\top + 2 \mathbf A \operatorname{diag}(\bar{\mathbf q}), \quad
\bar{\mathbf K}_{uf} = \mathbf L^{-\top} \bar{\mathbf A}, \quad
\bar{\mathbf L} = -\mathbf L^{-\top} \bar{\mathbf A} \mathbf A^\top,$$

and all of $\bar{\mathbf A} \mathbf A^\top$ but one term are products of M x M matrices that are
known. Forwards that is two products of M x M by M x N matrices, backwards three. At power 0
precisions do not depend on q, and $\bar{\mathbf q}$ is in proportion to them: backwards one is
left.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.graph.base import AbstractWhitenedView, Messages
from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.gaussian_sites import exact_sites
from cavity.inference.variables.inducing import WhitenedInducing
from cavity.numerics.chunking import cached_size, split
from cavity.numerics.linalg import gram_weighted, product_lower
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.types import Array, Float, PyTree, Scalar

# Values of the loadings that are kept for the backward pass: a gigabyte. Those of further rows are
# computed anew.
KEPT = 1 << 27


def fused_gaussian_messages(
    view: AbstractWhitenedView,
    rows: Rows,
    noise_variance: Callable[..., Array],
    power: Power,
    volume: float | None = None,
) -> Messages:
    """All messages of rows, without blocks, to whitened inducing variables.

    Derivatives are those in the model, not in the data.

    Args:
        view: how the rows see the variable.
        rows: the data.
        noise_variance: of rows, from their side data.
        power: the power of all rows.
        volume: the power of the volume that residuals take from the evidence; None for that of
            the precision.
    """
    # the derivative goes through the factor, not through its inverse
    view = eqx.tree_at(lambda v: v.root, view, jax.lax.stop_gradient(view.root))
    return _fused((view, noise_variance), rows, power, volume)


@eqx.filter_custom_vjp
def _fused(own: tuple[Any, Any], rows: Rows, power: Power, volume: float | None) -> Messages:
    return _forward(own, rows, power, volume, kept=0)[0]


@_fused.def_fwd
def _fused_forward(
    perturbed: PyTree, own: tuple[Any, Any], rows: Rows, power: Power, volume: float | None
) -> tuple[Messages, tuple[Messages, Array | None]]:
    total, loadings = _forward(own, rows, power, volume, kept=KEPT)
    return total, (total, loadings)


def _forward(
    own: tuple[Any, Any], rows: Rows, power: Power, volume: float | None, *, kept: int
) -> tuple[Messages, Array | None]:
    """The messages, and the loadings of the first chunks, `kept` values at the most."""
    view, noise = own
    variable = WhitenedInducing(view.root.shape[0])

    def part(rows: Rows) -> tuple[Messages, Array]:
        K, prior, offset = view.covariances(rows)
        A = product_lower(view.root, K)
        linear = _linear(rows, power, volume)
        projection = Projection(A, _left(prior, jnp.sum(A**2, axis=0), linear=linear), offset)
        sites = exact_sites(rows, projection, noise, power, volume)
        return variable.messages_from_sites(*sites, projection), A

    def step(total: Messages, rows: Rows, *, keep: bool) -> tuple[Messages, Array | None]:
        messages, A = part(rows)
        return jax.tree.map(jnp.add, total, messages), A if keep else None

    chunk = cached_size(rows.y.shape[0])
    first, rest = _cut(split(rows, chunk), kept // (view.root.shape[0] * chunk))
    like = first if rest is None else rest
    shape = eqx.filter_eval_shape(part, jax.tree.map(lambda x: x[0], like))[0]
    total, loadings = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shape), None
    if first is not None:
        total, loadings = jax.lax.scan(functools.partial(step, keep=True), total, first)
    if rest is not None:
        total, _ = jax.lax.scan(functools.partial(step, keep=False), total, rest)
    return total, loadings


def _cut(parts: PyTree, count: int) -> tuple[PyTree, PyTree]:
    """The first `count` chunks and the others; None in place of an empty part."""
    length = jax.tree.leaves(parts)[0].shape[0]
    if count >= length:
        return parts, None
    rest = jax.tree.map(lambda x: x[count:], parts)
    return jax.tree.map(lambda x: x[:count], parts) if count else None, rest


@_fused.def_bwd
def _fused_backward(
    residuals: tuple[Messages, Array | None],
    slope: Messages,
    perturbed: PyTree,
    own: tuple[Any, Any],
    rows: Rows,
    power: Power,
    volume: float | None,
) -> tuple[Any, Any]:
    total, loadings = residuals
    slope = jax.tree.map(
        lambda x, d: jnp.zeros_like(x) if d is None else d,
        total,
        slope,
        is_leaf=_is_none,
    )
    (view, noise), (moved, noise_moved) = own, perturbed
    moved = eqx.tree_at(lambda v: (v.factor, v.root), moved, (False, False))
    parts = eqx.partition(view, moved), eqx.partition(noise, noise_moved)
    twice = slope.precision + jnp.swapaxes(slope.precision, -1, -2)
    flat = slope.shift.reshape(-1, view.root.shape[0])
    heard = total.shift.reshape(flat.shape)
    variance = eqx.filter_eval_shape(lambda r: noise(**r.columns), rows)
    constant = _linear(rows, power, volume) and variance.ndim < 2
    powers = (power, volume)
    pull = _Pull(parts[0], parts[1], powers, twice, flat, slope.log_scale, constant)
    (view_slope, noise_slope), own_gram = pull.derivatives(rows, loadings, view.root)
    gram = jnp.sum(twice @ total.precision, axis=0) + flat.T @ heard
    if constant:
        own_gram = pull.scale * pull.copies * jnp.sum(total.precision, axis=0)
        by_noise = pull.through_noise(rows, total.precision)
        noise_slope = jax.tree.map(jnp.add, noise_slope, by_noise)
    factor = -jnp.tril(view.root.T @ (gram + own_gram))
    view_slope = eqx.tree_at(lambda v: v.factor, view_slope, factor, is_leaf=_is_none)
    return view_slope, noise_slope


def _is_none(x: object) -> bool:
    return x is None


class _Pull(eqx.Module):
    """The backward pass over chunks.

    Attributes:
        view: its parts that derivatives are wanted of, and the others.
        noise: the same of the noise variance.
        powers: of the precisions of the rows and of their volumes.
        twice: derivatives in the precision, plus their transposes.
        shift: derivatives in the shift, one row per output.
        scale: derivative in the log scale.
        constant: whether precisions of sites depend on nothing but one noise variance.
    """

    view: tuple[Any, Any]
    noise: tuple[Any, Any]
    powers: tuple[Power, float | None]
    twice: Float[Array, "G M M"]
    shift: Float[Array, "P M"]
    scale: Scalar
    constant: bool = eqx.field(static=True)

    @property
    def copies(self) -> int:
        """Outputs that share a precision."""
        return self.shift.shape[0] // self.twice.shape[0]

    def derivatives(
        self, rows: Rows, loadings: Array | None, root: Float[Array, "M M"]
    ) -> tuple[tuple[Any, Any], Array]:
        """Derivatives in the view and the noise variance, and of the sites' own part in L."""
        eye = jnp.eye(root.shape[0], dtype=root.dtype)
        sides = root.T @ (self.twice + self.scale * self.copies * eye) if self.constant else None

        def step(sums: PyTree, part: tuple[Rows, Array | None]) -> tuple[PyTree, None]:
            chunk, A = part
            (K, prior, offset), back = jax.vjp(lambda v: self._seen(v, chunk), self.view[0])
            A = product_lower(root, K) if A is None else A
            q = jnp.sum(A**2, axis=0)
            (shift, tau, _), to_row = jax.vjp(
                lambda *row: self._sites(chunk, *row), q, prior, offset, self.noise[0]
            )
            W = [] if self.constant else [P @ A for P in self.twice]
            weight = jnp.stack([0.5 * jnp.sum(A * w, axis=0) for w in W], 1) if W else 0.0 * tau
            found = to_row(((self.shift @ A).T, weight, self.scale))
            q_slope, prior_slope, offset_slope, noise_slope = found
            if sides is not None:
                moved = sum((Q @ A) * t for Q, t in zip(sides, tau.T, strict=True))
                moved = moved + (root.T @ self.shift.T) @ shift.T
                gram = jnp.zeros((), root.dtype)
            else:
                moved = sum(w * t for w, t in zip(W, tau.T, strict=True))
                twice = 2.0 * q_slope
                moved = root.T @ (moved + self.shift.T @ shift.T + twice * A)
                gram = gram_weighted(A, twice)
            (view_slope,) = back((moved, prior_slope, offset_slope))
            return jax.tree.map(jnp.add, sums, ((view_slope, noise_slope), gram)), None

        zero = jax.tree.map(jnp.zeros_like, (self.view[0], self.noise[0]))
        none = jnp.zeros(() if self.constant else root.shape, root.dtype)
        count = 0 if loadings is None else loadings.shape[0]
        first, rest = _cut(split(rows, cached_size(rows.y.shape[0])), count)
        sums: PyTree = (zero, none)
        for parts in ((first, loadings), (rest, None)):
            sums = sums if parts[0] is None else jax.lax.scan(step, sums, parts)[0]
        return sums

    def through_noise(self, rows: Rows, precision: Float[Array, "G M M"]) -> PyTree:
        """The derivative in the noise variance by way of the precisions, at power 0."""
        share = 0.5 * jnp.sum(self.twice * precision, axis=(1, 2))

        def weighed(noise: PyTree) -> Scalar:
            variance = eqx.combine(noise, self.noise[1])(**rows.columns)
            return -jnp.sum(share * jnp.log(jnp.broadcast_to(variance, share.shape)))

        return jax.grad(weighed)(self.noise[0])

    def _seen(self, view: PyTree, rows: Rows) -> tuple[Array, Array, Array]:
        return eqx.combine(view, self.view[1]).covariances(rows)

    def _sites(
        self, rows: Rows, q: Array, prior: Array, offset: Array, noise: PyTree
    ) -> tuple[Array, Array, Scalar]:
        left = _left(prior, q, linear=_linear(rows, *self.powers))
        projection = Projection(None, left, offset)
        noise = eqx.combine(noise, self.noise[1])
        shift, precision, scale = exact_sites(rows, projection, noise, *self.powers)
        return shift, precision, jnp.sum(scale)


def _linear(rows: Rows, power: Power, volume: float | None) -> bool:
    """True if sites are linear in the residual variance: at power 0."""
    return is_exactly(power, 0.0) and rows.power is None and volume is None


def _left(prior: Array, explained: Array, *, linear: bool) -> Array:
    """The variance that is left, which rounding may put below zero.

    Where sites are linear in it, it stays there: the derivative of what is cut off would not be
    that of the sums over rows that the backward pass takes.
    """
    left = prior - explained
    return left if linear else jnp.maximum(left, 0.0)
