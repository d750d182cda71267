"""Integration over the parameters of a fitted model: a grid or a design about their mode."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.solvers.convergence import ConvergenceReport
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.data.given import TrainingRows, arrays_alone
from cavity.learning.data.training_data import Data
from cavity.learning.data.validation import check_model, check_shapes
from cavity.learning.infer import NumericalError
from cavity.learning.integration.designs import COARSE, FINE, Mesh, composite, grid
from cavity.learning.integration.target import Target, numbers_of
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.methods import PowerEP
from cavity.learning.results.result import FitResult, check_whole
from cavity.models.base import AbstractModel
from cavity.models.mixture_posterior import MixturePosterior
from cavity.numerics.text import plural
from cavity.numerics.tree import named, with_named
from cavity.parameters import FIXED, bijections, free_entries, free_parts

# Up to so many parameters "auto" takes a grid, and it can be had for so many.
GRID, LARGEST_GRID = 2, 3
# Parameters at the most: a design of 25 has a thousand points.
MOST = 25
# Parts of the mixture: those that together have all but this share, and no more than so many, nor
# than have so many numbers; they come by the dozen where there are as many, and a few at least.
NEGLIGIBLE, PARTS, NUMBERS, ROUND, FEW = 1e-3, 204, 2**23, 12, 5
# Shares of the density at points without settled sites: one that is said, and one too many.
SAID, UNSETTLED = 0.01, 0.1
# Where along an axis its two deviations are measured.
ALONG = np.sqrt(2.0)


@dataclasses.dataclass(frozen=True)
class Integration:
    """Result of integration over the parameters of a model.

    Attributes:
        posterior: the mixture of posteriors over values of the parameters.
        log_evidence: approximate log of the evidence, parameters integrated out under their
            priors, nats; over the points whose sites converged.
        names: dotted names of the parameters, one for each number that was integrated over.
        mean: posterior means on the scale where they are unconstrained, logarithms of positive
            ones, (d,).
        deviation: their standard deviations there, (d,).
        points: the values at which the model was evaluated, unconstrained, (S, d).
        shares: their posterior shares, (S,).
        how: "grid" or "design".
        converged: whether sites converged at points with nine tenths of the density. The others
            have share 0, unless sites converged at none.
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


