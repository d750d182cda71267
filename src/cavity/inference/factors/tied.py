r"""Tied factors: one Gaussian site, to the power of the number of data, stands for all rows.

$$q(\mathbf v) \propto p(\mathbf v)\, t(\mathbf v)^N, \qquad
-\log Z = -\big[\Phi(q) - \Phi(p)\big] - \tfrac Na \big[\Phi(q / t^a) - \Phi(q)\big]
- \sum_n \log M_a(f_n; q / t^a)$$

The cavity is the same for all rows, so that there is no saddle: the energy is minimised over q
directly, with minibatches if need be. At power 0 it is the uncollapsed variational bound.
With $\epsilon = a / N$ and $q = \mathcal N(\mathbf m, \mathbf S \mathbf S^\top)$, everything is
a function of $\mathbf K = \mathbf I + \epsilon (\mathbf S^\top \mathbf S - \mathbf I)$, so that
nothing cancels at small powers.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from cavity.inference.approximations.local_terms import Latent, latent
from cavity.inference.energy import Graph
from cavity.inference.factors.site import SiteFactor
from cavity.inference.graph.base import Projection
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.variables.inducing import InducingBelief
from cavity.numerics.chunking import map_over_rows, sum_over_rows
from cavity.numerics.linalg import cholesky, cholesky_and_inverse, log_determinant
from cavity.numerics.power_limits import Power, is_exactly, log_determinant_ratio
from cavity.numerics.quadrature import Tilted
from cavity.numerics.types import Array, Float, Scalar


class TiedBelief(eqx.Module):
    r"""A Gaussian over a whitened variable, per output, as an optimiser moves it.

    Attributes:
        mean: $\mathbf m$.
        raw: the lower triangle of $\mathbf S$, its diagonal as logarithms.
    """

    mean: Float[Array, "P M"]
    raw: Float[Array, "P M M"]

    @property
    def root(self) -> Float[Array, "P M M"]:
        """S, lower triangular with a positive diagonal."""
        diagonal = jnp.exp(jnp.diagonal(self.raw, axis1=-2, axis2=-1))
        return jnp.tril(self.raw, -1) + diagonal[..., None] * jnp.eye(self.raw.shape[-1])

    def belief(self) -> InducingBelief:
        """The same as a belief, its normaliser left out."""
        mean = self.mean[:, None, :]
        return InducingBelief(mean, jnp.swapaxes(self.root, -1, -2), jnp.zeros((), mean.dtype))


def prior_belief(outputs: int, size: int, dtype: jnp.dtype) -> TiedBelief:
    """The prior, where a search may start."""
    return TiedBelief(jnp.zeros((outputs, size), dtype), jnp.zeros((outputs, size, size), dtype))


class TiedCavity(eqx.Module):
    """The cavity that all rows share, and what taking the site's power out is worth."""

    mean: Float[Array, "P M"]
    root: Float[Array, "P M M"]  # the covariance is rootᵀ root
    log_scale: Scalar

    def marginal(self, projection: Projection) -> tuple[Float[Array, "N P"], Float[Array, "N P"]]:
        """Means and variances of the projected variable."""
        A = projection.loadings
        assert A is not None
        half = self.root @ A
        return (self.mean @ A).T, jnp.sum(half**2, axis=1).T


def cavity(q: TiedBelief, power: Power, total: Float[Array, " P"]) -> TiedCavity:
    """The cavity of a belief with one tied site.

    Args:
        q: the belief.
        power: the power of all rows.
        total: the number of observed rows, per output.
    """

    def one(m: Array, S: Array, n: Array) -> tuple[Array, Array, Array]:
        if is_exactly(power, 0.0):
            # nothing is taken out; what is gained less what is removed is -KL(q || p)
            spread = 0.5 * (m @ m + jnp.sum(S**2) - m.size)
            return m, S.T, log_determinant(S) / 2.0 - spread
        share = power / n
        SS = S.T @ S
        eye = jnp.eye(m.shape[0], dtype=m.dtype)
        K = eye + share * (SS - eye)
        _, R = cholesky_and_inverse(K)
        b = solve_triangular(S, m, lower=True)
        solved = R.T @ (R @ b)
        # log Φ(q) - log Φ(p) = ½ |b|² + log |S|
        gained = 0.5 * b @ b + log_determinant(S) / 2.0
        # N D_a = -½ bᵀ((1 - ε) I + SᵀS) K⁻¹ b - N log|K| / 2a
        removed = -0.5 * b @ ((1.0 - share) * solved + SS @ solved)
        removed = removed - 0.5 * n * log_determinant_ratio(power, (SS - eye) / n)
        return (1.0 - share) * (S @ solved), R @ S.T, gained + removed

    mean, root, log_scale = jax.vmap(one)(q.mean, q.root, total)
    return TiedCavity(mean, root, jnp.sum(log_scale))


def tied_energy(
    graph: Graph, beliefs: tuple[TiedBelief, ...], total: Float[Array, " P"], scale: Scalar
) -> Scalar:
    """The negative log evidence of tied factors, in nats.

    Args:
        graph: the model laid out on all rows, or on a minibatch: one factor, whitened variables.
        beliefs: those of its variables.
        total: the number of observed rows in all the data, per output.
        scale: rows in all the data per row at hand; makes minibatches unbiased.
    """
    (factor,) = graph.factors
    assert isinstance(factor, SiteFactor)
    power = factor.power
    cavities = tuple(cavity(q, power, total) for q in beliefs)

    def part(rows: Rows) -> Array:
        value = factor.term.log_mean(_faced(factor, rows, cavities), rows, power)
        return jnp.sum(factor.row_presence(rows) * value)

    likelihood = sum_over_rows(part, factor.rows, factor.chunk)
    return -sum(c.log_scale for c in cavities) - scale * likelihood


