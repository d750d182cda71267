"""Several classes whose functions stay dependent in the posterior: their graph and posterior."""

from typing import ClassVar, cast

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.energy import Graph
from cavity.inference.factors.base import Edge
from cavity.inference.factors.local import LocalFactor
from cavity.inference.graph.base import AbstractBelief, AbstractSiteView, AbstractView, Messages
from cavity.inference.graph.marginals import Latent, Marginal, Moments, Projection
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import (
    AbstractSites,
    BlockSites,
    ClassSites,
    class_precision,
    empty_row_sites,
    masked,
)
from cavity.inference.past import inducing_views
from cavity.inference.variables.class_contrasts import Contrasts
from cavity.inference.variables.coupled_classes import (
    AbstractClassBelief,
    AbstractClassVariable,
    CoupledClassInducing,
    CoupledClassInducingBelief,
    CoupledClassValues,
    CoupledClassValuesBelief,
)
from cavity.inference.variables.inducing_view import InducingView, OutputMean, inducing_view
from cavity.kernels.base import AbstractKernel
from cavity.models.base import AbstractGP, GraphSettings
from cavity.models.process import AbstractProcess
from cavity.numerics.linalg import jittered, remainder
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Scalar


class ClassFunctions(eqx.Module):
    """The functions of all classes at some inputs, before any data.

    Attributes:
        views: how rows see the inducing variables of each class, or one for all; none in a full
            GP.
        means: prior means of each class, or one for all.
        classes: their number.
    """

    views: tuple[InducingView, ...]
    means: tuple[OutputMean, ...]
    classes: int = eqx.field(static=True)

    def __call__(self, x: Float[Array, "N D"]) -> Projection:
        """The projections of all classes: loadings (G, M, N), residual and offset (N, C)."""
        shape = (x.shape[0], self.classes)
        offset = jnp.concatenate([mean(x) for mean in self.means], axis=1)
        offset = jnp.broadcast_to(offset, shape)
        if not self.views:
            return Projection(None, jnp.zeros(shape, x.dtype), offset)
        y = jnp.zeros((x.shape[0], 1), x.dtype)
        each = [view.project(Rows(x, y, y)) for view in self.views]
        loadings = jnp.stack([p.loadings for p in each])  # type: ignore[type-var]
        residual = jnp.stack([p.residual for p in each], axis=1)
        return Projection(loadings, jnp.broadcast_to(residual, shape), offset)


class ContrastView(AbstractSiteView[AbstractClassBelief, AbstractClassVariable]):
    r"""Rows see the contrasts $f^j - f^y + u$ of their class with the others.

    What inducing variables leave unexplained of the observed class is common to the contrasts of
    a row. At power a, a share a of it joins u, so that at power 1 it is that of a model with
    independent residuals of all functions, and at power 0 of the variational bound.
    """

    functions: ClassFunctions
    power: Power

    scalar: ClassVar[bool] = False

    def empty_sites(self, rows: Rows) -> AbstractSites:
        return empty_row_sites(rows)

    def presence(self, rows: Rows) -> Array:
        return rows.site_presence

    def marginal(
        self, belief: AbstractClassBelief, rows: Rows, sites: AbstractSites | None = None
    ) -> Marginal:
        assert sites is not None, "contrasts depend on the row's own sites"
        projection = self.functions(rows.x)
        contrasts, offset, residual = self._contrasts(rows, projection)
        mean, var = belief.contrasts(projection, contrasts, sites)
        return Marginal(mean, var, offset, residual)

    def at(self, moments: Moments, rows: Rows) -> Marginal:
        _, offset, residual = self._contrasts(rows, self.functions(rows.x))
        return Marginal(*moments, offset, residual)

    def own_sites(self, rows: Rows, sites: AbstractSites) -> AbstractSites:
        # of one of the rows that a row stands for, each of which has its own u
        return masked(sites, rows.observed)

    def messages(
        self, variable: AbstractClassVariable, rows: Rows, sites: AbstractSites
    ) -> Messages:
        projection = self.functions(rows.x)
        contrasts, _, _ = self._contrasts(rows, projection)
        shift, weights, log_scale = contrasts.sent(sites.shift, sites.precision)
        w = _row_weights(rows)
        sent = w[:, None] * shift, jnp.where(w > 0.0, w, 1.0)[:, None] * weights, w * log_scale
        return variable.messages_from_classes(*sent, projection)

    def without_site(
        self, belief: AbstractClassBelief, rows: Rows, sites: AbstractSites
    ) -> tuple[Latent, Array]:
        projection = self.functions(rows.x)
        contrasts, _, _ = self._contrasts(rows, projection)
        mean, cov = belief.functions(projection)
        own = contrasts.class_sites(sites.shift, sites.precision)
        whole = masked(own, _row_weights(rows)[:, None])
        mean, cov, proper = whole.cavity(mean[:, None], cov[:, None], 1.0)
        eye = jnp.eye(cov.shape[-1], dtype=cov.dtype)
        residual = (projection.residual[:, :, None] * eye)[:, None]
        return Latent(mean + projection.offset[:, None], cov, residual), proper

    def _contrasts(self, rows: Rows, own: Projection) -> tuple[Contrasts, Array, Array]:
        """The auxiliary variables of the rows; prior means and residuals of the contrasts."""
        a = self.power if rows.power is None else rows.power
        observed = rows.y
        common = jnp.sum(observed * own.residual, axis=1)
        left = jnp.asarray((1.0 - a) * common)[:, None]
        offset = own.offset - jnp.sum(observed * own.offset, axis=1, keepdims=True)
        return Contrasts(observed, 1.0 + a * common), offset, own.residual + left


