r"""The energy: one function for every model and method.

$$-\log Z = -\sum_v \big[\Phi(q_v) - \Phi(p_v)\big] - \sum_n \log s_n - \sum_b B_b$$

over variables v with priors p and beliefs q, rows n with site scales s, and bounds b. A message is
an unnormalised Gaussian: a shift, a precision and a log scale. Terms are of three kinds.

- Gaussian regressions (`factors/exact.py`, `factors/averaged.py`) send exact sites, averaged over
  what is believed of their rows, with all of their scales: a variable's `log_normaliser` is
  $\Phi(q) - \Phi(p)$ with the scales that its messages carry. What is believed of rows is stored
  (`factors/stored.py`) and adds minus its divergence from the prior.
- Local factors (`factors/local.py`) store sites of any likelihood, and add
  $\log s_n = \log M_a(f_n; \text{cavity}) + \sum_e D_a(q_e, t_{ne})$, where approximations differ
  in what stands for the log power mean and where it is evaluated
  (`approximations/local_terms.py`).
- Bounds over an order (`bounds/`) are numbers B that come with their own beliefs.
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.bounds.base import AbstractOrderedBound
from cavity.inference.factors.base import (
    AbstractRegression,
    Beliefs,
    Edge,
    EdgeMoments,
    Sent,
    Stores,
)
from cavity.inference.factors.local import LocalFactor
from cavity.inference.factors.stored import AbstractStoredBelief, NaturalChain
from cavity.inference.graph.base import (
    AbstractBelief,
    AbstractProjectedBelief,
    AbstractResponse,
    AbstractVariable,
)
from cavity.inference.graph.messages import added
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inducing_view import InducingView
from cavity.numerics.types import Array, Int, Scalar

# The stores of every local factor, then of every stored belief, then of every bound.
Sites = tuple[Stores, ...]
# For each local factor: means and variances that rows see through each edge.
FixedMarginals = tuple[EdgeMoments, ...]


class Graph(eqx.Module):
    """A model laid out for inference: Gaussian variables, and the terms that touch them.

    The beliefs of a graph are those of its variables, then those of the rows' own variables, which
    are stored, then those of its bounds; edges count them in this order.

    Attributes:
        variables: those that receive messages.
        regressions: functions with Gaussian noise.
        priors: Gaussian priors of weights, which are regressions with a row for each weight.
        factors: terms with stores of sites; first that of the rows of the table.
        stored: what is believed of the rows' own variables, moved by an optimiser.
        natural: the same, moved by natural-gradient steps.
        bounds: bounds over an order, with all of their variables.
        functions: views of the inducing variables of functions of variables, which the first
            beliefs are about: posteriors read them.
    """

    variables: tuple[AbstractVariable, ...] = ()
    regressions: tuple[AbstractRegression, ...] = ()
    priors: tuple[AbstractRegression, ...] = ()
    factors: tuple[LocalFactor, ...] = ()
    stored: tuple[AbstractStoredBelief, ...] = ()
    natural: tuple[NaturalChain, ...] = ()
    bounds: tuple[AbstractOrderedBound, ...] = ()
    functions: tuple[InducingView, ...] = ()

    @property
    def rows_beliefs(self) -> tuple[AbstractStoredBelief, ...]:
        """All beliefs about the rows' own variables."""
        return (*self.stored, *self.natural)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges of all regressions and local factors, those of the table first."""
        terms = (*self.regressions, *self.factors, *self.priors)
        return tuple(edge for term in terms for edge in term.edges)

    def function_beliefs(self, q: Beliefs) -> tuple[InducingBelief, ...]:
        """The beliefs that `functions` are views of."""
        return cast(tuple[InducingBelief, ...], q[: len(self.functions)])

    def with_projections(self) -> "Graph":
        """The graph with what rows see at these parameters, computed once for several sweeps."""
        return eqx.tree_at(
            lambda graph: graph.factors,
            self,
            tuple(factor.with_projections() for factor in self.factors),
        )

    def only_factor(self) -> LocalFactor:
        """The local factor of a graph whose other terms are exact priors of weights alone.

        Raises:
            ValueError: for several factors, and for regressions.
        """
        if len(self.factors) != 1 or self.regressions:
            raise ValueError(
                "this computation is for models with one factor, beside Gaussian priors of "
                f"weights; given {len(self.factors) + len(self.regressions)}"
            )
        (factor,) = self.factors
        return factor

    def split(self, sites: Sites) -> tuple[Sites, Sites, Sites]:
        """The stores of local factors, of stored beliefs and of bounds."""
        first = len(self.factors)
        last = first + len(self.rows_beliefs)
        return sites[:first], sites[first:last], sites[last:]


def empty_sites(graph: Graph) -> Sites:
    """The stores that a search starts from: sites of precision zero where rows own them."""
    own = (factor.empty_sites() for factor in graph.factors)
    stored = ((belief.empty(),) for belief in graph.rows_beliefs)
    return (*own, *stored, *(bound.start for bound in graph.bounds))


def adopted(graph: Graph, sites: Sites) -> Sites:
    """Sites that another approximation left, in the form that the terms of a graph store."""
    first, own, last = graph.split(sites)
    pairs = zip(graph.rows_beliefs, own, strict=True)
    return (*first, *((belief.adopted(*store),) for belief, store in pairs), *last)


def beliefs(graph: Graph, sites: Sites) -> Beliefs:
    """The posterior of every variable: its prior times all its messages."""
    _, _, last = graph.split(sites)
    bounded = (bound(store).beliefs for bound, store in zip(graph.bounds, last, strict=True))
    return (*_own_beliefs(graph, sites), *(belief for many in bounded for belief in many))


def _own_beliefs(graph: Graph, sites: Sites) -> Beliefs:
    """The beliefs about variables and rows, without those of bounds."""
    known = beliefs_under(graph, collect_messages(graph, sites))
    return (*known, *_stored(graph, graph.split(sites)[1]))


def beliefs_under(graph: Graph, messages: Sequence[Any]) -> Beliefs:
    """The posterior of every variable under its messages."""
    pairs = zip(graph.variables, messages, strict=True)
    return tuple(variable.belief(m) for variable, m in pairs if m is not None)


def collect_messages(graph: Graph, sites: Sites) -> list[Any]:
    """The product of the messages of all terms, for every variable."""
    first, own, _ = graph.split(sites)
    stored, variables = _stored(graph, own), graph.variables
    exact = (*graph.regressions, *graph.priors)
    sent = [regression.messages(variables, stored) for regression in exact]
    pairs = zip(graph.factors, first, strict=True)
    return _product(
        graph, (*sent, *(factor.messages(variables, store) for factor, store in pairs))
    )


def _stored(graph: Graph, sites: Sites) -> Beliefs:
    pairs = zip(graph.rows_beliefs, sites, strict=True)
    return tuple(belief.belief(*store) for belief, store in pairs)


def energy(
    graph: Graph,
    sites: Sites,
    fixed: FixedMarginals | None = None,
    *,
    q: Beliefs | None = None,
    settled: bool = False,
) -> Scalar:
    """The negative log evidence, in nats, summed over the data.

    It is the sum over variables, stored beliefs and local factors, plus the numbers of the bounds
    over an order.

    At a fixed point of the sweeps it is stationary in the private sites and in the fixed
    marginals, so that gradients with respect to the model may hold both constant; terms that
    are not `stationary` are the exception.

    Args:
        graph: the model laid out for inference.
        sites: the stores of its terms.
        fixed: marginals to form the cavities from in place of the beliefs' own. The energy is
            then concave in the sites, and its maximum over them, as a function of the fixed
            marginals, has its minima at fixed points (the expectation-consistent form).
        q: the beliefs at these sites, where they are at hand.
        settled: whether the sites are at a fixed point: nothing is then differentiated through
            the marginals, which costs more than all the rest.
    """
    return -jnp.asarray(sum(evidence_terms(graph, sites, fixed, q=q, settled=settled)))


def evidence_terms(
    graph: Graph,
    sites: Sites,
    fixed: FixedMarginals | None = None,
    *,
    q: Beliefs | None = None,
    settled: bool = False,
) -> list[Scalar]:
    """The terms that add up to the log evidence; arguments are those of `energy`."""
    _, _, last = graph.split(sites)
    terms = [bound(store).log_evidence for bound, store in zip(graph.bounds, last, strict=True)]
    q = _own_beliefs(graph, sites) if q is None else q
    terms += belief_terms(graph, q)
    pairs = zip(graph.rows_beliefs, q[len(graph.variables) :], strict=False)  # then of bounds
    terms += [own.log_scale(belief) for own, belief in pairs]
    return terms + factor_terms(graph, q, sites, fixed, settled=settled)


def belief_terms(graph: Graph, q: Beliefs) -> list[Scalar]:
    """The terms of the variables that receive messages."""
    return [belief.log_normaliser for belief in q[: len(graph.variables)]]


def factor_terms(
    graph: Graph,
    q: Beliefs,
    sites: Sites,
    fixed: FixedMarginals | None = None,
    *,
    settled: bool = False,
) -> list[Scalar]:
    """The terms of the local factors, which add up over rows; arguments as of `energy`."""
    first, _, _ = graph.split(sites)
    moments = (None,) * len(first) if fixed is None else fixed
    triples = zip(graph.factors, first, moments, strict=True)
    return [factor.log_scale(q, store, m, settled=settled) for factor, store, m in triples]


def expected_terms(graph: Graph, q: Beliefs, belief: AbstractBelief) -> Scalar:
    """Terms of the energy at a belief about the rows' own variable, with the others' beliefs held.

    They are those of regressions, and densities of the variable alone. Its slopes are those of the
    energy less the entropy: the beliefs of functions are the best.

    Args:
        graph: the model laid out for inference, with one stored belief.
        q: the beliefs of all variables.
        belief: the one about the rows' own variable.
    """
    (own,) = graph.rows_beliefs
    total = own.log_densities(belief)
    for regression in graph.regressions:
        for variable, sent in regression.messages(graph.variables, (belief,)):
            slopes = cast(InducingBelief, q[variable]).slopes()
            products = jax.tree.map(lambda a, b: jnp.sum(a * b), slopes, sent)
            total = total + sum(jax.tree.leaves(products))
    return total


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
    for factor, store in zip(graph.factors, sites, strict=True):
        some, some_sites = factor.at_rows(store, index, scale)
        log_evidence = log_evidence + some.log_scale(q, some_sites)
    return -jnp.asarray(log_evidence)


def marginals(graph: Graph, q: Beliefs) -> FixedMarginals:
    """The moments that the rows of every local factor see of the beliefs."""
    return tuple(factor.moments(q) for factor in graph.factors)


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
    pairs = zip(graph.factors, centred, strict=True)
    sent = _product(graph, [factor.messages(graph.variables, store) for factor, store in pairs])
    changes = [
        None if m is None else response.change(m)
        for response, m in zip(responses, sent, strict=True)
    ]
    return tuple(factor.moment_changes(responses, changes) for factor in graph.factors)


def _product(graph: Graph, sent: Iterable[Sent]) -> list[Any]:
    """The product of messages that were sent, for every variable."""
    received: list[Any] = [None] * len(graph.variables)
    for messages in sent:
        for index, message in messages:
            before = received[index]
            received[index] = message if before is None else added(before, message)
    return received
