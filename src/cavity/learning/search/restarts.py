"""Runs of the optimiser: stages of a schedule, restarts, and retries with larger jitter."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import Sites
from cavity.inference.problem import has_sites
from cavity.inference.solvers.fixed_point import find_fixed_point
from cavity.inference.solvers.steps import is_defined
from cavity.learning.data.scales import coordinates_of, model_at
from cavity.learning.data.training_data import AbstractTrainingData
from cavity.learning.data.validation import OutsideDomain, check_domains, verbs
from cavity.learning.failures import NumericalError, diagnose_failure
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.objectives.by_passes import PassObjective
from cavity.learning.objectives.evidence import Objective
from cavity.learning.objectives.interleaved import Interleaved
from cavity.learning.objectives.learning_energy import split_optimised
from cavity.learning.optimisers.lbfgs import INTERRUPTED, Minimum, Progress, StartFailed
from cavity.learning.progress.checkpoint import Search, Searches
from cavity.learning.results.at_bounds import AtBound, at_bounds
from cavity.learning.search.adam import Adam
from cavity.learning.search.tied import minimise_objective
from cavity.models.base import AbstractModel
from cavity.numerics.linalg import escalate
from cavity.parameters import Positive, free_parts

# Noise below this share of the outputs' variance makes rounding errors of the evidence seen.
SEEN = 1e-6
NOISE_FREE = "the noise is nearly zero, where rounding errors hide what is left to gain"
EnergyOfSites = Callable[[Sites, float], float]

# Natural-gradient steps of states before learning.
FIRST_SWEEPS = 30
# The tolerance is meant for up to this many outputs.
TOLERANT = 500
# Where inducing inputs are learned from more outputs than that, the tolerance is this many times
# as much: what is gained beyond hardly changes predictions (benchmarks/results/ending.csv).
INDUCING = 8.0


@dataclasses.dataclass
class Restarts:
    """Runs of the optimiser on one data set.

    Attributes:
        data: the data.
        method: the inference method.
        densities: priors.
        max_iterations: of one search.
        tolerance: the fall of the objective per iteration below which a search ends.
        callback: called after every iteration.
        searches: where searches are saved.
        first_sites: sites that the run from the model's own parameters starts from.
        settled: private sites that searches start from.
        sites: where the last search ended.
        energy: the energy there, of private sites and a jitter; None where the search has no
            program for it.
        at_bounds: parameters that are at a bound there.
        n_restarts: further runs, from perturbed parameters.
        seed: of these.
    """

    data: AbstractTrainingData
    method: AbstractMethod
    densities: AbstractModel
    max_iterations: int
    tolerance: float
    callback: Callable[[Progress], None] | None
    searches: Searches = dataclasses.field(default_factory=Searches)
    first_sites: Sites | None = None
    settled: Sites | None = None
    sites: Sites | None = None
    energy: EnergyOfSites | None = None
    at_bounds: tuple[AtBound, ...] = ()
    n_restarts: int = 0
    seed: int = 0

    @property
    def least_fall(self) -> float:
        """The fall of the objective per iteration, in nats, below which a search ends."""
        return self.tolerance * max(1.0, self.data.n_observed / TOLERANT)

    def all(
        self, model: AbstractModel, stages: tuple[AbstractModel, ...], jitter: float
    ) -> tuple[AbstractModel, Minimum, float]:
        """The best of the run from the model's parameters and of perturbed ones."""
        random = np.random.default_rng(self.seed)
        best: tuple[AbstractModel, Minimum, float] | None = None
        evaluations, ends = 0, list[float]()
        ended: tuple[Any, ...] = ()
        for restart in range(self.n_restarts + 1):
            self.sites = self.first_sites if restart == 0 else None
            start = model if restart == 0 else _perturbed(model, stages[-1], random)
            if self.sites is None and start.ordered and self.max_iterations > 0:
                self.sites = _starting_states(start, self.data, self.method, jitter)
            try:
                end = self.staged(start, stages, jitter)
            except StartFailed:
                if restart == 0:
                    raise NumericalError(diagnose_failure(model, self.data)) from None
                continue
            except (NumericalError, OutsideDomain):
                if restart == 0:
                    raise
                continue
            except KeyboardInterrupt:
                if best is None:
                    raise
                best = (best[0], _interrupted(best[1]), best[2])
                break
            evaluations += end[1].evaluations
            if best is None or end[1].objective < best[1].objective:
                best, ended = end, (self.sites, self.energy, self.at_bounds)
            if end[1].interrupted:
                break
            ends.append(float(end[1].objective))
        assert best is not None
        self.sites, self.energy, self.at_bounds = ended
        several = tuple(ends) if self.n_restarts else ()
        minimum = dataclasses.replace(best[1], evaluations=evaluations, ends=several)
        return best[0], minimum, best[2]

    def staged(
        self, model: AbstractModel, stages: tuple[AbstractModel, ...], jitter: float
    ) -> tuple[AbstractModel, Minimum, float]:
        """One run through the stages of a schedule."""
        minimum, evaluations = None, 0
        for maps, verb in zip(stages, verbs(len(stages)), strict=True):
            check_domains(model, maps, verb)
            try:
                model, minimum, jitter = self.once(model, maps, jitter)
            except KeyboardInterrupt:
                if minimum is None:
                    raise
                minimum = _interrupted(minimum)
                break
            evaluations += minimum.evaluations
            if minimum.interrupted:
                break
        assert minimum is not None
        return model, dataclasses.replace(minimum, evaluations=evaluations), jitter

    def once(
        self, model: AbstractModel, maps: AbstractModel, jitter: float
    ) -> tuple[AbstractModel, Minimum, float]:
        """One stage; gone on with at a larger jitter where points that need it stopped it."""
        objective = self._objective(model, maps, jitter)
        minimum = self._search(objective, objective.first)
        while self._hindered(objective, minimum):
            used, best, sites = objective.jitter, minimum, objective.best_sites
            raised = escalate(used)
            if raised is None:
                break
            objective.begin_again(raised)  # the sites at hand are of the last point tried
            minimum = self._search(objective, best.x)
            evaluations = best.evaluations + minimum.evaluations
            if minimum.objective < best.objective - self.least_fall:
                minimum = dataclasses.replace(minimum, evaluations=evaluations)
                continue
            objective.jitter, objective.best_sites = used, sites
            cut = minimum.interrupted
            minimum = dataclasses.replace(best, interrupted=cut, evaluations=evaluations)
            break
        if objective.has_optimised:
            self.sites = objective.sites_at(minimum.x)
        else:
            # another fixed point than that of the best value would be another posterior
            moving = self._interleaves(objective)
            self.sites = objective.sites if moving else objective.best_sites
        own = objective.has_optimised or objective.in_memory is None or model.ordered
        self.energy = None if own else functools.partial(objective.energy_at, minimum.x)
        objective.close()
        found = objective.model(minimum.x)
        if minimum.stuck and self._nearly_noise_free(objective, found):
            minimum = dataclasses.replace(minimum, converged=True, message=NOISE_FREE)
        if self.max_iterations:
            self.at_bounds = at_bounds(found, maps, minimum.x, objective.bounds)
        return found, minimum, objective.jitter

    def _nearly_noise_free(self, objective: Objective, model: AbstractModel) -> bool:
        """True if an evidence in closed form has so little noise that its rounding is seen."""
        noise = model.likelihood.noise_parameter
        if noise is None or objective.carries or objective.has_optimised:
            return False
        spread = self.data.scales(model.likelihood).y_spread
        return bool(np.all(np.asarray(noise.variance) < SEEN * spread**2))

    def _hindered(self, objective: Objective, minimum: Minimum) -> bool:
        """True if points that need more jitter kept a search from converging."""
        ended = minimum.converged or minimum.interrupted
        return objective.undefined and not ended and minimum.iterations < self.max_iterations

    def _objective(self, model: AbstractModel, maps: AbstractModel, jitter: float) -> Objective:
        options: dict[str, Any] = {"maps": maps, "densities": self.densities, "jitter": jitter}
        options |= {"method": self.method, "sites": self.sites, "settled": self.settled}
        kind = Objective
        if self.data.in_memory is None:
            problem = self.data.exemplar.problem(model, self.method.approximation, jitter)
            sited = has_sites(split_optimised(problem.empty_sites())[1])
            kind = PassObjective if sited else Objective
        return kind(model, self.data, accuracy=self.least_fall, **options)

    def _interleaves(self, objective: Objective) -> bool:
        """True if sites and parameters are to move in turn: where there are private sites."""
        asked = self.method.training.steps is not None and not objective.has_optimised
        asked = asked and self.max_iterations > 0
        return asked and objective.carries and objective.size > 0

    def _interleave(self, objective: Objective, x: np.ndarray, search: Search) -> Minimum:
        batch = self.method.training.batch if objective.start.sparse else None
        training = dataclasses.replace(self.method.training, batch=batch, seed=0)
        return Adam(Interleaved(objective), x, training, self.callback, search).run()

    def _search(self, objective: Objective, x: np.ndarray) -> Minimum:
        """The minimum of one search; read from the checkpoint where the search had ended."""
        search = self.searches.next()
        minimum = search.ended(objective)
        if minimum is None:
            minimum = self._searched(objective, x, search)
            search.end(minimum, objective)
        return minimum

    def _searched(self, objective: Objective, x: np.ndarray, search: Search) -> Minimum:
        try:
            if self._interleaves(objective):
                return self._interleave(objective, x, search)
            many = (
                self.data.n_observed > TOLERANT
                and objective.learns_inducing
                and not objective.has_optimised
            )
            return minimise_objective(
                objective,
                x,
                max_iterations=self.max_iterations,
                tolerance=self.least_fall * (INDUCING if many else 1.0),
                callback=self.callback,
                search=search,
                rescale=many,
            )
        except StartFailed:
            if not objective.finite_value:
                raise
            raise NumericalError(
                "the objective is finite where learning starts, but its gradient is not; start "
                "from other parameter values, and check the gradient of kernels of your own"
            ) from None


