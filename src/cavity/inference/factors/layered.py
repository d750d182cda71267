r"""Layers with Gaussian noise between hidden values that have a variational posterior.

A deep model is a regression of every layer on the one below. A posterior of hidden values defines
how these depend on each other and on inducing variables:

$$q(\mathbf h, \mathbf f) = \prod_l p(f_l \mid \mathbf u_l)\, q(\mathbf u_l)
\prod_n q(\mathbf h_{l, n} \mid \cdot)$$

The log site of a row is averaged over its hidden values and stays quadratic in the inducing
variables. Where hidden values do not depend on the inducing variables, the posterior of the latter
is the prior times the averaged sites. Where they do, that product would be optimal for its own
layer only, because the next layer depends on it through the hidden values: the posterior is then
given directly, unless the belief of the layer alone is asked for.

References:
    Chamberlin (2016), S10, S19 and S22, with the correction that hidden layers' inducing variables
    have no optimum in closed form; Bui (2017), S56, S57 and S63 with errata E22 and E23.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import equinox as eqx
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
from cavity.inference.factors.tied import TiedSite, tied_cavity
from cavity.inference.factors.uncertain import AbstractSight, GaussianRows, Regression
from cavity.inference.graph.base import AbstractVariable, Messages
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inducing_view import InducingView, OutputMean
from cavity.inference.variables.layered import (
    LayeredBelief,
    LayeredMoments,
    LayerMoments,
    LayerValues,
)
from cavity.kernels.expectations import GaussianInputs, expected_cross
from cavity.numerics.power_limits import Power
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Scalar


class LayerSight(AbstractSight):
    """A layer sees the values of the layer below, and its own.

    Attributes:
        number: of the layer, from 0.
        last: whether its values are the outputs of the rows.
        skips: whether the inputs of the rows follow the values below, as columns.
    """

    number: int = eqx.field(static=True)
    last: bool = eqx.field(static=True)
    skips: bool = eqx.field(static=True)

    def __call__(self, belief: LayeredBelief, rows: Rows) -> GaussianRows:
        inputs = self.inputs(belief, rows)
        if self.last:
            return GaussianRows(inputs, rows.y, rows.presence)
        own, cross = belief.layers[self.number], None
        if own.cross is not None:
            more = inputs.mean.shape[1] - own.cross.shape[1]
            cross = jnp.pad(own.cross, [(0, 0), (0, more), (0, 0)])
        return GaussianRows(inputs, own.mean, present(rows), own.variances, cross)

    def inputs(self, belief: LayeredBelief, rows: Rows) -> GaussianInputs:
        """The inputs of the layer's functions."""
        if self.number == 0:
            return GaussianInputs(rows.x, jnp.zeros_like(rows.x), ())
        mean, cov, *_ = belief.layers[self.number - 1]
        columns = tuple(range(mean.shape[1]))
        if self.skips:
            mean, more = jnp.concatenate([mean, rows.x], axis=1), (0, rows.x.shape[1])
            cov = jnp.pad(cov, [(0, 0), *[more] * (cov.ndim - 1)])
        return GaussianInputs(mean, cov, columns)


def present(rows: Rows) -> Float[Array, "N 1"]:
    """1 where a row has hidden values: where any of its outputs is observed."""
    return jnp.max(rows.site_presence, axis=1, keepdims=True)


class Conditional(NamedTuple):
    """The values of a layer, given the inducing variables of their functions.

    Attributes:
        values: the values at inducing variables of zero.
        var: variances given all that values depend on.
        loadings: slopes in the whitened inducing variables of each group of functions; none for
            values that do not depend on them.
    """

    values: LayerValues
    var: Float[Array, "N W"]
    loadings: tuple[Float[Array, "M N W"], ...] = ()


class LayerInputs(NamedTuple):
    """Inputs, views and parameters of one layer.

    Attributes:
        below: the hidden values of the layer below; None for the first layer.
        inputs: the inputs of its functions.
        views: of its inducing variables, one for each group of functions.
        mean: the prior mean of all functions.
        noise_variance: of its values.
    """

    below: LayerValues | None
    inputs: GaussianInputs
    views: tuple[InducingView, ...]
    mean: OutputMean
    noise_variance: Array


