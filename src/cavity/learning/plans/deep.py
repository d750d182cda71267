"""Learning deep models: from a sparse GP, by steps on minibatches."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.energy import Sites
from cavity.inference.propagation import Nodes
from cavity.learning.data.arrays import check_power
from cavity.learning.initialisation.deep import HiddenStart, at_rest, deepen
from cavity.learning.methods.methods import PowerEP, TiedPowerEP
from cavity.learning.plans.trials import best_of
from cavity.learning.results.result import FitResult
from cavity.learning.run.fits import fits
from cavity.learning.run.stages import Run
from cavity.likelihoods.support import Support
from cavity.models.deep.deep_gp import DeepGP
from cavity.models.gp import GP
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
    method: TiedPowerEP = METHOD,
    **options: Any,
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
        method: how the deep model is learned.
        **options: of `fit`; `max_iterations` are those of the sparse GP, and with 0 no parameters
            are learned, of the deep model neither.

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
    budget, store = options.pop("max_iterations", 1000), options.pop("checkpoint", None)
    run = fits(X, y, {"power": 0.5} | options, store)
    return run.carry_out(lambda run: deep_plan(run, starts, hidden, method=method, budget=budget))


def deep_plan(
    run: Run,
    starts: Sequence[GP],
    hidden: HiddenStart,
    *,
    method: TiedPowerEP,
    budget: int,
) -> FitResult:
    """The plan of `fit_deep`, whose arguments these are."""
    power, count = run.options["power"], len(run.X)
    check_power(power, count)
    batch = min(method.batch or count, count)
    method = dataclasses.replace(method, batch=batch, seed=hidden.seed)

    def deepened(single: FitResult) -> tuple[DeepGP, Sites]:
        return deepen(single.model, single.posterior.process, hidden)

    def unlearned(single: FitResult) -> FitResult:
        model, sites = deepened(single)
        rest = run.unrecorded().stage("deep", model, sites=sites, method=method, budget=0)
        return rest.stopped(single.message)

    at = np.minimum(power, SETTINGS.below) if hidden.above else power
    single, least = _single(run, starts, hidden, at, budget, unlearned)
    model, sites = deepened(single)
    if budget == 0:
        return run.stage("deep", model, sites=sites, method=method, budget=0)
    floor = noise_floor(model, single.model, float(np.max(power)))
    run = run.with_options(bijections=floor)
    result = _attempt(run, model, sites, method, "deep", [])
    if result.log_evidence >= least * count:
        return result
    slower = dataclasses.replace(method, learning_rate=SETTINGS.slower * method.learning_rate)
    again = _attempt(run, model, sites, slower, "deep-again", [result])
    result = run.best([result, again])
    if result.log_evidence >= least * count:
        return result
    still = dataclasses.replace(method, max_sweeps=1, learning_rate=STANDSTILL)
    model, sites = at_rest(model, sites, hidden)
    start = run.stage("deep-start", model, sites=sites, method=still, budget=1, beside=[result])
    return _fallen(run, result, start, least)


def _attempt(
    run: Run,
    model: DeepGP,
    sites: Sites,
    method: TiedPowerEP,
    name: str,
    beside: Sequence[FitResult],
) -> FitResult:
    """A fit by Adam, and by L-BFGS-B from its end where rows are few enough."""
    count = len(run.X)
    first = run.stage(name, model, sites=sites, method=method, budget=1, beside=beside)
    steps = f"{len(first.history)} steps of Adam"
    full, budget = full_data_method(method, count), _iterations(method, sites, count)
    if budget < SETTINGS.least_final:
        return _judged(first, first.history, steps, count)
    how: dict[str, Any] = {"sites": first.found, "method": full, "budget": budget}
    end = run.try_stage(f"{name}-end", first.model, after=first, beside=beside, **how)
    if end is None:
        return _judged(first, first.history, steps, count)
    own = end.history[len(first.history) :]
    iterations = end.n_iterations - first.n_iterations
    return _judged(end, own, f"{steps}, {iterations} of L-BFGS-B", count)


def _iterations(method: TiedPowerEP, sites: Sites, count: int) -> int:
    """Iterations of L-BFGS-B that the rows, and its memory of past steps, allow."""
    many = sum(leaf.size for leaf in jax.tree.leaves(sites)) > SETTINGS.coordinates
    if many or count > SETTINGS.final_rows:
        return 0
    points = full_data_method(method, count).propagation.repeats * count
    batch = method.batch or count
    passed = method.max_sweeps * batch * method.propagation.repeats
    return min(SETTINGS.final, int(SETTINGS.final_share * passed / points))


def full_data_method(method: TiedPowerEP, count: int) -> TiedPowerEP:
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
    noise = sparse.likelihood.noise_parameter
    if noise is None or power == 0.0:
        return None
    least = SETTINGS.noise * power**2 * float(np.min(np.asarray(noise.variance)))
    return eqx.tree_at(lambda m: m.likelihood.variance, bijections(model), Positive(least))


def _judged(result: FitResult, history: Sequence[float], steps: str, count: int) -> FitResult:
    """The result of a fit, converged where its objective hardly fell in the last steps.

    Args:
        result: the fit.
        history: of its last optimiser.
        steps: what was done, for the message.
        count: the number of rows.
    """
    tenth = max(len(history) // 10, 1)
    before, last = history[-2 * tenth : -tenth], history[-tenth:]
    fall = float(np.mean(before or np.inf) - np.mean(last)) / count
    converged = result.converged or abs(fall) < SETTINGS.last_fall
    change = "fell" if fall > 0.0 else "rose"
    message = f"{steps}: the objective {change} by {abs(fall):.2g} nats per row in the last tenth"
    return result.judged(message + ("" if converged else "; allow more"), converged=converged)


def _fallen(run: Run, result: FitResult, start: FitResult, least: float) -> FitResult:
    """The better of a fit that ended below its sparse GP and of its start; says what it is.

    Args:
        run: of both.
        result: the fit.
        start: its start, with hidden layers at their means.
        least: the log evidence per row of the sparse GP.
    """
    message = (
        f"the deep model ended at {result.log_evidence / len(run.X):.3g} nats per row, below the "
        f"{least:.3g} of the sparse GP that it started from: use the sparse GP, or more steps"
    )
    best = run.best([result, start])
    if start.log_evidence > result.log_evidence:
        message += "; this is its start, which predicts as the sparse GP does"
        best = best.with_search_of(result)
    return best.judged(message, converged=False)


def _single(
    run: Run,
    starts: Sequence[GP],
    hidden: HiddenStart,
    at: ArrayLike,
    budget: int,
    ended: Callable[[FitResult], FitResult],
) -> tuple[FitResult, float]:
    """The sparse GP that the deep model starts from, and its log evidence per row.

    Where its posterior is in closed form, it is learned from all rows of a table that is not too
    long, and all rows go into it in any case. Functions of several classes are independent at
    power 1, where nothing is averaged over points, which would take minutes.

    Args:
        run: of the deep model.
        starts: as in `fit_deep`.
        hidden: as in `fit_deep`; the sparse GP is on the inputs of the last layer.
        at: the power at which it is learned. Where its posterior is in closed form, it is
            inferred at that of the run.
        budget: iterations at the most.
        ended: from the sparse GP on all rows to what the plan gives where it is interrupted.
    """
    power = run.options["power"]
    if starts[0].likelihood.couples:
        power = at = 1.0
    method, count = PowerEP(coupled=False), len(run.X)
    every = run.with_table(hidden.inputs[-1], run.y, method=method, power=power)
    closed_form = starts[0].likelihood.gaussian_noise is not None
    chosen = np.arange(count)
    everything = closed_form and count <= SETTINGS.whole
    if not everything:
        budget = min(budget, SETTINGS.iterations)
        chosen = np.sort(np.random.default_rng(hidden.seed).permutation(count)[: SETTINGS.rows])
    some = every.with_options(power=at).subset(chosen)
    some = some.with_options(bijections=variance_bounds(starts))
    done = not closed_form or (everything and np.array_equal(at, power))

    def whole(single: FitResult) -> FitResult:
        return single if done else every.at_rest(single, ended=ended)

    single = some.follow(
        "sparse",
        lambda part: best_of(part, starts, budget=budget),
        ended=lambda single: ended(whole(single)),
    )
    single = whole(single)
    return single, single.log_evidence / (len(chosen) if done else count)
