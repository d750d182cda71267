"""Settings of Markov chain Monte Carlo."""

import dataclasses
from collections.abc import Callable
from typing import ClassVar, TypeVar

import numpy as np

from cavity.likelihoods.base import AbstractLikelihood
from cavity.numerics.validation import check_whole

T = TypeVar("T")

# Fewer draws than this in a chain say nothing of its convergence.
LEAST_DRAWS = 20
# With fewer steps to the posterior the scatter of chains does not show the error of the evidence.
LEAST_TEMPERATURES = 8
# Seeds are 32 bits wide.
MOST_SEED = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class MCMC:
    r"""Markov chain Monte Carlo: draws from the posterior in the place of an approximation.

    The settings of `cavity.sample`, which draws parameters with the latent function, so that
    predictions average over both. `cavity.infer(..., method=MCMC())` draws the function at fixed
    parameters. Exact but for Monte Carlo error, and slow: for the
    full GP on up to some hundred rows, and as the truth that quicker methods are held against. It
    needs blackjax, `pip install "cavity[mcmc]"`.

    Where noise is Gaussian, or Gaussian given a variance per row (`StudentT`, `Laplace`), the
    function is integrated out: parameters of the kernel move by NUTS on the marginal likelihood,
    and function and variances are drawn from their conditional distributions. With any other
    likelihood the whitened function moves by elliptical slices, and by NUTS with the parameters.
    Of linear models and networks NUTS moves weights, their scales and parameters together.

    Parameters need proper priors. Those with none get a weak one about their starting value; see
    `cavity.learning.mcmc.run.weak_priors`. The power given beside the method is not used.

    Args:
        draws: draws of each chain, after the warm-up.
        warmup: iterations before them, in which step sizes are adapted.
        chains: independent chains; convergence is judged by comparing them.
        keep: draws kept for predictions, evenly spaced over all chains.
        seed: of everything random.
        acceptance: the mean acceptance that step sizes are adapted to; nearer to 1 where
            divergences are reported.
        temperatures: for `cavity.infer`, steps from the prior to the posterior for an estimate of
            the log evidence by stepping stones, with its Monte Carlo error, which too few steps
            understate: eight or more. None for no estimate.

    References:
        Murray, Adams and MacKay (2010), elliptical slice sampling; Hoffman and Gelman (2014),
        NUTS; Jylanki (2013), S59 and S86; Xie et al. (2011), stepping stones.
    """

    samples: ClassVar[bool] = True
    tied: ClassVar[bool] = False

    draws: int = dataclasses.field(default=1000, kw_only=True)
    warmup: int = dataclasses.field(default=500, kw_only=True)
    chains: int = dataclasses.field(default=4, kw_only=True)
    keep: int = dataclasses.field(default=200, kw_only=True)
    seed: int = dataclasses.field(default=0, kw_only=True)
    acceptance: float = dataclasses.field(default=0.8, kw_only=True)
    temperatures: int | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given = vars(self)
        least = {"draws": LEAST_DRAWS, "warmup": 0, "chains": 1, "keep": 1, "seed": 0}
        if self.temperatures is not None:
            least["temperatures"] = LEAST_TEMPERATURES
        for name, lowest in least.items():
            check_whole(name, given[name], lowest)
        if self.seed > MOST_SEED:
            raise ValueError(f"seed must be at most {MOST_SEED}, given {self.seed}")
        number = isinstance(self.acceptance, float | np.floating)
        if not number or not 0.5 <= self.acceptance < 1.0:
            raise ValueError(f"acceptance must lie in [0.5, 1), given {self.acceptance!r}")
        if self.keep > self.draws * self.chains:
            raise ValueError(
                f"keep must be at most all draws, {self.draws} x {self.chains}, given {self.keep}"
            )

    def chosen(self, approximate: object, sample: Callable[["MCMC"], T]) -> T:
        """Result of the second function on these settings; chains are no approximation."""
        return sample(self)

    def check(self, likelihood: AbstractLikelihood) -> None:
        """Any likelihood will do."""

    def couples(self, likelihood: AbstractLikelihood) -> bool:
        """Chains have no sites, so none of several functions."""
        return False

    def check_layout(self, likelihood: AbstractLikelihood, *, sparse: bool, blocked: bool) -> None:
        """Raises ValueError for inducing variables and blocks."""
        if sparse or blocked:
            raise ValueError(
                "MCMC() is for the full GP: leave inducing=None and blocks=None, or use PowerEP()"
            )
