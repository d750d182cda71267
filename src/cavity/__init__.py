"""Gaussian-process models by deterministic approximate inference.

One number, the power, runs from variational inference (0) to expectation propagation (1):

    from cavity import inducing, kernels, likelihoods

    model = cavity.GP(kernels.RBF(), likelihoods.Gaussian(), inducing.Points(Z))
    result = cavity.fit(model, X, y, power=0.5)
    mean, var = result.posterior.marginals(X_new)

or, with scikit-learn's interface, `cavity.GPRegressor().fit(X, y).predict(X_new)` and
`cavity.GPClassifier().fit(X, labels).predict_proba(X_new)`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cavity import inducing, kernels, likelihoods, means, parameters, priors
    from cavity.inference.mcmc import MCMC
    from cavity.inference.methods import Laplace, LocalBound, MeanField, PowerEP, TiedPowerEP
    from cavity.interfaces.checkpoint import Checkpoint
    from cavity.interfaces.classifier import GPClassifier
    from cavity.interfaces.regressor import GPRegressor
    from cavity.interfaces.storage import load, save
    from cavity.learning.batches import Batches
    from cavity.learning.chains import Chains
    from cavity.learning.cost import Cost, estimate_cost
    from cavity.learning.fit import FitResult, fit
    from cavity.learning.improve import ImprovedMarginals, improve_marginals
    from cavity.learning.inducing_points import cluster_blocks, select_inducing
    from cavity.learning.infer import NumericalError, infer
    from cavity.learning.optimise import Progress
    from cavity.learning.result import Inference
    from cavity.learning.tierney_kadane import tierney_kadane
    from cavity.models.gp import GP

__all__ = [
    "GP",
    "MCMC",
    "Batches",
    "Chains",
    "Checkpoint",
    "Cost",
    "FitResult",
    "GPClassifier",
    "GPRegressor",
    "ImprovedMarginals",
    "Inference",
    "Laplace",
    "LocalBound",
    "MeanField",
    "NumericalError",
    "PowerEP",
    "Progress",
    "TiedPowerEP",
    "cluster_blocks",
    "estimate_cost",
    "fit",
    "improve_marginals",
    "inducing",
    "infer",
    "kernels",
    "likelihoods",
    "load",
    "means",
    "parameters",
    "priors",
    "save",
    "select_inducing",
    "tierney_kadane",
]

# Where the public names live. They are imported when they are first used, so that the command
# line can answer `--help` without waiting for JAX.
_HOMES = {
    "GP": "cavity.models.gp",
    "MCMC": "cavity.inference.mcmc",
    "Batches": "cavity.learning.batches",
    "Chains": "cavity.learning.chains",
    "Checkpoint": "cavity.interfaces.checkpoint",
    "Cost": "cavity.learning.cost",
    "FitResult": "cavity.learning.fit",
    "GPClassifier": "cavity.interfaces.classifier",
    "GPRegressor": "cavity.interfaces.regressor",
    "ImprovedMarginals": "cavity.learning.improve",
    "Inference": "cavity.learning.result",
    "Laplace": "cavity.inference.methods",
    "LocalBound": "cavity.inference.methods",
    "MeanField": "cavity.inference.methods",
    "NumericalError": "cavity.learning.infer",
    "PowerEP": "cavity.inference.methods",
    "Progress": "cavity.learning.optimise",
    "TiedPowerEP": "cavity.inference.methods",
    "cluster_blocks": "cavity.learning.inducing_points",
    "estimate_cost": "cavity.learning.cost",
    "fit": "cavity.learning.fit",
    "improve_marginals": "cavity.learning.improve",
    "tierney_kadane": "cavity.learning.tierney_kadane",
    "infer": "cavity.learning.infer",
    "load": "cavity.interfaces.storage",
    "save": "cavity.interfaces.storage",
    "select_inducing": "cavity.learning.inducing_points",
}
_MODULES = {
    "inducing": "cavity.inducing",
    "kernels": "cavity.kernels",
    "likelihoods": "cavity.likelihoods",
    "means": "cavity.means",
    "parameters": "cavity.parameters",
    "priors": "cavity.priors",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("cavity")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'cavity' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_MODULES, "__version__"])
