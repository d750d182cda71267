"""Problem that chains sample: a model with its parameters as coordinates, and its rows."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from cavity.kernels.base import AbstractKernel
from cavity.models.base import AbstractGP, AbstractModel
from cavity.numerics.linalg import cholesky, jittered
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Scalar
from cavity.parameters import from_real, log_jacobian
from cavity.parameters.priors import log_prior


class Moving(NamedTuple):
    """Parameters that chains move.

    Attributes:
        maps: bijections; `FIXED` entries stay.
        densities: priors, proper ones of what moves.
        jitter: share of the mean prior variance on the diagonal of covariances, at least.
    """

    maps: AbstractModel
    densities: AbstractModel
    jitter: float


class Problem(eqx.Module):
    """A model with its parameters as coordinates, and data without padding.

    Attributes:
        start: the model at the origin of the coordinates, in the data's precision.
        maps: bijections.
        densities: priors, proper ones for what moves.
        inputs: (N, D).
        outputs: (N,).
        side: side data of the rows.
        origin: the unconstrained parameters of the starting model.
        scale: their change with each coordinate.
        jitter: share of the mean prior variance on the diagonal of prior covariances.
    """

    start: Any
    maps: AbstractModel
    densities: AbstractModel
    inputs: Float[Array, "N D"]
    outputs: Float[Array, " N"]
    side: dict[str, Array]
    origin: Float[Array, " parameters"]
    scale: Float[Array, " parameters"]
    jitter: Scalar

    def real(self, x: Float[Array, " parameters"]) -> Float[Array, " parameters"]:
        """The unconstrained parameters at a point."""
        return self.origin + self.scale * x

    def model(self, x: Float[Array, " parameters"]) -> Any:
        """The model at a point."""
        return from_real(self.real(x), self.start, self.maps)

    def log_prior(self, x: Float[Array, " parameters"]) -> Scalar:
        """The log prior density of a point, in the coordinates and up to a constant."""
        real = self.real(x)
        model = from_real(real, self.start, self.maps)
        return log_prior(model, self.densities) + log_jacobian(real, self.start, self.maps)

    def priors(self, model: AbstractGP) -> tuple[Float[Array, "K N N"], Float[Array, "L N"]]:
        """Covariances and means of the latent functions at the data, a priori."""
        K = jnp.stack([self._covariance(kernel) for kernel in model.covariances])
        means = [jnp.reshape(latent.mean(self.inputs), -1) for latent in model.latents]
        return K, jnp.stack(means)

    def _covariance(self, kernel: AbstractKernel) -> Float[Array, "N N"]:
        K = kernel.cross(self.inputs, self.inputs)
        return jittered(K, self.jitter, kernel.diag(self.inputs))

    def log_likelihood(self, model: AbstractModel, f: Float[Array, "L N"]) -> Scalar:
        """Log density of all outputs given the latent functions."""
        values = f if model.likelihood.latents > 1 else f[0]
        return jnp.sum(model.likelihood.log_prob(values, self.outputs, **self.side))

    def log_marginal(self, model: AbstractGP, noise: Float[Array, " N"]) -> Scalar:
        """Log density of the outputs where noise is Gaussian, the function integrated out."""
        K, mean = self.priors(model)
        root, s = _scaled_root(K[0], noise)
        white = solve_triangular(root, s * (self.outputs - mean[0]), lower=True)
        half = jnp.sum(jnp.log(jnp.diagonal(root)) - jnp.log(s)) + 0.5 * white @ white
        return -half - 0.5 * LOG_2PI * white.size

    def function_given_noise(
        self, key: Array, model: AbstractGP, noise: Float[Array, " N"]
    ) -> Float[Array, "1 N"]:
        """An exact draw of the function where noise is Gaussian."""
        K, mean = self.priors(model)
        one, other = jax.random.normal(key, (2, noise.size), noise.dtype)
        f = cholesky(K[0]) @ one
        # f + K (K + V)⁻¹ (y - m - f - e), Matheron's rule
        rest = self.outputs - mean[0] - f - jnp.sqrt(noise) * other
        return (mean[0] + f + K[0] @ precision_times(K[0], noise, rest))[None]


def _scaled_root(K: Array, noise: Array) -> tuple[Array, Array]:
    """The Cholesky factor of I + S½ K S½ and the diagonal of S½, with S the noise precision."""
    s = 1.0 / jnp.sqrt(noise)
    return cholesky(jnp.eye(s.size, dtype=s.dtype) + s[:, None] * K * s), s


def precision_times(
    K: Float[Array, "N N"], noise: Float[Array, " N"], r: Float[Array, " N"]
) -> Float[Array, " N"]:
    """(K + V)⁻¹ r, with V the diagonal of the noise."""
    root, s = _scaled_root(K, noise)
    half = solve_triangular(root, s * r, lower=True)
    return s * solve_triangular(root, half, lower=True, trans=1)
