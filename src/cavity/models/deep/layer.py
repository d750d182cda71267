"""A layer of functions with Gaussian process priors, and the process that it becomes."""

import dataclasses
import typing
from collections.abc import Callable, Sequence
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import AbstractInducing, input_columns, inputs_of
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inducing_view import InducingView, OutputMean, inducing_view
from cavity.kernels.base import AbstractKernel
from cavity.kernels.expectations import GaussianInputs
from cavity.likelihoods.capabilities import capability
from cavity.means import AbstractMean, Zero
from cavity.models.process import (
    AbstractProcess,
    IndependentProcess,
    SparseProcess,
    TakesGaussianInputs,
)
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float, Scalar
from cavity.parameters import positive
from cavity.parameters.table import Tabled

# Deviations below this share of a column's magnitude are rounding.
CONSTANT = 1e-10


class Layer(Tabled, eqx.Module):
    r"""Functions of one layer of a deep Gaussian process.

    $f_w \sim \mathcal{GP}(m_w, k_w)$ for w up to the width; outputs are
    $h_w = f_w(\mathbf x) + \epsilon$.

    Args:
        kernel: covariance function of all functions; or a tuple, one per function.
        inducing: inducing variables of all functions; or a tuple, one per function.
        width: the number of functions.
        mean: prior mean function, with one column for all functions or one per function; None for
            zero.
        noise_variance: variance of $\epsilon$, in squared units of h, one for all functions or one
            for each; None for none. The last layer of a deep GP has none, because its noise is
            the likelihood's.
        skip_connection: whether the layer takes the inputs of the model beside the outputs of the
            layer below, as the columns after them.
        sizes: with tuples, the number of functions that share each of their entries; None for one.

    Raises:
        TypeError: for parts that are not what they should be.
        ValueError: for tuples that do not have one entry per function or size.

    References:
        Bui (2017), S53; Duvenaud et al. (2014) for skip connections.
    """

    kernel: AbstractKernel | tuple[AbstractKernel, ...]
    inducing: AbstractInducing | tuple[AbstractInducing, ...]
    mean: AbstractMean
    width: int = eqx.field(static=True)
    skip_connection: bool = eqx.field(static=True)
    noise_variance: Float[Array, "..."] | None = positive(optional=True)
    sizes: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def __init__(
        self,
        kernel: AbstractKernel | Sequence[AbstractKernel],
        inducing: AbstractInducing | Sequence[AbstractInducing],
        width: int = 1,
        mean: AbstractMean | None = None,
        noise_variance: Any = None,
        *,
        skip_connection: bool = False,
        sizes: Sequence[int] | None = None,
    ):
        if not isinstance(width, int | np.integer) or isinstance(width, bool) or width < 1:
            raise ValueError(f"the width of a layer is a number of functions, given {width!r}")
        self.sizes = None if sizes is None else _checked_sizes(sizes, width)
        count = None if self.sizes is None else len(self.sizes)
        self.kernel = _function_parts("kernel", kernel, AbstractKernel, width, count)
        self.inducing = _function_parts("inducing", inducing, AbstractInducing, width, count)
        self.mean = Zero() if mean is None else mean
        if not isinstance(self.mean, AbstractMean):
            raise TypeError(f"mean of a layer must be a mean function, given {mean!r}")
        if self.mean.covariance is not None:
            raise ValueError(
                f"weights of the mean of a layer are parameters, given {type(mean).__name__}: "
                "give means.Linear"
            )
        if noise_variance is not None and np.shape(noise_variance) not in ((), (int(width),)):
            raise ValueError(
                f"the noise variance of a layer of {plural(int(width), 'function')} is one number "
                f"or one per function, given shape {np.shape(noise_variance)}"
            )
        self.noise_variance = noise_variance
        self.width = int(width)
        self.skip_connection = bool(skip_connection)

    @property
    @typing.final
    def groups(self) -> tuple[tuple[AbstractKernel, AbstractInducing, int], ...]:
        """Kernel, inducing variables and number of functions that share them."""
        kernels, inducing = self.kernel, self.inducing
        if not isinstance(kernels, tuple) and not isinstance(inducing, tuple):
            return ((kernels, inducing, self.width),)
        sizes = (1,) * self.width if self.sizes is None else self.sizes
        kernels = kernels if isinstance(kernels, tuple) else (kernels,) * len(sizes)
        inducing = inducing if isinstance(inducing, tuple) else (inducing,) * len(sizes)
        return tuple(zip(kernels, inducing, sizes, strict=True))

    def views(self, jitter: float | Scalar) -> tuple[InducingView, ...]:
        """Views of the whitened inducing variables of each group."""
        return tuple(
            inducing_view(kernel, inducing, OutputMean(Zero(), count), jitter)
            for kernel, inducing, count in self.groups
        )

    def starting_mean(self, view: InducingView, first: int) -> Float[Array, "P M"]:
        """Means of whitened inducing variables that a search starts from, as an inner layer.

        With a prior mean that varies they are zero. Otherwise outputs would all start alike and
        hide the inputs from the layer above: each function starts as a linear function of them.

        Args:
            view: of the functions' inducing variables.
            first: the index of the first function.
        """
        if not self.mean.constant:
            return jnp.zeros((view.mean.outputs, view.inducing.size), view.root.dtype)
        values = spread_directions(inputs_of(view.inducing), self.width)
        values = values[:, first : first + view.mean.outputs].T
        # the diagonal of Kuu, of which L is the factor
        deviation = jnp.sqrt(jnp.mean(jnp.sum(view.factor**2, axis=1)))
        # a covariance that cannot be factorised yet starts from zero, with more jitter to come
        return jnp.nan_to_num(deviation * values @ view.root.T)

    def process(
        self, views: Sequence[InducingView], beliefs: Sequence[InducingBelief]
    ) -> "LayerProcess":
        """The functions of the layer under beliefs about its inducing variables."""
        pairs = zip(views, beliefs, strict=True)
        functions = tuple(SparseProcess(view, belief) for view, belief in pairs)
        return LayerProcess(
            process=functions[0] if len(functions) == 1 else IndependentProcess(functions),
            mean=OutputMean(self.mean, self.width),
            noise_variance=self.noise_variance,
            skip_connection=self.skip_connection,
        )

    def check(self, name: str, columns: int) -> None:
        """Raises ValueError where parts have other numbers of columns than the inputs.

        Args:
            name: of the layer, for messages.
            columns: of its inputs.
        """
        for kernel, inducing, _ in self.groups:
            own = input_columns(inducing)
            if own not in (None, columns):
                raise ValueError(
                    f"the inducing points of {name} have {plural(own, 'column')}, its inputs "
                    f"have {columns}: points have the columns of the inputs"
                )
            _checked(name, kernel.cross, jnp.zeros((1, columns)), jnp.zeros((1, columns)))
        shape = np.shape(_checked(name, self.mean, jnp.zeros((1, columns))))
        if shape[1:] not in ((), (1,), (self.width,)):
            raise ValueError(
                f"the mean of {name} has {plural(shape[1], 'column')}, the layer has "
                f"{plural(self.width, 'function')}: give one column, or one per function"
            )


