"""The Gaussian process model: exact, or sparse with inducing variables."""

from typing import Any

import equinox as eqx

from cavity.inducing.base import AbstractInducing, Points
from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.energy import Beliefs, Graph
from cavity.inference.factors.base import AbstractFactor, Edge
from cavity.inference.factors.exact import ExactFactor
from cavity.inference.factors.site import SiteFactor
from cavity.inference.factors.slots import AbstractSlots, Private, Tied, observed_rows
from cavity.inference.graph.base import AbstractVariable, AbstractView
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.views import OutputMean, inducing_view
from cavity.inference.variables.function_values import FunctionValues, Identity
from cavity.inference.variables.inducing import TiedInducing, WhitenedInducing
from cavity.kernels.base import AbstractKernel
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import GaussianInLatent
from cavity.means import AbstractMean, Zero
from cavity.models.base import AbstractGP
from cavity.models.coupled_classes import class_graph
from cavity.models.from_beliefs import posterior_of
from cavity.models.posterior import AbstractPosterior
from cavity.numerics.linalg import jittered
from cavity.numerics.power_limits import Power
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float, Scalar
from cavity.parameters.table import table

_PARTS = {
    "kernel": "kernels, such as RBF()",
    "likelihood": "likelihoods, such as Gaussian()",
    "inducing": "inducing, such as Points(Z)",
    "mean": "means, such as Constant()",
}


