"""The deep Gaussian process model."""

from collections.abc import Sequence
from typing import ClassVar, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.approximations import (
    AbstractApproximation,
    TiedPowerMeans,
)
from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.energy import Beliefs, Graph
from cavity.inference.factors.base import Edge
from cavity.inference.factors.local import LocalFactor
from cavity.inference.factors.slots import Conditional, ObservedRows, Variational
from cavity.inference.graph.rows import Rows
from cavity.inference.hidden_sites import ConditionalView
from cavity.inference.propagation import Nodes
from cavity.inference.variables.given import Given
from cavity.inference.variables.inducing_view import InducingView
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import GaussianInLatent, capability
from cavity.models.base import AbstractModel, GraphSettings
from cavity.models.deep.families import FAMILIES, check_nodes, layered_graph
from cavity.models.deep.function_edges import (
    Around,
    check_memory,
    messages_around,
    private_edges,
    tied_edges,
)
from cavity.models.deep.layer import Layer
from cavity.models.deep.posterior import DeepPosterior
from cavity.models.deep.term import DeepTerm
from cavity.models.inputs.views import FreeInputs
from cavity.numerics.power_limits import Power
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float

# Deviations of the inducing variables of inner layers that a search starts from.
INNER_DEVIATION = 0.1
# Points for the hidden values of rows that have sites of their own, where there are several.
PRIVATE = 32


