r"""Weights of linear functions, with a flat prior: what is known of them comes from factors.

Two kinds of rows send messages. Rows of the data see $\mathbf x_n^\top \mathbf w$; rows of a prior
see single weights $w_j$, or blocks of them. With the precisions $\mathbf T$ of the prior's sites,
which are diagonal without blocks, the belief has precision $\mathbf Q = \sum_n \tau_n \mathbf x_n
\mathbf x_n^\top + \mathbf T$. It is computed from the p x p matrix where weights are fewer than
rows, or come in blocks, and from an N x N matrix elsewhere. A flat prior has log-partition 0, so
that the evidence has the $\tfrac p2 \log 2\pi$ of the belief.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.graph.base import AbstractProjectedVariable, Messages
from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.variables.function_values import FunctionValues
from cavity.inference.variables.inducing import condition_standard_normal
from cavity.inference.weights.beliefs import DenseWeights, FactoredGroup, FactoredWeights
from cavity.inference.weights.block_sites import WeightBlockSites
from cavity.inference.weights.blocks import Blocks
from cavity.numerics.linalg import cholesky_and_inverse, gram_weighted, log_determinant, safe_sqrt
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Int

# A prior's precision below this share of what the data know of the weight counts as none.
_LEAST_SHARE = 1e-3
# Of the weights that may count so, as many as rows, the shares for which there is a program.
_SHARES_TAKEN = (1, 4, 16)


class Taken(NamedTuple):
    """Changes of a belief when precisions are removed from single weights.

    Attributes:
        raised: U of the further covariance U^T U.
        mean: what is added to the means of the weights.
        row_var: what is added to the variances of the function at the rows.
        value: what is added to the log-partition.
    """

    raised: Float[Array, "k p"]
    mean: Float[Array, " p"]
    row_var: Float[Array, " N"]
    value: Float[Array, ""]


class WeightMessages(Messages):
    r"""Messages to weights: of single weights, and of rows of the data.

    Attributes:
        shift: of single weights.
        precision: of single weights.
        log_scale: of all of them.
        row_shift: of rows of the data: one for each, or their sum over rows.
        row_precision: the same, one for each row or the sum of $\tau_n x_n x_n^\top$.
        block_shift: of blocks of weights; None where there are none.
        block_precision: of blocks of weights; None where there are none.
    """

    shift: Float[Array, "p P"]
    precision: Float[Array, "p G"]
    log_scale: Float[Array, ""]
    row_shift: Float[Array, "..."]
    row_precision: Float[Array, "..."]
    block_shift: Float[Array, "B P W"] | None = None
    block_precision: Float[Array, "B P W W"] | None = None


class Weights(AbstractProjectedVariable):
    r"""The weights of P linear functions.

    Attributes:
        ridge: precisions of the wide Gaussian that stands in for the flat prior. It hardly affects
            the posterior, and keeps it proper for weights on which no row depends.
        outputs: P.
        loadings: the inputs of all rows of the data, where the belief is computed from them;
            None where it is computed from a p x p matrix.
        mixed: whether sites may have negative precisions: those of the data, those of priors.
        blocks: sets of weights that rows of a prior see together; None for none. The belief is
            computed from a p x p matrix then.
    """

    ridge: Float[Array, " p"]
    outputs: int = eqx.field(static=True)
    loadings: Float[Array, "N p"] | None
    mixed: tuple[bool, bool] = eqx.field(static=True, default=(True, True))
    blocks: Blocks | None = None
    flat: ClassVar[bool] = True

    @property
    def size(self) -> int:
        """The number of weights."""
        return self.ridge.shape[0]

    def messages_from_sites(
        self,
        shift: Float[Array, "N P"],
        precision: Float[Array, "N G"],
        log_scale: Float[Array, " N"],
        projection: Projection,
    ) -> WeightMessages:
        none = jnp.zeros((self.size, shift.shape[1]), shift.dtype)
        flat = jnp.zeros((self.size, 1), shift.dtype)
        total = jnp.sum(log_scale)
        if self.loadings is not None:
            return WeightMessages(none, flat, total, shift, precision)
        A = projection.loadings
        assert A is not None
        P = jnp.stack([gram_weighted(A, t) for t in precision.T])
        return WeightMessages(none, flat, total, (A @ shift).T, P, *self._no_blocks(shift.dtype))

    def messages_of_weights(
        self,
        shift: Float[Array, "n P"],
        precision: Float[Array, "n G"],
        log_scale: Float[Array, " n"],
        index: Int[Array, " n"],
    ) -> WeightMessages:
        """The messages of sites on single weights, at these positions."""
        dtype, outputs = shift.dtype, shift.shape[1]
        own = jnp.zeros((self.size, outputs), dtype).at[index].set(shift)
        tau = jnp.zeros((self.size, precision.shape[1]), dtype).at[index].set(precision)
        if self.loadings is None:
            rows = jnp.zeros((outputs, self.size), dtype)
            known = jnp.zeros((1, self.size, self.size), dtype)
        else:
            rows = jnp.zeros((self.loadings.shape[0], outputs), dtype)
            known = jnp.zeros((self.loadings.shape[0], 1), dtype)
        blocks = self._no_blocks(dtype)
        return WeightMessages(own, tau, jnp.sum(log_scale), rows, known, *blocks)

    def messages_of_whole(
        self, shift: Float[Array, "N P p"], precision: Float[Array, "N G p p"]
    ) -> WeightMessages:
        """The messages of sites over all weights, where the belief is computed from p x p."""
        none = jnp.zeros((self.size, self.outputs), shift.dtype)
        flat = jnp.zeros((self.size, 1), shift.dtype)
        scale = jnp.zeros((), shift.dtype)
        total = jnp.sum(shift, axis=0), jnp.sum(precision, axis=0)
        return WeightMessages(none, flat, scale, *total, *self._no_blocks(shift.dtype))

    def messages_of_blocks(self, sites: WeightBlockSites) -> WeightMessages:
        """The messages of sites over blocks of weights."""
        dtype = sites.shift.dtype
        zero = jnp.zeros((1, self.outputs), dtype)
        none = self.messages_of_weights(zero, zero[:, :1], zero[0, :1], jnp.zeros(1, int))
        return dataclasses.replace(none, block_shift=sites.shift, block_precision=sites.precision)

    def _no_blocks(self, dtype: jnp.dtype) -> tuple[Array | None, Array | None]:
        """Zero shift and precision of every block; None where there are no blocks."""
        if self.blocks is None:
            return None, None
        count, width = self.blocks.index.shape
        shift = jnp.zeros((count, self.outputs, width), dtype)
        return shift, jnp.zeros((*shift.shape, width), dtype)

    def replace_rows(
        self, messages: Messages, index: Int[Array, " rows"], change: Messages
    ) -> Messages:
        raise ValueError(
            "weights move in parallel sweeps, or with one row at a time: leave batch=None, or "
            "give batch=1"
        )

    def belief(self, messages: Any) -> DenseWeights | FactoredWeights:
        own = jnp.broadcast_to(messages.precision, messages.shift.shape)
        sites = ScalarSites(messages.shift, own)
        messages = eqx.tree_at(
            lambda m: m.precision, messages, messages.precision + self.ridge[:, None]
        )
        conditioned = self._dense if self.loadings is None else self._factored
        return conditioned(messages, sites)

    def _dense(self, messages: WeightMessages, sites: ScalarSites) -> DenseWeights:
        own, blocks = messages.precision.T, (None, None)
        Q = messages.row_precision + jax.vmap(jnp.diag)(own)
        shift = messages.row_shift + messages.shift.T
        if self.blocks is not None:
            h, P = messages.block_shift, messages.block_precision
            assert h is not None
            assert P is not None
            sites_of_blocks = WeightBlockSites(h, P)
            each = jnp.broadcast_to(Q, (self.outputs, *Q.shape[1:]))
            cavities = self.blocks.cavities(shift, each, sites_of_blocks)
            blocks = sites_of_blocks, cavities
            own_shift, own = self.blocks.spread(sites_of_blocks, self.size)
            shift, Q = shift + own_shift, Q + own
        groups = Q.shape[0]
        shift = shift.reshape(groups, -1, self.size)
        # in units in which all weights have precision one, whatever their own
        s = 1.0 / jnp.sqrt(jnp.diagonal(Q, axis1=1, axis2=2))
        excess = s[:, :, None] * Q * s[:, None, :] - jnp.eye(self.size, dtype=Q.dtype)
        scaled = Messages(shift * s[:, None, :], excess, messages.log_scale)
        mean, root, _, value = condition_standard_normal(scaled)
        replicas = self.outputs // groups
        volume = replicas * jnp.sum(jnp.log(s)) + 0.5 * self.outputs * self.size * LOG_2PI
        means = (mean * s[:, None, :]).reshape(self.outputs, self.size)
        return DenseWeights(means, root * s[:, None, :], value + volume, sites, *blocks)

    def _factored(self, messages: WeightMessages, sites: ScalarSites) -> FactoredWeights:
        m = messages
        each = (
            jnp.broadcast_to(x, (x.shape[0], self.outputs)).T
            for x in (m.shift, m.precision, m.row_shift, m.row_precision)
        )
        parts = [self._group(*one) for one in zip(*each, strict=True)]
        groups = tuple(group for group, _ in parts)
        value = sum((value for _, value in parts), messages.log_scale)
        return FactoredWeights(groups=groups, log_normaliser=value, sites=sites)

    def _group(
        self,
        shift: Float[Array, " p"],
        tau: Float[Array, " p"],
        row_shift: Float[Array, " N"],
        row_tau: Float[Array, " N"],
    ) -> tuple[FactoredGroup, Float[Array, ""]]:
        r"""The belief of one output, from function values at the rows.

        Priors of positive precision $\mathbf T$ make the values at the rows a Gaussian with
        covariance $\mathbf X \mathbf T^{-1} \mathbf X^\top$, which the sites of the rows update.
        Priors that are not take their part back afterwards; they are N at the most, because the
        belief is proper.
        """
        X = self.loadings
        assert X is not None
        base, index, taken = tau, jnp.zeros((0,), int), jnp.zeros((0,), tau.dtype)
        if self.mixed[1]:
            told = jnp.sum(X**2, axis=0) * jnp.mean(jnp.abs(row_tau))
            told = jax.lax.stop_gradient(told)
            seen = told > 0.0
            known = jnp.where(seen, tau / jnp.where(seen, told, 1.0), jnp.inf)
            _, index = jax.lax.top_k(-known, min(X.shape))
            own, enough = tau[index], told[index]
            own_base = jnp.where(seen[index] & (own <= _LEAST_SHARE * enough), enough, own)
            base, taken = tau.at[index].set(own_base), own_base - own
        # of more weights than rows the belief is improper
        base = jnp.where(base > 0.0, base, jnp.nan)
        D = 1.0 / base
        prior_mean = D * shift
        K, offset = (X * D) @ X.T, X @ prior_mean
        values = FunctionValues(0.5 * (K + K.T), self.mixed[0]).belief(
            Messages(
                (row_shift - row_tau * offset)[:, None],
                row_tau[:, None],
                jnp.zeros(X.shape[0], X.dtype),
            )
        )
        value = values.log_normaliser + 0.5 * jnp.sum(shift * prior_mean + jnp.log(D))
        value = value + 0.5 * self.size * LOG_2PI
        value = value + jnp.sum((row_shift - 0.5 * row_tau * offset) * offset)
        group = FactoredGroup.from_values(X, D, prior_mean, values)
        if not self.mixed[1]:
            return group, value
        return _with_less(group, index, taken, value)


def _with_less(
    group: FactoredGroup,
    index: Int[Array, " k"],
    taken: Float[Array, " k"],
    value: Float[Array, ""],
) -> tuple[FactoredGroup, Float[Array, ""]]:
    """A belief after precisions were taken from single weights, the first ones of those given.

    These are mostly few, and the work is that of as many as there are, or some more.
    """
    most, size = index.shape[0], group.mean.shape[0]
    sizes = sorted({0, *(most // share for share in _SHARES_TAKEN)})

    def change_of_first(count: int) -> Taken:
        less = _taken(group, index[:count], taken[:count])
        return less._replace(
            raised=jnp.zeros((most, size), value.dtype).at[:count].set(less.raised)
        )

    needed = jnp.sum(taken != 0.0)
    which = jnp.searchsorted(jnp.array(sizes), needed)
    branches = [lambda _, count=count: change_of_first(count) for count in sizes]
    less: Taken = jax.lax.switch(which, branches, None)
    return group.raised_by(*less[:-1]), value + less.value


def _taken(group: FactoredGroup, index: Int[Array, " k"], taken: Float[Array, " k"]) -> Taken:
    r"""Changes of the belief when precisions are removed from these weights.

    With $\mathbf W^2$ what is taken and the covariance $\boldsymbol\Sigma$ before,
    $\mathbf C = \mathbf I - \mathbf W \boldsymbol\Sigma \mathbf W$ is positive definite just where
    the product is a proper Gaussian.
    """
    w = safe_sqrt(taken)
    covariance = group.covariance_with(index)  # k x p
    C = jnp.eye(w.shape[0], dtype=w.dtype) - w[:, None] * covariance[:, index] * w[None, :]
    L, root = cholesky_and_inverse(C)
    raised = root @ (w[:, None] * covariance)
    pushed = root @ (w * group.mean[index])
    gained = 0.5 * (jnp.sum(pushed**2) - jnp.sum(log_determinant(L)))
    row_var = jnp.sum((raised @ group.loadings.T) ** 2, axis=0)
    return Taken(raised, raised.T @ pushed, row_var, gained)
