"""Integration over the parameters of a fitted model: a grid or a design about their mode."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.energy import Sites
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.data.training_data import Data
from cavity.learning.data.validation import check_model, check_shapes
from cavity.learning.infer import NumericalError, infer_from
from cavity.learning.integration.designs import COARSE, FINE, Mesh, composite, grid
from cavity.learning.mcmc.run import weak_priors
from cavity.learning.method import AbstractMethod
from cavity.learning.methods import PowerEP
from cavity.learning.objectives.evidence import Objective
from cavity.learning.optimisers.lbfgs import minimise
from cavity.learning.result import FitResult, Inference, check_whole
from cavity.models.base import AbstractModel
from cavity.models.mixture_posterior import MixturePosterior
from cavity.numerics.jit import Bound
from cavity.numerics.text import plural
from cavity.numerics.tree import named, with_named
from cavity.parameters import FIXED, bijections, entries, free_parts, from_real, log_jacobian
from cavity.parameters.priors import learned_with, log_prior

# Up to so many parameters "auto" takes a grid, and it can be had for so many.
GRID, LARGEST_GRID = 2, 3
# Parameters at the most: a design of 25 has a thousand points.
MOST = 25
# Parts of the mixture: those that together have all but this share, and no more than so many, nor
# than have so many numbers; they come by the dozen where there are as many, and a few at least.
NEGLIGIBLE, PARTS, NUMBERS, ROUND, FEW = 1e-3, 204, 2**23, 12, 5
# Posteriors of so many numbers at the most, together, are kept while others are computed.
REMEMBERED = 2**25
# Shares of the density at points without settled sites: one that is said, and one too many.
SAID, UNSETTLED = 0.01, 0.1
# The step of differences of gradients, in unconstrained parameters.
DIFFERENCE = 1e-2
# A deviation of a parameter is so much at the most: weak priors have deviations of two.
WIDEST = 5.0
# Where along an axis its two deviations are measured.
ALONG = np.sqrt(2.0)


@dataclasses.dataclass(frozen=True)
class Integration:
    """What integration over the parameters of a model gives.

    Attributes:
        posterior: the mixture of posteriors over values of the parameters.
        log_evidence: approximate log of the evidence, parameters integrated out under their
            priors, nats.
        names: dotted names of the parameters, one for each number that was integrated over.
        mean: posterior means on the scale where they are unconstrained, logarithms of positive
            ones, (d,).
        deviation: their standard deviations there, (d,).
        points: the values at which the model was evaluated, unconstrained, (S, d).
        shares: their posterior shares, (S,).
        how: "grid" or "design".
        converged: whether sites converged at points with nine tenths of the density.
        message: what was done, in a sentence.
    """

    posterior: MixturePosterior
    log_evidence: float
    names: tuple[str, ...]
    mean: np.ndarray
    deviation: np.ndarray
    points: np.ndarray
    shares: np.ndarray
    how: str
    converged: bool
    message: str


def integrate(
    result: Any,
    X: ArrayLike,
    y: ArrayLike,
    how: str = "auto",
    *,
    parameters: str | Sequence[str] | None = None,
    power: ArrayLike | None = None,
    method: AbstractMethod = PowerEP(),
    rows: Mapping[str, ArrayLike] | None = None,
    missing: str = "error",
) -> Integration:
    r"""Integrates over the parameters of a fitted model.

    The density of the parameters is the approximate evidence times their priors. About its mode
    it is evaluated on a grid along the axes of its Hessian, up to two parameters; for more at a
    central composite design, whose axes have a deviation for either side. Every point has a
    posterior of the function, and together they are a mixture.

    Parameters without a prior of their own get a weak one about their fitted values: a log-normal
    one with a deviation of 2 for positive ones, a normal one of ten times the unit of the data for
    real ones.

    Args:
        result: a `FitResult` of `cavity.fit`, for the same data and options.
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P).
        how: "grid", "design", or "auto", a grid for one or two parameters.
        parameters: dotted names of the parameters to integrate over, such as
            `("kernel.variance",)`; None for all that were learned but the inducing inputs.
        power: as in `cavity.fit`; None for that of the fit.
        method: that of the fit, with sites of single rows, as of `PowerEP()`.
        rows: as in `cavity.fit`.
        missing: as in `cavity.fit`.

    Raises:
        ValueError: for unusable data, no parameters or too many, names that are not learned, and
            methods whose sites are learned with the parameters.
        TypeError: for a result that is not of `cavity.fit`.
        NumericalError: where the evidence is undefined at the fitted values.

    References:
        Rue, Martino and Chopin (2009), section 6.5; Jylanki (2013), S52, S53 and S125.
    """
    if how not in ("auto", "grid", "design"):
        raise ValueError(f'how must be "auto", "grid" or "design", given {how!r}')
    if not isinstance(result, FitResult):
        raise TypeError(f"integrate takes what cavity.fit gave, given {type(result).__name__}")
    method.check(result.model.likelihood)
    if method.approximation.tied or result.chains is not None:
        raise ValueError(
            "integrate evaluates the evidence at many values of the parameters, for which each "
            "row needs a site of its own: use method=cavity.PowerEP()"
        )
    check_model(result.model, None, method)
    check_whole(result, "its parameters")
    fitted = result.data
    exponent: Any = power
    if power is None:
        exponent = 0.5 if fitted is None else np.asarray(fitted.power).item()
    data = prepare(X, y, power=exponent, rows=rows, missing=missing)
    check_shapes(result.model, data)
    if fitted is not None and not _same_rows(fitted, data):
        raise ValueError(
            "X and y are not the rows of the fit, whose parameters are not the most likely ones "
            "of others: give the same"
        )
    return integrated_over(result, data, method, parameters, how)


def integrated_over(
    result: FitResult,
    data: Data,
    method: AbstractMethod,
    names: str | Sequence[str] | None,
    how: str,
) -> Integration:
    """`integrate` on prepared data."""
    target = _Target(result, data, chosen_parameters(result, names), method)
    if how == "grid" and target.size > LARGEST_GRID:
        raise ValueError(
            f"a grid is for {LARGEST_GRID} parameters at the most, given {target.size}: leave "
            'how="auto"'
        )
    with one_blas_thread():
        return _integrated(target, how)


def _same_rows(one: Data, other: Data) -> bool:
    """Whether two data sets have the same inputs and outputs."""
    pairs = ((one.rows.x, other.rows.x), (one.rows.y, other.rows.y))
    return all(
        np.shape(a) == np.shape(b) and np.array_equal(a, b, equal_nan=True) for a, b in pairs
    )


def chosen_parameters(result: FitResult, names: str | Sequence[str] | None) -> AbstractModel:
    """Bijections by which the parameters to integrate over move, and no others."""
    free = [
        name
        for name, _, entry in entries(result.model, result.bijections)
        if getattr(entry, "free", False)
    ]
    if isinstance(names, str):
        names = (names,)
    wanted = [n for n in free if "inducing" not in n.split(".")] if names is None else list(names)
    for name in wanted:
        if name not in free:
            raise ValueError(
                f"{name} is not a parameter that was learned: choose among {', '.join(free)}"
            )
    kept = named(result.bijections)
    maps = with_named(
        bijections(result.model), {n: kept[n] if n in wanted else FIXED for n in kept}
    )
    count = sum(int(np.size(value)) for value, _ in free_parts(result.model, maps))
    if count == 0:
        raise ValueError("no parameter was learned, so that there is none to integrate over")
    if count > MOST:
        raise ValueError(
            f"there are {count} numbers to integrate over, and {MOST} at the most can be: name "
            "some with parameters=..., or use method=cavity.MCMC()"
        )
    return maps


class _Target:
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
        self.known: dict[bytes, Inference] = {}

    @property
    def size(self) -> int:
        """The number of parameters."""
        return self.objective.size

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each number."""
        found: list[str] = []
        for name, value, entry in entries(self.model, self.maps):
            if getattr(entry, "free", False):
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
        """Where the density is largest, near the fitted values."""
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
            self.values[key] = float(self.inference(x).log_evidence) + own
        return self.values[key]

    def inference(self, x: np.ndarray) -> Inference:
        """The posterior at a point, whose sites begin at those of the nearest point."""
        key = np.ascontiguousarray(x).tobytes()
        if key in self.known:
            return self.known[key]
        model = self.objective.coordinates.model(x)
        _, start = min(self.settled, key=lambda known: float(np.sum((known[0] - x) ** 2)))
        found = infer_from(model, self.data, self.method, self.objective.jitter, start)
        if found.converged and found.found is not None:
            self.settled.append((x, found.found))
        if numbers_of(found.posterior) * (len(self.known) + 1) <= REMEMBERED:
            self.known[key] = found
        return found


