"""Interleaved learning: alternating steps of the sites and of the parameters."""

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import Sites, batch_energy, beliefs, energy
from cavity.inference.solvers.parallel import sweep
from cavity.learning.data.training_data import Data, Minibatch
from cavity.learning.objectives.evidence import Objective
from cavity.learning.objectives.learning_energy import LearningEnergy, RowsSeen
from cavity.learning.progress.checkpoint import State, leaves, refilled
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import frozen
from cavity.numerics.types import Array, Scalar

# How far sites move towards their match in a step: less than all the way, as parameters move too.
STEP = 0.5


class Interleaved:
    """An objective as Adam sees it: sites of some rows move, then its slope is taken there.

    Args:
        objective: the objective, whose sites are moved along.
    """

    moved_by = "Adam"

    def __init__(self, objective: Objective):
        self.objective, self.data, self.bounds = objective, objective.data, objective.bounds
        self.sites = objective.sites

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and slope with converged sites."""
        self.objective.start_from(x, self.sites)
        return self.objective(x)

    def state(self) -> State:
        """The sites, as a tree that can be saved."""
        return {"sites": leaves(self.sites)}

    def restore(self, state: State) -> None:
        """Puts sites back."""
        self.sites = refilled(self.objective.empty, state["sites"])

    def step(self, x: np.ndarray, batch: Minibatch) -> tuple[np.ndarray, float, np.ndarray]:
        """The point as it is, and the value and slope of the energy as if sites had converged."""
        o = self.objective
        dtype = o.coordinates.origin.dtype
        scale = float(self.data.length) / batch.size
        index = None if batch.size == int(self.data.length) else batch.index
        step = o.method.solver.step
        jitter, scale, length = (
            jnp.asarray(n, dtype) for n in (o.jitter, scale, STEP if step is None else step)
        )
        assert o.in_memory is not None  # batches have no private sites
        move = jnp.asarray(o.coordinates.move(x))
        seen = RowsSeen(jitter, scale, None if index is None else jnp.asarray(index))
        value, slope = np.nan, np.full(o.size, np.nan)
        # sites that no longer suit the parameters are given up for those of precision zero
        for sites in (self.sites, o.empty):
            value, slope, updated = _step(o.function, o.in_memory, move, sites, seen, length)
            if np.isfinite(float(value)) and np.all(np.isfinite(np.asarray(slope))):
                self.sites = updated
                break
        return x, float(value), o.coordinates.gradient(slope, np.zeros(0))


@compiled
def _step(
    function: LearningEnergy,
    data: Data,
    move: Array,
    sites: Sites,
    seen: RowsSeen,
    length: Scalar,
) -> tuple[Scalar, Array, Sites]:
    jitter, scale, index = jax.tree.map(jnp.asarray, seen)
    graph = frozen(function.graph(function.model(move), data, jitter))
    if index is None:
        target, _, _ = sweep(graph, sites, 1.0)
        moved = jax.tree.map(lambda old, to: old + length * (to - old), sites, target)
    else:
        factor, (store,) = graph.only_factor(), sites
        some, old = factor.at_rows(store, index, 1.0)
        new = some.update(beliefs(graph, sites), old, length).sites
        moved = (jax.tree.map(lambda x, y: x.at[index].set(y), store, new),)

    def loss(move: Array) -> Scalar:
        model = function.model(move)
        graph = function.graph(model, data, jitter)
        value = energy(graph, moved) if index is None else batch_energy(graph, moved, index, scale)
        return value - function.log_prior(model)

    value, slope = jax.value_and_grad(loss)(move)
    return value, slope, moved