class DeepGP(AbstractModel):
    r"""Layers of Gaussian processes, each a function of the outputs of the one below.

    $\mathbf h_l = \mathbf f_l(\mathbf h_{l-1}) + \boldsymbol\epsilon_l$ with $\mathbf h_0 =
    \mathbf x$, and $y \sim p(y \mid \mathbf f_L(\mathbf h_{L-1}))$. The posterior keeps hidden
    values at the model's own conditional and has one Gaussian for the inducing variables of each
    function, found by `cavity.TiedPowerEP()`, whose `propagation` says how Gaussians go through
    layers; `cavity.PowerEP(exact=False)` has a site of every row on them, for some hundred rows.
    With Gaussian noise in every layer, `cavity.PowerEP(hidden=...)` has Gaussians for the hidden
    values of every row instead, of which an optimiser finds the best. One layer is the sparse GP.

    With latent inputs, $\mathbf h_0 = (\mathbf x, \mathbf w)$ where $\mathbf w \sim \mathcal N(0,
    \mathbf I)$ for every row, so that the density of y at one x may have any shape, also with one
    layer. Their posteriors are Gaussians that the optimiser moves, at power 0 whatever the power
    of the rows; predictions average over their prior. They need `Nodes` and data in memory.

    Args:
        layers: the layers, from the inputs to the outputs. The last has as many functions as there
            are outputs; for a likelihood of several latent functions, one for each of them.
        likelihood: density of an output given the last layer.
        latent_inputs: the number of latent inputs, which the first layer takes as the columns
            after those of X: its inducing points have columns for them too. With an X without
            columns, `np.zeros((len(Y), 0))`, the model is a latent-variable model.

    Raises:
        TypeError: for parts that are not layers or a likelihood.
        ValueError: for no layers, noise in the last one, and fewer latent inputs than none.

    References:
        Bui (2017), S53, S56, S57, S59, S60, S62 and S63; Salimbeni and Deisenroth (2017);
        Damianou and Lawrence (2013); Chamberlin (2016), S10, S19, S20, S22 to S24.
    """

    layers: tuple[Layer, ...]
    likelihood: AbstractLikelihood
    latent_inputs: int = eqx.field(static=True, default=0)

    hidden_posteriors: ClassVar[tuple[str, ...]] = tuple(FAMILIES)

    def __init__(
        self, layers: Sequence[Layer], likelihood: AbstractLikelihood, latent_inputs: int = 0
    ):
        if isinstance(layers, Layer) or not all(isinstance(layer, Layer) for layer in layers):
            raise TypeError("layers of a DeepGP are a sequence of cavity.Layer objects")
        if not isinstance(likelihood, AbstractLikelihood):
            raise TypeError(
                "likelihood of a DeepGP must be an object of cavity.likelihoods, such as "
                f"Gaussian(); given {type(likelihood).__name__}"
            )
        if not layers:
            raise ValueError("a deep GP has at least one layer, none was given")
        if layers[0].skip_connection:
            raise ValueError(
                "the first layer has a skip connection, but it takes the inputs of the model "
                "already: leave skip_connection=False"
            )
        if layers[-1].noise_variance is not None:
            raise ValueError(
                "the last layer has a noise variance, but its noise is the likelihood's: leave "
                "noise_variance=None"
            )
        count = latent_inputs
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 0:
            raise ValueError(f"latent_inputs is a number of inputs, given {latent_inputs!r}")
        self.layers = tuple(layers)
        self.likelihood = likelihood
        self.latent_inputs = int(latent_inputs)

    @property
    def sparse(self) -> bool:
        return True

    def check(self, rows: Rows) -> None:
        if rows.blocked or rows.power is not None:
            raise ValueError(
                "a deep GP has one power for all rows and no blocks: give power as one number, "
                "and leave blocks=None"
            )
        inputs = rows.x.shape[-1]
        columns = inputs + self.latent_inputs
        for i, layer in enumerate(self.layers):
            name = layer_name(i, len(self.layers))
            layer.check(name, columns + (inputs if layer.skip_connection else 0))
            columns = layer.width
        latents, outputs = self.likelihood.latents, rows.y.shape[-1]
        wanted = latents if latents > 1 else outputs
        if columns != wanted:
            what = "latent function of the likelihood" if latents > 1 else "output"
            raise ValueError(
                f"the last layer has {plural(columns, 'function')}, but there are "
                f"{plural(wanted, what)}: give it width={wanted}"
            )

    def check_approximation(self, approximation: AbstractApproximation, *, natural: bool) -> None:
        if natural and len(self.layers) > 1:
            raise ValueError(
                "natural-gradient steps are for one layer: in several they leave inner functions "
                "without precision; leave natural=None"
            )
        if approximation.hidden is not None:
            self._check_family(approximation, approximation.hidden)
            return
        if not approximation.tied:
            self._check_private(approximation)
            return
        tied = cast(TiedPowerMeans, approximation)
        if self.latent_inputs:
            _check_latent(tied, natural=natural)
        if tied.hidden_sites:
            self._check_noise("can have no sites", "leave hidden_sites=False")

    def _check_noise(self, consequence: str, remedy: str) -> None:
        """Raises ValueError where hidden values are known given their functions."""
        for i, layer in enumerate(self.layers[:-1]):
            if layer.noise_variance is None:
                raise ValueError(
                    f"{layer_name(i, len(self.layers))} has no noise variance, so that its hidden "
                    f"values are known given its functions and {consequence}: give the layer a "
                    f"noise_variance, or {remedy}"
                )

    def _check_private(self, approximation: AbstractApproximation) -> None:
        """Raises ValueError where rows can have no sites of their own."""
        at_cavity = approximation.evaluation_point is EvaluationPoint.CAVITY
        if not at_cavity or approximation.closed_form:
            raise ValueError(
                "a deep GP has one site for all rows on the inducing variables of each function: "
                "give method=cavity.TiedPowerEP(); cavity.PowerEP(exact=False) for one of every "
                "row; or, with Gaussian noise, posteriors of its own hidden values, such as "
                "method=cavity.PowerEP(hidden='factorised')"
            )
        if self.latent_inputs:
            raise ValueError(
                "a deep GP with latent inputs needs method=cavity.TiedPowerEP(): sites of every "
                "row are for known inputs"
            )

    def _check_family(self, approximation: AbstractApproximation, hidden: str) -> None:
        """Raises ValueError where hidden values can have no posterior of their own."""
        if self.latent_inputs:
            raise ValueError(
                "a deep GP with latent inputs needs method=cavity.TiedPowerEP(): families of "
                "posteriors of hidden values are for known inputs"
            )
        exact = capability(self.likelihood, GaussianInLatent) is not None
        if not (exact and approximation.closed_form):
            raise ValueError(
                "posteriors of hidden values are for Gaussian noise and closed forms: for "
                f"{type(self.likelihood).__name__} give method=cavity.TiedPowerEP()"
            )
        self._check_noise("have no other posterior", "method=cavity.TiedPowerEP()")
        check_nodes(self.layers, FAMILIES[hidden])

    def check_power(self, rows: Rows, power: Power, approximation: AbstractApproximation) -> None:
        if approximation.hidden is None and not approximation.tied:
            check_memory(self.layers, rows.y.shape[0], "method=cavity.TiedPowerEP()")

    def graph(self, rows: Rows, settings: GraphSettings) -> Graph:
        power, approximation, jitter, chunk, _, scale = settings
        if approximation.hidden is not None:
            noise = capability(self.likelihood, GaussianInLatent)
            assert noise is not None
            family, outputs = FAMILIES[approximation.hidden], noise.noise_variance
            return layered_graph(self.layers, outputs, family, rows, power, jitter)
        rows = rows.numbered()
        views = tuple(layer.views(jitter) for layer in self.layers)
        functions = tuple(view for own in views for view in own)
        total, starts = self._counts(settings.observed(rows)), self._starts(views)
        if approximation.tied:
            inducing = tied_edges(functions, total, starts)
        else:
            own = [None if start is None else messages_around(start) for start in starts]
            inducing = private_edges(functions, own)
        edges, hidden = list(inducing.edges), sum(layer.width for layer in self.layers[:-1])
        how = _deep_settings(approximation, hidden)
        latent, sited = self.latent_inputs > 0, how.hidden_sites and hidden > 0
        if latent:
            edges.append(Edge(len(edges), FreeInputs(self.latent_inputs), Variational()))
        if sited:
            edges.append(Edge(len(edges), ConditionalView(), Conditional(hidden)))
        term = DeepTerm(self.layers, views, self.likelihood, how.propagation, latent, sited)
        factor = LocalFactor(tuple(edges), rows, chunk, term, power, scale=scale)
        rest = (Given(),) * (len(edges) - len(functions))
        return Graph((*inducing.variables, *rest), factors=(factor,), functions=functions)

    def _counts(self, total: ObservedRows) -> Float[Array, " W"]:
        """The numbers of observed rows that the functions of all layers see."""
        inner = jnp.full(sum(layer.width for layer in self.layers[:-1]), total.any_output)
        last = total.per_output
        if self.likelihood.latents > 1:
            last = jnp.full(self.layers[-1].width, total.any_output)
        return jnp.concatenate([inner, last])

    def _starts(self, views: Sequence[Sequence[InducingView]]) -> list[Around | None]:
        """Beliefs about inducing variables that a search starts from, per view."""
        starts: list[Around | None] = []
        for layer, own in zip(self.layers[:-1], views, strict=False):
            first = 0
            for view in own:
                starts.append((layer.starting_mean(view, first), INNER_DEVIATION))
                first += view.mean.outputs
        return [*starts, *[None] * len(views[-1])]

    def posterior(self, graph: Graph, q: Beliefs, rows: Rows, *, single: bool) -> DeepPosterior:
        beliefs, layers, first = graph.function_beliefs(q), [], 0
        for layer in self.layers:
            own = slice(first, first + len(layer.groups))
            layers.append(layer.process(graph.functions[own], beliefs[own]))
            first = own.stop
        if self.latent_inputs:
            layers[0] = layers[0].beside_latent()
        terms = [cast(DeepTerm, factor.term) for factor in graph.factors]
        propagation = terms[0].propagation if terms else Nodes()
        latents, outputs = self.likelihood.latents, rows.y.shape[-1]
        return DeepPosterior(
            model=self,
            layers=tuple(layers),
            propagation=propagation,
            n_inputs=rows.x.shape[-1],
            outputs=outputs if latents == 1 else latents,
            single=single,
            latent_inputs=self.latent_inputs,
            side=tuple(sorted(rows.side)),
        )


def _check_latent(approximation: TiedPowerMeans, *, natural: bool) -> None:
    """Raises ValueError for settings that latent inputs of a deep model are not for."""
    if natural:
        raise ValueError(
            "natural-gradient steps would leave latent inputs where they are: leave natural=None"
        )
    if approximation.input_sites:
        raise ValueError(
            "latent inputs of a deep GP have variational posteriors: leave input_sites=False"
        )
    if approximation.propagation.for_predictions().repeats == 1:
        raise ValueError(
            "terms are averaged over points of latent inputs: give "
            "propagation=cavity.fitting.Nodes(count)"
        )


def layer_name(i: int, count: int) -> str:
    """Name of a layer in messages."""
    return f"layer {i + 1} of {count}"


def _deep_settings(approximation: AbstractApproximation, hidden: int) -> TiedPowerMeans:
    """Settings of propagation: of tied sites, or the same points for all rows."""
    if approximation.tied:
        return cast(TiedPowerMeans, approximation)
    return TiedPowerMeans(propagation=Nodes() if hidden == 1 else Nodes(PRIVATE, shared=True))
