"""The log evidence by stepping stones: draws at temperatures from a Gaussian to the posterior."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from cavity.learning.mcmc.kernels import elliptical_slices
from cavity.learning.mcmc.targets import WhitenedTarget, fixed_basis, sites_about_mode
from cavity.learning.methods.mcmc import MCMC
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array

# Temperatures crowd where there is least of the likelihood, as the power of even steps.
CROWDING = 3.0
# Elliptical slices between two draws.
BETWEEN = 5


def stepping_stones(target: Any, method: MCMC) -> tuple[float, float | None]:
    r"""The log evidence at fixed parameters, and its standard error.

    $$\log Z = \log Z_0 + \sum_k \log \mathbb E_{p_k}\Big[\Big(\frac{p(\mathbf y \mid \mathbf f)}
    {t(\mathbf f)}\Big)^{b_{k+1} - b_k}\Big]$$

    with $p_k$ proportional to prior times sites times the ratio of likelihood and sites to the
    power $b_k$, and $Z_0$ the integral of prior times sites. Chains are independent, so their
    scatter gives the error.

    Args:
        target: what chains draw from, without moving parameters.
        method: settings; `temperatures` steps are made.

    References:
        Xie, Lewis, Fan, Kuo and Chen (2011).
    """
    problem = target.problem
    shape = (problem.start.likelihood.latents, problem.outputs.size)
    precision, shift = jnp.zeros((2, *shape), problem.outputs.dtype)
    if problem.start.likelihood.log_concave and problem.start.likelihood.smooth:
        # of a density that is not, sites may be narrower than it is, and ratios have no mean
        precision, shift = sites_about_mode(problem)
        precision, shift = 0.5 * precision, 0.5 * shift
    basis = fixed_basis(problem, precision, shift)
    whitened = WhitenedTarget(problem, precision, shift, True, basis)
    assert method.temperatures is not None
    inverse = jnp.linspace(0.0, 1.0, method.temperatures + 1) ** CROWDING
    each = []
    for chain in range(method.chains):
        key = jax.random.fold_in(jax.random.key(method.seed), 1_000_000 + chain)
        each.append(float(_one(whitened, inverse, key, method.warmup, method.draws)))
    error = float(np.std(each, ddof=1) / np.sqrt(len(each))) if len(each) > 1 else None
    return float(np.mean(each)), error


@compiled
def _one(target: WhitenedTarget, inverse: Array, key: Array, warmup: int, draws: int) -> Array:
    """The estimate of one chain at each temperature, each from a draw of the one before."""
    basis, shape = target.basis, target.shift.shape
    assert basis is not None
    model = target.problem.start

    def ratio(z: Array) -> Array:
        return target.log_ratio(model, basis(z.reshape(shape)))

    def stone(z: Array, inputs: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        power, step, key = inputs

        def one(z: Array, key: Array) -> tuple[Array, Array]:
            z = elliptical_slices(key, z, lambda at: power * ratio(at), BETWEEN)
            return z, ratio(z)

        z, values = jax.lax.scan(one, z, jax.random.split(key, warmup + draws))
        late = values[warmup:]
        return z, logsumexp(step * late) - jnp.log(late.size)

    first, rest = jax.random.split(key)
    z = jax.random.normal(first, (target.shift.size,), target.shift.dtype)
    keys = jax.random.split(rest, len(inverse) - 1)
    _, stones = jax.lax.scan(stone, z, (inverse[:-1], jnp.diff(inverse), keys))
    return basis.log_constant + jnp.sum(stones)
