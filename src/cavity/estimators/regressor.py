"""Gaussian process regression with scikit-learn's interface."""

import dataclasses
from typing import ClassVar

import numpy as np

from cavity.estimators.base import (
    AbstractModelSettings,
    AbstractOutputSettings,
    AbstractSearchSettings,
    given,
)
from cavity.estimators.choices import KeepsChoices
from cavity.estimators.learning import Course, Learned, Problem, learn_gp
from cavity.estimators.outputs import check_shape
from cavity.estimators.registry import REGRESSION
from cavity.estimators.regression import AbstractRegressor
from cavity.estimators.row_weights import with_weights
from cavity.families.base import Family
from cavity.families.gp import GP
from cavity.learning.double_precision import in_double


@dataclasses.dataclass(eq=False, repr=False)
class GPRegressor(
    KeepsChoices,
    AbstractRegressor,
    AbstractSearchSettings,
    AbstractOutputSettings,
    AbstractModelSettings,
):
    r"""Gaussian process regression, exact or sparse, by Power EP; of outliers and counts too.

    All work is done in float64 and JAX's own settings are left as they are. Parameters, evidence
    and predictions are in the units of the data: standardising only chooses the starting values
    and centres the prior mean; nothing is transformed. With several outputs of different spread,
    each is divided by its own relative spread first (`output_scale_`), because they share one
    kernel and one noise variance; the fitted parameters are then those of the divided outputs.

    Args:
        kernel: text such as "rbf", "rbf + linear" or "matern52 * periodic[0]", with one
            lengthscale per column and starting values from the data, but for those in the text,
            "rbf(lengthscale=2)" or "rbf(lengthscale=2, fixed=True)", which are of the first
            function where there are several; or a kernel object, whose values are taken as they
            are, in the units of the data.
        likelihood: how outputs scatter about the function: "gaussian", with outliers
            "student_t" or "laplace"; "heteroscedastic" is Gaussian with a level that is a
            function of the inputs too, with a kernel of the same form. Of counts "poisson" or
            "negative_binomial" and of numbers above zero "gamma" or "exponential", all about the
            exponential of the function; of shares between 0 and 1 "beta", about its sigmoid. Or a
            likelihood object.
        method: "power_ep"; "laplace", Laplace's method; "local_bound" or "mean_field",
            variational, for "student_t" and "laplace"; "tied", all rows with one
            site, for long tables, on inducing points; "mcmc", draws of parameters and function,
            for the full GP on small tables. Or a method object such as
            `cavity.PowerEP(step=0.5)`.
        power: in [0, 1]. 0 is the variational bound, 1 is EP (with Gaussian noise FITC). Plays no
            part in a full GP with Gaussian noise, which is exact. Or "auto": that of 1, 0.5 and 0
            whose posterior gives outputs that it has not seen the largest density.
        n_inducing: number of inducing points; "auto" is the full GP up to 1,000 rows and 200
            points beyond, or where the method needs them; "enough" is the full GP up to 1,000
            rows and beyond as many points as are enough by `verdict_`; None is the full GP, up to
            20,000 rows; at or above the number of distinct rows all of them are used.
        inducing: how the points start: "greedy" (largest conditional variance), "kmeans",
            "random", or the points themselves, (M, D), or an object of `cavity.inducing`. With
            `cavity.initialisation.Inducing` also what stands at the points, whether they move in
            learning, and how many there are at the most with "enough".
        mean: prior mean: "constant", "zero", "linear" (its weights are
            integrated out in a full GP), or a mean object.
        block_size: rows of the blocks that share a site, found by clustering; None for none.
            At power 1 this is PITC. With Gaussian noise only.
        missing: "error", or "skip" to leave out outputs that are NaN.
        standardise: start from the location and spread of the data; otherwise from unit values.
        fixed: parameters that are not learned, by dotted name as a printed model has it, with the
            value that each keeps, in the units of the data (of several outputs, in those of the
            divided ones): `{"likelihood.variance": 0.1}`; None for where it starts.
        bounds: a lower and an upper bound, of which one may be None, by dotted name:
            `{"kernel.lengthscale": (0.1, 10.0)}`.
        priors: of the parameters of kernels and likelihoods that are named, which are learned
            by maximum a posteriori: "weak" centres variances, lengthscales and noise in units of
            the data, because few rows do not tell a noise from a function; many rows outweigh it;
            "none" for maximum evidence. Objects are used as given. A dict has priors by dotted
            name, `{"kernel.lengthscale": priors.LogNormal(1.0, 0.5)}`; the others are weak.
            `log_evidence_` is without them.
        n_restarts: further runs from perturbed starting values; the best is kept.
        max_iterations: iterations of one run at the most; 0 keeps the starting values.
        tolerance: a run ends when the objective falls by less than this many nats per iteration;
            with more than 500 outputs the number grows in proportion to them, and is eight times
            that where, with more than 500 outputs, inducing inputs are learned and sites are not
            tied (any method but "tied").
        jitter: share of the mean prior variance added to the inducing covariance.
        random_state: seed or generator for everything random; an `MCMC` object has its own seed.
        verbose: 1 to show the progress of a fit, 0 for nothing; the fit is the same.

    Attributes:
        log_evidence_: approximate log marginal likelihood, nats, outputs in their own units;
            None for the method "mcmc".
        kernel_: the fitted kernel.
        likelihood_: the fitted likelihood.
        mean_: the fitted prior mean; of a linear one what the data say about its weights.
        inducing_: the fitted inducing variables; None for a full GP.
        converged_: whether learning and inference converged.
        message_: why learning ended.
        unseen_periods_: learned periods that the data do not show, because they are longer than
            their column or below two of its steps; see `FitResult`.
        at_bounds_: learned parameters that ended at a bound of their search, such as a noise that
            the data do not show; see `FitResult`.
        undetermined_: dotted names of parameters of which the data say nothing, because the
            outputs do not vary; they stay where they started.
        power_: the power that was used.
        power_table_: of a power that was chosen, a `PowerTrial` for each that was compared:
            `power`, `log_evidence`, `log_density` of outputs left out, which were `left_out`, and
            whether it was `chosen`; otherwise None.
        n_inducing_: the number of inducing points; None for a full GP.
        bracket_: with n_inducing="enough" the `Bracket` of the exact evidence, with Gaussian
            noise; beyond 20,000 rows that of 4,000 of them. None otherwise.
        verdict_: with n_inducing="enough" whether the points are enough, in a sentence, and what
            50 more would buy where they are not.
        n_iter_: iterations.
        history_: what learning minimised after each iteration, in nats, of data in their units:
            the negative log evidence less log priors.
        n_evaluations_: evaluations of the objective.
        jitter_: the jitter that was used.
        sites_: how the sites came about.
        interrupted_: whether fit was interrupted from the keyboard.
        posterior_: the posterior process, its arrays numpy float64.
        chains_: the draws of the method "mcmc" with their diagnostics, of outputs divided by
            `output_scale_`; None for other methods.
        output_scale_: relative spread of each output, tiny for a constant one among others, which
            has no say in what they share; 1 for a single one, but with
            "heteroscedastic" its spread, where kernel and mean came without values.
        n_features_in_: number of input columns, those of each category included.
        feature_names_in_: their names, if X had names; `colour=red` of a category.
        encoder_: the columns of a data frame with text or categories, and how they become
            numbers; None of other inputs.

    References:
        Bui (2017), S21 to S27.
    """

    family: ClassVar[Family] = GP

    @in_double
    def fit(
        self,
        X,
        y,
        noise_variance=None,
        exposure=None,
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
            y: outputs, (N,) or (N, P).
            noise_variance: known noise variance of each row, (N,), in squared units of y; takes
                the place of a learned one.
            exposure: exposure of each row, (N,), for likelihoods of counts.
            callback: called with a `Progress` after every iteration.
            batches: all rows, as `cavity.fitting.Batches` or `cavity.Parts` of pairs of inputs
                and outputs, for tables larger than memory. X and y are a sample of their rows
                then, from which starting values and inducing points come; "auto" is 200 of these.
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
        side = given(noise_variance=noise_variance, exposure=exposure, weight=sample_weight)
        self._fit_outputs(X, y, side, Course(callback, checkpoint).over(batches, engine))
        return self

    @in_double
    def partial_fit(
        self, X, y, noise_variance=None, exposure=None, half_life=None, sample_weight=None
    ):
        """Learns from a first batch of rows, or goes on with a further one.

        Earlier rows are not needed any more: see `cavity.update`. Scales and bounds of parameters
        are those of all rows so far. Inducing points are added until the rows are explained, up
        to `n_inducing` ("auto" is 200).

        Args:
            X: inputs, (N, D).
            y: outputs, (N,) or (N, P), as in the first batch.
            noise_variance: known noise variance of each row, where the first batch had them.
            exposure: exposure of each row, where the first batch had them.
            half_life: rows after which those from before count half; None for never.
            sample_weight: weight of each row, (N,), as in `fit`.

        Returns:
            The estimator itself; `log_evidence_` and `n_rows_` are of all rows so far.

        Raises:
            ValueError: for unusable data, and for a full GP, blocks and methods other than "ep".
        """
        self._check_settings()
        side = given(noise_variance=noise_variance, exposure=exposure, weight=sample_weight)
        if "posterior_" not in vars(self):
            self._fit_outputs(X, y, side, Course(streaming=True))
            return self
        X, y, side = with_weights(X, y, side)
        X, y = self._inputs(X), np.asarray(y, dtype=np.float64)
        check_shape(y, (len(X),) if self._function.vector else (len(X), self._function.outputs))
        self._go_on(self._settings(REGRESSION), X, y, side, half_life)
        return self

    @in_double
    def leave_one_out(self, X, y, noise_variance=None, exposure=None, sample_weight=None):
        """Log predictive density of each output given the others of these rows, in nats.

        Inference is done once more on these rows, with the fitted parameters: none are learned
        again. On the rows of the fit it approximates the density after a refit without each row.

        Args:
            X: inputs, (n, D).
            y: outputs, as in fit.
            noise_variance: known noise variance of each row, where the fit had them.
            exposure: exposure of each row, where the fit had them.
            sample_weight: weight of each row, (n,), as in `fit`; a row is left out whole.

        Returns:
            (n,) or (n, P), as y; NaN for missing outputs and rows of weight 0, and where no
            proper posterior is left.

        Raises:
            ValueError: for unusable data, and for fits by draws or with blocks.
        """
        X = self._inputs(X)
        side = given(noise_variance=noise_variance, exposure=exposure, weight=sample_weight)
        y, count = np.asarray(y, dtype=np.float64), self._function.outputs
        shape = (len(X),) if self._function.vector else (len(X), count)
        check_shape(y, shape)
        return self._left_out(X, y.reshape(len(X), count), side).reshape(shape)

    def _learned(self, problem: Problem) -> Learned:
        return learn_gp(problem)
