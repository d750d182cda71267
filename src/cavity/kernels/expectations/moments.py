"""Expectations of a kernel under Gaussian inputs."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.kernels.base import AbstractKernel
from cavity.kernels.expectations.inputs import GaussianInputs, map_inputs, sum_inputs, symmetric
from cavity.kernels.expectations.rules import AbstractRule, rule
from cavity.numerics.types import Array, Float


def expected_cross(
    kernel: AbstractKernel, inputs: GaussianInputs, Z: Float[Array, "M D"]
) -> Float[Array, "N M"]:
    r"""Expected covariances $\mathbb E\, k(\mathbf x_n, \mathbf z_m)$ with the inducing points."""
    inputs, Z = _device_arrays(inputs, Z)
    of = _rule(kernel, inputs, Z)
    return map_inputs(lambda rows: of.cross(rows, Z), inputs, of.numbers(Z))


def expected_diag(kernel: AbstractKernel, inputs: GaussianInputs) -> Float[Array, " N"]:
    r"""Expected variances $\mathbb E\, k(\mathbf x_n, \mathbf x_n)$."""
    (inputs,) = _device_arrays(inputs)
    of = _rule(kernel, inputs, inputs.mean[:1])
    return map_inputs(lambda rows: of.diag(rows), inputs, of.numbers(inputs.mean[:1]))


def expected_slopes(
    kernel: AbstractKernel, inputs: GaussianInputs, Z: Float[Array, "M D"]
) -> Float[Array, "N M D"]:
    r"""Expected slopes $\mathbb E\, \partial k(\mathbf x_n, \mathbf z_m) / \partial \mathbf x_n$.

    They are the slopes of the expected covariances in the mean. By Stein's identity the inputs'
    covariances with k are $\mathbf S\, \mathbb E\, \partial k$, so $\mathbb E\, \mathbf x k$ is
    $\boldsymbol\mu\, \mathbb E\, k + \mathbf S\, \mathbb E\, \partial k$.
    """
    inputs, Z = _device_arrays(inputs, Z)
    of = _rule(kernel, inputs, Z)
    return map_inputs(lambda rows: of.slopes(rows, Z), inputs, of.numbers(Z))


def covariance_forms(
    kernel: AbstractKernel,
    inputs: GaussianInputs,
    Z: Float[Array, "M D"],
    W: Float[Array, "P M M"],
) -> Float[Array, "N P"]:
    r"""Traces $\mathrm{tr}\, \mathbf W_p \mathrm{Cov}\, k(\mathbf x_n, \mathbf Z)$.

    Closed forms keep their digits however small the input's variance is. With a semidefinite W
    they are not negative up to rounding, $10^{-15}$ of the same sum of absolute values.

    Args:
        kernel: the covariance function.
        inputs: N Gaussian inputs.
        Z: M inducing points.
        W: symmetric matrices.
    """
    inputs, Z, W = _device_arrays(inputs, Z, W)
    of, W = _rule(kernel, inputs, Z), symmetric(W)

    return map_inputs(lambda rows: of.forms(rows, Z, W), inputs, of.numbers(Z))


def covariance_products(
    kernel: AbstractKernel,
    inputs: GaussianInputs,
    Z: Float[Array, "M D"],
    left: Float[Array, "N P M"],
    right: Float[Array, "N P M"],
) -> Float[Array, "N P"]:
    r"""Products $\mathbf a_{np}^\top \mathrm{Cov}\, k(\mathbf x_n, \mathbf Z)\, \mathbf b_{np}$.

    Args:
        kernel: the covariance function.
        inputs: N Gaussian inputs.
        Z: M inducing points.
        left: vectors a.
        right: vectors b.
    """
    inputs, Z, left, right = _device_arrays(inputs, Z, left, right)
    of = _rule(kernel, inputs, Z)

    def chunk(rows: GaussianInputs, left: Array, right: Array) -> Float[Array, "n P"]:
        return jnp.einsum("npk,nkm,npm->np", left, symmetric(of.covariance(rows, Z)), right)

    return map_inputs(chunk, inputs, of.numbers(Z), left, right)


def covariance_sum(
    kernel: AbstractKernel,
    inputs: GaussianInputs,
    Z: Float[Array, "M D"],
    weights: Float[Array, "N G"],
) -> Float[Array, "G M M"]:
    r"""Sums $\sum_n w_{ng}\, \mathrm{Cov}\, k(\mathbf x_n, \mathbf Z)$ over the inputs."""
    inputs, Z, weights = _device_arrays(inputs, Z, weights)
    of = _rule(kernel, inputs, Z)

    def chunk(rows: tuple[GaussianInputs, Array]) -> Float[Array, "G M M"]:
        inputs, weights = rows
        return of.weighted_sum(inputs, Z, weights)

    return sum_inputs(chunk, inputs, weights, of.numbers(Z))


def expected_outer_sum(
    kernel: AbstractKernel,
    inputs: GaussianInputs,
    Z: Float[Array, "M D"],
    weights: Float[Array, "N G"],
) -> Float[Array, "G M M"]:
    r"""Sums $\sum_n w_{ng}\, \mathbb E\, \mathbf k_n \mathbf k_n^\top$, $k_{nm} = k(x_n, z_m)$."""
    inputs, Z, weights = _device_arrays(inputs, Z, weights)
    K = expected_cross(kernel, inputs, Z)
    squares = (weights.T[:, :, None] * K).swapaxes(1, 2) @ K
    return covariance_sum(kernel, inputs, Z, weights) + squares


def _device_arrays(*trees: Any) -> Any:
    """Arrays of numpy as those of JAX, which compiled loops over rows can take elements of."""
    return jax.tree.map(jnp.asarray, trees)


def _rule(kernel: AbstractKernel, inputs: GaussianInputs, Z: Array) -> AbstractRule:
    """The kernel's rule, after its own checks of columns."""
    eqx.filter_eval_shape(kernel.cross, inputs.mean, Z)
    return rule(kernel, inputs.mean.shape[1])
