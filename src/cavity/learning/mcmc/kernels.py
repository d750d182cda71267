"""Transition kernels of Markov chains: moves in turn, with step sizes adapted per chain.

A state is a dictionary of arrays. A move leaves the target distribution invariant: NUTS on some
entries of the state (`Block`), or any other transition (`Draw`). NUTS, its adaptation and
elliptical slice sampling are those of blackjax; this module combines them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.numerics.types import Array, Scalar

State = dict[str, Array]
# What an iteration is for: step sizes, these and the metric, or draws.
FAST, SLOW, DRAWING = 0, 1, 2
# Trajectories have at most 2 to the power of this many steps.
DOUBLINGS = 8
FIRST_STEP = 0.2
# Up to so many coordinates their correlations are adapted to as well.
DENSE = 32


class Tuning(NamedTuple):
    """Adapted step size and metric of a block."""

    step: Any
    mass: Any


class Adapting(NamedTuple):
    """Adaptation of step sizes and metrics along iterations, or in one of them.

    Attributes:
        stages: what each iteration is for, (T,).
        ends: whether a window of adaptation ends with it, (T,).
        acceptance: what step sizes are adapted to.
    """

    stages: Array
    ends: Array
    acceptance: float


class Block(NamedTuple):
    """A part of the state that moves by NUTS.

    Attributes:
        read: the part as a vector.
        write: the state with another vector in its place.
        log_density: of a state, up to a constant.
    """

    read: Callable[[State], Array]
    write: Callable[[State, Array], State]
    log_density: Callable[[State], Scalar]

    def untuned(self, state: State, acceptance: float) -> Tuning:
        """The tuning before the first iteration."""
        part = self.read(state)
        steps, mass = _adaptation(part.size, acceptance)
        first = jnp.asarray(FIRST_STEP, part.dtype)
        # the average begins there too: without warm-up it is what draws are made with
        step = steps[0](first)._replace(log_step_size_avg=jnp.log(first))
        return Tuning(step, mass[0](part.size))

    def step(
        self, key: Array, state: State, tuning: Tuning, now: Adapting
    ) -> tuple[State, Tuning, list[dict[str, Array]]]:
        """The state after a trajectory, what its tuning learned from it, and statistics."""
        nuts = blackjax().nuts

        def log_density(part: Array) -> Scalar:
            value = self.log_density(self.write(state, part))
            return jnp.where(jnp.isnan(value), -jnp.inf, value)

        start = nuts.init(self.read(state), log_density)
        averaged = now.stages == DRAWING
        size = jnp.where(averaged, tuning.step.log_step_size_avg, tuning.step.log_step_size)
        metric = tuning.mass.inverse_mass_matrix
        kernel = nuts.build_kernel()
        found, info = kernel(key, start, log_density, jnp.exp(size), metric, DOUBLINGS)
        rate = jnp.nan_to_num(info.acceptance_rate)
        steps, mass = _adaptation(start.position.size, now.acceptance)
        slow = now.stages == SLOW
        metric = jax.lax.cond(slow, lambda m: mass[1](m, found.position), lambda m: m, tuning.mass)
        step = jax.lax.cond(averaged, lambda s: s, lambda s: steps[1](s, rate), tuning.step)
        metric = jax.lax.cond(now.ends, mass[2], lambda m: m, metric)
        step = jax.lax.cond(now.ends, lambda s: steps[0](steps[2](s)), lambda s: s, step)
        stats = {
            "diverging": info.is_divergent,
            "acceptance_rate": rate,
            "n_steps": info.num_integration_steps,
        }
        return self.write(state, found.position), Tuning(step, metric), [stats]


class Draw(NamedTuple):
    """A move without step sizes.

    Attributes:
        move: from a key and a state to the next state.
    """

    move: Callable[[Array, State], State]

    def untuned(self, state: State, acceptance: float) -> None:
        """There is nothing to tune."""

    def step(
        self, key: Array, state: State, tuning: None, now: Adapting
    ) -> tuple[State, None, list[dict[str, Array]]]:
        """The state after the move, which has no statistics."""
        return self.move(key, state), None, []


def blackjax() -> Any:
    """The package of samplers.

    Raises:
        ImportError: naming the extra, where it is not installed.
    """
    try:
        import blackjax
    except ImportError:
        raise ImportError(
            'the method MCMC needs blackjax, which is not installed: pip install "cavity[mcmc]"'
        ) from None
    return blackjax


def _adaptation(size: int, acceptance: float) -> tuple[Any, Any]:
    """Functions that adapt the step size, and the metric of so many coordinates."""
    found = blackjax().adaptation
    steps = found.step_size.dual_averaging_adaptation(acceptance)
    return steps, found.mass_matrix.mass_matrix_adaptation(is_diagonal_matrix=size > DENSE)


def schedule(warmup: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Stage of each iteration, and whether a window of adaptation ends with it."""
    from blackjax.adaptation.window_adaptation import build_schedule

    rows = np.asarray(build_schedule(warmup)).reshape(-1, 2) if warmup else np.zeros((0, 2))
    stages = np.concatenate([rows[:, 0], np.full(draws, DRAWING)]).astype(int)
    return stages, np.concatenate([rows[:, 1], np.zeros(draws)]).astype(bool)


