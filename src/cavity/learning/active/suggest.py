"""Active learning: which rows to measure next, chosen one after the other."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.learning.active.row_values import row_values
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.result import Inference
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.predictive.base import Side
from cavity.likelihoods.support import Support
from cavity.models.posterior import Posterior, covariance_between_rows
from cavity.numerics.chunking import padded_size
from cavity.numerics.text import plural

CRITERIA = ("information", "variance", "integrated")
# Values of latent functions whose joint covariance is held, of candidates and of the reference.
JOINT = 1024
# Rows whose values are computed at a time.
ROWS = 512


@dataclasses.dataclass(frozen=True)
class Suggestions:
    """Rows to measure next, in the order chosen.

    Attributes:
        rows: numbers of the chosen rows among the candidates, counted from 0.
        gains: what each adds to those before it: nats of information, or variance in squared
            units of f.
        criterion: by which they were chosen.
        message: what was left out or replaced, in sentences; empty where nothing was.
    """

    rows: np.ndarray
    gains: np.ndarray
    criterion: str
    message: str = ""


def suggest(
    posterior: Any,
    candidates: ArrayLike,
    n: Any = 10,
    criterion: str = "information",
    reference: ArrayLike | None = None,
    rows: Mapping[str, ArrayLike] | None = None,
) -> Suggestions:
    r"""Active learning: the candidate rows whose outputs would tell most, chosen greedily.

    After each choice the row enters by the site that it is expected to have, which lowers the
    joint covariance of the others: from $\mathbf C$ to $\mathbf C - \mathbf c J \mathbf c^\top$,
    with J the Fisher information of the row's output about the mean of f. Means stay. With
    Gaussian noise that is exact, for other outputs it is the expected covariance.

    Args:
        posterior: of a `GP`; or the result that it is of.
        candidates: inputs of the rows that could be measured, (n, D).
        n: how many to choose.
        criterion: "information", the mutual information of y and f at the row; "variance", the
            variance of f there; "integrated", by how much the row lowers the mean variance of f
            over the reference. Variances are means over outputs; of several latent functions
            of one output they are of the first, of classes means over all.
        reference: inputs where f matters, for "integrated"; the candidates where it is None.
        rows: side data of the candidates, as in `posterior.predict`.

    Returns:
        The chosen rows and their gains. Equal candidates are chosen once.

    Raises:
        ValueError: for inputs that do not suit the model, n below 1, and an unknown criterion.
        TypeError: for a posterior without a joint Gaussian distribution of f.

    Example:
        >>> import numpy as np, cavity
        >>> from cavity import kernels, likelihoods
        >>> X = np.array([[0.0], [1.0]], np.float32)
        >>> model = cavity.GP(kernels.RBF(), likelihoods.Gaussian(0.1))
        >>> result = cavity.infer(model, X, np.sin(X[:, 0]))
        >>> cavity.suggest(result, np.array([[0.1], [3.0], [0.9]], np.float32), n=1).rows.tolist()
        [1]

    References:
        Bui (2017), S52; Houlsby et al. (2011); Cohn et al. (1996).
    """
    if isinstance(posterior, Inference):
        posterior = posterior.posterior
    check_joint(posterior)
    if criterion not in CRITERIA:
        raise ValueError(f"criterion is one of {', '.join(CRITERIA)}, given {criterion!r}")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n is how many rows to choose, a whole number from 1 on, given {n!r}")
    if reference is not None and criterion != "integrated":
        raise ValueError(f"a reference is for 'integrated', not for {criterion!r}: leave it out")
    X, side = posterior.checked(candidates, rows)
    if "slope_of" in side:
        raise ValueError("values of the function are suggested, not slopes: leave slope_of out")
    places = None if reference is None else np.asarray(posterior.checked_inputs(reference))
    with one_blas_thread():
        pool = _Pool(posterior, np.asarray(X), side, criterion)
        return _choose(pool, int(n), places)


@functools.singledispatch
def check_joint(posterior: object) -> None:
    """Raises TypeError unless f has a joint Gaussian distribution that rows can lower."""
    raise TypeError(
        "rows are suggested by the joint Gaussian posterior of a cavity.GP, given "
        f"{type(posterior).__name__}: infer or fit a GP to the same data (not by MCMC, and "
        "without hidden layers or latent inputs) and give its posterior"
    )


@check_joint.register
def _(posterior: Posterior) -> None:
    """Of a GP it has one."""


class _Pool(NamedTuple):
    """Candidates and what they are judged by."""

    posterior: Posterior
    X: np.ndarray
    side: Side
    criterion: str

    @property
    def likelihood(self) -> AbstractLikelihood:
        return self.posterior.model.likelihood

    @property
    def latents(self) -> int:
        return self.likelihood.latents

    @property
    def weights(self) -> np.ndarray:
        """The share of each latent function in a variance."""
        share = np.zeros(self.latents)
        share[0] = 1.0
        if self.likelihood.support is Support.LABELS:
            share[:] = 1.0 / self.latents
        return share

    def distinct(self) -> np.ndarray:
        """The first of all equal rows."""
        table = np.column_stack([self.X, *(np.asarray(v) for v in self.side.values())])
        return np.sort(np.unique(table, axis=0, return_index=True)[1])

    def moments(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (G, L, n), and covariances (G, L, L, n) of the functions of each output."""
        mean, spread = self.posterior.moments_at(jnp.asarray(self.X[index]))
        mean, spread = np.asarray(mean), np.asarray(spread)
        if self.latents == 1:
            return mean.T[:, None], spread.T[:, None, None]
        if spread.ndim == 2:
            spread = spread[:, :, None] * np.eye(self.latents, dtype=spread.dtype)
        return mean.T[None], np.moveaxis(spread, 0, 2)[None]

    def covariance(self, X: np.ndarray) -> np.ndarray:
        """Covariances between rows, (G, L, n, L, n)."""
        cov = np.asarray(covariance_between_rows(self.posterior, jnp.asarray(X)))
        if self.latents == 1:
            return cov[:, None, :, None]
        if cov.ndim == 3:
            count, size = cov.shape[:2]
            whole = np.zeros((count, size, count, size), cov.dtype)
            for i, own in enumerate(cov):
                whole[i, :, i] = own
            cov = whole
        return cov[None]

    def values(
        self, index: np.ndarray, mean: np.ndarray, spread: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Information (n,), and Fisher information (G, L, L, n)."""
        parts = [
            self._values(index[i : i + ROWS], mean[..., i : i + ROWS], spread[..., i : i + ROWS])
            for i in range(0, len(index), ROWS)
        ]
        information, fisher = (np.concatenate(p, axis=-1) for p in zip(*parts, strict=True))
        return np.sum(information, axis=0), fisher

    def _values(
        self, index: np.ndarray, mean: np.ndarray, spread: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        count, size = len(index), min(padded_size(len(index)), ROWS)
        more = [(0, size - count)]
        mean = np.pad(mean, [(0, 0)] * 2 + more, mode="edge")
        spread = np.pad(spread, [(0, 0)] * 3 + more, mode="edge")
        side = {k: np.pad(np.asarray(v)[index], more, mode="edge") for k, v in self.side.items()}
        # a variance of zero has no Gaussian
        own = np.arange(self.latents)
        least = np.finfo(mean.dtype).eps * max(float(np.max(spread)), np.finfo(mean.dtype).tiny)
        spread[:, own, own] = np.maximum(spread[:, own, own], least)
        if self.latents == 1:
            outputs = (size, len(mean))
            side = {k: jnp.asarray(np.broadcast_to(v[:, None], outputs)) for k, v in side.items()}
            found = row_values(
                self.likelihood, jnp.asarray(mean[:, 0].T), jnp.asarray(spread[:, 0, 0].T), side
            )
            information = np.asarray(found.information).T
            fisher = np.moveaxis(np.asarray(found.fisher), 3, 0)
        else:
            cov = spread[0] if self.likelihood.support is Support.LABELS else spread[0, own, own]
            side = {k: jnp.asarray(v) for k, v in side.items()}
            found = row_values(self.likelihood, jnp.asarray(mean[0]), jnp.asarray(cov), side)
            information, fisher = (np.asarray(x)[None] for x in found)
        return information[:, :count], fisher[..., :count]


def _choose(pool: _Pool, n: int, places: np.ndarray | None) -> Suggestions:
    index, said = pool.distinct(), []
    if n > len(index):
        said.append(f"There are {plural(len(index), 'distinct candidate')}: all are returned.")
    n, limit = min(n, len(index)), max(JOINT // pool.latents, 16)
    if pool.criterion == "integrated":
        places = pool.X if places is None else places
        if len(places) > limit:
            said.append(f"{limit} of {len(places)} rows stand for the reference.")
            places = places[np.linspace(0, len(places) - 1, limit).round().astype(int)]
    else:
        places = pool.X[:0]
    if len(index) > max(limit, n):
        keep = max(limit, n)
        said.append(
            f"The {keep} of {len(index)} candidates with the largest gains alone were compared."
        )
        gains = _gains_alone(pool, index, places, limit)
        index = np.sort(index[np.argsort(-gains, kind="stable")[:keep]])
    chosen, gains = _greedy(pool, index, places, n)
    return Suggestions(index[chosen], gains, pool.criterion, " ".join(said))


def _gains_alone(pool: _Pool, index: np.ndarray, places: np.ndarray, limit: int) -> np.ndarray:
    """What each candidate would add as the only one."""
    found = []
    for start in range(0, len(index), limit):
        part = index[start : start + limit]
        mean, spread = pool.moments(part)
        cross = None
        if pool.criterion == "integrated":
            joint = pool.covariance(np.concatenate([pool.X[part], places]))
            cross = joint[:, :, len(part) :, :, : len(part)]
        found.append(_gains(pool, part, mean, spread, cross)[0])
    return np.concatenate(found)


def _gains(
    pool: _Pool,
    index: np.ndarray,
    mean: np.ndarray,
    spread: np.ndarray,
    cross: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """The gain of each candidate, and its Fisher information where that was needed."""
    if pool.criterion == "variance":
        variances = np.einsum("gllk->lk", spread) / len(spread)
        return pool.weights @ variances, None
    information, fisher = pool.values(index, mean, spread)
    if pool.criterion == "information":
        return information, fisher
    assert cross is not None
    lowered = np.einsum("glrak,gabk,glrbk->lk", cross, fisher, cross, optimize=True)
    return pool.weights @ lowered / (len(cross) * cross.shape[2]), fisher


def _greedy(
    pool: _Pool, index: np.ndarray, places: np.ndarray, n: int
) -> tuple[list[int], np.ndarray]:
    """Places of the chosen candidates in `index`, and what each adds."""
    count = len(index)
    C = pool.covariance(np.concatenate([pool.X[index], places])).copy()
    mean, _ = pool.moments(index)
    own = np.arange(count)
    left, chosen, gains = np.ones(count, bool), [], []
    for _ in range(n):
        spread = np.moveaxis(C[:, :, own, :, own], 0, 3)
        cross = C[:, :, count:, :, :count] if len(places) else None
        gain, fisher = _gains(pool, index, mean, spread, cross)
        best = int(np.argmax(np.where(left, gain, -np.inf)))
        chosen.append(best)
        gains.append(float(gain[best]))
        left[best] = False
        at = slice(best, best + 1)
        if fisher is None:
            _, fisher = pool.values(index[at], mean[..., at], spread[..., at])
            J = fisher[..., 0]
        else:
            J = fisher[..., best]
        C -= lowered_by(C[:, :, :, :, best], J)
    return chosen, np.array(gains)


def lowered_by(c: np.ndarray, J: np.ndarray) -> np.ndarray:
    """What a row takes off the covariances, (G, L, n, L, n): c J cᵀ of c (G, L, n, L)."""
    return np.einsum("glna,gab,gkmb->glnkm", c, J, c, optimize=True)
