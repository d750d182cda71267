r"""Outputs of rows given some of them: mixtures over the posteriors of their latent inputs.

A variational posterior is narrower than the exact one, and where much is missing there are
several. Points are drawn around all of them, wider than they are, and weighted to stand for the
exact posterior given the functions,

$$w_k \propto \frac{p(\mathbf x_k) \prod_p p(y_p \mid \mathbf x_k)}{\sum_s \pi_s
\mathcal N(\mathbf x_k; \mathbf m_s, c \mathbf v_s)},$$

with the outputs p that are observed (importance sampling). Some of them are then kept, as often as
their weights say, so that those are of equal weight.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.graph.rows import Rows
from cavity.inference.propagation import Spread
from cavity.models.deep.term import terms_at
from cavity.models.latent.projection import Projected, Projector
from cavity.numerics.jit import compiled
from cavity.numerics.qmc import normal_points
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float

# Points that are weighted, and those that are kept.
POINTS, KEPT = 1024, 128
# Variances about a posterior's mean in units of its own, and the share of points that all
# posteriors have alike.
WIDER, ALIKE = 4.0, 0.5
# Latent dimensions beyond which points spread less, so that enough of them have weight.
MANY = 8


@compiled
def outputs_given(projector: Projector, modes: Projected, rows: Rows) -> Spread:
    """The functions of rows at points of equal weight for their latent inputs.

    Args:
        projector: the functions and the likelihood.
        modes: several posteriors of each row's input.
        rows: the rows.
    """
    z = jnp.asarray(normal_points(modes.mean.shape[2], POINTS), modes.mean.dtype)
    # z and the modes must not go in step: the order of points is another one for each
    order = np.random.default_rng(0).permutation(POINTS)
    wider = WIDER ** min(1.0, MANY / z.shape[1])

    def row_functions(data: tuple[Projected, Rows]) -> tuple[Array, Array]:
        mode, row = data
        share = (1.0 - ALIKE) * jax.nn.softmax(mode.bound) + ALIKE / len(mode.bound)
        var = jnp.maximum(jnp.minimum(wider * mode.var, 1.0), mode.var)
        levels = (jnp.asarray(order, z.dtype) + 0.5) / POINTS
        which = jnp.minimum(jnp.searchsorted(jnp.cumsum(share), levels), len(share) - 1)
        x = mode.mean[which] + jnp.sqrt(var[which]) * z
        mean, spread = projector.layer.moments(x)
        weights = jax.nn.softmax(
            _log_posterior(projector, x, Spread(mean[:, None], spread[:, None]), row)
            - _log_mixture(x, mode.mean, var, share)
        )
        # in the order of the coordinate that is least certain, all of its range is kept
        away = x - weights @ x
        line = jnp.argsort(x[:, jnp.argmax(weights @ away**2)])
        ends = (jnp.arange(KEPT) + 0.5) / KEPT
        place = jnp.searchsorted(jnp.cumsum(weights[line]), ends)
        kept = line[jnp.minimum(place, POINTS - 1)]
        return mean[kept], spread[kept]

    single = jax.tree.map(lambda a: a[:, None], rows)
    mean, var = jax.lax.map(row_functions, (modes, single))
    return Spread(jnp.swapaxes(mean, 0, 1), jnp.swapaxes(var, 0, 1))


def _log_posterior(
    projector: Projector, x: Float[Array, "K Q"], values: Spread, row: Rows
) -> Float[Array, " K"]:
    """Log density of points and a row's observed outputs, constants left out."""
    terms = terms_at(projector.likelihood, values, row, 1.0)[:, 0]
    return terms - 0.5 * jnp.sum(x**2, axis=1)


def _log_mixture(
    x: Float[Array, "K Q"],
    mean: Float[Array, "S Q"],
    var: Float[Array, "S Q"],
    share: Float[Array, " S"],
) -> Float[Array, " K"]:
    """Log density of a mixture of Gaussians."""
    squares = (x[:, None] - mean) ** 2 / var + jnp.log(var) + LOG_2PI
    return jax.nn.logsumexp(jnp.log(share) - 0.5 * jnp.sum(squares, axis=2), axis=1)
