"""Initial private sites at a new point: extrapolated from those at the last points."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import Sites
from cavity.learning.progress.checkpoint import State, leaves, refilled
from cavity.numerics.types import Array

# Points that are remembered, and numbers that their sites have at the most; two are in any case.
DEPTH, MOST = 8, 2**25
# The ridge of the least squares, as a share of the mean squared distance of those points.
RIDGE = 1e-4
# How much any number of a site may change, as a share of it.
LARGEST_CHANGE = 0.5


class WarmStart:
    r"""Sites as a function of the point, by least squares from the last points.

    With $\gamma$ the weights by which the moves from the last point $x_0$ to the earlier ones
    come nearest to the move to a new point, the sites there begin at
    $s_0 + \sum_i \gamma_i (s_i - s_0)$. A search makes small moves within few directions, so
    that this is nearer to the fixed point than $s_0$.
    """

    def __init__(self) -> None:
        self.points: deque[tuple[np.ndarray, Sites]] = deque(maxlen=DEPTH)

    def add(self, x: np.ndarray, sites: Sites) -> None:
        """Remembers the sites of a point."""
        self.points.append((np.array(x), sites))
        size = sum(leaf.size for leaf in jax.tree.leaves(sites))
        while len(self.points) > max(MOST // max(size, 1), 2):
            self.points.popleft()

    @property
    def last(self) -> Sites | None:
        """The sites of the last point; None before there is one."""
        return self.points[-1][1] if self.points else None

    def at(self, x: np.ndarray) -> Sites:
        """Initial sites at a point, after at least one other."""
        *earlier, (origin, last) = self.points
        if not earlier:
            return last
        moves = np.stack([point - origin for point, _ in earlier])
        gram = moves @ moves.T
        scale = float(np.mean(np.diagonal(gram)))
        if not scale > 0.0:
            return last
        gram += RIDGE * scale * np.eye(len(gram))
        weights = np.linalg.solve(gram, moves @ (x - origin))

        def extrapolated(now: Array, *before: Array) -> Array:
            old = np.asarray(now)
            change = sum(w * (np.asarray(b) - old) for w, b in zip(weights, before, strict=True))
            limit = LARGEST_CHANGE * np.abs(old)
            return jnp.asarray(old + np.clip(change, -limit, limit), old.dtype)

        return jax.tree.map(extrapolated, last, *(sites for _, sites in earlier))

    def forget(self) -> None:
        """Forgets all points."""
        self.points.clear()

    def state(self) -> list[State]:
        """The points and their sites, as a tree that can be saved."""
        return [{"x": point, "sites": leaves(sites)} for point, sites in self.points]

    def restore(self, state: list[State], like: Sites) -> None:
        """Restores the points and sites that were saved.

        Args:
            state: what was saved.
            like: sites of the same structure.
        """
        self.forget()
        for entry in state:
            self.add(np.asarray(entry["x"]), refilled(like, entry["sites"]))