@typing.runtime_checkable
class HasLayers(typing.Protocol):
    """A deep model."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, from the inputs to the outputs."""
        ...


def layers_of(model: object) -> tuple[Layer, ...]:
    """The layers of a deep model; none of any other."""
    deep = capability(model, HasLayers)
    return () if deep is None else deep.layers


class LayerProcess(eqx.Module):
    """The functions of a layer under a belief: Gaussian at every known input.

    Attributes:
        process: the functions without their prior mean.
        mean: the prior mean.
        noise_variance: variance that is added to every output.
        skip_connection: whether inputs of the model follow the outputs of the layer below.
        latent_inputs: whether latent inputs follow those of the model.
    """

    process: AbstractProcess
    mean: OutputMean
    noise_variance: Float[Array, "..."] | None
    skip_connection: bool = eqx.field(static=True)
    latent_inputs: bool = eqx.field(static=True, default=False)

    @property
    def width(self) -> int:
        """The number of functions."""
        return self.mean.outputs

    def with_inputs(self, values: Float[Array, "n D"], x: Float[Array, "n C"]) -> Array:
        """Inputs of the layer: values of the layer below, and the model's inputs if used."""
        if self.latent_inputs:
            return jnp.concatenate([x, values], axis=1)
        return jnp.concatenate([values, x], axis=1) if self.skip_connection else values

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n W"], Float[Array, "n W"]]:
        """Means and variances of the outputs at known inputs."""
        mean, var = self.process.moments(X)
        if self.noise_variance is not None:
            var = var + self.noise_variance
        return mean + self.mean(X), var

    def beside_latent(self) -> "LayerProcess":
        """The layer where it takes latent inputs too."""
        return dataclasses.replace(self, latent_inputs=True)

    def without_noise(self) -> "LayerProcess":
        """The functions themselves."""
        return dataclasses.replace(self, noise_variance=None)

    def moments_under(
        self, inputs: GaussianInputs
    ) -> tuple[Float[Array, "n W"], Float[Array, "n W"], Float[Array, "n W"]]:
        """Means of the outputs at Gaussian inputs, with a mean that is affine, and variances.

        These are in two parts: at an input, averaged over inputs, and that of the mean.
        """
        functions = cast(TakesGaussianInputs, self.process)
        mean, within, between = functions.moments_under(inputs)
        if self.noise_variance is not None:
            within = within + self.noise_variance
        if not self.mean.mean.constant:
            slopes = jax.vmap(jax.jacfwd(lambda x: self.mean(x[None])[0]))(inputs.mean)
            # Var(wᵀx) + 2 cov(wᵀx, f), by Stein's identity
            both = jnp.swapaxes(slopes, 1, 2) + 2.0 * functions.slopes_under(inputs)
            full = inputs.cov.ndim == 3
            moved = inputs.cov @ both if full else inputs.cov[:, :, None] * both
            between = between + jnp.einsum("nwd,ndw->nw", slopes, moved)
        return mean + self.mean(inputs.mean), within, jnp.maximum(between, 0.0)

    def covariance(self, X: Float[Array, "n D"]) -> Float[Array, "W n n"]:
        """Covariances of the outputs between known inputs."""
        cov = self.process.covariance(X)
        if self.noise_variance is not None:
            eye = jnp.eye(X.shape[0], dtype=X.dtype)
            cov = cov + jnp.reshape(self.noise_variance, (-1, 1, 1)) * eye
        return cov


