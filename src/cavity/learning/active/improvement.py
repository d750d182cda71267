r"""Improvement on the best of the rows that were measured, on the scale of logarithms.

Outputs are noisy, so that nobody knows which row is the best. The function at the rows that were
measured is therefore drawn from the posterior, and improvement is averaged over the draws. Given
a draw, whose least value is b, the function at a candidate has a mean m and a deviation s. The
expected improvement is $s\, h(z)$, with $z = (b - m) / s$ and

$$h(z) = \varphi(z) + z\, \Phi(z).$$

Far from the best it is too small for any floating-point number, so that all candidates would be
alike. Its logarithm is not. A row that was measured cannot improve on itself, and a chosen row
counts as measured for those after it.
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from cavity.inference.graph.rows import SLOPES
from cavity.learning.active.pool import Pool
from cavity.learning.data.training_data import Data
from cavity.likelihoods.support import Support
from cavity.models.posterior import Posterior
from cavity.numerics.qmc import normal_points

GOALS = ("minimise", "maximise")
# Rows whose values are drawn, those that may be the best, and draws.
KNOWN, DRAWS = 128, 512
# Below the first a difference of erfcx from its limit is taken, below the second a series.
TAIL, FAR = -1.0, -30.0
SMALLEST = np.finfo(float).tiny ** 0.5
LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


class Drawn(NamedTuple):
    """Draws of the function at rows that are known, with its sign so that large is good.

    Attributes:
        X: inputs of these rows, (k, D).
        points: standard normal numbers of the draws, (S, d).
        roots: for covariances with these rows those with the numbers, (k, d).
        best: the largest value in each draw, (S,).
        sign: of the function.
        least: the least variance that counts, which is what rounding leaves.
    """

    X: np.ndarray
    points: np.ndarray
    roots: np.ndarray
    best: np.ndarray
    sign: float
    least: float

    def log_improvement(
        self, mean: np.ndarray, variance: np.ndarray, cross: np.ndarray
    ) -> np.ndarray:
        """Log expected improvement of candidates, averaged over the draws, (n,).

        Args:
            mean: means of the function, (n,).
            variance: its variances, (n,).
            cross: its covariances with the known rows, (k, n).
        """
        from scipy.special import logsumexp

        told = cross.T @ self.roots
        deviation = np.sqrt(np.maximum(variance - np.sum(told**2, axis=1), self.least))
        means = self.sign * mean + self.points @ told.T
        each = log_h((means - self.best[:, None]) / deviation)
        return logsumexp(each, axis=0) - math.log(len(each)) + np.log(deviation)


def log_h(z: np.ndarray) -> np.ndarray:
    r"""$\log h(z)$, $h(z) = \varphi(z) + z\, \Phi(z)$, to nearly all digits for any z.

    References:
        Ament et al. (2023).
    """
    from scipy.special import erfcx, ndtr

    near, middle = np.maximum(z, TAIL), np.clip(z, FAR, TAIL)
    far = np.minimum(z, FAR)
    above = np.log(np.exp(-0.5 * near**2 - LOG_ROOT_2PI) + near * ndtr(near))
    scaled = -middle * math.sqrt(0.5 * math.pi) * erfcx(-middle * math.sqrt(0.5))
    below = -0.5 * middle**2 - LOG_ROOT_2PI + np.log1p(-scaled)
    u = far**-2.0
    # the next term is 135135 u^6, below 3e-13
    series = u * (-3.0 + u * (15.0 + u * (-105.0 + u * (945.0 - 10395.0 * u))))
    tail = -0.5 * far**2 - LOG_ROOT_2PI - 2.0 * np.log(-far) + np.log1p(series)
    return np.where(z > TAIL, above, np.where(z > FAR, below, tail))


def check_sought(posterior: Posterior, goal: str | None) -> None:
    """Raises ValueError where nothing can be improved on, or for an unknown goal."""
    if goal not in (None, *GOALS):
        raise ValueError(f"goal is {' or '.join(GOALS)}, given {goal!r}")
    likelihood = posterior.model.likelihood
    if likelihood.support is Support.LABELS:
        raise ValueError(
            "improvement is of a number that is to be small or large, and the outputs of this "
            "model are labels: choose by information, variance or integrated"
        )
    if likelihood.latents == 1 and posterior.outputs > 1:
        raise ValueError(
            f"improvement is of one output, and this model has {posterior.outputs}: fit a model "
            "of the one that is to be small or large"
        )


def improving_rows(
    pool: Pool, index: np.ndarray, measured: np.ndarray, n: int, goal: str | None, limit: int
) -> tuple[list[int], np.ndarray]:
    """Positions of the chosen candidates in `index`, and the gain of each.

    Args:
        pool: the candidates.
        index: which of them to choose from.
        measured: inputs of the rows that were measured.
        n: how many to choose.
        goal: one of GOALS; None for the first of them.
        limit: candidates at a time.
    """
    X, sign = pool.X[index], 1.0 if goal == "maximise" else -1.0
    mean, variance = _moments(pool, X)
    measured = np.unique(measured, axis=0)  # draws are those of the order
    left = np.ones(len(index), bool)
    chosen, gains = [], []
    while len(chosen) < n:
        drawn = _drawn(pool, np.concatenate([measured, X[chosen]]), sign)
        values = np.concatenate(
            [
                drawn.log_improvement(mean[part], variance[part], _across(pool, drawn.X, X[part]))
                for part in (slice(i, i + limit) for i in range(0, len(X), limit))
            ]
        )
        best = int(np.argmax(np.where(left, values, -np.inf)))
        left[best] = False
        chosen.append(best)
        gains.append(values[best])
    return chosen, np.array(gains)


def unmeasured(pool: Pool, index: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Those of the candidates that were not measured: others cannot improve on themselves.

    Raises:
        ValueError: where none is left.
    """
    known = set(map(bytes, np.ascontiguousarray(measured, pool.X.dtype) + 0.0))
    left = [i for i in index if bytes(np.ascontiguousarray(pool.X[i]) + 0.0) not in known]
    if not left:
        raise ValueError(
            "every candidate was measured already, and cannot improve on itself: give candidates "
            "at other inputs, or choose by information"
        )
    return np.array(left)


