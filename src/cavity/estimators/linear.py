"""Linear models with sparse priors, with scikit-learn's interface."""

import dataclasses
from typing import Any, ClassVar

import numpy as np

from cavity.estimators.asked_types import ClassWeightAsked, LikelihoodAsked
from cavity.estimators.base import AbstractPredictor
from cavity.estimators.classification import AbstractClassifier
from cavity.estimators.coefficients import coefficient_table
from cavity.estimators.hardly_moved import hardly_moved
from cavity.estimators.learning import Learned, Problem
from cavity.estimators.linear_learning import AbstractLinearSettings, check_linear, learn_linear
from cavity.estimators.regression import AbstractRegressor
from cavity.families.base import Family
from cavity.families.linear import LINEAR
from cavity.learning.double_precision import in_double
from cavity.models.base import AbstractModel
from cavity.models.integrated_parameters import integrated_parameters
from cavity.models.linear.coefficients import Coefficients, coefficients
from cavity.numerics.callers import warn_caller

# The probability in intervals of coefficients, where none is asked for.
LEVEL = 0.9


class HasCoefficients(AbstractPredictor, AbstractLinearSettings):
    """Fitted attributes of linear models, beside predictions.

    Attributes:
        coefficients_: posterior marginals of the coefficients.
    """

    family: ClassVar[Family] = LINEAR
    coefficients_: Coefficients
    inclusion_probability_: np.ndarray | Any

    @in_double
    def select(self, fdr=0.1, output=None):
        """The columns of the largest set in which few are expected to be zero or of other sign.

        Args:
            fdr: the expected share of these, at the most.
            output: of several outputs or classes, which one, counted from 0.

        Returns:
            Column numbers, most certain first.

        Warns:
            UserWarning: where the rows hardly tell which columns matter.

        Raises:
            ValueError: for a share outside (0, 1), and several outputs of which none is chosen.
        """
        found = self.coefficients_.select(fdr, output)
        self._say_where_little_is_told()
        return found

    @in_double
    def coefficient_table(self, fdr=0.1, level=LEVEL):
        """Coefficients with the names of their columns, a row for each, for a data frame.

        Args:
            fdr: as in `select`.
            level: the probability in the intervals from `lower` to `upper`.

        Returns:
            A dictionary, which `pandas.DataFrame` and `polars.DataFrame` take: `column`, of
            several outputs `output` and of more than two classes `class`, `mean`, `lower`,
            `upper`, `inclusion_probability` of a prior with a spike, `sign_probability`, which is
            that of the likelier sign, and `selected`.

        Warns:
            UserWarning: where the rows hardly tell which columns matter.

        Raises:
            ValueError: for a share or a level outside (0, 1).
        """
        found, classes = self.coefficients_, self._class_labels
        found = found if level == LEVEL else coefficients(self.posterior_, level)
        outputs = range(found.mean.shape[-1]) if classes is None else classes.tolist()
        columns, kind = self._input_names, "output" if classes is None else "class"
        if columns is None:
            columns = tuple(map(str, range(len(found.mean))))
        named = list(map(str, outputs))
        table = coefficient_table(found, columns, self.output_scale_, named, fdr, kind)
        self._say_where_little_is_told()
        return table

    def _say_where_little_is_told(self) -> None:
        """Warns the caller of a method where the rows hardly tell which columns matter."""
        little = hardly_moved(self.posterior_, self.coefficients_)
        if little is not None:
            warn_caller(little)

    def _check_settings(self) -> None:
        check_linear(self)

    def _learned(self, problem: Problem) -> Learned:
        return learn_linear(self, problem)

    def _keep_parts(self, model: AbstractModel) -> None:
        fitted: Any = model
        self.prior_, self.likelihood_ = fitted.prior, model.likelihood
        self.coefficients_ = found = coefficients(self.posterior_, LEVEL)
        self.integrated_parameters_ = integrated_parameters(self.posterior_, LEVEL)
        several = found.mean.ndim > 1

        def columns_last(x: np.ndarray) -> np.ndarray:
            return x.T if several else x

        scale = self._output_unit(several=several)
        self.coef_ = columns_last(found.mean) * scale
        ends = (columns_last(found.lower) * scale, columns_last(found.upper) * scale)
        self.coef_interval_ = np.stack(ends, axis=-1)
        included = found.inclusion
        self.inclusion_probability_ = None if included is None else columns_last(included)
        self.intercept_ = 0.0 if found.intercept is None else found.intercept[0] * self._scale
        self.relevance_ = np.abs(self.coef_) * fitted_deviation(fitted)

    def _output_unit(self, *, several: bool) -> Any:
        scale = np.asarray(self._scale)
        return scale[:, None] if several and scale.ndim else scale


def fitted_deviation(model: Any) -> np.ndarray | float:
    """The deviations of the columns; one where they count as they are."""
    return 1.0 if model.scale is None else np.asarray(model.scale)


