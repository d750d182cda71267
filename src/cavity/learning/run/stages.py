"""Runs: fits that follow one another, and what a plan may know of them.

A plan says which stage follows which, and which result is kept. Its run alone knows where stages
are recorded, what happens where one fails or is interrupted, and what all of them cost.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, TypeVar, runtime_checkable

import numpy as np

from cavity.learning.failures import NumericalError
from cavity.learning.infer import infer
from cavity.learning.optimisers.lbfgs import GracefulStop
from cavity.learning.progress.checkpoint import Store
from cavity.learning.results.result import FitResult, Inference
from cavity.models.base import AbstractModel

T = TypeVar("T")


@runtime_checkable
class Counting(Protocol):
    """The result of a plan, with a count of evaluations."""

    def counting(self: T, evaluations: int) -> T:
        """The same with another number of evaluations."""
        ...


C = TypeVar("C", bound=Counting)

# Options of a fit that inference has too.
OF_INFERENCE = ("power", "method", "jitter", "blocks", "rows", "missing")


class Interrupted(Exception):
    """An interrupt from the keyboard, with the best so far, which leaves every plan.

    Attributes:
        best: what the plan gives in place of its end.
    """

    def __init__(self, best: Any):
        super().__init__(best)
        self.best = best


@dataclasses.dataclass
class Account:
    """The cost of the stages of a run, and the first failure among them.

    Attributes:
        evaluations: of objectives.
        failure: the first error; None where no stage has failed.
        whole: the account of the run that this one is a part of.
    """

    evaluations: int = 0
    failure: NumericalError | None = None
    whole: "Account | None" = None

    def add(self, evaluations: int) -> None:
        """Counts evaluations, of this run and of all that it is a part of."""
        self.evaluations += evaluations
        if self.whole is not None:
            self.whole.add(evaluations)


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """Fits to one table that follow one another.

    Attributes:
        fitted: function that fits one stage, from its path, model, inputs, outputs and options.
        X: inputs, (N, D); batches, or None where the model has none.
        y: outputs, (N,) or (N, P); None with batches.
        options: of every stage, unless it has its own.
        store: where stages are kept, each in a part of its own; None for nowhere.
        path: names of the runs that this one is a part of.
        account: of all stages.
    """

    fitted: Callable[..., FitResult]
    X: Any
    y: Any
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    store: Store | None = None
    path: tuple[str, ...] = ()
    account: Account = dataclasses.field(default_factory=Account)

    # ---------------------------------------------------------------- stages

    def stage(
        self,
        name: str,
        model: AbstractModel,
        *,
        budget: int | None = None,
        after: FitResult | None = None,
        beside: Sequence[FitResult] = (),
        ended: Callable[[FitResult], Any] | None = None,
        **options: Any,
    ) -> FitResult:
        """A fit, kept under its name.

        Args:
            name: of the stage among those of its run; "" for the only one of a run.
            model: with the parameters that it starts from.
            budget: iterations at the most; None for those of the run's options.
            after: the result that it goes on from, whose history comes before its own.
            beside: results of which the best is kept if this one is interrupted before it is
                better.
            ended: from the best so far to what the plan gives where it is interrupted here.
            **options: of `fit`, in the place of the run's; without sites it starts from none.

        Raises:
            Interrupted: with the best so far.
            KeyboardInterrupt: where nothing was reached by then.
            NumericalError: as `fit`.
        """
        how = self.options | {"sites": None} | options | {"checkpoint": self._part(name)}
        if budget is not None:
            how["max_iterations"] = budget
        try:
            result = self.fitted((*self.path, name), model, self.X, self.y, **how)
        except KeyboardInterrupt:
            reached = [*beside] if after is None else [*beside, after]
            if not reached:
                raise
            self._leave(reached, ended)
        except NumericalError as error:
            self.account.failure = self.account.failure or error
            raise
        self.account.add(result.n_evaluations)
        result = result if after is None else result.going_on_from(after)
        if result.interrupted:
            self._leave([*beside, result], ended)
        return self._counted(result)

    def try_stage(self, name: str, model: AbstractModel, **how: Any) -> FitResult | None:
        """As `stage`; None where it fails numerically."""
        return self._tried(lambda: self.stage(name, model, **how))

    def infer(self, model: AbstractModel, **options: Any) -> Inference:
        """Inference at the parameters of a model."""
        asked = self.options | options
        how = {key: asked[key] for key in OF_INFERENCE if key in asked}
        return infer(model, self.X, self.y, **how)

    def try_infer(self, model: AbstractModel, **options: Any) -> Inference | None:
        """As `infer`; None where it fails numerically."""
        try:
            return self.infer(model, **options)
        except NumericalError as error:
            self.account.failure = self.account.failure or error
            return None

    def at_rest(
        self,
        result: FitResult,
        model: AbstractModel | None = None,
        *,
        ended: Callable[[FitResult], Any] | None = None,
        **options: Any,
    ) -> FitResult:
        """A result with the posterior of this run's rows, at parameters as they are.

        Args:
            result: the fit.
            model: another model with its parameters; None for that of the fit.
            ended: as in `stage`.
            **options: of `infer`, in the place of the run's.

        Raises:
            Interrupted: with the whole inference all the same.
        """
        at = result.model if model is None else model
        try:
            found, stopped = self.infer(at, **options), False
        except GracefulStop:
            found, stopped = self.infer(at, **options), True
        self.account.add(1)
        result = self._counted(result.with_inference(found, model))
        if stopped:
            self._leave([result], ended)
        return result

    def improve(self, result: FitResult, work: Callable[[FitResult], FitResult]) -> FitResult:
        """A result after some more work on it.

        Raises:
            Interrupted: with the result as it was.
        """
        try:
            return work(result)
        except KeyboardInterrupt:
            self._leave([result], None)

    # ------------------------------------------------------------- plans in plans

    def follow(
        self,
        name: str,
        plan: Callable[["Run"], C],
        *,
        ended: Callable[[C], Any] | None = None,
        otherwise: Callable[[], Any] | None = None,
    ) -> C:
        """A plan as a stage of this one.

        Args:
            name: of the stage; "" for the run's own place.
            plan: what a run of its own does.
            ended: from the best so far of the plan to what this one gives where it is interrupted.
            otherwise: what this one gives where an interrupt comes before the plan has reached
                anything; None for nothing either.

        Raises:
            Interrupted: as `stage`.
            KeyboardInterrupt: as `stage`.
            NumericalError: as the plan.
        """
        try:
            return self._counted(plan(self.part(name)))
        except Interrupted as stop:
            best = self._counted(stop.best)
            raise Interrupted(_made(lambda: best if ended is None else ended(best))) from None
        except KeyboardInterrupt:
            if otherwise is None:
                raise
            raise Interrupted(_made(otherwise)) from None
        except NumericalError as error:
            self.account.failure = self.account.failure or error
            raise

    def try_follow(self, name: str, plan: Callable[["Run"], C], **how: Any) -> C | None:
        """As `follow`; None where the plan fails numerically."""
        return self._tried(lambda: self.follow(name, plan, **how))

    def carry_out(self, plan: Callable[["Run"], T]) -> T:
        """The result of a plan, or the best so far where it is interrupted."""
        try:
            return plan(self)
        except Interrupted as stop:
            return stop.best

    # ------------------------------------------------------------------ results

    def best(self, results: Sequence[FitResult]) -> FitResult:
        """The result with the lowest objective, with the evaluations of the whole run.

        Raises:
            NumericalError: where there are none because all failed.
        """
        if not results:
            assert self.account.failure is not None
            raise self.account.failure
        return self._counted(lowest(results))

    # ------------------------------------------------------------- other runs

    def part(self, name: str) -> "Run":
        """A run within this one, whose stages are kept under its name; "" for its own place."""
        return dataclasses.replace(
            self,
            path=(*self.path, name) if name else self.path,
            store=self._part(name),
            account=Account(whole=self.account),
        )

    def with_options(self, **options: Any) -> "Run":
        """This run with other options."""
        return dataclasses.replace(self, options=self.options | options)

    def unrecorded(self) -> "Run":
        """This run where nothing is kept, for what follows an interrupt."""
        return dataclasses.replace(self, store=None)

    def with_table(self, X: Any, y: Any, **options: Any) -> "Run":
        """This run on other rows; options are side data, blocks and powers of these."""
        return dataclasses.replace(self, X=X, y=y, options=self.options | options)

    def subset(self, kept: np.ndarray) -> "Run":
        """This run on some of the rows, with what belongs to them."""
        rows, options = self.options.get("rows"), dict[str, Any]()
        if rows is not None:
            options["rows"] = {name: np.asarray(values)[kept] for name, values in rows.items()}
        for name in ("power", "blocks"):
            each = self.options.get(name)
            if each is not None and np.ndim(each):
                options[name] = np.asarray(each)[kept]
        return self.with_table(self.X[kept], self.y[kept], **options)

    # ------------------------------------------------------------------ inside

    def _part(self, name: str) -> Store | None:
        return self.store.part(name) if self.store is not None and name else self.store

    def _tried(self, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except NumericalError:
            return None

    def _counted(self, result: C) -> C:
        return result.counting(self.account.evaluations)

    def _leave(
        self, reached: Sequence[FitResult], ended: Callable[[FitResult], Any] | None
    ) -> NoReturn:
        best = self._counted(lowest(reached)).stopped()
        raise Interrupted(_made(lambda: best if ended is None else ended(best))) from None


def _made(best: Callable[[], Any]) -> Any:
    """The result that an interrupt leaves; an interrupt alone where none can be made."""
    try:
        return best()
    except NumericalError as error:
        raise KeyboardInterrupt from error


def lowest(results: Sequence[FitResult]) -> FitResult:
    """The result with the lowest objective."""
    return min(results, key=lambda result: result.objective)
