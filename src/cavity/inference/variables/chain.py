r"""States in time as a Gaussian variable: a chain, in which neighbours alone depend directly.

Rows of a table are the times of all series, one series after another, with a state
$\mathbf x_t$ each. A Gaussian whose precision is block-tridiagonal is fixed by the marginals of
neighbouring pairs, and so are its entropy and all that a model of first order asks of it.
`ChainMoments` stores these marginals themselves, with

$$\operatorname{Cov}(\mathbf x_t) = \mathbf L_t \mathbf L_t^\top, \qquad
\operatorname{Cov}(\mathbf x_{t-1}, \mathbf x_t) = \mathbf L_{t-1} \mathbf R_t \mathbf L_t^\top,
\qquad \mathbf R_t = \mathbf W_t \mathbf C_t^{-\top}, \quad
\mathbf C_t \mathbf C_t^\top = \mathbf I + \mathbf W_t^\top \mathbf W_t,$$

so that any $\mathbf W_t$ makes a proper chain and nothing is passed along it: a part of a series
needs its own numbers alone. As the expected terms of a model depend on pairs alone, a full
Gaussian for all states of a series has a precision of this form at its optimum, and gains nothing
over it.

References:
    Bui (2017), S39 and S40 with erratum E12.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from cavity.inference.graph.base import AbstractBelief
from cavity.inference.graph.rows import Rows
from cavity.numerics.linalg import lower_root
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Scalar

# The name of the column of side data that says which series a row belongs to; padding has this.
SERIES, PADDING = "series", -1.0


class ChainBelief(AbstractBelief):
    """A Gaussian chain.

    Attributes:
        mean: means of states.
        cov: their covariances.
        cross: covariances of the state of the row before (rows of the matrix) with that of the
            row; zero where the row starts a series.
        log_normaliser: the entropy of the chain, where the belief is given directly.
    """

    mean: Float[Array, "T D"]
    cov: Float[Array, "T D D"]
    cross: Float[Array, "T D D"]
    log_normaliser: Scalar


class Links(NamedTuple):
    """Links between consecutive rows.

    Attributes:
        first: 1 where a row starts a series.
        linked: 1 where a row goes on from the row before.
    """

    first: Float[Array, " T"]
    linked: Float[Array, " T"]

    @property
    def present(self) -> Float[Array, " T"]:
        """1 where a row has a state, 0 for padding."""
        return self.first + self.linked


def links_of(rows: Rows) -> Links:
    """Links between consecutive rows, from their series."""
    series = rows.side[SERIES]
    before = jnp.concatenate([jnp.full(1, PADDING, series.dtype), series[:-1]])
    present, same = series != PADDING, series == before
    return Links(*(jnp.asarray(x, rows.y.dtype) for x in (present & ~same, present & same)))


class ChainMoments(eqx.Module):
    r"""A chain by marginals of neighbouring pairs, as free numbers that an optimiser moves.

    Attributes:
        mean: means of states.
        raw: the lower triangles of $\mathbf L$, their diagonals as logarithms.
        coupling: $\mathbf W$; None for states that are independent of each other.
    """

    mean: Float[Array, "T D"]
    raw: Float[Array, "T D D"]
    coupling: Float[Array, "T D D"] | None

    @property
    def root(self) -> Float[Array, "T D D"]:
        """The lower Cholesky factors of the covariances."""
        return lower_root(self.raw, jnp.diagonal(self.raw, axis1=-2, axis2=-1))

    def belief(self, links: Links) -> ChainBelief:
        """The chain; its log normaliser is its entropy."""
        root, size = self.root, self.mean.shape[-1]
        cov = root @ jnp.swapaxes(root, -1, -2)
        logs = jnp.sum(jnp.diagonal(self.raw, axis1=-2, axis2=-1), axis=-1)
        entropy = jnp.sum(links.present * (logs + 0.5 * size * (1.0 + LOG_2PI)))
        if self.coupling is None:
            return ChainBelief(self.mean, cov, jnp.zeros_like(cov), entropy)
        correlation, lost = _correlation(self.coupling)
        before = jnp.concatenate([root[:1], root[:-1]])
        cross = before @ correlation @ jnp.swapaxes(root, -1, -2)
        entropy = entropy - jnp.sum(links.linked * lost)
        return ChainBelief(self.mean, cov, links.linked[:, None, None] * cross, entropy)


def _correlation(W: Float[Array, "T D D"]) -> tuple[Float[Array, "T D D"], Float[Array, " T"]]:
    """R, and what the correlation takes from the entropy."""
    if W.shape[-1] == 1:
        squares = 1.0 + W**2
        return W / jnp.sqrt(squares), 0.5 * jnp.log(squares[:, 0, 0])
    C = jnp.linalg.cholesky(jnp.eye(W.shape[-1]) + jnp.swapaxes(W, -1, -2) @ W)
    solve = jax.vmap(lambda c, w: solve_triangular(c, w.T, lower=True).T)
    return solve(C, W), jnp.sum(jnp.log(jnp.diagonal(C, axis1=-2, axis2=-1)), axis=-1)
