"""Approximations: replacements for likelihood terms, and distributions to evaluate them under.

Two lines of data each. Power EP takes the log power mean of the likelihood under the cavity;
Laplace's method the log density at the mean, which is the site update of power 0 with the variance
left out; local bounds and mean field the expectation of a Gaussian lower bound under the
posterior. Energy, site update, sweeps, sparse GPs, leave-one-out and learning are shared. Of a
method, the approximation alone determines the compiled program.
"""

import abc
import dataclasses
from typing import ClassVar

import equinox as eqx

from cavity.inference.approximations.local_terms import (
    AbstractLocalTerm,
    EvaluationPoint,
    LaplaceTerm,
    LocalBoundTerm,
    MultinomialProbitTerm,
    PowerMeanTerm,
    SoftmaxLaplaceTerm,
)
from cavity.inference.propagation import AbstractPropagation, Nodes
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import (
    HasClassProbabilities,
    HasMultinomialCurvature,
    capability,
)


class AbstractApproximation(eqx.Module):
    """A replacement for likelihood terms, and the distribution under which it is evaluated.

    To implement:
        `evaluation_point`, `convex`, `term(likelihood, exact)` and `couples(likelihood)`.

    Attributes:
        evaluation_point: the distribution that terms are evaluated under.
        convex: whether sites never have negative precisions.
        tied: whether all rows share one site, which an optimiser moves.
        closed_form: whether factors that are Gaussian in the function need no sites.
        hidden: the posterior of the hidden values of a model, by a name that the model takes
            (`AbstractModel.hidden_posteriors`); None for what is usual for it.
        volume: the power of the volume that residuals of exact factors take from the evidence,
            where it is not that of the approximation: 1 for the tighter bound, beside power 0, and
            infinite for DTC, which charges nothing.
    """

    evaluation_point: eqx.AbstractClassVar[EvaluationPoint]
    convex: eqx.AbstractClassVar[bool]
    tied: eqx.AbstractClassVar[bool]
    closed_form: eqx.AbstractVar[bool]
    hidden: eqx.AbstractVar[str | None]
    volume: eqx.AbstractVar[float | None]

    @abc.abstractmethod
    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        """Local term that replaces the likelihood.

        Args:
            likelihood: the likelihood.
            exact: whether rows see their latent value without residual.
        """

    @property
    def while_learning(self) -> "AbstractApproximation":
        """The approximation while parameters are learned."""
        return self

    @abc.abstractmethod
    def couples(self, likelihood: AbstractLikelihood) -> bool:
        """True if the posterior keeps several latent functions of a row dependent."""


class PowerMeans(AbstractApproximation):
    """The log power mean under the cavity of each row: Power EP.

    Attributes:
        coupled: for likelihoods of classes that allow it, whether the functions of classes
            stay dependent.
        hidden: the posterior of hidden values. Of states in time: "chain" or None, where
            neighbours depend on each other, or "factorised". Of the hidden layers of a deep
            model: "factorised", "chain", "conditional", "conditional_local",
            "conditional_nodes", "coupled", "coupled_values" or "nested", as `cavity.PowerEP`
            describes them.
        moved: whether an optimiser moves the states, together with parameters.
    """

    closed_form: bool = eqx.field(static=True, default=True)
    coupled: bool = eqx.field(static=True, default=True)
    hidden: str | None = eqx.field(static=True, default=None)
    moved: bool = eqx.field(static=True, default=False)
    volume: float | None = eqx.field(static=True, default=None)

    evaluation_point: ClassVar[EvaluationPoint] = EvaluationPoint.CAVITY
    convex: ClassVar[bool] = False
    tied: ClassVar[bool] = False

    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        classes = capability(likelihood, HasClassProbabilities)
        if self.couples(likelihood) and classes is not None:
            return MultinomialProbitTerm(classes)
        return PowerMeanTerm(likelihood)

    @property
    def while_learning(self) -> "PowerMeans":
        return dataclasses.replace(self, moved=True)

    def couples(self, likelihood: AbstractLikelihood) -> bool:
        return self.coupled and likelihood.couples


class TiedPowerMeans(AbstractApproximation):
    """The log power mean under the cavity that all rows share: tied Power EP.

    Attributes:
        propagation: how Gaussians go through the layers of a deep model.
        input_sites: whether latent inputs, or states in time, have sites, which sweeps move.
        hidden: what states in time depend on: each other, "chain" or None; nothing,
            "factorised"; or the functions as well, "conditional".
        hidden_sites: whether the hidden values of rows have sites, which an optimiser moves.
        joint: whether the belief about inducing variables of several terms is joint.
    """

    propagation: AbstractPropagation = Nodes()
    input_sites: bool = eqx.field(static=True, default=False)
    hidden_sites: bool = eqx.field(static=True, default=False)
    closed_form: bool = eqx.field(static=True, default=False)
    hidden: str | None = eqx.field(static=True, default=None)
    joint: bool = eqx.field(static=True, default=True)

    volume: ClassVar[float | None] = None
    evaluation_point: ClassVar[EvaluationPoint] = EvaluationPoint.CAVITY
    convex: ClassVar[bool] = False
    tied: ClassVar[bool] = True

    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        return PowerMeanTerm(likelihood)

    def couples(self, likelihood: AbstractLikelihood) -> bool:
        return False


class ModeExpansion(AbstractApproximation):
    """The log density at the mean, and its curvature there: Laplace's method."""

    closed_form: bool = eqx.field(static=True, default=True)

    hidden: ClassVar[str | None] = None
    volume: ClassVar[float | None] = None
    evaluation_point: ClassVar[EvaluationPoint] = EvaluationPoint.MODE
    convex: ClassVar[bool] = False
    tied: ClassVar[bool] = False

    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        classes = capability(likelihood, HasMultinomialCurvature)
        return LaplaceTerm(likelihood, exact) if classes is None else SoftmaxLaplaceTerm(classes)

    def couples(self, likelihood: AbstractLikelihood) -> bool:
        return capability(likelihood, HasMultinomialCurvature) is not None


class ModeSearch(AbstractApproximation):
    """The way to the mode by steps that are uphill wherever the mode is.

    They take the curvature of a Gaussian lower bound where there is one, which makes them those
    of the EM algorithm; elsewhere the likelihood's own where that is negative.

    References:
        Jylanki (2013), S60 and S61.
    """

    closed_form: bool = eqx.field(static=True, default=True)

    hidden: ClassVar[str | None] = None
    volume: ClassVar[float | None] = None
    evaluation_point: ClassVar[EvaluationPoint] = EvaluationPoint.MODE
    convex: ClassVar[bool] = True
    tied: ClassVar[bool] = False

    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        if likelihood.has_bound:
            return LocalBoundTerm(likelihood)
        return LaplaceTerm(likelihood, exact, floored=True)

    def couples(self, likelihood: AbstractLikelihood) -> bool:
        return False


class GaussianBounds(AbstractApproximation):
    """The expectation of a Gaussian lower bound: local bounds, and mean field.

    Attributes:
        variational: whether the residual counts as variance of the variable, as in mean field.
    """

    closed_form: bool = eqx.field(static=True, default=True)
    variational: bool = eqx.field(static=True, default=False)

    hidden: ClassVar[str | None] = None
    volume: ClassVar[float | None] = None
    evaluation_point: ClassVar[EvaluationPoint] = EvaluationPoint.POSTERIOR
    convex: ClassVar[bool] = True
    tied: ClassVar[bool] = False

    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        return LocalBoundTerm(likelihood, variational=self.variational)

    def couples(self, likelihood: AbstractLikelihood) -> bool:
        return False
