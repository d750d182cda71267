"""Floor 1: mean functions."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float
from cavity.parameters import fixed, real


class AbstractMean(eqx.Module):
    r"""The mean function $m(\mathbf x)$ of a Gaussian process.

    To implement:
        `__call__(X)`: the N means at the rows of X, or N x P for P outputs with different means.
        Declare parameters with `real()` and friends, with their units.

    Attributes:
        constant: whether the mean is the same everywhere.
    """

    constant: ClassVar[bool] = False

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
