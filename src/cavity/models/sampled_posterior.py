"""The posterior process as an equal mixture over draws of parameters and functions."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from cavity.kernels.base import AbstractKernel
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.predictive.base import AbstractPredictive, Side
from cavity.likelihoods.predictive.mixture import draws_predictive
from cavity.models.base import AbstractGP
from cavity.models.posterior import AbstractPosterior
from cavity.models.process import along_draws
from cavity.numerics.jit import compiled
from cavity.numerics.linalg import cholesky, jittered, remainder, root_of
from cavity.numerics.types import Array, Float, PRNGKeyArray

# The model, the weights and the noise variances of a draw, or of all of them.
Draw = tuple[AbstractGP, Array, Array | None]


class SampledPosterior(AbstractPosterior):
    r"""Posterior of draws: each has parameters, and a function that is Gaussian given them.

    Draw s has mean $m_s + \mathbf k_s^\top \mathbf w_s$ and variance $k_s - |\mathbf R_s \mathbf
    k_s|^2$. Where noise is Gaussian given the draw, the function given it is the exact posterior;
    otherwise it is what the values of the function at the data leave of the prior. Moments are
    those of the mixture.

    Attributes:
        model: the model at the medians of its parameters.
        draws: the models of all draws, with a first axis in every array.
        inputs: those of the data.
        weights: $\mathbf w_s$ of each latent function.
        noise: noise variances of the rows, None where functions were drawn.
        jitter: share of the mean prior variance on the diagonal of prior covariances.
    """

    model: AbstractGP
    draws: AbstractGP
    inputs: Float[Array, "N D"]
    weights: Float[Array, "S L N"]
    noise: Float[Array, "S N"] | None
    jitter: Float[Array, ""]
    n_inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    side: tuple[str, ...] = eqx.field(static=True, default=())

    @property
    def size(self) -> int:
        return self.inputs.shape[0]

    @property
    def count(self) -> int:
        """The number of draws."""
        return self.weights.shape[0]

    def of_function(self, i: int) -> "SampledPosterior":
        """The posterior of one of several latent functions."""
        if self.model.likelihood.latents == 1:
            return self
        function, weights = self.draws.latents[i], self.weights[:, i : i + 1]
        kernels = self.draws.kernels
        prior = (kernels[min(i, len(kernels) - 1)], function.mean)
        draws = eqx.tree_at(lambda model: (model.kernel, model.mean), self.draws, prior)
        return dataclasses.replace(self, draws=draws, weights=weights, outputs=1, single=True)

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n P"], Array]:
        mean, var = self.each(X)
        average = jnp.mean(mean, axis=1)
        return average, jnp.mean(var, axis=1) + jnp.var(mean, axis=1)

    def covariance(self, X: Float[Array, "n D"]) -> Float[Array, "P n n"]:
        average, _ = self.moments(X)

        def one(total: Array, draw: Draw) -> tuple[Array, None]:
            mean, cov = self._one(draw, X, whole=True)
            away = mean - average.T
            return total + cov + away[:, :, None] * away[:, None, :], None

        zero = jnp.zeros((average.shape[1], len(X), len(X)), average.dtype)
        return jax.lax.scan(one, zero, self._stack)[0] / self.count

    def each(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n S L"], Float[Array, "n S L"]]:
        """Means and variances of the latent functions in every draw."""
        found = jax.lax.map(lambda draw: self._one(draw, X, whole=False), self._stack)
        return jax.tree.map(lambda a: jnp.moveaxis(a, 2, 0), found)

    @property
    def _stack(self) -> Draw:
        return self.draws, self.weights, self.noise

    def _one(self, draw: Draw, X: Array, *, whole: bool) -> tuple[Array, Array]:
        """Means (L, n) of a draw, and variances (L, n) or covariances (L, n, n)."""
        model, weights, noise = draw
        means, spreads = [], []
        # `latent` leaves the weights of one function
        for i, (function, w) in enumerate(zip(model.latents, weights, strict=False)):
            if i < len(model.covariances):  # all share the first otherwise
                kernel = function.kernel
                cross = kernel.cross(self.inputs, X)
                half = self._root(kernel, noise, cross)
                if whole:
                    spread = jittered(kernel.cross(X, X), 0.0, kernel.diag(X)) - half.T @ half
                else:
                    spread = remainder(kernel.diag(X), jnp.sum(half**2, axis=0), len(half))
            means.append(cross.T @ w + jnp.reshape(function.mean(X), -1))
            spreads.append(spread)
        return jnp.stack(means), jnp.stack(spreads)

    def _root(self, kernel: AbstractKernel, noise: Array | None, cross: Array) -> Array:
        """R k, whose square is the reduction of the variance by the data."""
        K = jittered(kernel.cross(self.inputs, self.inputs), self.jitter, kernel.diag(self.inputs))
        if noise is None:
            return solve_triangular(cholesky(K), cross, lower=True)
        s = 1.0 / jnp.sqrt(noise)
        root = cholesky(jnp.eye(len(K), dtype=K.dtype) + s[:, None] * K * s)
        return solve_triangular(root, s[:, None] * cross, lower=True)

    def chosen(self, n: int, key: PRNGKeyArray) -> Array:
        """Index of the draw that each sample of `sample` with this key is taken from, (n,)."""
        even = jnp.arange(n) % self.count if n >= self.count else None
        pick, _ = jax.random.split(key)
        if even is None:
            return jax.random.choice(pick, self.count, (n,), replace=False)
        return jax.random.permutation(pick, even)

    def drawn_likelihoods(self, n: int, key: PRNGKeyArray) -> AbstractLikelihood:
        index = np.asarray(self.chosen(n, key))
        return jax.tree.map(lambda a: np.asarray(a)[index], self.draws.likelihood)

    def _about_mean(self, X: Array, shape: tuple[int, ...], key: PRNGKeyArray) -> Array:
        return _samples_about_mean(self, X, self.chosen(shape[0], key), key)

    def _predicted(self, X: Array, side: Side) -> AbstractPredictive:
        mean, var = self._map_chunks(_each, self.checked_inputs(X))
        mean, var, side = along_draws(
            mean, var, side, several=self.model.likelihood.latents > 1, single=self.single
        )
        return _mixed(self.draws.likelihood, mean, var, side)


@compiled
def _each(posterior: SampledPosterior, X: Array) -> tuple[Array, Array]:
    return posterior.each(X)


@compiled
def _mixed(
    likelihoods: AbstractLikelihood, mean: Array, var: Array, side: Side
) -> AbstractPredictive:
    return draws_predictive(likelihoods, mean, var, side)


@compiled
def _samples_about_mean(
    posterior: SampledPosterior, X: Array, index: Array, key: PRNGKeyArray
) -> Float[Array, "n rows P"]:
    average, _ = posterior.moments(X)
    _, noisy = jax.random.split(key)

    def one(inputs: tuple[Array, Array]) -> Array:
        place, own = inputs
        draw = jax.tree.map(lambda a: a[place], posterior._stack)
        mean, cov = posterior._one(draw, X, whole=True)
        noise = jax.random.normal(own, mean.shape, mean.dtype)
        return (mean + jnp.einsum("lij,lj->li", root_of(cov), noise)).T - average

    return jax.lax.map(one, (index, jax.random.split(noisy, index.size)))
