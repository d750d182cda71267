"""Growth of the number of inducing points until a further increase brings no gain."""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from cavity.inducing.base import Points
from cavity.learning.data.validation import all_fixed
from cavity.learning.diagnostics.bracket import Bracket, bracket_of
from cavity.learning.diagnostics.examined import examined
from cavity.learning.diagnostics.inducing_verdict import ENOUGH, judge_inducing
from cavity.learning.diagnostics.noise_alone import noise_alone, varying
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.learning.methods.methods import PowerEP
from cavity.learning.plans.powers import PowerTrial, best_power
from cavity.learning.plans.trials import DEFAULT, best_of
from cavity.learning.results.result import FitResult
from cavity.learning.run.stages import Run
from cavity.models.base import AbstractModel
from cavity.models.gp import GP
from cavity.numerics.text import plural

# Points to begin with, and by how much they grow.
FIRST, GROWTH = 50, 2.0
# What twice as many points may still add to the log density of an output given all others, nats.
GAIN = 0.01
# Points below which it is not believed that everything is noise.
BELIEVED = 200
# The share of what is enough at which growth ends: learning to the end narrows the noise.
MARGIN = 0.6
# Iterations of learning at each number of points, which stay; and more of the first.
FEW, BEGIN = 20, 40
# Rows by which the numbers of points are judged, and up to which all of them judge the last.
SAMPLE, ALL = 4_000, 20_000
# Points of which a verdict says what they would buy.
MORE = 50
# Of inference where nothing else is asked for.
LAYOUT: dict[str, Any] = {
    "power": DEFAULT,
    "method": PowerEP(),
    "rows": None,
    "missing": "error",
    "jitter": 1e-8,
}


class Step(NamedTuple):
    """The last increase in the number of inducing points, and its gain.

    Attributes:
        before: the model with fewer points.
        points: its number of points.
        now: the number of points after the increase.
        gain: the increase of the mean log density of an output given all others, in nats per
            doubling of points.
    """

    before: GP
    points: int
    now: int
    gain: float

    @property
    def settled(self) -> bool:
        """True where more points bring next to nothing."""
        return self.gain <= GAIN

    def __str__(self) -> str:
        return (
            f"in the step from {self.points} to {self.now} points the log density of an output "
            f"given all others rose by {self.gain:.2g} nats per doubling"
        )


class Judgement(NamedTuple):
    """A verdict on the number of inducing points.

    Attributes:
        enough: whether there are enough points.
        noise: whether nothing beyond noise was found.
        share: the width of the bracket of the evidence, or the gain of the last step, as a share
            of the evidence gained over noise alone.
        bracket: of the exact evidence of the rows that judged; None where there is none.
        text: a sentence.
        observed: the outputs that judged, (P,).
        step: the last step of growth; None where there was none.
    """

    enough: bool
    noise: bool
    share: float
    bracket: Bracket | None
    text: str
    observed: np.ndarray
    step: Step | None = None

    def after(self, step: Step | None) -> "Judgement":
        """The verdict where the last step of growth is heard as well."""
        if step is None:
            return self
        if step.settled:
            return self._replace(text=f"{self.text}; {step}", step=step)
        joined = ", though " if self.enough else ", and "
        beside = self.text.removeprefix("enough, for ").removeprefix("not enough, for ")
        if beside == self.text:
            joined = "; "
        text = f"not enough, for {step}{joined}{beside}"
        return self._replace(enough=False, text=text, step=step)


def sample(run: Run, most: int) -> Run:
    """The run on at most so many of its rows."""
    count = len(run.X)
    if count <= most:
        return run
    random = np.random.default_rng(run.options["seed"])
    return run.subset(np.sort(random.choice(count, most, replace=False)))


def bound(run: Run, model: AbstractModel) -> float:
    """The log evidence of a model at power 0, nats."""
    return float(run.infer(model, power=0.0, blocks=None).log_evidence)


