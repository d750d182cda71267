"""Rows to latent points and back, in the units of the data, from the posterior of a GPLVM."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from cavity.learning.data.scales import CONSTANT
from cavity.learning.double_precision import in_double
from cavity.likelihoods.predictive.base import AbstractPredictive
from cavity.likelihoods.support import Support
from cavity.models.latent.posterior import LatentPosterior
from cavity.numerics.text import plural

# Rows that are reconstructed at a time.
ROWS = 256


class Gaussians(NamedTuple):
    """Means and standard deviations, entry by entry."""

    mean: np.ndarray
    std: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Standardised:
    """Columns about their means, in units of their scales.

    Attributes:
        mean: the mean of each column, (P,).
        scale: the unit of each column, (P,); zero for a column that is constant and has no part
            in the model.
    """

    mean: np.ndarray
    scale: np.ndarray

    @property
    def varying(self) -> np.ndarray:
        """The columns that the model has, (P,)."""
        return self.scale > 0.0

    def forward(self, Y: np.ndarray) -> np.ndarray:
        """The columns (..., P) that vary, standardised."""
        chosen = self.varying
        return (Y[..., chosen] - self.mean[chosen]) / self.scale[chosen]

    def back(self, values: Gaussians) -> Gaussians:
        """All columns in the units of the data; constant ones at their value."""
        shape = (*values.mean.shape[:-1], len(self.mean))
        mean, std = np.array(np.broadcast_to(self.mean, shape)), np.zeros(shape)
        chosen = self.varying
        mean[..., chosen] += values.mean * self.scale[chosen]
        std[..., chosen] = values.std * self.scale[chosen]
        return Gaussians(mean, std)


def standardised(Y: np.ndarray, support: Support, *, each: bool) -> Standardised:
    """Standardisation of columns before a model is fitted to them.

    Values that are not real numbers have no unit to be divided by, and stay as they are.

    Args:
        Y: the columns, (N, P), NaN where missing.
        support: what values may be.
        each: whether each column is divided by its own standard deviation; otherwise all are
            divided by the root mean square of these.
    """
    columns = Y.shape[1]
    if support is not Support.REAL:
        return Standardised(np.zeros(columns), np.ones(columns))
    mean, spread = np.nanmean(Y, axis=0), np.nanstd(Y, axis=0)
    varying = spread > CONSTANT * np.nanmax(np.abs(Y), axis=0)
    if not each and np.any(varying):
        spread = np.full(columns, np.sqrt(np.mean(spread[varying] ** 2)))
    return Standardised(mean, np.where(varying, spread, 0.0))


@dataclasses.dataclass(frozen=True, eq=False)
class LatentMap:
    """A fitted latent-variable model and the standardisation of its columns.

    Latent dimensions are in decreasing order of relevance.

    Attributes:
        posterior: of the standardised columns that vary.
        columns: how they are standardised.
    """

    posterior: LatentPosterior
    columns: Standardised

    @property
    @in_double
    def relevance(self) -> np.ndarray:
        """Share of each latent dimension in the variation of the functions, (Q,), decreasing."""
        relevance = np.asarray(self.posterior.relevance)
        return np.sort(relevance)[::-1]

    @property
    @in_double
    def order(self) -> np.ndarray:
        """The dimensions of the posterior in decreasing order of relevance."""
        return np.argsort(-np.asarray(self.posterior.relevance), kind="stable")

    @property
    def latent(self) -> Gaussians:
        """The latent inputs of the rows of the fit, (N, Q)."""
        mean, var = map(np.asarray, self.posterior.latent)
        order = self.order
        return Gaussians(mean[:, order], np.sqrt(var[:, order]))

    @in_double
    def transform(self, Y: np.ndarray) -> Gaussians:
        """The latent inputs of rows, (n, Q).

        Args:
            Y: rows in the units of the data, (n, P), NaN where missing.
        """
        mean, var = map(np.asarray, self.posterior.transform(self.columns.forward(Y)))
        order = self.order
        return Gaussians(mean[:, order], np.sqrt(var[:, order]))

    @in_double
    def at(self, X: np.ndarray) -> Gaussians:
        """Predictions of all columns at latent points, noise included, (n, P).

        Args:
            X: latent points, (n, Q).
        """
        natural = np.empty_like(X)
        natural[:, self.order] = X
        return self._predicted(natural, self.posterior.predict)

    @in_double
    def reconstruct(self, Y: np.ndarray) -> Gaussians:
        """Predictions of all columns of rows from those that are observed, (n, P).

        Args:
            Y: rows in the units of the data, (n, P), NaN where missing.
        """
        return self._predicted(self.columns.forward(Y), self.posterior.reconstruct)

    @in_double
    def log_density(self, Y: np.ndarray) -> np.ndarray:
        """Lower bounds of the log densities of rows at their observed entries, (n,), in nats.

        Constant columns do not count.

        Args:
            Y: rows in the units of the data, (n, P), NaN where missing.
        """
        standard = self.columns.forward(Y)
        bound = np.asarray(self.posterior.log_density(standard))
        return bound - ~np.isnan(standard) @ np.log(self.columns.scale[self.columns.varying])

    @in_double
    def conditional_density(self, Y: np.ndarray, held_out: np.ndarray) -> np.ndarray:
        """Log densities of single entries given the others that are not held out, in nats.

        Args:
            Y: rows in the units of the data, (n, P).
            held_out: whether an entry is held out, (n, P); none of constant columns.

        Returns:
            (n, P), NaN where an entry is not held out.
        """
        chosen = self.columns.varying
        standard = self.columns.forward(Y)
        seen = np.where(held_out[:, chosen], np.nan, standard)
        density = np.full(Y.shape, np.nan)
        parts = []
        for start in range(0, len(Y), ROWS):
            some = slice(start, start + ROWS)
            out = self.posterior.reconstruct(seen[some])
            filled = np.where(np.isnan(standard[some]), np.asarray(out.mean), standard[some])
            parts.append(np.asarray(out.log_density(jnp.asarray(filled))))
        density[:, chosen] = np.concatenate(parts) - np.log(self.columns.scale[chosen])
        return np.where(held_out, density, np.nan)

    def _predicted(
        self, rows: np.ndarray, predict: Callable[[np.ndarray], AbstractPredictive]
    ) -> Gaussians:
        """Means and deviations in the units of the data, some rows at a time."""
        parts = []
        for start in range(0, len(rows), ROWS):
            out = predict(rows[start : start + ROWS])
            parts.append(Gaussians(np.asarray(out.mean), np.sqrt(np.asarray(out.var))))
        return self.columns.back(Gaussians(*map(np.concatenate, zip(*parts, strict=True))))


def filled(Y: np.ndarray, reconstructed: Gaussians) -> Gaussians:
    """Rows whose missing entries are predicted; the others stay, with deviation zero."""
    missing = np.isnan(Y)
    mean = np.where(missing, reconstructed.mean, Y)
    return Gaussians(mean, np.where(missing, reconstructed.std, 0.0))


def check_rows_and_columns(Y: np.ndarray, names: Sequence[str], first: int = 0) -> None:
    """Refuses rows and columns without any value.

    Args:
        Y: the columns, (N, P), NaN where missing.
        names: what each column is called in a message.
        first: the number of the first row.

    Raises:
        ValueError: naming the first one.
    """
    missing = np.isnan(Y)
    columns = np.flatnonzero(missing.all(axis=0))
    if len(columns):
        raise ValueError(
            f"{names[columns[0]]} has no value in any of {plural(len(Y), 'row')}; leave it out"
        )
    rows = np.flatnonzero(missing.all(axis=1))
    if len(rows):
        many = f" ({plural(len(rows), 'row')} of this kind)" if len(rows) > 1 else ""
        raise ValueError(
            f"row {rows[0] + first} (counted from {first}) has no value in any column{many}; "
            "leave it out"
        )
