"""Domains, bijections and priors of parameters.

A module's leaves are the real values a person would print. What an optimiser moves is a flat
vector of unconstrained numbers; `bijections(model)` is the shadow tree that links the two: the
model's own structure with one bijection per float leaf. Edit it with `equinox.tree_at` to
freeze a parameter (`FIXED`), to bound it (`Positive(lower, upper)`) or to integrate it out
(`INTEGRATED`). `priors.flat(model)` is a second one, of log densities of the real value.
"""

import contextlib
import dataclasses
import reprlib
import types
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import GetAttrKey, KeyPath, default_registry

from cavity.numerics.text import plural
from cavity.numerics.tree import dotted, is_entry
from cavity.numerics.types import Array, Float, PyTree

Model = TypeVar("Model")


class _AsItIs:
    """Values that are moved as they are, or not at all."""

    lower: ClassVar[float] = -np.inf
    upper: ClassVar[float] = np.inf

    def to_real(self, value: Array) -> Array:
        return value

    def from_real(self, real: Array) -> Array:
        return real


@dataclasses.dataclass(frozen=True)
class Real(_AsItIs):
    """The whole line: the optimiser moves the value itself."""

    free: ClassVar[bool] = True

    def __str__(self) -> str:
        return "real"


@dataclasses.dataclass(frozen=True)
class Positive:
    """Positive values, moved on the logarithmic scale, optionally kept within bounds."""

    lower: float = 0.0
    upper: float = np.inf

    free: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.lower < self.upper:
            raise ValueError(
                f"bounds of a positive parameter must satisfy 0 <= lower < upper, "
                f"given ({self.lower}, {self.upper})"
            )

    def to_real(self, value: Array) -> Array:
        if self.lower == 0.0 and self.upper == np.inf:
            return jnp.log(value)
        if self.upper == np.inf:
            return jnp.log(value - self.lower)
        return _logit((value - self.lower) / (self.upper - self.lower))

    def from_real(self, real: Array) -> Array:
        if self.lower == 0.0 and self.upper == np.inf:
            return jnp.exp(real)
        if self.upper == np.inf:
            return self.lower + jnp.exp(real)
        return self.lower + (self.upper - self.lower) * jax.nn.sigmoid(real)

    def __str__(self) -> str:
        if self.lower == 0.0 and self.upper == np.inf:
            return "positive"
        return f"({self.lower:g}, {self.upper:g})"


@dataclasses.dataclass(frozen=True)
class Interval:
    """Values strictly between two finite bounds, moved on the logit scale."""

    lower: float
    upper: float

    free: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not -np.inf < self.lower < self.upper < np.inf:
            raise ValueError(
                f"an interval needs finite lower < upper, given ({self.lower}, {self.upper})"
            )

    def to_real(self, value: Array) -> Array:
        return _logit((value - self.lower) / (self.upper - self.lower))

    def from_real(self, real: Array) -> Array:
        return self.lower + (self.upper - self.lower) * jax.nn.sigmoid(real)

    def __str__(self) -> str:
        return f"({self.lower:g}, {self.upper:g})"


@dataclasses.dataclass(frozen=True)
class Fixed(_AsItIs):
    """Not moved at all."""

    free: ClassVar[bool] = False

    def __str__(self) -> str:
        return "fixed"


@dataclasses.dataclass(frozen=True)
class IntegratedOut(Fixed):
    """Not moved: integrated out, under the prior that `priors` has for it."""

    def __str__(self) -> str:
        return "integrated"


FIXED = Fixed()
INTEGRATED = IntegratedOut()
Bijection = Real | Positive | Interval | Fixed


def _logit(p: Array) -> Array:
    return jnp.log(p) - jnp.log1p(-p)


# ------------------------------------------------------------------------------- fields


def _array(value: Any) -> Any:
    """Numbers and sequences as numpy float64; JAX arrays and placeholders as they are.

    A JAX array made here would be float32 unless 64-bit mode were on at this very moment.
    """
    if isinstance(value, int | float | list | tuple | np.generic | np.ndarray):
        with contextlib.suppress(TypeError, ValueError):
            return np.array(value, dtype=np.float64)
    elif not isinstance(value, str | None):
        return value
    raise TypeError(f"parameters are numbers or arrays of numbers, given {reprlib.repr(value)}")


