"""Fitted models on disk: one safetensors file, verified to the last byte.

Arrays are stored by dotted name; everything else is JSON. The file's metadata holds `format`,
`description` and `sha256`, the digest of the description and of all arrays (name, dtype, shape
and bytes) in name order. The description is a JSON object: under "module" the model's structure,
under "about" what the caller said of it.

Loading executes nothing from the file: a class is looked up by name among the public ones, and
its fields are set without calling any of its code.
"""

import functools
import hashlib
import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np

from cavity.numerics.text import quoted
from cavity.persistence.atomic_file import (
    reason,
    regular_bytes,
    whole_file,
    why_not_writable,
)
from cavity.persistence.errors import StorageError
from cavity.persistence.known_classes import (
    Classes,
    fields_of,
    known_classes,
    made,
    with_known,
)
from cavity.persistence.typed_values import WrongValue, field_types, typed

FORMAT = "cavity/1"
# A value of JSON.
Json = dict[str, Any] | list[Any] | str | int | float | None


# ------------------------------------------------------------------------------- writing


def save_module(
    path: str | Path,
    module: object,
    description: Mapping[str, Any],
    *,
    classes: Classes | None = None,
) -> None:
    """Writes a model, whole or not at all.

    Floats are stored in float64 and come back as numpy arrays. Non-finite numbers of the
    description become null.

    Args:
        path: the file; what it held before is replaced.
        module: a tree of public classes, tuples, lists, dictionaries, arrays, numbers, strings
            and None.
        description: what to remember beside the model, as JSON values.
        classes: further classes by name, for models with parts of one's own; `load_module` needs
            the same.

    Raises:
        StorageError: for parts that a file cannot hold (kind "model") and for files that cannot
            be written (kind "io").
    """
    from safetensors.numpy import save as to_bytes

    check_output(path)
    path = Path(path)
    arrays: dict[str, np.ndarray] = {}
    names = {cls: name for name, cls in with_known(classes).items()}
    structure = _describe(module, _Place("model", names, arrays))
    about = json.dumps({"module": structure, "about": _plain(description)}, allow_nan=False)
    metadata = {"format": FORMAT, "description": about, "sha256": _digest(about, arrays)}
    data = _ordered(to_bytes(arrays, metadata))
    try:
        with whole_file(path) as file:
            file.write(data)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {reason(error)}", kind="io") from None


def can_be_held(value: object, classes: Classes | None = None) -> bool:
    """True if a file gives a value back as it is."""
    known, arrays = with_known(classes), dict[str, np.ndarray]()
    try:
        names = {cls: name for name, cls in known.items()}
        structure = _describe(value, _Place("", names, arrays))
        _build(structure, known, arrays, set(arrays))
    except (StorageError, WrongValue):
        return False
    return True


def check_output(path: str | Path) -> None:
    """Complains, before long work, if a model could not be written under a name."""
    trouble = why_not_writable(Path(path))
    if trouble:
        raise StorageError(trouble, kind="io")


def _ordered(data: bytes) -> bytes:
    """The file with its metadata in order: the library writes them in one that changes."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def _digest(description: str, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the description and of the arrays in name order.

    Each part follows a line of JSON that says what it is and how long.
    """
    digest = hashlib.sha256(json.dumps(["description", len(description)]).encode() + b"\n")
    digest.update(description.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode() + b"\n")
        digest.update(array.tobytes())
    return digest.hexdigest()


class _Place(NamedTuple):
    """The place of a node in a model that is written.

    Attributes:
        name: dotted name.
        names: of the classes that a file may name.
        arrays: those of the model so far, by dotted name.
    """

    name: str
    names: Mapping[type, str]
    arrays: dict[str, np.ndarray]

    def inside(self, value: object, part: str | int) -> Json:
        """The JSON form of a part of the node."""
        return _describe(value, self._replace(name=f"{self.name}.{part}"))


@functools.singledispatch
def _describe(node: object, place: _Place) -> Json:
    """The JSON form of one node of a model; its arrays are put under dotted names."""
    kind = type(node)
    if kind in place.names:
        values = {field: place.inside(getattr(node, field), field) for field in fields_of(kind)}
        return {"class": place.names[kind], "fields": values}
    raise StorageError(
        f"{place.name} is a {kind.__name__}, which a model file cannot hold: models are built of "
        "this package's public classes, arrays, numbers, strings, tuples and None; for a class of "
        f'your own, pass classes={{"{kind.__name__}": {kind.__name__}}} to save and load'
    )


