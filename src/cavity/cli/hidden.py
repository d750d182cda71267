"""Checks and settings shared by requests for models with latent inputs or states."""

import warnings
from collections.abc import Callable
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from cavity.cli.asked_family import asked_family
from cavity.cli.chosen import check_enough, check_power
from cavity.cli.fit import check_kernel, inducing_points
from cavity.cli.progress import progress
from cavity.cli.request import Request
from cavity.cli.session import blaming, patient_interrupts, usage
from cavity.cli.task import check_inducing_kind
from cavity.estimators.latent_settings import latent_kernel, latent_likelihood
from cavity.families.table import FAMILIES
from cavity.learning.optimisers.lbfgs import GracefulStop, Progress
from cavity.persistence.checkpoint import Checkpoint


def check_hidden(request: Request, inputs: int) -> None:
    """A usage error for whatever is wrong with a request for latent inputs or states.

    Args:
        request: what is asked for.
        inputs: of the functions.
    """
    asked_family(request, FAMILIES)
    inducing_points(request.inducing)
    check_inducing_kind(request)
    check_power(request)
    check_enough(request)
    check_kernel(request.kernel)
    with blaming("--kernel"):
        latent_kernel(request.kernel, inputs)
    with blaming("--likelihood"):
        latent_likelihood(likelihood_of(request))
    if request.resume and request.checkpoint is None:
        raise usage("--resume", "it needs --checkpoint DIR, the folder to go on from")


def likelihood_of(request: Request) -> str:
    """The likelihood that was asked for, or Gaussian noise."""
    return request.likelihood or "gaussian"


def opened_checkpoint(request: Request) -> Checkpoint | None:
    """The folder in which the fit keeps what it has done, where one is asked for."""
    if request.checkpoint is None:
        return None
    kept = Checkpoint(request.checkpoint, resume=request.resume)
    kept.open()
    return kept


def learned(estimator: Any, fit: Callable[[Callable[[Progress], None]], object]) -> bool:
    """Fits an estimator with progress on the screen; whether it was interrupted.

    Args:
        estimator: the estimator.
        fit: its fit, of the data, given a callback.
    """
    with (
        patient_interrupts("the best model so far") as interrupted,
        progress(evidence=True) as show,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is said in our own way

        def callback(step: Progress) -> None:
            show(step)
            if interrupted():
                raise GracefulStop

        fit(callback)
        return interrupted() or bool(estimator.interrupted_)
