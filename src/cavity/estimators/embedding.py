"""Embeddings by Gaussian process latent-variable models, with scikit-learn's interface."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity.estimators.asked_types import (
    Amount,
    Count,
    KernelAsked,
    LikelihoodAsked,
    PowerAsked,
    std_on_request,
)
from cavity.estimators.base import AbstractEstimator
from cavity.estimators.frames import dates_as_days
from cavity.estimators.latent_map import (
    LatentMap,
    Standardised,
    check_rows_and_columns,
    filled,
    standardised,
)
from cavity.estimators.latent_settings import (
    check_values,
    latent_kernel,
    latent_likelihood,
    latent_method,
)
from cavity.estimators.learning import Course, Learned, Problem
from cavity.families.base import Family, loaded
from cavity.families.embedding import EMBEDDING
from cavity.families.values import whole
from cavity.learning.double_precision import in_double
from cavity.learning.initialisation.latent import LatentStart
from cavity.learning.plans.latent import fit_latent
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.latent.posterior import LatentPosterior
from cavity.models.posterior import AbstractPosterior
from cavity.numerics.text import plural
from cavity.numerics.validation import check_magnitude
from cavity.persistence.typed_values import Large


class HasLatentPoints(AbstractEstimator):
    """Fitted attributes of an embedding."""

    posterior_: LatentPosterior


@dataclasses.dataclass(eq=False, repr=False)
class GPEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, HasLatentPoints):
    r"""An embedding by a Gaussian process latent-variable model, for maps and missing data.

    Every row has a latent point of a few dimensions, standard normal a priori, and every column
    is a smooth function of that point, with a Gaussian process prior, plus noise: a nonlinear
    factor analysis. Entries that are NaN are missing, in `fit` and everywhere else; they are left
    out, and `impute` predicts them from the others of their row.

    Columns are standardised where noise is added to a function (Gaussian and other real numbers),
    and columns that are constant have no part in the model. All work is done in float64 and JAX's
    own settings are left as they are. Latent dimensions are in decreasing order of relevance;
    their signs mean nothing.

    Args:
        n_components: latent dimensions.
        kernel: text such as "rbf" or "rbf + linear", with a lengthscale per latent dimension,
            which switches off dimensions that are not needed; or a kernel object, whose values
            are where learning starts, for latent points of unit variance and columns of unit
            variance.
        likelihood: how columns scatter about their functions: "gaussian", "student_t" or
            "laplace"; of truth values (0 or 1) "bernoulli" or "logit", of counts "poisson" or
            "negative_binomial", above zero "gamma" or "exponential", between 0 and 1 "beta". The
            same for all columns. Or a likelihood object of one latent function.
        n_inducing: inducing points in the latent space; at or above the number of distinct rows
            all of them are used.
        power: in [0, 1]. At 0, with Gaussian noise, the evidence is a lower bound.
        method: "auto", closed forms ("power_ep") where noise is Gaussian and all rows are used at
            a time, otherwise "tied"; or a method object such as `cavity.TiedPowerEP(...)`.
        encoder: whether latent points are a function of the row, learned with the model, which
            `transform` evaluates; otherwise each row has its own, and `transform` searches for it.
        batch: rows of a minibatch, for long tables; None for all rows.
        standardise: whether every column is divided by its own standard deviation; otherwise all
            are divided by one number, and columns that vary more count more.
        max_iterations: iterations at the most, steps where there are minibatches; 0 keeps
            starting values.
        jitter: share of the mean prior variance added to the inducing covariance.
        random_state: seed or generator for everything random.
        verbose: 1 to show the progress of a fit, 0 for nothing; the fit is the same.

    Attributes:
        embedding_: latent points of the rows of the fit, their posterior means, (N, Q).
        embedding_std_: their posterior standard deviations, (N, Q).
        relevance_: the share of each latent dimension in the variation of the functions,
            decreasing, (Q,); shares sum to one, and are zero if all latent points coincide.
        log_evidence_: approximate log marginal likelihood, nats, of columns in their own units.
        model_: the fitted `cavity.GPLVM`.
        kernel_: its kernel.
        likelihood_: its likelihood.
        inducing_: its inducing points.
        posterior_: its posterior, of standardised columns, with arrays of numpy.
        column_mean_: what was subtracted from every column, (P,).
        column_scale_: what every column was divided by, (P,); 0 for a constant one.
        converged_: whether learning and inference converged.
        message_: why learning ended.
        n_iter_: iterations.
        history_: what learning minimised after each iteration, in nats, of data in their units:
            the negative log evidence less log priors.
        n_evaluations_: evaluations of the objective.
        jitter_: the jitter that was used.
        sites_: how the sites were found, and whether they converged.
        interrupted_: whether fit was interrupted from the keyboard.
        n_missing_: entries of the fit that were missing.
        n_features_in_: number of columns.
        feature_names_in_: their names, if Y had names.

    References:
        Lawrence (2005); Titsias and Lawrence (2010); Bui (2017), S45 to S50.
    """

    family: ClassVar[Family] = EMBEDDING
    remembered: ClassVar[Mapping[str, Any]] = {
        **AbstractEstimator.remembered,
        "n_missing_": Large,
    }

    n_components: Count = 2
    kernel: KernelAsked = "rbf"
    likelihood: LikelihoodAsked = "gaussian"
    n_inducing: object = 50
    power: PowerAsked = 0.0
    method: object = "auto"
    encoder: object = False
    batch: object = None
    standardise: object = True
    max_iterations: Count = 1000
    jitter: Amount = 1e-8
    random_state: object = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @in_double
    def fit(self, X, y=None, callback=None, checkpoint=None):
        """Learns the functions of all columns and the latent points of all rows.

        Args:
            X: the rows to embed, (N, P), NaN where missing; arrays or data frames of numbers;
                dates are days since 1970-01-01.
            y: ignored.
            callback: called with a `Progress` after every iteration.
            checkpoint: a `cavity.fitting.Checkpoint`, where the fit keeps what it has done and
                goes on from what it did before; `random_state` must be a number.

        Returns:
            The estimator itself. Interrupting from the keyboard keeps the best found so far.

        Raises:
            ValueError: for unusable data or settings.
        """
        likelihood = self._check()
        Y = self._rows(X, reset=True)
        names = self._input_names
        called = [f"column {j}" for j in range(Y.shape[1])]
        if names is not None:
            called = [f"column '{name}'" for name in names]
        check_rows_and_columns(Y, called)
        check_values(Y, likelihood, called)
        self.n_missing_ = int(np.sum(np.isnan(Y)))
        columns = standardised(Y, likelihood.support, each=bool(self.standardise))
        self._check_components(int(np.sum(columns.varying)), Y.shape[1])
        chosen = columns.varying
        data = (Y - columns.mean)[:, chosen]
        course, nothing = Course(callback, checkpoint), np.zeros((len(Y), 0))
        problem = Problem(self._settings(""), nothing, data, {}, course)
        self._learn(problem, columns.scale[chosen])
        del self.output_scale_, self.tallies_
        self.column_mean_, self.column_scale_ = columns.mean, columns.scale
        self._derive(self.posterior_)
        return self

    @std_on_request
    @in_double
    def transform(self, X, return_std=False):
        """Latent points of rows, given the functions that were learned.

        The rows of the fit are placed anew, which changes them little (`embedding_` has them as
        the fit left them). A row without any value is placed at the mean of all.

        Args:
            X: rows, (n, P), NaN where missing.
            return_std: also return posterior standard deviations.

        Returns:
            Posterior means (n, Q); with `return_std` a pair with the deviations.

        Raises:
            ValueError: for unusable rows.
        """
        mean, std = self._map.transform(self._rows(X))
        return (mean, std) if return_std else mean

    @std_on_request
    @in_double
    def inverse_transform(self, X, return_std=False):
        """Rows at latent points: predictions of all columns, noise included.

        Args:
            X: latent points, (n, Q).
            return_std: also return the standard deviations of the columns.

        Returns:
            Means (n, P), in the units of the data; with `return_std` a pair with the deviations.

        Raises:
            ValueError: for points of another number of dimensions, or that are not finite.
        """
        check_is_fitted(self, "posterior_")
        points = np.asarray(X, dtype=np.float64)
        dims = self._n_features_out
        if points.ndim != 2 or points.shape[1] != dims or not np.all(np.isfinite(points)):
            raise ValueError(
                f"latent points are finite numbers with {plural(dims, 'column')}, one for each "
                f"component, given an array of shape {points.shape}"
            )
        mean, std = self._map.at(points)
        return (mean, std) if return_std else mean

    @std_on_request
    @in_double
    def reconstruct(self, X, return_std=False):
        """Predictions of all entries of rows, from those that are observed, noise included.

        Args:
            X: rows, (n, P), NaN where missing.
            return_std: also return the standard deviations of the entries.

        Returns:
            Means (n, P), in the units of the data; with `return_std` a pair with the deviations.

        Raises:
            ValueError: for unusable rows.
        """
        mean, std = self._map.reconstruct(self._rows(X))
        return (mean, std) if return_std else mean

    @std_on_request
    @in_double
    def impute(self, X, return_std=False):
        """Rows with predictions in the place of NaN; all other entries as they are.

        Args:
            X: rows, (n, P), NaN where missing.
            return_std: also return the standard deviations of the entries, zero for those that
                were observed.

        Returns:
            (n, P), in the units of the data; with `return_std` a pair with the deviations.

        Raises:
            ValueError: for unusable rows.
        """
        Y = self._rows(X)
        mean, std = filled(Y, self._map.reconstruct(Y))
        return (mean, std) if return_std else mean

    @in_double
    def score_samples(self, X):
        """Lower bounds of the log densities of rows at their observed entries, in nats.

        Constant columns do not count.

        Args:
            X: rows, (n, P), NaN where missing.

        Returns:
            (n,), of rows in the units of the data.

        Raises:
            ValueError: for unusable rows.
        """
        return self._map.log_density(self._rows(X))

    @in_double
    def score(self, X, y=None):
        """The mean of `score_samples`, by which settings can be compared on other rows.

        Args:
            X: rows, (n, P), NaN where missing.
            y: ignored.

        Raises:
            ValueError: for unusable rows.
        """
        return float(np.mean(self.score_samples(X)))

    @in_double
    def report(self, path, X, colour=None):
        """Writes one self-contained HTML page on the embedding and rows, as `cavity report` does.

        Args:
            path: the file, such as "report.html"; what it held before is replaced.
            X: rows, (n, P), NaN where missing.
            colour: what colours the map, (n,): numbers or texts; None for one colour.

        Returns:
            The names of the page's figures.

        Raises:
            ValueError: for unusable rows.
            DataError: if the file cannot be written.
        """
        return loaded(self.family.report)(self, path, self._rows(X), colour)

    # ------------------------------------------------------------------------- inside

    def _derive(self, posterior: AbstractPosterior) -> None:
        super()._derive(posterior)
        del self.chains_
        self.model_ = posterior.model
        self.embedding_, self.embedding_std_ = self._map.latent
        self.relevance_ = self._map.relevance

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    @property
    def _map(self) -> LatentMap:
        return LatentMap(self.posterior_, Standardised(self.column_mean_, self.column_scale_))

    def _rows(self, X: Any, *, reset: bool = False) -> np.ndarray:
        """Rows as numbers, NaN where missing."""
        allowed: dict[str, Any] = {"dtype": np.float64, "order": "C"}
        allowed |= {"ensure_all_finite": "allow-nan"}
        if reset:
            allowed["ensure_min_samples"] = 2
        else:
            check_is_fitted(self, "posterior_")
        X = validate_data(self, dates_as_days(X), reset=reset, **allowed)
        Y = np.asarray(X)
        check_magnitude("X", np.nan_to_num(Y), small=False)
        return Y

    def _check(self) -> AbstractLikelihood:
        """Refuses impossible settings, before any work; gives the likelihood."""
        EMBEDDING.check(self)
        dims = int(self.n_components)
        likelihood = latent_likelihood(self.likelihood)
        latent_kernel(self.kernel, dims)
        latent_method(self.method, self.batch, rows=1, iterations=0, seed=0)
        return likelihood

    def _check_components(self, varying: int, columns: int) -> None:
        dims = whole("n_components", self.n_components, 1)
        if dims > varying:
            constant = f", {columns - varying} of them constant" if varying < columns else ""
            raise ValueError(
                f"n_components={dims} is more than there are columns to embed "
                f"(n_features={columns}{constant}): ask for fewer components"
            )

    def _learned(self, problem: Problem) -> Learned:
        settings, Y = problem.settings, problem.y
        dims = whole("n_components", self.n_components, 1)
        likelihood = latent_likelihood(self.likelihood)
        iterations = whole("max_iterations", settings.max_iterations, 0)
        method = latent_method(
            self.method, self.batch, rows=len(Y), iterations=iterations, seed=settings.seed
        )
        asked = LatentStart(
            latent_kernel(self.kernel, dims),
            likelihood,
            dims,
            whole("n_inducing", self.n_inducing, 1),
            bool(self.encoder),
            settings.seed,
        )
        result = fit_latent(
            asked,
            Y,
            power=float(settings.power),
            method=method,
            jitter=float(settings.jitter),
            max_iterations=iterations,
            callback=problem.course.callback,
            checkpoint=problem.course.checkpoint,
        )
        return Learned(result, np.sum(~np.isnan(Y), axis=0), len(Y))
