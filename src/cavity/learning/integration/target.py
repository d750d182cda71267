"""The density of the parameters of a fitted model, and the posterior at each value of them."""

import functools
from typing import Any

import jax
import numpy as np

from cavity.inference.energy import Sites
from cavity.inference.solvers.convergence import ConvergenceReport
from cavity.learning.data.training_data import Data
from cavity.learning.failures import NumericalError
from cavity.learning.infer import KnownSites, infer_from
from cavity.learning.mcmc.run import weak_priors
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.objectives.evidence import Objective
from cavity.learning.optimisers.lbfgs import minimise
from cavity.learning.results.result import FitResult, Inference
from cavity.models.base import AbstractModel
from cavity.numerics.jit import Bound
from cavity.numerics.types import Array, PyTree, Scalar
from cavity.parameters import free_entries, from_real, log_jacobian
from cavity.parameters.priors import learned_with, log_prior

# Posteriors of so many numbers at the most, together, are kept while others are computed.
REMEMBERED = 2**25
# The step of differences of gradients, in unconstrained parameters.
DIFFERENCE = 1e-2
# A deviation of a parameter is so much at the most: weak priors have deviations of two.
WIDEST = 5.0
# What is said of sites where inference failed.
FAILED = ConvergenceReport(0, np.inf, 0, "failed", converged=False)


class Target:
    """The log density of unconstrained parameters: evidence, priors and Jacobian."""

    def __init__(self, result: FitResult, data: Data, maps: AbstractModel, method: AbstractMethod):
        self.data, self.maps, self.method = data, maps, method
        self.model: AbstractModel = result.model
        self.densities = weak_priors(result.model, maps, result.priors, data)
        settings: dict[str, Any] = {"maps": maps, "densities": self.densities, "method": method}
        self.objective = Objective(
            result.model, data, jitter=result.jitter, sites=result.found, **settings
        )
        self._beside = Bound(_beside, result.model, maps, self.densities)
        self._own = Bound(_own, result.model, maps, self.densities)
        # points and sites: those of the fit, and of points at which they settled
        self.settled: list[tuple[np.ndarray, Sites | None]] = [(np.zeros(self.size), result.found)]
        # large posteriors are computed again, where they count
        self.values: dict[bytes, float] = {}
        self.reports: dict[bytes, ConvergenceReport] = {}
        self.known: dict[bytes, Inference] = {}

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.objective.size

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each number."""
        found: list[str] = []
        for name, value, _ in free_entries(self.model, self.maps):
            places = np.ndindex(np.shape(value))
            found += [f"{name}[{', '.join(map(str, at))}]" if at else name for at in places]
        return tuple(found)

    def real(self, x: np.ndarray) -> np.ndarray:
        """The unconstrained parameters at a point."""
        return np.asarray(self.objective.coordinates.real(x))

    def energy(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log density, with its gradient, in the coordinates of learning."""
        coordinates = self.objective.coordinates
        value, slope = self.objective(x)
        more, by_real = self._beside(np.asarray(coordinates.real(x)))
        return value - float(more), slope - coordinates.gradient(by_real, np.zeros(0))

    def mode(self) -> np.ndarray:
        """Mode of the density near the fitted values."""
        limits = {"bounds": self.objective.bounds, "max_iterations": 200, "tolerance": 1e-5}
        return minimise(self.energy, np.zeros(self.size), **limits).x

    def axes(self, mode: np.ndarray) -> np.ndarray:
        """The axes of the Hessian at the mode, of the length of a deviation, as columns."""
        ahead, behind = (
            np.array([self.energy(mode + sign * DIFFERENCE * e)[1] for e in np.eye(self.size)])
            for sign in (1.0, -1.0)
        )
        H = (ahead - behind) / (2.0 * DIFFERENCE)
        H = np.where(np.isfinite(H), 0.5 * (H + H.T), np.eye(self.size))
        values, vectors = np.linalg.eigh(H)
        return vectors / np.sqrt(np.maximum(values, WIDEST**-2))

    def at(self, x: np.ndarray) -> float:
        """The log density at a point; NaN where inference fails."""
        key = np.ascontiguousarray(x).tobytes()
        if key not in self.values:
            own = float(self._own(np.asarray(self.real(x))))
            try:
                found = self.inference(x)
            except NumericalError:
                self.values[key], self.reports[key] = np.nan, FAILED
                return np.nan
            self.values[key] = float(found.log_evidence) + own
            self.reports[key] = found.sites
        return self.values[key]

    def report(self, x: np.ndarray) -> ConvergenceReport:
        """Convergence of the sites at a point."""
        self.at(x)
        return self.reports[np.ascontiguousarray(x).tobytes()]

    def inference(self, x: np.ndarray) -> Inference:
        """The posterior at a point, whose sites begin at those of the nearest point."""
        key = np.ascontiguousarray(x).tobytes()
        if key in self.known:
            return self.known[key]
        model = self.objective.coordinates.model(x)
        _, start = min(self.settled, key=lambda known: float(np.sum((known[0] - x) ** 2)))
        # a search for sites costs more than the gradient that comes with the value here
        energy_at = None if start is None else functools.partial(self.objective.energy_at, x)
        known = KnownSites(start, energy_at=energy_at)
        found = infer_from(model, self.data, self.method, self.objective.jitter, known)
        if found.converged and found.found is not None:
            self.settled.append((x, found.found))
        if numbers_of(found.posterior) * (len(self.known) + 1) <= REMEMBERED:
            self.known[key] = found
        return found


def _own(
    start: AbstractModel, maps: AbstractModel, densities: AbstractModel, real: Array
) -> Scalar:
    """The log density of unconstrained parameters without the evidence: priors and Jacobian."""
    return log_prior(from_real(real, start, maps), densities) + log_jacobian(real, start, maps)


def _beside(
    start: AbstractModel, maps: AbstractModel, densities: AbstractModel, real: Array
) -> tuple[Scalar, Array]:
    """Log density plus the objective of learning, and its gradient."""

    def more(real: Array) -> Scalar:
        model = from_real(real, start, maps)
        return _own(start, maps, densities, real) - learned_with(model, densities)

    return jax.value_and_grad(more)(real)


def numbers_of(posterior: PyTree) -> int:
    """Number of real numbers in a posterior."""
    return sum(np.size(leaf) for leaf in jax.tree.leaves(posterior))
