"""Gaussian process classification with scikit-learn's interface."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from cavity.estimators.asked_types import ClassWeightAsked, LikelihoodAsked
from cavity.estimators.base import AbstractModelSettings, AbstractSearchSettings, given
from cavity.estimators.choices import KeepsChoices
from cavity.estimators.class_form import with_affordable_form
from cavity.estimators.classification import AbstractClassifier
from cavity.estimators.learning import Course, Learned, Problem, learn_gp
from cavity.estimators.registry import CLASSIFICATION, build_method
from cavity.estimators.row_weights import class_weights, with_weights
from cavity.estimators.settings import Settings
from cavity.families.base import Family
from cavity.families.gp import GP
from cavity.learning.double_precision import in_double
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.mcmc import MCMC


@dataclasses.dataclass(eq=False, repr=False)
class GPClassifier(
    KeepsChoices, AbstractClassifier, AbstractSearchSettings, AbstractModelSettings
):
    r"""Gaussian process classification, full or sparse, by Power EP.

    Labels may be anything that can be told apart and sorted: text, truth values, numbers. Two
    classes have one latent function, more have one each, with a kernel in common. All work is done
    in float64 and JAX's own settings are left as they are; lengthscales are in the units of the
    inputs.

    Args:
        kernel: text such as "rbf", "rbf + linear" or "matern52 * periodic[0]", with one
            lengthscale per column and starting values from the data; or a kernel object, whose
            values are taken as they are.
        likelihood: "bernoulli" or "probit" for a probit link, "logit" for a logit link; of more
            than two classes these are "multinomial_probit" and "softmax", and there is
            "robust_max"; or a likelihood object.
        method: "power_ep"; "laplace", Laplace's method; "local_bound", variational, for "logit";
            "mean_field" for many classes; "tied", all rows with one site, for long tables, on
            inducing points; "mcmc", draws of parameters and functions, for the full GP on small
            tables. Or a method object such as `cavity.PowerEP(step=0.5)`. With "power_ep" the
            functions of more than two classes are coupled in the posterior; where that would take
            more than about three minutes of processor time, by the numbers of rows, classes and
            inducing points, they are independent, at power 1, which `choice_` says.
            `cavity.PowerEP(coupled=True)` couples them always.
        power: in [0, 1]. 0 is variational inference, 1 is EP; it matters in a full GP too. Or
            "auto": that of 1, 0.5 and 0 whose posterior gives labels that it has not seen the
            largest probability.
        n_inducing: number of inducing points; "auto" is the full GP up to 1,000 rows and 200
            points beyond, or where the method needs them; of two classes "enough" is the full GP
            up to 1,000 rows and beyond as many points as are enough by `verdict_`; None is the
            full GP, up to 20,000 rows; at or above the number of distinct rows all of them are
            used.
        inducing: how the points start: "greedy" (largest conditional variance), "kmeans",
            "random", or the points themselves, (M, D), or an object of `cavity.inducing`. With
            `cavity.initialisation.Inducing` also what stands at the points, whether they move in
            learning, and how many there are at the most with "enough".
        mean: prior mean of the latent function: "constant", "zero", "linear" (its weights are
            integrated out in a full GP), or a mean object.
        standardise: start from the location and spread of the data; otherwise from unit values.
        fixed: parameters that are not learned, by dotted name; see `GPRegressor`.
        bounds: of parameters, by dotted name; see `GPRegressor`.
        priors: of the parameters of a kernel that is named: "weak" or "none", or a dict of priors
            by dotted name; see `GPRegressor`.
        n_restarts: further runs from perturbed starting values; the best is kept.
        max_iterations: iterations of one run at the most; 0 keeps the starting values.
        tolerance: a run ends when the objective falls by less than this many nats per iteration;
            with more than 500 outputs the number grows in proportion to them, and is eight times
            that where, with more than 500 outputs, inducing inputs are learned and sites are not
            tied (any method but "tied").
        jitter: share of the mean prior variance added to the inducing covariance.
        random_state: seed or generator for everything random; an `MCMC` object has its own seed.
        class_weight: weights of rows by label, beside `sample_weight`: a dict, or "balanced", by
            which all classes have the same weight together; None for 1.
        verbose: 1 to show the progress of a fit, 0 for nothing; the fit is the same.

    Attributes:
        classes_: the labels, sorted; columns of probabilities are in this order.
        log_evidence_: approximate log marginal likelihood, nats; None for the method "mcmc".
        kernel_: the fitted kernel.
        likelihood_: the fitted likelihood.
        mean_: the fitted prior mean; of a linear one what the data say about its weights.
        inducing_: the fitted inducing variables; None for a full GP.
        converged_: whether learning and inference converged.
        message_: why learning ended, and `choice_`.
        unseen_periods_: learned periods that the data do not show, because they are longer than
            their column or below two of its steps; see `FitResult`.
        at_bounds_: learned parameters that ended at a bound of their search; see `FitResult`.
        undetermined_: dotted names of parameters of which the data say nothing, because the
            outputs do not vary; they stay where they started.
        choice_: where classes are independent because coupled ones take long, a sentence of it.
        method_: the method that was used.
        power_: the power that was used.
        power_table_: of a power that was chosen, a `PowerTrial` for each that was compared:
            `power`, `log_evidence`, `log_density` of labels left out, which were `left_out`, and
            whether it was `chosen`; otherwise None.
        n_inducing_: the number of inducing points; None for a full GP.
        bracket_: as of `GPRegressor`; None where the likelihood is not Gaussian.
        verdict_: with n_inducing="enough" whether the points are enough, in a sentence.
        n_iter_: iterations.
        history_: what learning minimised after each iteration, in nats, of data in their units:
            the negative log evidence less log priors.
        n_evaluations_: evaluations of the objective.
        jitter_: the jitter that was used.
        sites_: how the sites came about.
        interrupted_: whether fit was interrupted from the keyboard.
        posterior_: the posterior process, its arrays numpy float64.
        chains_: the draws of the method "mcmc" with their diagnostics, None for other methods.
        n_features_in_: number of input columns, those of each category included.
        feature_names_in_: their names, if X had names; `colour=red` of a category.
        encoder_: as of `GPRegressor`.

    References:
        Bui (2017), S24; Rasmussen and Williams (2006), chapter 3.
    """

    likelihood: LikelihoodAsked = "bernoulli"
    class_weight: ClassWeightAsked = None

    family: ClassVar[Family] = GP
    remembered: ClassVar[Mapping[str, Any]] = {
        **KeepsChoices.remembered,
        "choice_": str,
        "method_": AbstractMethod | MCMC,
    }

    @in_double
    def fit(
        self,
        X,
        y,
        callback=None,
        checkpoint=None,
        batches=None,
        sample_weight=None,
        engine=None,
    ):
        """Learns the parameters and infers the posterior.

        Args:
            X: inputs, (N, D); an array of numbers, or a data frame, whose columns of text and
                categories become a 0/1 column per category; dates are days since 1970-01-01.
            y: labels, (N,), of two classes or more.
            callback: called with a `Progress` after every iteration.
            batches: all rows, as `cavity.fitting.Batches` or `cavity.Parts` of pairs of inputs
                and of places of labels among the sorted ones (0, 1, ...), for tables larger than
                memory. X and y are a sample of their rows then, with every label in it, from
                which starting values and inducing points come; "auto" is 200 of these.
            checkpoint: a `cavity.fitting.Checkpoint`, where the fit keeps what it has done and
                goes on from what it did before; `random_state` must be a number.
            sample_weight: weight of each row, (N,): one of weight w counts as w rows that are
                alike, one of weight 0 not at all. Batches have theirs among the side data of
                their rows, "weight".
            engine: what works on the parts of the batches, such as `cavity.engines.Dask(client)`;
                None for this process. The results have the same bits.

        Returns:
            The estimator itself. Interrupting from the keyboard keeps the best found so far.

        Raises:
            ValueError: for unusable data or settings, and for an engine without batches.
            cavity.engines.EngineError: from an engine that cannot go on.
        """
        self._check_settings()
        course = Course(callback, checkpoint).over(batches, engine)
        self._fit_labels(X, y, sample_weight, course)
        if self.choice_:
            self.message_ = f"{self.message_}; {self.choice_}"
        return self

    @in_double
    def partial_fit(self, X, y, classes=None, half_life=None, sample_weight=None):
        """Learns from a first batch of rows, or goes on with a further one.

        Earlier rows are not needed any more: see `cavity.update`. Inducing points are added until
        the rows are explained, up to `n_inducing` ("auto" is 200).

        Args:
            X: inputs, (N, D).
            y: labels, (N,).
            classes: all labels that there will be, in the first call; None for those of the first
                batch.
            half_life: rows after which those from before count half; None for never.
            sample_weight: weight of each row, (N,), as in `fit`.

        Returns:
            The estimator itself; `log_evidence_` and `n_rows_` are of all rows so far.

        Raises:
            ValueError: for unusable data, labels that are not among the classes, other classes
                than in the first call, and for a full GP and methods other than "ep".
        """
        self._check_settings()
        if "posterior_" not in vars(self):
            known = None if classes is None else np.asarray(classes)
            self._fit_labels(X, y, sample_weight, Course(streaming=True), known)
            return self
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes={list(classes)} are not those of the first call, {list(self.classes_)}"
            )
        weight = class_weights(self.class_weight, y, sample_weight, X)
        X, y, side = with_weights(X, y, given(weight=weight))
        X = self._inputs(X)
        labels = self._labels(y, X).astype(float)
        settings = self._settings(CLASSIFICATION, len(self.classes_))
        self._go_on(settings, X, labels, side, half_life)
        return self

    @in_double
    def leave_one_out(self, X, y, sample_weight=None):
        """Log probability of each row's label given the other rows, in nats.

        Inference is done once more on these rows, with the fitted parameters: none are learned
        again. On the rows of the fit it approximates the probability after a refit without each
        row.

        Args:
            X: inputs, (n, D).
            y: labels, (n,), of the classes of the fit.
            sample_weight: weight of each row, (n,), as in `fit`; a row is left out whole. Those
                of classes are not counted again.

        Returns:
            (n,), NaN for rows of weight 0, and where the others leave no proper posterior.

        Raises:
            ValueError: for unusable data, labels that were not there in fitting, and for fits by
                draws.
        """
        X = self._inputs(X)
        labels = self._labels(y, X)
        side = given(weight=sample_weight)
        return self._left_out(X, labels[:, None].astype(float), side)[:, 0]

    def _learned(self, problem: Problem) -> Learned:
        settings, self.choice_ = problem.settings, ""
        if problem.course.batches is None:
            settings, self.choice_ = with_affordable_form(settings, *problem.X.shape)
        self.method_ = build_method(settings.method, settings.seed)
        return learn_gp(dataclasses.replace(problem, settings=settings))

    def _settings_used(self) -> Settings:
        return dataclasses.replace(super()._settings_used(), method=self.method_)