def tied_leave_one_out(
    graph: Graph, beliefs: tuple[TiedBelief, ...], total: Float[Array, " P"]
) -> Float[Array, "N P"]:
    """Log predictive density of every output given the others.

    A share of the tied site is not what a row has said: the site that matches the row at the
    belief is taken out, which at power 0 is exactly the row's own.
    """
    (factor,) = graph.factors
    assert isinstance(factor, SiteFactor)
    marginals = tuple(cavity(q, 0.0, total) for q in beliefs)

    def part(rows: Rows) -> Array:
        faced = _faced(factor, rows, marginals)
        without, proper = [], jnp.ones((), bool)
        for seen, site in zip(faced, _own_sites(factor, rows, faced), strict=True):
            mean, var, ok = site.cavity(seen.mean, seen.var, 1.0)
            without.append(Latent(mean, var, seen.residual))
            proper = proper & ok
        return jnp.where(proper, factor.term.log_density(tuple(without), rows), jnp.nan)

    return map_over_rows(part, factor.rows, factor.chunk)


def tied_site_precisions(
    graph: Graph, beliefs: tuple[TiedBelief, ...], total: Float[Array, " P"]
) -> tuple[Float[Array, "N P"], ...]:
    """For each latent function the precision of the site that matches each row at the belief."""
    (factor,) = graph.factors
    assert isinstance(factor, SiteFactor)
    marginals = tuple(cavity(q, 0.0, total) for q in beliefs)

    def part(rows: Rows) -> tuple[Array, ...]:
        own = _own_sites(factor, rows, _faced(factor, rows, marginals))
        return tuple(site.precision for site in own)

    return map_over_rows(part, factor.rows, factor.chunk)


def _own_sites(
    factor: SiteFactor, rows: Rows, faced: tuple[Latent, ...]
) -> tuple[ScalarSites, ...]:
    """The sites that match rows at the belief that they face, at power 0."""

    def matched(seen: Latent, found: Tilted) -> ScalarSites:
        none = ScalarSites(jnp.zeros_like(seen.mean), jnp.zeros_like(seen.mean))
        return none.matched(seen.mean, seen.var, found.slope, found.curvature, 0.0)

    return tuple(map(matched, faced, factor.term.derivatives(faced, rows, 0.0)))


def natural_step(
    graph: Graph,
    beliefs: tuple[TiedBelief, ...],
    total: Float[Array, " P"],
    scale: Scalar,
    step: Power,
) -> tuple[TiedBelief, ...]:
    """A natural-gradient step at power 0: the share `step` of the way to the matched sites.

    References:
        Bui (2017), S14; the site update at power 0.
    """
    (factor,) = graph.factors
    assert isinstance(factor, SiteFactor)
    cavities = tuple(cavity(q, 0.0, total) for q in beliefs)

    def part(rows: Rows) -> tuple:
        faced = _faced(factor, rows, cavities)
        tilted = factor.term.derivatives(faced, rows, 0.0)
        found = []
        for edge, each, seen in zip(factor.edges, tilted, faced, strict=True):
            projection = edge.view.project(rows)
            weight = factor.row_presence(rows)
            precision = -weight * each.curvature
            shift = precision * (seen.mean - projection.offset) + weight * each.slope
            zero = jnp.zeros(rows.y.shape[0], rows.y.dtype)
            variable = graph.variables[edge.variable]
            found.append(variable.scatter(shift, precision, zero, projection))
        return tuple(found)

    messages = sum_over_rows(part, factor.rows, factor.chunk)
    pairs = zip(beliefs, messages, strict=True)
    return tuple(_blended(q, m.shift[:, 0], m.precision, scale, step) for q, m in pairs)


def _blended(
    q: TiedBelief, shift: Array, precision: Array, scale: Scalar, step: Power
) -> TiedBelief:
    """A belief moved in natural parameters; where that leaves no proper one, as it was."""
    eye = jnp.eye(q.mean.shape[-1], dtype=q.mean.dtype)

    def one(m: Array, S: Array, raw: Array, h: Array, T: Array) -> tuple[Array, Array]:
        W = solve_triangular(S, eye, lower=True)
        now = W.T @ W
        B = (1.0 - step) * now + step * (eye + scale * T)
        # the lower factor of B⁻¹ through the factor of B with its axes reversed
        L = cholesky(B[::-1, ::-1])
        root = solve_triangular(L, eye, lower=True).T[::-1, ::-1]
        mean = root @ (root.T @ ((1.0 - step) * (now @ m) + step * scale * h))
        diagonal = jnp.log(jnp.diagonal(root))
        new = jnp.tril(root, -1) + jnp.diag(diagonal)
        ok = jnp.all(jnp.isfinite(new)) & jnp.all(jnp.isfinite(mean))
        return jnp.where(ok, mean, m), jnp.where(ok, new, raw)

    return TiedBelief(*jax.vmap(one)(q.mean, q.root, q.raw, shift, precision))


def _faced(factor: SiteFactor, rows: Rows, cavities: tuple[TiedCavity, ...]) -> tuple[Latent, ...]:
    projections = [edge.view.project(rows) for edge in factor.edges]
    pairs = zip(cavities, projections, strict=True)
    return tuple(latent(c.marginal(p), p) for c, p in pairs)
