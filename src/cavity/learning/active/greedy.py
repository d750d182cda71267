"""Sets of rows to measure, chosen greedily: each row lowers the covariances of the others."""

from typing import NamedTuple

import numpy as np

from cavity.learning.active.pool import Pool

# Candidates that are looked at again at a time.
BLOCK = 128


class Gains(NamedTuple):
    """Gains of candidates.

    Attributes:
        value: nats, or variance in squared units of f, (n,).
        fisher: Fisher information of their outputs about the mean of f, (G, L, L, n); None where
            it was not needed.
    """

    value: np.ndarray
    fisher: np.ndarray | None


def gains_alone(pool: Pool, index: np.ndarray, places: np.ndarray, limit: int) -> np.ndarray:
    """Gain of each candidate as the only one, `limit` of them at a time.

    Args:
        pool: the candidates.
        index: which of them.
        places: the reference, for "integrated".
        limit: candidates at a time.
    """
    found = []
    for start in range(0, len(index), limit):
        part = index[start : start + limit]
        cross = pool.across(places, pool.X[part]) if len(places) else None
        found.append(_gains(pool, part, *pool.moments(part), cross).value)
    return np.concatenate(found)


def _gains(
    pool: Pool,
    index: np.ndarray,
    mean: np.ndarray,
    spread: np.ndarray,
    cross: np.ndarray | None,
) -> Gains:
    """Gains of candidates from their moments and covariances with the reference."""
    if pool.criterion == "variance":
        return Gains(pool.weights @ np.einsum("gllk->lk", spread) / len(spread), None)
    information, fisher = pool.values(index, mean, spread)
    if pool.criterion == "information":
        return Gains(information, fisher)
    assert cross is not None
    lowered = np.einsum("glrak,gabk,glrbk->lk", cross, fisher, cross, optimize=True)
    return Gains(pool.weights @ lowered / (len(cross) * cross.shape[2]), fisher)


def chosen_rows(
    pool: Pool, index: np.ndarray, places: np.ndarray, n: int
) -> tuple[list[int], np.ndarray]:
    """Positions of the chosen candidates in `index`, and the gain of each.

    The gain of a candidate falls as others are chosen. Its last computed value is therefore an
    upper bound, and only candidates whose bound reaches the largest gain are evaluated again.

    Args:
        pool: the candidates.
        index: which of them to choose from.
        places: the reference, for "integrated".
        n: how many to choose.

    References:
        Minoux (1978), on lazy evaluation.
    """
    known = _Known(pool, index, places)
    bound, chosen, gains = known.gains(np.arange(len(index))).value, [], []
    for _ in range(n):
        best, gain, fisher = _next(known, bound)
        chosen.append(best)
        gains.append(gain)
        bound[best] = -np.inf
        known.lower(best, fisher)
    return chosen, np.array(gains)


def _next(known: "_Known", bound: np.ndarray) -> tuple[int, float, np.ndarray]:
    """The candidate that adds most, its gain and Fisher information; bounds are sharpened."""
    order = np.argsort(-bound, kind="stable")
    order = order[np.isfinite(bound[order])]
    best, most, fisher = -1, -np.inf, None
    for start in range(0, len(order), BLOCK):
        at = order[start : start + BLOCK]
        if bound[at[0]] <= most:
            break
        found = known.gains(at)
        bound[at] = found.value
        first = int(np.argmax(found.value))
        if found.value[first] > most:
            best, most = int(at[first]), float(found.value[first])
            fisher = None if found.fisher is None else found.fisher[..., first]
    return best, most, known.fisher(best) if fisher is None else fisher


class _Known:
    """Covariances of candidates given the outputs of those that were chosen.

    They are those before, less the squares of `lowering`, a column for each function of each
    chosen row.
    """

    def __init__(self, pool: Pool, index: np.ndarray, places: np.ndarray):
        X = pool.X[index]
        self.pool, self.index = pool, index
        self.mean, spread = pool.moments(index)
        self.spread = spread.copy()
        self.before = pool.across(np.concatenate([X, places]), X)
        self.lowering = np.zeros((*self.before.shape[:3], 0), self.before.dtype)

    def gains(self, at: np.ndarray) -> Gains:
        """Current gains of some candidates."""
        cross = None
        if self.pool.criterion == "integrated":
            cross = self._columns(at, slice(len(self.index), None))
        return _gains(self.pool, self.index[at], self.mean[..., at], self.spread[..., at], cross)

    def fisher(self, best: int) -> np.ndarray:
        """Fisher information of a candidate's output, (G, L, L)."""
        at = slice(best, best + 1)
        found = self.pool.values(self.index[at], self.mean[..., at], self.spread[..., at])
        return found[1][..., 0]

    def lower(self, best: int, fisher: np.ndarray) -> None:
        """Subtracts the reduction of covariance by a candidate's output, c J cᵀ with its own c."""
        values, vectors = np.linalg.eigh(fisher)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
        c = self._columns(np.array([best]), slice(None))[..., 0]
        more = np.einsum("glna,gab->glnb", c, root)
        own = more[:, :, : len(self.index)]
        self.spread -= np.einsum("glna,gmna->glmn", own, own)
        self.lowering = np.concatenate([self.lowering, more], axis=3)

    def _columns(self, at: np.ndarray, rows: slice) -> np.ndarray:
        """Covariances of some rows with some candidates, (G, L, n, L, m)."""
        left, right = self.lowering[:, :, rows], self.lowering[:, :, at]
        return self.before[:, :, rows][..., at] - np.einsum(
            "glrt,gmkt->glrmk", left, right, optimize=True
        )
