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

References:
    Chamberlin (2016), S23 to S25, where the moments are those of tilted Gaussians.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inducing.base import inducing_points
from cavity.inference.factors.base import (
    AbstractFactor,
    Beliefs,
    Edge,
    EdgeMoments,
    Sent,
    SiteUpdate,
    Stores,
)
from cavity.inference.factors.layered import expected_log, negative_divergence, present
from cavity.inference.factors.tied import TiedSite
from cavity.inference.factors.uncertain import Group, Regression
from cavity.inference.graph.base import AbstractVariable, Messages
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.inducing import DirectMessages, InducingBelief
from cavity.inference.variables.layered import (
    LayeredBelief,
    LayeredMoments,
    LayerMoments,
    LayerValues,
)
from cavity.kernels.expectations import (
    GaussianInputs,
    covariance_products,
    expected_cross,
    expected_slopes,
)
from cavity.numerics.linalg import cholesky
from cavity.numerics.power_limits import Power
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Scalar


def joint_terms(
    group: Group,
    mean: Callable[[Float[Array, "N D"]], Float[Array, "N P"]],
    belief_mean: Float[Array, "P M"],
    cov: Float[Array, "N P M D"],
) -> Float[Array, "N P"]:
    """What a covariance of inducing variables and inputs adds to expected squares.

    Args:
        group: the functions and their rows.
        mean: the prior mean of the functions.
        belief_mean: means of the whitened inducing variables.
        cov: their covariances with the inputs.
    """
    view, seen = group.view, group.seen
    kernel, root, Z = view.kernel, view.root, inducing_points(view.inducing)
    x, count = seen.inputs.mean, belief_mean.shape[0]
    own = 0.0 if group.loadings is None else jnp.moveaxis(group.loadings, 0, 2)
    m = jnp.broadcast_to(belief_mean, (len(x), *belief_mean.shape))

    def at(mean: Array) -> GaussianInputs:
        return GaussianInputs(mean, seen.inputs.cov, seen.inputs.uncertain)

    def away(x: Array) -> Float[Array, "N P M"]:
        loadings = expected_cross(kernel, at(x), Z) @ root.T
        return own - jnp.repeat(loadings[:, None], count, axis=1)

    def squares(x: Array, a: Array, b: Array) -> Float[Array, "N P"]:
        B = away(x)
        product = jnp.sum(B * a, axis=2) * jnp.sum(B * b, axis=2)
        return product + covariance_products(kernel, at(x), Z, a @ root, b @ root)

    def with_rest(place: Array, b: Array) -> Float[Array, "N P"]:
        e = seen.mean - (mean(place) - mean(x))
        value = e * jnp.sum(away(place) * b, axis=2)
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


def _slope(
    function: Callable[[Float[Array, "N D"]], Float[Array, "N P"]], column: int
) -> Callable[[Float[Array, "N D"]], Float[Array, "N P"]]:
    """The derivative in one column of every row."""

    def slope(x: Float[Array, "N D"]) -> Float[Array, "N P"]:
        direction = jnp.zeros_like(x).at[:, column].set(1.0)
        return jax.jvp(function, (x,), (direction,))[1]

    return slope


class _Hidden(NamedTuple):
    """Hidden values of one layer.

    Attributes:
        values: their marginals.
        halves: products of the root of all inducing variables with the values' slopes: with any
            part of the root they give covariances.
    """

    values: LayerValues
    halves: Float[Array, "all N W"]


