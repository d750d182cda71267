"""Messages and log scale of the rows of a sparse GP, recovered from its posterior."""

import dataclasses
import functools
import itertools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from cavity.inducing.base import Points
from cavity.inference.factors.tied import TiedSite, tied_site
from cavity.inference.graph.base import AbstractVariable, Messages
from cavity.inference.past import Past, PastFunction, log_evidence_of
from cavity.inference.variables.coupled_classes import (
    CoupledClassInducing,
    CoupledClassInducingBelief,
)
from cavity.inference.variables.inducing import InducingBelief, WhitenedInducing
from cavity.inference.variables.inducing_view import InducingView, inducing_view
from cavity.models.coupled_classes import FullClasses, SparseClasses
from cavity.models.posterior import AbstractPosterior, Posterior
from cavity.models.process import AbstractProcess, FullProcess, IndependentProcess, SparseProcess
from cavity.numerics.linalg import cholesky_and_inverse
from cavity.numerics.power_limits import Power
from cavity.numerics.types import Array, Float, Scalar


class Remembered(NamedTuple):
    """The messages to one variable.

    Attributes:
        functions: what they are about.
        variable: the variable.
        messages: the messages, without the scales that are no functions of the variable.
    """

    functions: tuple[PastFunction, ...]
    variable: AbstractVariable
    messages: Messages


def posterior_past(
    posterior: AbstractPosterior, log_evidence: float | Scalar, power: Power
) -> Past:
    r"""Messages of the rows of a posterior, which is the prior times these.

    With a precision $\mathbf B$ of whitened variables about the mean $\mathbf m$ they are
    $\mathbf P = \mathbf B - \mathbf I$, $\mathbf h = \mathbf B \mathbf m$, and a scale that makes
    the evidence what it was.

    Args:
        posterior: of a sparse `GP`.
        log_evidence: of its rows, in nats.
        power: the power of the past as a row.

    Raises:
        TypeError: for posteriors whose messages grow with the rows.
    """
    each = _remembered(posterior.process)  # type: ignore[attr-defined]
    told = tuple(messages for _, _, messages in each)
    past = Past(tuple(functions for functions, _, _ in each), told, power)
    return past.with_log_scale(log_evidence - log_evidence_of([v for _, v, _ in each], told))


def costs_of_removal(posterior: AbstractPosterior) -> np.ndarray:
    r"""Loss of evidence of all rows if an inducing variable is removed, for each, in nats.

    Without variable j the others leave it its conditional variance $1 / (K^{-1})_{jj}$, at which
    the past loses $\tfrac12 \operatorname{tr} \mathbf P \mathbf D$ at power 0: half the precision
    that rows gave it, times that variance.

    Returns:
        Costs, (M,); sums over outputs and functions that share the variables.

    References:
        Csato and Opper (2002), section 3.3, whose scores are those of the mean alone.
    """
    costs = np.zeros(())
    for functions, _, messages in _remembered(posterior.process):  # type: ignore[attr-defined]
        told = np.asarray(messages.precision)
        if told.ndim == 4:  # of dependent classes, each with its own block
            told = np.einsum("caci->cai", told)
        roots = [np.asarray(function.root) for function in functions]
        for block, root in zip(told, itertools.cycle(roots), strict=False):
            precision = np.sum(root * (block @ root), axis=0)
            costs = costs + 0.5 * precision / np.sum(root**2, axis=0)
    return costs


@functools.singledispatch
def tied_sites_of(process: AbstractProcess) -> tuple[TiedSite, ...]:
    """Tied sites that make the beliefs of a process, one for each of its variables.

    Of dependent classes they make the marginals.

    Args:
        process: of a sparse `GP`.

    Raises:
        TypeError: for other processes.
    """
    raise TypeError(f"{type(process).__name__} has no beliefs of its own for each function")


@tied_sites_of.register
def _(process: SparseProcess) -> tuple[TiedSite, ...]:
    mean, cov = process.belief.dense()
    return (tied_site(mean, cov),)


@tied_sites_of.register
def _(process: IndependentProcess) -> tuple[TiedSite, ...]:
    return tuple(site for function in process.functions for site in tied_sites_of(function))


@tied_sites_of.register
def _(process: SparseClasses) -> tuple[TiedSite, ...]:
    belief: CoupledClassInducingBelief = process.belief
    own = jnp.einsum("cacb->cab", belief.covariance)
    pairs = zip(belief.mean, own, strict=True)
    return tuple(tied_site(mean[None], cov[None]) for mean, cov in pairs)


@functools.singledispatch
def grows_with_rows(process: AbstractProcess) -> bool:
    """True if a process stores something for every row, as that of a full GP does."""
    return True


@grows_with_rows.register(SparseProcess)
@grows_with_rows.register(SparseClasses)
def _(process: SparseProcess | SparseClasses) -> bool:
    return False


@grows_with_rows.register
def _(process: IndependentProcess) -> bool:
    return any(grows_with_rows(function) for function in process.functions)


