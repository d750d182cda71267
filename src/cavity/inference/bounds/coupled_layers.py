r"""Layers whose inducing variables have one joint Gaussian belief.

Hidden values $h = \mathbf T^\top \mathbf v + e$ depend on the inducing variables of their own
functions. Where these depend on those of the layer below, v, a value and the inputs $\mathbf x$
of its function are jointly Gaussian, and what a row adds to the bound is the expected square

$$\mathbb E (h - \boldsymbol\phi(\mathbf x)^\top \mathbf v)^2
= \mathbb E (e + \mathbf b(\mathbf x)^\top \mathbf v)^2, \qquad
\mathbf b = \mathbf T - \boldsymbol\phi.$$

With $\mathbf k_d = \operatorname{Cov}(\mathbf v, x_d)$ Stein's identity, applied twice, makes it
the value for independent v and x plus

$$2 \sum_d \partial_d \big( \mathbb E [e \mathbf b] + \mathbb E [\mathbf b \mathbf b^\top]
\mathbf m \big)^\top \mathbf k_d + \sum_{d, e} \mathbf k_d^\top\, \partial_d \partial_e\,
\mathbb E [\mathbf b \mathbf b^\top]\, \mathbf k_e,$$

with derivatives in the mean of x: only expectations of the kernel are needed, and no covariance is
inverted.

The values of a row may also depend on the inducing variables of all functions of their layer, and
have a full covariance given these. Then e has a covariance with x, which $\mathbb E [e \mathbf b]$
takes in, and one with v, because inducing variables of several functions depend on each other. The
latter adds $2 \operatorname{Cov}(e, \mathbf v)\, \mathbb E \mathbf b$ to the expected square.

References:
    Chamberlin (2016), S20 and S23 to S25, where the moments are those of tilted Gaussians.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import inducing_points
from cavity.inference.bounds.base import AbstractOrderedBound, Bounded
from cavity.inference.bounds.layered import expected_log, negative_divergence
from cavity.inference.factors.averaged import AveragedRegression, Group
from cavity.inference.factors.base import Stores
from cavity.inference.factors.layer_sight import present
from cavity.inference.factors.tied import TiedSite
from cavity.inference.graph.base import Messages
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.layered import (
    LayeredMoments,
    LayerMoments,
    LayerValues,
    no_layers,
)
from cavity.kernels.expectations import (
    GaussianInputs,
    covariance_products,
    expected_cross,
    expected_slopes,
)
from cavity.numerics.linalg import cholesky
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Scalar


def joint_terms(
    group: Group,
    mean: Callable[[Float[Array, "N D"]], Float[Array, "N P"]],
    belief_mean: Float[Array, "P M"],
    cov: Float[Array, "N P M D"],
) -> Float[Array, "N P"]:
    """Terms of expected squares due to the covariance of inducing variables and inputs.

    Args:
        group: the functions and their rows.
        mean: the prior mean of the functions.
        belief_mean: means of the whitened inducing variables.
        cov: their covariances with the inputs.
    """
    view, seen = group.view, group.seen
    kernel, root, Z = view.kernel, view.root, inducing_points(view.inducing)
    x = seen.inputs.mean
    m = jnp.broadcast_to(belief_mean, (len(x), *belief_mean.shape))

    def at(mean: Array) -> GaussianInputs:
        return GaussianInputs(mean, seen.inputs.cov, seen.inputs.uncertain)

    def squares(x: Array, a: Array, b: Array) -> Float[Array, "N P"]:
        B = _loading_difference(group, at(x))
        product = jnp.sum(B * a, axis=2) * jnp.sum(B * b, axis=2)
        return product + covariance_products(kernel, at(x), Z, a @ root, b @ root)

    def with_rest(place: Array, b: Array) -> Float[Array, "N P"]:
        e = seen.mean - (mean(place) - mean(x))
        value = e * jnp.sum(_loading_difference(group, at(place)) * b, axis=2)
        if seen.cross is None:
            return value
        slopes = expected_slopes(kernel, at(place), Z)
        return value - jnp.einsum("nkd,ndp,npk->np", slopes, seen.cross, b @ root)

    total = jnp.zeros(seen.mean.shape, x.dtype)
    columns = range(x.shape[1]) if seen.inputs.uncertain is None else seen.inputs.uncertain
    for d in columns:
        k = cov[..., d]
        first = _slope(lambda x, k=k: with_rest(x, k) + squares(x, m, k), d)
        total = total + 2.0 * first(x)
        for e in columns:
            once = _slope(lambda x, k=k, e=e: squares(x, k, cov[..., e]), d)
            total = total + _slope(once, e)(x)
    return total


def rest_terms(group: Group, cov: Float[Array, "N P M"]) -> Float[Array, "N P"]:
    """Terms of expected squares due to the covariance of inducing variables and output residuals.

    Args:
        group: the functions and their rows.
        cov: covariances of the whitened inducing variables of each function with what outputs are
            beside linear functions of these.
    """
    return 2.0 * jnp.sum(cov * _loading_difference(group, group.seen.inputs), axis=2)


def _loading_difference(group: Group, inputs: GaussianInputs) -> Float[Array, "N P M"]:
    """Loadings of outputs less those of functions, averaged over inputs."""
    view = group.view
    Z, count = inducing_points(view.inducing), view.mean.outputs
    A = expected_cross(view.kernel, inputs, Z) @ view.root.T
    own = 0.0 if group.loadings is None else jnp.moveaxis(group.loadings, 0, 2)
    return own - jnp.repeat(A[:, None], count, axis=1)


def _slope(
    function: Callable[[Float[Array, "N D"]], Float[Array, "N P"]], column: int
) -> Callable[[Float[Array, "N D"]], Float[Array, "N P"]]:
    """The derivative in one column of every row."""

    def slope(x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        direction = jnp.zeros_like(x).at[:, column].set(1.0)
        return jax.jvp(function, (x,), (direction,))[1]

    return slope


class _Split(NamedTuple):
    """Hidden values of one layer as linear functions of their own inducing variables, and a rest.

    Attributes:
        rest: means and variances of the rest, and its covariances with the values of the layer
            below.
        loadings: the slopes of the linear functions, for each group of functions.
        halves: products of the root of all inducing variables with the slopes of the rest; None
            where that does not depend on any.
    """

    rest: LayerValues
    loadings: tuple[Float[Array, "M N W"], ...]
    halves: Float[Array, "all N W"] | None = None


class _Hidden(NamedTuple):
    """Hidden values of one layer.

    Attributes:
        values: their marginals.
        halves: products of the root of all inducing variables with the values' slopes: with any
            part of the root they give covariances.
    """

    values: LayerValues
    halves: Float[Array, "all N W"]


class CoupledLayers(AbstractOrderedBound):
    """The rows of a deep model whose inducing variables have one joint Gaussian belief.

    Attributes:
        regressions: the functions of every layer, on the hidden values below.
        rows: the data.
        start: the stacked inducing variables, and the hidden values.
    """

    regressions: tuple[AveragedRegression, ...]
    rows: Rows
    start: tuple[TiedSite, LayeredMoments]

    def __call__(self, stores: Stores) -> Bounded:
        site, store = cast(tuple[TiedSite, LayeredMoments], stores)
        total, hidden = negative_divergence(site), no_layers(self.rows.y.dtype)
        beliefs: list[InducingBelief] = []
        parts, below = iter(self._parts(site)), None
        for number, regression in enumerate(self.regressions):
            stored = None if number + 1 == len(self.regressions) else store.layers[number]
            layer_parts = [next(parts) for _ in regression.edges]
            seen, loadings, halves, split = hidden, (), None, None
            if stored is not None:
                split = _split(stored, layer_parts, below)
                seen = hidden.followed_by(split.rest, jnp.zeros(()))
                loadings, halves = split.loadings, split.halves
            groups = regression.groups(seen, loadings)
            for group, (m, root) in zip(groups, layer_parts, strict=True):
                own = _belief(m, root)
                total = total + self._gain(regression, group, own, root, below, halves)
                beliefs.append(own)
            if stored is not None and split is not None:
                below = _marginal(stored, split, layer_parts)
                entropy = jnp.sum(
                    present(self.rows) * (stored.log_deviation + 0.5 * (1.0 + LOG_2PI))
                )
                total, hidden = total + entropy, hidden.followed_by(below.values, entropy)
        return Bounded(total, (*beliefs, hidden))

    def _parts(self, site: TiedSite) -> list[tuple[Float[Array, "P M"], Float[Array, "P M all"]]]:
        """Means of the inducing variables of each edge, and their rows of the root of all."""
        first, parts = 0, []
        for view in (edge.view for each in self.regressions for edge in each.edges):
            count, size = view.mean.outputs, view.inducing.size
            part = slice(first, first + count * size)
            m, root = site.mean[0, part], site.root[0, part]
            parts.append((m.reshape(count, size), root.reshape(count, size, -1)))
            first += count * size
        return parts

    def _gain(
        self,
        regression: AveragedRegression,
        group: Group,
        own: InducingBelief,
        root: Float[Array, "P M all"],
        below: _Hidden | None,
        halves: Float[Array, "all N W"] | None,
    ) -> Scalar:
        """The expected log sites of a group of functions.

        Args:
            regression: of the layer.
            group: the functions and their rows.
            own: the belief about their inducing variables.
            root: the rows of the root of all inducing variables that are theirs.
            below: the values of the layer below; None for the first layer.
            halves: as of `_Split`.
        """
        functions = slice(group.first, group.first + len(root))
        sent = group.messages()
        shift = sent.shift.reshape(own.mean.shape)
        value = expected_log(Messages(shift, sent.precision, sent.log_scale), own)
        if halves is not None:
            cov = jnp.einsum("pma,anp->npm", root, halves[:, :, functions])
            value = value - 0.5 * jnp.sum(group.precision * rest_terms(group, cov))
        if below is None:
            return value
        cov = jnp.einsum("pma,and->npmd", root, below.halves)
        more = group.seen.inputs.mean.shape[1] - cov.shape[3]
        cov = jnp.pad(cov, [(0, 0), (0, 0), (0, 0), (0, more)])
        terms = joint_terms(group, lambda x: regression.mean(x)[:, functions], own.mean[:, 0], cov)
        return value - 0.5 * jnp.sum(group.precision * terms)


def _belief(mean: Float[Array, "P M"], root: Float[Array, "P M all"]) -> InducingBelief:
    """The marginals of the inducing variables of some functions."""
    L = jax.vmap(cholesky)(root @ jnp.swapaxes(root, 1, 2))
    return InducingBelief(mean[:, None], jnp.swapaxes(L, 1, 2), jnp.zeros((), mean.dtype))


def _split(
    stored: LayerMoments, parts: Sequence[tuple[Array, Array]], below: _Hidden | None
) -> _Split:
    """The hidden values of a layer, split by the inducing variables of their own functions.

    Args:
        stored: the values, given the inducing variables of all functions of the layer.
        parts: means of these inducing variables and their rows of the root of all, by groups.
        below: the hidden values of the layer below; None for the first layer.
    """
    if stored.lower is None:
        return _Split(LayerValues(stored.mean, stored.var), stored.slopes)
    (T,), width = stored.slopes, stored.mean.shape[1]
    # the function of every inducing variable
    sizes = np.concatenate([np.full(m.shape[0], m.shape[1]) for m, _ in parts])
    function = np.repeat(np.arange(width), sizes)
    own, loadings = [T[:, :, p][function == p] for p in range(width)], []
    for m, _ in parts:
        loadings.append(jnp.stack(own[: len(m)], axis=2))
        own = own[len(m) :]
    cross_slopes = jnp.where(function[:, None, None] == np.arange(width), 0.0, T)
    mean = jnp.concatenate([m.reshape(-1) for m, _ in parts])
    root = jnp.concatenate([root.reshape(m.size, -1) for m, root in parts])
    half = jnp.einsum("mnp,ma->anp", cross_slopes, root)
    cross = None if below is None else jnp.einsum("and,anp->ndp", below.halves, half)
    mean = stored.mean + jnp.einsum("mnp,m->np", cross_slopes, mean)
    rest = LayerValues(mean, stored.var + jnp.sum(half**2, axis=0), cross)
    return _Split(rest, tuple(loadings), half)


def _marginal(
    stored: LayerMoments, split: _Split, parts: Sequence[tuple[Array, Array]]
) -> _Hidden:
    """The hidden values of a layer, averaged over all inducing variables."""
    means, halves = [], []
    for T, (mean, root) in zip(split.loadings, parts, strict=True):
        means.append(jnp.einsum("mnp,pm->np", T, mean))
        halves.append(jnp.einsum("mnp,pma->anp", T, root))
    half, mean = jnp.concatenate(halves, axis=2), split.rest.mean + jnp.concatenate(means, axis=1)
    if split.halves is not None:
        half = half + split.halves
    cov = stored.cov
    if cov.shape[1] > 1:
        own = LayerValues(mean, cov).covariances()
        return _Hidden(LayerValues(mean, own + jnp.einsum("and,ane->nde", half, half)), half)
    return _Hidden(LayerValues(mean, cov + jnp.sum(half**2, axis=0)), half)
