r"""Rows with Gaussian noise whose inputs are Gaussian variables, in closed form.

A row at a known input has an exact site on the inducing variables. With a variational posterior
of the inputs, the logarithm of that site is averaged over them, which is a Gaussian again:

$$\log t_n(\mathbf v) = \mathbb E_{q(\mathbf x_n)} \log t_n(\mathbf v; \mathbf x_n)$$

With loadings $\boldsymbol\phi = \mathbf L^{-1} k(\mathbf Z, \mathbf x)$, the residual d and the
power a its precision is $\mathbb E[\boldsymbol\phi \boldsymbol\phi^\top / (\sigma^2 + a d)]$. At
power 0 only $\mathbb E \boldsymbol\phi$, $\mathbb E \boldsymbol\phi \boldsymbol\phi^\top$ and
$\mathbb E d$ are left, and the energy is the collapsed bound of the Bayesian GPLVM. Above it
$\mathbb E d$ stands in the place of d, which is exact where inputs are known.

References:
    Titsias and Lawrence (2010); Bui (2017), S23 and S47; van der Wilk (2018), item 79.
"""

from collections.abc import Callable, Sequence
from typing import cast

import jax
import jax.numpy as jnp

from cavity.inducing.base import inducing_points
from cavity.inference.factors.base import (
    AbstractFactor,
    Beliefs,
    Edge,
    EdgeMoments,
    Sent,
    SiteUpdate,
    Stores,
)
from cavity.inference.factors.gaussian_sites import exact_sites
from cavity.inference.graph.base import AbstractVariable, Messages, Projection
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.views import InducingView
from cavity.kernels.expectations import (
    GaussianInputs,
    covariance_forms,
    covariance_sum,
    expected_cross,
    expected_diag,
)
from cavity.numerics.linalg import gram_weighted
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.types import Array, Scalar


class UncertainExactFactor(AbstractFactor):
    """Rows with Gaussian noise at inputs that have a variational posterior.

    Attributes:
        edges: the inducing variables, and the inputs with `Variational` slots.
        rows: the data.
        noise_variance: of rows, from the known ones among their side data.
        power: the power of all rows.
    """

    edges: tuple[Edge, ...]
    rows: Rows
    noise_variance: Callable[..., Array]
    power: Power

    @property
    def stationary(self) -> bool:
        return True

    @property
    def _inputs(self) -> Edge:
        return self.edges[1]

    def empty_sites(self) -> Stores:
        return (None, self._inputs.slots.empty(self._inputs.view, self.rows))

    def messages(self, variables: Sequence[AbstractVariable], sites: Stores) -> Sent:
        functions, inputs = self.edges
        belief = inputs.slots.message(sites[1])
        marginal = inputs.view.marginal(belief, self.rows)
        view = cast(InducingView, functions.view)
        moments = GaussianInputs(marginal.mean, marginal.var)
        message = averaged_messages(view, moments, self.rows, self.noise_variance, self.power)
        return (functions.variable, message), (inputs.variable, belief)

    def log_scale(
        self,
        q: Beliefs,
        sites: Stores,
        fixed: EdgeMoments | None = None,
        *,
        settled: bool = False,
    ) -> Scalar:
        view, slots = self._inputs.view, self._inputs.slots
        marginal = view.marginal(q[self._inputs.variable], self.rows)
        ratio = slots.log_normaliser_ratio(None, marginal.moments, 0.0)
        return jnp.sum(view.presence(self.rows) * ratio)

    def update(self, q: Beliefs, sites: Stores, step: Power) -> SiteUpdate:
        zero = jnp.zeros(())
        return SiteUpdate(sites, zero, zero, sites)


def averaged_messages(
    view: InducingView,
    inputs: GaussianInputs,
    rows: Rows,
    noise_variance: Callable[..., Array],
    power: Power,
) -> Messages:
    """The messages of rows with Gaussian noise, averaged over their inputs.

    Args:
        view: how rows see the inducing variables.
        inputs: of the rows.
        rows: the data.
        noise_variance: of rows, from their side data.
        power: the power of all rows.
    """
    kernel, root = view.kernel, view.root
    Z = inducing_points(view.inducing)
    A = root @ expected_cross(kernel, inputs, Z).T  # M N
    prior, variational = expected_diag(kernel, inputs), is_exactly(power, 0.0)
    residual = prior
    if not variational:
        explained = covariance_forms(kernel, inputs, Z, (root.T @ root)[None])[:, 0]
        residual = jnp.maximum(prior - jnp.sum(A**2, axis=0) - explained, 0.0)
    projection = Projection(A, residual, view.mean(inputs.mean))
    shift, precision, log_scale = exact_sites(rows, projection, noise_variance, power)
    # products of whitened loadings keep digits that whitening their sum would lose
    squares = jax.lax.map(lambda column: gram_weighted(A, column), precision.T)
    P = squares + root @ covariance_sum(kernel, inputs, Z, precision) @ root.T
    replicas = shift.shape[1] // precision.shape[1]
    total = jnp.sum(log_scale)
    if variational:  # Σ d/σ² = Σ k/σ² - tr P
        total = total + 0.5 * replicas * jnp.sum(jnp.trace(P, axis1=1, axis2=2))
    h = (A @ shift).T.reshape(P.shape[0], replicas, -1)
    return Messages(h, P, total)
