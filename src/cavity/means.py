"""Floor 1: mean functions."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from cavity.kernels import base, dot_product, stationary
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float
from cavity.parameters import fixed, real

__all__ = [
    "AbstractMean",
    "BayesianLinear",
    "Columns",
    "Constant",
    "Identity",
    "Linear",
    "Zero",
]


def __dir__() -> list[str]:
    return __all__


class AbstractMean(eqx.Module):
    r"""The mean function $m(\mathbf x)$ of a Gaussian process.

    To implement:
        `__call__(X)`: the N means at the rows of X, or N x P for P outputs with different means.
        Declare parameters with `real()` and friends, with their units.

    Attributes:
        constant: whether the mean is the same everywhere.
    """

    constant: ClassVar[bool] = False

    @property
    def covariance(self) -> base.AbstractKernel | None:
        """The covariance of an uncertain mean function; None if it is known."""
        return None

    @abc.abstractmethod
    def __call__(self, X: Float[Array, "N D"]) -> Float[Array, "N *P"]:
        """The means of the function at the rows of X."""


class Zero(AbstractMean):
    r"""No mean, $m(\mathbf x) = 0$."""

    constant: ClassVar[bool] = True

    def __call__(self, X: Float[Array, "N D"]) -> Float[Array, "N *P"]:
        return jnp.zeros(X.shape[0], dtype=X.dtype)


class Identity(AbstractMean):
    r"""The inputs themselves, $m_p(\mathbf x) = x_p$: function p has the p-th input as its mean.

    Args:
        columns: how many of the inputs, the first ones; None for all.

    Raises:
        ValueError: when called with fewer inputs than that.
    """

    columns: int | None = eqx.field(static=True)

    def __init__(self, columns: int | None = None):
        self.columns = columns

    def __call__(self, X: Float[Array, "N D"]) -> Float[Array, "N *P"]:
        if self.columns is not None and self.columns > X.shape[1]:
            raise ValueError(
                f"the identity mean is to have {plural(self.columns, 'column')}, the inputs have "
                f"{X.shape[1]}"
            )
        return X[:, : self.columns]


class Columns(AbstractMean):
    r"""Mean functions of several outputs, one for each, $m_p$, or for some together.

    Args:
        means: mean functions whose columns follow each other.
    """

    means: tuple[AbstractMean, ...]

    def __call__(self, X: Float[Array, "N D"]) -> Float[Array, "N *P"]:
        return jnp.concatenate([jnp.reshape(m(X), (len(X), -1)) for m in self.means], axis=1)


class Constant(AbstractMean):
    r"""The same mean everywhere, $m(\mathbf x) = v$.

    Args:
        value: $v$, in units of the output; one number, or one per output (P,).
    """

    value: Float[Array, "..."] = real(output=1)
    constant: ClassVar[bool] = True

    def __init__(self, value: Any = 0.0):
        self.value = value

    def __call__(self, X: Float[Array, "N D"]) -> Float[Array, "N *P"]:
        return jnp.broadcast_to(self.value, (X.shape[0], *self.value.shape))


class Linear(AbstractMean):
    r"""A linear mean, $m(\mathbf x) = \mathbf w^\top (\mathbf x - \mathbf c) + b$.

    Args:
        weights: $\mathbf w$ (D,), or (D, P) for P outputs, in units of the output per unit of
            the inputs.
        bias: $b$, the mean at the centre, in units of the output; one number, or one per
            output (P,).
        centre: $\mathbf c$, a place in input space, one number or one per column; not learned
            by default.

    Raises:
        ValueError: if the shapes of weights and bias do not belong together, or (when called)
            if the inputs do not have one column per weight.
    """

    weights: Float[Array, "D *P"] = real(output=1, input=-1)
    bias: Float[Array, "..."] = real(output=1)
    centre: Float[Array, "..."] = fixed(input=1, location=True)

    def __init__(self, weights: Any, bias: Any = 0.0, centre: Any = 0.0):
        self.weights = weights
        self.bias = bias
        self.centre = centre

    def __check_init__(self) -> None:
        weights, bias = np.shape(self.weights), np.shape(self.bias)
        if len(weights) not in (1, 2) or bias not in ((), weights[1:]):
            raise ValueError(
                "a linear mean needs weights (D,) and one bias, or weights (D, P) and one bias or "
                f"P of them; given weights of shape {weights} and a bias of shape {bias}"
            )

    def __call__(self, X: Float[Array, "N D"]) -> Float[Array, "N *P"]:
        if X.shape[1] != self.weights.shape[0]:
            raise ValueError(
                f"the linear mean has weights for {plural(self.weights.shape[0], 'column')}, "
                f"the inputs have {X.shape[1]}"
            )
        return jnp.matmul(X - self.centre, self.weights) + self.bias


class BayesianLinear(AbstractMean):
    r"""A linear mean whose weights are not known and are integrated out.

    $m(\mathbf x) = \mathbf w^\top (\mathbf x - \mathbf c) + b$ with independent Gaussian $w_d$ and
    $b$. The model's covariance is then that of its kernel plus $\sum_d s_d^2 (x_d - c_d) (x'_d -
    c_d) + s_b^2$, so that predictions far from the data include the uncertainty of the slopes.
    `posterior.mean_function()` gives the posterior of weights and bias.

    Args:
        weights: means of $\mathbf w$ (D,), in units of the output per unit of the inputs, or
            (D, P) for P outputs.
        bias: the mean of $b$, in units of the output; one number, or one per output (P,).
        weight_deviations: $\mathbf s$, standard deviations of $\mathbf w$: one number, one per
            column (D,), or of the shape of the weights.
        bias_deviation: $s_b$, the standard deviation of $b$: one number, or one per output.
        centre: $\mathbf c$, a place in input space, one number or one per column.

    Raises:
        ValueError: if the shapes of weights, bias and deviations do not belong together or a
            deviation is not above 0, or (when called) if the inputs do not have one column per
            weight.

    References:
        Rasmussen and Williams (2006), section 2.7, eqs. 2.38 to 2.40.
    """

    weights: Float[Array, "D *P"] = fixed(output=1, input=-1)
    bias: Float[Array, "..."] = fixed(output=1)
    weight_deviations: Float[Array, "D ..."] = fixed(output=1, input=-1)
    bias_deviation: Float[Array, "..."] = fixed(output=1)
    centre: Float[Array, "..."] = fixed(input=1, location=True)

    def __init__(
        self,
        weights: Any,
        bias: Any = 0.0,
        weight_deviations: Any = 1.0,
        bias_deviation: Any = 1.0,
        centre: Any = 0.0,
    ):
        self.weights, self.bias, self.centre = weights, bias, centre
        alike = np.ndim(weight_deviations) == 0
        self.weight_deviations = weight_deviations * np.ones(
            np.shape(weights)[:1] if alike else ()
        )
        self.bias_deviation = bias_deviation

    def __check_init__(self) -> None:
        Linear(self.weights, self.bias, self.centre)
        for name in ("weight_deviations", "bias_deviation"):
            value = getattr(self, name)
            if not isinstance(value, Tracer) and not np.all(np.asarray(value) > 0.0):
                raise ValueError(f"{name} of a linear mean must be above 0, given {value}")
        weights, slopes = np.shape(self.weights), np.shape(self.weight_deviations)
        height = np.shape(self.bias_deviation)
        if slopes not in (weights, weights[:1]) or height not in ((), np.shape(self.bias)):
            raise ValueError(
                "a linear mean needs a deviation for each column or weight, and one or one per "
                f"output for the bias: given weights of shape {weights}, weight_deviations "
                f"{slopes}, bias_deviation {height}"
            )

    @property
    def covariance(self) -> base.AbstractKernel:
        slopes, height = self.weight_deviations, self.bias_deviation
        if np.ndim(slopes) > 1 or np.ndim(height):
            raise ValueError(
                "the outputs of a model have one covariance: give weight_deviations of shape (D,) "
                "and one bias_deviation"
            )
        return dot_product.Linear(slopes**2, self.centre) + stationary.Constant(height**2)

    def __call__(self, X: Float[Array, "N D"]) -> Float[Array, "N *P"]:
        return Linear(self.weights, self.bias, self.centre)(X)
