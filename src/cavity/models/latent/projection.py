r"""Latent inputs of new rows: their variational posteriors, given that of the functions.

New rows are independent of each other. For each, the bound
$\mathbb E_{q(\mathbf x)} \log \mathbb E_f \prod_p p(y_p \mid f_p(\mathbf x)) -
\mathrm{KL}(q \| p)$ on its log density is raised by natural-gradient steps, which are site
updates at power 0, from a few starts: the latent means of training rows that predict it best.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.graph.rows import Rows
from cavity.inference.propagation import AbstractPropagation, Nodes, Spread
from cavity.inference.variables.inputs import divergence
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.deep.layer import LayerProcess
from cavity.models.deep.term import terms_at
from cavity.models.latent.term import averaged_term
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float, Int

# Starts per row beside the prior, and how far they are from each other at least.
STARTS, APART = 5, 1.0
# Steps from every start, further ones at the most from the best, and the change in deviations at
# which they end.
TRIAL, STEPS, TOLERANCE = 20, 100, 1e-4
# The least share of its step that a row makes, and the least precision that a step leaves.
SHORTEST, LEAST_PRECISION = 1e-5, 0.05


class Projected(NamedTuple):
    """Posteriors of the latent inputs of rows.

    Attributes:
        mean: means.
        var: variances.
        bound: lower bounds of the log densities of the rows' observed outputs, in nats.
    """

    mean: Float[Array, "N Q"]
    var: Float[Array, "N Q"]
    bound: Float[Array, " N"]


class Projector(eqx.Module):
    """Projection of new rows into the latent space.

    Attributes:
        layer: the functions of all outputs.
        likelihood: the density of outputs.
        propagation: how a Gaussian input goes through the functions.
        candidates: means to start from, the first of them that of the prior.
        spreads: variances to start from; but for the prior's small enough to tell candidates
            apart.
    """

    layer: LayerProcess
    likelihood: AbstractLikelihood
    propagation: AbstractPropagation
    candidates: Float[Array, "C Q"]
    spreads: Float[Array, "C Q"]

    def term(self, mean: Array, var: Array, rows: Rows) -> Float[Array, " N"]:
        """The expected log densities of rows at these posteriors of their inputs."""
        inputs = Spread(mean[None], var[None])
        parts = (self.layer, self.likelihood, self.propagation)
        return averaged_term(*parts, inputs, rows, 1.0)


@compiled
def project(projector: Projector, rows: Rows) -> tuple[Projected, Projected]:
    """The best posteriors of some rows, and where the steps from every start led.

    The second has an axis of starts after that of rows.
    """
    chosen = _starts(projector, rows)
    count, several = chosen.shape
    repeated = jax.tree.map(lambda a: jnp.repeat(a, several, axis=0), rows)
    index = chosen.ravel()
    begin = projector.candidates[index], projector.spreads[index]
    tried = _climb(projector, repeated, *begin, TRIAL)
    modes = jax.tree.map(lambda a: a.reshape(count, several, *a.shape[1:]), tried)
    modes = with_bounds(projector, modes, rows)
    index = jnp.arange(count), jnp.argmax(modes.bound, axis=1)
    last = _climb(projector, rows, modes.mean[index], modes.var[index], STEPS)
    end = with_bounds(projector, jax.tree.map(lambda a: a[:, None], last), rows)
    higher = end.bound[:, 0] >= modes.bound[index]

    def chosen_end(before: Array, after: Array) -> Array:
        shape = (count, *[1] * (before.ndim - 2))
        return before.at[index].set(jnp.where(higher.reshape(shape), after[:, 0], before[index]))

    modes = jax.tree.map(chosen_end, modes, end)
    return jax.tree.map(lambda a: a[index], modes), modes


@compiled
def with_bounds(projector: Projector, modes: Projected, rows: Rows) -> Projected:
    """Several posteriors of rows, an axis after that of rows, with their bounds by nodes.

    By one Gaussian per row, terms may exceed the log density where posteriors are wide.
    """

    def bound(moments: tuple[Array, Array]) -> Array:
        inputs = Spread(*(moment[None] for moment in moments))
        how = (projector.layer, projector.likelihood, Nodes().for_predictions())
        term = averaged_term(*how, inputs, rows, 1.0)
        return term - jnp.sum(divergence(*moments), axis=1)

    moments = jnp.moveaxis(modes.mean, 1, 0), jnp.moveaxis(modes.var, 1, 0)
    return modes._replace(bound=jax.lax.map(bound, moments).T)


def _starts(projector: Projector, rows: Rows) -> Int[Array, "N S"]:
    """The prior, and the candidates that predict the rows best, some way apart from each other.

    Rows of which little is observed have wide posteriors, which narrow starts may miss.
    """
    C = projector.candidates[1:]
    mean, var = projector.layer.moments(C)
    count = rows.y.shape[0]
    shape = (len(C), count, mean.shape[1])
    values = Spread(*(jnp.broadcast_to(a[:, None], shape) for a in (mean, var)))
    terms = terms_at(projector.likelihood, values, rows, 1.0)  # C N
    score = (terms - 0.5 * jnp.sum(C**2, axis=1)[:, None]).T
    chosen: list[Int[Array, " N"]] = [jnp.zeros(count, int)]
    for _ in range(min(STARTS, len(C))):
        best = jnp.argmax(score, axis=1)
        chosen.append(1 + best)
        near = jnp.sum((C[None] - C[best][:, None]) ** 2, axis=2) < APART**2
        score = jnp.where(near, score - 1e30, score)
    return jnp.stack(chosen, axis=1)


class _Climb(NamedTuple):
    """Posteriors on their way up.

    Attributes:
        mean: means.
        var: variances.
        by_mean: slopes of the expected log densities in the means.
        by_var: their slopes in the variances.
        bound: the bounds.
        step: the share of a full step that each row makes next.
        change: the change of each row's posterior in its last step, in deviations; a row that
            has ended makes no more, so that rows do not depend on each other.
        steps: steps made.
    """

    mean: Array
    var: Array
    by_mean: Array
    by_var: Array
    bound: Array
    step: Array
    change: Array
    steps: Array


def _climb(
    projector: Projector,
    rows: Rows,
    start: Float[Array, "N Q"],
    var: Float[Array, "N Q"],
    most: int,
) -> Projected:
    """Natural-gradient steps, of a length for each row that raises its bound."""

    def evaluated(mean: Array, var: Array) -> tuple[Array, Array, Array]:
        def total(mean: Array, var: Array) -> tuple[Array, Array]:
            term = projector.term(mean, var, rows)
            return jnp.sum(term), term

        slopes, term = jax.grad(total, argnums=(0, 1), has_aux=True)(mean, var)
        return *slopes, term - jnp.sum(divergence(mean, var), axis=1)

    def once(now: _Climb) -> _Climb:
        moving = now.change > TOLERANCE
        step = now.step[:, None]
        target = jnp.maximum(1.0 - 2.0 * now.by_var, LEAST_PRECISION)
        var = 1.0 / ((1.0 - step) / now.var + step * target)
        move = step * var * (now.by_mean - now.mean)
        mean = now.mean + move
        by_mean, by_var, bound = evaluated(mean, var)
        higher = moving & (bound >= now.bound - 1e-12 * jnp.abs(now.bound))
        up = higher[:, None]
        size = jnp.abs(move) / jnp.sqrt(var) + jnp.abs(jnp.log(var / now.var))
        idle = now.step < SHORTEST
        shorter = jnp.where(idle, 0.0, jnp.inf)
        change = jnp.where(higher, jnp.max(size, axis=1), shorter)
        return _Climb(
            mean=jnp.where(up, mean, now.mean),
            var=jnp.where(up, var, now.var),
            by_mean=jnp.where(up, by_mean, now.by_mean),
            by_var=jnp.where(up, by_var, now.by_var),
            bound=jnp.where(higher, bound, now.bound),
            step=jnp.where(higher, jnp.minimum(2.0 * now.step, 1.0), 0.5 * now.step),
            change=jnp.where(moving, change, now.change),
            steps=now.steps + 1,
        )

    def unfinished(now: _Climb) -> Array:
        return (now.steps < most) & jnp.any(now.change > TOLERANCE)

    count, without_end = jnp.zeros((), int), jnp.full(len(start), jnp.inf)
    first = _Climb(start, var, *evaluated(start, var), jnp.ones(len(start)), without_end, count)
    end = jax.lax.while_loop(unfinished, once, first)
    return Projected(end.mean, end.var, end.bound)