@with_one_blas_thread
def integrate(
    result: Any,
    X: TrainingRows,
    y: ArrayLike | None,
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
        power: as in `cavity.fit`; None for that of the fit, which one over batches does not keep.
        method: that of the fit, with sites of single rows, as of `PowerEP()`.
        rows: as in `cavity.fit`.
        missing: as in `cavity.fit`.

    Raises:
        ValueError: for unusable data, no parameters or too many, names that are not learned,
            methods whose sites are learned with the parameters, and a fit over batches without
            its power.
        TypeError: for a result that is not of `cavity.fit`, and batches in the place of X and y.
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
    X, y = arrays_alone(X, y)
    fitted = result.data
    exponent: Any = power
    if power is None:
        if fitted is None:
            raise ValueError(
                "the fit was over batches and its result does not keep their power: give power="
            )
        exponent = np.asarray(fitted.power).item()
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
    target = Target(result, data, chosen_parameters(result, names), method)
    if how == "grid" and target.size > LARGEST_GRID:
        raise ValueError(
            f"a grid is for {LARGEST_GRID} parameters at the most, given {target.size}: leave "
            'how="auto"'
        )
    return _integrated(target, how)


def _same_rows(one: Data, other: Data) -> bool:
    """True if two data sets have the same inputs and outputs."""
    pairs = ((one.rows.x, other.rows.x), (one.rows.y, other.rows.y))
    return all(
        np.shape(a) == np.shape(b) and np.array_equal(a, b, equal_nan=True) for a, b in pairs
    )


def chosen_parameters(result: FitResult, names: str | Sequence[str] | None) -> AbstractModel:
    """Bijections by which the parameters to integrate over move, and no others."""
    free = [name for name, *_ in free_entries(result.model, result.bijections)]
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


def _integrated(target: Target, how: str) -> Integration:
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
        points, log_mass = _design_points(target, mode, axes)
    else:
        points, log_mass = _grid_points(target, mode, axes, COARSE if how == "coarse" else FINE)
    scale = target.objective.coordinates.scale
    log_volume = np.linalg.slogdet(axes)[1] + np.sum(np.log(scale))
    log_mass, settled, left_out = settled_masses(log_mass, [target.report(x) for x in points])
    log_total = np.logaddexp.reduce(log_mass)
    log_evidence = float(log_total + log_volume)
    shares = np.exp(log_mass - log_total)
    real = np.array([target.real(x) for x in points])
    mean = shares @ real
    deviation = np.sqrt(shares @ (real - mean) ** 2)
    posterior, message = _mixture(target, points, shares)
    how = "grid" if how == "coarse" else how
    message = (
        f"a {how} of {len(points)} values of {plural(target.size, 'parameter')}{message}{left_out}"
    )
    found = (posterior, log_evidence, target.names, mean, deviation, real, shares)
    return Integration(*found, how, settled, message)


def settled_masses(
    log_mass: np.ndarray, reports: list[ConvergenceReport]
) -> tuple[np.ndarray, bool, str]:
    """Log masses of the points whose sites converged, whether these are nearly all, and a message.

    Evidence and posterior are meaningless at sites that did not converge, so that only points with
    converged sites count, however small their mass. If there are none, all points count.
    """
    settled = np.array([report.converged for report in reports])
    log_mass = np.nan_to_num(log_mass, nan=-np.inf, neginf=-np.inf)
    share = np.exp(np.logaddexp.reduce(log_mass[~settled]) - np.logaddexp.reduce(log_mass))
    kept = np.where(settled, log_mass, -np.inf)
    some = bool(np.isfinite(kept).any())
    message = ""
    if share > SAID:
        pairs = zip(reports, np.isfinite(log_mass), strict=True)
        worst = max(r.residual for r, counts in pairs if counts and not r.converged)
        message = (
            f"; at values with {100 * share:.0f} % of the density sites did not converge (up to "
            f"{worst:.2g} deviations short)"
        )
        message += ", and these values are left out" if some else ""
    return kept if some else log_mass, bool(share <= UNSETTLED), message


def _mixture(
    target: Target, points: list[np.ndarray], shares: np.ndarray
) -> tuple[MixturePosterior, str]:
    """The posteriors at the points that count, and in words how many they are."""
    order = np.argsort(-shares, kind="stable")
    count = 1 + int(np.searchsorted(np.cumsum(shares[order]), 1.0 - NEGLIGIBLE))
    parts = [target.inference(points[order[0]])]
    fitting = min(len(points), PARTS, NUMBERS // numbers_of(parts[0].posterior))
    # programs are compiled for each number of parts: a few numbers will do
    fitting = fitting // ROUND * ROUND or min(max(fitting, FEW), len(points))
    kept = order[: min(-(-count // ROUND) * ROUND, fitting)]
    # what fills up a number has no share, and need not be found
    parts += [target.inference(points[i]) if shares[i] else parts[0] for i in kept[1:]]
    own = shares[kept] / np.sum(shares[kept])
    posterior = MixturePosterior.from_parts([part.posterior for part in parts], own)
    message = f", of which {np.count_nonzero(own)} count"
    if len(kept) < count:
        message += f", with {100 * np.sum(shares[kept]):.1f} % of the density"
    return posterior, message


def _grid_points(
    target: Target, mode: np.ndarray, axes: np.ndarray, mesh: Mesh
) -> tuple[list[np.ndarray], np.ndarray]:
    """Points, and logs of their masses in deviations."""
    z, volume, values = grid(target.size, lambda z: target.at(mode + axes @ z), mesh)
    return [mode + axes @ each for each in z], values + np.log(volume)


def _design_points(
    target: Target, mode: np.ndarray, axes: np.ndarray
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