_of_class = _describe.dispatch(object)


@_describe.register(type(None))
@_describe.register(int)
@_describe.register(str)
def _(node: int | str | None, place: _Place) -> Json:
    return node


@_describe.register(np.generic)
@_describe.register(np.ndarray)
@_describe.register(jax.Array)
def _(node: np.generic | np.ndarray | jax.Array, place: _Place) -> Json:
    place.arrays[place.name] = _stored(node, place.name)
    return {"array": place.name}


@_describe.register(float)
def _(node: float, place: _Place) -> Json:
    return node if math.isfinite(node) else {"float": str(node)}


@_describe.register(tuple)
@_describe.register(list)
def _(node: tuple | list, place: _Place) -> Json:
    word = {tuple: "tuple", list: "list"}.get(type(node))
    if word is None:
        return _of_class(node, place)
    return {word: [place.inside(value, i) for i, value in enumerate(node)]}


@_describe.register(dict)
def _(node: dict, place: _Place) -> Json:
    if not all(isinstance(key, str) for key in node):
        return _of_class(node, place)
    return {"dict": {key: place.inside(value, key) for key, value in node.items()}}


def _stored(array: np.generic | np.ndarray | jax.Array, name: str) -> np.ndarray:
    """An array as it is kept: floats in float64, in C order, bytes in little-endian order."""
    values = np.asarray(array)
    if np.issubdtype(values.dtype, np.floating):
        return np.ascontiguousarray(values, dtype="<f8").reshape(values.shape)
    if values.dtype.kind in "iub":
        little = values.dtype.newbyteorder("<")
        return np.ascontiguousarray(values, dtype=little).reshape(values.shape)
    raise StorageError(
        f"{name} is an array of type {values.dtype}; a model file holds real numbers, integers "
        "and truth values"
    )


@functools.singledispatch
def _plain(value: Any) -> Any:
    """A description as JSON values: tuples and arrays as lists, non-finite numbers as null."""
    return value


@_plain.register(Mapping)
def _(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): _plain(item) for key, item in value.items()}


@_plain.register(np.ndarray | np.generic | jax.Array)
def _(value: Any) -> Any:
    return _plain(np.asarray(value).tolist())


@_plain.register(tuple | list)
def _(value: tuple[Any, ...] | list[Any]) -> list[Any]:
    return [_plain(item) for item in value]


@_plain.register
def _(value: float) -> float | None:
    return value if math.isfinite(value) else None


@_plain.register
def _(value: Path) -> str:
    return str(value)


# ------------------------------------------------------------------------------- reading


def load_module(path: str | Path, *, classes: Classes | None = None) -> tuple[Any, dict[str, Any]]:
    """The model and its description from a file that `save_module` wrote.

    Args:
        path: the file.
        classes: further classes by name, as given to `save_module`.

    Returns:
        The module, with numpy leaves, and the description.

    Raises:
        StorageError: of kind "io" if the file cannot be read; of kind "model" if it is not such
            a file, is damaged in any way, or needs a class that is not there.
    """
    path = Path(path)
    try:
        data = regular_bytes(path)
    except IsADirectoryError:
        raise StorageError(f"{path} is a folder; give a model file", kind="io") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {reason(error)}", kind="io") from None
    metadata = _metadata(path, data)
    description, arrays = metadata["description"], _arrays(path, data)
    if metadata["sha256"] != _digest(description, arrays):
        raise StorageError(damaged(path, "its contents do not match its checksum"))
    unused = set(arrays)
    try:
        content = json.loads(description, parse_constant=_no_number)
        module = _build(content["module"], with_known(classes), arrays, unused)
        about = typed(content["about"], dict[str, Any], "about")
    except WrongValue as error:
        raise StorageError(damaged(path, str(error))) from None
    except (json.JSONDecodeError, KeyError, TypeError, RecursionError):
        raise StorageError(damaged(path, "its description cannot be read")) from None
    if unused:
        raise StorageError(damaged(path, f"it has arrays of no use: {sorted(unused)[:5]}"))
    return module, about


