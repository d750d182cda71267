"""Inference methods: what stands in the place of a likelihood term, and how sites are found."""

import abc
import dataclasses
from typing import ClassVar

import equinox as eqx
import numpy as np

from cavity.inference.approximations.local_terms import (
    AbstractLocalTerm,
    EvaluationPoint,
    LaplaceTerm,
    LocalBoundTerm,
    MultinomialProbitTerm,
    PowerMeanTerm,
    SoftmaxLaplaceTerm,
)
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.multiclass import AbstractClasses, Softmax


class AbstractMethod(eqx.Module):
    """How the sites of a factor are found, and what it adds to the energy.

    To implement:
        the fields, `evaluation_point`, `term(likelihood, exact)`, and `check(likelihood)`, which
        refuses likelihoods that the method cannot work with; `couples(likelihood)` where it
        applies.
    """

    evaluation_point: eqx.AbstractClassVar[EvaluationPoint]
    # whether sites never have negative precisions
    convex: ClassVar[bool] = False
    # whether all rows share one site, which learning moves
    tied: ClassVar[bool] = False
    # sweeps that derivatives go through; 0 where the energy is stationary in the sites
    renewals: ClassVar[int] = 0

    tolerance: eqx.AbstractVar[float]
    max_sweeps: eqx.AbstractVar[int]
    step: eqx.AbstractVar[float | None]
    batch: eqx.AbstractVar[int | None]
    exact: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        """What stands in the place of the likelihood.

        Args:
            likelihood: the likelihood.
            exact: whether rows see their latent value without residual.
        """

    @abc.abstractmethod
    def check(self, likelihood: AbstractLikelihood) -> None:
        """Raises ValueError for a likelihood that the method cannot work with."""

    def program(self) -> "AbstractMethod":
        """The method as programs are compiled for, which take the tolerance as a number."""
        return dataclasses.replace(self, tolerance=1.0)  # type: ignore[type-var]

    def couples(self, likelihood: AbstractLikelihood) -> bool:
        """Whether the posterior keeps several latent functions of a row dependent."""
        return False