def elliptical_slices(
    key: Array, position: Array, log_likelihood: Callable[[Array], Scalar], count: int
) -> Array:
    """A standard normal vector after so many elliptical slices under a likelihood."""
    sampler = blackjax().elliptical_slice

    def bounded(z: Array) -> Scalar:
        value = log_likelihood(z)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    kernel = sampler.build_kernel(jnp.ones_like(position), jnp.zeros_like(position))

    def one(state: Any, key: Array) -> tuple[Any, None]:
        return kernel(key, state, bounded)[0], None

    start = sampler.init(position, bounded)
    return jax.lax.scan(one, start, jax.random.split(key, count))[0].position


@eqx.filter_jit
def advance(
    target: Any,
    state: State,
    tunings: list[Tuning | None],
    key: Array,
    adapting: Adapting,
) -> tuple[State, list[Tuning | None], State, State]:
    """Some iterations of one chain.

    Args:
        target: has `moves()`, and `log_density(state)`.
        state: where the chain is.
        tunings: of the blocks among the moves, None for the others.
        key: a random key.
        adapting: of these iterations.

    Returns:
        The state and tunings at the end, the states of all iterations, (T, ...), and
        their statistics.
    """
    moves = target.moves()

    def one(carry: tuple[State, list], inputs: Any) -> tuple[tuple[State, list], Any]:
        state, tuned = carry
        key, stage, end = inputs
        stats: list[dict[str, Array]] = []
        new = []
        for move, tuning, own in zip(moves, tuned, jax.random.split(key, len(moves)), strict=True):
            now = Adapting(stage, end, adapting.acceptance)
            state, tuning, found = move.step(own, state, tuning, now)
            stats += found
            new.append(tuning)
        return (state, new), (state, _together(stats, state) | {"lp": target.log_density(state)})

    stages = adapting.stages
    inputs = (jax.random.split(key, stages.shape[0]), stages, adapting.ends)
    (state, tunings), (trace, stats) = jax.lax.scan(one, (state, tunings), inputs)
    return state, tunings, trace, stats


def _together(stats: list[dict[str, Array]], state: State) -> dict[str, Array]:
    """The statistics of an iteration from those of its trajectories."""
    if not stats:
        return {}
    return {
        "diverging": jnp.any(jnp.stack([s["diverging"] for s in stats])),
        "acceptance_rate": jnp.mean(jnp.stack([s["acceptance_rate"] for s in stats])),
        "n_steps": jnp.sum(jnp.stack([s["n_steps"] for s in stats])),
    }