@functools.singledispatch
def _remembered(process: AbstractProcess) -> list[Remembered]:
    raise TypeError(f"{type(process).__name__} does not hold all that its rows said")


@_remembered.register
def _(process: SparseProcess) -> list[Remembered]:
    belief: InducingBelief = process.belief
    P, h = _told(belief.root, belief.mean)
    variable = WhitenedInducing(process.view.root.shape[0])
    return [Remembered((function_of_view(process.view),), variable, Messages(h, P, jnp.zeros(())))]


@_remembered.register
def _(process: IndependentProcess) -> list[Remembered]:
    return [each for function in process.functions for each in _remembered(function)]


@_remembered.register
def _(process: SparseClasses) -> list[Remembered]:
    belief: CoupledClassInducingBelief = process.belief
    shape, size = belief.covariance.shape, belief.mean.size
    _, root = cholesky_and_inverse(belief.covariance.reshape(size, size))
    B = root.T @ root
    P = (B - jnp.eye(size, dtype=B.dtype)).reshape(shape)
    h = (B @ belief.mean.reshape(-1)).reshape(belief.mean.shape)
    functions = tuple(function_of_view(view) for view in process.functions.views)
    variable = CoupledClassInducing(shape[1], shape[0])
    return [Remembered(functions, variable, Messages(h, P, jnp.zeros(())))]


def with_points_at_rows(posterior: Posterior, jitter: float) -> Posterior:
    """The posterior of a full GP, written as that of a sparse GP with inducing points at its rows.

    Args:
        posterior: of a full GP.
        jitter: share of the mean prior variance added to the diagonal of a covariance.

    Raises:
        TypeError: for other posteriors.
    """
    process = _with_points(posterior.process, jitter)
    points = _remembered(process)[0].functions[0].inducing
    model = eqx.tree_at(lambda m: m.inducing, posterior.model, points, is_leaf=lambda x: x is None)
    return dataclasses.replace(posterior, model=model, process=process)


@functools.singledispatch
def _with_points(process: AbstractProcess, jitter: float) -> AbstractProcess:
    raise TypeError(f"{type(process).__name__} is not that of a full GP")


@_with_points.register
def _(process: IndependentProcess, jitter: float) -> AbstractProcess:
    return IndependentProcess(tuple(_with_points(f, jitter) for f in process.functions))


@_with_points.register
def _(process: FullClasses, jitter: float) -> AbstractProcess:
    functions, points = process.functions, Points(process.inputs)
    views = tuple(
        inducing_view(kernel, points, functions.means[0], jitter) for kernel in process.kernels
    )
    classes, size = functions.classes, len(process.inputs)
    own = [views[min(i, len(views) - 1)] for i in range(classes)]
    whiten = jax.scipy.linalg.block_diag(*(view.root for view in own))
    # inducing variables have the jitter's noise, about which rows say nothing
    noise = [jitter * jnp.mean(view.kernel.diag(process.inputs)) for view in own]
    mean, cov = process.belief.dense()
    spread = jnp.diag(jnp.repeat(jnp.stack(noise), size))
    moments = (whiten @ mean[0]).reshape(classes, size), whiten @ (cov[0] + spread) @ whiten.T
    shape = (classes, size, classes, size)
    belief = CoupledClassInducingBelief(moments[0], moments[1].reshape(shape), jnp.zeros(()))
    return SparseClasses(dataclasses.replace(functions, views=views), belief)


@_with_points.register
def _(process: FullProcess, jitter: float) -> AbstractProcess:
    view = inducing_view(process.kernel, Points(process.inputs), process.mean, jitter)
    half = process.root @ view.factor
    cov = jnp.eye(half.shape[-1]) - jnp.swapaxes(half, -1, -2) @ half
    if process.raised is not None:
        more = process.raised @ view.factor
        cov = cov + jnp.swapaxes(more, -1, -2) @ more
    # inverses of the factors of I + P, from its inverse
    precision = jax.vmap(lambda c: cholesky_and_inverse(c)[1])(cov)
    B = jnp.swapaxes(precision, -1, -2) @ precision
    root = jax.vmap(lambda b: cholesky_and_inverse(b)[1])(B)
    mean = (process.weights.T @ view.factor).reshape(len(root), -1, root.shape[-1])
    return SparseProcess(view, InducingBelief(mean, root, jnp.zeros(())))


def function_of_view(view: InducingView) -> PastFunction:
    """The function of a view, in the form in which later updates refer to it."""
    return PastFunction(view.inducing, view.mean, view.root)


def _told(
    root: Float[Array, "G M M"], mean: Float[Array, "G R M"]
) -> tuple[Float[Array, "G M M"], Float[Array, "G R M"]]:
    """The messages that make these moments of a standard normal prior."""
    eye = jnp.broadcast_to(jnp.eye(root.shape[-1], dtype=root.dtype), root.shape)
    factor = solve_triangular(root, eye, lower=True)
    B = factor @ jnp.swapaxes(factor, -1, -2)
    return B - eye, mean @ B
