"""As many inducing points as are enough: grown until more of them bring nothing."""

import dataclasses
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
from cavity.learning.infer import infer
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.learning.methods.methods import PowerEP
from cavity.learning.plans.trials import fit_best
from cavity.learning.progress.checkpoint import Store
from cavity.learning.results.result import FitResult
from cavity.learning.run.fit import fit
from cavity.likelihoods.capabilities import GaussianInLatent, capability
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
    "method": PowerEP(),
    "rows": None,
    "missing": "error",
    "jitter": 1e-8,
}


class Step(NamedTuple):
    """What the last step in the number of points brought.

    Attributes:
        before: the model with fewer points.
        points: how many it had.
        now: how many there are.
        gain: what twice as many points add to the mean log density of an output given all
            others, nats.
    """

    before: GP
    points: int
    now: int
    gain: float

    @property
    def settled(self) -> bool:
        """Whether more points bring next to nothing."""
        return self.gain <= GAIN

    def __str__(self) -> str:
        return (
            f"in the step from {self.points} to {self.now} points the log density of an output "
            f"given all others rose by {self.gain:.2g} nats per doubling"
        )


class Judgement(NamedTuple):
    """Whether inducing points are enough.

    Attributes:
        enough: whether they are.
        noise: whether nothing beyond noise was found.
        share: what is not known of the evidence, or the gain of the last step, as a share of what
            the model explains over noise alone.
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


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Rows, and how models are fitted to them and judged by them.

    Attributes:
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P), NaN where missing.
        power: of all fits.
        seed: of everything random.
        options: of `fit` beside these.
    """

    X: np.ndarray
    y: np.ndarray
    power: Any
    seed: int
    options: dict[str, Any]

    def sample(self, most: int) -> "Rows":
        """At most so many of the rows."""
        if len(self.X) <= most:
            return self
        random = np.random.default_rng(self.seed)
        kept = np.sort(random.choice(len(self.X), most, replace=False))
        rows = self.options.get("rows")
        side = None if rows is None else {name: values[kept] for name, values in rows.items()}
        power = self.power if np.ndim(self.power) == 0 else np.asarray(self.power)[kept]
        options = self.options | {"rows": side}
        return dataclasses.replace(
            self, X=self.X[kept], y=self.y[kept], power=power, options=options
        )

    @property
    def layout(self) -> dict[str, Any]:
        """The options of inference."""
        known = ("method", "jitter", "rows", "missing")
        return {name: self.options[name] for name in known if name in self.options}

    def bound(self, model: AbstractModel) -> float:
        """The log evidence at power 0, nats."""
        return float(infer(model, self.X, self.y, power=0.0, **self.layout).log_evidence)

    def judge(self, model: AbstractModel, step: Step | None) -> Judgement:
        """The verdict on a model's points.

        Args:
            model: with the parameters and the points.
            step: the last step in the number of points; None without one.
        """
        asked = LAYOUT | self.layout | {"power": self.power}
        case = examined(model, self.X, self.y, **asked)
        judging = varying(case)
        noise = noise_alone(case.gp.likelihood, judging.data)
        observed = np.sum(~np.isnan(self.y.reshape(len(self.y), -1)), axis=0)
        if case.gaussian is not None:
            bracket = bracket_of(case)
            beside = bracket if judging is case else bracket_of(judging)
            found = judge_inducing(beside, noise)
            # where outputs do not vary no number of points changes anything
            constant = noise == math.inf
            none = found.more_than_noise is False and not constant
            share = 0.0 if constant else found.share
            judged = Judgement(found.enough, none, share, bracket, found.text, observed)
            return judged if constant else judged.after(step)
        bound = self.bound(model)
        explained = bound - noise
        gain = math.inf if step is None else bound - self.bound(step.before)
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
        model: the model.
        judgement: whether its points are enough.
        evaluations: of the objective in all fits.
        interrupted: the last fit, where it was interrupted from the keyboard.
    """

    model: GP
    judgement: Judgement
    evaluations: int
    interrupted: FitResult | None = None


def fit_growing(
    starts: Sequence[GP],
    X: np.ndarray,
    y: np.ndarray,
    *,
    most: int = 1_000,
    power: Any = 0.5,
    seed: int = 0,
    bijections: GP,
    checkpoint: Store | None = None,
    **options: Any,
) -> Grown:
    """A model with as many inducing points as are enough, to learn to its end.

    From 50 on they double. At each number the points are chosen greedily at the kernel as it is,
    and stay while it is learned for a few iterations. It ends where twice as many points add no
    more than 0.01 nats to the mean log density of an output given all others, which points that
    were chosen without outputs leave fair, and where the bracket of the exact evidence is narrower
    than 5 % of what the model explains over noise alone; with noise that is not Gaussian, where
    the last step gained less than that at power 0.

    The evidence alone does not say it. It hardly rises along a ridge on which the noise falls and
    predictions improve, and a bracket judges inference at parameters that fewer points found.

    Args:
        starts: models with different starting values and the first points.
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P), NaN where missing.
        most: points at the most.
        power: in [0, 1].
        seed: of choices.
        bijections: of the parameters; points stay in any case.
        checkpoint: as in `fit`; each fit is kept in a part of its own.
        **options: of `fit`.

    Returns:
        The model, the verdict on its points before they are learned, and evaluations.

    References:
        Burt, Rasmussen and van der Wilk (2020) for the greedy choice; van der Wilk (2018), items
        33 and 34 for bounds that say when points are enough.
    """
    rows = Rows(X, y, power, seed, options)
    sample = rows.sample(SAMPLE)
    maps: Any = bijections
    held = eqx.tree_at(lambda m: m.inducing, maps, all_fixed(maps.inducing))
    short = options | {"power": power, "seed": seed, "bijections": held, "n_restarts": 0}
    limit = options.get("max_iterations", BEGIN)
    first = short | {
        "max_iterations": min(BEGIN, limit),
        "checkpoint": _part(checkpoint, starts[0]),
    }
    result = fit_best(starts, X, y, **first)
    evaluations = 0
    last: FitResult | None = None
    while True:
        model: Any = result.model
        evaluations += result.n_evaluations
        step, size = _step(last, result), model.inducing.size
        if result.interrupted:
            return Grown(model, sample.judge(model, step), evaluations, result)
        wanted = min(math.ceil(GROWTH * size), most)
        grown = with_points(model, select_inducing(model.latents[0].kernel, X, wanted, seed=seed))
        if grown.inducing.size <= size:  # the cap, or all distinct rows are there
            ends = step if size >= most else None
            return Grown(model, sample.judge(model, ends), evaluations)
        if (step is not None and step.settled) or not _varies(y):
            found = sample.judge(model, step)
            believed = found.share <= MARGIN * ENOUGH
            if found.noise:
                believed = found.enough and size >= min(BELIEVED, most)
            if believed:
                return Grown(model, found, evaluations)
        last = result
        some = {"max_iterations": min(FEW, limit), "checkpoint": _part(checkpoint, grown)}
        result = fit(grown, X, y, **(short | some))


def _step(last: FitResult | None, now: FitResult) -> Step | None:
    """What more points brought; None for the first ones."""
    if last is None:
        return None
    models: tuple[Any, Any] = last.model, now.model
    before, after = (model.inducing.size for model in models)
    gain = np.asarray(now.leave_one_out()) - np.asarray(last.leave_one_out())
    known = np.isfinite(gain)
    mean = float(np.mean(gain[known])) if np.any(known) else math.inf
    return Step(models[0], before, after, mean / math.log2(after / before))


def _varies(y: np.ndarray) -> bool:
    """Whether the values of any output differ."""
    columns = y.reshape(len(y), -1)
    seen = (column[~np.isnan(column)] for column in columns.T)
    return any(column.size and np.ptp(column) > 0.0 for column in seen)


def _part(checkpoint: Store | None, model: Any) -> Store | None:
    size = model.inducing.size
    return None if checkpoint is None else checkpoint.part(f"points-{size}")


def with_points(model: Any, Z: np.ndarray) -> Any:
    """The model with other inducing points."""
    return eqx.tree_at(lambda m: m.inducing, model, Points(Z))


def at_points_of(grown: Any, starts: Sequence[GP], X: np.ndarray, seed: int) -> list[GP]:
    """Starts with as many points as a model has whose points have grown.

    With few points learning may take for noise what more of them would explain, and the path of
    growth stays there, so that the usual starts are tried beside its end.
    """
    found = []
    for start in starts:
        Z = select_inducing(start.latents[0].kernel, X, grown.inducing.size, seed=seed)
        if len(Z) == grown.inducing.size:
            found.append(with_points(start, Z))
    return found


def verdict(result: FitResult, rows: Rows, before: Judgement | None) -> Judgement:
    """The last word on the points of a fit, and what more would buy where they are not enough.

    Args:
        result: the fit.
        rows: its rows.
        before: the verdict on the points before they were learned; None for a full GP.
    """
    if before is None:
        value, observed = (
            float(result.log_evidence),
            np.sum(~np.isnan(rows.y.reshape(len(rows.y), -1)), axis=0),
        )
        gaussian = capability(result.model.likelihood, GaussianInLatent) is not None
        exact = Bracket(value, value, 0.0, value, 0.0, gaussian, "exact", 0)
        return Judgement(
            True, False, 0.0, exact, "a full GP, which needs no inducing points", observed
        )
    judging = rows if len(rows.X) <= ALL else rows.sample(SAMPLE)
    model: Any = result.model
    found = before
    if capability(model.likelihood, GaussianInLatent) is not None:
        found = judging.judge(model, before.step)
    text = found.text
    if len(judging.X) < len(rows.X):
        text += f"; judged by {plural(len(judging.X), 'row')}"
    if found.enough:
        return found._replace(text=text)
    sample = rows.sample(SAMPLE)
    Z, kernel = np.asarray(model.inducing.Z), model.latents[0].kernel
    added = select_inducing(kernel, rows.X, len(Z) + MORE, seed=rows.seed)[len(Z) :]
    more = with_points(model, np.concatenate([Z, added]))
    gain = (sample.bound(more) - sample.bound(model)) * len(rows.X) / len(sample.X)
    if len(added):
        more_points = plural(len(added), "more point")
        text += f"; {more_points} would raise the bound of power 0 by about {gain:.3g} nats"
    return found._replace(text=text)
