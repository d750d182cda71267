"""Functionals that weigh a function by Gaussian windows, with waves in them or none."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import (
    AbstractInducing,
    Points,
    check_places,
    covariance_from,
    input_columns,
)
from cavity.inducing.gaussian_integral import GaussianWaves, integral, quadrature_functionals
from cavity.kernels.base import AbstractKernel
from cavity.kernels.expectations.terms import Terms, expansion
from cavity.numerics.types import Array, Float
from cavity.parameters import positive, real


class Windows(AbstractInducing):
    r"""Averages over Gaussian windows.

    $$u_m = \int f(\mathbf x) \, \mathcal N(\mathbf x; \boldsymbol\mu_m, \operatorname{diag}
        \boldsymbol\delta_m^2) \, d\mathbf x$$

    Also known as multi-scale inducing features. Narrow windows are inducing points. Covariances
    are closed forms with `RBF` and `SpectralMixture` kernels, constants, their sums, scalings
    and products, on any columns. Other kernels have quadrature of up to three columns: the
    windows are then sums over nodes, so that covariances stay consistent with each other.

    Args:
        centres: $\boldsymbol\mu$ (M, D), in the units of the inputs.
        widths: $\boldsymbol\delta$, standard deviations of the windows, in the units of the
            inputs: one number, one per column (D,), one per window (M, 1), or (M, D). All are
            learned.

    Raises:
        ValueError: for shapes that do not fit, and widths that are not positive.

    References:
        van der Wilk (2018), item 50; Walder, Kim and Schoelkopf (2008).
    """

    centres: Float[Array, "M D"] = real(input=1, location=True)
    widths: Float[Array, "M D"] = positive(input=1)

    def __init__(self, centres: Any, widths: Any):
        check_places("centres", centres)
        self.centres = centres
        self.widths = _widths(widths, np.shape(centres))

    def __call__(self, g: Callable[[Float[Array, " D"]], Array]) -> Float[Array, "M ..."]:
        return quadrature_functionals(self.weighting(), g)

    @property
    def size(self) -> int:
        return self.centres.shape[0]

    def weighting(self) -> GaussianWaves:
        """The weights of the function as Gaussian windows."""
        return GaussianWaves(jnp.asarray(self.centres), jnp.asarray(self.widths))


class Waves(AbstractInducing):
    r"""Gaussian windows with a wave in each: frequencies of the function near a place.

    $$u_m = \int f(\mathbf x) \, \mathcal N(\mathbf x; \boldsymbol\mu_m, \operatorname{diag}
        \boldsymbol\delta_m^2) \cos\Big(\phi_m + 2 \pi \sum_d \nu_{md} (x_d - \mu_{md})\Big)
        \, d\mathbf x$$

    Also known as time-frequency inducing features; with all centres at zero they are frequency
    features. Closed forms and quadrature are those of `Windows`.

    Args:
        centres: $\boldsymbol\mu$ (M, D), in the units of the inputs.
        widths: $\boldsymbol\delta$, standard deviations of the windows, in the units of the
            inputs: one number, one per column (D,), one per window (M, 1), or (M, D).
        frequencies: $\boldsymbol\nu$ (M, D), in cycles per unit of the inputs.
        phases: $\phi$ (M,), or one number for all, in radians.

    Raises:
        ValueError: for shapes that do not fit, and widths that are not positive.

    References:
        van der Wilk (2018), items 51 and 52, their covariances as corrected there;
        Lazaro-Gredilla and Figueiras-Vidal (2009).
    """

    centres: Float[Array, "M D"] = real(input=1, location=True)
    widths: Float[Array, "M D"] = positive(input=1)
    frequencies: Float[Array, "M D"] = real(input=-1)
    phases: Float[Array, " M"] = real()

    def __init__(self, centres: Any, widths: Any, frequencies: Any, phases: Any = 0.0):
        check_places("centres", centres)
        shape = np.shape(centres)
        self.centres = centres
        self.widths = _widths(widths, shape)
        self.frequencies = _place_values("frequencies", frequencies, shape)
        self.phases = _place_values("phases", phases, shape[:1])

    def __call__(self, g: Callable[[Float[Array, " D"]], Array]) -> Float[Array, "M ..."]:
        return quadrature_functionals(self.weighting(), g)

    @property
    def size(self) -> int:
        return self.centres.shape[0]

    def weighting(self) -> GaussianWaves:
        """The weights of the function as Gaussian windows with waves."""
        frequency = 2.0 * jnp.pi * jnp.asarray(self.frequencies)
        phase = jnp.asarray(self.phases)
        return GaussianWaves(jnp.asarray(self.centres), jnp.asarray(self.widths), frequency, phase)


def _widths(widths: Any, shape: tuple[int, ...]) -> Any:
    """Widths in the shape of the places.

    Raises:
        ValueError: for another shape, and for numbers that are not positive.
    """
    found = _place_values("widths", widths, shape)
    if isinstance(found, jax.Array):
        return found
    bad = found[~((found > 0) & np.isfinite(found))]
    if bad.size:
        raise ValueError(
            f"widths must be positive and finite, given {bad[0]:g}; for width zero use "
            "inducing.Points"
        )
    return found


def _place_values(name: str, values: Any, shape: tuple[int, ...]) -> Any:
    """Values in the shape of the places; numbers stay numpy's, whose digits do not depend on JAX.

    Raises:
        ValueError: for another shape.
    """
    library = jnp if isinstance(values, jax.Array) else np
    try:
        return library.array(library.broadcast_to(library.asarray(values, float), shape))
    except ValueError:
        raise ValueError(
            f"{name} of shape {np.shape(values)} do not fit {shape[0]} centres: give one number, "
            f"or an array that broadcasts to {shape}"
        ) from None


@input_columns.register(Windows)
@input_columns.register(Waves)
def _(a: Windows | Waves) -> int | None:
    return a.centres.shape[1]


@functools.singledispatch
def describe(a: AbstractInducing) -> GaussianWaves | None:
    """Functionals as Gaussian windows with waves; None for those of other kinds.

    A kind that has this description registers it, and has all closed forms with the others.
    """
    return None


@describe.register
def _(a: Points) -> GaussianWaves:
    return GaussianWaves(jnp.asarray(a.Z))


@describe.register(Windows)
@describe.register(Waves)
def _(a: Windows | Waves) -> GaussianWaves:
    return a.weighting()


@covariance_from.register(Windows)
@covariance_from.register(Waves)
def _(a: Windows | Waves, b: AbstractInducing, kernel: AbstractKernel) -> Float[Array, "M K"]:
    first, second = a.weighting(), describe(b)
    if second is None:
        return covariance_from(b, a, kernel).T
    stacks = _closed_terms(kernel, first.centre.shape[1])
    if stacks is None:
        return covariance_from.dispatch(AbstractInducing)(a, b, kernel)
    each = [integral(first, second, terms) for terms in stacks]
    return functools.reduce(jnp.add, each)


def _closed_terms(kernel: AbstractKernel, D: int) -> tuple[Terms, ...] | None:
    """A kernel as terms of Gaussians times cosines; None for a kernel that has others as well."""
    terms = expansion(kernel, D)
    if terms is None or terms.spikes or any(stack.factor is not None for stack in terms.stacks):
        return None
    return terms.stacks
