"""Learning latent-variable models: from principal components, the best of a few short runs."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from cavity.inference.propagation import Moments
from cavity.kernels.base import AbstractKernel
from cavity.learning.fit import fit
from cavity.learning.initialisation.latent import latent_starts, with_sites
from cavity.learning.method import AbstractMethod
from cavity.learning.methods import PowerEP, TiedPowerEP
from cavity.learning.optimisers.checkpoint import Store
from cavity.learning.optimisers.lbfgs import Progress
from cavity.learning.optimisers.trials import fit_best
from cavity.learning.result import FitResult
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import GaussianInLatent, capability
from cavity.models.latent.posterior import LatentPosterior


def fit_latent(
    Y: np.ndarray,
    kernel: AbstractKernel,
    likelihood: AbstractLikelihood,
    *,
    dims: int,
    points: int = 50,
    power: float = 0.0,
    method: AbstractMethod | None = None,
    encoder: bool = False,
    jitter: float = 1e-8,
    missing: str = "skip",
    seed: int = 0,
    max_iterations: int = 1000,
    callback: Callable[[Progress], None] | None = None,
    checkpoint: Store | None = None,
) -> FitResult:
    """Learns a Gaussian process latent-variable model of standardised outputs.

    Latent inputs start as principal components, each of unit variance. Runs of a few iterations
    from several lengthscales and noise variances are compared, and the best goes on. Where latent
    inputs are to have sites, their variational posteriors are learned first, and the sites start
    from these: from afar, sweeps do not find them.

    Args:
        Y: outputs, (N, P), NaN where missing.
        kernel: covariance function for latent inputs of unit variance.
        likelihood: density of an output.
        dims: latent dimensions.
        points: inducing points at the most.
        power: of all rows.
        method: how the model is learned; None for `PowerEP()` with Gaussian noise and
            `TiedPowerEP(propagation=Moments())` otherwise.
        encoder: whether an encoder gives the posteriors of latent inputs, which is learned with
            the model, by minibatches where the method has them.
        jitter: as in `fit`.
        missing: as in `fit`.
        seed: of inducing points, of an encoder's start and of minibatches.
        max_iterations: iterations at the most.
        callback: called after every iteration.
        checkpoint: as in `fit`.

    Raises:
        ValueError: as `fit`.
        NumericalError: as `fit`.
    """
    if method is None:
        exact = capability(likelihood, GaussianInLatent) is not None
        method = PowerEP() if exact else TiedPowerEP(propagation=Moments())
    options: dict[str, Any] = {"power": power, "jitter": jitter, "missing": missing}
    options |= {"callback": callback}
    starts = latent_starts(
        Y, kernel, likelihood, dims=dims, points=points, encoder=encoder, seed=seed
    )
    first, with_own = method, method
    if isinstance(method, TiedPowerEP) and method.input_sites:
        first = dataclasses.replace(method, input_sites=False)
    result = fit_best(
        starts,
        None,
        Y,
        method=first,
        max_iterations=max_iterations,
        checkpoint=checkpoint,
        **options,
    )
    if first is with_own or result.interrupted or result.found is None:
        return result
    posterior = result.posterior
    assert isinstance(posterior, LatentPosterior)
    return fit(
        result.model,
        None,
        Y,
        method=with_own,
        sites=with_sites(result.found, int(posterior.count)),
        max_iterations=max_iterations,
        checkpoint=None if checkpoint is None else checkpoint.part("sites"),
        **options,
    )
