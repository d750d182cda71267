"""Base of classifiers: labels as numbers, and predictions of them."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from cavity.estimators.base import AbstractPredictor, given
from cavity.estimators.by_rows import ClassLogProbabilities, Rows, row_by_row
from cavity.estimators.decisions import align_costs
from cavity.estimators.going_on import for_streams
from cavity.estimators.learning import Course, Problem
from cavity.estimators.predictions import bayes_decision
from cavity.estimators.registry import CLASSIFICATION
from cavity.estimators.row_weights import checked_weights, class_weights, with_weights
from cavity.estimators.settings import check
from cavity.families.base import loaded
from cavity.learning.double_precision import in_double
from cavity.likelihoods.capabilities import OrderedLabels, capability
from cavity.numerics.text import plural

# Classes that a message names one by one.
NAMED = 10


class AbstractClassifier(ClassifierMixin, AbstractPredictor):
    """A classification of two classes or more.

    Attributes:
        likelihood: probability of a label, as it was asked for.
        class_weight: weights of the labels, as they were asked for.
        classes_: the labels, sorted.
    """

    likelihood: object
    class_weight: object = None
    classes_: np.ndarray

    @property
    def _class_labels(self) -> np.ndarray | None:
        """The labels, sorted."""
        return self.classes_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags

    @in_double
    def fit(self, X, y, callback=None, checkpoint=None, sample_weight=None):
        """Learns the parameters and infers the posterior.

        Args:
            X: inputs, (N, D); an array of numbers, or a data frame, whose columns of text and
                categories become a 0/1 column per category; dates are days since 1970-01-01.
            y: labels, (N,), of two classes or more; of a network of two.
            callback: called with a `Progress` after every iteration and step.
            checkpoint: a `cavity.fitting.Checkpoint`, where the fit keeps what it has done and
                goes on from what it did before; `random_state` must be a number.
            sample_weight: weight of each row, (N,): one of weight w counts as w rows that are
                alike, one of weight 0 not at all.

        Returns:
            The estimator itself. Interrupting from the keyboard keeps the best found so far.

        Raises:
            ValueError: for unusable data or settings.
        """
        self._check_settings()
        self._fit_labels(X, y, sample_weight, Course(callback, checkpoint))
        return self

    def _fit_labels(
        self, X, y, sample_weight, course: Course, known: np.ndarray | None = None
    ) -> None:
        """Learns from labels (N,), of `known` classes where these are given."""
        weight = class_weights(self.class_weight, y, sample_weight, X)
        X, y, side = with_weights(X, y, given(weight=weight))
        originals = (X, y)
        X = self._fit_inputs(X)
        X, y = map(np.asarray, validate_data(self, X, y, dtype=np.float64, order="C"))
        classes, labels = _sorted(y) if known is None else _among(y, known)
        check_classification_targets(y)
        _check_classes(classes)
        if capability(self.likelihood, OrderedLabels) is not None:
            _check_order(classes)
        settings = self._settings(CLASSIFICATION, len(classes))
        settings = for_streams(settings, len(X)) if course.streaming else settings
        check(settings, X, labels, side)
        problem = Problem(settings, X, labels, side, course)
        self._note(problem, originals)
        self._learn(problem, np.ones(1))
        self.classes_ = classes

    @in_double
    def predict(self, X, costs=None, engine=None):
        """The likeliest class of each row, or the one with the least expected cost.

        Args:
            X: inputs, (n, D).
            costs: cost of predicting class j where class i is true, (C, C): an array in the
                order of `classes_`; or a data frame in any order, whose columns are named by
                the class predicted, and whose index, of a polars frame its first column, holds
                the true ones. None for the likeliest class.
            engine: what works on parts of the rows, such as `cavity.engines.Dask(client)`; None
                for this process. The results have the same bits.

        Returns:
            Labels, (n,).

        Raises:
            ValueError: for unusable inputs or costs, and for frames of costs whose rows or
                columns are not the classes, each of them once.
        """
        found = self.predict_log_proba(X, engine)
        return self.classes_[bayes_decision(found, align_costs(costs, self.classes_.tolist()))]

    @in_double
    def predict_proba(self, X, engine=None):
        """The probability of each class, the uncertainty of the function included.

        Args:
            X: inputs, (n, D).
            engine: what works on parts of the rows; None for this process.

        Returns:
            (n, C), columns in the order of `classes_`; rows sum to one.

        Raises:
            ValueError: for unusable inputs.
        """
        return np.exp(self.predict_log_proba(X, engine))

    @in_double
    def predict_log_proba(self, X, engine=None):
        """The log probability of each class; accurate also where a probability rounds to 0 or 1.

        Args:
            X: inputs, (n, D).
            engine: what works on parts of the rows; None for this process.

        Returns:
            (n, C), columns in the order of `classes_`.

        Raises:
            ValueError: for unusable inputs.
        """
        rows = Rows(self._inputs(X), {})
        answer = ClassLogProbabilities(self.posterior_, len(self.classes_))
        (found,) = row_by_row(answer, rows, engine)
        return found

    @in_double
    def decision_function(self, X, engine=None):
        """Log odds of the second of two classes; of more the log probabilities.

        Args:
            X: inputs, (n, D).
            engine: what works on parts of the rows; None for this process.

        Returns:
            (n,), above zero where the second class is the likelier one; or (n, C).

        Raises:
            ValueError: for unusable inputs.
        """
        found = self.predict_log_proba(X, engine)
        if found.shape[1] > 2:
            return found
        return found[:, 1] - found[:, 0]

    @in_double
    def log_predictive_density(self, X, y, engine=None):
        """Log predictive probability of each row's label, in nats.

        Args:
            X: inputs, (n, D).
            y: labels, (n,), of the classes of the fit.
            engine: what works on parts of the rows; None for this process.

        Returns:
            (n,).

        Raises:
            ValueError: for unusable inputs, and labels that were not there in fitting.
        """
        found = self.predict_log_proba(X, engine)
        labels = self._labels(y, found)
        return found[np.arange(len(found)), labels]

    @in_double
    def score(self, X, y, sample_weight=None, engine=None):
        """The share of rows whose likeliest class is theirs.

        Args:
            X: inputs, (n, D).
            y: labels, (n,), of the classes of the fit.
            sample_weight: weight of each row, (n,).
            engine: what works on parts of the rows; None for this process.

        Returns:
            The accuracy, between 0 and 1.

        Raises:
            ValueError: for unusable inputs, and labels that were not there in fitting.
        """
        predicted = self.predict(X, engine=engine)
        self._labels(y, predicted)
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, X)
        return accuracy_score(y, predicted, sample_weight=sample_weight)

    @in_double
    def report(self, path, X, y=None):
        """Writes one self-contained HTML page on the model and data, as `cavity report` does.

        Args:
            path: the file, such as "report.html"; what it held before is replaced.
            X: inputs, (n, D).
            y: labels, (n,), of the classes of the fit; without them the page does not judge
                predictions.

        Returns:
            The names of the page's figures.

        Raises:
            ValueError: for unusable data, and labels that were not there in fitting.
            DataError: if the file cannot be written.
        """
        X, places, side = self.as_numbers(X, y)
        return loaded(self.family.report)(self, path, X, places, side)

    @in_double
    def as_numbers(self, X, y=None):
        """Rows as pages and pictures take them.

        Args:
            X: inputs, (n, D).
            y: labels, (n,), of the classes of the fit, or None.

        Returns:
            Inputs as numbers (n, D), the places of labels (n, 1) or None, and no side data.

        Raises:
            ValueError: for unusable data, and labels that were not there in fitting.
        """
        X = self._inputs(X)
        places = None if y is None else self._labels(y, X)[:, None].astype(float)
        return X, places, {}

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


def _among(y: np.ndarray, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Known classes, sorted, and the place of each row's label among them, as a float."""
    classes, _ = _sorted(np.asarray(known))
    strange = ~np.isin(y, classes)
    if np.any(strange):
        raise ValueError(f"y has a label {y[strange][0]!r} that is not among classes={known!r}")
    return classes, np.searchsorted(classes, y).astype(np.float64)


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