def damaged(path: str | Path, what: str) -> str:
    """Message about a damaged file."""
    return f"{path} is damaged or not a model file: {what}; save the model again or use a copy"


def _no_number(word: str) -> NoReturn:
    """Refuses NaN and infinities, which JSON does not have and Python reads."""
    raise WrongValue(f"its description has {word} among its numbers")


def _metadata(path: Path, data: bytes) -> dict[str, str]:
    """The three entries of the file's metadata, their presence and the format checked."""
    length = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else 0
    header = data[8 : 8 + length]
    if length < 2 or len(header) < length:
        raise StorageError(damaged(path, "it is cut short, or no safetensors file"))
    # the library pads with spaces; other blanks would pass its parser unseen
    if header.rstrip(b" ")[-1:] != b"}":
        raise StorageError(damaged(path, "its header does not end where it should"))
    try:
        metadata = json.loads(header.decode("utf-8"))["__metadata__"]
        found = {key: metadata[key] for key in ("format", "description", "sha256")}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StorageError(damaged(path, "its header cannot be read")) from None
    if not all(isinstance(value, str) for value in found.values()):
        raise StorageError(damaged(path, "its header cannot be read"))
    if found["format"] != FORMAT:
        raise StorageError(
            f"{path} has format {quoted(found['format'])}, this version reads '{FORMAT}'; use the "
            "version of cavity that wrote it, or a newer one"
        )
    return found


def _arrays(path: Path, data: bytes) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    try:
        return {name: array.copy() for name, array in from_bytes(data).items()}
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError):
        raise StorageError(
            damaged(path, "it is cut short, or its arrays cannot be read")
        ) from None


def _build(node: Any, classes: Classes, arrays: Mapping[str, np.ndarray], unused: set) -> object:
    """Inverse of `_describe`; names of arrays that were met leave `unused`."""

    def inside(value: Json) -> object:
        return _build(value, classes, arrays, unused)

    if isinstance(node, _ITSELF):
        return node
    kind = next(iter(node), "") if isinstance(node, dict) else ""
    value: Any = node[kind] if kind else None
    whole = not kind or {*node} == {kind, *_BESIDE.get(kind, ())}
    if whole and isinstance(value, _FORMS.get(kind, ())):
        if kind == "array" and value in arrays:
            unused.discard(value)
            return arrays[value]
        if kind == "float" and value in ("inf", "-inf", "nan"):
            return float(value)
        if kind in ("tuple", "list"):
            found = [inside(each) for each in value]
            return tuple(found) if kind == "tuple" else found
        if kind == "dict":
            return {key: inside(each) for key, each in value.items()}
        if kind == "class":
            fields = typed(node["fields"], dict[str, Any], "fields")
            return _instance(value, {k: inside(v) for k, v in fields.items()}, classes)
    raise WrongValue(f"it describes its parts in an unknown way: {str(node)[:80]}")


# The forms of nodes in JSON: what stands for itself, what follows a word, and beside it.
_ITSELF = (type(None), bool, int, float, str)
_FORMS = {"array": str, "float": str, "tuple": list, "list": list, "dict": dict, "class": str}
_BESIDE = {"class": ("fields",)}


def _instance(name: str, fields: dict[str, Any], classes: Classes) -> Any:
    """An object of a known class with the given fields."""
    if name not in classes:
        raise StorageError(
            f"the model file needs the class '{name}', which this version of cavity does not "
            f"have; use a newer version, or pass classes={{'{name}': ...}} if it is your own"
        )
    cls = classes[name]
    declared = fields_of(cls)
    # those that files of before lack have a default, which is how it was without them
    fields = {name: f.default for name, f in declared.items() if "later" in f.metadata} | fields
    strange = sorted(set(fields) - set(declared))
    if strange:
        raise StorageError(
            f"the model file sets {', '.join(strange)} of {name}, which this version of cavity "
            "does not know; use the version that wrote it, or a newer one"
        )
    absent = sorted(set(declared) - set(fields))
    if absent:
        raise StorageError(
            f"the model file does not say {', '.join(absent)} of {name}; use the version that "
            "wrote it, or save the model again"
        )
    if name in known_classes():
        kinds = field_types(cls)
        fields = {
            key: typed(value, kinds[key], f"{key} of {name}") for key, value in fields.items()
        }
    return made(cls, fields)