def _drawn(pool: Pool, X: np.ndarray, sign: float) -> Drawn:
    """Draws of the function at the rows that may be the best of those given."""
    mean, variance = _moments(pool, X)
    hopes = sign * mean + 2.0 * np.sqrt(variance)
    may_be = np.sort(np.argsort(-hopes, kind="stable")[:KNOWN])
    X, mean, variance = X[may_be], sign * mean[may_be], variance[may_be]
    cov = _across(pool, X, X)
    values, vectors = np.linalg.eigh(0.5 * (cov + cov.T))
    least = float(np.finfo(pool.X.dtype).eps * np.max(variance))
    counts = values > len(values) * least
    values, vectors = values[counts], vectors[:, counts]
    # the first numbers of quasi-random points are the best, and are for what varies most
    points = normal_points(len(values), DRAWS)[:, ::-1] if len(values) else np.zeros((1, 0))
    best = np.max(mean + points @ (vectors * np.sqrt(values)).T, axis=1)
    return Drawn(X, points, vectors / np.sqrt(values), best, sign, max(least, SMALLEST))


def _moments(pool: Pool, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of the function, the first where an output has several."""
    mean, spread = (np.asarray(a, float) for a in pool.posterior.moments_at(jnp.asarray(X)))
    return mean[:, 0], spread[:, 0]


def _across(pool: Pool, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Covariances of the function between rows of X and of Z, (n, m)."""
    return np.asarray(pool.across(X, Z)[0, 0, :, 0], float)


def measured_rows(posterior: Posterior, data: Data | None) -> np.ndarray:
    """Inputs of the rows that a posterior is of.

    Args:
        posterior: of a GP.
        data: the rows, where a result holds them; those of a stream are the last ones alone.

    Raises:
        ValueError: where neither holds any.
    """
    if data is not None and data.past is None:
        rows = data.rows
        x, seen = (np.asarray(a) for a in (rows.x, rows.presence))
        seen = np.any(seen > 0.0, axis=-1)
        if SLOPES in rows.side:
            seen = seen & (np.asarray(rows.side[SLOPES]) < 0.0).reshape(seen.shape)
        if np.any(seen):
            return x[seen]
    if posterior.process.rows is not None:
        return np.asarray(posterior.process.rows)
    raise ValueError(
        "improvement is on the best of the rows that were measured, which this posterior does "
        "not hold: give their inputs as the reference"
    )
