"""Linear models with any likelihood, whose weights have sparse priors."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.energy import Beliefs, Graph
from cavity.inference.factors.base import Edge
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.inducing import WhitenedInducing
from cavity.inference.weights.blocks import units_of
from cavity.inference.weights.parameters import ScaleBeliefs, checked_scales, parameter_views
from cavity.inference.weights.priors import (
    SeenScales,
    WeightsWithPriors,
    priors_of,
    weights_with_priors,
)
from cavity.inference.weights.views import Design, LinearView, ParameterView
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.base import AbstractModel, GraphSettings, check_each, check_part, each_of
from cavity.models.drawn_weights import DrawnWeights, WeightPart, gaussian_part
from cavity.models.latent_gp import shared_parameters
from cavity.models.linear.checks import (
    BlockColumns,
    check_columns,
    check_prior,
    check_sites,
    checked_blocks,
    checked_groups,
)
from cavity.models.linear.process import LinearProcess
from cavity.models.posterior import Posterior, posterior_of_functions
from cavity.models.process import AbstractProcess
from cavity.numerics.tree import named
from cavity.numerics.types import Array, Float
from cavity.parameters import fixed
from cavity.parameters.gaussian_scale import GaussianScales
from cavity.parameters.priors import Prior
from cavity.weights.base import AbstractWeightPrior
from cavity.weights.densities import Gaussian

# Variance of the intercept where none is given.
_INTERCEPT = 10.0


class LinearModel(AbstractModel):
    r"""$y_n \sim p(y \mid \mathbf x_n^\top \mathbf w + b)$ with a prior on every weight.

    Weights are a variable with a flat prior, and their prior is a factor like any other, with a
    row for each weight. With sparse priors this is sparse expectation propagation. It is for
    tables with more columns than rows as well: inference costs N² p then, elsewhere N p².

    With several latent functions, as several classes have, each has weights of its own with the
    same prior, or with one each, as a tuple.

    Args:
        prior: prior of each weight; or a tuple, one per latent function.
        likelihood: density of an output given the function.
        intercept: whether there is an intercept; or the variance of its Gaussian prior, which is
            not learned, in squared units of the function. True stands for 10.
        groups: the group of each column, whole numbers from 0: where a parameter of the prior has
            one value per group, columns of a group share it. None where parameters are one number
            or have one value per column.
        prior_power: power of the prior's sites, above 0 and up to 1, whatever the power of the
            data's.
        centre: of each column, (D,), which is subtracted from it; None for zero.
        scale: of each column, (D,): weights, and their priors, are per scale, and `coefficients`
            are per unit of the column all the same. None for one.
        integrated: parameters of the prior that are integrated out, by name, with their own
            priors, as in `{"variance": cavity.parameters.priors.LogNormal(1.0, 1.0)}`. Latent
            functions share them.
        blocks: columns whose weights share one scale of the prior, as lists of column numbers from
            0: with spike and slab they are zero together or not at all, as the 0/1 columns of one
            category should. The prior must be a scale mixture, at power 1. Where a parameter of it
            has several values, there is one for each block, then one for each other column.
            Inference costs p^3 with blocks. None for none.

    Raises:
        TypeError: for parts that are not what they should be.
        ValueError: for a tuple that does not have one prior per latent function, groups that are
            no whole numbers, a power that the prior does not take, columns in two blocks, and
            blocks beside groups, integrated parameters or a prior that is no scale mixture.

    References:
        Jylanki (2013), S4, S6 and S7; Seeger (2008); Hernandez-Lobato et al. (2015).
    """

    integrates: ClassVar[bool] = True
    identified: ClassVar[bool] = True

    prior: AbstractWeightPrior | tuple[AbstractWeightPrior, ...]
    likelihood: AbstractLikelihood
    groups: np.ndarray | None
    integrated: GaussianScales | None
    prior_power: float = eqx.field(static=True)
    intercept: Float[Array, ""] | None = fixed(optional=True, output=2)
    centre: Float[Array, " D"] | None = fixed(optional=True, input=1, location=True)
    scale: Float[Array, " D"] | None = fixed(optional=True, input=1)
    blocks: BlockColumns | None = eqx.field(static=True, default=None)

    def __init__(
        self,
        prior: AbstractWeightPrior | tuple[AbstractWeightPrior, ...],
        likelihood: AbstractLikelihood,
        intercept: bool | float = True,  # noqa: FBT001
        groups: ArrayLike | None = None,
        prior_power: float = 1.0,
        centre: Any = None,
        scale: Any = None,
        integrated: Mapping[str, Prior] | None = None,
        blocks: Sequence[Any] | np.ndarray | None = None,
    ):
        check_part("likelihood of a LinearModel", likelihood, AbstractLikelihood)
        for each in each_of(prior):
            check_prior(each, prior_power, "LinearModel")
        check_each("prior", prior, likelihood.latents, likelihood)
        given: Any = intercept
        if isinstance(intercept, bool):
            given = _INTERCEPT if intercept else None
        if given is not None and not float(given) > 0.0:
            raise ValueError(
                f"the variance of the intercept must be positive, given {intercept}: for a model "
                "without, give intercept=False"
            )
        if not 0.0 < prior_power <= 1.0:
            raise ValueError(f"prior_power must lie in (0, 1], given {prior_power}")
        self.prior, self.likelihood = prior, likelihood
        self.intercept = given
        self.groups, self.prior_power = checked_groups(groups), prior_power
        self.centre, self.scale = centre, scale
        self.integrated = checked_scales(prior, integrated)
        self.blocks = self._checked_blocks(blocks)

    def _checked_blocks(self, blocks: Sequence[Any] | np.ndarray | None) -> BlockColumns | None:
        return checked_blocks(
            blocks,
            each_of(self.prior),
            self.prior_power,
            groups=self.groups is not None,
            integrated=self.integrated is not None,
        )

    @property
    def priors(self) -> tuple[AbstractWeightPrior, ...]:
        """The prior of the weights of every latent function."""
        given = each_of(self.prior)
        functions = self.likelihood.latents - len(shared_parameters(self.likelihood))
        return given * functions if len(given) == 1 else given

    def prior_of_weights(self, function: int, count: int) -> AbstractWeightPrior:
        """The prior of one latent function, with parameters for each of so many weights."""
        return self.priors[function].for_weights(self.units(count), count)

    def units(self, count: int) -> Array | np.ndarray | None:
        """Index into the values of the prior's parameters for each of so many columns.

        It is the column's group or its block; None where columns have values of their own.
        """
        return self.groups if self.blocks is None else units_of(self.blocks, count)

    @property
    def design(self) -> Design:
        """Design matrix of the weights."""
        return Design(self.centre, self.scale, self.intercept is not None)

    def integrating(self, priors: Mapping[str, Prior]) -> "LinearModel":
        own = {n.removeprefix("prior."): p for n, p in priors.items() if n.startswith("prior.")}
        others = {name: prior for name, prior in priors.items() if not name.startswith("prior.")}
        model: Any = super().integrating(others) if others else self
        scales = checked_scales(self.prior, own)
        found: Any = eqx.tree_at(
            lambda m: m.integrated, model, scales, is_leaf=lambda x: x is None
        )
        found._checked_blocks(found.blocks)
        return found

    def holding(self) -> "LinearModel":
        model: Any = super().holding()
        if self.integrated is None:
            return model
        held = self.integrated.held_at(named(self.prior))
        return eqx.tree_at(lambda m: m.integrated, model, held)

    def weight_parts(self, columns: int) -> tuple[WeightPart, ...]:
        """Weights of every function, and its intercept where there is one."""
        if self.integrated is not None:
            raise ValueError(
                "MCMC() draws every parameter: leave out integrated=, given "
                f"{', '.join(self.integrated.names)}"
            )
        units = None
        if self.blocks is not None:
            units = tuple(map(int, units_of(self.blocks, columns)))
        parts = []
        for i in range(len(self.priors)):
            parts.append(WeightPart(self.prior_of_weights(i, columns), 1, units))
            if self.intercept is not None:
                parts.append(gaussian_part(self.intercept))
        return tuple(parts)

    def functions_of(self, weights: DrawnWeights, X: Float[Array, "n D"]) -> Float[Array, "n L"]:
        return self.design(X) @ jnp.concatenate(self._function_weights(weights), axis=-1)

    def named_weights(self, weights: DrawnWeights) -> dict[str, Array]:
        """`weights`, per scale of their column, and `intercept`, at the centre of the columns."""
        every = jnp.concatenate(self._function_weights(weights), axis=-1)
        every = every[:, 0] if len(self.priors) == 1 else every
        if self.intercept is None:
            return {"weights": every}
        return {"weights": every[:-1], "intercept": every[-1]}

    def _function_weights(self, weights: DrawnWeights) -> list[Float[Array, "p 1"]]:
        """The weights of each function, its intercept last."""
        if self.intercept is None:
            return list(weights)
        pairs = zip(weights[::2], weights[1::2], strict=True)
        return [jnp.concatenate(pair) for pair in pairs]

    @property
    def sparse(self) -> bool:
        return False

    def check(self, rows: Rows) -> None:
        columns = (self.groups, self.centre, self.scale, self.blocks)
        check_columns(rows.x.shape[-1], self.priors, *columns)

    def check_approximation(self, approximation: AbstractApproximation, *, natural: bool) -> None:
        if approximation.couples(self.likelihood):
            raise ValueError(
                "the coefficients of each class are apart in a LinearModel: use "
                "method=cavity.PowerEP(coupled=False)"
            )
        check_sites(approximation, "LinearModel")

    def graph(self, rows: Rows, settings: GraphSettings) -> Graph:
        shared = [
            each.sparse_layout(rows.y.shape[-1], settings.jitter)
            for each in shared_parameters(self.likelihood)
        ]
        views = [LinearView(self.design)] * len(self.priors) + [view for _, view in shared]
        edges = tuple(Edge(i, view) for i, view in enumerate(views))
        if self._factored(rows):
            settings = settings._replace(chunk=rows.x.shape[0])
        exact, local = self.data_terms(edges, rows, settings, exact=True)
        others = [variable for variable, _ in shared] + [v for v, _ in self._parameter_views(rows)]
        every = [
            self._weights_and_priors(rows, number, prior, settings)
            for number, prior in enumerate(self.priors)
        ]
        return Graph(
            variables=(*(own.variable for own in every), *others),
            regressions=exact,
            priors=tuple(prior for own in every for prior in own.exact),
            factors=(*local, *(prior for own in every for prior in own.local)),
        )

    def _scales(self, rows: Rows) -> SeenScales | None:
        """Views that the prior has of its integrated parameters."""
        if self.integrated is None:
            return None
        views = [view for _, view in self._parameter_views(rows)]
        edges = tuple(Edge(self.likelihood.latents + i, view) for i, view in enumerate(views))
        return SeenScales(edges, self.integrated.names, self.integrated.kinds)

    def _parameter_views(self, rows: Rows) -> tuple[tuple[WhitenedInducing, ParameterView], ...]:
        """The integrated parameters of the prior, and what its rows see of them."""
        if self.integrated is None:
            return ()
        return parameter_views(self.priors[0], self.integrated, self.groups, rows.x.shape[-1])

    def _weights_and_priors(
        self, rows: Rows, number: int, prior: AbstractWeightPrior, settings: GraphSettings
    ) -> WeightsWithPriors:
        """The weights of one latent function, and their priors."""
        own, blocks = None if self.intercept is None else Gaussian(self.intercept), self.blocks
        count, scales = rows.x.shape[-1], self._scales(rows)
        return weights_with_priors(
            number,
            priors_of(prior, self.groups, count, own, scales, blocks or ()),
            rows.y,
            loadings=self.design(rows.x) if self._factored(rows) else None,
            mixed=self.mixed_signs(settings),
            power=self.prior_power,
        )

    def _factored(self, rows: Rows) -> bool:
        """True if the belief is computed at the rows, of which there are fewer than weights."""
        if self.blocks is not None:
            return False
        return rows.x.shape[-1] + (self.intercept is not None) > rows.x.shape[0]

    def posterior(self, graph: Graph, q: Beliefs, rows: Rows, *, single: bool) -> Posterior:
        beliefs: Any = q
        count, weights = self.likelihood.latents, len(self.priors)
        scales = None
        if self.integrated is not None:
            own = tuple(view for _, view in self._parameter_views(rows))
            scales = ScaleBeliefs(
                self.integrated.names, self.integrated.kinds, own, beliefs[count:]
            )
        functions: list[AbstractProcess] = [
            LinearProcess(belief, self.design, scales) for belief in beliefs[:weights]
        ]
        edges: Any = graph.edges
        for part, number in zip(
            shared_parameters(self.likelihood), range(weights, count), strict=True
        ):
            functions.append(part.process(edges[number].view, beliefs[number], rows))
        return posterior_of_functions(self, functions, rows, single=single)