def _own(start: AbstractModel, maps: Any, densities: Any, real: Any) -> Any:
    """The log density of unconstrained parameters without the evidence: priors and Jacobian."""
    return log_prior(from_real(real, start, maps), densities) + log_jacobian(real, start, maps)


def _beside(start: AbstractModel, maps: Any, densities: Any, real: Any) -> Any:
    """What the log density has beside minus the objective of learning, and its gradient."""

    def more(real: Any) -> Any:
        model = from_real(real, start, maps)
        return _own(start, maps, densities, real) - learned_with(model, densities)

    return jax.value_and_grad(more)(real)


def numbers_of(posterior: Any) -> int:
    """How many numbers a posterior has."""
    return sum(np.size(leaf) for leaf in jax.tree.leaves(posterior))


def _integrated(target: _Target, how: str) -> Integration:
    mode = np.zeros(target.size) if how == "coarse" else target.mode()
    if not np.isfinite(target.at(mode)):
        raise NumericalError(
            "the evidence is undefined at the fitted parameters, so that nothing can be "
            "integrated: fit again, from other starting values"
        )
    axes = target.axes(mode)
    if how in ("auto", "coarse"):
        how = "design" if target.size > (GRID if how == "auto" else LARGEST_GRID) else how
        how = "grid" if how == "auto" else how
    if how == "design":
        points, log_mass = _on_design(target, mode, axes)
    else:
        points, log_mass = _on_grid(target, mode, axes, COARSE if how == "coarse" else FINE)
    scale = target.objective.coordinates.scale
    log_volume = np.linalg.slogdet(axes)[1] + np.sum(np.log(scale))
    log_total = np.logaddexp.reduce(log_mass)
    log_evidence = float(log_total + log_volume)
    shares = np.exp(log_mass - log_total)
    real = np.array([target.real(x) for x in points])
    mean = shares @ real
    deviation = np.sqrt(shares @ (real - mean) ** 2)
    posterior, settled, message = _mixture(target, points, shares)
    how = "grid" if how == "coarse" else how
    message = f"a {how} of {len(points)} values of {plural(target.size, 'parameter')}{message}"
    found = (posterior, log_evidence, target.names, mean, deviation, real, shares)
    return Integration(*found, how, settled, message)


