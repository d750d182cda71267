r"""The energy: one function for every model and method.

$$-\log Z = -\sum_v \big[\Phi(q_v) - \Phi(p_v)\big] - \sum_n \log s_n$$

over variables v with priors p and beliefs q, and rows n with site scales s. A belief's
`log_normaliser` is the first difference, with the scales that its messages carry; each factor
adds the others. For sites of a likelihood
$\log s_n = \log M_a(f_n; \text{cavity}) + \sum_e D_a(q_e, t_{ne})$, where approximations differ
in what stands for the log power mean and where it is evaluated (`approximations/local_terms.py`).
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.factors.base import (
    AbstractFactor,
    AbstractRowFactor,
    Beliefs,
    EdgeMoments,
    Stores,
)
from cavity.inference.graph.base import (
    AbstractProjectedBelief,
    AbstractResponse,
    AbstractVariable,
)
from cavity.inference.graph.messages import added
from cavity.numerics.types import Array, Int, Scalar

# For each factor: its sites, one store per edge; none for an exact factor.
Sites = tuple[Stores, ...]
# For each factor: means and variances that rows see through each edge; none for an exact factor.
FixedMarginals = tuple[EdgeMoments, ...]


class Graph(eqx.Module):
    """A model laid out for inference: Gaussian variables, and factors that touch them."""

    variables: tuple[AbstractVariable, ...]
    factors: tuple[AbstractFactor, ...]

    @property
    def row_factors(self) -> tuple[AbstractRowFactor, ...]:
        """The factors with one term per row of a table, which must be all.

        Raises:
            TypeError: for a factor of another kind.
        """
        if not all(factor.has_rows for factor in self.factors):
            raise TypeError("this solver needs factors with one term per row")
        return cast(tuple[AbstractRowFactor, ...], self.factors)

    def with_projections(self) -> "Graph":
        """The graph with what rows see at these parameters, computed once for several sweeps."""
        factors: Any = self.factors
        held = (f.with_projections() if f.holds_projections else f for f in factors)
        return Graph(self.variables, tuple(held))

    def only_factor(self) -> Any:
        """The factor of a graph that has one.

        Raises:
            ValueError: for several factors.
        """
        if len(self.factors) != 1:
            raise ValueError(
                f"this computation is for models with one factor, given {len(self.factors)}"
            )
        (factor,) = self.factors
        return factor


def empty_sites(graph: Graph) -> Sites:
    """Sites of precision zero for every factor that stores any."""
    return tuple(factor.empty_sites() for factor in graph.factors)


def adopted(graph: Graph, sites: Sites) -> Sites:
    """Sites that another approximation left, in the form that the factors of a graph store."""
    pairs = zip(graph.factors, sites, strict=True)
    return tuple(factor.adopted(store) for factor, store in pairs)


def beliefs(graph: Graph, sites: Sites) -> Beliefs:
    """The posterior of every variable: its prior times all its messages."""
    return beliefs_under(graph, collect_messages(graph, sites))


def beliefs_under(graph: Graph, messages: Sequence[Any]) -> Beliefs:
    """The posterior of every variable under its messages."""
    pairs = zip(graph.variables, messages, strict=True)
    return tuple(variable.belief(m) for variable, m in pairs if m is not None)


def collect_messages(graph: Graph, sites: Sites) -> list[Any]:
    """The product of the messages of all factors, for every variable."""
    return _product(graph, zip(graph.factors, sites, strict=True))


def energy(
    graph: Graph,
    sites: Sites,
    fixed: FixedMarginals | None = None,
    *,
    q: Beliefs | None = None,
    settled: bool = False,
) -> Scalar:
    """The negative log evidence, in nats, summed over the data.

    At a fixed point of the sweeps it is stationary in the private sites and in the fixed
    marginals, so that gradients with respect to the model may hold both constant; terms that
    are not `stationary` are the exception.

    Args:
        graph: the model laid out for inference.
        sites: the sites of its factors.
        fixed: marginals to form the cavities from in place of the beliefs' own. The energy is
            then concave in the sites, and its maximum over them, as a function of the fixed
            marginals, has its minima at fixed points (the expectation-consistent form).
        q: the beliefs at these sites, where they are at hand.
        settled: whether the sites are at a fixed point: nothing is then differentiated through
            the marginals, which costs more than all the rest.
    """
    q = beliefs(graph, sites) if q is None else q
    log_evidence = sum(belief.log_normaliser for belief in q)
    for i, (factor, store) in enumerate(zip(graph.factors, sites, strict=True)):
        moments = None if fixed is None else fixed[i]
        log_evidence = log_evidence + factor.log_scale(q, store, moments, settled=settled)
    return -jnp.asarray(log_evidence)


def negative_log_joint(graph: Graph, sites: Sites) -> Scalar:
    r"""The negative log of prior times likelihood at the mean, which the mode minimises.

    $\tfrac12 \mathbf m^\top \mathbf K^{-1} \mathbf m$ follows from the sites, by
    $\mathbf K^{-1} \mathbf m = \boldsymbol\nu - \mathbf T \mathbf m$. For terms evaluated at the
    mean, of likelihoods with one latent function.

    Args:
        graph: the model laid out for inference, of one factor with scalar sites.
        sites: the sites of its factor.

    References:
        Jylanki (2013), S48.
    """
    return -graph.only_factor().log_joint(beliefs(graph, sites), *sites)


def projected(q: Beliefs) -> tuple[AbstractProjectedBelief, ...]:
    """Beliefs that rows see through linear projections, which must be all."""
    return cast(tuple[AbstractProjectedBelief, ...], q)


def batch_energy(graph: Graph, sites: Sites, index: Int[Array, " B"], scale: Scalar) -> Scalar:
    """The energy from some rows that stand for all, unbiased; beliefs are those of all sites.

    Args:
        graph: the model laid out for inference, of factors with a site for each row of one table.
        sites: the sites of all rows.
        index: the rows.
        scale: rows of the table for each row.
    """
    q = beliefs(graph, sites)
    log_evidence = sum(belief.log_normaliser for belief in q)
    for factor, store in zip(graph.row_factors, sites, strict=True):
        some, some_sites = cast(Any, factor).at_rows(store, index, scale)
        log_evidence = log_evidence + some.log_scale(q, some_sites)
    return -jnp.asarray(log_evidence)


def marginals(graph: Graph, q: Beliefs) -> FixedMarginals:
    """The moments that the rows of every factor see of the beliefs."""
    return tuple(factor.moments(q) for factor in graph.row_factors)


def respond(
    graph: Graph, responses: tuple[AbstractResponse, ...], now: FixedMarginals, change: Sites
) -> FixedMarginals:
    """Changes of all marginals, to first order, where scalar sites change.

    Args:
        graph: the model laid out for inference.
        responses: those of the beliefs.
        now: the marginals of the beliefs.
        change: the changes of the sites.
    """
    centred = tuple(
        tuple(
            type(site)(site.shift - site.precision * mean, site.precision)
            for site, (mean, _) in zip(store, moments, strict=True)
        )
        for store, moments in zip(change, now, strict=True)
    )
    # exact factors have no sites that could change
    pairs = zip(graph.row_factors, centred, strict=True)
    sent = _product(graph, [(factor, store) for factor, store in pairs if store])
    changes = [
        None if m is None else response.change(m)
        for response, m in zip(responses, sent, strict=True)
    ]
    return tuple(factor.moment_changes(responses, changes) for factor in graph.row_factors)


def _product(graph: Graph, pairs: Iterable[tuple[AbstractFactor, Stores]]) -> list[Any]:
    """The product of the messages of some factors, for every variable."""
    received: list[Any] = [None] * len(graph.variables)
    for factor, store in pairs:
        for index, message in factor.messages(graph.variables, store):
            before = received[index]
            received[index] = message if before is None else added(before, message)
    return received
