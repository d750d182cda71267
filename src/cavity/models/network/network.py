"""Networks: sparse linear models, a nonlinearity, perhaps again, and a likelihood."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.energy import Beliefs, Graph
from cavity.inference.factors.base import Edge
from cavity.inference.factors.site import SiteFactor
from cavity.inference.factors.slots import ObservedRows
from cavity.inference.graph.rows import Rows
from cavity.inference.networks.activations import activation_of
from cavity.inference.networks.term import NetworkTerm, through_known_layers
from cavity.inference.weights.priors import priors_of, weights_with_priors
from cavity.inference.weights.views import Design, UnitsView, WholeView
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.base import AbstractModel
from cavity.models.linear.checks import check_columns, check_prior, check_sites, checked_groups
from cavity.models.linear.drawn_weights import DrawnWeights, WeightPart, gaussian_part
from cavity.models.linear.process import LinearProcess
from cavity.models.network.checks import check_parts, check_sizes, check_start, checked_widths
from cavity.models.network.process import NetworkProcess
from cavity.models.network.start import NetworkStart
from cavity.models.posterior import Posterior
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Scalar
from cavity.parameters import fixed
from cavity.parameters.table import table
from cavity.weights.base import AbstractWeightPrior
from cavity.weights.densities import Gaussian


class Network(AbstractModel):
    r"""A network with one hidden layer or several, and a prior on every weight.

    $y_n \sim p(y \mid f(\mathbf x_n))$ with $f = v_0 + K^{-1/2} \sum_k v_k\, g(\mathbf w_k^\top
    \mathbf x)$, where $\mathbf x$ ends in a one.

    Weights of both layers are variables with flat priors, and their priors are factors, as in
    `LinearModel`. A row of the data sees what enters each unit, the vector of output weights, and
    $\mathbf x^\top \mathbf u$ where there is a linear part. Power EP alone is for networks; at
    power 1 it is expectation propagation with moments through all layers. Experimental.

    The units of a further layer are functions of those below, as f is, with a one for their
    intercept; what enters them counts as Gaussian, and as independent of what enters others. A
    row has a site over all weights of each of its units, of $(K + 1)^2$ numbers.

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
    def _layers_above(self) -> tuple[tuple[int, int], ...]:
        """Units below and units of every further layer."""
        return tuple(itertools.pairwise(self.widths))

    @property
    def design(self) -> Design:
        """What the weights of the units multiply."""
        return Design(self.centre, self.scale, True)

    @property
    def _beside(self) -> Design:
        """What the weights of the linear part multiply."""
        return Design(self.centre, self.scale, False)

    @property
    def priors(self) -> tuple[AbstractWeightPrior, ...]:
        """The prior of the weights of the units."""
        return (self.prior,)

    def units(self, count: int) -> Array | np.ndarray | None:
        """Which of the values of the prior's parameters each column has: that of its group."""
        return self.groups

    def weight_parts(self, columns: int) -> tuple[WeightPart, ...]:
        """Of the units layer by layer, of the output unless it is known, and of a linear part."""
        own, first = self.prior.for_weights(self.groups, columns), self.widths[0]
        parts = [WeightPart(own, first), gaussian_part(self.intercept, first)]
        for below, width in self._layers_above:
            inner = cast(AbstractWeightPrior, self.inner).for_weights(None, below)
            parts.extend((WeightPart(inner, width), gaussian_part(self.intercept, width)))
        if self.output_weights is None:
            parts.append(WeightPart(self.output.for_weights(None, self.widths[-1])))
            parts.append(gaussian_part(self.bias))
        if self.linear is not None:
            parts.append(WeightPart(self.linear.for_weights(self.groups, columns)))
        return tuple(parts)

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
        return False

    def check(self, rows: Rows) -> None:
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
        check_sites(approximation, "Network")

    def graph(
        self,
        rows: Rows,
        *,
        power: Power,
        approximation: AbstractApproximation,
        jitter: float | Scalar,
        chunk: int,
        total: ObservedRows | None = None,
        scale: Scalar | float = 1.0,
    ) -> Graph:
        """A variable for the units of each layer, for output weights, and for a linear part."""
        factored = rows.x.shape[-1] + 1 > rows.x.shape[0]
        common: Any = {"mixed": True, "power": self.prior_power, "dtype": rows.x.dtype}
        columns = rows.x.shape[-1]
        parts = [
            (
                self.widths[0],
                priors_of(self.prior, self.groups, columns, Gaussian(self.intercept)),
                self.design(rows.x) if factored else None,
            )
        ]
        for below, width in self._layers_above:
            inner = cast(AbstractWeightPrior, self.inner)
            parts.append((width, priors_of(inner, None, below, Gaussian(self.intercept)), None))
        if self.output_weights is None:
            last = self.widths[-1]
            parts.append((1, priors_of(self.output, None, last, Gaussian(self.bias)), None))
        if self.linear is not None:
            loadings = self._beside(rows.x) if columns > rows.x.shape[0] else None
            parts.append((1, priors_of(self.linear, self.groups, columns, None), loadings))
        variables, factors = [], []
        for number, (outputs, priors, loadings) in enumerate(parts):
            variable, own = weights_with_priors(
                number, priors, outputs, loadings=loadings, **common
            )
            variables.append(variable)
            factors.extend(own)
        data = SiteFactor(
            edges=self._edges(rows),
            rows=rows,
            chunk=rows.x.shape[0] if factored else chunk,
            term=self._term(rows),
            power=power,
            scale=scale,
        )
        return Graph(tuple(variables), (data, *factors))

    def _term(self, rows: Rows) -> NetworkTerm:
        known = self.output_weights
        known = None if known is None else jnp.asarray(known, rows.x.dtype)
        inner = len(self.widths) - 1
        return NetworkTerm(self.likelihood, activation_of(self.activation), known, inner)

    def _edges(self, rows: Rows) -> tuple[Edge, ...]:
        """The edges of the rows of the data, with the sites that a search starts from."""
        known = self.output_weights is not None
        start = random_start(self, rows.x.shape[-1]) if self.start is None else self.start
        output = jnp.asarray(self.output_weights if known else start.output, rows.x.dtype)
        linear = None
        if start.linear is not None:
            linear = (self._beside(rows.x) @ start.linear)[:, None]
        hidden = self.design(rows.x) @ start.hidden
        above = (*(jnp.asarray(w, rows.x.dtype) for w in start.inner), output[:, None])
        sites: Any = self._term(rows).sites_at(hidden, above, linear, rows)
        views: list[Any] = [UnitsView(self.design, self.widths[0], sites[0])]
        for number, weights in enumerate(above[:-1] if known else above):
            size, functions = weights.shape
            views.append(WholeView(size, functions, sites[number + 1]))
        if self.linear is not None:
            views.append(UnitsView(self._beside, 1, sites[-1]))
        return tuple(Edge(i, view) for i, view in enumerate(views))

    def posterior(self, graph: Graph, q: Beliefs, rows: Rows, *, single: bool) -> Posterior:
        beliefs: Any = q
        known = self.output_weights is not None
        process = NetworkProcess(
            hidden=LinearProcess(beliefs[0], self.design),
            activation=self.activation,
            inner=tuple(beliefs[1 : len(self.widths)]),
            output=None if known else beliefs[len(self.widths)],
            output_weights=self.output_weights,
            linear=None if self.linear is None else LinearProcess(beliefs[-1], self._beside),
        )
        return Posterior(
            model=self,
            process=process,
            n_inputs=rows.x.shape[-1],
            outputs=1,
            single=single,
            side=tuple(sorted(rows.side)),
        )

    def __str__(self) -> str:
        return table(self)


