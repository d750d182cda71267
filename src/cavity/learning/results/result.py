"""Results of inference and of fits."""

import dataclasses
import html
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from cavity.inference.solvers.convergence import ConvergenceReport
from cavity.learning.data.scales import Tallies
from cavity.learning.data.training_data import Data
from cavity.learning.mcmc.chains import Chains
from cavity.learning.optimisers.lbfgs import INTERRUPTED
from cavity.learning.results.at_bounds import AtBound
from cavity.learning.results.row_diagnostics import RowDiagnostics
from cavity.learning.results.unseen_periods import UnseenPeriod
from cavity.models.base import AbstractModel
from cavity.parameters import bijections
from cavity.parameters.priors import flat, learned_with
from cavity.parameters.table import html_table, table

# What `AbstractModel.posterior` returns: of a Gaussian process an `AbstractPosterior`, of other
# variables anything. Checkers of types do not know which.
Posterior = Any


P = TypeVar("P")
R = TypeVar("R", bound="Inference")
Model = TypeVar("Model", bound=AbstractModel)

# Ends of runs that are further apart than this are said to be.
NATS_APART = 5.0


@dataclasses.dataclass(frozen=True)
class Inference:
    """The result of inference at fixed parameters.

    Attributes:
        posterior: the posterior process.
        log_evidence: approximate log marginal likelihood, nats, summed over the data; None for
            draws that were not asked for it.
        converged: whether the sites reached their tolerance.
        message: why it ended, in a sentence.
        jitter: share of the mean prior variance that was added to the covariance that had to be
            factorised; 0.0 for a full GP that needed none.
        sites: how the sites were found, and whether they converged.
        found: the sites themselves; None where every factor is exact; of tied factors the beliefs.
        left_out: data and problem for `leave_one_out` and `site_precisions`; None where these are
            not defined.
        chains: the draws of `MCMC`, None for other methods.
        streamed: whether the rows came in batches.
        n_rows: rows that it was inferred from.
        blocked: the rows, where those of a block share a site; None elsewhere.
        tallies: what was counted of inputs and outputs, from which scales and bounds of a stream
            follow; None where it is not known.
    """

    posterior: Posterior
    log_evidence: Any  # a float, or None of draws
    converged: bool
    message: str
    jitter: float
    sites: ConvergenceReport
    found: Any
    left_out: RowDiagnostics | None = dataclasses.field(repr=False)
    chains: Chains | Any = dataclasses.field(default=None, kw_only=True)
    streamed: bool = dataclasses.field(default=False, kw_only=True)
    n_rows: int = dataclasses.field(default=0, kw_only=True)
    blocked: Data | None = dataclasses.field(default=None, repr=False, kw_only=True)
    tallies: Tallies | None = dataclasses.field(default=None, repr=False, kw_only=True)

    @property
    def _fitted(self) -> AbstractModel:
        """The model at the parameters that it was inferred or learned at."""
        return self.posterior.model

    @property
    def _rows_so_far(self) -> int:
        """Rows that it has learned from, those included that are no longer in memory."""
        return self.n_rows

    def _as_fit(self, tallies: Tallies | None) -> "FitResult":
        """This result as a fit, with what was counted of all rows."""
        model, priors = self._fitted, self._densities(self._fitted, tallies)
        found = dataclasses.replace(self, tallies=tallies)
        return unlearned(found, model, self._domains(model), priors)

    def _domains(self, model: Model) -> Model:
        """Bijections of a model that goes on from this result."""
        return bijections(model)

    def _densities(self, model: Model, tallies: Tallies | None) -> Model:
        """Priors of a model that goes on from this result.

        Args:
            model: the model at hand.
            tallies: what was counted of all rows; None where that is not known.
        """
        return flat(model)

    @property
    def data(self) -> Data | None:
        """The rows that it was inferred from; None where they came in batches, and of draws."""
        return self.blocked if self.left_out is None else self.left_out.data

    def leave_one_out(self) -> np.ndarray:
        r"""Log predictive density of every output given all others, (N,) or (N, P), in nats.

        From the cavities, at the parameters of this result: none are learned again. Exact for
        the full GP with Gaussian noise. NaN for missing outputs, and where a site is more certain
        than the posterior, so that the others leave no proper one. Too favourable for local bounds
        and mean field, whose sites are not what a row says.

        One more pass over the rows when first asked for; the result holds on to its data for it.

        Raises:
            ValueError: if rows share sites (blocks), for draws, which have no sites, and where
                the rows came in batches.

        References:
            Jylanki (2013), S24.
        """
        return self._rows().densities

    def site_precisions(self) -> np.ndarray:
        r"""The precision of every row's site, which measures its influence on the function.

        A site is the Gaussian factor $\exp(\nu f - \tfrac12 \tau f^2)$ that stands for the row in
        the posterior, in inverse squared units of y where y is the function plus noise. With
        $\tau$ near zero the row has almost no influence; a negative one widens the posterior, as
        outliers do under noise with heavy tails. With Gaussian noise it is one over the noise
        variance and the row's share of what inducing variables leave unexplained. Of a tied site
        it is what matches the row at the posterior.

        Returns:
            (N,) or (N, P) as y has it; with several latent functions (N, L), one column for each.
            NaN for missing outputs.

        Raises:
            ValueError: if rows share sites (blocks), for draws, which have none, where the rows
                came in batches, and for classes that stay dependent.
        """
        found = self._rows().precisions
        if found is None:
            raise ValueError(
                "the sites of dependent classes, of latent inputs and of deep models are not on "
                "one function each, so they have no precisions; those of PowerEP(coupled=False) "
                "have"
            )
        return found

    def _rows(self) -> RowDiagnostics:
        """Diagnostics of single rows.

        Raises:
            ValueError: where rows cannot be told apart, or are not there.
        """
        if self.chains is not None:
            raise ValueError("single rows need sites, and draws have none: use PowerEP()")
        if self.streamed:
            raise ValueError(
                "this looks at every row again, and batches are not kept: give some rows as X "
                "and y to cavity.infer with the fitted model"
            )
        if self.left_out is None:
            raise ValueError("rows of a block share a site, so single rows cannot be left out")
        return self.left_out

    def saying(self: R, *sentences: str | None) -> R:
        """This result with sentences appended to its message; None is skipped."""
        said = "; ".join([self.message, *filter(None, sentences)])
        return dataclasses.replace(self, message=said)

    def judged(self: R, message: str, *, converged: bool) -> R:
        """This result with another verdict on whether it converged, and why."""
        return dataclasses.replace(self, message=message, converged=converged)

    def __str__(self) -> str:
        return described(self, table(self.posterior.model))

    def _repr_html_(self) -> str:
        return in_html(described(self, ""), html_table(self.posterior.model))


