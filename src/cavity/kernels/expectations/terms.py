"""Kernels as sums of terms whose Gaussian expectations have a closed form."""

import functools
from collections.abc import Iterable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.kernels.base import AbstractKernel, Active, Product, Scaled, Sum
from cavity.kernels.dot_product import Linear
from cavity.kernels.stationary import RBF, Constant, SpectralMixture, White
from cavity.numerics.types import Array, Bool, Float


class LinearFactor(NamedTuple):
    """Parameters of a linear kernel.

    Args:
        variance: v (T, D), of slopes.
        centre: c (T, D).
    """

    variance: Float[Array, "*T D"]
    centre: Float[Array, "*T D"]


class Terms(eqx.Module):
    r"""T terms of a kernel, each a bump, a wave in it or none, and a linear factor or none.

    $$\sum_t w_t \, e^{-\frac12 \sum_d \lambda_{td} (x_d - z_d)^2}
        \cos\Big(\sum_d \omega_{td} (x_d - z_d)\Big)
        \Big[\sum_d v_{td} (x_d - c_{td}) (z_d - c_{td})\Big]$$

    Sums of such kernels are such kernels again, and so are products with at most one linear
    factor. A single term has the same fields without the axis of length T.

    Args:
        weight: w (T,).
        precision: $\lambda$ (T, D), zeros for columns that a term does not see.
        frequency: $\omega$ (T, D); None for no wave.
        factor: the linear factor; None for none.
        local: whether any precision is above zero.
    """

    weight: Float[Array, "*T"]
    precision: Float[Array, "*T D"]
    frequency: Float[Array, "*T D"] | None = None
    factor: LinearFactor | None = None
    local: bool = eqx.field(static=True, default=True)

    @property
    def constant(self) -> bool:
        """True if the terms do not depend on the input."""
        return not self.local and self.factor is None


class Spike(NamedTuple):
    """A term that differs from zero only where two inputs are equal in some columns.

    Args:
        weight: its value there.
        columns: which ones, (D,).
    """

    weight: Float[Array, ""]
    columns: Bool[np.ndarray, " D"]


class Expansion(NamedTuple):
    """A kernel as terms: stacks of terms of one form each, and spikes."""

    stacks: tuple[Terms, ...]
    spikes: tuple[Spike, ...] = ()


@functools.singledispatch
def expansion(kernel: AbstractKernel, D: int) -> Expansion | None:
    """A kernel of D input columns as terms with closed expectations; None where it has none.

    A kernel that has one registers it: `@expansion.register`.
    """
    return None


@expansion.register
def _(kernel: RBF, D: int) -> Expansion:
    precision = jnp.broadcast_to(1.0 / jnp.asarray(kernel.lengthscales) ** 2, (D,))
    return Expansion((Terms(jnp.asarray(kernel.variance)[None], precision[None]),))


@expansion.register
def _(kernel: SpectralMixture, D: int) -> Expansion:
    bandwidths, frequencies = jnp.asarray(kernel.bandwidths), jnp.asarray(kernel.frequencies)
    shape = (len(bandwidths), D)
    precision = jnp.broadcast_to((2.0 * jnp.pi * bandwidths) ** 2, shape)
    frequency = jnp.broadcast_to(2.0 * jnp.pi * frequencies, shape)
    return Expansion((Terms(jnp.asarray(kernel.weights), precision, frequency),))


@expansion.register
def _(kernel: Constant, D: int) -> Expansion:
    weight = jnp.asarray(kernel.variance)[None]
    return Expansion((Terms(weight, jnp.zeros((1, D), weight.dtype), local=False),))


@expansion.register
def _(kernel: Linear, D: int) -> Expansion:
    variance = jnp.broadcast_to(jnp.asarray(kernel.variance), (1, D))
    centre = jnp.broadcast_to(jnp.asarray(kernel.centre, variance.dtype), (1, D))
    one, none = jnp.ones(1, variance.dtype), jnp.zeros_like(variance)
    return Expansion((Terms(one, none, None, LinearFactor(variance, centre), local=False),))


@expansion.register
def _(kernel: White, D: int) -> Expansion:
    return Expansion((), (Spike(jnp.asarray(kernel.variance), np.ones(D, bool)),))


@expansion.register
def _(kernel: Scaled, D: int) -> Expansion | None:
    inner, c = expansion(kernel.kernel, D), kernel.factor
    if inner is None:
        return None
    stacks = [eqx.tree_at(lambda t: t.weight, terms, c * terms.weight) for terms in inner.stacks]
    return Expansion(tuple(stacks), tuple(Spike(c * s.weight, s.columns) for s in inner.spikes))


@expansion.register
def _(kernel: Sum, D: int) -> Expansion | None:
    first, second = expansion(kernel.first, D), expansion(kernel.second, D)
    if first is None or second is None:
        return None
    return Expansion(_joined(first.stacks + second.stacks), first.spikes + second.spikes)


@expansion.register
def _(kernel: Product, D: int) -> Expansion | None:
    first, second = expansion(kernel.first, D), expansion(kernel.second, D)
    if first is None or second is None or first.spikes or second.spikes:
        return None
    pairs = [(a, b) for a in first.stacks for b in second.stacks]
    if any(a.factor is not None and b.factor is not None for a, b in pairs):
        return None
    return Expansion(_joined(_product(a, b) for a, b in pairs))


@expansion.register
def _(kernel: Active, D: int) -> Expansion | None:
    inner, dims = expansion(kernel.kernel, len(kernel.dims)), np.array(kernel.dims)
    if inner is None or len(set(kernel.dims)) < len(dims):
        return None

    def wide(x: Array) -> Array:
        return jnp.zeros((len(x), D), x.dtype).at[:, dims].set(x)

    stacks = [jax.tree.map(lambda x: wide(x) if x.ndim == 2 else x, t) for t in inner.stacks]
    spikes = [Spike(s.weight, np.isin(np.arange(D), dims[s.columns])) for s in inner.spikes]
    return Expansion(tuple(stacks), tuple(spikes))


def _joined(stacks: Iterable[Terms]) -> tuple[Terms, ...]:
    """Stacks of one form each: all terms have a bump or none has; waves and factors alike."""
    by_form: dict[object, list[Terms]] = {}
    for terms in stacks:
        by_form.setdefault(jax.tree.structure(terms), []).append(terms)
    return tuple(jax.tree.map(_concatenated, *alike) for alike in by_form.values())


def _concatenated(*arrays: Array) -> Array:
    return jnp.concatenate(arrays)


def _product(a: Terms, b: Terms) -> Terms:
    """The products of all pairs of terms, of which at most one has a linear factor."""
    i, j = (x.ravel() for x in np.indices((len(a.weight), len(b.weight))))
    a, b = jax.tree.map(lambda x: x[i], a), jax.tree.map(lambda x: x[j], b)
    weight, precision = a.weight * b.weight, a.precision + b.precision
    factor, local = a.factor or b.factor, a.local or b.local
    if a.frequency is None or b.frequency is None:
        frequency = b.frequency if a.frequency is None else a.frequency
        return Terms(weight, precision, frequency, factor, local=local)
    # cos α cos β = ½ (cos(α + β) + cos(α - β))
    frequencies = a.frequency + b.frequency, a.frequency - b.frequency
    waves = [Terms(0.5 * weight, precision, w, factor, local=local) for w in frequencies]
    return jax.tree.map(_concatenated, *waves)