def _starting_states(
    model: AbstractModel, data: AbstractTrainingData, method: AbstractMethod, jitter: float
) -> Sites | None:
    """States near the best at the parameters that learning starts from; None where undefined."""
    if method.approximation.tied:
        return None
    problem = data.exemplar.problem(model, method.approximation, jitter)
    solver = dataclasses.replace(method.solver, tolerance=1e-2, max_sweeps=FIRST_SWEEPS)
    sites, _ = find_fixed_point(problem, solver)
    return sites if is_defined(problem, sites) else None


def _interrupted(minimum: Minimum) -> Minimum:
    """A finished run that stands for one that was interrupted before its first evaluation."""
    return dataclasses.replace(minimum, converged=False, interrupted=True, message=INTERRUPTED)


def _perturbed(
    model: AbstractModel, maps: AbstractModel, random: np.random.Generator
) -> AbstractModel:
    """The model with every logarithm of a free positive parameter moved by a standard normal."""
    real = np.asarray(coordinates_of(model, maps))
    parts = free_parts(model, maps)
    moves = [
        random.standard_normal(np.size(value)) * isinstance(b, Positive) for value, b in parts
    ]
    moved = real + np.concatenate([*moves, np.zeros(0)])
    return model_at(jnp.asarray(moved, real.dtype), model, maps)
