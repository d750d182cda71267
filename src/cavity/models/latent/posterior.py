"""The posterior of a latent-variable model: functions, latent inputs, and those of new rows."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.graph.rows import Rows
from cavity.inference.propagation import Spread
from cavity.kernels.base import AbstractKernel
from cavity.likelihoods.predictive.base import AbstractPredictive, Side
from cavity.models.base import AbstractModel
from cavity.models.deep.posterior import DeepPosterior, mixture
from cavity.models.inputs.encoder import SiteEncoder
from cavity.models.latent.projection import Projected, Projector, project, with_bounds
from cavity.models.latent.reconstruction import outputs_given
from cavity.models.posterior import AbstractPosterior, Marginals
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float, PRNGKeyArray
from cavity.numerics.validation import check_columns, check_magnitude, float_array

# Rows that are projected at a time, and latent points of training rows that they start from.
ROWS, CANDIDATES = 128, 500
# The least variance that they start from, for models with point estimates.
NARROW = 1e-6


class LatentPosterior(AbstractPosterior):
    """The posterior of a latent-variable model at fixed parameters.

    `marginals`, `predict` and the like are of the functions at given points of the latent space.

    Attributes:
        functions: the posterior of the functions of all outputs.
        latent_mean: means of the latent inputs, with padding.
        latent_var: variances of the latent inputs, with padding.
        count: rows without padding.
        kernel: the covariance function of all outputs.
        encoder: from outputs to latent inputs, where the model has one.
    """

    functions: DeepPosterior
    kernel: AbstractKernel
    latent_mean: Float[Array, "N Q"]
    latent_var: Float[Array, "N Q"]
    count: Array
    encoder: SiteEncoder | None
    model: AbstractModel
    n_inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    side: tuple[str, ...] = eqx.field(static=True, default=())

    # ---- functions at given latent points

    @property
    def size(self) -> int:
        return self.functions.size

    def moments(self, X: Float[Array, "n Q"]) -> tuple[Float[Array, "n P"], Array]:
        return self.functions.moments(X)

    def covariance(self, X: Float[Array, "n Q"]) -> Array:
        return self.functions.covariance(X)

    def of_function(self, i: int) -> DeepPosterior:
        return self.functions.of_function(i)

    def drawn_likelihoods(self, n: int, key: PRNGKeyArray) -> None:
        return None

    def _about_mean(self, X: Array, shape: tuple[int, ...], key: PRNGKeyArray) -> Array:
        return self.functions._about_mean(X, shape, key)

    def _predicted(self, X: Array, side: Side) -> AbstractPredictive:
        return self.functions._predicted(X, side)

    # ---- latent inputs

    @property
    def latent(self) -> Marginals:
        """Means and variances of the latent inputs of the training rows, (N, Q) each."""
        count = int(self.count)
        return Marginals(self.latent_mean[:count], self.latent_var[:count])

    @property
    def relevance(self) -> Float[np.ndarray, " Q"]:
        """Relevance of each latent dimension to the outputs; shares of one.

        The prior mean square change of a function when rows exchange their values of the
        dimension; with one lengthscale for each, the shortest in units of the latent means' spread
        are the most relevant.
        """
        mean = np.asarray(self.latent.mean)
        others = mean[np.random.default_rng(0).permutation(len(mean))]
        arrays = jnp.asarray(mean), jnp.asarray(others)
        squares = np.asarray(_squared_moves(self.kernel, *arrays))
        return squares / max(float(np.sum(squares)), np.finfo(float).tiny)

    def transform(self, Y: Any) -> Marginals:
        """Means and variances of the latent inputs of new rows, (n, Q) each.

        A variational posterior for each row, given those of the functions; with an encoder, what
        it says.

        Args:
            Y: outputs, (n, P), NaN where missing.

        Raises:
            ValueError: for other columns than the model was fitted with, or infinite values.
        """
        best = self._best(Y)
        return Marginals(best.mean, best.var)

    def reconstruct(self, Y: Any) -> AbstractPredictive:
        """The predictive distribution of all outputs of rows, given those that are observed.

        A mixture over approximations of the exact posteriors of their latent inputs, given the
        functions: points about the variational ones, of which a row may have several, with
        importance weights.

        Args:
            Y: outputs, (n, P), NaN where missing.

        Returns:
            A distribution with `mean`, `var`, `log_density(y)` and `quantile(p)`, (n, P) each.

        Raises:
            ValueError: as `transform`.
        """
        projector, parts = self._projector(), []
        for rows, length in _chunks(*self._observed(Y)):
            _, modes = self._posteriors(projector, rows)
            found = outputs_given(projector, modes, rows)
            parts.append(jax.tree.map(lambda a, n=length: np.asarray(a)[:, :n], found))
        values = jax.tree.map(lambda *a: jnp.asarray(np.concatenate(a, axis=1)), *parts)
        if self.single:
            values = Spread(values.mean[..., 0], values.var[..., 0])
        return mixture(self.model.likelihood, values.mean, values.var, {})

    def log_density(self, Y: Any) -> Float[np.ndarray, " n"]:
        """Lower bounds of the log densities of new rows, at their observed outputs, in nats.

        Args:
            Y: outputs, (n, P), NaN where missing.

        Raises:
            ValueError: as `transform`.
        """
        return np.asarray(self._best(Y).bound)

    def _best(self, Y: Any) -> Projected:
        """The best posteriors of rows."""
        projector, parts = self._projector(), []
        for rows, length in _chunks(*self._observed(Y)):
            best, _ = self._posteriors(projector, rows)
            parts.append(jax.tree.map(lambda a, n=length: np.asarray(a)[:n], best))
        return jax.tree.map(lambda *a: np.concatenate(a), *parts)

    def _projector(self) -> Projector:
        every = -(-int(self.count) // CANDIDATES)
        mean, var = (np.asarray(moment)[::every] for moment in self.latent)
        prior = np.zeros((1, mean.shape[1])), np.ones((1, mean.shape[1]))
        pairs = zip(prior, (mean, np.maximum(var, NARROW)), strict=True)
        starts = [np.concatenate(pair) for pair in pairs]
        # the same points for all rows, which do not depend on their order
        propagation = self.functions.propagation.for_predictions()
        layer = self.functions.layers[0]
        return Projector(layer, self.model.likelihood, propagation, *map(jnp.asarray, starts))

    def _posteriors(self, projector: Projector, rows: Rows) -> tuple[Projected, Projected]:
        """The best posteriors of rows, and several of them with an axis more."""
        if self.encoder is None:
            return project(projector, rows)
        mean, var = self.encoder(rows.y, rows.observed)
        encoded = Projected(mean[:, None], var[:, None], jnp.zeros((len(mean), 1)))
        encoded = with_bounds(projector, encoded, rows)
        return jax.tree.map(lambda a: a[:, 0], encoded), encoded

    def _observed(self, Y: Any) -> tuple[np.ndarray, np.ndarray]:
        if self.side:
            raise ValueError(
                f"the model was fitted with a known {self.side[0].replace('_', ' ')} per row, "
                "which new rows do not have: fit without it to place them"
            )
        Y = np.asarray(float_array("Y", Y), np.float64)
        if Y.ndim == 1 and self.outputs == 1:
            Y = Y[:, None]
        check_columns("Y", Y, self.outputs)  # type: ignore[arg-type]
        presence = (~np.isnan(Y)).astype(Y.dtype)
        check_magnitude("Y", np.nan_to_num(Y, posinf=np.inf, neginf=-np.inf))  # type: ignore[arg-type]
        # an observed value stands for missing ones, as it is within the support
        observed = Y[presence > 0.0]
        return np.where(presence > 0.0, Y, observed[0] if len(observed) else 1.0), presence


def _chunks(y: np.ndarray, presence: np.ndarray) -> Iterator[tuple[Rows, int]]:
    """Rows without known inputs in chunks of one size, and how many are no padding in each."""
    for start in range(0, len(y), ROWS):
        some = slice(start, start + ROWS)
        length = len(y[some])
        values, observed = (
            jnp.asarray(np.concatenate([a[some], np.repeat(a[:1], ROWS - length, axis=0)]))
            for a in (y, presence)
        )
        yield Rows(jnp.zeros((ROWS, 0)), values, observed), length


@compiled
def _squared_moves(
    kernel: AbstractKernel, X: Float[Array, "n Q"], others: Float[Array, "n Q"]
) -> Float[Array, " Q"]:
    """Mean squares of a function's changes where one coordinate becomes that of another row."""

    def one(x: Array, other: Array) -> Array:
        def along(i: Array) -> Array:
            pair = jnp.stack([x, x.at[i].set(other[i])])
            near, far = kernel.diag(pair)
            return near + far - 2.0 * kernel.cross(pair[:1], pair[1:])[0, 0]

        return jax.vmap(along)(jnp.arange(x.shape[0]))

    return jnp.mean(jax.vmap(one)(X, others), axis=0)
