"""Inference methods: an approximation, a solver of its fixed points, and a way of learning.

The approximation decides what is compiled (`inference/approximations/approximations.py`), the
solver's settings are numbers (`inference/solvers/settings.py`), and training defines how
parameters are learned. A method also checks the models and data that it supports.
"""

import dataclasses
import math

from cavity.inference.approximations.approximations import (
    GaussianBounds,
    ModeExpansion,
    PowerMeans,
    TiedPowerMeans,
)
from cavity.inference.propagation import AbstractPropagation, Nodes
from cavity.inference.solvers.settings import RUNGS, FixedPointSolver
from cavity.learning.methods.base import AbstractMethod, Training, check_bound, check_settings
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import (
    HasMultinomialCurvature,
    capability,
)


@dataclasses.dataclass(frozen=True)
class PowerEP(AbstractMethod):
    r"""Power expectation propagation, at the power given beside it.

    Factors that are Gaussian in the function are exact and need no sweeps. All others are
    matched by sweeps; where these do not converge, by Newton's method, by continuation from
    smaller powers or from wider noise, and at last by a descent of the free energy of moments. A
    result says whether one of them converged.

    Args:
        step: damping step in (0, 1], the share of the way to the matched site; the power itself
            is classical Power EP. None adapts it: full steps, shorter ones after a sweep that
            came no closer.
        tolerance: sweeps stop when a further one would change no moment by more than this
            many standard deviations.
        max_sweeps: sweeps at the most.
        batch: rows whose sites move together; None for all of them (parallel sweeps). With 1
            sweeps are sequential: every site sees the ones before it, through rank-one updates.
        exact: use the closed form of Gaussian factors; False sweeps for them too. Rows of a deep
            GP then have sites on the inducing variables of every layer, with any likelihood; those
            of a latent-variable or state-space model on inducing variables and on latent inputs or
            states. They take a matrix for every row and function: for up to some hundred rows.
        fallback: go on where sweeps fail.
        interleaved: learning does not wait for sites to converge, but makes so many steps of Adam,
            each after an update of the sites (of `batch` rows, drawn anew, where that is given);
            None for L-BFGS-B with converged sites, which is more accurate and for up to some
            thousand rows quicker.
        learning_rate: of Adam.
        coupled: for `MultinomialProbit`, whether the functions of classes stay dependent.
        hidden: the posterior of hidden values. For the states of a state-space model, "chain" or
            None, where neighbours depend on each other, or "factorised", where states of different
            times do not; a full Gaussian over all states would gain nothing over a chain. For the
            hidden layers of a deep GP with Gaussian noise, "factorised", "chain", where values
            depend on the layer below, "conditional", where they depend on the inducing variables
            of their functions, "conditional_local", where those have the posterior that suits
            their own layer, "conditional_nodes", where those of the last layer have their optimum
            at every node over the others, "coupled", where those of all layers have one joint
            Gaussian, "coupled_values", where moreover the values of a row in a layer depend on
            all functions of the layer and on each other, or "nested", where values follow their
            functions.
        tight: with Gaussian noise at power 0, charge what inducing variables leave unexplained
            with $-\tfrac12 \sum_n \log(1 + d_n / \sigma^2)$ in the place of $-\tfrac12 \sum_n
            d_n / \sigma^2$: a tighter lower bound of the exact evidence, with the posterior of
            power 0.
        dtc: with Gaussian noise at power 0, leave that term out: the deterministic training
            conditional, also called projected process, for comparison. It is no bound, and
            parameters learned by it may overfit. With `kernels.Nystrom` predictions lack the
            variance that is left as well: subset of regressors.

    References:
        Bui (2017), S7, S19, S21 to S23 and S29; Turner's slides, S5; Jylanki (2013), S33 to S38.
        Titsias (2025) and Bui, Ashman and Turner (2025) for the tighter bound; Seeger et al.
        (2003) for DTC.
    """

    step: float | None = dataclasses.field(default=None, kw_only=True)
    tolerance: float = dataclasses.field(default=1e-8, kw_only=True)
    max_sweeps: int = dataclasses.field(default=500, kw_only=True)
    batch: int | None = dataclasses.field(default=None, kw_only=True)
    exact: bool = dataclasses.field(default=True, kw_only=True)
    fallback: bool = dataclasses.field(default=True, kw_only=True)
    interleaved: int | None = dataclasses.field(default=None, kw_only=True)
    learning_rate: float = dataclasses.field(default=0.05, kw_only=True)
    coupled: bool = dataclasses.field(default=True, kw_only=True)
    hidden: str | None = dataclasses.field(default=None, kw_only=True)
    tight: bool = dataclasses.field(default=False, kw_only=True)
    dtc: bool = dataclasses.field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.tight and self.dtc:
            raise ValueError("tight and dtc are two charges for the same term: give one of them")
        if (self.tight or self.dtc) and not self.exact:
            raise ValueError("tight and dtc belong to the closed form: leave exact=True")

    @property
    def approximation(self) -> PowerMeans:
        volume = 1.0 if self.tight else math.inf if self.dtc else None
        return PowerMeans(
            closed_form=self.exact, coupled=self.coupled, hidden=self.hidden, volume=volume
        )

    @property
    def solver(self) -> FixedPointSolver:
        rungs = RUNGS if self.fallback else ()
        return FixedPointSolver(self.step, self.tolerance, self.max_sweeps, self.batch, rungs)

    @property
    def training(self) -> Training:
        return Training(self.interleaved, self.batch, self.learning_rate)

    def check(self, likelihood: AbstractLikelihood) -> None:
        if (self.tight or self.dtc) and likelihood.gaussian_noise is None:
            raise ValueError(
                f"PowerEP({'tight' if self.tight else 'dtc'}=True) is for Gaussian noise, given "
                f"{type(likelihood).__name__}: leave it out"
            )
        if self.couples(likelihood) and self.batch is not None:
            raise ValueError(
                "coupled classes move in parallel sweeps: leave batch=None, or give coupled=False"
            )

    def check_layout(self, likelihood: AbstractLikelihood, *, sparse: bool, blocked: bool) -> None:
        """Any layout will do."""


