r"""Rows with Gaussian noise whose inputs, and it may be outputs, are Gaussian variables.

A row at a known input has an exact site on the inducing variables. With a variational posterior
of the inputs and outputs, the logarithm of that site is averaged over them, which is a Gaussian
again:

$$\log t_n(\mathbf v) = \mathbb E_{q(\mathbf x_n, y_n)} \log t_n(\mathbf v; \mathbf x_n, y_n)$$

With loadings $\boldsymbol\phi = \mathbf L^{-1} k(\mathbf Z, \mathbf x)$, the residual d and the
power a its precision is $\mathbb E[\boldsymbol\phi \boldsymbol\phi^\top / (\sigma^2 + a d)]$ and
its shift $\mathbb E[\boldsymbol\phi\, y / (\sigma^2 + a d)]$. At power 0 only kernel expectations
are left, and the energy is the collapsed bound: of the Bayesian GPLVM where outputs are known, of
a state-space model where they are the next state, of a deep GP where they are the next layer.
Above it $\mathbb E d$ stands in the place of d, which is exact where inputs are known.

References:
    Titsias and Lawrence (2010); Bui (2017), S23, S34, S38 and S47; Chamberlin (2016), S10 and S22;
    van der Wilk (2018), items 79 and 82.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inducing.base import inducing_points
from cavity.inference.factors.base import AbstractRegression, Beliefs, Edge, Sent
from cavity.inference.graph.base import AbstractBelief, AbstractVariable, Messages
from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.gaussian_sites import exact_sites
from cavity.inference.variables.inducing_view import InducingView, OutputMean
from cavity.kernels.expectations import (
    GaussianInputs,
    covariance_forms,
    covariance_sum,
    expected_cross,
    expected_diag,
    expected_slopes,
)
from cavity.numerics.linalg import gram_weighted
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.types import Array, Float


class GaussianRows(NamedTuple):
    """Inputs of rows and what is observed at them, jointly Gaussian.

    Attributes:
        inputs: the inputs.
        mean: means of the outputs: their values, where these are known.
        presence: as in `Rows`.
        var: variances of the outputs; None where they are known.
        cross: covariances of inputs and outputs; None where outputs are known.
    """

    inputs: GaussianInputs
    mean: Float[Array, "N P"]
    presence: Float[Array, "N G"]
    var: Float[Array, "N P"] | None = None
    cross: Float[Array, "N D P"] | None = None

    def without(self, mean: OutputMean) -> "GaussianRows":
        """The rows with an affine function of the inputs taken from the outputs."""
        outputs = self.mean - mean(self.inputs.mean)
        if mean.mean.constant:
            return self._replace(mean=outputs)
        slopes = jax.vmap(jax.jacfwd(lambda x: mean(x[None])[0]))(self.inputs.mean)  # N P D
        cov = self.inputs.cov
        moved = jnp.swapaxes(slopes, 1, 2)
        moved = cov @ moved if cov.ndim == 3 else cov[:, :, None] * moved
        # Var(y - wᵀx) = Var y + wᵀ(Sw - 2c), Cov(x, y - wᵀx) = c - Sw
        cross = -moved if self.cross is None else self.cross - moved
        both = -cross if self.cross is None else -cross - self.cross
        var = jnp.einsum("npd,ndp->np", slopes, both)
        var = var if self.var is None else self.var + var
        return self._replace(mean=outputs, var=jnp.maximum(var, 0.0), cross=cross)

    def columns(self, first: int, count: int) -> "GaussianRows":
        """Some of the outputs."""
        part = slice(first, first + count)
        shared = self.presence.shape[1] == 1
        return GaussianRows(
            self.inputs,
            self.mean[:, part],
            self.presence if shared else self.presence[:, part],
            None if self.var is None else self.var[:, part],
            None if self.cross is None else self.cross[:, :, part],
        )


class AbstractSight(eqx.Module):
    """A view of the rows' beliefs for a regression.

    To implement:
        `__call__(belief, rows)`.
    """

    @abc.abstractmethod
    def __call__(self, belief: Any, rows: Rows) -> GaussianRows:
        """Inputs and outputs of the rows under the belief."""


class AveragedRegression(AbstractRegression):
    """Functions with Gaussian noise between Gaussian inputs and outputs.

    Attributes:
        edges: to the inducing variables, one for each group of functions.
        mean: the prior mean of all functions, affine.
        sight: inputs and outputs under the belief about rows.
        noise_variance: of rows, from the known ones among their side data; the result broadcasts
            against (rows, outputs).
        rows: the data.
        power: the power of all rows.
    """

    edges: tuple[Edge[InducingView], ...]
    mean: OutputMean
    sight: AbstractSight
    noise_variance: Callable[..., Array]
    rows: Rows
    power: Power

    def messages(
        self, variables: Sequence[AbstractVariable], stored: Sequence[AbstractBelief]
    ) -> Sent:
        (belief,) = stored
        return self.averaged(belief)

    def leave_one_out(self, q: Beliefs) -> None:
        return None

    def site_precisions(self, q: Beliefs) -> None:
        return None

    def averaged(
        self, belief: AbstractBelief, loadings: Sequence[Float[Array, "_ N _"]] = ()
    ) -> tuple[tuple[int, Messages], ...]:
        """The messages to the inducing variables.

        Args:
            belief: about the variables of the rows.
            loadings: of outputs that depend on the whitened inducing variables of their
                functions, their slopes, for each group of these; none for others.
        """
        groups = self.groups(belief, loadings)
        return tuple((group.edge.variable, group.messages()) for group in groups)

    def groups(
        self, belief: AbstractBelief, loadings: Sequence[Float[Array, "_ N _"]] = ()
    ) -> "list[Group]":
        """The functions that share inducing variables; arguments are those of `averaged`."""
        seen = self.sight(belief, self.rows).without(self.mean)
        noise = jnp.atleast_2d(self.noise_variance(**self.rows.columns))
        groups, first = [], 0
        for i, edge in enumerate(self.edges):
            count = edge.view.mean.outputs
            variance = noise if noise.shape[1] == 1 else noise[:, first : first + count]
            slopes = loadings[i] if loadings else None
            own = seen.columns(first, count)
            groups.append(Group(edge, first, own, variance, self.power, slopes))
            first += count
        return groups


class Group(NamedTuple):
    """Functions of a regression that share inducing variables, and their rows.

    Attributes:
        edge: to the inducing variables.
        first: the index of the first function.
        seen: inputs and outputs, the prior mean taken out.
        noise_variance: broadcasts against (rows, outputs).
        power: the power of all rows.
        loadings: T of outputs that depend on the inducing variables themselves,
            $y = T^T v + e$; None for zero. The rest e is then what `seen` says of the outputs.
    """

    edge: Edge[InducingView]
    first: int
    seen: GaussianRows
    noise_variance: Float[Array, "_ _"]
    power: Power
    loadings: Float[Array, "M N W"] | None = None

    @property
    def view(self) -> InducingView:
        """View that the rows have of the inducing variables."""
        return self.edge.view

    @property
    def precision(self) -> Float[Array, "N _"]:
        """The precisions of the rows' sites."""
        return self._sites()[2]

    def messages(self) -> Messages:
        r"""The messages of the rows, averaged over their inputs and outputs.

        With outputs that depend on the inducing variables themselves the residual is
        $e - (\boldsymbol\phi - \mathbf T)^\top \mathbf v$.
        """
        kernel, root, seen, inputs = self.view.kernel, self.view.root, self.seen, self.seen.inputs
        Z, variational = inducing_points(self.view.inducing), is_exactly(self.power, 0.0)
        A, shift, precision, log_scale = self._sites()
        # products of whitened loadings keep digits that whitening their sum would lose
        squares = jax.lax.map(lambda column: gram_weighted(A, column), precision.T)
        within = root @ covariance_sum(kernel, inputs, Z, precision) @ root.T
        P = squares + within
        replicas = shift.shape[1] // precision.shape[1]
        total, h = jnp.sum(log_scale), A @ shift
        if seen.var is not None:
            total = total - 0.5 * jnp.sum(precision * seen.var)
        if seen.cross is not None:
            # E φ y = E φ E y + L⁻¹ (E ∂k)ᵀ Cov(x, y), by Stein's identity
            slopes = expected_slopes(kernel, inputs, Z)
            h = h + root @ jnp.einsum("nmd,ndp->mp", slopes, precision[:, None] * seen.cross)
        if variational:  # Σ d/σ² = Σ k/σ² - tr P
            total = total + 0.5 * replicas * jnp.sum(jnp.trace(P, axis1=1, axis2=2))
        if self.loadings is not None:
            away = A[:, :, None] - self.loadings
            P = within + jnp.einsum("mnp,np,knp->pmk", away, precision, away)
            h = h - jnp.einsum("mnp,np->mp", self.loadings, shift)
        h = h.T.reshape(P.shape[0], replicas, -1)
        return Messages(h, P, total)

    def _sites(
        self,
    ) -> tuple[Float[Array, "M N"], Float[Array, "N P"], Float[Array, "N _"], Float[Array, " N"]]:
        """Mean loadings of rows, and shift, precision and log scale of their sites at these."""
        kernel, root, seen, inputs = self.view.kernel, self.view.root, self.seen, self.seen.inputs
        Z, noise_variance = inducing_points(self.view.inducing), self.noise_variance
        A = root @ expected_cross(kernel, inputs, Z).T
        residual = expected_diag(kernel, inputs)
        if not is_exactly(self.power, 0.0):
            explained = covariance_forms(kernel, inputs, Z, (root.T @ root)[None])[:, 0]
            residual = jnp.maximum(residual - jnp.sum(A**2, axis=0) - explained, 0.0)
        if self.loadings is not None:
            noise_variance = jnp.broadcast_to(noise_variance, seen.mean.shape)
        rows = Rows(inputs.mean, seen.mean, seen.presence)
        projection = Projection(A, residual, jnp.zeros_like(seen.mean))
        return A, *exact_sites(rows, projection, lambda: noise_variance, self.power)