def _mixture(
    target: _Target, points: list[np.ndarray], shares: np.ndarray
) -> tuple[MixturePosterior, bool, str]:
    """The posteriors at the points that count, whether they settled, and that in words."""
    order = np.argsort(-shares, kind="stable")
    count = 1 + int(np.searchsorted(np.cumsum(shares[order]), 1.0 - NEGLIGIBLE))
    parts = [target.inference(points[order[0]])]
    fitting = min(len(points), PARTS, NUMBERS // numbers_of(parts[0].posterior))
    # programs are compiled for each number of parts: a few numbers will do
    fitting = fitting // ROUND * ROUND or min(max(fitting, FEW), len(points))
    kept = order[: min(-(-count // ROUND) * ROUND, fitting)]
    parts += [target.inference(points[i]) for i in kept[1:]]
    own = shares[kept] / np.sum(shares[kept])
    posterior = MixturePosterior.of([part.posterior for part in parts], own)
    message = f", of which {len(kept)} count"
    if len(kept) < count:
        message += f", with {100 * np.sum(shares[kept]):.1f} % of the density"
    unsettled = float(own @ [not part.converged for part in parts])
    if unsettled > SAID:
        worst = max(part.sites.residual for part in parts)
        message += (
            f"; at those with {100 * unsettled:.0f} % of the density sites did not converge, and "
            f"ended up to {worst:.2g} deviations from it"
        )
    return posterior, unsettled <= UNSETTLED, message


def _on_grid(
    target: _Target, mode: np.ndarray, axes: np.ndarray, mesh: Mesh
) -> tuple[list[np.ndarray], np.ndarray]:
    """Points, and logs of their masses in deviations."""
    z, volume, values = grid(target.size, lambda z: target.at(mode + axes @ z), mesh)
    return [mode + axes @ each for each in z], values + np.log(volume)


def _on_design(
    target: _Target, mode: np.ndarray, axes: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Points, and logs of their masses in deviations, which differ for the sides of an axis."""
    top = target.at(mode)

    def deviation(axis: np.ndarray) -> float:
        fall = top - target.at(mode + ALONG * axis)
        return float(np.clip(1.0 / np.sqrt(max(fall, 0.1)), 0.2, 3.0)) if fall == fall else 0.2

    above, below = (np.array([deviation(sign * axis) for axis in axes.T]) for sign in (1.0, -1.0))
    t, share = composite(target.size)
    stretch = np.where(t > 0.0, above, np.where(t < 0.0, below, 0.5 * (above + below)))
    points = [mode + axes @ each for each in stretch * t]
    values = np.array([target.at(x) for x in points])
    values = np.where(np.isnan(values), -np.inf, values)
    gaussian = -0.5 * np.sum(t**2, axis=1) - 0.5 * target.size * np.log(2.0 * np.pi)
    return points, np.log(share) + values - gaussian + np.sum(np.log(stretch), axis=1)
