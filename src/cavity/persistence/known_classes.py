"""Classes that a model file may name: the public ones, and those that posteriors are made of."""

import dataclasses
import functools
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

Classes = Mapping[str, type]

_PUBLIC = ("kernels", "means", "inducing", "likelihoods", "weights", "models")

# what posteriors are made of: name in files -> where it lives
_PARTS = {
    "models.InducingView": "cavity.inference.variables.inducing_view",
    "models.OutputMean": "cavity.inference.variables.inducing_view",
    "inference.InducingBelief": "cavity.inference.variables.inducing",
    "inference.CoupledClassInducingBelief": "cavity.inference.variables.coupled_classes",
    "inference.CoupledClassValuesBelief": "cavity.inference.variables.coupled_classes",
    "models.ClassFunctions": "cavity.models.coupled_classes",
    "models.FullClasses": "cavity.models.coupled_classes",
    "models.SparseClasses": "cavity.models.coupled_classes",
    "models.FullProcess": "cavity.models.process",
    "models.SparseProcess": "cavity.models.process",
    "models.IndependentProcess": "cavity.models.process",
    "models.DeepPosterior": "cavity.models.deep.posterior",
    "models.LayerProcess": "cavity.models.deep.layer",
    "models.LatentPosterior": "cavity.models.latent.posterior",
    "models.SiteEncoder": "cavity.models.inputs.encoder",
    "models.StateSpacePosterior": "cavity.models.state_space.posterior",
    "models.AffineEmission": "cavity.models.state_space.emission",
    "models.GPEmission": "cavity.models.state_space.emission",
    "models.LinearProcess": "cavity.models.linear.process",
    "models.NetworkProcess": "cavity.models.network.process",
    "models.KnownWeights": "cavity.models.drawn_weights",
    "models.Design": "cavity.inference.weights.views",
    "models.ParameterView": "cavity.inference.weights.views",
    "models.ScaleBeliefs": "cavity.inference.weights.parameters",
    "parameters.GaussianScales": "cavity.parameters.gaussian_scale",
    "inference.DenseWeights": "cavity.inference.weights.beliefs",
    "inference.FactoredGroup": "cavity.inference.weights.beliefs",
    "inference.FactoredWeights": "cavity.inference.weights.beliefs",
    "inference.ScalarSites": "cavity.inference.graph.sites",
    "inference.WeightBlockSites": "cavity.inference.weights.block_sites",
    "inference.ChainBelief": "cavity.inference.variables.chain",
    "inference.Moments": "cavity.inference.propagation",
    "inference.Nodes": "cavity.inference.propagation",
    "inference.Linearised": "cavity.inference.propagation",
}

# what estimators are made of beside their posterior: settings, and what is known of the fit
_OF_ESTIMATORS = {
    "methods.PowerEP": "cavity.learning.methods.methods",
    "methods.Laplace": "cavity.learning.methods.methods",
    "methods.LocalBound": "cavity.learning.methods.methods",
    "methods.MeanField": "cavity.learning.methods.methods",
    "methods.TiedPowerEP": "cavity.learning.methods.methods",
    "methods.MCMC": "cavity.learning.methods.mcmc",
    "methods.Inducing": "cavity.learning.initialisation.asked_inducing",
    **{
        f"priors.{name}": "cavity.parameters.priors"
        for name in (
            *("Flat", "Normal", "LogNormal", "LogitNormal", "HalfNormal", "Gamma"),
            *("InverseGamma", "Beta", "LogStudentT", "LogInverseGamma"),
        )
    },
    "fits.ConvergenceReport": "cavity.inference.solvers.convergence",
    "fits.AtBound": "cavity.learning.results.at_bounds",
    "fits.UnseenPeriod": "cavity.learning.results.unseen_periods",
    "fits.Bracket": "cavity.learning.diagnostics.bracket",
    "fits.PowerTrial": "cavity.learning.plans.powers",
    "fits.FreeSimulation": "cavity.learning.free_simulation",
    "fits.Tally": "cavity.learning.data.scales",
}


@functools.cache
def known_classes() -> Classes:
    """The classes that a model file may name, such as `kernels.RBF`."""
    found: dict[str, type] = {}
    for floor in _PUBLIC:
        module = importlib.import_module(f"cavity.{floor}")
        for name, value in vars(module).items():
            if not isinstance(value, type) or inspect.isabstract(value):
                continue
            ours = f"{value.__module__}.".startswith(f"{module.__name__}.")
            if ours and dataclasses.is_dataclass(value):
                found[f"{floor}.{name}"] = value
    for name, home in {**_PARTS, **_OF_ESTIMATORS}.items():
        found[name] = getattr(importlib.import_module(home), name.split(".")[1])
    return found


def with_known(classes: Classes | None) -> Classes:
    """The known classes and further ones, by name."""
    return {**known_classes(), **(classes or {})}


def fields_of(cls: type) -> dict[str, Any]:
    """The fields of a dataclass or a named tuple, by name."""
    if dataclasses.is_dataclass(cls):
        return {field.name: field for field in dataclasses.fields(cls)}
    return {name: dataclasses.field() for name in cls._fields}  # type: ignore[attr-defined]


def made(cls: type, fields: Mapping[str, Any]) -> Any:
    """An object of a class with these fields, none of whose code is called."""
    if issubclass(cls, tuple):
        return tuple.__new__(cls, [fields[name] for name in fields_of(cls)])
    instance = object.__new__(cls)
    for key, value in fields.items():
        object.__setattr__(instance, key, value)
    return instance
