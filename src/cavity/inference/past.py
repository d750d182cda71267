r"""The past: messages of rows that are gone, in a model whose parameters have moved since.

Messages $\mathbf h, \mathbf P, c$ of earlier rows are about whitened inducing variables
$\mathbf v' = \mathbf L'^{-1} (\mathbf a - \mathbf m'_a)$ of the model as it was. A model with
another kernel or other inducing variables $\mathbf b$ sees them as one more row, with a vector
in the place of a number:

$$\mathbf v' = \mathbf A^\top \mathbf v + \mathbf o + \boldsymbol\epsilon, \quad
\mathbf A = \mathbf L^{-1} \mathbf K_{ba} \mathbf L'^{-\top}, \quad
\boldsymbol\epsilon \sim \mathcal N(0, \mathbf D), \quad
\mathbf D = \mathbf L'^{-1} \mathbf K_{aa} \mathbf L'^{-\top} - \mathbf A^\top \mathbf A,$$

with $\mathbf o = \mathbf L'^{-1} (\mathbf m_a - \mathbf m'_a)$. The row is Gaussian, so that its
site at power a is known: about $\mathbf A^\top \mathbf v + \mathbf o$ it has

$$\mathbf P (\mathbf I + a \mathbf D \mathbf P)^{-1}, \quad
(\mathbf I + a \mathbf P \mathbf D)^{-1} \mathbf h, \quad
c + \tfrac a2 \mathbf h^\top \mathbf D (\mathbf I + a \mathbf P \mathbf D)^{-1} \mathbf h
- \tfrac1{2a} \log |\mathbf I + a \mathbf D \mathbf P|.$$

No matrix of the past is inverted, so $\mathbf P$ may be singular. As the site does not depend on
those of other rows, variables receive it once, before them.

References:
    Turner's slides, S17 to S20; Bui (2017), S52.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import block_diag

from cavity.inducing.base import AbstractInducing, coincidence, covariance, variances_from
from cavity.inference.energy import Graph
from cavity.inference.graph.base import AbstractVariable, AbstractView, Messages
from cavity.inference.graph.messages import added
from cavity.inference.variables.coupled_classes import CoupledClassInducing
from cavity.inference.variables.inducing import WhitenedInducing
from cavity.inference.variables.inducing_view import InducingView, OutputMean
from cavity.numerics.linalg import jittered, product_lower
from cavity.numerics.power_limits import Power, log_determinant_ratio, with_limit_at_zero
from cavity.numerics.types import Array, Float, Scalar


class PastFunction(eqx.Module):
    r"""Whitened inducing variables of a function as it was.

    Attributes:
        inducing: the inducing variables $\mathbf a$.
        mean: the prior mean function.
        root: $\mathbf L'^{-1}$, of the covariance that they had.
    """

    inducing: AbstractInducing
    mean: OutputMean
    root: Float[Array, "m m"]


class Past(eqx.Module):
    """Messages of earlier rows.

    Attributes:
        functions: for each variable, the functions that its messages are about.
        messages: the messages to each variable.
        power: the power of the past as a row.
        same: whether functions are those of the model at hand, so that messages can be added.
        with_prior: whether the prior that the rows were seen with goes with them, in the place of
            that of the model at hand (S16). Inducing variables must then be the same.
        noise: the variance of Gaussian noise that the messages were found with; None where noise
            is of another kind, known for each row, or one for each output.
        count: number of outputs that the messages come from.
    """

    functions: tuple[tuple[PastFunction, ...], ...]
    messages: tuple[Messages, ...]
    power: Power = 0.0
    same: bool = eqx.field(static=True, default=False)
    with_prior: bool = eqx.field(static=True, default=False)
    noise: Scalar | None = None
    count: Scalar | float = 0.0

    def at_noise(self, variance: Scalar | float) -> "Past":
        r"""The past of the same outputs under another noise variance.

        Sites of Gaussian noise are $\log \mathcal N(y; f, \sigma^2) = -\tfrac12 \log 2 \pi
        \sigma^2 - (y - f)^2 / 2 \sigma^2$, of which the second part falls as the variance rises.
        Exact where inducing variables explain the outputs' function, and at power 0.
        """
        if self.noise is None or self.with_prior:
            return self
        variance = jnp.asarray(variance, self.noise.dtype)
        share = self.noise / variance
        before, now = jnp.log(2.0 * jnp.pi * self.noise), jnp.log(2.0 * jnp.pi * variance)
        messages = jax.tree.map(lambda x: share * x, self.messages)
        past = dataclasses.replace(self, messages=messages, noise=variance)
        return past.with_log_scale(-0.5 * self.count * (now - share * before))

    def scaled(self, factor: float) -> "Past":
        """The messages raised to a power between 0 and 1."""
        messages = jax.tree.map(lambda x: factor * x, self.messages)
        return dataclasses.replace(self, messages=messages, count=factor * self.count)

    def with_log_scale(self, more: float | Scalar) -> "Past":
        """The same times a number, of which the log is given."""
        first, *others = self.messages
        first = dataclasses.replace(first, log_scale=first.log_scale + more)
        return dataclasses.replace(self, messages=(first, *others))


class _Sight(NamedTuple):
    """Map from variables at hand to those of the past: loadings A, residual D and offsets o."""

    loadings: Float[Array, "k m"]
    residual: Float[Array, "m m"]
    offset: Float[Array, "P m"]


def with_past(graph: Graph, past: Past, jitter: float | Scalar) -> Graph:
    """A graph of one factor whose variables have received the messages of the past.

    Args:
        graph: a sparse GP laid out on rows.
        past: what earlier rows said.
        jitter: share of the mean prior variance that `graph` was laid out with.

    Raises:
        TypeError: for variables that are not inducing variables with private sites.
    """
    received = seen_again([edge.view for edge in graph.edges], past, jitter)
    pairs = zip(graph.variables, received, strict=True)
    variables = tuple(receiving(variable, each) for variable, each in pairs)
    return dataclasses.replace(graph, variables=variables)


def seen_again(
    views: list[AbstractView], past: Past, jitter: float | Scalar
) -> tuple[Messages, ...]:
    """The messages of the past about the variables that rows see now."""
    if past.same:
        return past.messages
    triples = zip(views, past.functions, past.messages, strict=True)
    return tuple(
        _about(functions, inducing_views(view), told, past, jitter)
        for view, functions, told in triples
    )


@functools.singledispatch
def inducing_views(view: AbstractView) -> tuple[InducingView, ...]:
    """Views of the inducing variables of each function of a variable.

    Raises:
        TypeError: for views of other variables.
    """
    raise TypeError(f"a past is of inducing variables, given {type(view).__name__}")


@inducing_views.register
def _(view: InducingView) -> tuple[InducingView, ...]:
    return (view,)


@functools.singledispatch
def receiving(variable: AbstractVariable, messages: Messages) -> AbstractVariable:
    """A variable that has received messages before those of the rows at hand.

    Raises:
        TypeError: for variables that are no inducing variables with private sites.
    """
    raise TypeError(
        f"a past is of inducing variables with private sites, given {type(variable).__name__}"
    )


@receiving.register(WhitenedInducing)
@receiving.register(CoupledClassInducing)
def _(variable: WhitenedInducing | CoupledClassInducing, messages: Messages) -> AbstractVariable:
    before = variable.received
    total = messages if before is None else added(messages, before)
    return dataclasses.replace(variable, received=total)


def log_evidence_of_past(graph: Graph) -> Scalar:
    """The log evidence of what variables have received, before any rows, in nats."""
    received = [getattr(variable, "received", None) for variable in graph.variables]
    return log_evidence_of(graph.variables, received)


def log_evidence_of(
    variables: Sequence[AbstractVariable], messages: Sequence[Messages | None]
) -> Scalar:
    """The log evidence of messages to variables, apart from what these have received, in nats."""
    total = jnp.zeros(())
    for variable, told in zip(variables, messages, strict=True):
        if told is not None:
            alone = dataclasses.replace(variable, received=None)  # type: ignore[type-var]
            total = total + alone.belief(told).log_normaliser
    return total


def _about(
    functions: tuple[PastFunction, ...],
    views: tuple[InducingView, ...],
    told: Messages,
    past: Past,
    jitter: float | Scalar,
) -> Messages:
    """Messages of the past to one variable, about that variable."""
    pairs = zip(functions, views, strict=True)
    if past.with_prior:
        sights = [_same_values(old, view) for old, view in pairs]
    else:
        sights = [_sight(old, view, jitter) for old, view in pairs]

    def seen(told: Messages, sight: _Sight) -> Messages:
        return (
            _messages_with_prior(told, sight)
            if past.with_prior
            else _messages(told, sight, past.power)
        )

    if told.precision.ndim == 3:
        return seen(told, sights[0])
    # the functions of all classes, as one
    classes, size = told.shift.shape
    sights = sights * (classes // len(sights))
    joint = _Sight(
        block_diag(*(s.loadings for s in sights)),
        block_diag(*(s.residual for s in sights)),
        jnp.concatenate([s.offset for s in sights], axis=1),
    )
    flat = Messages(
        told.shift.reshape(1, 1, -1),
        told.precision.reshape(1, classes * size, classes * size),
        told.log_scale,
    )
    total = seen(flat, joint)
    h = total.shift.reshape(classes, -1)
    return Messages(h, total.precision.reshape(h.shape * 2), total.log_scale)


def _same_values(old: PastFunction, view: InducingView) -> _Sight:
    """Map from whitened variables to the same values whitened with another covariance."""
    A = (old.root @ view.factor).T
    return _Sight(A, jnp.zeros_like(A), _change_of_mean(old, view) @ old.root.T)


def _messages_with_prior(told: Messages, sight: _Sight) -> Messages:
    """The old posterior, over the prior at hand."""
    groups, replicas, size = told.shift.shape
    A, offset = sight.loadings, sight.offset.reshape(groups, replicas, size)
    B = told.precision + jnp.eye(size, dtype=A.dtype)
    moved = offset @ B
    log_volume = jnp.sum(jnp.log(jnp.diagonal(A)))
    seen = jnp.sum(told.shift * offset) - 0.5 * jnp.sum(moved * offset)
    return Messages(
        (told.shift - moved) @ A.T,
        A @ B @ A.T - jnp.eye(len(A), dtype=A.dtype),
        told.log_scale + seen + groups * replicas * log_volume,
    )


def _sight(old: PastFunction, view: InducingView, jitter: float | Scalar) -> _Sight:
    a, b, kernel = old.inducing, view.inducing, view.kernel
    # jitter is the variance of white noise, which inducing variables at one place share
    noise = 0.0 if b.orthonormal else jitter * jnp.mean(variances_from(b, kernel))
    cross = covariance(kernel, b, a) + noise * coincidence(b, a)
    own = covariance(kernel, a, a)
    own = jittered(own, 0.0, variances_from(a, kernel, own) + noise)
    A = product_lower(view.root, cross) @ old.root.T
    D = old.root @ own @ old.root.T - A.T @ A
    return _Sight(A, 0.5 * (D + D.T), _change_of_mean(old, view) @ old.root.T)


def _change_of_mean(old: PastFunction, view: InducingView) -> Float[Array, "P m"]:
    """Changes in the prior means of the functionals."""
    outputs, before, now = view.mean.outputs, old.mean.mean, view.mean.mean
    alike = jax.tree.structure(before) == jax.tree.structure(now)
    if alike and not jax.tree.leaves(now):
        return jnp.zeros((outputs, old.root.shape[0]), old.root.dtype)

    def change(x: Float[Array, " D"]) -> Float[Array, " P"]:
        return (view.mean(x[None]) - old.mean(x[None]))[0]

    return old.inducing(change).T


def _messages(told: Messages, sight: _Sight, power: Power) -> Messages:
    """The site of the past, of several outputs."""
    groups, replicas, size = told.shift.shape
    A, offset = sight.loadings, sight.offset.reshape(groups, replicas, size)
    each = jax.vmap(lambda h, P, o: _site(h, P, o, sight, power))
    shift, precision, log_scale = each(told.shift, told.precision, offset)
    return Messages(shift @ A.T, A @ precision @ A.T, told.log_scale + jnp.sum(log_scale))


def _site(
    h: Float[Array, "R m"],
    P: Float[Array, "m m"],
    offset: Float[Array, "R m"],
    sight: _Sight,
    power: Power,
) -> tuple[Float[Array, "R m"], Float[Array, "m m"], Scalar]:
    """Shift and precision about what the variables at hand explain, and the log scale."""
    D, replicas = sight.residual, h.shape[0]

    def above_zero(power: Power) -> tuple[Array, Array]:
        both = jnp.concatenate([P, h.T], axis=1)
        solved = jnp.linalg.solve(jnp.eye(len(P), dtype=P.dtype) + power * P @ D, both)
        narrowed = solved[:, : len(P)]
        return 0.5 * (narrowed + narrowed.T), solved[:, len(P) :].T

    precision, shift = with_limit_at_zero(power, lambda: (P, h), above_zero)
    gained = power * jnp.sum(h * (shift @ D)) - replicas * log_determinant_ratio(power, D @ P)
    seen = jnp.sum(shift * offset) - 0.5 * jnp.sum(offset * (offset @ precision))
    return shift - offset @ precision, precision, 0.5 * gained + seen