class CoupledLayersFactor(AbstractFactor):
    """The rows of a deep model whose inducing variables have one joint Gaussian belief.

    Attributes:
        edges: the inducing variables of all layers.
        hidden: the index of the variable of hidden values.
        regressions: the functions of every layer, on the hidden values below.
        rows: the data.
        power: the power of all rows.
        start: where a search starts: the stacked inducing variables, and the hidden values.
    """

    edges: tuple[Edge, ...]
    hidden: int = eqx.field(static=True)
    regressions: tuple[Regression, ...]
    rows: Rows
    power: Power
    start: tuple[TiedSite, LayeredMoments]

    has_rows: ClassVar[bool] = False

    @property
    def stationary(self) -> bool:
        return True

    def empty_sites(self) -> Stores:
        return self.start

    def messages(self, variables: Sequence[AbstractVariable], sites: Stores) -> Sent:
        site, store = cast(tuple[TiedSite, LayeredMoments], sites)
        total = negative_divergence(site)
        sent: list[tuple[int, DirectMessages]] = []
        hidden: tuple[LayerValues, ...] = ()
        below, first = None, 0
        for number, regression in enumerate(self.regressions):
            last = number + 1 == len(self.regressions)
            stored = None if last else store.layers[number]
            seen = hidden if stored is None else (*hidden, LayerValues(stored.mean, stored.var))
            belief = LayeredBelief(layers=seen, log_normaliser=total)
            loadings = () if stored is None else stored.slopes
            roots = []
            for group in regression.groups(self.edges, belief, self.rows, loadings):
                count, size = group.view.mean.outputs, group.view.inducing.size
                part = slice(first, first + count * size)
                m = site.mean[0, part].reshape(count, size)
                root = site.root[0, part].reshape(count, size, -1)
                own = _belief(m, root)
                total = total + self._gain(regression, group, own, root, below)
                sent.append((group.edge.variable, DirectMessages(own.mean, own.root)))
                roots.append((m, root))
                first += count * size
            if stored is not None:
                below = _marginal(stored, roots)
                hidden = (*hidden, below.values)
                entropy = stored.log_deviation + 0.5 * (1.0 + LOG_2PI)
                total = total + jnp.sum(present(self.rows) * entropy)
        return (*sent, (self.hidden, LayeredBelief(layers=hidden, log_normaliser=total)))

    def log_scale(
        self,
        q: Beliefs,
        sites: Stores,
        fixed: EdgeMoments | None = None,
        *,
        settled: bool = False,
    ) -> Scalar:
        return jnp.zeros((), self.rows.y.dtype)

    def update(self, q: Beliefs, sites: Stores, step: Power) -> SiteUpdate:
        zero = jnp.zeros(())
        return SiteUpdate(sites, zero, zero, sites)

    def _gain(
        self,
        regression: Regression,
        group: Group,
        own: InducingBelief,
        root: Float[Array, "P M all"],
        below: _Hidden | None,
    ) -> Scalar:
        """The expected log sites of a group of functions."""
        sent = group.messages(self.power)
        shift = sent.shift.reshape(own.mean.shape)
        value = expected_log(Messages(shift, sent.precision, sent.log_scale), own)
        if below is None:
            return value
        cov = jnp.einsum("pma,and->npmd", root, below.halves)
        more = group.seen.inputs.mean.shape[1] - cov.shape[3]
        cov = jnp.pad(cov, [(0, 0), (0, 0), (0, 0), (0, more)])
        functions = slice(group.first, group.first + len(root))
        terms = joint_terms(group, lambda x: regression.mean(x)[:, functions], own.mean[:, 0], cov)
        return value - 0.5 * jnp.sum(group.precision(self.power) * terms)


def _belief(mean: Float[Array, "P M"], root: Float[Array, "P M all"]) -> InducingBelief:
    """The marginals of the inducing variables of some functions."""
    L = jax.vmap(cholesky)(root @ jnp.swapaxes(root, 1, 2))
    return InducingBelief(mean[:, None], jnp.swapaxes(L, 1, 2), jnp.zeros((), mean.dtype))


def _marginal(stored: LayerMoments, roots: Sequence[tuple[Array, Array]]) -> _Hidden:
    """The hidden values of a layer, averaged over the inducing variables of its functions."""
    means, halves = [], []
    for T, (mean, root) in zip(stored.slopes, roots, strict=True):
        means.append(jnp.einsum("mnp,pm->np", T, mean))
        halves.append(jnp.einsum("mnp,pma->anp", T, root))
    half, own = jnp.concatenate(halves, axis=2), stored.var
    cov = own + jnp.sum(half**2, axis=0)
    if own.shape[1] > 1:
        cov = own[:, :, None] * jnp.eye(own.shape[1]) + jnp.einsum("and,ane->nde", half, half)
    return _Hidden(LayerValues(stored.mean + jnp.concatenate(means, axis=1), cov), half)