class GP(AbstractGP):
    r"""A latent function with a Gaussian process prior, seen through a likelihood.

    $f \sim \mathcal{GP}(m, k)$, $y_n \sim p(y \mid f(\mathbf x_n))$. With several outputs, each
    has its own function with the same kernel.

    Without inducing variables the model is the full GP, whose cost grows with the cube of the
    rows. With M of them inference costs N M². The approximation is chosen where inference is
    asked for (`power`), not here.

    Some likelihoods depend on several latent functions. They have the same kernel and mean, or
    one each, as tuples.

    Parameters are used as given, in the units of the data. `print(model)` is a table of them.

    Args:
        kernel: covariance function; or a tuple, one per latent function.
        likelihood: density of an output given the function.
        inducing: inducing variables, or None for the full GP; those of every latent function.
        mean: prior mean function, or None for zero; or a tuple, one per latent function.

    Raises:
        TypeError: for parts that are not what they should be.
        ValueError: for tuples that do not have one entry per latent function.

    References:
        Bui (2017), S3, S4 and S21; van der Wilk (2018), items 10 and 25.
    """

    kernel: Any  # an AbstractKernel, or a tuple of them
    likelihood: AbstractLikelihood
    inducing: AbstractInducing | None
    mean: Any  # an AbstractMean, or a tuple of them

    def __init__(
        self,
        kernel: AbstractKernel | tuple[AbstractKernel, ...],
        likelihood: AbstractLikelihood,
        inducing: AbstractInducing | None = None,
        mean: AbstractMean | tuple[AbstractMean, ...] | None = None,
    ):
        _check_part("likelihood", likelihood, AbstractLikelihood)
        _check_part("inducing", inducing, AbstractInducing | None)
        mean = Zero() if mean is None else mean
        for name, part, kind in (("kernel", kernel, AbstractKernel), ("mean", mean, AbstractMean)):
            each = part if isinstance(part, tuple) else (part,)
            for one in each:
                _check_part(name, one, kind)
            if isinstance(part, tuple) and len(part) != likelihood.latents:
                raise ValueError(
                    f"{type(likelihood).__name__} has "
                    f"{plural(likelihood.latents, 'latent function')}, given a tuple of "
                    f"{plural(len(part), name)}"
                )
        self.kernel = kernel
        self.likelihood = likelihood
        self.inducing = inducing
        self.mean = mean

    @property
    def sparse(self) -> bool:
        return self.inducing is not None

    def check(self, rows: Rows) -> None:
        columns = rows.x.shape[-1]
        if isinstance(self.inducing, Points) and self.inducing.Z.shape[1] != columns:
            given = plural(self.inducing.Z.shape[1], "column")
            raise ValueError(
                f"the inducing points have {given}, X has {columns}; points have the columns of X"
            )

    def posterior(
        self, graph: Graph, q: Beliefs, rows: Rows, *, single: bool
    ) -> AbstractPosterior:
        views = tuple(edge.view for edge in graph.factors[0].edges)
        return posterior_of(self, views, q, rows, single=single)

    @property
    def latents(self) -> "tuple[GP, ...]":
        """The model of every latent function: itself, or one each with its kernel and mean."""
        count = self.likelihood.latents
        if count == 1 and not isinstance(self.kernel, tuple) and not isinstance(self.mean, tuple):
            return (self,)
        kernels = self.kernel if isinstance(self.kernel, tuple) else (self.kernel,) * count
        means = self.mean if isinstance(self.mean, tuple) else (self.mean,) * count
        return tuple(
            eqx.tree_at(lambda model: (model.kernel, model.mean), self, (k, m))
            for k, m in zip(kernels, means, strict=True)
        )

    def graph(
        self,
        rows: Rows,
        *,
        power: Power,
        approximation: AbstractApproximation,
        jitter: float | Scalar,
        chunk: int,
        total: Float[Array, " P"] | None = None,
        scale: Scalar | float = 1.0,
    ) -> Graph:
        full = self.inducing is None
        if approximation.couples(self.likelihood):
            laid: Any = {
                "power": power,
                "approximation": approximation,
                "jitter": jitter,
                "chunk": chunk,
            }
            return class_graph(self, rows, **laid)
        slots: AbstractSlots = Private()
        if approximation.tied:
            assert self.inducing is not None
            total = observed_rows(rows) if total is None else total
            slots = Tied(self.inducing.size, total)
        variables, edges = [], []
        for i, part in enumerate(self.latents):
            variable, view = part._laid_out(rows, jitter, approximation, power)
            variables.append(variable)
            edges.append(Edge(i, view, slots))
        size = rows.x.shape[0] if full else chunk
        if approximation.closed_form and isinstance(self.likelihood, GaussianInLatent):
            noise = self.likelihood.noise_variance
            factor: AbstractFactor = ExactFactor(tuple(edges), rows, size, noise, power)
        else:
            term = approximation.term(self.likelihood, exact=full)
            alike = self.likelihood.differences and not isinstance(self.kernel, tuple)
            factor = SiteFactor(
                edges=tuple(edges),
                rows=rows,
                chunk=size,
                term=term,
                power=power,
                evaluation_point=approximation.evaluation_point,
                common_mode=alike,
                scale=scale,
            )
        return Graph(tuple(variables), (factor,))

    def _laid_out(
        self,
        rows: Rows,
        jitter: float | Scalar,
        approximation: AbstractApproximation,
        power: Power,
    ) -> tuple[AbstractVariable, AbstractView]:
        """The variable of one latent function, and how rows see it."""
        kernel: Any = self.kernel
        one: Any = self.mean
        mean = OutputMean(one, rows.y.shape[-1])
        if self.inducing is None:
            prior = jittered(kernel.cross(rows.x, rows.x), jitter, kernel.diag(rows.x))
            signed = self.likelihood.log_concave and not self.likelihood.sampled(power)
            mixed = not (signed or approximation.convex)
            return FunctionValues(prior, mixed), Identity(mean)
        view = inducing_view(kernel, self.inducing, mean, jitter)
        size = self.inducing.size
        return TiedInducing() if approximation.tied else WhitenedInducing(size), view

    def __str__(self) -> str:
        return table(self)


def _check_part(name: str, part: Any, kind: Any) -> None:
    if not isinstance(part, kind):
        raise TypeError(
            f"{name} of a GP must be an object of cavity.{_PARTS[name]}; given "
            f"{type(part).__name__}"
        )