class PowerEP(AbstractMethod):
    r"""Power expectation propagation, at the power given beside it.

    Factors that are Gaussian in the function are exact and need no sweeps. All others are
    matched by sweeps; where these do not converge by Newton's method, followed from smaller powers
    or from wider noise if need be, by a descent of the free energy of moments, and at last by a
    double loop with a budget. A result says whether one of them converged.

    Args:
        step: damping step in (0, 1], the share of the way to the matched site; the power itself
            is classical Power EP. None adapts it: full steps, shorter ones after a sweep that
            came no closer.
        tolerance: sweeps stop when a further one would change no moment by more than this
            many standard deviations.
        max_sweeps: sweeps at the most.
        batch: rows whose sites move together; None for all of them (parallel sweeps). With 1
            sweeps are sequential: every site sees the ones before it, through rank-one updates.
        exact: use the closed form of Gaussian factors; False sweeps for them too.
        fallback: go on where sweeps fail: with Newton's method, from smaller powers or wider noise
            if need be, with a descent of the free energy, and with the double loop.
        interleaved: learning does not wait for sites to converge, but makes so many steps of Adam,
            each after an update of the sites (of `batch` rows, drawn anew, where that is given);
            None for L-BFGS-B with converged sites, which is more accurate and for up to some
            thousand rows quicker.
        learning_rate: of Adam.
        coupled: for `MultinomialProbit`, whether the functions of classes stay dependent.

    References:
        Bui (2017), S19, S21 to S23 and S29; Turner's slides, S5; Jylanki (2013), S33 to S38.
    """

    step: float | None = eqx.field(static=True, default=None, kw_only=True)
    tolerance: float = eqx.field(static=True, default=1e-8, kw_only=True)
    max_sweeps: int = eqx.field(static=True, default=500, kw_only=True)
    batch: int | None = eqx.field(static=True, default=None, kw_only=True)
    exact: bool = eqx.field(static=True, default=True, kw_only=True)
    fallback: bool = eqx.field(static=True, default=True, kw_only=True)
    interleaved: int | None = eqx.field(static=True, default=None, kw_only=True)
    learning_rate: float = eqx.field(static=True, default=0.05, kw_only=True)
    coupled: bool = eqx.field(static=True, default=True, kw_only=True)

    evaluation_point: ClassVar[EvaluationPoint] = EvaluationPoint.CAVITY

    def __check_init__(self) -> None:
        check_sweeps(self)
        if self.interleaved is not None and self.interleaved < 1:
            raise ValueError(f"interleaved must be at least 1 step, given {self.interleaved}")
        if not self.learning_rate > 0.0:
            raise ValueError(f"learning_rate must be positive, given {self.learning_rate}")

    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        if self.couples(likelihood):
            assert isinstance(likelihood, AbstractClasses)
            return MultinomialProbitTerm(likelihood)
        return PowerMeanTerm(likelihood)

    def check(self, likelihood: AbstractLikelihood) -> None:
        if self.couples(likelihood) and self.batch is not None:
            raise ValueError(
                "coupled classes move in parallel sweeps: leave batch=None, or give coupled=False"
            )

    def couples(self, likelihood: AbstractLikelihood) -> bool:
        return self.coupled and likelihood.couples


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

    References:
        Jylanki (2013), S48, S49 and S60 to S63.
    """

    tolerance: float = eqx.field(static=True, default=1e-8, kw_only=True)
    max_sweeps: int = eqx.field(static=True, default=500, kw_only=True)
    step: float | None = eqx.field(static=True, default=None, kw_only=True)
    exact: bool = eqx.field(static=True, default=True, kw_only=True)

    batch: ClassVar[int | None] = None
    evaluation_point: ClassVar[EvaluationPoint] = EvaluationPoint.MODE
    # the mode and the curvature there both move with the parameters
    renewals: ClassVar[int] = 2

    def __check_init__(self) -> None:
        check_sweeps(self)

    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        if isinstance(likelihood, Softmax):
            return SoftmaxLaplaceTerm(likelihood)
        return LaplaceTerm(likelihood, exact)

    def couples(self, likelihood: AbstractLikelihood) -> bool:
        return isinstance(likelihood, Softmax)

    def check(self, likelihood: AbstractLikelihood) -> None:
        if not likelihood.smooth:
            raise ValueError(
                f"Laplace's method needs two derivatives of the likelihood, which "
                f"{type(likelihood).__name__} does not have; use PowerEP()"
            )
        if likelihood.latents > 1 and not isinstance(likelihood, Softmax):
            raise ValueError(
                f"Laplace's method takes likelihoods of one latent function, and Softmax; "
                f"{type(likelihood).__name__} has {likelihood.latents}: use PowerEP()"
            )


class ModeSearch(AbstractMethod):
    """The way to the mode for `Laplace`, by steps that cannot go downhill.

    They take the curvature of a Gaussian lower bound where there is one, which makes them those
    of the EM algorithm; elsewhere the likelihood's own where that is negative.

    References:
        Jylanki (2013), S60 and S61.
    """

    tolerance: float = eqx.field(static=True, default=1e-4, kw_only=True)
    max_sweeps: int = eqx.field(static=True, default=500, kw_only=True)
    exact: bool = eqx.field(static=True, default=True, kw_only=True)

    batch: ClassVar[int | None] = None
    step: ClassVar[float | None] = None
    evaluation_point: ClassVar[EvaluationPoint] = EvaluationPoint.MODE
    convex: ClassVar[bool] = True

    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        if likelihood.has_bound:
            return LocalBoundTerm(likelihood)
        return LaplaceTerm(likelihood, exact, floored=True)

    def check(self, likelihood: AbstractLikelihood) -> None:
        """What `Laplace` accepts."""


class LocalBound(AbstractMethod):
    r"""Local variational bounds: each density is replaced by a Gaussian lower bound.

    Bounds are made as tight as they can be, so the log evidence is a lower bound for the full GP
    and at power 0. With inducing variables the power given beside the method says how what they
    leave unexplained is averaged over. For the logit link, Student-t and Laplace noise, and for
    the softmax (with a bound of constant curvature) and the multinomial probit.

    Args:
        tolerance: sweeps stop when a further one would change no moment by more than this many
            standard deviations.
        max_sweeps: sweeps at the most.

    References:
        Jylanki (2013), S44 to S46.
    """

    tolerance: float = eqx.field(static=True, default=1e-8, kw_only=True)
    max_sweeps: int = eqx.field(static=True, default=2000, kw_only=True)
    exact: bool = eqx.field(static=True, default=True, kw_only=True)

    batch: ClassVar[int | None] = None
    step: ClassVar[float | None] = 1.0
    evaluation_point: ClassVar[EvaluationPoint] = EvaluationPoint.POSTERIOR
    convex: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_sweeps(self)

    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        return LocalBoundTerm(likelihood)

    def check(self, likelihood: AbstractLikelihood) -> None:
        check_bound("LocalBound()", likelihood)


class MeanField(AbstractMethod):
    r"""Variational mean field over the function and the noise variance of each row.

    For noise that is a mixture of Gaussians over its variance, such as Student-t noise, with
    $q(\mathbf f) \prod_n q(V_n)$. Variational throughout: the power given beside the method is
    not used. For the full GP it equals `LocalBound`. For the multinomial probit it is that over
    functions and utilities.

    Args:
        tolerance: sweeps stop when a further one would change no moment by more than this many
            standard deviations.
        max_sweeps: sweeps at the most.

    References:
        Jylanki (2013), S39 to S42 and identity 28.
    """

    tolerance: float = eqx.field(static=True, default=1e-8, kw_only=True)
    max_sweeps: int = eqx.field(static=True, default=2000, kw_only=True)
    exact: bool = eqx.field(static=True, default=True, kw_only=True)

    batch: ClassVar[int | None] = None
    step: ClassVar[float | None] = 1.0
    evaluation_point: ClassVar[EvaluationPoint] = EvaluationPoint.POSTERIOR
    convex: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_sweeps(self)

    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        return LocalBoundTerm(likelihood, variational=True)

    def check(self, likelihood: AbstractLikelihood) -> None:
        check_bound("MeanField()", likelihood)


class TiedPowerEP(AbstractMethod):
    r"""Power EP with tied factors: all rows share one site, found by minimising the energy.

    At power 0 this is stochastic variational inference (SVGP), above it the energy of black-box
    alpha, which is also called approximate Power EP. Nothing is stored per row, so it suits
    tables of any length and, in contrast to `PowerEP`, learning from minibatches. It needs
    inducing variables.

    With Gaussian noise `PowerEP()` is in closed form and better.

    Args:
        batch: rows of a minibatch, drawn anew in every pass through the data, for Adam; None for
            all of them, and L-BFGS-B.
        max_sweeps: steps of Adam, which is how many it makes; with all rows, iterations at the
            most.
        learning_rate: of Adam; it falls to zero along a cosine.
        natural: the step in (0, 1] of natural gradients for the site, at power 0 only; parameters
            of the model are left to Adam.
        tolerance: with all rows, learning ends when the energy falls by less than this many nats
            per iteration.
        seed: of the minibatches.

    References:
        Bui (2017), S14 and S30; Hernandez-Lobato et al. (2016).
    """

    batch: int | None = eqx.field(static=True, default=None, kw_only=True)
    max_sweeps: int = eqx.field(static=True, default=2000, kw_only=True)
    learning_rate: float = eqx.field(static=True, default=0.02, kw_only=True)
    natural: float | None = eqx.field(static=True, default=None, kw_only=True)
    tolerance: float = eqx.field(static=True, default=1e-4, kw_only=True)
    seed: int = eqx.field(static=True, default=0, kw_only=True)

    tied: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    step: ClassVar[float | None] = None
    evaluation_point: ClassVar[EvaluationPoint] = EvaluationPoint.CAVITY

    def __check_init__(self) -> None:
        check_sweeps(self)
        if not self.learning_rate > 0.0:
            raise ValueError(f"learning_rate must be positive, given {self.learning_rate}")
        if self.natural is not None and not 0.0 < self.natural <= 1.0:
            raise ValueError(f"natural must lie in (0, 1], given {self.natural}")
        if self.natural is not None and self.batch is None:
            raise ValueError("natural gradients go with minibatches: give batch as well")

    def term(self, likelihood: AbstractLikelihood, *, exact: bool) -> AbstractLocalTerm:
        return PowerMeanTerm(likelihood)

    def check(self, likelihood: AbstractLikelihood) -> None:
        """Any likelihood will do."""


def check_bound(name: str, likelihood: AbstractLikelihood) -> None:
    """Raises ValueError for a likelihood without a Gaussian lower bound."""
    if not likelihood.has_bound:
        raise ValueError(
            f"{name} needs a likelihood with a Gaussian lower bound (StudentT, Laplace, "
            "Bernoulli(link='logit'), MultinomialProbit, Softmax), given "
            f"{type(likelihood).__name__}; use PowerEP() or Laplace()"
        )


def check_sweeps(method: AbstractMethod) -> None:
    """Raises ValueError for settings that no sweep can have."""
    for name in ("max_sweeps", "batch", "interleaved", "seed"):
        value = getattr(method, name, None)
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if value is not None and not whole:
            raise ValueError(f"{name} must be a whole number, given {value!r}")
    for name in ("step", "tolerance", "learning_rate", "natural"):
        value = getattr(method, name, None)
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if value is not None and not (number and np.isfinite(value)):
            raise ValueError(f"{name} must be a finite number, given {value!r}")
    if method.step is not None and not 0.0 < method.step <= 1.0:
        raise ValueError(f"step must lie in (0, 1], given {method.step}")
    if method.max_sweeps < 1:
        raise ValueError(f"max_sweeps must be at least 1, given {method.max_sweeps}")
    if not method.tolerance > 0.0:
        raise ValueError(f"tolerance must be positive, given {method.tolerance}")
    if method.batch is not None and method.batch < 1:
        raise ValueError(f"batch must be at least 1 row, or None for all, given {method.batch}")
