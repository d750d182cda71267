"""Covariances of the posterior between the rows of two tables."""

import functools

import jax.numpy as jnp

from cavity.models.posterior import Posterior
from cavity.models.process import (
    AbstractProcess,
    FullProcess,
    IndependentProcess,
    SparseProcess,
    rows_of,
)
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float


@compiled
def covariance_across_rows(posterior: Posterior, X: Array, Z: Array) -> Array:
    """Covariances of f between rows of X and of Z, (P, n, m), or (P, n, P, m)."""
    return covariance_across(posterior.process, X, Z)


@functools.singledispatch
def covariance_across(
    process: AbstractProcess, X: Float[Array, "n D"], Z: Float[Array, "m D"]
) -> Array:
    """Covariances between the rows of X and those of Z.

    Of independent functions (P, n, m), of dependent ones (P, n, P, m).
    """
    joint, n = process.covariance(jnp.concatenate([X, Z])), X.shape[0]
    return joint[:, :n, n:] if joint.ndim == 3 else joint[:, :n, :, n:]


@covariance_across.register
def _(
    process: SparseProcess, X: Float[Array, "n D"], Z: Float[Array, "m D"]
) -> Float[Array, "P n m"]:
    view, root = process.view, process.belief.root
    a, b = (view.project(rows_of(x, view.mean)).loadings for x in (X, Z))
    assert a is not None
    assert b is not None
    own = jnp.swapaxes(root @ a, -1, -2) @ (root @ b)
    cov = view.kernel.cross(X, Z) - a.T @ b + own
    return jnp.broadcast_to(cov, (view.mean.outputs, *cov.shape[1:]))


@covariance_across.register
def _(
    process: FullProcess, X: Float[Array, "n D"], Z: Float[Array, "m D"]
) -> Float[Array, "P n m"]:
    return process.covariance_across(X, Z)


@covariance_across.register
def _(
    process: IndependentProcess, X: Float[Array, "n D"], Z: Float[Array, "m D"]
) -> Float[Array, "P n m"]:
    return jnp.concatenate([covariance_across(f, X, Z) for f in process.functions])