class AbstractDependence(eqx.Module):
    """Conditional distribution of a layer's hidden values given the layer below.

    To implement:
        `given(stored, seen)`.
    """

    @abc.abstractmethod
    def given(self, stored: LayerMoments | None, seen: LayerInputs) -> Conditional:
        """The values of a layer."""


class Independent(AbstractDependence):
    """Values that are independent of all else: mean field."""

    def given(self, stored: LayerMoments | None, seen: LayerInputs) -> Conditional:
        assert stored is not None
        return Conditional(LayerValues(stored.mean, stored.var), stored.var)


class OnLayerBelow(AbstractDependence):
    """Values that depend on those of the layer below: a Markov chain over layers."""

    def given(self, stored: LayerMoments | None, seen: LayerInputs) -> Conditional:
        assert stored is not None
        if seen.below is None:
            return Conditional(LayerValues(stored.mean, stored.var), stored.var)
        (slopes,) = stored.slopes
        cross = seen.below.covariances() @ slopes
        if slopes.shape[2] == 1:
            cov = stored.var + jnp.sum(slopes * cross, axis=1)
        else:
            own = stored.var[:, :, None] * jnp.eye(slopes.shape[2])
            cov = own + jnp.swapaxes(slopes, 1, 2) @ cross
        return Conditional(LayerValues(stored.mean, cov, cross), stored.var)


class OnFunctions(AbstractDependence):
    """Values that depend on the inducing variables of their own functions."""

    def given(self, stored: LayerMoments | None, seen: LayerInputs) -> Conditional:
        assert stored is not None
        return Conditional(LayerValues(stored.mean, stored.var), stored.var, stored.slopes)


class Nested(AbstractDependence):
    """Values that follow their functions' mean given inducing variables, averaged over inputs.

    Their variance is that of the noise: nested variational compression.
    """

    def given(self, stored: LayerMoments | None, seen: LayerInputs) -> Conditional:
        mean = seen.mean(seen.inputs.mean)
        var = jnp.broadcast_to(seen.noise_variance, mean.shape)
        loadings = []
        for view in seen.views:
            cross = expected_cross(view.kernel, seen.inputs, inducing_points(view.inducing))
            A = view.root @ cross.T
            loadings.append(jnp.repeat(A[:, :, None], view.mean.outputs, axis=2))
        return Conditional(LayerValues(mean, var), var, tuple(loadings))