@dataclasses.dataclass(frozen=True)
class Laplace(AbstractMethod):
    r"""Laplace's method: a Gaussian about the mode of the latent function.

    $$\log Z \approx \log p(\mathbf y \mid \hat{\mathbf f}) - \tfrac12 \hat{\mathbf f}^\top
    \mathbf K^{-1} \hat{\mathbf f} - \tfrac12 \log |\mathbf I + \mathbf K \mathbf W|$$

    The mode is found by Newton's method; where the likelihood is not log-concave, first by steps
    that cannot go downhill. With inducing variables the power given beside the method says how
    what they leave unexplained is averaged over.

    Args:
        tolerance: Newton steps stop when a further one would change no moment by more than this
            many standard deviations.
        max_sweeps: Newton steps at the most.
        step: the share of a Newton step that is made; None adapts it.
        exact: use the closed form of Gaussian factors.

    References:
        Jylanki (2013), S48, S49 and S60 to S63.
    """

    tolerance: float = dataclasses.field(default=1e-8, kw_only=True)
    max_sweeps: int = dataclasses.field(default=500, kw_only=True)
    step: float | None = dataclasses.field(default=None, kw_only=True)
    exact: bool = dataclasses.field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def approximation(self) -> ModeExpansion:
        return ModeExpansion(closed_form=self.exact)

    @property
    def solver(self) -> FixedPointSolver:
        rungs = ("damped sweeps",)
        return FixedPointSolver(self.step, self.tolerance, self.max_sweeps, rungs=rungs)

    def check(self, likelihood: AbstractLikelihood) -> None:
        if not likelihood.smooth:
            raise ValueError(
                f"Laplace's method needs two derivatives of the likelihood, which "
                f"{type(likelihood).__name__} does not have; use PowerEP()"
            )
        if likelihood.latents > 1 and capability(likelihood, HasMultinomialCurvature) is None:
            raise ValueError(
                f"Laplace's method takes likelihoods of one latent function, and Softmax; "
                f"{type(likelihood).__name__} has {likelihood.latents}: use PowerEP()"
            )

    def check_layout(self, likelihood: AbstractLikelihood, *, sparse: bool, blocked: bool) -> None:
        if likelihood.latents > 1 and sparse:
            raise ValueError(
                "Laplace's method for several classes is for the full GP: leave inducing=None, or "
                "use PowerEP() or TiedPowerEP()"
            )