def judge(run: Run, model: AbstractModel, step: Step | None) -> Judgement:
    """The verdict on a model's points.

    Args:
        run: on the rows that judge.
        model: with the parameters and the points.
        step: the last step in the number of points; None without one.
    """
    asked = {name: run.options.get(name, usual) for name, usual in LAYOUT.items()}
    case = examined(model, run.X, run.y, **asked)
    judging = varying(case)
    noise = noise_alone(case.gp.likelihood, judging.data)
    observed = np.sum(~np.isnan(run.y.reshape(len(run.y), -1)), axis=0)
    if case.noise is not None:
        bracket = bracket_of(case)
        beside = bracket if judging is case else bracket_of(judging)
        found = judge_inducing(beside, noise)
        # where outputs do not vary no number of points changes anything
        constant = noise == math.inf
        none = found.more_than_noise is False and not constant
        share = 0.0 if constant else found.share
        judged = Judgement(found.enough, none, share, bracket, found.text, observed)
        return judged if constant else judged.after(step)
    value = bound(run, model)
    explained = value - noise
    gain = math.inf if step is None else value - bound(run, step.before)
    share = gain / explained if explained > 0.0 else math.inf
    enough = share <= ENOUGH
    text = (
        f"{'enough' if enough else 'not enough'}, for the last step in the number of points "
        f"raised the bound of power 0 by {gain:.3g} nats of the {explained:.4g} that the "
        "model explains over noise"
    )
    return Judgement(enough, explained <= 0.0, share, None, text, observed).after(step)


class Grown(NamedTuple):
    """A model with points that have grown.

    Attributes:
        result: the last short fit.
        judgement: whether its points are enough.
    """

    result: FitResult
    judgement: Judgement

    @property
    def model(self) -> GP:
        """The model, at the parameters of the last short fit."""
        return self.result.model

    def counting(self, evaluations: int) -> "Grown":
        """The same of a longer run, with the evaluations of all of that."""
        return self._replace(result=self.result.counting(evaluations))


def grow(
    run: Run, starts: Sequence[GP], *, bijections: GP, most: int = 1_000, budget: int = BEGIN
) -> Grown:
    """A model with as many inducing points as are enough, to learn to its end.

    From 50 on they double. At each number the points are chosen greedily at the kernel as it is,
    and stay while it is learned for a few iterations. It ends where twice as many points add no
    more than 0.01 nats to the mean log density of an output given all others, which points that
    were chosen without outputs leave fair, and where the bracket of the exact evidence is narrower
    than 5 % of what the model explains over noise alone; with noise that is not Gaussian, where
    the last step gained less than that at power 0.

    The evidence alone is no criterion. It hardly rises along a ridge on which the noise falls and
    predictions improve, and a bracket judges inference at parameters that fewer points found.

    Args:
        run: on the table, with `power` and `seed` among its options.
        starts: models with different starting values and the first points.
        bijections: of the parameters; points stay in any case.
        most: points at the most.
        budget: iterations at the most at each number of points.

    Returns:
        The last short fit, and the verdict on its points before they are learned.

    References:
        Burt, Rasmussen and van der Wilk (2020) for the greedy choice; van der Wilk (2018), items
        33 and 34 for bounds that say when points are enough.
    """
    judging = sample(run, SAMPLE)
    assert bijections.inducing is not None
    held = eqx.tree_at(lambda m: m.inducing, bijections, all_fixed(bijections.inducing))
    short = run.with_options(bijections=held, n_restarts=0)

    def judged(last: FitResult | None, result: FitResult) -> Grown:
        return Grown(result, judge(judging, result.model, _step(last, result)))

    last: FitResult | None = None
    result = short.follow(
        _stage_name(starts[0]),
        lambda part: best_of(part, starts, budget=min(BEGIN, budget)),
        ended=functools.partial(judged, None),
    )
    while True:
        model: Any = result.model
        step, size = _step(last, result), model.inducing.size
        wanted = min(math.ceil(GROWTH * size), most)
        seed = run.options["seed"]
        grown = with_points(
            model, select_inducing(model.latents[0].kernel, run.X, wanted, seed=seed)
        )
        if grown.inducing.size <= size:  # the cap, or all distinct rows are there
            return Grown(result, judge(judging, model, step if size >= most else None))
        if (step is not None and step.settled) or not _varies(run.y):
            found = judge(judging, model, step)
            believed = found.share <= MARGIN * ENOUGH
            if found.noise:
                believed = found.enough and size >= min(BELIEVED, most)
            if believed:
                return Grown(result, found)
        last = result
        how: dict[str, Any] = {"budget": min(FEW, budget), "beside": [last]}
        result = short.stage(
            _stage_name(grown), grown, ended=functools.partial(judged, last), **how
        )


class Enough(NamedTuple):
    """A fit with as many points as are enough.

    Attributes:
        result: the fit.
        judgement: of the points before they were learned; None for a full GP.
        trials: evidence and held-out density at each power that was compared; None if the power
            was given.
    """

    result: FitResult
    judgement: Judgement | None
    trials: tuple[PowerTrial, ...] | None = None


