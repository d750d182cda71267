"""The deep Gaussian process model."""

from collections.abc import Sequence
from typing import cast

import jax.numpy as jnp

from cavity.inference.approximations.approximations import (
    AbstractApproximation,
    TiedPowerMeans,
)
from cavity.inference.energy import Beliefs, Graph
from cavity.inference.factors.base import Edge
from cavity.inference.factors.site import SiteFactor
from cavity.inference.factors.slots import Conditional, ObservedRows, Tied, observed_rows
from cavity.inference.graph.base import AbstractVariable
from cavity.inference.graph.rows import Rows
from cavity.inference.hidden_sites import ConditionalView
from cavity.inference.variables.hidden_values import HiddenValues
from cavity.inference.variables.inducing import InducingBelief, TiedInducing
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.base import AbstractModel
from cavity.models.deep.layer import Layer
from cavity.models.deep.posterior import DeepPosterior
from cavity.models.deep.term import DeepTerm, WholeView
from cavity.numerics.power_limits import Power
from cavity.numerics.text import plural
from cavity.numerics.types import Scalar
from cavity.parameters.table import table

# Deviations of the inducing variables of inner layers that a search starts from.
INNER_DEVIATION = 0.1


class DeepGP(AbstractModel):
    r"""Layers of Gaussian processes, each a function of the outputs of the one below.

    $\mathbf h_l = \mathbf f_l(\mathbf h_{l-1}) + \boldsymbol\epsilon_l$ with $\mathbf h_0 =
    \mathbf x$, and $y \sim p(y \mid \mathbf f_L(\mathbf h_{L-1}))$. The posterior keeps hidden
    values at the model's own conditional and has one Gaussian for the inducing variables of each
    function, found by `cavity.TiedPowerEP()`, whose `propagation` says how Gaussians go through
    layers. One layer is the sparse GP.

    Args:
        layers: the layers, from the inputs to the outputs. The last has as many functions as there
            are outputs; for a likelihood of several latent functions, one for each of them.
        likelihood: density of an output given the last layer.

    Raises:
        TypeError: for parts that are not layers or a likelihood.
        ValueError: for no layers, and noise in the last one.

    References:
        Bui (2017), S53, S59, S60 and S62; Salimbeni and Deisenroth (2017).
    """

    layers: tuple[Layer, ...]
    likelihood: AbstractLikelihood

    def __init__(self, layers: Sequence[Layer], likelihood: AbstractLikelihood):
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
        self.layers = tuple(layers)
        self.likelihood = likelihood

    @property
    def sparse(self) -> bool:
        return True

    def check(self, rows: Rows) -> None:
        inputs = columns = rows.x.shape[-1]
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
        if not approximation.tied:
            raise ValueError(
                "a deep GP has one site for all rows on the inducing variables of each function: "
                "give method=cavity.TiedPowerEP()"
            )
        for i, layer in enumerate(self.layers[:-1]):
            if layer.noise_variance is None and cast(TiedPowerMeans, approximation).hidden_sites:
                raise ValueError(
                    f"{layer_name(i, len(self.layers))} has no noise variance, so that its hidden "
                    "values are known given its functions and can have no sites: give the layer a "
                    "noise_variance, or leave hidden_sites=False"
                )

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
        rows = rows.numbered()
        total = observed_rows(rows) if total is None else total
        views = tuple(layer.views(jitter) for layer in self.layers)
        edges: list[Edge] = []
        for number, (layer, own) in enumerate(zip(self.layers, views, strict=True), 1):
            last = number == len(self.layers)
            for i, view in enumerate(own):
                size = view.inducing.size
                counts = jnp.full(view.mean.outputs, total.any_output)
                if last and self.likelihood.latents == 1:
                    counts = total.per_output if len(own) == 1 else total.per_output[i : i + 1]
                start = None if last else (layer.starting_mean(view, i), INNER_DEVIATION)
                slots = Tied(size, counts, start)
                edges.append(Edge(len(edges), WholeView(), slots))
        variables: list[AbstractVariable] = [TiedInducing() for _ in edges]
        tied = cast(TiedPowerMeans, approximation)
        hidden = sum(layer.width for layer in self.layers[:-1])
        sited = tied.hidden_sites and hidden > 0
        if sited:
            edges.append(Edge(len(edges), ConditionalView(), Conditional(hidden)))
            variables.append(HiddenValues())
        term = DeepTerm(self.layers, views, self.likelihood, tied.propagation, sited)
        factor = SiteFactor(tuple(edges), rows, chunk, term, power, scale=scale)
        return Graph(tuple(variables), (factor,))

    def posterior(self, graph: Graph, q: Beliefs, rows: Rows, *, single: bool) -> DeepPosterior:
        term = cast(DeepTerm, graph.only_factor().term)
        latents, outputs = self.likelihood.latents, rows.y.shape[-1]
        functions = q[: sum(len(views) for views in term.views)]
        return DeepPosterior(
            model=self,
            layers=term.processes(list(cast(tuple[InducingBelief, ...], functions))),
            propagation=term.propagation,
            n_inputs=rows.x.shape[-1],
            outputs=outputs if latents == 1 else latents,
            single=single,
            side=tuple(sorted(rows.side)),
        )

    def __str__(self) -> str:
        return table(self)


def layer_name(i: int, count: int) -> str:
    """What a layer is called in messages."""
    return f"layer {i + 1} of {count}"
