r"""The gradient of the energy through sites at a fixed point, by the implicit function theorem.

Sites at a fixed point $\mathbf s = F(\mathbf s, \theta)$ of the sweeps change with the model. If
the energy is stationary in the sites, that change has no effect. Otherwise, as with moments that
are averages over points,

$$\frac{d E}{d \theta} = \frac{\partial E}{\partial \theta} + \boldsymbol\lambda^\top
\frac{\partial F}{\partial \theta}, \qquad
\Big(\mathbf I - \frac{\partial F}{\partial \mathbf s}\Big)^\top \boldsymbol\lambda =
\frac{\partial E}{\partial \mathbf s}.$$

The linear system is solved by GMRES, whose products are backward passes through one sweep. If
sweeps are Newton's steps to a mode, one product solves it.
"""

from typing import Any

import jax
import jax.numpy as jnp

from cavity.inference.energy import Graph, Sites, energy
from cavity.inference.solvers.parallel import sweep
from cavity.numerics.power_limits import frozen
from cavity.numerics.types import Scalar

# The error of the solution, relative; directions between restarts, and restarts at the most.
RELATIVE, DIRECTIONS, RESTARTS = 1e-8, 20, 3


def stationary(graph: Graph) -> bool:
    """True if the energy of every local factor is stationary in its sites at a fixed point."""
    return all(factor.stationary for factor in graph.factors)


def implicit_gradient(graph: Graph, sites: Sites, *, newton: bool) -> Scalar:
    r"""Zero, with the derivative in the model that the energy has by way of its sites.

    Args:
        graph: the model laid out for inference.
        sites: at a fixed point of the sweeps; constant under differentiation.
        newton: whether sweeps are Newton's steps to a mode. What a change of the sites does to
            the next sites vanishes in the ones after, so that the solution is
            $\partial E / \partial \mathbf s$ and one product with it.
    """
    from jax.scipy.sparse.linalg import gmres

    still, sites = frozen(graph), frozen(sites)
    uphill = jax.grad(lambda s: energy(still, s))(sites)
    _, back = jax.vjp(lambda s: sweep(still, s, 1.0)[0], sites)

    def left(weights: Sites) -> Any:
        return jax.tree.map(jnp.subtract, weights, back(weights)[0])

    if newton:
        weights = jax.tree.map(jnp.add, uphill, back(uphill)[0])
    else:
        limits = {"tol": RELATIVE, "restart": DIRECTIONS, "maxiter": RESTARTS}
        weights, _ = gmres(left, uphill, x0=uphill, **limits)
    moved = sweep(graph, sites, 1.0)[0]
    products = jax.tree.map(lambda w, s: jnp.sum(frozen(w) * s), weights, moved)
    value = jnp.asarray(sum(jax.tree.leaves(products)))
    return value - frozen(value)
