"""The objective of learning, as an optimiser on the host sees it."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.approximations.methods import AbstractMethod, PowerEP
from cavity.inference.energy import Sites, empty_sites, energy
from cavity.inference.implicit_gradient import implicit_gradient, stationary
from cavity.inference.solvers.parallel import sweep
from cavity.learning.data.arrays import Data
from cavity.learning.data.batched import BatchedData
from cavity.learning.data.scales import (
    coordinate_bounds,
    coordinate_scales,
    coordinates_of,
    model_at,
)
from cavity.learning.objectives.streamed import streamed_value_and_grad
from cavity.learning.optimisers.checkpoint import leaves, refilled
from cavity.learning.solvers.double_loop import build_graph
from cavity.learning.solvers.fixed_point import NEAR, find_fixed_point
from cavity.learning.solvers.steps import no_sites
from cavity.models.base import AbstractModel
from cavity.numerics.jit import Bound
from cavity.numerics.linalg import escalate
from cavity.numerics.types import Array, Scalar
from cavity.parameters import bijections, from_real
from cavity.parameters.priors import flat, log_prior


class Objective:
    """Energy minus log priors, with its gradient, in scaled coordinates around a starting model.

    Keeps the jitter that was last needed and the sites that were last found, to start from them,
    and those of the least value.

    Args:
        start: the model to start from; its coordinates are zero.
        data: prepared data, or those of a stream where every factor is exact.
        maps: bijections; None for the default ones.
        densities: priors; None for flat ones.
        method: the inference method; None for `PowerEP()`.
        jitter: the jitter to begin with.
    """

    def __init__(
        self,
        start: AbstractModel,
        data: Data | BatchedData,
        *,
        maps: Any = None,
        densities: Any = None,
        method: AbstractMethod | None = None,
        jitter: float = 1e-8,
    ):
        self.start, self.data, self.jitter = start, data, jitter
        self.maps = bijections(start) if maps is None else maps
        self.densities = flat(start) if densities is None else densities
        self.method = PowerEP() if method is None else method
        self.origin = coordinates_of(start, self.maps)
        scales = data.scales(start.likelihood)
        self.scale = np.asarray(coordinate_scales(start, self.maps, scales), np.float64)
        self.bounds = coordinate_bounds(start, self.maps, scales)
        self.first = np.zeros(self.scale.size)  # where the search begins
        self.empty = no_sites(start, data.head, self.method)
        self.sites = self.empty
        self.best, self.best_sites = np.inf, self.empty
        self.finite_value = True  # of the last evaluation, whatever its gradient
        fixed = (start, self.maps, self.densities, data, self.method, self.origin)
        self.run = None if isinstance(data, BatchedData) else Bound(_value_and_grad, *fixed)

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.scale.size

    def model(self, x: np.ndarray) -> AbstractModel:
        """The model at a point."""
        return model_at(self.real(x), self.start, self.maps)

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value in nats and gradient; NaN where no jitter makes them finite.

        NaN too where sites are far from a fixed point: their energy is no evidence, and may be
        anything.
        """
        level: float | None = self.jitter
        while level is not None:
            value, gradient, sites = self._evaluate(x, level)
            if sites is None and self.empty is not None:
                break
            self.finite_value = bool(np.isfinite(value))
            if self.finite_value and np.all(np.isfinite(gradient)):
                self.jitter = level
                self.sites = sites
                if value < self.best:
                    self.best, self.best_sites = value, sites
                return value, gradient * self.scale
            level = escalate(level)
        return np.nan, np.full(self.size, np.nan)

    @property
    def carries(self) -> bool:
        """Whether an evaluation leaves sites behind for the next one."""
        return self.empty is not None

    def state(self) -> dict[str, Any]:
        """What evaluations left behind, as a tree that can be saved."""
        kept = {"sites": self.sites, "best_sites": self.best_sites}
        kept = {k: None if v is self.empty else leaves(v) for k, v in kept.items()}
        numbers = {"jitter": self.jitter, "finite_value": self.finite_value}
        return numbers | {"best": None if np.isinf(self.best) else self.best} | kept

    def restore(self, state: Mapping[str, Any]) -> None:
        """Puts back what evaluations left behind."""
        self.jitter, self.finite_value = float(state["jitter"]), bool(state["finite_value"])
        self.best = np.inf if state["best"] is None else float(state["best"])
        self.sites, self.best_sites = (
            self.empty if state[name] is None else refilled(self.empty, state[name])
            for name in ("sites", "best_sites")
        )

    def begin_again(self) -> None:
        """Forgets the sites at hand, for a search at another jitter."""
        self.sites = self.best_sites = self.empty
        self.best = np.inf

    def real(self, x: np.ndarray) -> Array:
        """The unconstrained parameters at a point."""
        move = (self.scale * x).astype(self.origin.dtype)
        return jnp.asarray(np.asarray(self.origin) + move)

    def _evaluate(self, x: np.ndarray, level: float) -> tuple[float, np.ndarray, Sites | None]:
        if self.run is None:
            return *self._streamed(x, level), None
        move = (self.scale * x).astype(self.origin.dtype)
        jitter, sites = np.asarray(level, move.dtype), None
        if self.empty is not None:
            assert isinstance(self.data, Data)
            model = self.model(x)
            # the slow fallbacks are for where learning starts and ends
            quick = self.sites is not self.empty
            start = (model, self.data, self.method, jnp.asarray(jitter), self.sites)
            sites, report, done = find_fixed_point(*start, zero=self.empty, quick=quick)
            far = not report.residual < NEAR or report.skipped > 0
            if quick and not done and far:
                return np.nan, np.full(self.size, np.nan), None
        value, gradient = self.run(move, jitter, sites)
        return float(value), np.asarray(gradient, np.float64), sites

    def _streamed(self, x: np.ndarray, level: float) -> tuple[float, np.ndarray]:
        assert isinstance(self.data, BatchedData)
        whole = (self.start, self.maps, self.densities, self.data, self.method)
        return streamed_value_and_grad(self.real(x), *whole, jnp.asarray(level, self.origin.dtype))


def _value_and_grad(
    start: AbstractModel,
    maps: Any,
    densities: Any,
    data: Data,
    method: AbstractMethod,
    origin: Array,
    move: Array,
    jitter: Scalar,
    sites: Sites | None,
) -> tuple[Scalar, Array]:
    def loss(real: Array) -> Scalar:
        model = from_real(real, start, maps)
        graph = build_graph(model, data, method, jitter)
        found = empty_sites(graph) if sites is None else sites
        for _ in range(method.renewals if sites is not None else 0):
            found, _, _ = sweep(graph, found, 1.0)
        value = energy(graph, found, settled=method.renewals == 0) - log_prior(model, densities)
        if sites is not None and method.renewals == 0 and not stationary(graph):
            value = value + implicit_gradient(graph, found)
        return value

    return jax.value_and_grad(loss)(origin + move)
