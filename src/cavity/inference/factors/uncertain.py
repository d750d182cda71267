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
from typing import Any, NamedTuple, cast

import equinox as eqx
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
from cavity.inference.factors.slots import NaturalChain
from cavity.inference.graph.base import AbstractVariable, Messages, Projection
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.chain import ChainBelief
from cavity.inference.variables.gaussian_sites import exact_sites
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inducing_view import InducingView, OutputMean
from cavity.kernels.expectations import (
    GaussianInputs,
    covariance_forms,
    covariance_sum,
    expected_cross,
    expected_diag,
    expected_slopes,
)
from cavity.likelihoods.base import AbstractLikelihood
from cavity.numerics.linalg import gram_weighted
from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.types import Array, Float, Scalar


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


class Regression(eqx.Module):
    """Functions with Gaussian noise between some Gaussian inputs and outputs.

    Attributes:
        places: which edges of the factor go to its inducing variables, one for each group of
            functions.
        mean: the prior mean of all functions, affine.
        sight: inputs and outputs under the belief about rows.
        noise_variance: of rows, from the known ones among their side data; the result broadcasts
            against (rows, outputs).
    """

    places: tuple[int, ...] = eqx.field(static=True)
    mean: OutputMean
    sight: AbstractSight
    noise_variance: Callable[..., Array]

    def messages(
        self,
        edges: tuple[Edge, ...],
        belief: Any,
        rows: Rows,
        power: Power,
        loadings: Sequence[Float[Array, "_ N _"]] = (),
    ) -> Sent:
        """The messages to the inducing variables.

        Args:
            edges: of the factor.
            belief: about the variables of the rows.
            rows: the data.
            power: the power of all rows.
            loadings: of outputs that depend on the whitened inducing variables of their
                functions, their slopes, for each group of these; none for others.
        """
        groups = self.groups(edges, belief, rows, loadings)
        return tuple((group.edge.variable, group.messages(power)) for group in groups)

    def groups(
        self,
        edges: tuple[Edge, ...],
        belief: Any,
        rows: Rows,
        loadings: Sequence[Float[Array, "_ N _"]] = (),
    ) -> "list[Group]":
        """The functions that share inducing variables; arguments are those of `messages`."""
        seen = self.sight(belief, rows).without(self.mean)
        noise = jnp.atleast_2d(self.noise_variance(**rows.columns))
        groups, first = [], 0
        for i, edge in enumerate(edges[place] for place in self.places):
            count = cast(InducingView, edge.view).mean.outputs
            variance = noise if noise.shape[1] == 1 else noise[:, first : first + count]
            slopes = loadings[i] if loadings else None
            groups.append(Group(edge, first, seen.columns(first, count), variance, slopes))
            first += count
        return groups


class Group(NamedTuple):
    """Functions of a regression that share inducing variables, and their rows.

    Attributes:
        edge: to the inducing variables.
        first: the index of the first function.
        seen: inputs and outputs, the prior mean taken out.
        noise_variance: broadcasts against (rows, outputs).
        loadings: of outputs on the whitened inducing variables; None for none.
    """

    edge: Edge
    first: int
    seen: GaussianRows
    noise_variance: Float[Array, "_ _"]
    loadings: Float[Array, "M N W"] | None

    @property
    def view(self) -> InducingView:
        """View that the rows have of the inducing variables."""
        return cast(InducingView, self.edge.view)

    def messages(self, power: Power) -> Messages:
        """The messages of the rows."""
        arguments = self.view, self.seen, self.noise_variance, power, self.loadings
        return averaged_messages(*arguments)

    def precision(self, power: Power) -> Float[Array, "N _"]:
        """The precisions of the rows' sites."""
        arguments = self.view, self.seen, self.noise_variance, power, self.loadings
        return _averaged_sites(*arguments)[2]


class ExpectedDensity(eqx.Module):
    """Expected log densities of outputs, given a Gaussian belief about their functions.

    Attributes:
        likelihood: the density of an output given its function.
        sight: means and variances of the functions under the belief; those that are not present
            do not count.
    """

    likelihood: AbstractLikelihood
    sight: AbstractSight

    def __call__(self, belief: Any, rows: Rows) -> Scalar:
        seen = self.sight(belief, rows)
        assert seen.var is not None
        each = self.likelihood.log_power_mean(seen.mean, seen.var, rows.y, 0.0, rows.columns)
        return jnp.sum(seen.presence * each)


