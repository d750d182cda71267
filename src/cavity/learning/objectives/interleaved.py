"""Interleaved learning: alternating steps of the sites and of the parameters."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.energy import Sites, batch_energy, beliefs, energy
from cavity.inference.solvers.parallel import sweep
from cavity.learning.data.arrays import Data
from cavity.learning.objectives.evidence import Objective
from cavity.learning.optimisers.checkpoint import leaves, refilled
from cavity.models.base import AbstractModel
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import frozen
from cavity.numerics.types import Array, Scalar
from cavity.parameters import from_real
from cavity.parameters.priors import log_prior

# How far sites move towards their match in a step: less than all the way, as parameters move too.
STEP = 0.5


class Interleaved:
    """An objective as Adam sees it: sites of some rows move, then its slope is taken there.

    Args:
        objective: the objective, whose sites are moved along.
    """

    def __init__(self, objective: Objective):
        self.objective, self.data, self.bounds = objective, objective.data, objective.bounds
        self.sites = objective.sites

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and slope with converged sites."""
        self.objective.sites = self.sites
        return self.objective(x)

    def state(self) -> dict[str, Any]:
        """The sites, as a tree that can be saved."""
        return {"sites": leaves(self.sites)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Puts sites back."""
        self.sites = refilled(self.objective.empty, state["sites"])

    def step(self, x: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        """The point as it is, and the value and slope of the energy as if sites had converged."""
        o = self.objective
        dtype = o.coordinates.origin.dtype
        scale = float(self.data.length) / rows.size
        index = None if rows.size == int(self.data.length) else jnp.asarray(rows)
        step = o.method.solver.step
        length = jnp.asarray(STEP if step is None else step, dtype)
        assert isinstance(o.data, Data)
        jitter = jnp.asarray(o.jitter, dtype)
        fixed = (o.start, o.maps, o.densities, o.data, o.approximation, jitter)
        numbers = (index, jnp.asarray(scale, dtype), length)
        value, slope = np.nan, np.full(o.size, np.nan)
        # sites that no longer suit the parameters are given up for those of precision zero
        for sites in (self.sites, o.empty):
            assert sites is not None
            value, slope, found = _step(o.coordinates.real(x), *fixed, sites, *numbers)
            if np.isfinite(float(value)) and np.all(np.isfinite(np.asarray(slope))):
                self.sites = found
                break
        return x, float(value), o.coordinates.gradient(slope, np.zeros(0))


@compiled
def _step(
    real: Array,
    start: AbstractModel,
    maps: Any,
    densities: Any,
    data: Data,
    approximation: AbstractApproximation,
    jitter: Scalar,
    sites: Sites,
    index: Array | None,
    scale: Scalar,
    length: Scalar,
) -> tuple[Scalar, Array, Sites]:
    graph = frozen(data.problem(from_real(real, start, maps), approximation, jitter).graph())
    if index is None:
        target, _, _ = sweep(graph, sites, 1.0)
        moved = jax.tree.map(lambda old, to: old + length * (to - old), sites, target)
    else:
        factor, (store,) = graph.only_factor(), sites
        part, old = factor.at_rows(store, index, 1.0)
        new = part.update(beliefs(graph, sites), old, length).sites
        moved = (jax.tree.map(lambda x, y: x.at[index].set(y), store, new),)

    def loss(real: Array) -> Scalar:
        model = from_real(real, start, maps)
        laid = data.problem(model, approximation, jitter).graph()
        value = energy(laid, moved) if index is None else batch_energy(laid, moved, index, scale)
        return value - log_prior(model, densities)

    value, slope = jax.value_and_grad(loss)(real)
    return value, slope, moved
