"""Values of a file, checked against annotations: of fields of classes, and typed dictionaries.

A file whose checksum is right may still be wrong, because somebody made it so.
"""

import contextlib
import dataclasses
import functools
import math
import reprlib
import types
import typing
from collections.abc import Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    is_typeddict,
)

import equinox as eqx
import jax
import numpy as np

# No size, count or setting is larger: what is built in so many steps would never end.
MOST = 10_000_000
# Whole numbers of any size, and those from zero on; numbers from zero on, and up to one.
Whole = Annotated[int, (-math.inf, math.inf)]
Large = Annotated[int, (0, math.inf)]
NotNegative = Annotated[float, (0.0, math.inf)]
Share = Annotated[float, (0.0, 1.0)]
_ARRAYS = np.ndarray | np.generic | jax.Array | float
KINDS = {"f": "Float", "i": "Int", "u": "Int", "b": "Bool"}


class WrongValue(ValueError):
    """A value that is not what it should be; the message says where."""


def typed(value: object, annotation: Any, name: str) -> Any:
    """A value as its annotation wants it: sequences as tuples or lists, records as dataclasses.

    Args:
        value: of JSON, or a part of a model.
        annotation: what it should be; what is not understood lets everything pass.
        name: what the value is called in a message.

    Raises:
        WrongValue: if it is something else.
    """
    origin = get_origin(annotation)
    if origin in _READERS:
        return _READERS[origin](value, annotation, name)
    if annotation is int:
        return _bounded(value, Annotated[int, (0, MOST)], name)
    if annotation in _PLAIN:
        return _plain(value, annotation, name)
    if getattr(annotation, "dtypes", None) is not None:  # jaxtyping's
        return _array(value, annotation, name)
    if is_typeddict(annotation):
        hints = _hints(annotation)
        return _dictionary(value, hints, annotation.__required_keys__, name)
    if not isinstance(annotation, type):
        return value
    own = dataclasses.is_dataclass(annotation) and not issubclass(annotation, eqx.Module)
    if own and isinstance(value, Mapping):
        return _record(value, annotation, name)
    return _instance(value, annotation, name)


def field_types(cls: type) -> Mapping[str, Any]:
    """The annotations of the fields of a class by name."""
    return _hints(cls)


@functools.cache
def _hints(cls: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def _wrong(value: object, expected: str, name: str) -> WrongValue:
    return WrongValue(f"{name} is {reprlib.repr(value)}, which is not {expected}")


def _need(value: Any, kinds: Any, expected: str, name: str) -> Any:
    """The value, if it is of these kinds; truth values are whole numbers in Python alone."""
    if not isinstance(value, kinds) or (kinds is not bool and isinstance(value, bool)):
        raise _wrong(value, expected, name)
    return value


def _plain(value: Any, annotation: Any, name: str) -> Any:
    kinds, expected = _PLAIN[annotation]
    _need(value, kinds, expected, name)
    if annotation is float and math.isnan(value):
        raise _wrong(value, expected, name)
    return value


_PLAIN: dict[Any, tuple[Any, str]] = {
    str: (str, "text"),
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: ((int, float, np.number), "a number"),
    None: (type(None), "nothing"),
    type(None): (type(None), "nothing"),
}


def _array(value: object, annotation: Any, name: str) -> Any:
    """An array of the kind that is wanted; how many axes it has is seen where it is used."""
    kind = KINDS.get(np.asarray(value).dtype.kind, "other")
    if not annotation.__name__.startswith(kind):
        raise _wrong(value, "an array of numbers", name)
    return _need(value, _ARRAYS, "an array of numbers", name)


def _instance(value: object, annotation: type, name: str) -> Any:
    try:
        right = isinstance(value, annotation)
    except TypeError:  # of what cannot be asked
        return value
    if not right and not (annotation is np.ndarray and isinstance(value, np.generic)):
        raise _wrong(value, f"of the kind {annotation.__name__}", name)
    return value


def _record(value: Mapping[str, Any], cls: type, name: str) -> Any:
    """An object of a dataclass from its fields by name."""
    needed = {
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    hints = {f.name: _hints(cls)[f.name] for f in dataclasses.fields(cls)}
    strange = sorted(set(value) - set(hints))
    if strange:
        raise WrongValue(f"{name} has {reprlib.repr(strange[0])}, which is not known")
    return cls(**_dictionary(value, hints, needed, name))


def _dictionary(value: Any, hints: Mapping[str, Any], needed: Any, name: str) -> dict[str, Any]:
    """A dictionary with values of these kinds; others in it are not looked at."""
    _need(value, Mapping, "a record", name)
    missing = sorted(set(needed) - set(value))
    if missing:
        raise WrongValue(f"{name} has no {missing[0]}")
    known = {key: typed(value[key], hints[key], f"{name}.{key}") for key in hints if key in value}
    return {**value, **known}


def _union(value: object, annotation: Any, name: str) -> Any:
    choices = get_args(annotation)
    if value is None and type(None) in choices:
        return None
    *most, last = (choice for choice in choices if choice is not type(None))
    for choice in most:
        with contextlib.suppress(WrongValue):
            return typed(value, choice, name)
    return typed(value, last, name)  # whose complaint is as good as any


def _literal(value: object, annotation: Any, name: str) -> Any:
    choices = get_args(annotation)
    if not isinstance(value, str | int | bool | None) or value not in choices:
        raise _wrong(value, f"one of {', '.join(map(str, choices))}", name)
    return value


def _sequence(value: Any, annotation: Any, name: str) -> Any:
    kind, inside = get_origin(annotation), get_args(annotation)
    _need(value, list | tuple, "a list", name)
    each = inside[:1] * len(value) if kind is list or inside[-1] is Ellipsis else inside
    if len(each) != len(value):
        raise _wrong(value, f"a list of {len(each)}", name)
    pairs = zip(value, each, strict=True)
    return kind(typed(item, part, f"{name}[{i}]") for i, (item, part) in enumerate(pairs))


def _mapping(value: Any, annotation: Any, name: str) -> Any:
    for key in _need(value, Mapping, "a record", name):
        if not isinstance(key, str):
            raise _wrong(value, "a record", name)
    _, each = get_args(annotation)
    return {key: typed(item, each, f"{name}.{key}") for key, item in value.items()}


def _bounded(value: object, annotation: Any, name: str) -> Any:
    inside, *limits = get_args(annotation)
    found = _plain(value, inside, name)
    for low, high in limits:
        if not low <= found <= high:
            raise _wrong(value, f"between {low:g} and {high:g}", name)
    return found


def _required(value: object, annotation: Any, name: str) -> Any:
    return typed(value, get_args(annotation)[0], name)


_READERS: dict[Any, Any] = {
    Union: _union,
    types.UnionType: _union,
    Literal: _literal,
    tuple: _sequence,
    list: _sequence,
    dict: _mapping,
    Mapping: _mapping,
    Annotated: _bounded,
    NotRequired: _required,
}
