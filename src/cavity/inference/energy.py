r"""The energy: one function for every model and method.

$$-\log Z = -\sum_v \big[\Phi(q_v) - \Phi(p_v)\big] - \sum_n \log s_n$$

over variables v with priors p and beliefs q, and rows n with site scales s. Exact factors hand
over their scales with their messages; for the others
$\log s_n = \log M_a(f_n; \text{cavity}) + \sum_e D_a(q_e, t_{ne})$, where methods differ in what
stands for the log power mean and in what it sees of the belief (`inference/terms.py`).
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.approximations.local_terms import Latent, latent
from cavity.inference.factors.fused_gaussian import fused_gaussian_messages, is_fusable
from cavity.inference.factors.site import ExactFactor, Factor, SiteFactor
from cavity.inference.graph.base import (
    AbstractBelief,
    AbstractResponse,
    AbstractVariable,
    Messages,
    Projection,
)
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites
from cavity.numerics.chunking import map_over_rows, sum_over_rows
from cavity.numerics.types import Array, Float, Int, Scalar


class Graph(eqx.Module):
    """A model laid out for inference: Gaussian variables, and factors that touch them."""

    variables: tuple[AbstractVariable, ...]
    factors: tuple[Factor, ...]


# For each factor: its sites, one store per edge; None for an exact factor.
Sites = tuple[tuple[AbstractSites, ...] | None, ...]
Beliefs = tuple[AbstractBelief, ...]
# For each factor: means and variances seen through each edge; None for an exact factor.
FixedMarginals = tuple[tuple[tuple[Array, Array], ...] | None, ...]


def empty_sites(graph: Graph) -> Sites:
    """Sites of precision zero for every factor that keeps any."""
    return tuple(f.empty_sites() if isinstance(f, SiteFactor) else None for f in graph.factors)


def beliefs(graph: Graph, sites: Sites) -> Beliefs:
    """The posterior of every variable: its prior times all its messages."""
    return beliefs_under(graph, collect_messages(graph, sites))


def beliefs_under(graph: Graph, received: Sequence[Messages | None]) -> Beliefs:
    """The posterior of every variable under the messages that it received."""
    pairs = zip(graph.variables, received, strict=True)
    return tuple(variable.belief(m) for variable, m in pairs if m is not None)


def collect_messages(
    graph: Graph, sites: Sites, kinds: tuple[type, ...] = (ExactFactor, SiteFactor)
) -> list[Messages | None]:
    """For every variable the product of the messages of its factors, or of those of some kinds."""
    received: list[Messages | None] = [None] * len(graph.variables)
    for factor, store in zip(graph.factors, sites, strict=True):
        if not isinstance(factor, kinds):
            continue
        for variable, message in _messages(graph, factor, store):
            before = received[variable]
            received[variable] = message if before is None else _add(before, message)
    return received


def energy(
    graph: Graph,
    sites: Sites,
    held: FixedMarginals | None = None,
    *,
    q: Beliefs | None = None,
    settled: bool = False,
) -> Scalar:
    """The negative log evidence, in nats, summed over the data.

    At a fixed point of the sweeps it is stationary in the sites and in what is held, so that
    gradients with respect to the model may hold the sites of site factors constant, and the
    marginals of the beliefs as well, but of terms that are not `stationary`.

    Args:
        graph: the model laid out for inference.
        sites: the sites of its factors.
        held: marginals to form the cavities from in place of the beliefs' own. The energy is
            then concave in the sites, and its maximum over them, as a function of what is held,
            has its minima at fixed points (the expectation-consistent form).
        q: the beliefs at these sites, where they are at hand.
        settled: whether the sites are at a fixed point: nothing is then differentiated through
            the marginals, which costs more than all the rest.
    """
    q = beliefs(graph, sites) if q is None else q
    log_evidence = sum(belief.log_normaliser for belief in q)
    for i, (factor, store) in enumerate(zip(graph.factors, sites, strict=True)):
        if isinstance(factor, SiteFactor):
            assert store is not None
            marginals = None if held is None else held[i]
            scales = _log_scales(factor, store, q, marginals, settled=settled)
            log_evidence = log_evidence + scales
    return -jnp.asarray(log_evidence)


def negative_log_joint(graph: Graph, sites: Sites) -> Scalar:
    r"""The negative log of prior times likelihood at the mean, which a mode makes least.

    $\tfrac12 \mathbf m^\top \mathbf K^{-1} \mathbf m$ from the sites, by which
    $\mathbf K^{-1} \mathbf m = \boldsymbol\nu - \mathbf T \mathbf m$. For methods that see the
    mean alone, of likelihoods with one latent function.

    Args:
        graph: the model laid out for inference, of one factor with scalar sites.
        sites: the sites of its factor.

    References:
        Jylanki (2013), S48.
    """
    q = beliefs(graph, sites)
    (factor,), (store,) = graph.factors, sites
    assert isinstance(factor, SiteFactor)
    assert store is not None

    def part_sum(part: tuple[Rows, tuple[AbstractSites, ...]]) -> Array:
        rows, own = part
        views = seen(factor, rows, q, own)
        faced, _ = cavity_marginals(factor, rows, own, views)
        log_mean = factor.term.log_mean(faced, rows, factor.row_power(rows))
        (site,), (view,) = own, views
        drawn = 0.5 * view.mean * (site.shift - site.precision * view.mean)
        return jnp.sum(drawn) - jnp.sum(factor.row_presence(rows) * log_mean)

    return sum_over_rows(part_sum, (factor.rows, factor.row_sites(store)), factor.chunk)


def batch_energy(graph: Graph, sites: Sites, index: Int[Array, " B"], scale: Scalar) -> Scalar:
    """The energy from some rows that stand for all, unbiased; beliefs are those of all sites.

    Args:
        graph: the model laid out for inference: one factor on inducing variables.
        sites: the sites of all rows.
        index: the rows.
        scale: rows in all for each of them.
    """
    q = beliefs(graph, sites)
    (factor,), (store,) = graph.factors, sites
    assert isinstance(factor, SiteFactor)
    assert store is not None
    rows, kept = jax.tree.map(lambda x: x[index], (factor.rows, store))
    part = SiteFactor(
        factor.edges, rows, factor.term, factor.power, index.shape[0], factor.evaluation_point
    )
    value = sum(belief.log_normaliser for belief in q)
    return -value - scale * _log_scales(part, kept, q, None)


def marginals(graph: Graph, q: Beliefs) -> FixedMarginals:
    """What the rows of every site factor see of the beliefs."""

    def one(factor: Factor) -> Any:
        if not isinstance(factor, SiteFactor):
            return None

        def part(rows: Rows) -> tuple[tuple[Array, Array], ...]:
            return tuple((s.mean, s.var) for s in seen(factor, rows, q))

        return map_over_rows(part, factor.rows, factor.chunk)

    return tuple(one(factor) for factor in graph.factors)


def respond(
    graph: Graph, responses: tuple[AbstractResponse, ...], seen_now: FixedMarginals, change: Sites
) -> FixedMarginals:
    """Changes of all marginals, to first order, where scalar sites change.

    Args:
        graph: the model laid out for inference.
        responses: those of the beliefs.
        seen_now: the marginals of the beliefs.
        change: the changes of the sites.
    """
    centred = tuple(
        None
        if store is None or given is None
        else tuple(
            type(site)(site.shift - site.precision * mean, site.precision)
            for site, (mean, _) in zip(store, given, strict=True)
        )
        for store, given in zip(change, seen_now, strict=True)
    )
    received = collect_messages(graph, centred, (SiteFactor,))
    changes = [
        None if m is None else response.change(m)
        for response, m in zip(responses, received, strict=True)
    ]

    def one(factor: Factor) -> Any:
        if not isinstance(factor, SiteFactor):
            return None

        def part(rows: Rows) -> tuple[tuple[Array, Array], ...]:
            return tuple(
                responses[edge.variable].marginal(changes[edge.variable], edge.view.project(rows))
                for edge in factor.edges
            )

        return map_over_rows(part, factor.rows, factor.chunk)

    return tuple(one(factor) for factor in graph.factors)


def _messages(
    graph: Graph, factor: Factor, store: tuple[AbstractSites, ...] | None
) -> list[tuple[int, Messages]]:
    if isinstance(factor, ExactFactor):
        variable = graph.variables[factor.edge.variable]
        if is_fusable(variable, factor):
            return [(factor.edge.variable, fused_gaussian_messages(factor))]

        def exact(rows: Rows) -> Messages:
            projection = factor.edge.view.project(rows)
            return variable.scatter(*factor.sites(rows, projection), projection)

        return [(factor.edge.variable, sum_over_rows(exact, factor.rows, factor.chunk))]
    assert store is not None

    def stored(part: tuple[Rows, tuple[AbstractSites, ...]]) -> tuple[Messages, ...]:
        return tuple(message for _, message in sent(graph, factor, *part))

    total = sum_over_rows(stored, (factor.rows, factor.row_sites(store)), factor.chunk)
    return [(edge.variable, m) for edge, m in zip(factor.edges, total, strict=True)]


def sent(
    graph: Graph, factor: SiteFactor, rows: Rows, sites: tuple[AbstractSites, ...]
) -> list[tuple[int, Messages]]:
    """The messages of a chunk of rows, with the variables that they go to."""
    presence = factor.row_presence(rows)
    zero = jnp.zeros(rows.y.shape[0], rows.y.dtype)
    found = []
    for edge, site in zip(factor.edges, sites, strict=True):
        shift = site.shift * _like(presence, site.shift)
        precision = site.precision * _like(presence, site.precision)
        projection = edge.view.project(rows)
        message = graph.variables[edge.variable].scatter(shift, precision, zero, projection)
        found.append((edge.variable, message))
    return found


def _like(presence: Array, x: Array) -> Array:
    return presence.reshape(presence.shape + (1,) * (x.ndim - presence.ndim))


def _add(a: Messages, b: Messages) -> Messages:
    """Messages of two factors; if only one shares precisions between outputs, it is unshared."""
    if a.shift.shape != b.shift.shape:
        a, b = _unshared(a), _unshared(b)
    return jax.tree.map(jnp.add, a, b)


def _unshared(m: Messages) -> Messages:
    groups, replicas, size = m.shift.shape
    precision = jnp.repeat(m.precision, replicas, axis=0)
    return Messages(m.shift.reshape(groups * replicas, 1, size), precision, m.log_scale)


class Marginal(eqx.Module):
    """What a chunk of rows sees through one edge: the marginal, and the projection itself."""

    mean: Array
    var: Array
    projection: Projection


def seen(
    factor: SiteFactor,
    rows: Rows,
    q: Beliefs,
    sites: tuple[AbstractSites, ...] | None = None,
    held: tuple[tuple[Array, Array], ...] | None = None,
) -> tuple[Marginal, ...]:
    """The marginals of the projected variables for a chunk of rows (blocks: outputs first)."""
    out = []
    for i, edge in enumerate(factor.edges):
        projection = edge.view.project(rows)
        if held is not None:
            out.append(Marginal(*held[i], projection))
            continue
        mean, var = q[edge.variable].marginal(projection, None if sites is None else sites[i])
        out.append(Marginal(jnp.swapaxes(mean, 1, 2) if rows.blocked else mean, var, projection))
    return tuple(out)


def _still(view: Marginal) -> Marginal:
    """A marginal that is constant under differentiation; the projection is not."""
    return Marginal(*jax.lax.stop_gradient((view.mean, view.var)), view.projection)


def cavity_marginals(
    factor: SiteFactor, rows: Rows, sites: tuple[AbstractSites, ...], views: tuple[Marginal, ...]
) -> tuple[tuple[Latent, ...], Array]:
    """What the term of each row sees through its edges, and whether that is proper."""
    power = factor.site_power(rows)
    faced, proper = [], []
    for view, site in zip(views, sites, strict=True):
        mean, var, ok = site.cavity(*factor.visible(view.mean, view.var), power)
        faced.append(latent((mean, var), view.projection))
        proper.append(ok)
    return tuple(faced), jnp.all(jnp.stack(proper), axis=0)


def _log_scales(
    factor: SiteFactor,
    store: tuple[AbstractSites, ...],
    q: Beliefs,
    held: Any,
    *,
    settled: bool = False,
) -> Float[Array, ""]:
    def part_sum(part: tuple[Rows, tuple[AbstractSites, ...], Any]) -> Array:
        rows, sites, given = part
        views = seen(factor, rows, q, sites, given)
        if settled and factor.stationary:
            views = tuple(_still(view) for view in views)
        faced, proper = cavity_marginals(factor, rows, sites, views)
        log_mean = factor.term.log_mean(faced, rows, factor.row_power(rows))
        removed = jnp.zeros((), rows.y.dtype)
        power = factor.site_power(rows)
        for view, site in zip(views, sites, strict=True):
            removed = removed + site.log_normaliser_ratio(
                *factor.visible(view.mean, view.var), power
            )
        removed = jnp.where(proper, removed, jnp.nan)
        return jnp.sum(factor.row_presence(rows) * (log_mean + removed))

    return sum_over_rows(part_sum, (factor.rows, factor.row_sites(store), held), factor.chunk)
