"""The Gaussian-process state-space model."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.approximations.approximations import (
    AbstractApproximation,
    PowerMeans,
    TiedPowerMeans,
)
from cavity.inference.energy import Beliefs, Graph, collect_messages, empty_sites
from cavity.inference.factors.stored import NaturalChain, StoredChain
from cavity.inference.graph.base import Messages
from cavity.inference.graph.rows import Rows
from cavity.inference.propagation import Nodes
from cavity.inference.variables.chain import (
    SERIES,
    ChainBelief,
    Links,
    links_of,
)
from cavity.inference.variables.chain_messages import Chain
from cavity.inference.variables.inducing import WhitenedInducing
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.gaussian import Gaussian
from cavity.means import AbstractMean, Identity
from cavity.models.base import AbstractModel, GraphSettings
from cavity.models.deep.function_edges import check_memory
from cavity.models.deep.layer import Layer
from cavity.models.deep.regression import ProcessNoise, regression
from cavity.models.inputs.views import standardised
from cavity.models.state_space.conditional import LEAST_PATHS, path_graph
from cavity.models.state_space.emission import AbstractEmission, AffineEmission, GPEmission
from cavity.models.state_space.posterior import StateSpacePosterior
from cavity.models.state_space.site_checks import (
    check_last_states,
    check_method,
    check_single_terms,
)
from cavity.models.state_space.site_graph import (
    Layout,
    StartingPoint,
    site_graph,
    tied_graph,
)
from cavity.models.state_space.site_views import Start
from cavity.models.state_space.views import InitialStates, Transitions
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float, Scalar
from cavity.parameters import fixed

# Functions of a likelihood that is not Gaussian start as if standardised outputs had noise of this
# variance.
START_NOISE = 0.1


class GPSSM(AbstractModel):
    r"""A Gaussian-process state-space model: hidden states that are functions of the ones before.

    $\mathbf x_t = f(\mathbf x_{t-1}, \mathbf c_t) + \boldsymbol\epsilon_t$ with a Gaussian process
    for each coordinate of f, and outputs $y_{tp} \sim p(y \mid g_p(\mathbf x_t))$. Rows are times;
    `rows={"series": labels}` says which series a row belongs to, one series after another. The
    first state of a series has the prior $\mathcal N(\mathbf m_0, \operatorname{diag} \mathbf
    v_0)$. A row whose outputs are all missing keeps its state; put one in front of a series for a
    state before the first outputs. `cavity.fit(model, None, Y)`, or with controls
    `cavity.fit(model, X, Y)`.

    With `method=cavity.PowerEP()` inducing variables are in closed form, and an optimiser moves a
    Gaussian chain for the states; at power 0 the evidence is a lower bound. With
    `cavity.TiedPowerEP()` a state has one site for all its terms, which the optimiser moves, as
    inducing variables have one for all transitions: the same bound with factorised states at power
    0, for every likelihood and, with `batch=...`, by minibatches of subsequences. With
    `input_sites=True` rows have sites on pairs of states instead, matched by sweeps; with
    `cavity.PowerEP(exact=False)` on inducing variables too, for short series.

    Args:
        transition: the functions f, of the states, and of the controls as columns after them with
            `skip_connection=True`; `width` is the number of states, `mean` the mean map, such as
            `cavity.means.Identity()`, and `noise_variance` that of $\epsilon$: one number, or one
            for each state.
        likelihood: density of an output given its function, of one latent function.
        emission: the functions g: an affine mean of the states, such as
            `cavity.means.Linear(weights)`, None for the states themselves, or a `cavity.Layer`.
        initial_mean: $\mathbf m_0$, one number or one for each state; not learned by default.
        initial_variance: $\mathbf v_0$, likewise.

    Raises:
        TypeError: for parts that are not what they should be.
        ValueError: for a transition without noise variance, and a likelihood of several latent
            functions.

    References:
        Bui (2017), S31, S34 and S36 to S42; van der Wilk (2018), items 80 and 82.
    """

    transition: Layer
    likelihood: AbstractLikelihood
    emission: AbstractEmission
    initial_mean: Float[Array, " D"] = fixed()
    initial_variance: Float[Array, " D"] = fixed()

    latent_rows: ClassVar[bool] = True
    ordered: ClassVar[bool] = True
    hidden_posteriors: ClassVar[tuple[str, ...]] = ("chain", "factorised", "conditional")

    def __init__(
        self,
        transition: Layer,
        likelihood: AbstractLikelihood,
        emission: AbstractMean | Layer | None = None,
        *,
        initial_mean: Any = 0.0,
        initial_variance: Any = 1.0,
    ):
        emission = Identity(transition.width) if emission is None else emission
        kinds = {
            "transition": (transition, Layer, "a cavity.Layer"),
            "likelihood": (likelihood, AbstractLikelihood, "one of cavity.likelihoods"),
            "emission": (emission, AbstractMean | Layer, "a mean function or a cavity.Layer"),
        }
        for name, (part, kind, wanted) in kinds.items():
            if not isinstance(part, kind):
                raise TypeError(f"{name} of a GPSSM must be {wanted}, given {type(part).__name__}")
        if transition.noise_variance is None:
            raise ValueError(
                "the transition needs process noise: give its layer noise_variance=..., in "
                "squared units of the states"
            )
        if likelihood.latents > 1:
            raise ValueError(
                f"{type(likelihood).__name__} has "
                f"{plural(likelihood.latents, 'latent function')}; a GPSSM takes likelihoods of "
                "one, which every output has for itself"
            )
        self.transition = transition
        self.likelihood = likelihood
        affine = isinstance(emission, AbstractMean)
        self.emission = AffineEmission(emission) if affine else GPEmission(emission)
        self.initial_mean = _state_values("initial_mean", initial_mean, transition.width)
        if not np.all(np.asarray(initial_variance) > 0.0):
            raise ValueError(f"initial_variance must be above 0, given {initial_variance}")
        self.initial_variance = _state_values(
            "initial_variance", initial_variance, transition.width
        )

    @property
    def state_dims(self) -> int:
        """The number of states."""
        return self.transition.width

    @property
    def takes_inputs(self) -> bool:
        return self.transition.skip_connection or self.emission.controlled

    @property
    def sparse(self) -> bool:
        return True

    @property
    def side(self) -> tuple[str, ...]:
        return (*self.likelihood.side, SERIES)

    def row_data(self, rows: Mapping[str, ArrayLike] | None, count: int) -> dict[str, Any]:
        given = dict(rows or {})
        labels = np.asarray(given.get(SERIES, np.zeros(count)))
        if labels.shape != (count,):
            raise ValueError(
                f"series must have one label per row, ({count},), given shape {labels.shape}"
            )
        if labels.dtype.kind == "f" and np.any(np.isnan(labels)):
            raise ValueError(
                f"series is NaN in row {int(np.argmax(np.isnan(labels)))}: give every row a label"
            )
        starts = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))
        if len(np.unique(labels)) != len(starts):
            raise ValueError(
                "the rows of a series must follow each other, in the order of time: sort the "
                "table by series, then by time"
            )
        ordered = np.zeros(count)
        ordered[starts[1:]] = 1.0
        return given | {SERIES: np.cumsum(ordered).astype(jnp.result_type(float))}

    def check(self, rows: Rows) -> None:
        if rows.blocked or rows.power is not None:
            raise ValueError(
                "a state-space model has one power for all rows and no blocks: give power as one "
                "number, and leave blocks=None"
            )
        if rows.weighted:
            raise ValueError(
                "rows of a state-space model follow each other in time and have no weights: leave "
                "them out, or give known noise variances"
            )
        states, controls, outputs = self.state_dims, rows.x.shape[-1], rows.y.shape[-1]
        more = controls if self.transition.skip_connection else 0
        self.transition.check("the transition", states + more)
        self.emission.check(states, controls)
        width = self.emission.width(states)
        if width != outputs:
            raise ValueError(
                f"the emission has {plural(width, 'function')}, Y has "
                f"{plural(outputs, 'output')}: give an emission with one function per output"
            )

    def check_approximation(self, approximation: AbstractApproximation, *, natural: bool) -> None:
        check_method(approximation, natural=natural)
        if approximation.tied or not approximation.closed_form:
            return
        if not self.emission.closed_form(self.likelihood):
            raise ValueError(
                "an emission by Gaussian processes with the likelihood "
                f"{type(self.likelihood).__name__} has no closed form: give Gaussian() noise, or "
                "an affine emission such as cavity.means.Linear(weights), or "
                "method=cavity.TiedPowerEP()"
            )

    def check_power(self, rows: Rows, power: Power, approximation: AbstractApproximation) -> None:
        if approximation.hidden == "conditional" and not is_exactly(power, 0.0):
            raise ValueError('hidden="conditional" is variational: give power=0')
        if approximation.closed_form or approximation.hidden == "conditional":
            return
        if not approximation.tied:
            remedy = "method=cavity.TiedPowerEP(input_sites=True)"
            check_memory((self.transition, *self.emission.layers), rows.y.shape[0], remedy)
        if not is_exactly(power, 1.0):
            return
        if approximation.tied and not cast(TiedPowerMeans, approximation).input_sites:
            check_single_terms(rows)
        else:
            check_last_states(rows, self.state_dims)

    def graph(self, rows: Rows, settings: GraphSettings) -> Graph:
        power, approximation, jitter, chunk = settings[:4]
        links = links_of(rows)
        rows = without_series(rows).numbered()
        if approximation.hidden == "conditional":
            return self._path_graph(rows, links, cast(TiedPowerMeans, approximation), jitter)
        if not approximation.closed_form:
            return self._site_graph(rows, links, power, approximation, jitter, chunk)
        exact = cast(PowerMeans, approximation)
        form = {"coupled": exact.hidden != "factorised", "moved": exact.moved}
        return self._exact_graph(rows, links, power, jitter, **form)

    def _exact_graph(
        self,
        rows: Rows,
        links: Links,
        power: Power,
        jitter: float | Scalar,
        *,
        coupled: bool,
        moved: bool,
    ) -> Graph:
        """Inducing variables in closed form, and a variational chain."""
        transition, views = self.transition, self.transition.views(jitter)
        sight = Transitions(links, transition.skip_connection)
        noise = ProcessNoise(cast(Array, transition.noise_variance))
        own = regression(transition, views, sight, noise, rows, power)
        more, terms = self.emission.parts(self.likelihood, len(views), jitter, rows, power)
        start, cov = self.emission.start(self.likelihood, rows, links, self.state_dims)
        chain = Start(start, cov).moments(coupled=coupled)
        initial = InitialStates(self.initial_mean, self.initial_variance, links)
        data = {"start": chain, "links": links, "rows": rows, "densities": (initial, *terms)}
        functions = (*views, *(edge.view for each in more for edge in each.edges))
        return Graph(
            variables=tuple(WhitenedInducing(view.inducing.size) for view in functions),
            regressions=(own, *more),
            stored=(StoredChain(**data),) if moved else (),
            natural=() if moved else (NaturalChain(**data),),
            functions=functions,
        )

    def _site_graph(
        self,
        rows: Rows,
        links: Links,
        power: Power,
        approximation: AbstractApproximation,
        jitter: float | Scalar,
        chunk: int,
    ) -> Graph:
        """Sites on states, and on inducing variables: of rows, or tied."""
        states, outputs, tied = self.state_dims, rows.y.shape[-1], approximation.tied
        sites = cast(TiedPowerMeans, approximation)
        how = sites.propagation if tied else Nodes()
        emission = self.emission.site_parts(self.likelihood, outputs, states, how, jitter)
        begin = self.emission.start(self.likelihood, rows, links, states)
        start = StartingPoint(Start(*begin), self._starting_functions(rows, links, jitter))
        chain = Chain(self.initial_mean, self.initial_variance, links.linked)
        parts = (self.transition, emission, rows, links, chain, start, power, how, jitter)
        if tied and not sites.input_sites:
            return tied_graph(Layout(*parts), chunk)
        return site_graph(Layout(*parts), hidden=approximation.hidden, tied=tied)

    def _path_graph(
        self, rows: Rows, links: Links, approximation: TiedPowerMeans, jitter: float | Scalar
    ) -> Graph:
        """Tied sites on inducing variables, and sites of rows on states given their functions."""
        emission = self.emission.path_parts(self.likelihood, rows.y.shape[-1], jitter)
        start, _ = self.emission.start(self.likelihood, rows, links, self.state_dims)
        means = self._starting_functions(rows, links, jitter)
        initial = (self.initial_mean, self.initial_variance)
        count = max(approximation.propagation.repeats, LEAST_PATHS)
        views = self.transition.views(jitter)
        functions = (self.transition, views)
        return path_graph(functions, emission, rows, links, initial, (start, means), count)

    def _starting_functions(
        self, rows: Rows, links: Links, jitter: float | Scalar
    ) -> list[Messages]:
        """Messages to inducing variables, in closed form, from rows with the starting states."""
        model = self
        if not self.emission.closed_form(self.likelihood):
            # outputs stand for values of the functions
            model = eqx.tree_at(lambda m: m.likelihood, self, Gaussian(START_NOISE))
            rows = dataclasses.replace(rows, y=standardised(rows), side={})
        graph = model._exact_graph(rows, links, 0.0, jitter, coupled=False, moved=True)
        return collect_messages(graph, empty_sites(graph))

    def posterior(
        self, graph: Graph, q: Beliefs, rows: Rows, *, single: bool
    ) -> StateSpacePosterior:
        count, views, own = len(self.transition.groups), graph.functions, graph.function_beliefs(q)
        transition = self.transition.process(views[:count], own[:count])
        emission = self.emission.functions(views[count:], own[count:])
        return StateSpacePosterior(
            model=self,
            transition=transition,
            emission=emission,
            chain=cast(ChainBelief, q[-1]),
            series=rows.side[SERIES],
            n_inputs=rows.x.shape[-1],
            outputs=rows.y.shape[-1],
            single=single,
        )


def without_series(rows: Rows) -> Rows:
    """The rows without the side data that say which series they belong to."""
    side = {name: values for name, values in rows.side.items() if name != SERIES}
    return dataclasses.replace(rows, side=side)


def _state_values(name: str, value: Any, states: int) -> Float[Array, " D"]:
    shape = np.shape(value)
    if shape not in ((), (states,)):
        raise ValueError(
            f"{name} must be one number, or one for each of {plural(states, 'state')}; given "
            f"shape {shape}"
        )
    return jnp.broadcast_to(jnp.asarray(value, float), (states,))
