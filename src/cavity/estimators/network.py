"""Networks by expectation propagation, with scikit-learn's interface."""

import dataclasses
from typing import Any, ClassVar

import numpy as np

from cavity.estimators.asked_types import ClassWeightAsked, LikelihoodAsked
from cavity.estimators.base import AbstractPredictor
from cavity.estimators.classification import AbstractClassifier
from cavity.estimators.learning import Learned, Problem
from cavity.estimators.network_learning import learn_network
from cavity.estimators.network_settings import AbstractNetworkSettings, check_network_settings
from cavity.estimators.regression import AbstractRegressor
from cavity.families.base import Family
from cavity.families.network import NETWORK
from cavity.models.base import AbstractModel


class HasRelevance(AbstractPredictor, AbstractNetworkSettings):
    """Fitted attributes of networks, beside predictions.

    Attributes:
        relevance_: how strongly the units follow each column, (D,).
    """

    family: ClassVar[Family] = NETWORK
    relevance_: np.ndarray

    def _check_settings(self) -> None:
        check_network_settings(self)

    def _learned(self, problem: Problem) -> Learned:
        return learn_network(self, problem)

    def _keep_parts(self, model: AbstractModel) -> None:
        fitted: Any = model
        posterior: Any = self.posterior_
        self.prior_, self.likelihood_ = fitted.prior, model.likelihood
        self.relevance_ = np.asarray(posterior.process.relevance())


@dataclasses.dataclass(eq=False, repr=False)
class NetworkRegressor(HasRelevance, AbstractRegressor):
    r"""Regression by a network with hidden units, by expectation propagation. Experimental.

    Weights are integrated over; noise and the prior of the units' weights are learned by maximum
    evidence. With "ard" each column has a variance of its own, and those of columns that play no
    part vanish. One output.

    All work is done in float64 and JAX's own settings are left as they are.

    Args:
        hidden: the number of hidden units, or one for each layer, such as (10, 5).
        prior: of the weights of the units: "ard", a variance for each column; "gaussian", one for
            all; "laplace", "student_t", "horseshoe", "spike_slab"; or an object of
            `cavity.weights`, per deviation of the columns, which is taken as it is to start from.
        likelihood: as in `GPRegressor`, of one latent function: "gaussian", "student_t",
            "poisson" and so on, or an object.
        activation: "erf", "tanh", "sine", "softplus", "identity", or a function of an array.
        linear: whether there is a linear part beside.
        power: in [0, 1], of the rows' sites; 1 is expectation propagation.
        groups: the group of each column, whole numbers from 0, for a prior with a parameter per
            group; None for none.
        n_restarts: further modes that are tried as starts; learning goes on from one whose sites
            settle, if any do, and of these from the one with the largest evidence. With `batch`
            there is one start.
        batch: rows of a minibatch, for long tables: all rows share one site on the weights of
            each unit, so that no sites are stored per row. For "ard", "gaussian" and other
            Gaussian priors. None for sites of single rows.
        steps: of Adam, one for each minibatch; with `batch` they take the place of
            `max_iterations` and `tolerance`.
        standardise: columns about their mean in units of their deviation, and starting values
            from the spread of the outputs; otherwise columns as they are and unit values.
        max_iterations: iterations of learning at the most; 0 keeps the starting values. Where
            sites do not settle at a power above 0.5, learning begins again at 0.5, and goes on
            from there at the power asked for, each with so many.
        tolerance: learning ends when the objective falls by less than this many nats.
        random_state: seed or generator, of the starts.
        verbose: 1 to show the progress of a fit, 0 for nothing; the fit is the same.
        missing: "error", or "skip" to leave out outputs that are NaN.

    Attributes:
        relevance_: of each column, (D,): the root of the sum over units of squared output weights
            times expected squared weights of the column, in deviations of the column; with
            several layers summed over the ways to the output.
        prior_: the fitted prior of the units' weights.
        likelihood_: the fitted likelihood.
        log_evidence_: approximate log marginal likelihood of the mode, nats, outputs in their own
            units.
        converged_: whether learning and inference converged.
        message_: why learning ended.
        n_iter_: iterations.
        posterior_: the posterior of the function, its arrays numpy float64.
        output_scale_: as of `GPRegressor`.
        n_features_in_: number of input columns, those of each category included.
        feature_names_in_: their names, if X had names; `colour=red` of a category.
        encoder_: as of `GPRegressor`.

    References:
        Jylanki (2013), S89 to S109; Jylanki, Nummenmaa and Vehtari (2014).
    """

    missing: object = "error"
    kernel = "network"
    mean = "constant"


@dataclasses.dataclass(eq=False, repr=False)
class NetworkClassifier(HasRelevance, AbstractClassifier):
    r"""Classification into two classes by a network, by expectation propagation. Experimental.

    See `NetworkRegressor`.

    Args:
        hidden: as in `NetworkRegressor`.
        prior: as in `NetworkRegressor`.
        likelihood: as in `GPClassifier`, of one latent function: "bernoulli" (probit) and so on,
            or an object.
        activation: as in `NetworkRegressor`.
        linear: whether there is a linear part beside.
        power: in [0, 1], of the rows' sites.
        groups: as in `NetworkRegressor`.
        n_restarts: as in `NetworkRegressor`.
        batch: as in `NetworkRegressor`.
        steps: as in `NetworkRegressor`.
        standardise: columns about their mean in units of their deviation.
        max_iterations: iterations of learning at the most; 0 keeps the starting values.
        tolerance: learning ends when the objective falls by less than this many nats.
        random_state: seed or generator, of the starts.
        class_weight: weights of rows by label, beside `sample_weight`: a dict, or "balanced", by
            which all classes have the same weight together; None for 1.
        verbose: 1 to show the progress of a fit, 0 for nothing; the fit is the same.

    Attributes:
        classes_: the labels, sorted; columns of probabilities are in this order.
        relevance_: as of `NetworkRegressor`.
        prior_: the fitted prior of the units' weights.
        likelihood_: the fitted likelihood.
        log_evidence_: approximate log marginal likelihood of the mode, nats.
        converged_: whether learning and inference converged.
        message_: why learning ended.
        n_iter_: iterations.
        posterior_: the posterior of the function, its arrays numpy float64.
        n_features_in_: number of input columns, those of each category included.
        feature_names_in_: their names, if X had names; `colour=red` of a category.
        encoder_: as of `GPRegressor`.

    References:
        Jylanki (2013), S89 to S109.
    """

    likelihood: LikelihoodAsked = "bernoulli"
    class_weight: ClassWeightAsked = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _fit_labels(self, X, y, *further) -> None:
        classes = len(np.unique(np.asarray(y)))
        if classes > 2:
            raise ValueError(
                f"Only binary classification is supported. A network has one latent function and "
                f"y has {classes} classes: use GPClassifier, or "
                "sklearn.multiclass.OneVsRestClassifier(NetworkClassifier())"
            )
        super()._fit_labels(X, y, *further)
