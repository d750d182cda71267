"""Parts of an input: the patches of an image, or the images of an input under permutations."""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float, Int
from cavity.numerics.validation import check_finite, is_whole


class AbstractParts(eqx.Module):
    """A division of an input into P parts of E columns each.

    To implement:
        `columns`, `size` and `__call__(x, which)`, the parts of one input, all or some of them.
    """

    @property
    @abc.abstractmethod
    def columns(self) -> int:
        """The number D of columns of an input."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number P of parts."""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of an image; None for inputs of any kind."""
        return None

    @property
    def countable(self) -> bool:
        """True if equal parts stay equal whatever is learned, so that they may be counted."""
        return True

    @property
    def reach(self) -> float | None:
        """Half of the pixels that the positions in the parts span; None without positions."""
        return None

    @abc.abstractmethod
    def __call__(
        self, x: Float[Array, " D"], which: Int[Array, " U"] | None = None
    ) -> Float[Array, "P E"]:
        """The parts of one input: all of them, or those with these numbers, in their order."""

    def of(self, X: Any) -> Float[Array, "N P E"]:
        """The parts of N inputs.

        Raises:
            ValueError: where inputs have another number of columns.
        """
        X = jnp.asarray(X)
        self.check(X)
        return jax.vmap(self)(X)

    def check(self, X: Float[Array, "N D"]) -> None:
        """Raises ValueError where inputs have another number of columns."""
        if X.ndim != 2 or X.shape[1] != self.columns:
            given = plural(X.shape[1], "column") if X.ndim == 2 else f"shape {X.shape}"
            raise ValueError(
                f"{self} takes inputs of {plural(self.columns, 'column')} apart, given {given}"
            )


class AbstractImageParts(AbstractParts):
    """Parts of an image, a row of pixels with the channels of a pixel next to each other.

    Attributes:
        image_shape: (H, W), or (H, W, C) with C channels.
    """

    image_shape: eqx.AbstractVar[tuple[int, ...]]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.image_shape

    @property
    def columns(self) -> int:
        return math.prod(self.image_shape)


class Patches(AbstractImageParts):
    """The patches of an image, each w x h pixels, without padding.

    An image is a row of pixels, H x W or H x W x C with the channels of a pixel next to each
    other, as `images.reshape(len(images), -1)` makes it.

    Args:
        image_shape: (H, W), or (H, W, C) with C channels.
        patch_shape: (h, w), in pixels.
        stride: pixels between one patch and the next.
        channels: "joint", where a patch has the pixels of all channels; "pooled", where every
            channel has patches of its own; or the number of one channel.
        positions: whether the row and the column of its first pixel are appended to each patch.

    Raises:
        ValueError: for shapes that are no whole numbers, patches or strides larger than the
            image, and channels that there are not.

    References:
        van der Wilk (2018), items 62 and 67; Dutordoir et al. (2020) for positions.
    """

    image_shape: tuple[int, ...] = eqx.field(static=True)
    patch_shape: tuple[int, int] = eqx.field(static=True)
    stride: int = eqx.field(static=True)
    channels: str | int = eqx.field(static=True)
    positions: bool = eqx.field(static=True)

    def __init__(
        self,
        image_shape: Any,
        patch_shape: Any = (5, 5),
        stride: Any = 1,
        *,
        channels: Any = "joint",
        positions: Any = False,
    ):
        image, patch = (
            whole_numbers("image_shape", image_shape, (2, 3)),
            whole_numbers("patch_shape", patch_shape, (2,)),
        )
        if not _is_count(stride):
            raise ValueError(f"stride must be a positive whole number, given {stride!r}")
        if any(p > i for p, i in zip(patch, image, strict=False)):
            raise ValueError(f"patches of {patch} pixels are larger than the image, {image[:2]}")
        if stride > max(image[:2]):
            raise ValueError(f"a stride of {stride} is larger than the image, {image[:2]}")
        count = image[2] if len(image) == 3 else 1
        known = ["joint", "pooled", *range(count)]
        if isinstance(channels, bool | float) or channels not in known:
            raise ValueError(
                f'channels must be "joint", "pooled" or a number from 0 to {count - 1}, given '
                f"{channels!r}"
            )
        self.image_shape, self.patch_shape, self.stride = image, (patch[0], patch[1]), int(stride)
        if not isinstance(positions, bool | np.bool_):
            raise ValueError(f"positions must be True or False, given {positions!r}")
        self.channels, self.positions = channels, bool(positions)

    def __str__(self) -> str:
        return f"Patches of {self.patch_shape} pixels of an image {self.image_shape}"

    @property
    def grid(self) -> tuple[int, int]:
        """The number of patches along rows and along columns of the image."""
        (H, W), (h, w) = self.image_shape[:2], self.patch_shape
        return (H - h) // self.stride + 1, (W - w) // self.stride + 1

    @property
    def size(self) -> int:
        return len(self._places()[0])

    @property
    def reach(self) -> float | None:
        return max(self.grid) * self.stride / 2.0 if self.positions else None

    def __call__(
        self, x: Float[Array, " D"], which: Int[Array, " U"] | None = None
    ) -> Float[Array, "P E"]:
        index, places = (a if which is None else jnp.asarray(a)[which] for a in self._places())
        pixels = x[index]
        if not self.positions:
            return pixels
        return jnp.concatenate([pixels, jnp.asarray(places, x.dtype)], axis=1)

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """The pixels of each patch, (P, E), and the row and column of the first, (P, 2)."""
        C = self.image_shape[2] if len(self.image_shape) == 3 else 1
        number = np.arange(self.columns).reshape(*self.image_shape[:2], C)
        windows = np.lib.stride_tricks.sliding_window_view(number, self.patch_shape, axis=(0, 1))
        windows = windows[:: self.stride, :: self.stride]  # rows, columns, C, h, w
        start = np.moveaxis(np.indices(windows.shape[:2]), 0, -1).reshape(-1, 2) * self.stride
        if self.channels == "joint":
            return np.moveaxis(windows, 2, -1).reshape(len(start), -1), start
        chosen = range(C) if self.channels == "pooled" else [int(self.channels)]
        index = [windows[:, :, c].reshape(len(start), -1) for c in chosen]
        return np.concatenate(index), np.tile(start, (len(index), 1))


class Orbit(AbstractParts):
    """Parts that are permutations of the input: flips, turns or shifts of an image, for instance.

    A sum over a group of permutations gives functions that do not change when one of them acts
    on the input. Over other sets functions are less sensitive to them, which `closed=False` says.

    Args:
        permutations: (P, D), each a permutation of the columns: part p is `x[permutations[p]]`.
        closed: whether they are to be a group.

    Raises:
        ValueError: for rows that are no permutations, that repeat each other, or, where they are
            to be a group, whose product is missing.

    References:
        van der Wilk (2018), item 60.
    """

    permutations: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def __init__(self, permutations: Any, *, closed: bool = True):
        given = np.asarray(permutations)
        if given.ndim != 2 or given.size == 0 or given.dtype.kind not in "iu":
            raise ValueError(
                "permutations must be a matrix (P, D) of column numbers, one permutation in each "
                f"row; given shape {given.shape} of {given.dtype}"
            )
        for p, row in enumerate(given):
            if not np.array_equal(np.sort(row), np.arange(given.shape[1])):
                raise ValueError(
                    f"row {p} of permutations has not every number from 0 to "
                    f"{given.shape[1] - 1} once; permutations have the length of an input"
                )
        rows = tuple(tuple(int(i) for i in row) for row in given)
        if len(set(rows)) < len(rows):
            raise ValueError("two rows of permutations are the same: give each of them once")
        if closed:
            _check_closed(rows)
        self.permutations = rows

    @classmethod
    def flips(cls, image_shape: Any) -> "Orbit":
        """An image, H x W or H x W x C, mirrored left to right, upside down, and both."""
        pixels = _pixels(image_shape)
        return cls(_distinct([pixels, pixels[:, ::-1], pixels[::-1], pixels[::-1, ::-1]]))

    @classmethod
    def quarter_turns(cls, image_shape: Any) -> "Orbit":
        """A square image turned by 0, 90, 180 and 270 degrees."""
        pixels = _pixels(image_shape)
        if pixels.shape[0] != pixels.shape[1]:
            raise ValueError(f"a quarter turn needs square images, given {tuple(image_shape)}")
        return cls(_distinct([np.rot90(pixels, k) for k in range(4)]))

    @classmethod
    def shifts(cls, columns: Any) -> "Orbit":
        """All cyclic shifts of a row of columns, by 0, 1, ... places."""
        if not _is_count(columns):
            raise ValueError(f"columns must be a positive whole number, given {columns!r}")
        number = np.arange(columns)
        return cls((number[:, None] + number) % columns)

    @property
    def columns(self) -> int:
        return len(self.permutations[0])

    @property
    def size(self) -> int:
        return len(self.permutations)

    def __call__(
        self, x: Float[Array, " D"], which: Int[Array, " U"] | None = None
    ) -> Float[Array, "P D"]:
        index = np.asarray(self.permutations)
        return x[index if which is None else jnp.asarray(index)[which]]

    def __str__(self) -> str:
        return f"Orbit of {plural(self.size, 'permutation')}"


def _check_closed(rows: tuple[tuple[int, ...], ...]) -> None:
    """Raises ValueError where the product of two permutations is not among them.

    A permutation that is no product of earlier ones is a generator. It is enough to check the
    products of every permutation that is reached with the generators.
    """
    reached: set[tuple[int, ...]] = set()
    makers: list[tuple[int, ...]] = []
    for row in rows:
        if row not in reached:
            makers.append(row)
            _reach([row, *reached], makers, reached, rows)


def _reach(
    fresh: list[tuple[int, ...]],
    makers: list[tuple[int, ...]],
    reached: set[tuple[int, ...]],
    rows: tuple[tuple[int, ...], ...],
) -> None:
    """Adds to `reached` the closure of fresh permutations under products with the makers."""
    known = set(rows)
    reached.update(fresh)
    while fresh:
        left = fresh.pop()
        products = [tuple(left[i] for i in maker) for maker in makers]
        for maker, product in zip(makers, products, strict=True):
            if product not in known:
                raise ValueError(
                    f"permutation {rows.index(left)} after permutation {rows.index(maker)} "
                    "(counted from 0) is not among the permutations, so that they are no group: "
                    "add it, or give closed=False for functions that are only less sensitive to "
                    "them"
                )
        fresh += [product for product in set(products) if product not in reached]
        reached.update(products)


def _pixels(image_shape: Any) -> np.ndarray:
    """The numbers of the pixels of an image."""
    shape = whole_numbers("image_shape", image_shape, (2, 3))
    return np.arange(math.prod(shape)).reshape(shape)


def _distinct(images: list[np.ndarray]) -> np.ndarray:
    """Images of pixel numbers as permutations, each of them once."""
    return np.array(list(dict.fromkeys(tuple(image.ravel().tolist()) for image in images)))


def _is_count(number: Any) -> bool:
    """True for a positive whole number."""
    return is_whole(number) and bool(number >= 1)


def whole_numbers(name: str, numbers: Any, lengths: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers as positive whole ones.

    Raises:
        ValueError: where they are not, or are too many.
    """
    values = tuple(numbers) if np.ndim(numbers) == 1 else ()
    if len(values) not in lengths or not all(map(_is_count, values)):
        count = " or ".join(map(str, lengths))
        raise ValueError(f"{name} must be {count} positive whole numbers, given {numbers!r}")
    return tuple(int(n) for n in values)


def distinct_parts(parts: AbstractParts, X: Any) -> np.ndarray:
    """The distinct parts of some inputs, (U, E), in lexical order.

    Their number limits the rank of the covariance of the inputs (non-universality): with U
    inducing variables, one at each, sparse inference is exact.

    Args:
        parts: what takes inputs apart.
        X: inputs, (N, D).

    Raises:
        ValueError: where inputs have another number of columns, and for values that are NaN or
            infinite, which equal no others.

    References:
        van der Wilk (2018), items 64 and 70.
    """
    given: Any = np.asarray(X)
    check_finite("X", given)
    found = np.asarray(parts.of(X))
    return np.unique(found.reshape(-1, found.shape[-1]), axis=0)