@dataclasses.dataclass(eq=False, repr=False)
class LinearRegressor(HasCoefficients, AbstractRegressor):
    r"""Linear regression with a sparse prior, by expectation propagation.

    For tables with more columns than rows, and for any noise: coefficients with intervals, and the
    probability of each that it is not zero. Noise and parameters of the prior are averaged over:
    a share of columns is uniform; scales and noise have wide priors in units of the data.

    All work is done in float64 and JAX's own settings are left as they are. Columns count about
    their mean and in units of their deviation; coefficients and predictions are per unit of the
    column and in the units of the outputs.

    Args:
        prior: of each coefficient: "spike_slab", most are zero; "horseshoe", most are nearly zero;
            "laplace", "student_t"; "gaussian", ridge regression; "ard", a variance for each
            column; or an object of `cavity.weights`, per deviation of the columns, which is taken
            as it is to start from.
        likelihood: as in `GPRegressor`: "gaussian", "student_t", "poisson" and so on, or an
            object.
        power: in [0, 1], of the rows' sites; plays no part with Gaussian noise.
        groups: the group of each column, whole numbers from 0, for a prior with a parameter per
            group. None: of a prior by name each categorical column of a data frame is a group,
            and the others are one; without such columns there are none.
        blocks: columns whose coefficients share one scale of the prior, so that spike and slab has
            them all zero or none: lists of columns by number or name; or "columns", which makes a
            block of each categorical column of a data frame. For priors that are scale mixtures,
            which "laplace" is not; in the place of groups. None for none.
        integrate: parameters to average over, under weak priors: "all"; "noise", those of the
            likelihood; "prior", those of the prior; or None, for maximum evidence without priors.
            Of more than nine numbers, as many groups have, those with a value for each are
            learned under their priors, and only the others are averaged over.
        fit_intercept: whether there is an intercept.
        standardise: columns about their mean in units of their deviation, and starting values
            from the spread of the outputs; otherwise columns as they are and unit values.
        fixed: parameters that are not learned, by dotted name; see `GPRegressor`.
        bounds: of parameters, by dotted name; see `GPRegressor`.
        max_iterations: iterations of learning at the most; 0 keeps the starting values.
        tolerance: learning ends when the objective falls by less than this many nats.
        random_state: seed or generator; nothing here is random yet.
        verbose: 1 to show the progress of a fit, 0 for nothing; the fit is the same.
        missing: "error", or "skip" to leave out outputs that are NaN.

    Attributes:
        coef_: posterior means of the coefficients, (D,), or (P, D) of several outputs.
        coef_interval_: central intervals of 90 %, (D, 2) or (P, D, 2); `coefficient_table` has
            those of other probabilities.
        inclusion_probability_: probabilities of coefficients that are not zero, of a prior with a
            spike; None of others.
        intercept_: posterior mean of the function where all columns are zero.
        relevance_: sizes of the coefficients per deviation of their column.
        coefficients_: the same as a `cavity.diagnostics.Coefficients`, of outputs divided by
            `output_scale_`.
        integrated_parameters_: posteriors of the parameters that were integrated out, by name, of
            outputs divided by `output_scale_`; see `cavity.diagnostics.integrated_parameters`.
        prior_: the fitted prior, at its most likely parameters.
        likelihood_: the fitted likelihood, at its most likely parameters.
        log_evidence_: approximate log marginal likelihood, nats, outputs in their own units;
            that of all values of the parameters, where these are averaged over.
        converged_: whether learning and inference converged.
        message_: why learning ended.
        n_iter_: iterations.
        posterior_: the posterior of the function, its arrays numpy float64.
        output_scale_: as of `GPRegressor`.
        n_features_in_: number of input columns, those of each category included.
        feature_names_in_: their names, if X had names; `colour=red` of a category.
        encoder_: as of `GPRegressor`.

    References:
        Jylanki (2013), S3 to S7; Seeger (2008); Hernandez-Lobato et al. (2015).
    """

    missing: object = "error"
    kernel = "linear"
    mean = "constant"


@dataclasses.dataclass(eq=False, repr=False)
class LinearClassifier(HasCoefficients, AbstractClassifier):
    r"""Linear classification with a sparse prior, by expectation propagation.

    Of more than two classes each has coefficients of its own. See `LinearRegressor`.

    Args:
        prior: as in `LinearRegressor`.
        likelihood: as in `GPClassifier`: "bernoulli" (probit), "softmax" and so on, or an object.
        power: in [0, 1], of the rows' sites.
        groups: as in `LinearRegressor`.
        blocks: as in `LinearRegressor`.
        integrate: as in `LinearRegressor`.
        fit_intercept: whether there is an intercept.
        standardise: columns about their mean in units of their deviation.
        fixed: parameters that are not learned, by dotted name; see `GPRegressor`.
        bounds: of parameters, by dotted name; see `GPRegressor`.
        max_iterations: iterations of learning at the most; 0 keeps the starting values.
        tolerance: learning ends when the objective falls by less than this many nats.
        random_state: seed or generator; nothing here is random yet.
        class_weight: weights of rows by label, beside `sample_weight`: a dict, or "balanced", by
            which all classes have the same weight together; None for 1.
        verbose: 1 to show the progress of a fit, 0 for nothing; the fit is the same.

    Attributes:
        classes_: the labels, sorted; columns of probabilities are in this order.
        coef_: posterior means of the coefficients, (D,), or (C, D) of more than two classes.
        coef_interval_: central intervals of 90 %, (D, 2) or (C, D, 2).
        inclusion_probability_: as of `LinearRegressor`.
        intercept_: posterior mean of the function where all columns are zero.
        relevance_: sizes of the coefficients per deviation of their column.
        coefficients_: the same as a `cavity.diagnostics.Coefficients`.
        integrated_parameters_: as of `LinearRegressor`.
        prior_: the fitted prior.
        likelihood_: the fitted likelihood.
        log_evidence_: approximate log marginal likelihood, nats.
        converged_: whether learning and inference converged.
        message_: why learning ended.
        n_iter_: iterations.
        posterior_: the posterior of the functions, its arrays numpy float64.
        n_features_in_: number of input columns, those of each category included.
        feature_names_in_: their names, if X had names; `colour=red` of a category.
        encoder_: as of `GPRegressor`.

    References:
        Jylanki (2013), S3 to S7.
    """

    likelihood: LikelihoodAsked = "bernoulli"
    class_weight: ClassWeightAsked = None
