"""Candidates of active learning, and what their posterior says of them."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from cavity.learning.active.row_values import row_values
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.predictive.base import Side
from cavity.likelihoods.support import Support
from cavity.models.covariance_across import covariance_across_rows
from cavity.models.posterior import Posterior
from cavity.numerics.chunking import padded_size

# Rows whose values are computed at a time.
ROWS = 512


class Pool(NamedTuple):
    """Candidates, with the posterior and the criterion that they are chosen by."""

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

    def across(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Covariances between rows of X and of Z, (G, L, n, L, m)."""
        padded = (jnp.asarray(_padded(x, padded_size(len(x)))) for x in (X, Z))
        cov = np.asarray(covariance_across_rows(self.posterior, *padded))
        if cov.ndim == 4:
            return cov[None, :, : len(X), :, : len(Z)]
        cov = cov[:, : len(X), : len(Z)]
        if self.latents == 1:
            return cov[:, None, :, None]
        count = len(cov)
        whole = np.zeros((count, len(X), count, len(Z)), cov.dtype)
        whole[np.arange(count), :, np.arange(count)] = cov
        return whole[None]

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


def _padded(X: np.ndarray, size: int) -> np.ndarray:
    """Rows of an often used number, the last one repeated."""
    return np.pad(X, [(0, size - len(X)), (0, 0)], mode="edge") if len(X) else X
