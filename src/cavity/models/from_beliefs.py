"""Posteriors of whole models, from what inference found at the data."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.graph.rows import Rows
from cavity.inference.variables.coupled_classes import (
    CoupledClassInducingBelief,
    CoupledClassValuesBelief,
)
from cavity.inference.variables.function_values import FunctionValuesBelief
from cavity.inference.variables.inducing import InducingBelief
from cavity.likelihoods.capabilities import number_of_classes
from cavity.models.base import AbstractGP
from cavity.models.coupled_classes import FullClasses, SparseClasses, class_moments
from cavity.models.posterior import (
    AbstractPosterior,
    FullPosterior,
    LatentsPosterior,
    Marginals,
    SparsePosterior,
)
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float, PRNGKeyArray


class ClassesPosterior(AbstractPosterior):
    """Posterior of the functions of several classes that the data made dependent.

    Attributes:
        functions: their moments, from inputs to means and covariances between classes.
    """

    model: AbstractGP
    functions: FullClasses | SparseClasses
    n_inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    side: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def size(self) -> int:
        return self.functions.size

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Float[Array, "n P"]]:
        mean, cov = self.functions(X)
        return mean, jnp.diagonal(cov, axis1=1, axis2=2)

    def covariance(self, X: Float[Array, "n D"]) -> Float[Array, "P n n"]:
        cov = self.functions.covariance(X)
        index = jnp.arange(cov.shape[0])
        return cov[index, :, index, :]

    def _about_mean(self, X: Array, shape: tuple[int, ...], key: PRNGKeyArray) -> Array:
        root = _class_root(self, X)
        noise = jax.random.normal(key, (shape[0], root.shape[0]), root.dtype)
        draws = (noise @ root.T).reshape(shape[0], -1, shape[1])
        return jnp.swapaxes(draws, 1, 2)

    def _for_likelihood(self, X: Any) -> Marginals:
        return Marginals(*self._in_chunks(_class_moments, self._inputs(X)))


@compiled
def _class_root(posterior: ClassesPosterior, X: Array) -> Float[Array, "F F"]:
    """A root of the covariance of the functions of all classes at all rows, class by class."""
    size = posterior.outputs * X.shape[0]
    values, vectors = jnp.linalg.eigh(posterior.functions.covariance(X).reshape(size, size))
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))


@compiled
def _class_moments(posterior: ClassesPosterior, X: Array) -> tuple[Array, Array]:
    return posterior.functions(X)


def posterior_of(
    model: AbstractGP,
    views: tuple[Any, ...],
    beliefs: tuple[Any, ...],
    rows: Rows,
    *,
    single: bool,
) -> AbstractPosterior:
    """The posterior process of a model, from what inference found at the data.

    Args:
        model: the model.
        views: how the data rows saw the variable of each latent function.
        beliefs: the variables' posteriors.
        rows: the data.
        single: whether outputs were given as a vector.
    """
    shape = {
        "n_inputs": rows.x.shape[-1],
        "outputs": rows.y.shape[-1],
        "single": single,
        "side": tuple(sorted(rows.side)),
    }
    if isinstance(beliefs[0], CoupledClassValuesBelief | CoupledClassInducingBelief):
        functions = class_moments(model, views[0], beliefs[0], rows)
        shape |= {"outputs": number_of_classes(model.likelihood), "single": False}
        return ClassesPosterior(model=model, functions=functions, **shape)
    parts = tuple(
        _part(latent, view, belief, rows, shape)
        for latent, view, belief in zip(model.latents, views, beliefs, strict=True)
    )
    if len(parts) == 1:
        return parts[0]
    shape |= {"outputs": len(parts), "single": False}
    return LatentsPosterior(model=model, parts=parts, **shape)


def _part(
    model: AbstractGP,
    view: Any,
    belief: InducingBelief | FunctionValuesBelief,
    rows: Rows,
    shape: dict[str, Any],
) -> AbstractPosterior:
    """The posterior of one latent function."""
    if isinstance(belief, InducingBelief):
        return SparsePosterior(model=model, view=view, belief=belief, **shape)
    return FullPosterior(
        model=model,
        inputs=rows.x,
        weights=belief.weights,
        root=belief.root,
        raised=belief.raised,
        **shape,
    )
