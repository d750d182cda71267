"""Posteriors for predictions alone: what they need, and nothing else."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.graph.rows import SLOPES
from cavity.models.posterior import AbstractPosterior, Posterior
from cavity.models.process import AbstractProcess, FullProcess, IndependentProcess, SparseProcess
from cavity.numerics.types import Array, Float


def compressed(posterior: AbstractPosterior) -> Posterior:
    r"""The posterior of a GP for predictions alone, in as few numbers as there are.

    A sparse posterior keeps its inducing variables, the weights $\boldsymbol\alpha =
    \mathbf K_{uu}^{-1} \mathbf m$ of the mean (`process.weights`) and a root of
    $\mathbf K_{uu}^{-1} (\mathbf K_{uu} - \boldsymbol\Sigma) \mathbf K_{uu}^{-1}$: with M
    variables of one output that are combinations of C points in D columns, $M + M^2 + M C (D + 1)$
    numbers beside the parameters of kernel, mean and likelihood; points are C = 1, and have no
    weights. `posterior.numbers` counts them. Predictions equal those of the posterior up to
    rounding, and take two products for each block of rows. `cavity.fitting.save_module` keeps it
    like any other.

    The model in it has no inducing variables any more, so it is for predictions, not for going on
    with learning. A full GP needs all it has, and is returned as it is.

    Args:
        posterior: of a `GP`, as `cavity.fit` and `cavity.infer` give it.

    Raises:
        TypeError: for posteriors of other kinds: layers, states, draws, and classes whose
            functions depend on each other.

    References:
        van der Wilk (2018), item 58.
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(
            f"compressed() is for posteriors of cavity.GP, given {type(posterior).__name__}"
        )
    process = _compressed(posterior.process)
    model = eqx.tree_at(lambda m: m.inducing, posterior.model, None, is_leaf=lambda x: x is None)
    return dataclasses.replace(posterior, model=model, process=process)


def is_compressed(posterior: AbstractPosterior) -> bool:
    """True for a posterior that serves predictions alone: functionals, without slopes."""
    inputs = getattr(getattr(posterior, "process", None), "inputs", None)
    return inputs is not None and np.ndim(inputs) == 0 and SLOPES not in posterior.side


@functools.singledispatch
def _compressed(process: AbstractProcess) -> AbstractProcess:
    raise TypeError(
        f"compressed() is for independent functions of a cavity.GP, given {type(process).__name__}"
    )


@_compressed.register
def _(process: FullProcess) -> FullProcess:
    return process


@_compressed.register
def _(process: IndependentProcess) -> IndependentProcess:
    return IndependentProcess(tuple(_compressed(function) for function in process.functions))


@_compressed.register
def _(process: SparseProcess) -> FullProcess:
    view, belief = process.view, process.belief
    size = view.root.shape[0]
    weights = (belief.mean.reshape(-1, size) @ view.root).T
    # Kuu⁻¹ (Kuu - Σ) Kuu⁻¹ = Rᵀ (I - B⁻¹) R, negative where data raise a variance
    told = jnp.eye(size) - jnp.swapaxes(belief.root, -1, -2) @ belief.root
    values, vectors = jnp.linalg.eigh(told)
    raised = None
    if bool(jnp.any(values < -1e-9)):
        raised = jax.vmap(_half, (0, 0, None))(-values, vectors, view.root)
    root = jax.vmap(_half, (0, 0, None))(values, vectors, view.root)
    return FullProcess(view.kernel, view.mean, view.inducing, weights, root, raised)


def _half(
    values: Float[Array, " M"], vectors: Float[Array, "M M"], root: Float[Array, "M M"]
) -> Float[Array, "M M"]:
    """The lower triangle T with TᵀT = Rᵀ V max(λ, 0) Vᵀ R."""
    half = jnp.sqrt(jnp.maximum(values, 0.0))[:, None] * (vectors.T @ root)
    # of the columns in reverse order the triangle is an upper one
    return jnp.linalg.qr(half[:, ::-1], mode="r")[::-1, ::-1]
