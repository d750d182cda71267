"""Warped images as parts: turned, moved, scaled and sheared within ranges that are learned."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from cavity.kernels.parts import AbstractImageParts, whole_numbers
from cavity.numerics.qmc import golden_points
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Float, Int
from cavity.parameters import positive


class Warps(AbstractImageParts):
    r"""An image under S transformations, fixed ones, within ranges that are learned.

    `kernels.SumOver(Warps(...), base)` is the kernel of functions that change little when an
    image is transformed within the ranges: the larger they are, the less. The evidence chooses
    them, for they are parameters as others are. Transformation s takes the share $u_s$ of each
    range, $-1 < u_s < 1$, and these shares are quasi-random and do not change: the kernel is a
    finite sum and is exact. Twice as many should give the same results; where they do not, S is
    too small. Experimental.

    The base kernel sees S whole images. They are interpolated between four pixels, and pixels
    beyond the border are 0. An image is sheared, scaled and turned about its centre, then moved.
    Ranges of 0 give the image S times, and a kernel of S² times the base kernel: sums are not
    divided by S. Ranges are learned on a logarithmic scale, so that models need ranges above 0:
    leave out those that are not to be used.

    Args:
        image_shape: (H, W), or (H, W, C) with C channels, in rows as those of `Patches`.
        rotation: turns by up to this, in degrees, to both sides; 180 is every direction. None,
            here and below, for a transformation that is not made.
        shift: moves by up to this, in pixels, along rows and along columns.
        scale: lengths times up to exp(`scale`), or divided by it.
        shear: columns move by up to this, in pixels, for each row from the centre.
        count: S, the number of transformations.

    Raises:
        ValueError: where no range is given, for ranges that are no number of 0 or more, and for
            shapes and counts that are no positive whole numbers.

    References:
        van der Wilk (2018), section 7.3; van der Wilk, Bauer, John and Hensman (2018), Learning
        invariances using the marginal likelihood, who draw transformations anew at each step.
    """

    image_shape: tuple[int, ...] = eqx.field(static=True)
    count: int = eqx.field(static=True)
    rotation: Float[Array, ""] | None = positive(optional=True)
    shift: Float[Array, ""] | None = positive(optional=True)
    scale: Float[Array, ""] | None = positive(optional=True)
    shear: Float[Array, ""] | None = positive(optional=True)

    def __init__(
        self,
        image_shape: Any,
        *,
        rotation: Any = None,
        shift: Any = None,
        scale: Any = None,
        shear: Any = None,
        count: Any = 16,
    ):
        ranges = {"rotation": rotation, "shift": shift, "scale": scale, "shear": shear}
        if all(value is None for value in ranges.values()):
            raise ValueError(
                "no range is given, so that there is nothing to sum over: give rotation, shift, "
                "scale or shear, such as rotation=20.0"
            )
        for name, value in ranges.items():
            _check_range(name, value)
        self.image_shape = whole_numbers("image_shape", image_shape, (2, 3))
        (self.count,) = whole_numbers("count", [count], (1,))
        self.rotation, self.shift, self.scale, self.shear = rotation, shift, scale, shear

    def __str__(self) -> str:
        return f"{plural(self.count, 'Warp')} of an image {self.image_shape}"

    @property
    def size(self) -> int:
        return self.count

    @property
    def countable(self) -> bool:
        return False

    def shares(self) -> np.ndarray:
        """The share of its range that each transformation takes, from -1 to 1, (S, 5).

        Columns are rotation, shift along rows, shift along columns, scale and shear. The first
        that is used has evenly spaced shares, the others follow a golden-ratio sequence.
        """
        ranges = (self.rotation, self.shift, self.shift, self.scale, self.shear)
        used = [i for i, value in enumerate(ranges) if value is not None]
        even = (np.arange(self.count)[:, None] + 0.5) / self.count
        found = np.zeros((self.count, len(ranges)))
        found[:, used] = np.concatenate([even, golden_points(self.count, len(used) - 1)], axis=1)
        return np.where(np.isin(np.arange(len(ranges)), used), 2.0 * found - 1.0, 0.0)

    def __call__(
        self, x: Float[Array, " D"], which: Int[Array, " U"] | None = None
    ) -> Float[Array, "P D"]:
        H, W = self.image_shape[:2]
        x = 1.0 * x  # of images in whole numbers, too
        row, column = self._sources(x.dtype)
        if which is not None:
            row, column = row[which], column[which]
        pixels = x.reshape(H * W, -1)
        found = jnp.zeros((), x.dtype)
        for i, weight_i in _neighbours(row, H):
            for j, weight_j in _neighbours(column, W):
                found = found + (weight_i * weight_j)[..., None] * pixels[i * W + j]
        return found.reshape(row.shape[0], -1)

    def _sources(self, dtype: Any) -> tuple[Float[Array, "S Q"], Float[Array, "S Q"]]:
        """Row and column of the image that every pixel of each part comes from."""
        shares = jnp.asarray(self.shares(), dtype).T[..., None]
        angle = _times(self.rotation, shares[0]) * (np.pi / 180.0)
        zoom = jnp.exp(-_times(self.scale, shares[3]))
        (H, W), middle = self.image_shape[:2], [(n - 1) / 2.0 for n in self.image_shape[:2]]
        place = np.indices((H, W)).reshape(2, 1, -1)
        row = place[0] - middle[0] - _times(self.shift, shares[1])
        column = place[1] - middle[1] - _times(self.shift, shares[2])
        cosine, sine = zoom * jnp.cos(angle), zoom * jnp.sin(angle)
        row, column = cosine * row + sine * column, cosine * column - sine * row
        column = column - _times(self.shear, shares[4]) * row
        return row + middle[0], column + middle[1]


def _times(extent: Array | None, shares: Array) -> Array:
    """Parameters of each transformation: its share of the range, zeros where there is none."""
    return jnp.zeros_like(shares) if extent is None else jnp.asarray(extent) * shares


def _neighbours(place: Array, size: int) -> list[tuple[Array, Array]]:
    """The pixels before and after places along an axis, and their weights: 0 beyond the border."""
    before = jnp.floor(place)
    after = place - before
    return [
        (
            jnp.clip(number, 0, size - 1).astype(jnp.int32),
            jnp.where((number >= 0) & (number < size), weight, 0.0),
        )
        for number, weight in ((before, 1.0 - after), (before + 1.0, after))
    ]


def _check_range(name: str, value: Any) -> None:
    if value is None or isinstance(value, Tracer):
        return
    given = np.asarray(value)
    number = given.shape == () and given.dtype.kind in "fiu"
    if not number or not 0.0 <= float(given) < np.inf:
        raise ValueError(
            f"{name} must be a number of 0 or more, or None for no such transformation; given "
            f"{value!r}"
        )