@dataclasses.dataclass(frozen=True)
class AbstractBounds(AbstractMethod):
    """Gaussian lower bounds of densities, whose sweeps each raise the evidence."""

    tolerance: float = dataclasses.field(default=1e-8, kw_only=True)
    max_sweeps: int = dataclasses.field(default=2000, kw_only=True)
    exact: bool = dataclasses.field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def solver(self) -> FixedPointSolver:
        return FixedPointSolver(1.0, self.tolerance, self.max_sweeps)

    def check(self, likelihood: AbstractLikelihood) -> None:
        check_bound(f"{type(self).__name__}()", likelihood)

    def check_layout(self, likelihood: AbstractLikelihood, *, sparse: bool, blocked: bool) -> None:
        """Any layout will do."""


@dataclasses.dataclass(frozen=True)
class LocalBound(AbstractBounds):
    r"""Local variational bounds: each density is replaced by a Gaussian lower bound.

    Bounds are made as tight as they can be, so the log evidence is a lower bound for the full GP
    and at power 0. With inducing variables the power given beside the method says how what they
    leave unexplained is averaged over. For the logit link, Student-t and Laplace noise, and for
    the softmax (with a bound of constant curvature) and the multinomial probit.

    Args:
        tolerance: sweeps stop when a further one would change no moment by more than this many
            standard deviations.
        max_sweeps: sweeps at the most.
        exact: use the closed form of Gaussian factors.

    References:
        Jylanki (2013), S44 to S46.
    """

    @property
    def approximation(self) -> GaussianBounds:
        return GaussianBounds(closed_form=self.exact)


@dataclasses.dataclass(frozen=True)
class MeanField(AbstractBounds):
    r"""Variational mean field over the function and the noise variance of each row.

    For noise that is a mixture of Gaussians over its variance, such as Student-t noise, with
    $q(\mathbf f) \prod_n q(V_n)$. Variational throughout: the power given beside the method is
    not used. For the full GP it equals `LocalBound`. For the multinomial probit it is that over
    functions and utilities.

    Args:
        tolerance: sweeps stop when a further one would change no moment by more than this many
            standard deviations.
        max_sweeps: sweeps at the most.
        exact: use the closed form of Gaussian factors.

    References:
        Jylanki (2013), S39 to S42 and identity 28.
    """

    @property
    def approximation(self) -> GaussianBounds:
        return GaussianBounds(closed_form=self.exact, variational=True)


