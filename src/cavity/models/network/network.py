"""Networks: sparse linear models, a nonlinearity, perhaps again, and a likelihood."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.approximations.approximations import AbstractApproximation, TiedPowerMeans
from cavity.inference.energy import Beliefs, Graph
from cavity.inference.graph.rows import Rows
from cavity.inference.networks.activations import activation_of
from cavity.inference.networks.term import NetworkTerm, through_known_layers
from cavity.inference.weights.priors import PriorOfSome, priors_of, starting_variances
from cavity.inference.weights.views import Design
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.base import AbstractModel, GraphSettings
from cavity.models.drawn_weights import DrawnWeights, WeightPart, gaussian_part
from cavity.models.latent_gp import shared_parameters
from cavity.models.linear.checks import check_columns, check_prior, check_sites, checked_groups
from cavity.models.linear.process import LinearProcess
from cavity.models.network.checks import (
    check_parts,
    check_sizes,
    check_start,
    check_tied,
    checked_widths,
)
from cavity.models.network.graphs import LayerWeights, sited_graph, tied_graph, unwhitened
from cavity.models.network.process import NetworkProcess
from cavity.models.network.start import NetworkStart, random_weights
from cavity.models.posterior import Posterior, posterior_of_functions
from cavity.models.process import AbstractProcess
from cavity.numerics.types import Array, Float
from cavity.parameters import fixed
from cavity.weights.base import AbstractWeightPrior
from cavity.weights.densities import Gaussian


class Network(AbstractModel):
    r"""A network with one hidden layer or several, and a prior on every weight.

    $y_n \sim p(y \mid f(\mathbf x_n))$ with $f = v_0 + K^{-1/2} \sum_k v_k\, g(\mathbf w_k^\top
    \mathbf x)$, where $\mathbf x$ ends in a one.

    Weights of both layers are variables with flat priors, and their priors are factors, as in
    `LinearModel`. A row of the data sees what enters each unit, the vector of output weights, and
    $\mathbf x^\top \mathbf u$ where there is a linear part. With `PowerEP` rows have sites of
    their own; at power 1 it is expectation propagation with moments through all layers. With
    `TiedPowerEP`, for Gaussian priors, all rows share one site on the weights of each unit, which
    suits minibatches. Experimental.

    The units of a further layer are functions of those below, as f is, with a one for their
    intercept; what enters them counts as Gaussian, and as independent of what enters others. A
    row has a site over all weights of each of its units, with $(K + 1)(K + 2) / 2$ numbers for
    its precision.

    Args:
        hidden: the number of units, K, or one for each layer, that of the inputs first.
        prior: of the weights of the units; a parameter has one value, or one for each column or
            group, which the weights of all units share, as in automatic relevance determination.
        activation: g: "erf", "tanh", "sine", "softplus", "identity", or a smooth function of an
            array.
        likelihood: density of an output given the function, with one latent function.
        linear: the prior of a linear part; True for that of the units, False or None for no such
            part.
        output: prior of the output weights, bias left out, before they are divided by $\sqrt K$.
        bias: variance of the prior of $v_0$, in squared units of the function; not learned.
        intercept: variance of the prior of the intercepts of the units; not learned.
        groups: as of `LinearModel`.
        prior_power: as of `LinearModel`.
        output_weights: output weights that are known, (K + 1,), the bias last; None where they
            are inferred.
        start: weights that a search starts from; None for weights at random, the same each time.
        inner: prior of the weights of units of further layers, intercepts left out, before they
            are divided by the root of the number of units below.
        centre: as of `LinearModel`.
        scale: as of `LinearModel`.

    Raises:
        TypeError: for parts that are not what they should be.
        ValueError: for no units, an unknown activation, and sizes that do not match.

    References:
        Jylanki (2013), S89 to S109 and S120.
    """

    identified: ClassVar[bool] = False
    integrates: ClassVar[bool] = True

    hidden: int | tuple[int, ...] = eqx.field(static=True)
    prior: AbstractWeightPrior
    activation: Any = eqx.field(static=True)
    likelihood: AbstractLikelihood
    linear: AbstractWeightPrior | None
    output: AbstractWeightPrior
    start: NetworkStart | None
    groups: np.ndarray | None
    prior_power: float = eqx.field(static=True)
    bias: Float[Array, ""] = fixed(output=2)
    intercept: Float[Array, ""] = fixed()
    output_weights: Float[Array, " B"] | None = fixed(optional=True)
    centre: Float[Array, " D"] | None = fixed(optional=True, input=1, location=True)
    scale: Float[Array, " D"] | None = fixed(optional=True, input=1)
    inner: AbstractWeightPrior | None = None

    def __init__(
        self,
        hidden: int | Sequence[int],
        prior: AbstractWeightPrior,
        activation: str | Callable[[Array], Array],
        likelihood: AbstractLikelihood,
        linear: bool | AbstractWeightPrior | None = None,  # noqa: FBT001
        output: AbstractWeightPrior | None = None,
        bias: Any = 1.0,
        intercept: Any = 1.0,
        groups: ArrayLike | None = None,
        prior_power: float = 1.0,
        output_weights: Any = None,
        start: NetworkStart | None = None,
        centre: Any = None,
        scale: Any = None,
        inner: AbstractWeightPrior | None = None,
    ):
        widths = checked_widths(hidden)
        check_parts(likelihood, bias, intercept)
        activation_of(activation)
        output = Gaussian(1.0) if output is None else output
        beside: Any = linear
        if isinstance(linear, bool):
            beside = prior if linear else None
        deep = widths[1:] != ()
        if inner is not None and not deep:
            raise ValueError(
                f"inner is the prior of weights of further layers, and hidden={hidden} has none: "
                "leave it out"
            )
        self.inner = Gaussian(1.0) if inner is None and deep else inner
        for each in (prior, output, self.inner, beside):
            if each is not None:
                check_prior(each, prior_power, "Network")
        wanted = (widths[-1] + 1,)
        if output_weights is not None and np.shape(output_weights) != wanted:
            raise ValueError(
                f"output_weights must have shape {wanted}, one for each unit and the bias "
                f"last; given {np.shape(output_weights)}"
            )
        self.hidden = widths if deep else widths[-1]
        self.prior, self.activation = prior, activation
        self.likelihood, self.linear, self.output = likelihood, beside, output
        self.bias, self.intercept = bias, intercept  # type: ignore[assignment]
        self.groups, self.prior_power = checked_groups(groups), prior_power
        self.output_weights, self.start = output_weights, start
        self.centre, self.scale = centre, scale

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of units of every layer, that of the inputs first."""
        return checked_widths(self.hidden)

    @property
    def _layers_above(self) -> list[tuple[AbstractWeightPrior, int, int]]:
        """Prior of every further layer, the number of units below and that of its own."""
        prior = self.inner
        return (
            [] if prior is None else [(prior, *pair) for pair in itertools.pairwise(self.widths)]
        )

    @property
    def design(self) -> Design:
        """Design matrix of the units' weights."""
        return Design(self.centre, self.scale, True)

    @property
    def _beside(self) -> Design:
        """Design matrix of the linear part's weights."""
        return Design(self.centre, self.scale, False)

    @property
    def priors(self) -> tuple[AbstractWeightPrior, ...]:
        """The prior of the weights of the units."""
        return (self.prior,)

    def units(self, count: int) -> Array | np.ndarray | None:
        """Index into the values of the prior's parameters for each column: its group."""
        return self.groups

    def weight_parts(self, columns: int) -> tuple[WeightPart, ...]:
        """Weights of the units by layer, of the output unless known, and of a linear part."""
        own, first = self.prior.for_weights(self.groups, columns), self.widths[0]
        parts = [WeightPart(own, first), gaussian_part(self.intercept, first)]
        for inner, below, width in self._layers_above:
            own = inner.for_weights(None, below)
            parts.extend((WeightPart(own, width), gaussian_part(self.intercept, width)))
        if self.output_weights is None:
            parts.append(WeightPart(self.output.for_weights(None, self.widths[-1])))
            parts.append(gaussian_part(self.bias))
        if self.linear is not None:
            parts.append(WeightPart(self.linear.for_weights(self.groups, columns)))
        return tuple(parts)

    def prior_variances(self, columns: int) -> NetworkStart:
        """Variances of all weights, or of Gaussians in the place of their priors.

        Args:
            columns: of the inputs.
        """
        hidden, *inner, output = map(starting_variances, self._layer_priors(columns))
        linear = None
        if self.linear is not None:
            linear = starting_variances(priors_of(self.linear, self.groups, columns, None))
        return NetworkStart(hidden[:, None], output, linear, [own[:, None] for own in inner])

    def _layer_priors(self, columns: int) -> list[list[PriorOfSome]]:
        """The priors of the weights of every layer of units, and of the output."""
        intercept = Gaussian(self.intercept)
        priors = [priors_of(self.prior, self.groups, columns, intercept)]
        for inner, below, _ in self._layers_above:
            priors.append(priors_of(inner, None, below, intercept))
        return [*priors, priors_of(self.output, None, self.widths[-1], Gaussian(self.bias))]

    def functions_of(self, weights: DrawnWeights, X: Float[Array, "n D"]) -> Float[Array, "n L"]:
        found = self.named_weights(weights)
        g = activation_of(self.activation)
        units = g(self.design(X) @ found["hidden"])
        output = found.get("output", self.output_weights)
        assert output is not None
        inner = [found[f"inner_{i + 1}"] for i in range(len(self.widths) - 1)]
        f = through_known_layers(g, units, (*inner, output[:, None]))[:, 0]
        if self.linear is not None:
            f = f + self._beside(X) @ found["linear"]
        return f[:, None]

    def named_weights(self, weights: DrawnWeights) -> dict[str, Array]:
        """`hidden`, `inner_1` and so on, `output` and `linear`, as in `NetworkStart`."""
        named = {"hidden": jnp.concatenate(weights[:2])}
        last = 2 * len(self.widths)
        for i in range(2, last, 2):
            named[f"inner_{i // 2}"] = jnp.concatenate(weights[i : i + 2])
        if self.output_weights is None:
            named["output"] = jnp.concatenate(weights[last : last + 2])[:, 0]
        if self.linear is not None:
            named["linear"] = weights[-1][:, 0]
        return named

    @property
    def sparse(self) -> bool:
        return True

    @property
    def approximate(self) -> bool:
        return False

    def check(self, rows: Rows) -> None:
        if rows.blocked:
            raise ValueError("the rows of a Network have no blocks: leave blocks=None")
        columns, outputs = rows.x.shape[-1], rows.y.shape[-1]
        if outputs != 1:
            raise ValueError(
                f"a Network has one output, y has {outputs}: fit a network to each column"
            )
        priors = (self.prior,) if self.linear is None else (self.prior, self.linear)
        check_columns(columns, priors, self.groups, self.centre, self.scale)
        check_sizes(self.output, self.inner, self.widths)
        check_start(self.start, columns, self.widths, linear=self.linear is not None)

    def check_approximation(self, approximation: AbstractApproximation, *, natural: bool) -> None:
        if approximation.tied:
            tied = cast(TiedPowerMeans, approximation)
            check_tied(tied, self.priors_of_all, natural=natural)
        else:
            check_sites(approximation, "Network", ", or with Gaussian priors TiedPowerEP()")

    @property
    def priors_of_all(self) -> dict[str, AbstractWeightPrior]:
        """The priors of weights by the names that they have here."""
        output = self.output if self.output_weights is None else None
        own = {"prior": self.prior, "inner": self.inner, "linear": self.linear, "output": output}
        return {name: prior for name, prior in own.items() if prior is not None}

    def graph(self, rows: Rows, settings: GraphSettings) -> Graph:
        """A variable for the units of each layer, for output weights, and for a linear part.

        Then come the parameters of the likelihood that are integrated out.
        """
        layers, term = self._layers(rows), self._term(rows)
        if settings.approximation.tied:
            return tied_graph(layers, term, rows, settings)
        return sited_graph(layers, term, rows, settings, self.prior_power)

    def _layers(self, rows: Rows) -> list[LayerWeights]:
        """The weights of every layer, with those that a search starts from."""
        start, columns = self._starting(rows), rows.x.shape[-1]
        hidden, *inner, output = self._layer_priors(columns)
        layers = [LayerWeights(hidden, start.hidden, self.design)]
        layers += map(LayerWeights, inner, start.inner)
        if self.output_weights is None:
            layers.append(LayerWeights(output, start.output[:, None]))
        if self.linear is not None and start.linear is not None:
            own = priors_of(self.linear, self.groups, columns, None)
            layers.append(LayerWeights(own, start.linear[:, None], self._beside))
        return layers

    def _starting(self, rows: Rows) -> NetworkStart:
        """The weights that a search starts from."""
        start = random_start(self, rows.x.shape[-1]) if self.start is None else self.start
        found: Any = jax.tree.map(lambda w: jnp.asarray(w, rows.x.dtype), start)
        return found

    def _term(self, rows: Rows) -> NetworkTerm:
        known = self.output_weights
        known = None if known is None else jnp.asarray(known, rows.x.dtype)
        inner = len(self.widths) - 1
        return NetworkTerm(self.likelihood, activation_of(self.activation), known, inner)

    def posterior(self, graph: Graph, q: Beliefs, rows: Rows, *, single: bool) -> Posterior:
        parts, edges = shared_parameters(self.likelihood), graph.factors[0].edges
        end = len(q) - len(parts)
        views: list[Any] = [edge.view for edge in edges]
        beliefs: Any = q[:end]
        if not edges[0].slots.private:
            beliefs = [unwhitened(b, view) for b, view in zip(beliefs, views, strict=False)]
        known = self.output_weights is not None
        network: AbstractProcess = NetworkProcess(
            hidden=LinearProcess(beliefs[0], self.design),
            activation=self.activation,
            inner=tuple(beliefs[1 : len(self.widths)]),
            output=None if known else beliefs[len(self.widths)],
            output_weights=self.output_weights,
            linear=None if self.linear is None else LinearProcess(beliefs[-1], self._beside),
        )
        own = [
            part.process(view, belief, rows)
            for part, view, belief in zip(parts, views[end:], q[end:], strict=True)
        ]
        return posterior_of_functions(self, (network, *own), rows, single=single)


def random_start(model: Network, columns: int, seed: int = 0) -> NetworkStart:
    """Weights drawn from Gaussians as wide as the priors, output weights positive.

    Of units whose prior allows no negative weights they are positive too.

    Args:
        model: the network.
        columns: of the inputs.
        seed: of the draw.
    """
    positive = tuple(
        prior is not None and prior.nonnegative for prior in (model.prior, model.inner)
    )
    return random_weights(model.prior_variances(columns), positive, seed)
