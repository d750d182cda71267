"""Posterior of the weights of a mean function that are integrated out."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.inference.variables.inducing_view import InducingView
from cavity.kernels.base import AbstractKernel
from cavity.means import AbstractMean, BayesianLinear
from cavity.models.base import AbstractModel, each_of
from cavity.models.coupled_classes import FullClasses, SparseClasses
from cavity.models.posterior import AbstractPosterior, Posterior
from cavity.models.process import (
    AbstractProcess,
    FullProcess,
    IndependentProcess,
    MarginalProcess,
    SparseProcess,
    function_covariances,
    functions_of,
)
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array


def found_mean(posterior: Posterior) -> AbstractMean | tuple[AbstractMean, ...]:
    """The mean function of a Gaussian process as the data have it.

    Of `means.BayesianLinear` with the posterior means and standard deviations of weights and
    bias; any other mean as it is in the model.

    Args:
        posterior: of a `GP`.

    Returns:
        The mean, or those of several latent functions. With several outputs or classes its
        weights and their deviations are (D, P), bias and deviation (P,).

    References:
        Rasmussen and Williams (2006), section 2.7, eqs. 2.41 and 2.42.
    """
    model: Any = posterior.model
    if each_of(model.mean) is not model.mean:
        return _found(posterior.process, model.mean, single=posterior.vector)
    functions = functions_of(posterior.process)
    if len(functions) != len(model.mean):
        return model.mean
    pairs = zip(functions, model.mean, strict=True)
    return tuple(_found(function, mean, single=True) for function, mean in pairs)


@functools.singledispatch
def with_found_mean(posterior: AbstractPosterior) -> AbstractModel:
    """The model of a posterior, with its mean function as the data have it."""
    return posterior.model


@with_found_mean.register
def _(posterior: Posterior) -> AbstractModel:
    model = posterior.model
    if getattr(model, "mean", None) is None:
        return model
    return eqx.tree_at(lambda model: model.mean, model, found_mean(posterior))


def _found(process: AbstractProcess, mean: AbstractMean, *, single: bool) -> AbstractMean:
    if not isinstance(mean, BayesianLinear):
        return mean
    found = [np.asarray(part) for part in _weights(process, mean)]
    weights, bias, slopes, height = (
        part[..., 0] if single and part.shape[-1] == 1 else part for part in found
    )
    return BayesianLinear(weights, bias, slopes, height, mean.centre)


@compiled
def _weights(process: AbstractProcess, mean: BayesianLinear) -> tuple[Array, Array, Array, Array]:
    """Means of weights (D, P) and bias (P,), and their deviations."""
    # steps that change the mean as much as its height may: differences then round alike
    steps = mean.bias_deviation / mean.weight_deviations
    origin = jnp.zeros((1, steps.size), steps.dtype)
    places = mean.centre + jnp.concatenate([origin, jnp.diag(steps)])
    of_mean = only_of(process, mean.covariance)
    values, cov = of_mean.moments(places)[0], function_covariances(of_mean.covariance(places))
    variances = jnp.diagonal(cov, axis1=1, axis2=2)  # P x (1 + D)
    slopes = variances[:, 1:] + variances[:, :1] - 2.0 * cov[:, 0, 1:]
    return (
        (values[1:] - values[0]) / steps[:, None],
        values[0],
        jnp.sqrt(jnp.maximum(slopes, 0.0)).T / steps[:, None],
        jnp.sqrt(jnp.maximum(variances[:, 0], 0.0)),
    )


@functools.singledispatch
def only_of(process: AbstractProcess, kernel: AbstractKernel) -> AbstractProcess:
    """The posterior of the part of a function, mean included, that has this covariance.

    Args:
        process: the posterior of a sum of independent functions.
        kernel: the covariance of one of them.

    Raises:
        TypeError: for a process that does not tell its parts.
    """
    raise TypeError(f"{type(process).__name__} does not tell the parts of a function")


@only_of.register(FullProcess)
def _(process: FullProcess, kernel: AbstractKernel) -> FullProcess:
    return dataclasses.replace(process, kernel=kernel)


@only_of.register(SparseProcess)
def _(process: SparseProcess, kernel: AbstractKernel) -> SparseProcess:
    return dataclasses.replace(process, view=_view(process.view, kernel))


@only_of.register(IndependentProcess)
def _(process: IndependentProcess, kernel: AbstractKernel) -> IndependentProcess:
    return IndependentProcess(tuple(only_of(f, kernel) for f in process.functions))


@only_of.register(MarginalProcess)
def _(process: MarginalProcess, kernel: AbstractKernel) -> MarginalProcess:
    return dataclasses.replace(process, process=only_of(process.process, kernel))


@only_of.register(FullClasses)
def _(process: FullClasses, kernel: AbstractKernel) -> FullClasses:
    return dataclasses.replace(process, kernels=(kernel,) * len(process.kernels))


@only_of.register(SparseClasses)
def _(process: SparseClasses, kernel: AbstractKernel) -> SparseClasses:
    views = tuple(_view(view, kernel) for view in process.functions.views)
    functions = dataclasses.replace(process.functions, views=views)
    return dataclasses.replace(process, functions=functions)


def _view(view: InducingView, kernel: AbstractKernel) -> InducingView:
    """A function's part as it is seen through the inducing variables of the whole."""
    return dataclasses.replace(view, kernel=kernel)
