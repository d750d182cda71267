r"""Components of a function whose kernel is a sum.

$f = \sum_i f_i$ with independent $f_i \sim \mathcal{GP}(0, k_i)$ and a mean function. Given the
data these are Gaussian as f is, with the cross-covariance $k_i(\mathbf x, \cdot)$ to all that is
known of f in the place of $k(\mathbf x, \cdot)$.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inducing.base import Points
from cavity.inference.variables.inducing_view import OutputMean
from cavity.kernels import text
from cavity.kernels.base import AbstractKernel, Active, Scaled, Sum
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.results.result import Inference, posterior_of
from cavity.likelihoods.support import Support
from cavity.means import AbstractMean
from cavity.models.mean_function import only_of
from cavity.models.posterior import AbstractPosterior, Posterior
from cavity.models.process import AbstractProcess, variances
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float
from cavity.numerics.validation import check_columns, check_finite, float_array

# Rows whose covariances are held at a time.
ROWS = 4096


class KernelComponents(NamedTuple):
    """The posterior of every component of a function.

    Attributes:
        names: of the components, as kernels are written.
        kernels: their kernels.
        mean: posterior means, (C, n), or (C, n, P) of several outputs; with `offset` they add up
            to that of the function.
        var: posterior variances, of the same shape. They do not add up, because components
            depend on each other given the data.
        offset: the prior mean, (n,) or (n, P).
    """

    names: tuple[str, ...]
    kernels: tuple[AbstractKernel, ...]
    mean: np.ndarray
    var: np.ndarray
    offset: np.ndarray


@functools.singledispatch
def summands(kernel: AbstractKernel) -> list[AbstractKernel]:
    """The kernels of which a kernel is the sum, in order; itself where it is none.

    Factors and choices of columns around a sum are those of each summand.

    Args:
        kernel: any.
    """
    return [kernel]


@summands.register
def _(kernel: Sum) -> list[AbstractKernel]:
    return [*summands(kernel.first), *summands(kernel.second)]


@summands.register
def _(kernel: Scaled) -> list[AbstractKernel]:
    inner = summands(kernel.kernel)
    return [Scaled(each, kernel.factor) for each in inner] if len(inner) > 1 else [kernel]


@summands.register
def _(kernel: Active) -> list[AbstractKernel]:
    inner = summands(kernel.kernel)
    return [Active(each, kernel.dims) for each in inner] if len(inner) > 1 else [kernel]


@with_one_blas_thread
def kernel_components(
    posterior: AbstractPosterior | Inference,
    X: ArrayLike,
    names: Sequence[str] | None = None,
) -> KernelComponents:
    """The posterior of each component of a function whose kernel is a sum.

    Exact given the posterior: of a full GP with Gaussian noise it is the posterior of the
    component, of a sparse one what its inducing points say of the component.

    Args:
        posterior: of a Gaussian process, full or with inducing points; or the result that it is
            of. Of several latent functions the first is looked at, of classes all.
        X: inputs, (n, D).
        names: of the columns, for the names of components.

    Raises:
        ValueError: for kernels that are no sum, other posteriors, and inputs that do not suit.

    References:
        Duvenaud (2014), section 2.4.5.
    """
    function = _function(posterior_of(posterior))
    model: Any = function.model
    mean = _first(model.mean)
    parts, called = _parts(model, names)
    inputs = float_array("X", X)
    check_columns("X", inputs, function.n_inputs)
    check_finite("X", inputs)
    inputs = np.asarray(inputs)
    if mean.covariance is not None:
        parts, called = [*parts, mean.covariance], [*called, "linear mean"]
    process, found = function.process, []
    for part in parts:
        try:
            own = only_of(process, part)
        except TypeError:
            raise ValueError(
                "components are of one Gaussian process, and the posterior of this model is a "
                f"{type(process).__name__}"
            ) from None
        found.append(_in_parts(own, mean, inputs))
    values, spreads, offsets = (np.stack(each) for each in zip(*found, strict=True))
    shaped = (a[..., 0] if function.vector else a for a in (values, spreads, offsets[0]))
    return KernelComponents(tuple(called), tuple(parts), *shaped)


@functools.singledispatch
def _function(posterior: AbstractPosterior) -> Posterior:
    """The posterior of the function itself; of classes, of all functions.

    Raises:
        ValueError: for what is no Gaussian process with one posterior.
    """
    raise _not_a_process(posterior)


@_function.register
def _(posterior: Posterior) -> Posterior:
    if not posterior.model.input_kernels:
        raise _not_a_process(posterior)
    labels = posterior.model.likelihood.support is Support.LABELS
    return posterior if labels else posterior.of_function(0)


def _not_a_process(posterior: AbstractPosterior) -> ValueError:
    return ValueError(
        "components are of one Gaussian process whose kernel is a sum, such as 'rbf + linear'; "
        f"this is a {type(posterior.model).__name__} with a {type(posterior).__name__}"
    )


def _parts(model: Any, names: Sequence[str] | None) -> tuple[list[AbstractKernel], list[str]]:
    """The kernels of the components, and their names.

    Raises:
        ValueError: for kernels that are no sum, and inducing variables that are no points.
    """
    kernel, inducing = _first(model.kernel), _first(model.inducing)
    parts = summands(kernel)
    if len(parts) < 2:
        raise ValueError(
            "components are of a kernel that is a sum, such as 'rbf + linear', and this one is "
            f"{_name(kernel, names)}"
        )
    if not isinstance(inducing, Points | None):
        raise ValueError(
            "components need a full Gaussian process or inducing points, and these inducing "
            f"variables are {type(inducing).__name__}"
        )
    return parts, [_name(part, names) for part in parts]


def _first(part: Any) -> Any:
    """A part of a model, of the first latent function where each has one."""
    return part[0] if isinstance(part, tuple) else part


def _name(kernel: AbstractKernel, names: Sequence[str] | None) -> str:
    """A kernel as it is written, without its values; by its class where it has no text."""
    try:
        return text(kernel, names, values=False)
    except ValueError:
        return type(kernel).__name__


def _in_parts(
    process: AbstractProcess, mean: AbstractMean, X: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and variances of a component, (n, P), and the prior mean."""
    starts = range(0, max(len(X), 1), ROWS)
    parts = [_moments(process, mean, jnp.asarray(X[i : i + ROWS])) for i in starts]
    value, var, offset = (
        np.concatenate([np.asarray(part) for part in each]) for each in zip(*parts, strict=True)
    )
    return value, var, offset


@compiled
def _moments(
    process: AbstractProcess, mean: AbstractMean, X: Float[Array, "n D"]
) -> tuple[Array, Array, Array]:
    value, spread = process.moments(X)
    offset = OutputMean(mean, value.shape[1])(X)
    return value - offset, variances(spread), offset
