"""Prior densities of parameters, for maximum a posteriori learning.

Densities are of the real value, with no Jacobian of the optimiser's scale; `LogStudentT` and
`LogInverseGamma` are learned with by the density of the logarithm, `Beta` by that of the logit,
whose modes have a meaning of their own.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from cavity.numerics.types import Array, PyTree, Scalar
from cavity.parameters.trees import Model, describe, entries

__all__ = [
    "Beta",
    "Flat",
    "Gamma",
    "HalfNormal",
    "InverseGamma",
    "LogInverseGamma",
    "LogNormal",
    "LogStudentT",
    "LogitNormal",
    "Normal",
    "Prior",
    "flat",
    "learned_with",
    "log_prior",
]


def __dir__() -> list[str]:
    return __all__


# One number for all entries of a parameter, or nested tuples of its shape with one for each.
Numbers = float | tuple[Any, ...]


def _shown(value: Numbers) -> str:
    """A number, or how far several reach."""
    each = np.ravel(np.asarray(value, float))
    few = ", ".join(f"{x:g}" for x in each[:4])
    return few if each.size == 1 else f"[{few}{', ...' if each.size > 4 else ''}]"


class _Density(abc.ABC):
    """A density with numbers that are positive, and print as they are given."""

    _shares: ClassVar[tuple[str, ...]] = ()  # numbers between 0 and 1
    _signed: ClassVar[tuple[str, ...]] = ()  # numbers of either sign

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            array = np.asarray(value, float)
            if name in self._shares and not np.all((array > 0.0) & (array < 1.0)):
                raise ValueError(f"{name} of a prior must lie between 0 and 1, given {value}")
            if name not in self._signed and not np.all(array > 0):
                raise ValueError(f"{name} of a prior must be positive, given {value}")

    @abc.abstractmethod
    def log_prob(self, value: Array) -> Array:
        """The log density of a value."""

    @abc.abstractmethod
    def log_prob_where_learned(self, value: Array) -> Array:
        """The log density by which values are learned."""

    def __str__(self) -> str:
        numbers = f"({', '.join(map(_shown, vars(self).values()))})" if vars(self) else ""
        return f"{type(self).__name__.lower()}{numbers}"


class _OfValue(_Density):
    """A density that learning takes as it is."""

    def log_prob_where_learned(self, value: Array) -> Array:
        return self.log_prob(value)


@dataclasses.dataclass(frozen=True)
class Flat(_OfValue):
    """No preference: a log density of zero everywhere."""

    def log_prob(self, value: Array) -> Array:
        return jnp.zeros_like(value)


@dataclasses.dataclass(frozen=True)
class Normal(_OfValue):
    """Normal density with a mean and a standard deviation.

    Both are one number, or tuples with one for each entry of the parameter.
    """

    _signed: ClassVar[tuple[str, ...]] = ("mean",)

    mean: Numbers = 0.0
    std: Numbers = 1.0

    def log_prob(self, value: Array) -> Array:
        # log N(x; μ, s²)
        z = (value - np.asarray(self.mean)) / np.asarray(self.std)
        return -0.5 * z**2 - np.log(self.std) - 0.5 * np.log(2 * np.pi)


@dataclasses.dataclass(frozen=True)
class LogNormal(_OfValue):
    """Density of exp(z), z normal: `median` is exp of the mean of z, `std` is that of z.

    Both are one number, or tuples with one for each entry of the parameter.
    """

    median: Numbers = 1.0
    std: Numbers = 1.0

    def log_prob(self, value: Array) -> Array:
        z = (jnp.log(value) - np.log(self.median)) / np.asarray(self.std)
        return -0.5 * z**2 - jnp.log(value) - np.log(self.std) - 0.5 * np.log(2 * np.pi)


@dataclasses.dataclass(frozen=True)
class LogitNormal(_OfValue):
    """Density of 1 / (1 + exp(-z)), z normal: `median` is that at the mean of z, `std` that of z.

    Both are one number, or tuples with one for each entry of the parameter.
    """

    _shares: ClassVar[tuple[str, ...]] = ("median",)

    median: Numbers = 0.5
    std: Numbers = 1.0

    def log_prob(self, value: Array) -> Array:
        median, std = np.asarray(self.median), np.asarray(self.std)
        z = (jnp.log(value) - jnp.log1p(-value) - np.log(median) + np.log1p(-median)) / std
        return -0.5 * z**2 - jnp.log(value * (1.0 - value)) - np.log(std) - 0.5 * np.log(2 * np.pi)


@dataclasses.dataclass(frozen=True)
class HalfNormal(_OfValue):
    """Density of |z|, z normal with mean zero and the given scale."""

    scale: float = 1.0

    def log_prob(self, value: Array) -> Array:
        inside = -0.5 * (value / self.scale) ** 2 - np.log(self.scale) + 0.5 * np.log(2 / np.pi)
        return cast(Array, jnp.where(value >= 0, inside, -jnp.inf))


@dataclasses.dataclass(frozen=True)
class Gamma(_OfValue):
    """Gamma density with a shape and a rate (mean shape / rate)."""

    shape: float
    rate: float

    def log_prob(self, value: Array) -> Array:
        # log xᵃ⁻¹ e^(-bx) bᵃ / Γ(a)
        constant = self.shape * np.log(self.rate) - gammaln(self.shape)
        return (self.shape - 1) * jnp.log(value) - self.rate * value + constant


@dataclasses.dataclass(frozen=True)
class InverseGamma(_OfValue):
    """Density of 1/z, z gamma with the given shape and rate `scale`."""

    shape: float
    scale: float

    def log_prob(self, value: Array) -> Array:
        constant = self.shape * np.log(self.scale) - gammaln(self.shape)
        return -(self.shape + 1) * jnp.log(value) - self.scale / value + constant


@dataclasses.dataclass(frozen=True)
class Beta(_Density):
    """Beta density of a share; uniform with both numbers 1, where nothing is known of it.

    Learning uses the density of the logit: that of the share has its mode at 0 or 1 where a number
    is 1 or less, so that learning could end there.

    Attributes:
        a: pseudo-count of the kind whose share it is.
        b: pseudo-count of all others.
    """

    a: float = 1.0
    b: float = 1.0

    def log_prob(self, value: Array) -> Array:
        return self.log_prob_where_learned(value) - jnp.log(value) - jnp.log1p(-value)

    def log_prob_where_learned(self, value: Array) -> Array:
        """The log density of the logit."""
        constant = gammaln(self.a + self.b) - gammaln(self.a) - gammaln(self.b)
        return self.a * jnp.log(value) + self.b * jnp.log1p(-value) + constant


class _OfLogarithm(_Density):
    """A density of the value that learning takes as that of its logarithm.

    Numbers, not types, of a compiled program: priors that differ in them share one.
    """

    def log_prob(self, value: Array) -> Array:
        return self.log_prob_where_learned(value) - jnp.log(value)

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        return tuple(vars(self).values()), None

    @classmethod
    def tree_unflatten(cls, _: None, children: tuple[Any, ...]) -> Any:
        own: Any = cls
        new = object.__new__(cls)  # what JAX puts in the place of numbers is not checked
        names = (field.name for field in dataclasses.fields(own))
        vars(new).update(zip(names, children, strict=True))
        return new


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, eq=False)
class LogStudentT(_OfLogarithm):
    r"""Density of exp(z), z Student-t: weak, with heavy tails, so that many data override it.

    A normal density of z would pull values far from the median back ever more strongly; this one
    falls as a power of |z|. Its density of the value grows without bound towards 0, as 1 / value
    does, so that learning uses the density of the logarithm.

    Attributes:
        median: exp of the centre of z, one number or one for each entry of the parameter.
        scale: of z about its centre.
        df: degrees of freedom of z.
    """

    median: Any = 1.0
    scale: Any = 1.0
    df: Any = 4.0

    def log_prob_where_learned(self, value: Array) -> Array:
        z = (jnp.log(value) - jnp.log(self.median)) / self.scale
        half = 0.5 * (jnp.asarray(self.df, z.dtype) + 1.0)
        constant = gammaln(half) - gammaln(half - 0.5) - 0.5 * jnp.log(self.df * np.pi)
        return constant - jnp.log(self.scale) - half * jnp.log1p(z**2 / self.df)


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, eq=False)
class LogInverseGamma(_OfLogarithm):
    r"""Inverse gamma density, of whose logarithm learning uses the density.

    $p(\log v) \propto v^{-a} e^{-s / v}$: values far below s are all but ruled out, and large ones
    cost a power of how large they are. The most likely logarithm is that of $s / a$.

    Attributes:
        shape: a, that of the gamma density of 1 / v.
        scale: s, one number or one for each entry of the parameter.
    """

    shape: Any = 1.0
    scale: Any = 1.0

    def log_prob_where_learned(self, value: Array) -> Array:
        ratio = self.scale / value
        a = jnp.asarray(self.shape, ratio.dtype)
        return a * jnp.log(ratio) - ratio - gammaln(a)


_OfPositive = LogNormal | LogitNormal | HalfNormal | Gamma | InverseGamma | Beta
Prior = Flat | Normal | _OfPositive | LogStudentT | LogInverseGamma


def flat(model: Model) -> Model:
    """The shadow tree of priors: the model's structure, `Flat()` for each float array.

    Edit it with `equinox.tree_at` and hand it to `cavity.fit`.
    """
    return describe(model, lambda declared, value: Flat())


def log_prior(model: PyTree, prior_tree: PyTree) -> Scalar:
    """The sum of the log prior densities of the model's parameters, in nats.

    Args:
        model: the model.
        prior_tree: what `flat(model)` gives, possibly edited.

    Raises:
        ValueError: if the tree has another structure than the model.
        TypeError: naming an entry that is no prior.
    """
    return _sum(model, prior_tree, lambda prior, value: prior.log_prob(value))


def learned_with(model: PyTree, prior_tree: PyTree) -> Scalar:
    """Contribution of the priors to the objective of learning, in nats.

    As `log_prior`, but with the density of the logarithm for parameters with a `LogStudentT` or
    `LogInverseGamma` prior, and of the logit for those with a `Beta` prior. Arguments and errors
    are those of `log_prior`.
    """
    return _sum(model, prior_tree, lambda prior, value: prior.log_prob_where_learned(value))


def _sum(model: PyTree, prior_tree: PyTree, term: Callable[[Any, Array], Array]) -> Scalar:
    wanted = (
        "of a tree of priors must be a prior of cavity.parameters.priors, such as "
        "LogNormal(1.0, 0.5)"
    )
    total = jnp.zeros(())
    flat = Flat()
    for _, value, prior in entries(model, prior_tree, Prior, wanted, flat):
        if prior != flat:
            total = total + jnp.sum(term(prior, value))
    return total
