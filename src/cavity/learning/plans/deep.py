"""Learning deep models: from a sparse GP, by steps on minibatches."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.energy import Sites
from cavity.inference.propagation import Nodes
from cavity.learning.data.arrays import check_power
from cavity.learning.infer import NumericalError, infer
from cavity.learning.initialisation.deep import HiddenStart, at_rest, deepen
from cavity.learning.methods.methods import PowerEP, TiedPowerEP
from cavity.learning.optimisers.lbfgs import Progress
from cavity.learning.plans.trials import fit_best
from cavity.learning.progress.checkpoint import Store
from cavity.learning.results.result import FitResult
from cavity.learning.run.fit import fit
from cavity.likelihoods.capabilities import GaussianInLatent, HasNoiseParameter, capability
from cavity.likelihoods.support import Support
from cavity.models.base import AbstractModel
from cavity.models.deep.deep_gp import DeepGP
from cavity.models.gp import GP
from cavity.models.posterior import Posterior
from cavity.parameters import Positive, Units, bijections, units


@dataclasses.dataclass(frozen=True)
class DeepFit:
    """Settings of `fit_deep`.

    Attributes:
        whole: rows at the most from all of which the sparse GP is learned, where its posterior is
            in closed form.
        rows: rows at the most from which it is learned otherwise.
        iterations: of that at the most.
        slower: the share of the learning rate with which a fit is made again that ended below
            the sparse GP.
        final: iterations of L-BFGS-B on all rows after the steps of Adam, at most.
        final_rows: rows at the most where there are any: on longer tables an iteration costs
            hundreds of steps, and the few that time allows gain nothing.
        final_share: points of rows that these go through at the most, as a share of those of the
            steps.
        least_final: where that leaves fewer iterations than this, there are none.
        coordinates: numbers of the sites at most, where there are some: it remembers a hundred
            times as many.
        points: points for hidden values that they have, of all rows together, at least: with few
            points that do not change the model is fitted to these.
        most_points: points that a row has for that, at most.
        below: the largest power at which a sparse GP is learned that becomes the first layer. At
            power 1 its noise vanishes, and the few points of a row cannot integrate over hidden
            values that are far more uncertain than the noise.
        variance: up to where variances of stationary kernels are learned in a sparse GP of
            labels. Where it tells all labels apart, larger ones hardly change its evidence; but a
            step of learning changes functions by a share of their deviation, and where that is
            large one step makes labels wrong that were certain.
        noise: the floor of Gaussian noise at power 1, as a share of that of the sparse GP.
        last_fall: by how much the mean objective of minibatches may fall in the last tenth of the
            steps, in nats per row, where the fit has converged.
    """

    whole: int = 50_000
    rows: int = 2000
    iterations: int = 100
    slower: float = 0.25
    final: int = 300
    final_rows: int = 50_000
    final_share: float = 0.6
    least_final: int = 10
    coordinates: int = 400_000
    points: int = 15_000
    most_points: int = 16
    below: float = 0.5
    variance: float = 100.0
    noise: float = 0.5
    last_fall: float = 0.01


SETTINGS = DeepFit()
# A learning rate at which nothing is learned.
STANDSTILL = 1e-14
# The unit of the variance of a stationary kernel.
SQUARED_OUTPUT = Units(output=2)
# With one node the power mean over hidden values would be the value at one point.
METHOD = TiedPowerEP(propagation=Nodes(2), batch=500, max_sweeps=2500, learning_rate=0.02)


def fit_deep(
    starts: Sequence[GP],
    hidden: HiddenStart,
    X: np.ndarray,
    y: np.ndarray,
    *,
    points: int = 100,
    power: ArrayLike = 0.5,
    method: TiedPowerEP = METHOD,
    jitter: float = 1e-8,
    rows: Mapping[str, np.ndarray] | None = None,
    missing: str = "error",
    seed: int = 0,
    max_iterations: int = 1000,
    callback: Callable[[Progress], None] | None = None,
    checkpoint: Store | None = None,
) -> FitResult:
    """Learns a deep Gaussian process that starts from the best of several sparse ones.

    The sparse GP becomes the last layer, or the first one where hidden layers are narrower than
    the inputs; the others start near their mean functions. Then all is learned together: by Adam,
    and where all rows are few enough by L-BFGS-B after that. A fit that
    ends with less evidence per row than its sparse GP is made again with shorter steps; if that
    does not help, the result says so and has not converged, and is the start where that is better,
    which predicts as the sparse GP does. Otherwise it has converged where the objective hardly
    fell in the last steps: with a learning rate that ends at zero, slopes do not vanish.

    Gaussian noise does not fall below a share of what the sparse GP has, which is half the square
    of the power: at power 1 tied sites overstate the evidence of small noise, and that of the
    sparse GP is small already; at power 0 the evidence is a bound, and there is no such floor.
    A sparse GP that becomes the first layer is learned at power 0.5 at most, where its noise is
    not small; at larger powers the deep model's noise then ends near that floor, and the evidence
    that it must exceed is that of the sparse GP's parameters at the larger power.

    Args:
        starts: sparse GPs on `hidden.inputs[-1]`, of one structure, the likeliest first.
        hidden: of `hidden_start(X, widths)` or `chosen_start(X, widths, likelihood, outputs)`.
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P).
        points: inducing points of every layer but that of the sparse GP.
        power: of all rows.
        method: how the deep model is learned.
        jitter: as in `fit`.
        rows: side data of the rows.
        missing: as in `fit`.
        seed: of the rows of the sparse GP, of clusters and of minibatches.
        max_iterations: iterations of the sparse GP at the most; with 0 no parameters are learned,
            of the deep model neither.
        callback: called after every iteration and step.
        checkpoint: as in `fit`.

    Raises:
        ValueError: as `fit`.
        NumericalError: as `fit`.
    """
    if method.hidden_sites:
        raise ValueError(
            "a deep model that starts from a sparse GP has hidden layers without noise, whose "
            "values can have no sites: leave hidden_sites=False, or give cavity.fit a DeepGP "
            "whose inner layers have a noise_variance"
        )
    shared: dict[str, Any] = {"power": power, "jitter": jitter, "missing": missing}
    part = None if checkpoint is None else checkpoint.part("sparse")
    learning = {"max_iterations": max_iterations, "callback": callback, "checkpoint": part}
    check_power(power, len(X))
    at = np.minimum(power, SETTINGS.below) if hidden.above else power
    table = (hidden.inputs[-1], y, rows or {}, seed)
    single, least = _single(starts, *table, shared | learning, at)
    sparse, process = cast(GP, single.model), cast(Posterior, single.posterior).process
    model, sites = deepen(sparse, process, hidden, points, seed)
    method = dataclasses.replace(method, batch=min(method.batch or len(X), len(X)), seed=seed)
    fits = _Fits(X, y, shared | {"rows": rows, "callback": callback}, checkpoint)
    if max_iterations == 0 or single.interrupted:
        result = fits.learned(model, sites, method, "deep", max_iterations=0)
        message = {"converged": False, "interrupted": True, "message": single.message}
        return dataclasses.replace(result, **message) if single.interrupted else result
    fits.bijections = noise_floor(model, sparse, float(np.max(power)))
    result = fits.attempt(model, sites, method, "deep")
    if result.interrupted or result.log_evidence >= least * len(X):
        return result
    slower = dataclasses.replace(method, learning_rate=SETTINGS.slower * method.learning_rate)
    again = fits.attempt(model, sites, slower, "deep-again")
    if again.interrupted:
        return again
    result = max((result, again), key=lambda each: each.log_evidence)
    if result.log_evidence >= least * len(X):
        return result
    still = dataclasses.replace(method, max_sweeps=1, learning_rate=STANDSTILL)
    start = fits.learned(*at_rest(model, sites, hidden), still, "deep-start")
    return _fallen(result, start, least, len(X))


@dataclasses.dataclass
class _Fits:
    """Fits of a deep model to one table.

    Attributes:
        X: inputs.
        y: outputs.
        options: of `fit`.
        checkpoint: as in `fit`.
        bijections: as in `fit`.
    """

    X: np.ndarray
    y: np.ndarray
    options: dict[str, Any]
    checkpoint: Store | None
    bijections: DeepGP | None = None

    def learned(
        self,
        model: AbstractModel,
        sites: Sites | None,
        method: TiedPowerEP,
        name: str,
        max_iterations: int = 1,
    ) -> FitResult:
        """One fit; its checkpoint is in a part of that name."""
        return fit(
            model,
            self.X,
            self.y,
            method=method,
            sites=sites,
            bijections=self.bijections,
            max_iterations=max_iterations,
            checkpoint=None if self.checkpoint is None else self.checkpoint.part(name),
            **self.options,
        )

    def attempt(self, model: DeepGP, sites: Sites, method: TiedPowerEP, name: str) -> FitResult:
        """A fit by Adam, and by L-BFGS-B from its end where rows are few enough."""
        result = self.learned(model, sites, method, name)
        steps = f"{len(result.history)} steps of Adam"
        if result.interrupted:
            return result
        full, count = on_all_rows(method, len(self.X)), self.iterations(method, sites)
        if count < SETTINGS.least_final:
            return _judged(result, steps, len(self.X))
        try:
            end = self.learned(result.model, result.found, full, name + "-end", count)
        except NumericalError:
            return _judged(result, steps, len(self.X))
        if not end.interrupted:
            end = _judged(end, f"{steps}, {end.n_iterations} of L-BFGS-B", len(self.X))
        return dataclasses.replace(
            end,
            history=result.history + end.history,
            n_iterations=result.n_iterations + end.n_iterations,
            n_evaluations=result.n_evaluations + end.n_evaluations,
        )

    def iterations(self, method: TiedPowerEP, sites: Sites) -> int:
        """Iterations of L-BFGS-B that the rows, and its memory of past steps, allow."""
        many = sum(leaf.size for leaf in jax.tree.leaves(sites)) > SETTINGS.coordinates
        if many or len(self.X) > SETTINGS.final_rows:
            return 0
        points = on_all_rows(method, len(self.X)).propagation.repeats * len(self.X)
        batch = method.batch or len(self.X)
        passed = method.max_sweeps * batch * method.propagation.repeats
        return min(SETTINGS.final, int(SETTINGS.final_share * passed / points))


def on_all_rows(method: TiedPowerEP, count: int) -> TiedPowerEP:
    """The method for all rows at once, with enough points for each of so many."""
    points = min(-(-SETTINGS.points // count), SETTINGS.most_points)
    propagation = method.propagation.with_points(points)
    return dataclasses.replace(method, batch=None, propagation=propagation)


def variance_bounds(starts: Sequence[GP]) -> GP | None:
    """Domains of sparse GPs of labels that keep prior variances moderate; None for other outputs.

    Variances of stationary kernels and constants have an upper bound, unless they are fixed, have
    bounds of their own, or start above it.

    Args:
        starts: the sparse GPs, of one structure.
    """
    if starts[0].likelihood.support is not Support.LABELS:
        return None
    domains, most = bijections(starts[0]), SETTINGS.variance

    def bounded(domain: object, unit: object, *values: Any) -> object:
        free = isinstance(domain, Positive) and domain == Positive() and unit == SQUARED_OUTPUT
        below = free and all(np.max(value) < most for value in values)
        return Positive(0.0, most) if below else domain

    kernels = [start.kernel for start in starts]
    maps = jax.tree.map(bounded, domains.kernel, units(starts[0]).kernel, *kernels)
    return eqx.tree_at(lambda m: m.kernel, domains, maps)


def noise_floor(model: DeepGP, sparse: GP, power: float) -> DeepGP | None:
    """Domains of a deep model's parameters where its noise has a floor; None where it has none.

    Args:
        model: the deep model.
        sparse: the sparse GP of whose noise the floor is a share.
        power: of all rows.
    """
    noise = capability(sparse.likelihood, HasNoiseParameter)
    if noise is None or power == 0.0:
        return None
    least = SETTINGS.noise * power**2 * float(np.min(np.asarray(noise.variance)))
    return eqx.tree_at(lambda m: m.likelihood.variance, bijections(model), Positive(least))


def _judged(result: FitResult, steps: str, count: int) -> FitResult:
    """The result of a fit, converged where its objective hardly fell in the last steps.

    Args:
        result: the fit.
        steps: what was done, for the message.
        count: the number of rows.
    """
    tenth = max(len(result.history) // 10, 1)
    before, last = result.history[-2 * tenth : -tenth], result.history[-tenth:]
    fall = float(np.mean(before or np.inf) - np.mean(last)) / count
    converged = result.converged or abs(fall) < SETTINGS.last_fall
    change = "fell" if fall > 0.0 else "rose"
    message = f"{steps}: the objective {change} by {abs(fall):.2g} nats per row in the last tenth"
    message += "" if converged else "; allow more"
    return dataclasses.replace(result, converged=converged, message=message)


def _fallen(result: FitResult, start: FitResult, least: float, count: int) -> FitResult:
    """The better of a fit that ended below its sparse GP and of its start; says what it is.

    Args:
        result: the fit.
        start: its start, with hidden layers at their means.
        least: the log evidence per row of the sparse GP.
        count: the number of rows.
    """
    message = (
        f"the deep model ended at {result.log_evidence / count:.3g} nats per row, below the "
        f"{least:.3g} of the sparse GP that it started from: use the sparse GP, or more steps"
    )
    if start.log_evidence > result.log_evidence:
        message += "; this is its start, which predicts as the sparse GP does"
        done = ("history", "n_iterations", "n_evaluations")
        result = dataclasses.replace(start, **{name: getattr(result, name) for name in done})
    return dataclasses.replace(result, converged=False, message=message)


def _single(
    starts: Sequence[GP],
    H: np.ndarray,
    y: np.ndarray,
    rows: Mapping[str, np.ndarray],
    seed: int,
    options: dict[str, Any],
    at: ArrayLike,
) -> tuple[FitResult, float]:
    """The sparse GP that the deep model starts from, and its log evidence per row.

    Where its posterior is in closed form, it is learned from all rows of a table that is not too
    long, and all rows go into it in any case. Functions of several classes are independent at
    power 1, where nothing is averaged over points, which would take minutes.

    Args:
        starts: as in `fit_deep`.
        H: inputs of the sparse GP.
        y: outputs.
        rows: side data of the rows.
        seed: of the rows that are chosen.
        options: of `fit`.
        at: the power at which it is learned. Where its posterior is in closed form, it is
            inferred at that of the options.
    """
    if starts[0].likelihood.couples:
        options, at = options | {"power": 1.0}, 1.0
    method = PowerEP(coupled=False)
    closed_form = capability(starts[0].likelihood, GaussianInLatent) is not None
    learning: dict[str, Any] = options | {"power": at, "bijections": variance_bounds(starts)}
    chosen = np.arange(len(H))
    everything = closed_form and len(H) <= SETTINGS.whole
    if not everything:
        learning["max_iterations"] = min(options["max_iterations"], SETTINGS.iterations)
        random = np.random.default_rng(seed)
        chosen = np.sort(random.permutation(len(H))[: SETTINGS.rows])
    side = {name: np.asarray(values)[chosen] for name, values in rows.items()}
    single = fit_best(starts, H[chosen], y[chosen], rows=side or None, method=method, **learning)
    if not closed_form or (everything and np.array_equal(at, options["power"])):
        return single, single.log_evidence / len(chosen)
    fixed = {name: options[name] for name in ("power", "jitter", "missing")}
    whole = infer(single.model, H, y, rows=rows or None, method=method, **fixed)
    same = {field.name: getattr(whole, field.name) for field in dataclasses.fields(whole)}
    message = {"message": single.message, "converged": single.converged}
    return dataclasses.replace(single, **(same | message)), whole.log_evidence / len(H)
