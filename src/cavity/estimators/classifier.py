"""Gaussian process classification with scikit-learn's interface."""

import dataclasses

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from cavity.estimators.base import AbstractEstimator, AbstractModelSettings
from cavity.estimators.decisions import align_costs
from cavity.estimators.frames import dates_as_days
from cavity.estimators.predictions import bayes_decision, class_log_probabilities
from cavity.estimators.registry import CLASSIFICATION
from cavity.estimators.settings import check
from cavity.likelihoods.capabilities import OrderedLabels, capability
from cavity.numerics.text import plural

# Classes that a message names one by one.
NAMED = 10


@dataclasses.dataclass(eq=False, repr=False)
class GPClassifier(ClassifierMixin, AbstractEstimator, AbstractModelSettings):
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
            tables. Or a method object such as `cavity.PowerEP(step=0.5)`.
        power: in [0, 1]. 0 is variational inference, 1 is EP; it matters in a full GP too.
        n_inducing: number of inducing points; "auto" is the full GP up to 1,000 rows and 200
            points beyond, or where the method needs them; None is the full GP, up to 20,000 rows;
            at or above the number of distinct rows all of them are used.
        inducing: how the points start: "greedy" (largest conditional variance), "kmeans",
            "random", or the points themselves, (M, D).
        learn_inducing: whether the points move in learning.
        mean: prior mean of the latent function: "constant", "zero", "linear", or a mean object.
        standardise: start from the location and spread of the data; otherwise from unit values.
        n_restarts: further runs from perturbed starting values; the best is kept.
        max_iterations: iterations of one run at the most; 0 keeps the starting values.
        tolerance: a run ends when the objective falls by less than this many nats per iteration;
            with more than 500 outputs the number grows in proportion to them, and is eight times
            that where, with more than 500 outputs, inducing inputs are learned and sites are not
            tied (any method but "tied").
        jitter: share of the mean prior variance added to the inducing covariance.
        random_state: seed or generator for everything random; an `MCMC` object has its own seed.

    Attributes:
        classes_: the labels, sorted; columns of probabilities are in this order.
        log_evidence_: approximate log marginal likelihood, nats; None for the method "mcmc".
        kernel_: the fitted kernel.
        likelihood_: the fitted likelihood.
        mean_: the fitted prior mean.
        inducing_: the fitted inducing variables; None for a full GP.
        converged_: whether learning and inference converged.
        message_: why learning ended.
        n_iter_: iterations.
        n_evaluations_: evaluations of the objective.
        jitter_: the jitter that was used.
        sites_: how the sites came about.
        interrupted_: whether fit was interrupted from the keyboard.
        posterior_: the posterior process, its arrays numpy float64.
        chains_: the draws of the method "mcmc" with their diagnostics, None for other methods.
        n_features_in_: number of input columns.
        feature_names_in_: their names, if X had names.

    References:
        Bui (2017), S24; Rasmussen and Williams (2006), chapter 3.
    """

    likelihood: object = "bernoulli"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags

    def fit(self, X, y, callback=None, checkpoint=None, batches=None):
        """Learns the parameters and infers the posterior.

        Args:
            X: inputs, (N, D); arrays or data frames of numbers; dates are days since 1970-01-01.
            y: labels, (N,), of two classes or more.
            callback: called with a `Progress` after every iteration.
            batches: all rows, as `cavity.Batches` of pairs of inputs and of places of
                labels among the sorted ones (0, 1, ...), for tables larger than memory. X and y
                are a sample of their rows then, with every label in it, from which starting
                values and inducing points come; "auto" is 200 of these.
            checkpoint: a `cavity.Checkpoint`, where the fit keeps what it has done and goes on
                from what it did before; `random_state` must be a number.

        Returns:
            The estimator itself. Interrupting from the keyboard keeps the best found so far.

        Raises:
            ValueError: for unusable data or settings.
        """
        X = dates_as_days(X)
        X, y = map(np.asarray, validate_data(self, X, y, dtype=np.float64, order="C"))
        classes, labels = _sorted(y)
        check_classification_targets(y)
        _check_classes(classes)
        if capability(self.likelihood, OrderedLabels) is not None:
            _check_order(classes)
        settings = self._settings(CLASSIFICATION, len(classes))
        check(settings, X, labels, {})
        self._learn(settings, X, labels, np.ones(1), {}, callback, checkpoint, batches)
        self.classes_ = classes
        return self

    def predict(self, X, costs=None):
        """The likeliest class of each row, or the one with the least expected cost.

        Args:
            X: inputs, (n, D).
            costs: cost of predicting class j where class i is true, (C, C): an array in the
                order of `classes_`; or a data frame in any order, whose columns are named by
                the class predicted, and whose index, of a polars frame its first column, holds
                the true ones. None for the likeliest class.

        Returns:
            Labels, (n,).

        Raises:
            ValueError: for unusable inputs or costs, and for frames of costs whose rows or
                columns are not the classes, each of them once.
        """
        found = self.predict_log_proba(X)
        return self.classes_[bayes_decision(found, align_costs(costs, self.classes_.tolist()))]

    def predict_proba(self, X):
        """The probability of each class, the uncertainty of the function included.

        Args:
            X: inputs, (n, D).

        Returns:
            (n, C), columns in the order of `classes_`; rows sum to one.

        Raises:
            ValueError: for unusable inputs.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X):
        """The log probability of each class; accurate also where a probability rounds to 0 or 1.

        Args:
            X: inputs, (n, D).

        Returns:
            (n, C), columns in the order of `classes_`.

        Raises:
            ValueError: for unusable inputs.
        """
        X = self._inputs(X)
        return class_log_probabilities(self.posterior_, X, len(self.classes_))

    def decision_function(self, X):
        """Log odds of the second of two classes; of more the log probabilities.

        Args:
            X: inputs, (n, D).

        Returns:
            (n,), above zero where the second class is the likelier one; or (n, C).

        Raises:
            ValueError: for unusable inputs.
        """
        found = self.predict_log_proba(X)
        if found.shape[1] > 2:
            return found
        return found[:, 1] - found[:, 0]

    def log_predictive_density(self, X, y):
        """Log predictive probability of each row's label, in nats.

        Args:
            X: inputs, (n, D).
            y: labels, (n,), of the classes of the fit.

        Returns:
            (n,).

        Raises:
            ValueError: for unusable inputs, and labels that were not there in fitting.
        """
        found = self.predict_log_proba(X)
        labels = self._labels(y, found)
        return found[np.arange(len(found)), labels]

    def leave_one_out(self, X, y):
        """Log probability of each row's label given the other rows, in nats.

        Inference is done once more on these rows, with the fitted parameters: none are learned
        again. Given the rows of the fit, it says what a refit without each would say of it.

        Args:
            X: inputs, (n, D).
            y: labels, (n,), of the classes of the fit.

        Returns:
            (n,), NaN where the others leave no proper posterior.

        Raises:
            ValueError: for unusable data, labels that were not there in fitting, and for fits by
                draws.
        """
        X = self._inputs(X)
        labels = self._labels(y, X)
        return self._left_out(X, labels[:, None].astype(float), {})[:, 0]

    def score(self, X, y, sample_weight=None):
        """The share of rows whose likeliest class is theirs.

        Args:
            X: inputs, (n, D).
            y: labels, (n,), of the classes of the fit.
            sample_weight: weight of each row, (n,).

        Returns:
            The accuracy, between 0 and 1.

        Raises:
            ValueError: for unusable inputs, and labels that were not there in fitting.
        """
        predicted = self.predict(X)
        self._labels(y, predicted)
        return accuracy_score(y, predicted, sample_weight=sample_weight)

    def _labels(self, y, like) -> np.ndarray:
        """The places of labels among the classes."""
        given = np.asarray(column_or_1d(y))
        check_consistent_length(like, given)
        known = {label: i for i, label in enumerate(self.classes_.tolist())}
        strange = sorted({repr(label) for label in given.tolist() if label not in known})
        if strange:
            were = "was" if len(strange) == 1 else "were"
            raise ValueError(
                f"y has {plural(len(strange), 'label')} that {were} not there in fitting "
                f"({', '.join(strange[:NAMED])}); the classes are {_named(self.classes_)}"
            )
        return np.array([known[label] for label in given.tolist()], dtype=int)


def _sorted(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes, sorted, and the place of each row's among them, as a float."""
    try:
        classes, labels = np.unique(y, return_inverse=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y.tolist()})
        raise ValueError(
            f"y has labels of different kinds ({', '.join(kinds)}) that cannot be sorted; make "
            "them all text, or all numbers"
        ) from None
    return classes, labels.astype(np.float64)


def _check_classes(classes: np.ndarray) -> None:
    """Refuses a single class."""
    if len(classes) == 1:
        raise ValueError(
            f"y has one class only, {_named(classes)}: classification needs rows of two classes"
        )


def _check_order(classes: np.ndarray) -> None:
    """Refuses text where classes are ordered, because its order is the alphabet's."""
    if any(isinstance(label, str) for label in classes.tolist()):
        raise ValueError(
            f"ordered classes have the order of their labels, and text has that of the alphabet "
            f"({_named(classes)}); give numbers, the lowest class first"
        )


def _named(classes: np.ndarray) -> str:
    shown = ", ".join(map(repr, classes[:NAMED].tolist()))
    return shown + (", ..." if len(classes) > NAMED else "")
