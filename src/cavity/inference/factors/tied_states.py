r"""Tied sites of states: all factors that touch a state in time have the same site on it.

$$q(\mathbf x_t) \propto p(\mathbf x_t)\, \lambda_t(\mathbf x_t)^{n_t}$$

with $n_t$ factors: the transition into the state, the transition out of it, and the one of its
outputs. Only the first state of a series has a prior. The cavity $q / \lambda_t^a$ is the same for
all of them. With $\epsilon = a / n_t$, $q = \mathcal N(\mathbf m, \mathbf V)$, the precision
$\mathbf P$ of the prior, zero for all other states, and $\mathbf d = \mathbf m - \mathbf m_0$ the
cavity has

$$\mathbf V_c = \big[(1 - \epsilon) \mathbf I + \epsilon \mathbf V \mathbf P\big]^{-1} \mathbf V,
\qquad \mathbf m_c = \mathbf m - \epsilon \mathbf V_c \mathbf P \mathbf d,$$

and what states add to the log evidence, $\Phi(q) - \Phi(p) + \tfrac{n_t}a [\Phi(q / \lambda_t^a) -
\Phi(q)]$, is

$$\tfrac12 \log |\mathbf V| - \tfrac1{2 \epsilon} \log \big|\mathbf I + \epsilon (\mathbf P^{1/2}
\mathbf V \mathbf P^{1/2} - \mathbf I)\big| - \tfrac12 \mathbf d^\top \mathbf P (\mathbf m_c -
\mathbf m_0) + c, \qquad c = \begin{cases} \tfrac12 \log |\mathbf P| & \text{first states} \\
\tfrac D2 \log 2 \pi & \text{all others} \end{cases}$$

so that nothing cancels at small powers; at power 0 it is the entropy, and for first states the
expected log prior as well. Every factor counts its own share, one of $n_t$, so that the rows of a
minibatch have all that belongs to them.

References:
    Bui (2017), S42 with erratum E18.
"""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from cavity.inference.factors.slots import AbstractWithoutCavity
from cavity.inference.graph.base import AbstractView
from cavity.inference.graph.marginals import Moments
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.chain import ChainBelief, ChainMoments
from cavity.numerics.power_limits import Power, is_exactly, log_determinant_ratio
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Int, Scalar


class Copies(NamedTuple):
    """Number of sites of each state, and its place in a series.

    Attributes:
        count: factors that touch the state.
        first: 1 where it starts a series, and has a prior.
    """

    count: Float[Array, " N"]
    first: Float[Array, " N"]


class TiedStates(AbstractWithoutCavity[ChainMoments | None, Copies, ChainBelief]):
    """One site for all factors that touch a state, with a Gaussian belief that is stored.

    Attributes:
        copies: of the states that rows see.
        mean: the prior mean of first states.
        variance: their prior variances.
        start: the belief that a search starts from, on the edge that stores it for all edges to
            the states; None on the others.
    """

    private: ClassVar[bool] = False
    copies: Copies
    mean: Float[Array, " D"]
    variance: Float[Array, " D"]
    start: ChainMoments | None = None

    def empty(self, view: AbstractView, rows: Rows) -> ChainMoments | None:
        return self.start

    def row_sites(self, store: ChainMoments | None) -> Copies:
        return self.copies

    def at_rows(self, index: Int[Array, " n"]) -> "TiedStates":
        return dataclasses.replace(self, copies=jax.tree.map(lambda x: x[index], self.copies))

    def message(self, store: ChainMoments | None) -> ChainBelief | None:
        """The belief; states that no factor touches are at their prior."""
        if store is None:
            return None
        root = store.root
        alone = ((self.copies.count == 0.0) & (self.copies.first > 0.0))[:, None]
        cov = root @ jnp.swapaxes(root, -1, -2)
        cov = jnp.where(alone[..., None], jnp.diag(self.variance), cov)
        mean = jnp.where(alone, self.mean, store.mean)
        return ChainBelief(mean, cov, jnp.zeros_like(cov), jnp.zeros((), cov.dtype))

    def cavity(self, site: Copies, moments: Moments, power: Power) -> tuple[Array, Array, Array]:
        ok = jnp.ones((), bool)
        if is_exactly(power, 0.0):
            return *moments, ok

        def one(m: Array, V: Array, copies: Copies) -> tuple[Array, Array]:
            cov, away = self._without(m, V, copies, power)
            return (away + self.mean)[None], cov[None]

        mean, var = moments
        return *jax.vmap(one)(mean[:, 0], var[:, 0], site), ok

    def log_normaliser_ratio(self, site: Copies, moments: Moments, power: Power) -> Array:
        def one(m: Array, V: Array, copies: Copies) -> Scalar:
            share = _share(copies, power)
            deviation = copies.first / jnp.sqrt(self.variance)
            scaled = deviation[:, None] * V * deviation - jnp.eye(len(m), dtype=m.dtype)
            away = self._without(m, V, copies, power)[1]
            value = jnp.linalg.slogdet(V)[1] - log_determinant_ratio(share, scaled)
            value = value - jnp.sum(deviation**2 * (m - self.mean) * away)
            constant = (1.0 - copies.first) * LOG_2PI - copies.first * jnp.log(self.variance)
            return 0.5 * (value + jnp.sum(constant)) / jnp.maximum(copies.count, 1.0)

        mean, var = moments
        return jax.vmap(one)(mean[:, 0], var[:, 0], site)[:, None]

    def _without(self, m: Array, V: Array, copies: Copies, power: Power) -> tuple[Array, Array]:
        """Covariance of one cavity, and its mean less the prior mean."""
        away = m - self.mean
        if is_exactly(power, 0.0):
            return V, away
        share, precision = _share(copies, power), copies.first / self.variance
        left = (1.0 - share) * jnp.eye(len(m), dtype=m.dtype) + share * V * precision
        cov = jnp.linalg.solve(left, V)
        cov = 0.5 * (cov + cov.T)
        return cov, away - share * (cov @ (precision * away))


def _share(copies: Copies, power: Power) -> Power:
    r"""$\epsilon$: the share of its sites that a cavity takes out of a state."""
    if is_exactly(power, 0.0):
        return power
    return jnp.where(copies.count > 0.0, power / jnp.maximum(copies.count, 1.0), 0.0)