class UncertainExactFactor(AbstractFactor):
    """Rows with Gaussian noise between Gaussian variables that have a variational posterior.

    Attributes:
        edges: the inducing variables, and last the variables of the rows, with variational slots.
        regressions: the functions.
        rows: the data.
        power: the power of all rows.
        densities: terms that depend on the variables of the rows alone.
    """

    edges: tuple[Edge, ...]
    regressions: tuple[Regression, ...]
    rows: Rows
    power: Power
    densities: tuple[Callable[[Any, Rows], Scalar], ...] = ()

    @property
    def stationary(self) -> bool:
        return True

    def empty_sites(self) -> Stores:
        *functions, belief = self.edges
        return (*(None for _ in functions), belief.slots.empty(belief.view, self.rows))

    def messages(self, variables: Sequence[AbstractVariable], sites: Stores) -> Sent:
        edge = self.edges[-1]
        belief = edge.slots.message(sites[-1])
        data = (belief, self.rows, self.power)
        sent = [regression.messages(self.edges, *data) for regression in self.regressions]
        return (*(one for many in sent for one in many), (edge.variable, belief))

    def log_scale(
        self,
        q: Beliefs,
        sites: Stores,
        fixed: EdgeMoments | None = None,
        *,
        settled: bool = False,
    ) -> Scalar:
        edge = self.edges[-1]
        view, slots, belief = edge.view, edge.slots, q[edge.variable]
        marginal = view.marginal(belief, self.rows)
        ratio = slots.log_normaliser_ratio(None, marginal.moments, 0.0)
        total = jnp.sum(view.presence(self.rows) * ratio)
        return total + sum(density(belief, self.rows) for density in self.densities)

    def update(self, q: Beliefs, sites: Stores, step: Power) -> SiteUpdate:
        zero, edge = jnp.zeros(()), self.edges[-1]
        if not edge.slots.private:
            return SiteUpdate(sites, zero, zero, sites)
        belief, links = cast(ChainBelief, q[edge.variable]), cast(NaturalChain, edge.slots).links
        *functions, store = sites
        slopes = jax.grad(lambda moved: self._expected(moved, q))(belief)
        matched = store.matched(belief, slopes, links)
        units = store.fisher_scale(belief)
        moves = jax.tree.map(lambda old, new: step * (new - old), store, matched)
        sizes = jax.tree.map(lambda move, unit: jnp.max(jnp.abs(move * unit)), moves, units)
        residual = jnp.max(jnp.stack(jax.tree.leaves(sizes))) / step
        new = jax.tree.map(jnp.add, store, moves)
        return SiteUpdate((*functions, new), residual, zero, (*functions, units))

    def _expected(self, belief: ChainBelief, q: Beliefs) -> Scalar:
        """Expected terms at a belief about the rows, with the functions' beliefs held.

        Its slopes are those of the energy less the entropy: the functions' beliefs are the best.
        """
        total = jnp.zeros((), self.rows.y.dtype)
        for density in self.densities:
            total = total + density(belief, self.rows)
        for regression in self.regressions:
            for variable, sent in regression.messages(self.edges, belief, self.rows, self.power):
                slopes = cast(InducingBelief, q[variable]).slopes()
                products = jax.tree.map(lambda a, b: jnp.sum(a * b), slopes, sent)
                total = total + sum(jax.tree.leaves(products))
        return total


def averaged_messages(
    view: InducingView,
    seen: GaussianRows,
    noise_variance: Float[Array, "_ _"],
    power: Power,
    loadings: Float[Array, "M N P"] | None = None,
) -> Messages:
    r"""The messages of rows with Gaussian noise, averaged over their inputs and outputs.

    With outputs that depend on the inducing variables themselves, $y = \mathbf T^\top \mathbf v +
    e$, the residual is $e - (\boldsymbol\phi - \mathbf T)^\top \mathbf v$.

    Args:
        view: how rows see the inducing variables of the functions.
        seen: inputs and outputs, the prior mean taken out.
        noise_variance: broadcasts against (rows, outputs).
        power: the power of all rows.
        loadings: T; None for zero. The rest e is then what `seen` says of the outputs.
    """
    kernel, root, inputs = view.kernel, view.root, seen.inputs
    Z, variational = inducing_points(view.inducing), is_exactly(power, 0.0)
    sites = _averaged_sites(view, seen, noise_variance, power, loadings)
    A, shift, precision, log_scale = sites
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
    if loadings is not None:
        away = A[:, :, None] - loadings
        P = within + jnp.einsum("mnp,np,knp->pmk", away, precision, away)
        h = h - jnp.einsum("mnp,np->mp", loadings, shift)
    h = h.T.reshape(P.shape[0], replicas, -1)
    return Messages(h, P, total)


def _averaged_sites(
    view: InducingView,
    seen: GaussianRows,
    noise_variance: Float[Array, "_ _"],
    power: Power,
    loadings: Float[Array, "M N P"] | None,
) -> tuple[Float[Array, "M N"], Float[Array, "N P"], Float[Array, "N _"], Float[Array, " N"]]:
    """Mean loadings of rows, and shift, precision and log scale of their sites at these."""
    kernel, root, inputs = view.kernel, view.root, seen.inputs
    Z = inducing_points(view.inducing)
    A = root @ expected_cross(kernel, inputs, Z).T
    residual = expected_diag(kernel, inputs)
    if not is_exactly(power, 0.0):
        explained = covariance_forms(kernel, inputs, Z, (root.T @ root)[None])[:, 0]
        residual = jnp.maximum(residual - jnp.sum(A**2, axis=0) - explained, 0.0)
    if loadings is not None:
        noise_variance = jnp.broadcast_to(noise_variance, seen.mean.shape)
    rows = Rows(inputs.mean, seen.mean, seen.presence)
    projection = Projection(A, residual, jnp.zeros_like(seen.mean))
    return A, *exact_sites(rows, projection, lambda: noise_variance, power)