@dataclasses.dataclass(frozen=True)
class TiedPowerEP(AbstractMethod):
    r"""Power EP with tied factors: all rows share one site, found by minimising the energy.

    At power 0 this is stochastic variational inference (SVGP), above it the energy of black-box
    alpha, which is also called approximate Power EP. Nothing is stored per row, so it suits
    tables of any length and, in contrast to `PowerEP`, learning from minibatches. It needs
    inducing variables, or a network with Gaussian priors.

    With Gaussian noise and one layer `PowerEP()` is in closed form and better.

    Args:
        propagation: how Gaussians go through the layers of a deep model:
            `cavity.fitting.Nodes(count)`, `cavity.fitting.Moments()` or
            `cavity.fitting.Linearised()`; also how latent inputs go through functions. Other
            models have no use for it.
        input_sites: for latent inputs, whether each row has a site on its own, matched by sweeps
            (Power EP throughout); otherwise their posteriors are variational, which suits
            minibatches. In state-space models rows have sites on pairs of states; otherwise every
            state has one site for all its terms, which the optimiser moves.
        hidden_sites: for deep models whose inner layers have noise, whether every hidden value of
            every row has a Gaussian site, which the optimiser moves; otherwise hidden values have
            the model's own conditional. For data in memory.
        hidden: for sites on the states of a state-space model, "chain" or None for pairs of
            neighbours, "factorised" for single states; "conditional", at power 0 and without
            `input_sites`, for the model's own conditional times a site for each state, averaged
            over 200 paths, or as many as `propagation` has nodes where these are more.
        joint: for `inducing.OfParts`, whether the belief about the inducing variables of all terms
            of a sum is joint; False for mean field, which makes the terms independent.
            `cavity.update` goes on with a joint belief.
        batch: rows of a minibatch, drawn anew in every pass through the data, for Adam; None for
            all of them, and L-BFGS-B. Rows in time come as subsequences of this length.
        max_sweeps: steps of Adam, which is how many it makes; with all rows, iterations at the
            most.
        learning_rate: of Adam; it falls to zero along a cosine.
        natural: the step in (0, 1] of natural gradients for the site, shortened where it would
            leave no proper Gaussian, and while the energy of the minibatch grows, as above power 0
            it may: steps of 0.1 to 0.5 are safe for one function, the larger ones with more of the
            noise of minibatches left, and 0.05 for several classes in small minibatches.
            Parameters of the model are left to Adam.
        tolerance: with all rows, learning ends when the energy falls by less than this many nats
            per iteration.
        seed: of the minibatches.

    References:
        Bui (2017), S14, S30, S37 and S42; Hernandez-Lobato et al. (2016).
    """

    propagation: AbstractPropagation = dataclasses.field(default=Nodes(), kw_only=True)
    input_sites: bool = dataclasses.field(default=False, kw_only=True)
    hidden_sites: bool = dataclasses.field(default=False, kw_only=True)
    hidden: str | None = dataclasses.field(default=None, kw_only=True)
    joint: bool = dataclasses.field(default=True, kw_only=True)
    batch: int | None = dataclasses.field(default=None, kw_only=True)
    max_sweeps: int = dataclasses.field(default=2000, kw_only=True)
    learning_rate: float = dataclasses.field(default=0.02, kw_only=True)
    natural: float | None = dataclasses.field(default=None, kw_only=True)
    tolerance: float = dataclasses.field(default=1e-4, kw_only=True)
    seed: int = dataclasses.field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.natural is not None and self.batch is None:
            raise ValueError("natural gradients go with minibatches: give batch as well")
        if self.hidden not in (None, "conditional") and not self.input_sites:
            raise ValueError(
                "hidden says what states have sites on: give input_sites=True as well"
            )
        if self.input_sites and self.batch is not None:
            raise ValueError("sites of latent inputs need all rows at a time: leave batch=None")

    @property
    def approximation(self) -> TiedPowerMeans:
        return TiedPowerMeans(
            propagation=self.propagation,
            input_sites=self.input_sites,
            hidden_sites=self.hidden_sites,
            hidden=self.hidden,
            joint=self.joint,
        )

    @property
    def solver(self) -> FixedPointSolver:
        if self.input_sites:
            return FixedPointSolver(max_sweeps=200, rowwise=True)
        return FixedPointSolver(rungs=RUNGS)

    @property
    def training(self) -> Training:
        return Training(
            steps=None if self.batch is None else self.max_sweeps,
            batch=self.batch,
            learning_rate=self.learning_rate,
            natural=self.natural,
            seed=self.seed,
            tolerance=self.tolerance,
            iterations=self.max_sweeps,
        )

    def check(self, likelihood: AbstractLikelihood) -> None:
        """Any likelihood will do."""

    def check_layout(self, likelihood: AbstractLikelihood, *, sparse: bool, blocked: bool) -> None:
        if not sparse or blocked:
            raise ValueError(
                "tied sites need a model with inducing variables, and no blocks: all rows share "
                "one site on the inducing variables"
            )