def random_start(model: Network, columns: int, seed: int = 0) -> NetworkStart:
    """Weights drawn from Gaussians as wide as the priors, output weights positive.

    Of units whose prior allows no negative weights they are positive too.

    Args:
        model: the network.
        columns: of the inputs.
        seed: of the draw.
    """
    random = np.random.default_rng(seed)
    widths = model.widths
    hidden = random.standard_normal((columns + 1, widths[0]))
    if model.prior.nonnegative:
        hidden[:-1] = np.abs(hidden[:-1])
    inner = []
    for below, width in itertools.pairwise(widths):
        drawn = random.standard_normal((below + 1, width))
        prior = cast(AbstractWeightPrior, model.inner)
        if prior.nonnegative:
            drawn[:-1] = np.abs(drawn[:-1])
        spread = prior.for_weights(None, below).starting_variance()[:, 0]
        own = jnp.append(spread, model.intercept / (below + 1.0))
        inner.append(drawn * jnp.sqrt(own)[:, None])
    output = np.append(np.abs(random.standard_normal(widths[-1])), 0.0)
    spread = jnp.append(
        model.prior.for_weights(model.groups, columns).starting_variance()[:, 0], model.intercept
    )
    across = model.output.for_weights(None, widths[-1]).starting_variance()[:, 0]
    return NetworkStart(
        hidden * jnp.sqrt(spread / (columns + 1.0))[:, None],
        output * jnp.append(jnp.sqrt(across), 0.0),
        None if model.linear is None else np.zeros(columns),
        inner,
    )