class ClassView(AbstractSiteView[AbstractClassBelief, AbstractClassVariable]):
    """Rows see the functions of all classes, without residual, with one site on all of them."""

    functions: ClassFunctions

    scalar: ClassVar[bool] = False

    def empty_sites(self, rows: Rows) -> AbstractSites:
        zero = jnp.zeros((rows.y.shape[0], 1, self.functions.classes), rows.y.dtype)
        return ClassSites(zero, zero)

    def presence(self, rows: Rows) -> Array:
        return rows.site_presence

    def marginal(
        self, belief: AbstractClassBelief, rows: Rows, sites: AbstractSites | None = None
    ) -> Marginal:
        mean, cov = belief.functions(self.functions(rows.x))
        return self.at((mean[:, None], cov[:, None]), rows)

    def at(self, moments: Moments, rows: Rows) -> Marginal:
        residual = jnp.zeros((rows.x.shape[0], 1, 1, 1), rows.x.dtype)
        return Marginal(*moments, self.functions(rows.x).offset[:, None], residual)

    def messages(
        self, variable: AbstractClassVariable, rows: Rows, sites: AbstractSites
    ) -> Messages:
        shift, weights = sites.shift[:, 0], sites.precision[:, 0]
        # weight on one class alone carries no information: such are the rows without a site
        first = jnp.arange(weights.shape[1]) == 0
        empty = jnp.sum(weights, axis=1, keepdims=True) <= 0.0
        zero = jnp.zeros(rows.y.shape[0], rows.y.dtype)
        weights = jnp.where(empty, first, weights)
        return variable.messages_from_classes(shift, weights, zero, self.functions(rows.x))

    def without_site(
        self, belief: AbstractClassBelief, rows: Rows, sites: AbstractSites
    ) -> tuple[Latent, Array]:
        marginal = self.marginal(belief, rows)
        whole = BlockSites(sites.shift, class_precision(sites.precision))
        mean, cov, proper = whole.cavity(*marginal.moments, 1.0)
        return marginal.latent(mean, cov), proper


def class_graph(model: AbstractGP, rows: Rows, settings: GraphSettings) -> Graph:
    """A model of several classes laid out as one variable of all their functions.

    Args:
        model: a `GP` with a likelihood of classes.
        rows: padded data, with labels as outputs.
        settings: how it is laid out.
    """
    power, approximation, jitter, chunk = settings[:4]
    classes = model.likelihood.latents
    functions = class_functions(model, jitter)
    term = approximation.term(model.likelihood, exact=model.functionals is None)
    if model.functionals is None:
        kernels = model.covariances
        prior = [jittered(k.cross(rows.x, rows.x), jitter, k.diag(rows.x)) for k in kernels]
        variable: AbstractClassVariable = CoupledClassValues(jnp.stack(prior), classes)
        chunk = rows.x.shape[0]
    else:
        variable = CoupledClassInducing(model.functionals.size, classes)
    view: AbstractView = ClassView(functions)
    if approximation.evaluation_point is not EvaluationPoint.MODE:
        view, rows = ContrastView(functions, power), _contrasted(rows, classes)
    factor = LocalFactor(
        edges=(Edge(0, view),),
        rows=rows,
        chunk=chunk,
        term=term,
        power=power,
        evaluation_point=approximation.evaluation_point,
    )
    return Graph((variable,), factors=(factor,))


def class_functions(model: AbstractGP, jitter: float | Scalar) -> ClassFunctions:
    """The functions of all classes before any data."""
    outputs = tuple(OutputMean(mean, 1) for mean in model.means)
    views: tuple[InducingView, ...] = ()
    functionals = model.functionals
    if functionals is not None:
        views = tuple(
            inducing_view(kernel, functionals, outputs[0], jitter) for kernel in model.covariances
        )
    return ClassFunctions(views, outputs, model.likelihood.latents)