def fields_as(result: Inference, kind: type[Inference]) -> dict[str, Any]:
    """The fields that a result has as one of a kind."""
    known = vars(result)
    return {field.name: known[field.name] for field in dataclasses.fields(kind)}


def posterior_of(given: P | Inference) -> P | Posterior:
    """The posterior, given by itself or with the result that it is of."""
    return given.posterior if isinstance(given, Inference) else given


def check_whole(result: Inference, what: str) -> None:
    """Refuses a result that has learned from rows that are gone, which are not there to ask.

    Args:
        result: any.
        what: is looked at by all rows.

    Raises:
        ValueError: where rows are gone.
    """
    data = result.data
    if data is not None and data.past is not None:
        raise ValueError(
            f"this result is of cavity.update, and {what} would be judged by its last rows alone: "
            "those from before are gone, and what they said is kept for predictions and updates; "
            "give a model and rows in the place of the result, as in "
            "cavity.infer(result.posterior.model, X, y)"
        )


def in_html(text: str, parameters: str) -> str:
    """Lines of text above a table of parameters, in HTML."""
    said = "<br>".join(map(html.escape, text.strip().splitlines()))
    return f"<p>{said}</p>{parameters}"


def described(result: Inference, parameters: str) -> str:
    """A result in a line, above the table of its parameters."""
    status = "converged" if result.converged else "not converged"
    value = result.log_evidence
    known = "no log evidence" if value is None else f"log evidence {value:.4f} nats"
    return f"{known}, {status}: {result.message}\n{parameters}"


def starts_apart(values: Sequence[float], when: str = "ended") -> str | None:
    """Warning if several starts did not reach about the same objective; None if they did.

    Args:
        values: the objectives that they reached, in nats.
        when: what they had done by then.
    """
    if not values or max(values) - min(values) <= NATS_APART:
        return None
    gap = max(values) - min(values)
    near = sum(value - min(values) <= NATS_APART for value in values)
    return (
        f"{len(values)} starts {when} up to {gap:.3g} nats apart, {near} of them within "
        f"{NATS_APART:g} nats of the best, which is kept"
    )


