"""The Gaussian process model: exact, or sparse with inducing variables."""

from typing import cast

import numpy as np

from cavity.inducing.base import AbstractInducing, input_columns
from cavity.inducing.slopes import check_slopes, columns_of
from cavity.inference.approximations.approximations import AbstractApproximation, TiedPowerMeans
from cavity.inference.energy import Beliefs, Graph
from cavity.inference.factors.base import Edge
from cavity.inference.factors.slots import (
    AbstractSlots,
    ObservedRows,
    Private,
    Tied,
)
from cavity.inference.graph.base import AbstractVariable, AbstractView
from cavity.inference.graph.rows import SLOPES, Rows
from cavity.kernels.base import AbstractKernel
from cavity.likelihoods.base import AbstractLikelihood
from cavity.means import AbstractMean, Zero
from cavity.models.base import AbstractGP, GraphSettings, check_each, check_part, each_of
from cavity.models.coupled_classes import class_graph, class_process
from cavity.models.latent_gp import LatentGP, shared_parameters
from cavity.models.posterior import Posterior, posterior_of_functions
from cavity.numerics.text import plural


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

    kernel: AbstractKernel | tuple[AbstractKernel, ...]
    likelihood: AbstractLikelihood
    inducing: AbstractInducing | None
    mean: AbstractMean | tuple[AbstractMean, ...]

    def __init__(
        self,
        kernel: AbstractKernel | tuple[AbstractKernel, ...],
        likelihood: AbstractLikelihood,
        inducing: AbstractInducing | None = None,
        mean: AbstractMean | tuple[AbstractMean, ...] | None = None,
    ):
        check_part("likelihood of a GP", likelihood, AbstractLikelihood)
        if inducing is not None:
            check_part("inducing of a GP", inducing, AbstractInducing)
        mean = Zero() if mean is None else mean
        functions = likelihood.latents - len(shared_parameters(likelihood))
        for name, part, kind in (("kernel", kernel, AbstractKernel), ("mean", mean, AbstractMean)):
            check_each(name, part, functions, likelihood)
            for entry in each_of(part):
                check_part(f"{name} of a GP", entry, kind)
        self.kernel = kernel
        self.likelihood = likelihood
        self.inducing = inducing
        self.mean = mean

    @property
    def sparse(self) -> bool:
        return all(latent.inducing is not None for latent in self.latents)

    @property
    def approximate(self) -> bool:
        # explicit features explain all of the function
        return self.inducing is not None

    @property
    def separable(self) -> bool:
        return self.inducing is not None and len(self.inducing.groups) > 1

    @property
    def side(self) -> tuple[str, ...]:
        """Names of the side data that rows may have."""
        slopes = (SLOPES,) if self.likelihood.latents == 1 else ()
        return (*self.likelihood.side, *slopes)

    def check(self, rows: Rows) -> None:
        columns = rows.x.shape[-1]
        inducing_columns = None if self.inducing is None else input_columns(self.inducing)
        if inducing_columns not in (None, columns):
            given = plural(inducing_columns, "column")
            raise ValueError(
                f"the inducing points have {given}, X has {columns}; points have the columns of X"
            )

        if SLOPES in rows.side:
            numbers = np.asarray(rows.side[SLOPES]).ravel()
            columns_of(f'rows={{"{SLOPES}"}}', numbers, numbers.size, columns)
            for kernel in self.covariances:
                check_slopes(kernel)

    def check_approximation(self, approximation: AbstractApproximation, *, natural: bool) -> None:
        """Any approximation will do."""

    def posterior(self, graph: Graph, q: Beliefs, rows: Rows, *, single: bool) -> Posterior:
        views = [edge.view for edge in graph.edges]
        if len(views) < self.likelihood.latents:  # one variable for the functions of all classes
            functions = [class_process(self, views[0], q[0], rows)]
        else:
            triples = zip(self.latents, views, q, strict=True)
            functions = [gp.process(view, belief, rows) for gp, view, belief in triples]
        return posterior_of_functions(self, functions, rows, single=single)

    def graph(self, rows: Rows, settings: GraphSettings) -> Graph:
        approximation, full = settings.approximation, not self.sparse
        if approximation.couples(self.likelihood):
            return class_graph(self, rows, settings)
        laid_out = self._laid_out(rows, settings)
        slots: list[AbstractSlots] = [Private()] * len(laid_out)
        if approximation.tied:
            joint = cast(TiedPowerMeans, approximation).joint
            total = settings.observed(rows)
            slots = [_tied(latent, total, joint=joint) for latent in self.latents]
        variables, views = zip(*laid_out, strict=True)
        edges = tuple(Edge(i, *pair) for i, pair in enumerate(zip(views, slots, strict=True)))
        exchangeable = self.likelihood.differences and len(self.covariances) == 1
        if full:
            settings = settings._replace(chunk=rows.x.shape[0])
        terms = self.data_terms(edges, rows, settings, exact=full, common_mode=exchangeable)
        return Graph(variables, regressions=terms.regressions, factors=terms.factors)

    def _laid_out(
        self, rows: Rows, settings: GraphSettings
    ) -> list[tuple[AbstractVariable, AbstractView]]:
        """The variable of every function and its view; functions of one kernel share them."""
        signs = {"tied": settings.approximation.tied, "mixed": self.mixed_signs(settings)}
        jitter = settings.jitter
        first, *others = self.latents
        count = len(self.latents) - len(shared_parameters(self.likelihood))
        found = [first.lay_out(rows, jitter, number=0, **signs)]
        for number, latent in enumerate(others, 1):
            if number < count and len(self.covariances) == 1:
                found.append(latent.lay_out_like(found[0], rows.y.shape[-1]))
            else:
                found.append(latent.lay_out(rows, jitter, number=number, **signs))
        return found


def _tied(latent: LatentGP, total: ObservedRows, *, joint: bool) -> Tied:
    """The slot of all rows on the variables of one function."""
    variables = latent.inducing
    groups = None if joint or variables is None else variables.groups
    return Tied(latent.size, total.per_output, groups=groups)