@dataclasses.dataclass(frozen=True)
class Units:
    """Powers of the units of the inputs and of the output in which a parameter is measured.

    A lengthscale is `Units(input=1)`, a variance of the function `Units(output=2)`.
    """

    input: int = 0
    output: int = 0
    location: bool = False  # a place in input space, which moves with the origin as well
    cycle: bool = False  # the length of a cycle: a period, or, with input=-1, a frequency


def real(*, optional: bool = False, **units: Any) -> Any:
    """Declares an array field that may take any value, or, where it is optional, be None."""
    return _field(Real(), units, optional=optional)


def positive(
    lower: float = 0.0, upper: float = np.inf, *, optional: bool = False, **units: Any
) -> Any:
    """Declares an array field of positive values.

    Args:
        lower: smallest value, 0 for none.
        upper: largest value.
        optional: whether the field may be None, for a part that a model does not have.
        **units: the fields of `Units` in which the values are measured.
    """
    return _field(Positive(lower, upper), units, optional=optional)


def interval(lower: float, upper: float, **units: Any) -> Any:
    """Declares an array field of values between two bounds."""
    return _field(Interval(lower, upper), units)


def fixed(*, optional: bool = False, several: bool = False, **units: Any) -> Any:
    """Declares an array field that is not learned unless its bijection is replaced.

    Args:
        optional: whether the field may be None, for a part that a model does not have.
        several: whether the field is a tuple of arrays, by default none.
        **units: the fields of `Units` in which the values are measured.
    """
    return _field(FIXED, units, optional=optional, several=several)


def _field(
    domain: Bijection, units: dict[str, Any], *, optional: bool = False, several: bool = False
) -> Any:
    metadata = {"domain": domain, "units": Units(**units)}
    if several:
        return eqx.field(converter=_arrays, metadata=metadata, default=())
    return eqx.field(converter=_optional_array if optional else _array, metadata=metadata)


def _arrays(values: Any) -> tuple[Any, ...]:
    return tuple(_array(value) for value in values)


def _optional_array(value: Any) -> Any:
    return None if value is None else _array(value)


# -------------------------------------------------------------------------- shadow trees


def describe(model: Model, leaf: Callable[[Mapping[str, Any], Array], Any]) -> Model:
    """A tree of the model's structure with `leaf(declared, value)` in place of each float array.

    `declared` is the metadata of the field of the array, and tells whether a field above it is
    `dimensionless`; it is empty for an undeclared one.
    """

    def entry(path: KeyPath, value: Any) -> Any:
        return leaf(_declared(model, path), value) if _is_float(value) else value

    return jax.tree_util.tree_map_with_path(entry, model)


def _declared(node: PyTree, path: KeyPath) -> dict[str, Any]:
    """Metadata of the field of a leaf, and of the fields above it that concern units."""
    declared: Mapping[str, Any] = {}
    inside = False
    for key in path:
        if isinstance(key, GetAttrKey):
            declared = type(node).__dataclass_fields__[key.name].metadata
            inside = inside or declared.get("dimensionless", False)
        node = dict(default_registry.flatten_one_level_with_keys(node)[0])[key]
    return {**declared, "dimensionless": inside}


def _is_float(node: object) -> bool:
    return isinstance(node, float) or eqx.is_inexact_array(node)


def bijections(model: Model) -> Model:
    """The shadow tree of bijections: the model's structure, one bijection per float array.

    Edit it with `equinox.tree_at` and hand it to `cavity.fit`:

        b = bijections(model)
        b = eqx.tree_at(lambda m: m.likelihood.variance, b, FIXED)
    """
    return describe(model, lambda declared, _: declared.get("domain", Real()))


def units(model: Model) -> Model:
    """The shadow tree of `Units`, one per float array.

    Below a field marked `dimensionless`, as the second factor of a product of kernels is, the
    units of the output do not count.
    """

    def entry(declared: Mapping[str, Any], _: Array) -> Units:
        own = declared.get("units", Units())
        return dataclasses.replace(own, output=0) if declared["dimensionless"] else own

    return describe(model, entry)


