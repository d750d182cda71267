"""The Gaussian process model: exact, or sparse with inducing variables."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inducing.base import AbstractInducing
from cavity.inference.energy import Graph
from cavity.inference.factors import Edge, ExactFactor, Factor, SiteFactor
from cavity.inference.graph import AbstractView, Correlated, Identity, Whitened
from cavity.inference.methods import PowerEP
from cavity.inference.rows import Rows
from cavity.kernels.base import AbstractKernel
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.gaussian import Gaussian
from cavity.means import AbstractMean, Zero
from cavity.models.base import AbstractModel
from cavity.models.views import OutputMean, inducing_view
from cavity.numerics.linalg import jittered
from cavity.numerics.powers import Power
from cavity.numerics.quadrature import Tilted
from cavity.numerics.summary import table
from cavity.numerics.types import Array, Scalar

_HOMES = {
    "kernel": "kernels",
    "likelihood": "likelihoods",
    "inducing": "inducing",
    "mean": "means",
}
_EXAMPLES = {
    "kernel": "RBF()",
    "likelihood": "Gaussian()",
    "inducing": "Points(Z)",
    "mean": "Constant()",
}


class GP(AbstractModel):
    r"""A latent function with a Gaussian process prior, seen through a likelihood.

    $f \sim \mathcal{GP}(m, k)$, $y_n \sim p(y \mid f(\mathbf x_n))$. With several outputs, each
    has its own function with the same kernel.

    Without inducing variables the model is the full GP, whose cost grows with the cube of the
    rows. With M of them inference costs N M². The approximation is chosen where inference is
    asked for (`power`), not here.

    Parameters are used as given, in the units of the data. `print(model)` is a table of them.

    Args:
        kernel: covariance function.
        likelihood: density of an output given the function.
        inducing: inducing variables, or None for the full GP.
        mean: prior mean function, or None for zero.

    References:
        Bui (2017), S3, S4 and S21; van der Wilk (2018), items 10 and 25.
    """

    kernel: AbstractKernel
    likelihood: AbstractLikelihood
    inducing: AbstractInducing | None
    mean: AbstractMean

    def __init__(
        self,
        kernel: AbstractKernel,
        likelihood: AbstractLikelihood,
        inducing: AbstractInducing | None = None,
        mean: AbstractMean | None = None,
    ):
        parts = (
            ("kernel", kernel, AbstractKernel),
            ("likelihood", likelihood, AbstractLikelihood),
            ("inducing", inducing, AbstractInducing | None),
            ("mean", mean, AbstractMean | None),
        )
        for name, part, kind in parts:
            if not isinstance(part, kind):
                raise TypeError(
                    f"{name} of a GP must be an object of cavity.{_HOMES[name]}, such as "
                    f"{_EXAMPLES[name]}; given {type(part).__name__}"
                )
        self.kernel = kernel
        self.likelihood = likelihood
        self.inducing = inducing
        self.mean = Zero() if mean is None else mean

    def graph(
        self, rows: Rows, *, power: Power, method: PowerEP, jitter: float | Scalar, chunk: int
    ) -> Graph:
        mean = OutputMean(self.mean, rows.y.shape[-1])
        if self.inducing is None:
            prior = jittered(self.kernel.cross(rows.x, rows.x), jitter, self.kernel.diag(rows.x))
            factor = self._factor(Identity(mean), rows, power, method, rows.x.shape[0])
            mixed = not self.likelihood.log_concave
            return Graph((Correlated(prior, mixed),), (factor,))
        view = inducing_view(self.kernel, self.inducing, mean, jitter)
        factor = self._factor(view, rows, power, method, chunk)
        return Graph((Whitened(self.inducing.size),), (factor,))

    def _factor(
        self, view: AbstractView, rows: Rows, power: Power, method: PowerEP, chunk: int
    ) -> Factor:
        edge = Edge(0, view)
        if method.exact and isinstance(self.likelihood, Gaussian):
            return ExactFactor(edge, rows, self.likelihood.noise_variance, power, chunk)
        term = LikelihoodTerm(self.likelihood)
        return SiteFactor((edge,), rows, term, power, chunk, term.tilted)

    def __str__(self) -> str:
        return table(self)


class LikelihoodTerm(eqx.Module):
    """The log power mean of a likelihood on one latent function, for chunks of rows."""

    likelihood: AbstractLikelihood

    def __call__(
        self, means: tuple[Array, ...], variances: tuple[Array, ...], rows: Rows, power: Power
    ) -> Array:
        (mean,), (var,) = means, variances
        if not rows.blocked:
            return self.likelihood.log_power_mean(mean, var, rows.y, power, rows.columns)
        return _block_terms(self.likelihood, mean, var, rows, power)

    def tilted(
        self, means: tuple[Array, ...], variances: tuple[Array, ...], rows: Rows, power: Power
    ) -> Tilted:
        """The same with its slope and curvature in the mean."""
        (mean,), (var,) = means, variances
        return self.likelihood.tilted(mean, var, rows.y, power, rows.columns)


def _block_terms(likelihood: Any, mean: Array, var: Array, rows: Rows, power: Power) -> Array:
    if not isinstance(likelihood, Gaussian):
        raise ValueError(
            "blocks need a Gaussian likelihood: with any other, the term of a block is an "
            "integral over all its rows; leave blocks=None"
        )
    y = jnp.swapaxes(rows.y, 1, 2)
    presence = jnp.swapaxes(jnp.broadcast_to(rows.presence, rows.y.shape), 1, 2)
    noise = jnp.broadcast_to(likelihood.noise_variance(**rows.columns), rows.y.shape)
    blocks = (mean, var, y, presence, jnp.swapaxes(noise, 1, 2))
    a = jnp.broadcast_to(jnp.asarray(power, y.dtype), y.shape[:1])
    per_output = jax.vmap(likelihood.log_power_mean_block, in_axes=(0, 0, 0, 0, 0, None))
    return jax.vmap(per_output)(*blocks, a)