def spread_directions(
    values: Float[Array, "n D"], width: int, present: Float[Array, "n 1"] | None = None
) -> Float[Array, "n W"]:
    """Linear functions of some columns, as many as a layer is wide, of unit deviation or less.

    They are the columns themselves about their means, and random directions where there are fewer.

    Args:
        values: the columns.
        width: of the layer.
        present: 1 for the rows that means and deviations are of; None for all.
    """
    share = jnp.ones_like(values[:, :1]) if present is None else present
    share = share / jnp.maximum(jnp.sum(share), 1.0)
    away = values - jnp.sum(share * values, axis=0)
    spread, columns = jnp.sqrt(jnp.sum(share * away**2, axis=0)), values.shape[1]
    constant = spread <= CONSTANT * jnp.max(jnp.abs(values), axis=0)
    away = jnp.where(constant, 0.0, away / jnp.where(constant, 1.0, spread))
    directions = np.eye(columns)
    if width > columns:
        random = np.random.default_rng(0).standard_normal((width - columns, columns))
        random /= np.linalg.norm(random, axis=1, keepdims=True)
        directions = np.concatenate([directions, random])
    return away @ directions[:width].T


def _checked(name: str, part: Callable[..., Array], *inputs: Array) -> Array:
    """Evaluate a part of a layer; error messages name the layer."""
    try:
        return part(*inputs)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _checked_sizes(sizes: Sequence[int], width: int) -> tuple[int, ...]:
    """Numbers of functions, which make up the width.

    Raises:
        ValueError: if they do not.
    """
    checked = tuple(int(size) for size in sizes)
    if checked != tuple(sizes) or min(checked, default=0) < 1 or sum(checked) != width:
        raise ValueError(
            f"sizes are numbers of functions that make up the width {width}, given {sizes!r}"
        )
    return checked


def _function_parts(name: str, part: Any, kind: type, width: int, count: int | None) -> Any:
    """One part, or a tuple of one per function or per size, of which there are so many."""
    several = isinstance(part, tuple | list)
    for entry in part if several else (part,):
        if not isinstance(entry, kind):
            raise TypeError(
                f"{name} of a layer must be {kind.__name__[8:].lower()} objects of cavity, given "
                f"{type(entry).__name__}"
            )
    if several and len(part) != (count or width):
        what = "function" if count is None else "entry of sizes"
        raise ValueError(
            f"a layer of {plural(width, 'function')} takes one {name} or one per {what}, given "
            f"{len(part)}"
        )
    return tuple(part) if several else part