class LayeredFactor(AbstractFactor):
    """The rows of a deep model with Gaussian noise in every layer.

    Attributes:
        edges: the inducing variables of all layers.
        hidden: the index of the variable of hidden values.
        regressions: the functions of every layer, on the hidden values below.
        dependence: what hidden values depend on.
        rows: the data.
        power: the power of all rows.
        start: where a search starts: the beliefs of inducing variables that are given directly,
            None for the others; and the hidden values.
    """

    edges: tuple[Edge, ...]
    hidden: int = eqx.field(static=True)
    regressions: tuple[Regression, ...]
    dependence: AbstractDependence
    rows: Rows
    power: Power
    start: Stores

    has_rows: ClassVar[bool] = False

    @property
    def stationary(self) -> bool:
        return True

    def empty_sites(self) -> Stores:
        return self.start

    def messages(self, variables: Sequence[AbstractVariable], sites: Stores) -> Sent:
        *direct, store = sites

        def answer(i: int, messages: Messages) -> Answer:
            return self._answer(messages, direct[i], variables[i])

        answers, belief = self.through(cast(LayeredMoments, store), answer)
        return (*((i, one.message) for i, one in answers), (self.hidden, belief))

    def through(
        self, store: LayeredMoments, answer: Callable[[int, Messages], "Answer"]
    ) -> tuple[list[tuple[int, "Answer"]], LayeredBelief]:
        """Pass hidden values through the layers; return the answers of inducing variables too.

        Args:
            store: the conditionals of hidden values.
            answer: what an inducing variable, by its index, makes of messages.
        """
        total, every = jnp.zeros((), self.rows.y.dtype), []
        belief = LayeredBelief(layers=(), log_normaliser=total)
        for number, regression in enumerate(self.regressions):
            loadings, conditional = (), None
            if number + 1 < len(self.regressions):
                own = store.layers[number] if store.layers else None
                conditional = self.dependence.given(own, self._inputs(number, belief))
                loadings = conditional.loadings
                layers = (*belief.layers, conditional.values)
                belief = LayeredBelief(layers=layers, log_normaliser=total)
            messages = regression.messages(self.edges, belief, self.rows, self.power, loadings)
            answers = [answer(i, m) for i, m in messages]
            total = sum((one.gain for one in answers), total)
            layers = belief.layers
            if conditional is not None:
                total = total + self._entropy(conditional)
                layers = (*layers[:-1], marginal(conditional, [one.belief for one in answers]))
            belief = LayeredBelief(layers=layers, log_normaliser=total)
            every += [(i, one) for (i, _), one in zip(messages, answers, strict=True)]
        return every, belief

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

    def _inputs(self, number: int, belief: LayeredBelief) -> LayerInputs:
        regression = self.regressions[number]
        return LayerInputs(
            below=belief.layers[-1] if number else None,
            inputs=cast(LayerSight, regression.sight).inputs(belief, self.rows),
            views=tuple(cast(InducingView, self.edges[i].view) for i in regression.places),
            mean=regression.mean,
            noise_variance=jnp.atleast_1d(regression.noise_variance()),
        )

    def _entropy(self, conditional: Conditional) -> Scalar:
        each = 0.5 * (1.0 + LOG_2PI + jnp.log(conditional.var))
        return jnp.sum(present(self.rows) * each)

    def _answer(
        self, messages: Messages, direct: TiedSite | None, variable: AbstractVariable
    ) -> "Answer":
        """Belief of an inducing variable given its layer's messages, and its energy terms."""
        if direct is None:
            belief = cast(InducingBelief, variable.belief(messages))
            return Answer(messages, belief, jnp.zeros((), self.rows.y.dtype))
        given = direct.messages()
        belief = cast(InducingBelief, variable.belief(given))
        return Answer(given, belief, expected_log(messages, belief) + negative_divergence(direct))


class Answer(NamedTuple):
    """Belief of an inducing variable given the messages of its layer.

    Attributes:
        message: what is sent to it.
        belief: its belief.
        gain: the terms of the energy that do not come with the belief.
    """

    message: Any
    belief: InducingBelief
    gain: Scalar


def negative_divergence(site: TiedSite) -> Scalar:
    """Minus the divergence of beliefs from a standard normal."""
    return tied_cavity(site, 0.0, jnp.ones(site.mean.shape[0])).log_scale


def expected_log(messages: Messages, q: InducingBelief) -> Scalar:
    r"""$\mathbb E_q [\mathbf h^\top \mathbf v - \tfrac12 \mathbf v^\top \mathbf P \mathbf v]$."""
    cov = jnp.swapaxes(q.root, -1, -2) @ q.root
    squares = q.mean.shape[1] * cov + jnp.swapaxes(q.mean, -1, -2) @ q.mean
    value = jnp.sum(messages.shift * q.mean) - 0.5 * jnp.sum(messages.precision * squares)
    return value + messages.log_scale


def marginal(conditional: Conditional, beliefs: Sequence[InducingBelief]) -> LayerValues:
    """The values of a layer, averaged over the inducing variables of its functions."""
    if not conditional.loadings:
        return conditional.values
    means, variances = [], []
    for T, belief in zip(conditional.loadings, beliefs, strict=True):
        mean, cov = belief.dense()
        means.append(jnp.einsum("mnp,pm->np", T, mean))
        variances.append(jnp.einsum("mnp,pmk,knp->np", T, cov, T))
    values = conditional.values
    return values._replace(
        mean=values.mean + jnp.concatenate(means, axis=1),
        cov=values.cov + jnp.concatenate(variances, axis=1),
    )
