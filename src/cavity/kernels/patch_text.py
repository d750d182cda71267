"""Sums over patches as text: what stands in `conv(rbf, (5, 5), image=(28, 28))`."""

import ast
import json
from typing import Any

import numpy as np

from cavity.kernels.parts import AbstractParts, Patches
from cavity.numerics.text import plural

CONV = "conv"
FORM = (
    f"{CONV} is written {CONV}(rbf, (5, 5), image=(28, 28)): the kernel of one patch, height and "
    'width of a patch, and those of an image; then, where wanted, stride=2, channels="pooled" or '
    "a number, positions=True, weights=True"
)
_OPTIONS = ("image", "stride", "channels", "positions", "weights")


def patches_of(call: ast.Call) -> tuple[Patches, np.ndarray | None]:
    """The patches that a call asks for, and their weights; None where these are no parameters.

    Raises:
        ValueError: for arguments that are not understood, and for patches that there cannot be.
    """
    if len(call.args) != 2:
        raise ValueError(FORM)
    found: dict[str, Any] = {}
    for each in call.keywords:
        name = each.arg or "**"
        if name not in _OPTIONS:
            raise ValueError(f"'{ast.unparse(each)}' is not understood; {FORM}")
        if name in found:
            raise ValueError(f"{name} is given twice")
        found[name] = _value(each.value, name)
    if "image" not in found:
        raise ValueError(f"the size of an image is missing; {FORM}")
    weights = found.get("weights", False)
    for name, kinds in (("positions", bool), ("weights", bool | tuple)):
        if not isinstance(found.get(name, False), kinds) or found.get(name) == ():
            raise ValueError(f"'{name}={found[name]}' is not understood; {FORM}")
    parts = Patches(
        found["image"],
        _value(call.args[1], "the size of a patch"),
        found.get("stride", 1),
        channels=found.get("channels", "joint"),
        positions=found.get("positions", False) is True,
    )
    if weights is False:
        return parts, None
    return parts, np.ones(parts.size) if weights is True else _weights(weights)


def _weights(given: tuple[Any, ...]) -> np.ndarray:
    """Finite numbers, one for each part."""
    try:
        found = np.array(given, np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.array(np.nan)
    if found.ndim != 1 or not np.all(np.isfinite(found)):
        raise ValueError(f"weights are True, or finite numbers such as (1, 0.5), given {given!r}")
    return found


def _value(node: ast.expr, name: str) -> Any:
    """A number, a truth value, text or a tuple of these."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    if not isinstance(value, bool | int | str | tuple):
        raise ValueError(f"'{ast.unparse(node)}' is no value of {name}; {FORM}")
    return value


def checked_patches(parts: AbstractParts, columns: list[int] | None) -> Patches:
    """The parts, where a sum over them has a text form.

    Raises:
        ValueError: for parts that are no patches, and for patches of some columns alone.
    """
    if not isinstance(parts, Patches):
        raise ValueError(
            f"a sum over parts has a text form where these are Patches, given {parts}, "
            "which cannot be written as text: build this kernel in Python"
        )
    if columns is not None:
        raise ValueError(
            "a sum over patches has a text form where images are whole inputs, given "
            f"{plural(len(columns), 'column')} alone: leave .on(...) out, or build this kernel "
            "in Python"
        )
    return parts


def write_patches(parts: Patches, base: str, weights: str) -> str:
    """Text that is read as these patches, given the texts of their kernel and their weights."""
    *_, pixels = patch_columns(parts)
    # columns that are all the pixels of a patch have a word, which within sums has another meaning
    if f"{CONV}(" not in base:
        base = base.replace(f"[{','.join(map(str, range(pixels)))}]", "[pixels]")
    channels = json.dumps(parts.channels)
    words = [base, str(parts.patch_shape), f"image={parts.image_shape}"]
    words += [f"stride={parts.stride}"] * (parts.stride != 1)
    words += [f"channels={channels}"] * (parts.channels != "joint")
    words += ["positions=True"] * parts.positions + [f"weights={weights}"] * bool(weights)
    return f"{CONV}({', '.join(words)})"


def patch_columns(parts: Patches) -> tuple[int, list[str], int]:
    """Number of columns of a patch, their names if any has one, and the number of pixels."""
    height, width = parts.patch_shape
    joint = parts.channels == "joint" and len(parts.image_shape) == 3
    pixels = height * width * (parts.image_shape[2] if joint else 1)
    if not parts.positions:
        return pixels, [], pixels
    return pixels + 2, [*map(str, range(pixels)), "row", "column"], pixels