@dataclasses.dataclass(frozen=True)
class FitResult(Inference):
    """A fitted model: an `Inference`, and how its parameters were learned.

    Attributes:
        model: the model with its learned parameters; of draws with their medians.
        objective: what was minimised, the negative log evidence minus log priors, in nats; None
            for draws.
        history: the objective after each iteration of the best run.
        n_iterations: iterations of the best run, or of each chain.
        n_evaluations: evaluations of the objective in all runs, or of gradients in all chains.
        interrupted: whether learning was interrupted from the keyboard.
        bijections: the domains the parameters were learned in.
        priors: their priors.
        ends: the objectives at which the runs of `n_restarts` ended, the first start's first; none
            without. `message` says where they are more than 5 nats apart.
        trials: the objectives of several starts after a few iterations, of which the best went on;
            none for a single start.
        unseen_periods: learned periods that are longer than the data, or below two of their steps
            so that rows cannot tell them from longer ones; `message` says so.
        at_bounds: learned parameters that ended at a bound of their search, such as a noise that
            the data do not show; `message` says so.
        undetermined: dotted names of parameters of which the data say nothing, which stay where
            they started: all that are learned, where the outputs do not vary; `message` says so.
    """

    model: Any  # an AbstractModel, whose parts depend on its class
    objective: Any  # a float, or None
    history: tuple[float, ...]
    n_iterations: int
    n_evaluations: int
    interrupted: bool
    bijections: Any
    priors: Any
    ends: tuple[float, ...] = dataclasses.field(default=(), kw_only=True)
    trials: tuple[float, ...] = dataclasses.field(default=(), kw_only=True)
    unseen_periods: tuple[UnseenPeriod, ...] = dataclasses.field(default=(), kw_only=True)
    at_bounds: tuple[AtBound, ...] = dataclasses.field(default=(), kw_only=True)
    undetermined: tuple[str, ...] = dataclasses.field(default=(), kw_only=True)

    @property
    def _fitted(self) -> AbstractModel:
        return self.model

    def _as_fit(self, tallies: Tallies | None) -> "FitResult":
        return dataclasses.replace(self, tallies=tallies)

    def _domains(self, model: Model) -> Model:
        return self.bijections

    def _densities(self, model: Model, tallies: Tallies | None) -> Model:
        return self.priors

    def counting(self, evaluations: int) -> "FitResult":
        """This result of a longer run, with the evaluations of all of that."""
        return dataclasses.replace(self, n_evaluations=evaluations)

    def going_on_from(self, before: "FitResult") -> "FitResult":
        """This result with the history of the one that it went on from in front of its own."""
        return dataclasses.replace(
            self,
            history=before.history + self.history,
            n_iterations=before.n_iterations + self.n_iterations,
        )

    def stopped(self, message: str | None = None) -> "FitResult":
        """This result as the best of a run that was interrupted from the keyboard.

        Args:
            message: in the place of the usual one; one that was interrupted itself keeps its own.
        """
        said = self.message if self.interrupted else INTERRUPTED
        said = said if message is None else message
        return dataclasses.replace(self, converged=False, interrupted=True, message=said)

    def with_starts(self, trials: Sequence[float] = (), ends: Sequence[float] = ()) -> "FitResult":
        """This result of the best of several starts, with the objectives that each came to."""
        known = {"trials": tuple(map(float, trials)), "ends": tuple(map(float, ends))}
        return dataclasses.replace(self, **{name: each for name, each in known.items() if each})

    def with_search_of(self, other: "FitResult") -> "FitResult":
        """This result with the history of another search, of which it is the better end."""
        return dataclasses.replace(self, history=other.history, n_iterations=other.n_iterations)

    def with_inference(self, found: Inference, model: AbstractModel | None = None) -> "FitResult":
        """This fit with a posterior that was inferred afterwards.

        Args:
            found: the inference.
            model: where it is of another structure than what was learned.
        """
        shared = fields_as(found, Inference)
        shared["converged"] = self.converged and found.converged
        shared["message"] = self.message if found.converged else found.message
        if model is not None:
            shared |= {"model": model, "bijections": bijections(model), "priors": flat(model)}
        return dataclasses.replace(self, **shared, objective=-found.log_evidence)

    def __str__(self) -> str:
        parameters = table(self.model, self.bijections, self.priors)
        apart = starts_apart(self.trials, "were, after a few iterations,")
        return described(self, parameters if apart is None else f"{apart}\n{parameters}")

    def _repr_html_(self) -> str:
        apart = starts_apart(self.trials, "were, after a few iterations,")
        parameters = html_table(self.model, self.bijections, self.priors)
        return in_html(described(self, apart or ""), parameters)


def unlearned(
    found: Inference, model: AbstractModel, maps: AbstractModel, priors: AbstractModel
) -> FitResult:
    """Inference at fixed parameters as a fit, with bijections and priors to go on with."""
    return FitResult(
        **fields_as(found, Inference),
        model=model,
        objective=-found.log_evidence - float(learned_with(model, priors)),
        history=(),
        n_iterations=0,
        n_evaluations=0,
        interrupted=False,
        bijections=maps,
        priors=priors,
    )
