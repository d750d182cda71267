"""Posterior draws for a model and data: chains for inference and for learning."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity.learning.data.scales import coordinate_scales
from cavity.learning.data.training_data import Data
from cavity.learning.mcmc.chains import Chains, chains_of
from cavity.learning.mcmc.evidence import stepping_stones
from cavity.learning.mcmc.kernels import (
    Adapting,
    State,
    advance,
    blackjax,
    schedule,
)
from cavity.learning.mcmc.problem import Moving, Problem
from cavity.learning.mcmc.targets import (
    Collapsed,
    WhitenedTarget,
    fixed_basis,
    sites_about_mode,
)
from cavity.learning.mcmc.weights import WeightTarget
from cavity.learning.methods.mcmc import LEAST_DRAWS, MCMC
from cavity.learning.optimisers.lbfgs import Progress
from cavity.learning.progress.checkpoint import Search, leaves, refilled
from cavity.models.base import AbstractModel
from cavity.models.posterior import AbstractPosterior
from cavity.numerics.jit import compiled
from cavity.numerics.linalg import escalate
from cavity.numerics.tree import named, with_named
from cavity.numerics.types import Array
from cavity.parameters import Bijection, Real, free_entries, to_real
from cavity.parameters.priors import Flat, LogNormal, Normal, Prior, log_prior

# The share of the mean prior variance that is added at least to covariances of functions.
LEAST_JITTER = 1e-8
# Chains start about the model's parameters, so far in units of the coordinates.
DISPERSION = 0.5
# The standard deviation of weak priors, in units of the coordinates: of a logarithm, and of a
# real number in the units of the data.
WEAK_LOG, WEAK_REAL = 2.0, 10.0
# Progress is reported so many times.
REPORTS = 20


@dataclasses.dataclass(frozen=True)
class Drawn:
    """Result of sampling.

    Attributes:
        model: the model at the medians of its parameters.
        posterior: over the draws that were kept.
        chains: all draws.
        log_evidence: its estimate, None unless it was asked for.
        jitter: share of the mean prior variance on the diagonal of prior covariances.
        iterations: of each chain, warm-up included.
        steps: evaluations of the density's gradient in all chains.
        interrupted: whether it was interrupted from the keyboard.
    """

    model: AbstractModel
    posterior: AbstractPosterior
    chains: Chains
    log_evidence: float | None
    jitter: float
    iterations: int
    steps: int
    interrupted: bool


def weak_priors(
    model: AbstractModel, maps: AbstractModel, densities: AbstractModel, data: Data
) -> AbstractModel:
    """The priors with weak proper ones in the place of flat ones of parameters that move.

    A positive parameter gets a log-normal prior about its starting value with a standard
    deviation of 2 of its logarithm, a real one a normal prior about it with ten times the units of
    the data. Parameters between two bounds keep the flat prior, which is proper there.

    Args:
        model: the model, at its starting values.
        maps: bijections.
        densities: priors.
        data: prepared data, which give the units.
    """
    log_prior(model, densities)  # refuses another structure, and what is no prior
    scales = coordinate_scales(model, maps, data.scales(model.likelihood))
    given, weak, start = named(densities), {}, 0
    for name, value, b in free_entries(model, maps):
        unit = scales[start : start + np.size(value)]
        start += np.size(value)
        if given[name] == Flat():
            weak[name] = _weak(np.asarray(value), b, unit)
    return with_named(densities, weak)


def _weak(value: np.ndarray, b: Bijection, unit: np.ndarray) -> Prior:
    if np.isfinite(b.upper):
        return Flat()
    if b == Real():
        return Normal(_plain(value), _plain(WEAK_REAL * unit.reshape(value.shape)))
    return LogNormal(_plain(value), WEAK_LOG)


def _plain(given: Any) -> Any:
    """Numbers that can be compared: one where all are the same, else a tuple."""
    values = np.asarray(given)
    if values.size and np.all(values == values.ravel()[0]):
        return float(values.ravel()[0])
    return float(values) if values.ndim == 0 else tuple(_plain_row(row) for row in values)


def _plain_row(row: Any) -> Any:
    return float(row) if np.ndim(row) == 0 else tuple(_plain_row(r) for r in row)


def problem_of(model: AbstractModel, data: Data, moving: Moving) -> Problem:
    """A model and the rows of data that were observed, as what chains work on."""
    dtype = data.rows.x.dtype
    seen = np.asarray(data.rows.presence)[:, 0] > 0.0
    rows = jax.tree.map(lambda a: jnp.asarray(np.asarray(a)[seen]), data.rows)
    maps, densities = moving.maps, moving.densities
    scale = coordinate_scales(model, maps, data.scales(model.likelihood))
    side = {name: jnp.ravel(values) for name, values in rows.side.items()}
    where = (rows.x, rows.y[:, 0], side)
    level = jnp.asarray(max(moving.jitter, LEAST_JITTER), dtype)
    origin = jnp.asarray(to_real(model, maps), dtype)
    return Problem(model, maps, densities, *where, origin, jnp.asarray(scale, dtype), level)


def target_of(problem: Problem) -> Any:
    """Target density of the chains of a problem, chosen by its model and likelihood."""
    likelihood = problem.start.likelihood
    smooth = likelihood.smooth
    if problem.start.drawn_weights is not None:
        return WeightTarget(problem, sliced=not smooth)
    if likelihood.gaussian_noise is not None:
        return Collapsed(problem)
    still = problem.origin.size == 0
    shape = (likelihood.latents, problem.outputs.size)
    precision, shift = jnp.zeros((2, *shape), problem.outputs.dtype)
    # sites of several functions at one set of parameters mislead at others
    if smooth and (still or likelihood.latents == 1):
        precision, shift = sites_about_mode(problem)
    basis = fixed_basis(problem, precision, shift) if still else None
    return WhitenedTarget(problem, precision, shift, smooth, basis)


@compiled
def _begun(target: Any, key: Array, x: Array) -> tuple[State, Array]:
    state = target.start(key, x)
    return state, target.log_density(state)


def _starts(target: Any, key: Array, chains: int) -> list[State] | None:
    """Initial states of the chains; None where the density is nowhere finite."""
    found = []
    for chain in range(chains):
        where, own = jax.random.split(jax.random.fold_in(key, chain))
        origin = target.problem.origin
        x = DISPERSION * jax.random.normal(where, origin.shape, origin.dtype)
        for shrunk in (1.0, 0.5, 0.1, 0.0):
            state, value = _begun(target, own, shrunk * x)
            if np.isfinite(value):
                break
        else:
            return None
        found.append(state)
    return found


def draw(
    model: AbstractModel,
    data: Data,
    method: MCMC,
    moving: Moving,
    callback: Callable[[Progress], None] | None = None,
    search: Search | None = None,
) -> Drawn | None:
    """Draws from the posterior of what moves and of the latent functions or weights.

    Args:
        model: the model to start from, its likelihood not Gaussian unless parameters move.
        data: prepared data of one output.
        method: settings.
        moving: the parameters that move.
        callback: called some twenty times with a `Progress`.
        search: where the state of the chains is saved, as often; None for nowhere.

    Returns:
        What was found; None where no jitter makes the density finite.
    """
    blackjax()
    key = jax.random.key(method.seed)
    level: float | None = max(moving.jitter, LEAST_JITTER)
    while level is not None:
        problem = problem_of(model, data, moving._replace(jitter=level))
        target = target_of(problem)
        states = _starts(target, key, method.chains)
        if states is not None:
            run = _Run(target, method, callback, search or Search())
            interrupted = run.all(states, jax.random.fold_in(key, method.chains))
            return _gathered(run, data, level, interrupted=interrupted)
        # weights have no covariance that a jitter would help
        level = None if model.drawn_weights is not None else escalate(level)
    return None


@dataclasses.dataclass
class _Run:
    """The chains of one target under way."""

    target: Any
    method: MCMC
    callback: Callable[[Progress], None] | None
    search: Search
    traces: list[Any] = dataclasses.field(default_factory=list)
    stats: list[Any] = dataclasses.field(default_factory=list)
    steps: int = 0
    done: int = 0

    def all(self, states: list[State], key: Array) -> bool:
        """Runs to the end; whether it was interrupted after enough draws.

        Raises:
            KeyboardInterrupt: for an interrupt before that, saying how many there are.
        """
        method = self.method
        stages, ends = schedule(method.warmup, method.draws)
        length = -(-len(stages) // REPORTS)
        more = -len(stages) % length
        stages = np.append(stages, np.full(more, stages[-1]))
        ends = np.append(ends, np.zeros(more, bool))
        began = time.perf_counter()
        moves = self.target.moves()
        tunings = [[move.untuned(state, method.acceptance) for move in moves] for state in states]
        carry = [jax.tree.map(np.asarray, pair) for pair in zip(states, tunings, strict=True)]
        carry = self._resumed(carry)
        try:
            for start in range(self.done, len(stages), length):
                part = slice(start, start + length)
                carry = self._part(carry, key, stages[part], ends[part])
                self.search.keep(lambda now=carry: self._state(now))
                self._report(began, len(stages))
        except KeyboardInterrupt:
            made = self.done - method.warmup
            least = max(LEAST_DRAWS, -(-method.keep // method.chains))
            if made < least:
                raise KeyboardInterrupt(
                    f"too few draws to keep; each chain has {max(made, 0)} after its warm-up, "
                    f"{least} are needed"
                ) from None
            return True
        return False

    def _part(self, carry: list[Any], key: Array, stages: np.ndarray, ends: np.ndarray) -> list:
        """Some iterations of every chain, one after another."""
        found = []
        for chain, (state, tunings) in enumerate(carry):
            own = jax.random.fold_in(jax.random.fold_in(key, chain), self.done)
            what = Adapting(jnp.asarray(stages), jnp.asarray(ends), self.method.acceptance)
            made = advance(self.target, state, tunings, own, what)
            # as numpy, whose types are not weak: one program serves all parts
            found.append(jax.tree.map(np.asarray, made))
        for kept, place in ((self.traces, 2), (self.stats, 3)):
            kept.append({k: np.stack([f[place][k] for f in found]) for k in found[0][place]})
        self.steps += int(np.sum(self.stats[-1].get("n_steps", 0)))
        self.done += len(stages)
        return [(f[0], f[1]) for f in found]

    def _state(self, carry: list[Any]) -> dict[str, Any]:
        """States and draws of the chains, as a tree that can be saved."""
        drawn = {"traces": self.traces, "stats": self.stats}
        return {"carry": leaves(carry), "done": self.done, "steps": self.steps, **drawn}

    def _resumed(self, carry: list[Any]) -> list[Any]:
        """Saved states of the chains; the initial ones if none were saved."""
        state = self.search.state()
        if state is None:
            return carry
        self.done, self.steps = state["done"], state["steps"]
        dtype = np.dtype(self.target.problem.origin.dtype)
        self.traces, self.stats = (
            jax.tree.map(lambda a: a.astype(dtype) if a.dtype.kind == "f" else a, state[name])
            for name in ("traces", "stats")
        )
        return jax.tree.map(np.asarray, refilled(carry, state["carry"]))

    def _report(self, began: float, total: int) -> None:
        if self.callback is None:
            return
        lowest = -float(np.mean(self.stats[-1]["lp"]))
        seconds = time.perf_counter() - began
        self.callback(Progress(self.done, self.steps, lowest, seconds, total))

    def after_warmup(self, parts: list[Any]) -> dict[str, np.ndarray]:
        """Draws of all parts together, (chains, draws, ...)."""
        kept = slice(self.method.warmup, self.method.warmup + self.method.draws)
        return {k: np.concatenate([p[k] for p in parts], axis=1)[:, kept] for k in parts[0]}


def _gathered(run: _Run, data: Data, jitter: float, *, interrupted: bool) -> Drawn:
    """Everything that a user gets, from draws."""
    target, method, problem = run.target, run.method, run.target.problem
    trace, stats = run.after_warmup(run.traces), run.after_warmup(run.stats)
    value, error = None, None
    if method.temperatures is not None:
        value, error = stepping_stones(target, method)
    latents = np.moveaxis(trace["f"], 2, -1)
    latents = latents[..., 0] if latents.shape[-1] == 1 else latents
    weights = target.named_weights({k: jnp.asarray(v) for k, v in trace.items()})
    chains = chains_of(
        *(_by_name(problem, trace["x"]), latents, stats, error),
        weights=weights,
        compared=target.compared(weights),
    )
    total = stats["lp"].size
    flat = {k: v.reshape(total, *v.shape[2:]) for k, v in trace.items()}
    kept = np.linspace(0, total - 1, method.keep).round().astype(int)
    typical = problem.model(jnp.asarray(np.median(flat["x"], axis=0)))
    states = {k: jnp.asarray(v[kept]) for k, v in flat.items()}
    posterior = target.posterior(states, typical, single=data.single)
    counts = (min(run.done, method.warmup + method.draws), run.steps)
    return Drawn(typical, posterior, chains, value, jitter, *counts, interrupted)


def _by_name(problem: Problem, x: np.ndarray) -> dict[str, np.ndarray]:
    """Real values of what moves by dotted name, (chains, draws, ...)."""
    real = np.asarray(problem.origin) + np.asarray(problem.scale) * x
    found, start = {}, 0
    for name, value, b in free_entries(problem.start, problem.maps):
        size = int(np.size(value))
        part = real[..., start : start + size].reshape(*x.shape[:2], *np.shape(value))
        found[name] = np.asarray(b.from_real(jnp.asarray(part)))
        start += size
    return found
