"""Networks with one hidden layer: sparse linear models, a nonlinearity, and a likelihood."""

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

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
from cavity.inference.networks.term import NetworkTerm
from cavity.inference.weights.priors import priors_of, weights_with_priors
from cavity.inference.weights.views import Design, UnitsView, WholeView
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.base import AbstractModel
from cavity.models.linear.checks import check_columns, check_prior, check_sites, checked_groups
from cavity.models.linear.drawn_weights import DrawnWeights, WeightPart, gaussian_part
from cavity.models.linear.process import LinearProcess
from cavity.models.network.process import NetworkProcess
from cavity.models.posterior import Posterior
from cavity.numerics.power_limits import Power
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float, Scalar
from cavity.parameters import fixed
from cavity.parameters.table import table
from cavity.weights.base import AbstractWeightPrior
from cavity.weights.densities import Gaussian

# Units whose weights differ by less than this share of their size are alike.
_ALIKE = 1e-6


class NetworkStart(eqx.Module):
    """Weights of a network that a search for its posterior starts from.

    Args:
        hidden: weights of the units, (D + 1, K), that of the intercept last.
        output: output weights, (K + 1,), the bias last.
        linear: weights of the linear function, (D,); None for none.
    """

    hidden: Float[Array, "p K"] = fixed()
    output: Float[Array, " B"] = fixed()
    linear: Float[Array, " D"] | None = fixed(optional=True)

    def __init__(self, hidden: Any, output: Any, linear: Any = None):
        self.hidden, self.output = _apart(hidden, output)
        self.linear = linear