def _contrasted(rows: Rows, classes: int) -> Rows:
    """Rows with one output per class: 1 for the one seen, which is absent, 0 for the others."""
    seen = (rows.y == jnp.arange(classes)).astype(rows.y.dtype)
    return Rows(rows.x, seen, rows.presence * (1.0 - seen), rows.side, rows.power)


def _row_weights(rows: Rows) -> Float[Array, " N"]:
    return jnp.max(rows.site_presence, axis=1)


@inducing_views.register(ContrastView)
@inducing_views.register(ClassView)
def _(view: ContrastView | ClassView) -> tuple[InducingView, ...]:
    return view.functions.views


class FullClasses(AbstractProcess):
    """The posterior of dependent functions of all classes in a full GP."""

    kernels: tuple[AbstractKernel, ...]
    functions: ClassFunctions
    inputs: Float[Array, "N D"]
    belief: CoupledClassValuesBelief

    @property
    def size(self) -> int:
        return self.inputs.shape[0]

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n C"], Float[Array, "n C C"]]:
        offset = self.functions(X).offset
        crosses = [k.cross(self.inputs, X) for k in self.kernels]
        priors = [k.diag(X) for k in self.kernels]
        means, own, half = [], [], []
        for i in range(self.functions.classes):
            cross, prior = crosses[min(i, len(crosses) - 1)], priors[min(i, len(priors) - 1)]
            Bk = self.belief.blocks[i] @ cross
            means.append(cross.T @ self.belief.weights[i])
            own.append(remainder(prior, jnp.sum(cross * Bk, axis=0), self.size))
            half.append(self.belief.root @ Bk)
        halves, owns = jnp.stack(half), jnp.stack(own, axis=1)
        cov = jnp.einsum("kmn,lmn->nkl", halves, halves)
        eye = jnp.eye(self.functions.classes, dtype=cov.dtype)
        return jnp.stack(means, axis=1) + offset, cov + owns[:, :, None] * eye

    def covariance(self, X: Float[Array, "n D"]) -> Float[Array, "C n C n"]:
        classes = self.functions.classes
        halves, own = [], []
        for i in range(classes):
            kernel = self.kernels[min(i, len(self.kernels) - 1)]
            cross = kernel.cross(self.inputs, X)
            Bk = self.belief.blocks[i] @ cross
            own.append(jittered(kernel.cross(X, X), 0.0, kernel.diag(X)) - cross.T @ Bk)
            halves.append(self.belief.root @ Bk)
        half = jnp.stack(halves)
        cov = jnp.einsum("kmi,lmj->kilj", half, half)
        index = jnp.arange(classes)
        return cov.at[index, :, index, :].add(jnp.stack(own))


class SparseClasses(AbstractProcess):
    """The posterior of dependent functions of all classes through their inducing variables."""

    functions: ClassFunctions
    belief: CoupledClassInducingBelief

    @property
    def size(self) -> int:
        return self.belief.mean.shape[1] * self.functions.classes

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n C"], Float[Array, "n C C"]]:
        projection = self.functions(X)
        mean, cov = self.belief.functions(projection)
        eye = jnp.eye(self.functions.classes, dtype=cov.dtype)
        return mean + projection.offset, cov + projection.residual[:, :, None] * eye

    def covariance(self, X: Float[Array, "n D"]) -> Float[Array, "C n C n"]:
        classes, views = self.functions.classes, self.functions.views
        loadings = self.functions(X).loadings
        assert loadings is not None
        A = jnp.broadcast_to(loadings, (classes, *loadings.shape[1:]))
        cov = jnp.einsum("kmi,kmlp,lpj->kilj", A, self.belief.covariance, A)
        left = [v.prior_covariance(X) - a.T @ a for v, a in zip(views, loadings, strict=True)]
        rest = jnp.broadcast_to(jnp.stack(left), (classes, *left[0].shape))
        index = jnp.arange(classes)
        return cov.at[index, :, index, :].add(rest)


def class_process(
    model: AbstractGP, view: AbstractView, belief: AbstractBelief, rows: Rows
) -> FullClasses | SparseClasses:
    """The posterior process of the functions of all classes.

    Args:
        model: the model.
        view: how the data rows saw the functions.
        belief: the posterior of the variable.
        rows: the data.
    """
    functions = cast(ContrastView | ClassView, view).functions
    if model.functionals is None:
        values = cast(CoupledClassValuesBelief, belief)
        return FullClasses(model.covariances, functions, rows.x, values)
    return SparseClasses(functions, cast(CoupledClassInducingBelief, belief))
