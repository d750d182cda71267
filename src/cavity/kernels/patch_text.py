"""Sums over patches as text: what follows the kernel of a patch in `conv(rbf, 5x5, ...)`."""

import re
from typing import Any

from cavity.kernels.parts import AbstractParts, Patches
from cavity.numerics.text import plural

CONV = "conv"
FORM = (
    f"{CONV} is written {CONV}(rbf, 5x5, image=28x28): the kernel of one patch, height and width "
    "of a patch, and those of an image; then, where wanted, stride=2, channels=pooled or a "
    "number, positions, weights"
)
_OPTIONS = {
    "image": r"image=(\d{1,5}x\d{1,5}(?:x\d{1,3})?)",
    "stride": r"stride=(\d{1,5})",
    "channels": r"channels=(joint|pooled|\d{1,3})",
    "positions": r"(positions)",
    "weights": r"(weights)",
}


def words_after_kernel(tokens: list[tuple[str, str]], start: int) -> tuple[int, int, list[str]]:
    """Parse the words that follow the kernel of one patch.

    Args:
        tokens: of a text, each a kind and a value.
        start: the first within the parentheses.

    Returns:
        Where the comma after the kernel is, where the closing parenthesis is, and the words
        between them.

    Raises:
        ValueError: where there is no comma or no parenthesis.
    """
    depth, comma = 0, None
    for i, (_, value) in enumerate(tokens[start:], start):
        if value == ")" and depth == 0 and comma is not None:
            return comma, i, "".join(value for _, value in tokens[comma + 1 : i]).split(",")
        depth += (value == "(") - (value == ")")
        comma = i if value == "," and depth == 0 and comma is None else comma
    raise ValueError(FORM)


def read_patches(words: list[str]) -> tuple[Patches, bool]:
    """The patches that words such as `5x5` and `image=28x28` ask for, and whether with weights.

    Raises:
        ValueError: for words that are not understood, and for patches that there cannot be.
    """
    patch, *others = words
    if not re.fullmatch(r"\d{1,5}x\d{1,5}", patch):
        raise ValueError(f"{patch!r} is not the size of a patch; {FORM}")
    found: dict[str, str] = {}
    for word in others:
        name = word.partition("=")[0]
        value = re.fullmatch(_OPTIONS.get(name, ""), word)
        if name not in _OPTIONS or value is None:
            raise ValueError(f"{word!r} is not understood; {FORM}")
        if name in found:
            raise ValueError(f"{name} is given twice")
        found[name] = value[1]
    if "image" not in found:
        raise ValueError(f"the size of an image is missing; {FORM}")
    channels: Any = found.get("channels", "joint")
    parts = Patches(
        _sizes(found["image"]),
        _sizes(patch),
        int(found.get("stride", 1)),
        channels=int(channels) if channels.isdecimal() else channels,
        positions="positions" in found,
    )
    return parts, "weights" in found


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


def write_patches(parts: Patches, base: str, *, weighted: bool) -> str:
    """Text that is read as these patches, given the text of their kernel."""
    *_, pixels = patch_columns(parts)
    # columns that are all the pixels of a patch have a word, which within sums has another meaning
    if f"{CONV}(" not in base:
        base = base.replace(f"[{','.join(map(str, range(pixels)))}]", "[pixels]")
    words = [base, _size(parts.patch_shape), f"image={_size(parts.image_shape)}"]
    words += [f"stride={parts.stride}"] * (parts.stride != 1)
    words += [f"channels={parts.channels}"] * (parts.channels != "joint")
    words += ["positions"] * parts.positions + ["weights"] * weighted
    return f"{CONV}({', '.join(words)})"


def patch_columns(parts: Patches) -> tuple[int, list[str], int]:
    """Number of columns of a patch, their names if any has one, and the number of pixels."""
    height, width = parts.patch_shape
    joint = parts.channels == "joint" and len(parts.image_shape) == 3
    pixels = height * width * (parts.image_shape[2] if joint else 1)
    if not parts.positions:
        return pixels, [], pixels
    return pixels + 2, [*map(str, range(pixels)), "row", "column"], pixels


def _sizes(given: str) -> tuple[int, ...]:
    return tuple(map(int, given.split("x")))


def _size(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
