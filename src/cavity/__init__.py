"""Gaussian-process models by deterministic approximate inference.

One number, the power, runs from variational inference (0) to expectation propagation (1):

    from cavity import inducing, kernels, likelihoods

    model = cavity.GP(kernels.RBF(), likelihoods.Gaussian(), inducing.Points(Z))
    result = cavity.fit(model, X, y, power=0.5)
    mean, var = result.posterior.marginals(X_new)

or, with scikit-learn's interface, `cavity.GPRegressor().fit(X, y).predict(X_new)`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from cavity import inducing, kernels, likelihoods, means
from cavity.inference.methods import PowerEP
from cavity.learning.cost import Cost, estimate_cost
from cavity.learning.fit import FitResult, fit
from cavity.learning.inducing_points import cluster_blocks, select_inducing
from cavity.learning.infer import Inference, NumericalError, infer
from cavity.learning.optimise import Progress
from cavity.models.gp import GP
from cavity.numerics import parameters, priors

if TYPE_CHECKING:
    from cavity.interfaces.estimators import GPRegressor
    from cavity.interfaces.storage import load, save

__all__ = [
    "GP",
    "Cost",
    "FitResult",
    "GPRegressor",
    "Inference",
    "NumericalError",
    "PowerEP",
    "Progress",
    "cluster_blocks",
    "estimate_cost",
    "fit",
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
]

# Names whose dependencies are slow to import, and the modules that hold them.
_LAZY = {
    "GPRegressor": "cavity.interfaces.estimators",
    "load": "cavity.interfaces.storage",
    "save": "cavity.interfaces.storage",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("cavity")
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'cavity' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY, "__version__"])