class Network(AbstractModel):
    r"""A network with one hidden layer, and a prior on every weight.

    $y_n \sim p(y \mid f(\mathbf x_n))$ with $f = v_0 + K^{-1/2} \sum_k v_k\, g(\mathbf w_k^\top
    \mathbf x)$, where $\mathbf x$ ends in a one.

    Weights of both layers are variables with flat priors, and their priors are factors, as in
    `LinearModel`. A row of the data sees what enters each unit, the vector of output weights, and
    $\mathbf x^\top \mathbf u$ where there is a linear part. Power EP alone is for networks; at
    power 1 it is expectation propagation with moments through all layers. Experimental.

    Args:
        hidden: the number of units, K.
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
        centre: as of `LinearModel`.
        scale: as of `LinearModel`.

    Raises:
        TypeError: for parts that are not what they should be.
        ValueError: for no units, an unknown activation, and sizes that do not match.

    References:
        Jylanki (2013), S89 to S109.
    """

    identified: ClassVar[bool] = False

    hidden: int = eqx.field(static=True)
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

    def __init__(
        self,
        hidden: int,
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
    ):
        _check_parts(hidden, likelihood, bias, intercept)
        activation_of(activation)
        output = Gaussian(1.0) if output is None else output
        beside: Any = linear
        if isinstance(linear, bool):
            beside = prior if linear else None
        for each in (prior, output) if beside is None else (prior, output, beside):
            check_prior(each, prior_power, "Network")
        if output_weights is not None and np.shape(output_weights) != (hidden + 1,):
            raise ValueError(
                f"output_weights must have shape ({hidden + 1},), one for each unit and the bias "
                f"last; given {np.shape(output_weights)}"
            )
        self.hidden, self.prior, self.activation = hidden, prior, activation
        self.likelihood, self.linear, self.output = likelihood, beside, output
        self.bias, self.intercept = bias, intercept  # type: ignore[assignment]
        self.groups, self.prior_power = checked_groups(groups), prior_power
        self.output_weights, self.start = output_weights, start
        self.centre, self.scale = centre, scale

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
        """Of the units, of the output unless it is known, and of a linear part."""
        own = self.prior.for_weights(self.groups, columns)
        parts = [WeightPart(own, self.hidden), gaussian_part(self.intercept, self.hidden)]
        if self.output_weights is None:
            parts.append(WeightPart(self.output.for_weights(None, self.hidden)))
            parts.append(gaussian_part(self.bias))
        if self.linear is not None:
            parts.append(WeightPart(self.linear.for_weights(self.groups, columns)))
        return tuple(parts)

    def functions_of(self, weights: DrawnWeights, X: Float[Array, "n D"]) -> Float[Array, "n L"]:
        found = self.named_weights(weights)
        units = activation_of(self.activation)(self.design(X) @ found["hidden"])
        output = found.get("output", self.output_weights)
        assert output is not None
        f = units @ output[:-1] / self.hidden**0.5 + output[-1]
        if self.linear is not None:
            f = f + self._beside(X) @ found["linear"]
        return f[:, None]

    def named_weights(self, weights: DrawnWeights) -> dict[str, Array]:
        """`hidden`, `output` and `linear`, as in `NetworkStart`."""
        named = {"hidden": jnp.concatenate(weights[:2])}
        if self.output_weights is None:
            named["output"] = jnp.concatenate(weights[2:4])[:, 0]
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
        for size in self.output.sizes() - {self.hidden}:
            raise ValueError(
                f"the prior of output weights has a parameter with {plural(size, 'value')} for "
                f"{plural(self.hidden, 'unit')}: give one value, or one per unit"
            )
        if self.start is None:
            return
        wanted = ((columns + 1, self.hidden), (self.hidden + 1,))
        given = (np.shape(self.start.hidden), np.shape(self.start.output))
        if given != wanted or (self.linear is None) != (self.start.linear is None):
            raise ValueError(
                f"start must have hidden and output weights of shapes {wanted}, intercepts last, "
                f"and linear ones where there is a linear part; given {given}"
            )

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
        """A variable for the units, one for output weights, one for a linear part."""
        factored = rows.x.shape[-1] + 1 > rows.x.shape[0]
        common: Any = {"mixed": True, "power": self.prior_power, "dtype": rows.x.dtype}
        columns = rows.x.shape[-1]
        parts = [
            (
                self.hidden,
                priors_of(self.prior, self.groups, columns, Gaussian(self.intercept)),
                self.design(rows.x) if factored else None,
            )
        ]
        if self.output_weights is None:
            parts.append((1, priors_of(self.output, None, self.hidden, Gaussian(self.bias)), None))
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
        return NetworkTerm(self.likelihood, activation_of(self.activation), known)

    def _edges(self, rows: Rows) -> tuple[Edge, ...]:
        """The edges of the rows of the data, with the sites that a search starts from."""
        known = self.output_weights is not None
        start = random_start(self, rows.x.shape[-1]) if self.start is None else self.start
        output = jnp.asarray(self.output_weights if known else start.output, rows.x.dtype)
        linear = None
        if start.linear is not None:
            linear = (self._beside(rows.x) @ start.linear)[:, None]
        hidden = self.design(rows.x) @ start.hidden
        sites: Any = self._term(rows).sites_at(hidden, output, linear, rows)
        views: list[Any] = [UnitsView(self.design, self.hidden, sites[0])]
        if not known:
            views.append(WholeView(self.hidden + 1, sites[1]))
        if self.linear is not None:
            views.append(UnitsView(self._beside, 1, sites[-1]))
        return tuple(Edge(i, view) for i, view in enumerate(views))

    def posterior(self, graph: Graph, q: Beliefs, rows: Rows, *, single: bool) -> Posterior:
        beliefs: Any = q
        known = self.output_weights is not None
        process = NetworkProcess(
            hidden=LinearProcess(beliefs[0], self.design),
            activation=self.activation,
            output=None if known else beliefs[1],
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
    hidden = random.standard_normal((columns + 1, model.hidden))
    if model.prior.nonnegative:
        hidden[:-1] = np.abs(hidden[:-1])
    output = np.append(np.abs(random.standard_normal(model.hidden)), 0.0)
    spread = jnp.append(
        model.prior.for_weights(model.groups, columns).starting_variance()[:, 0], model.intercept
    )
    across = model.output.for_weights(None, model.hidden).starting_variance()[:, 0]
    return NetworkStart(
        hidden * jnp.sqrt(spread / (columns + 1.0))[:, None],
        output * jnp.append(jnp.sqrt(across), 0.0),
        None if model.linear is None else np.zeros(columns),
    )


def _apart(hidden: Any, output: Any) -> tuple[Any, Any]:
    """Weights of units of which no two are alike."""
    if not isinstance(hidden, np.ndarray) or hidden.ndim != 2:
        return hidden, output
    # units and their output weights; sweeps keep alike what is alike
    units = np.concatenate([hidden, np.atleast_2d(np.asarray(output)[:-1])]).T
    size = np.sqrt(np.mean(units**2)) or 1.0
    gaps = np.max(np.abs(units[:, None] - units[None]), axis=-1) + np.eye(len(units)) * size
    if np.all(gaps > _ALIKE * size):
        return hidden, output
    warnings.warn(
        "units of the start are alike, and would stay so: their weights were moved apart by a "
        "tenth at random",
        stacklevel=3,
    )
    random = np.random.default_rng(0)
    scale = 0.1 * (np.sqrt(np.mean(hidden**2)) or 1.0)
    return hidden + scale * random.standard_normal(hidden.shape), output


def _check_parts(hidden: Any, likelihood: Any, bias: Any, intercept: Any) -> None:
    whole = isinstance(hidden, int | np.integer) and not isinstance(hidden, bool)
    if not whole or hidden < 1:
        raise ValueError(
            f"hidden must be a number of units, 1 or more, given {hidden!r}: for a model without "
            "any, use cavity.LinearModel"
        )
    if not isinstance(likelihood, AbstractLikelihood):
        raise TypeError(
            "likelihood of a Network must be an object of cavity.likelihoods, such as Gaussian(); "
            f"given {type(likelihood).__name__}"
        )
    if likelihood.latents != 1:
        raise ValueError(
            f"a Network has one latent function, {type(likelihood).__name__} has "
            f"{likelihood.latents}: of several classes fit a network to each against the others"
        )
    for name, value in (("bias", bias), ("intercept", intercept)):
        if not np.all(np.asarray(value) > 0.0):
            raise ValueError(
                f"{name} is the variance of a prior and must be positive, given {value}"
            )