def with_enough_points(
    run: Run,
    starts: Sequence[GP],
    *,
    bijections: GP,
    most: int,
    budget: int,
    choose_power: bool,
) -> Enough:
    """A fit with as many inducing points as are enough, at a power that may be chosen as well.

    Args:
        run: on the table, with `power` and `seed` among its options.
        starts: models with different starting values and the first points; full GPs stay full.
        bijections: of the parameters.
        most: points at the most.
        budget: iterations at the most.
        choose_power: whether the power is to be chosen.
    """
    seed, judgement = run.options["seed"], None
    if starts[0].inducing is not None:
        grown = run.follow(
            "",
            lambda part: grow(part, starts, bijections=bijections, most=most, budget=budget),
            ended=lambda grown: Enough(grown.result, grown.judgement),
        )
        starts = [grown.model, *at_points_of(grown.model, starts, run.X, seed)]
        judgement = grown.judgement
    if choose_power:
        chosen = run.follow(
            "",
            lambda part: best_power(part, starts, budget=budget, seed=seed),
            ended=lambda best: Enough(best.result, judgement, best.trials),
        )
        return Enough(chosen.result, judgement, chosen.trials)
    result = run.follow(
        "",
        lambda part: best_of(part, starts, budget=budget),
        ended=lambda best: Enough(best, judgement),
    )
    return Enough(result, judgement)


def _step(last: FitResult | None, now: FitResult) -> Step | None:
    """The gain of more points; None for the first ones."""
    if last is None:
        return None
    models: tuple[Any, Any] = last.model, now.model
    before, after = (model.inducing.size for model in models)
    if before == after:  # an interrupt came before there were more
        return None
    gain = np.asarray(now.leave_one_out()) - np.asarray(last.leave_one_out())
    known = np.isfinite(gain)
    mean = float(np.mean(gain[known])) if np.any(known) else math.inf
    return Step(models[0], before, after, mean / math.log2(after / before))


def _varies(y: np.ndarray) -> bool:
    """True where the values of any output differ."""
    columns = y.reshape(len(y), -1)
    seen = (column[~np.isnan(column)] for column in columns.T)
    return any(column.size and np.ptp(column) > 0.0 for column in seen)


def _stage_name(model: Any) -> str:
    return f"points-{model.inducing.size}"


def with_points(model: Any, Z: np.ndarray) -> Any:
    """The model with other inducing points."""
    return eqx.tree_at(lambda m: m.inducing, model, Points(Z))


def at_points_of(grown: Any, starts: Sequence[GP], X: np.ndarray, seed: int) -> list[GP]:
    """Starting models with as many inducing points as a grown model.

    With few points, learning may attribute to noise what more points would explain, and growth
    keeps to that optimum, so that the usual starts are tried beside its result.
    """
    found = []
    for start in starts:
        Z = select_inducing(start.latents[0].kernel, X, grown.inducing.size, seed=seed)
        if len(Z) == grown.inducing.size:
            found.append(with_points(start, Z))
    return found


def verdict(run: Run, result: FitResult, before: Judgement | None) -> Judgement:
    """The final verdict on the inducing points of a fit, with the gain of more if too few.

    Args:
        run: of the fit.
        result: the fit.
        before: the verdict on the points before they were learned; None for a full GP.
    """
    if before is None:
        value = float(result.log_evidence)
        observed = np.sum(~np.isnan(run.y.reshape(len(run.y), -1)), axis=0)
        gaussian = result.model.likelihood.gaussian_noise is not None
        exact = Bracket(value, value, 0.0, value, 0.0, gaussian, "exact", 0)
        return Judgement(
            True, False, 0.0, exact, "a full GP, which needs no inducing points", observed
        )
    judging = run if len(run.X) <= ALL else sample(run, SAMPLE)
    model: Any = result.model
    found = before
    if model.likelihood.gaussian_noise is not None:
        found = judge(judging, model, before.step)
    text = found.text
    if len(judging.X) < len(run.X):
        text += f"; judged by {plural(len(judging.X), 'row')}"
    if found.enough:
        return found._replace(text=text)
    some = sample(run, SAMPLE)
    Z, kernel = np.asarray(model.inducing.Z), model.latents[0].kernel
    chosen = select_inducing(kernel, run.X, len(Z) + MORE, seed=run.options["seed"])
    added = chosen[len(Z) :]
    more = with_points(model, np.concatenate([Z, added]))
    gain = (bound(some, more) - bound(some, model)) * len(run.X) / len(some.X)
    if len(added):
        more_points = plural(len(added), "more point")
        text += f"; {more_points} would raise the bound of power 0 by about {gain:.3g} nats"
    return found._replace(text=text)