def entries(
    model: PyTree,
    shadow: PyTree,
    kinds: type | types.UnionType = Bijection,
    wanted: str = "of a tree of bijections must be a Real, Positive, Interval, FIXED or "
    "INTEGRATED (the classes, not the declarations of fields)",
    other: Any = FIXED,
) -> list[tuple[str, Any, Any]]:
    """Dotted name, value and shadow entry of each leaf of a model, in order.

    Args:
        model: the model.
        shadow: a shadow tree of it, possibly edited.
        kinds: what the entries of float arrays may be.
        wanted: the same in words.
        other: the entry of what is no float array.

    Raises:
        ValueError: if the trees differ in structure.
        TypeError: naming an entry of another kind.
    """
    values, _ = jax.tree_util.tree_flatten_with_path(model)
    shadows = jax.tree.leaves(shadow, is_leaf=is_entry)
    if len(values) != len(shadows):
        raise ValueError(
            "a tree of bijections or priors must have the structure of the model: the model has "
            f"{plural(len(values), 'array')}, the tree "
            f"{plural(len(shadows), 'entry', 'entries')}"
        )
    found = []
    for (path, value), entry in zip(values, shadows, strict=True):
        name, entry = dotted(path), entry if _is_float(value) else other
        if not isinstance(entry, kinds):
            given = repr(entry) if len(repr(entry)) < 60 else type(entry).__name__
            raise TypeError(f"the entry {name} {wanted}, given {given}")
        found.append((name, value, entry))
    return found


def to_real(model: PyTree, bijection_tree: PyTree) -> Float[Array, " parameters"]:
    """The unconstrained vector of the model's free parameters.

    Args:
        model: the model.
        bijection_tree: what `bijections(model)` gives, possibly edited.
    """
    parts = [jnp.ravel(b.to_real(jnp.asarray(v))) for v, b in free_parts(model, bijection_tree)]
    return jnp.concatenate(parts) if parts else jnp.zeros((0,))


def from_real(vector: Float[Array, " parameters"], model: Model, bijection_tree: PyTree) -> Model:
    """The model with its free parameters set from an unconstrained vector.

    Inverse of `to_real`; fixed parameters keep the values they have in `model`.
    """
    new, start = [], 0
    for _, value, b in entries(model, bijection_tree):
        if b.free:
            size = int(np.size(value))
            part = vector[start : start + size].reshape(np.shape(value))
            new.append(b.from_real(part))
            start += size
        else:
            new.append(value)
    return jax.tree.unflatten(jax.tree.structure(model), new)


def log_jacobian(
    vector: Float[Array, " parameters"], model: PyTree, bijection_tree: PyTree
) -> Float[Array, ""]:
    """The log determinant of the derivative of `from_real` at an unconstrained vector.

    It turns the density of parameters into that of the vector.

    Args:
        vector: unconstrained parameters.
        model: the model.
        bijection_tree: what `bijections(model)` gives, possibly edited.
    """
    total, start = jnp.zeros((), vector.dtype), 0
    for value, b in free_parts(model, bijection_tree):
        part = vector[start : start + int(np.size(value))]
        start += part.size
        # bijections act entry by entry
        _, slope = jax.jvp(b.from_real, (part,), (jnp.ones_like(part),))
        total = total + jnp.sum(jnp.log(jnp.abs(slope)))
    return total


def free_entries(model: PyTree, bijection_tree: PyTree, *shadows: PyTree) -> list[tuple[Any, ...]]:
    """Dotted name, value, bijection and shadow entries of each free array, as `to_real` has them.

    Args:
        model: the model.
        bijection_tree: what `bijections(model)` gives, possibly edited.
        *shadows: further shadow trees, whose entries are not modules.
    """
    columns = [jax.tree.leaves(tree, is_leaf=is_entry) for tree in shadows]
    rows = zip(entries(model, bijection_tree), *columns, strict=True)
    return [(*entry, *more) for entry, *more in rows if entry[2].free]


def free_parts(model: PyTree, bijection_tree: PyTree, *shadows: PyTree) -> list[tuple[Any, ...]]:
    """As `free_entries`, without names."""
    return [each[1:] for each in free_entries(model, bijection_tree, *shadows)]
