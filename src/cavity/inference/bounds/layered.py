r"""Layers whose hidden values depend on the inducing variables of their own functions.

A posterior of hidden values defines how these depend on each other and on inducing variables:

$$q(\mathbf h, \mathbf f) = \prod_l p(f_l \mid \mathbf u_l)\, q(\mathbf u_l)
\prod_n q(\mathbf h_{l, n} \mid \cdot)$$

The log site of a row is averaged over its hidden values and stays quadratic in the inducing
variables. Where hidden values do not depend on these, the layers are regressions between stored
beliefs (`factors/averaged.py`). Where they do, the prior times the averaged sites would be optimal
for its own layer only, because the next layer depends on it through the hidden values: the
posterior of a hidden layer's inducing variables is then given directly, unless the belief of the
layer alone is asked for, and layers are gone through in their order.

References:
    Chamberlin (2016), S10, S19 and S22, with the correction that hidden layers' inducing variables
    have no optimum in closed form; Bui (2017), S56, S57 and S63 with errata E22 and E23.
"""

import abc
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import equinox as eqx
import jax.numpy as jnp

from cavity.inducing.base import inducing_points
from cavity.inference.bounds.base import AbstractOrderedBound, Bounded
from cavity.inference.factors.averaged import AveragedRegression
from cavity.inference.factors.base import Stores
from cavity.inference.factors.layer_sight import LayerSight, present
from cavity.inference.factors.tied import TiedSite, tied_cavity
from cavity.inference.graph.base import Messages
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.inducing import InducingBelief, WhitenedInducing
from cavity.inference.variables.layered import (
    LayeredBelief,
    LayeredMoments,
    LayerValues,
    conditional_entropy,
    no_layers,
)
from cavity.kernels.expectations import expected_cross
from cavity.numerics.types import Array, Float, Scalar


class Conditional(NamedTuple):
    """The values of a layer, given the inducing variables of their functions.

    Attributes:
        values: the values at inducing variables of zero.
        var: variances given all that values depend on.
        loadings: slopes in the whitened inducing variables of each group of functions.
    """

    values: LayerValues
    var: Float[Array, "N W"]
    loadings: tuple[Float[Array, "M N W"], ...]


class AbstractDependence(eqx.Module):
    """Conditional distribution of a layer's hidden values given inducing variables.

    To implement:
        `given(number, store, below, regression)`.
    """

    @abc.abstractmethod
    def given(
        self,
        number: int,
        store: LayeredMoments,
        below: LayeredBelief,
        regression: AveragedRegression,
    ) -> Conditional:
        """The values of a layer.

        Args:
            number: of the layer, from 0.
            store: the stored conditionals.
            below: the values of the layers below.
            regression: the functions of the layer.
        """


class OnFunctions(AbstractDependence):
    """Values that depend on the inducing variables of their own functions, as stored."""

    def given(
        self,
        number: int,
        store: LayeredMoments,
        below: LayeredBelief,
        regression: AveragedRegression,
    ) -> Conditional:
        own = store.layers[number]
        return Conditional(own.alone(), own.var, own.slopes)


class Nested(AbstractDependence):
    """Values that follow their functions' mean given inducing variables, averaged over inputs.

    Their variance is that of the noise: nested variational compression.
    """

    def given(
        self,
        number: int,
        store: LayeredMoments,
        below: LayeredBelief,
        regression: AveragedRegression,
    ) -> Conditional:
        inputs = cast(LayerSight, regression.sight).inputs(below, regression.rows)
        mean = regression.mean(inputs.mean)
        var = jnp.broadcast_to(jnp.atleast_1d(regression.noise_variance()), mean.shape)
        loadings = []
        for view in (edge.view for edge in regression.edges):
            cross = expected_cross(view.kernel, inputs, inducing_points(view.inducing))
            A = view.root @ cross.T
            loadings.append(jnp.repeat(A[:, :, None], view.mean.outputs, axis=2))
        return Conditional(LayerValues(mean, var), var, tuple(loadings))


class Layers(eqx.Module):
    """Layers of functions on rows, and what their hidden values depend on.

    Attributes:
        regressions: the functions of every layer, on the hidden values below.
        dependence: what hidden values depend on.
        rows: the data.
    """

    regressions: tuple[AveragedRegression, ...]
    dependence: AbstractDependence
    rows: Rows

    def through(
        self, store: LayeredMoments, answer: Callable[[int, Messages], "Answer"]
    ) -> tuple[list["Answer"], Bounded]:
        """Pass hidden values through the layers.

        Args:
            store: the conditionals of hidden values.
            answer: what inducing variables, by their index, make of messages.

        Returns:
            The answers, in the order of the inducing variables; the sum of all terms, and the
            beliefs about inducing variables and hidden values.
        """
        zero, every = jnp.zeros((), self.rows.y.dtype), []
        total, hidden = zero, no_layers(zero.dtype)
        for number, regression in enumerate(self.regressions):
            loadings, conditional, below = (), None, hidden
            if number + 1 < len(self.regressions):
                conditional = self.dependence.given(number, store, hidden, regression)
                loadings = conditional.loadings
                below = hidden.followed_by(conditional.values, zero)
            answers = [answer(*sent) for sent in regression.averaged(below, loadings)]
            total = sum((one.gain for one in answers), total)
            if conditional is not None:
                entropy = conditional_entropy(conditional.var, present(self.rows))
                values = marginal(conditional, [one.belief for one in answers])
                total, hidden = total + entropy, hidden.followed_by(values, entropy)
            every += answers
        return every, Bounded(total, (*(one.belief for one in every), hidden))


class LayeredBound(AbstractOrderedBound):
    """Layers of which each hidden one has a belief about its inducing variables.

    Attributes:
        layers: the layers.
        start: the beliefs of inducing variables that are given directly, None for the others; and
            the hidden values.
    """

    layers: Layers
    start: Stores

    def __call__(self, stores: Stores) -> Bounded:
        *direct, store = stores
        return self.layers.through(store, lambda i, messages: answered(messages, direct[i]))[1]


class Answer(NamedTuple):
    """Belief of an inducing variable given the messages of its layer, and its terms."""

    belief: InducingBelief
    gain: Scalar


def answered(messages: Messages, direct: TiedSite | None) -> Answer:
    """Belief of inducing variables: a given one, or the best for their own layer."""
    if direct is None:
        belief = WhitenedInducing(messages.shift.shape[-1]).belief(messages)
        return Answer(belief, belief.log_normaliser)
    belief = direct.belief()
    return Answer(belief, expected_log(messages, belief) + negative_divergence(direct))


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
