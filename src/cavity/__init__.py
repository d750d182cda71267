"""Gaussian-process models by deterministic approximate inference.

One number, the power, runs from variational inference (0) to expectation propagation (1):

    from cavity import inducing, kernels, likelihoods

    model = cavity.GP(kernels.RBF(), likelihoods.Gaussian(), inducing.Points(Z))
    result = cavity.fit(model, X, y, power=0.5)
    mean, var = result.posterior.marginals(X_new)

or, with scikit-learn's interface, `cavity.GPRegressor().fit(X, y).predict(X_new)` and
`cavity.GPClassifier().fit(X, labels).predict_proba(X_new)`.
"""

import logging as _logging

import lazy_loader

from cavity.numerics.renamed import refuse_old_names as _refuse_old_names

# Names that stood here before the first release, with their places.
_MOVED = {
    "Batches": "fitting.Batches",
    "BatchScores": "fitting.BatchScores",
    "Bracket": "diagnostics.Bracket",
    "bracket": "diagnostics.bracket",
    "Chains": "fitting.Chains",
    "Checkpoint": "fitting.Checkpoint",
    "cluster_blocks": "initialisation.cluster_blocks",
    "Coefficients": "diagnostics.Coefficients",
    "coefficients": "diagnostics.coefficients",
    "compressed": "fitting.compressed",
    "ControlSuggestion": "fitting.ControlSuggestion",
    "Cost": "diagnostics.Cost",
    "draw_inputs": "fitting.draw_inputs",
    "estimate_cost": "diagnostics.estimate_cost",
    "Examination": "diagnostics.Examination",
    "FitResult": "fitting.FitResult",
    "function_parts": "diagnostics.function_parts",
    "FunctionParts": "diagnostics.FunctionParts",
    "improve_marginals": "diagnostics.improve_marginals",
    "ImprovedMarginals": "diagnostics.ImprovedMarginals",
    "Inference": "fitting.Inference",
    "initial_inducing": "initialisation.initial_inducing",
    "InputDraws": "fitting.InputDraws",
    "integrated_parameters": "diagnostics.integrated_parameters",
    "Integration": "fitting.Integration",
    "Linearised": "fitting.Linearised",
    "Moments": "fitting.Moments",
    "network_at_mode": "initialisation.network_at_mode",
    "NetworkStart": "initialisation.NetworkStart",
    "Nodes": "fitting.Nodes",
    "NumericalError": "fitting.NumericalError",
    "ParameterMarginal": "diagnostics.ParameterMarginal",
    "priors": "parameters.priors",
    "probability_zero": "diagnostics.probability_zero",
    "Progress": "fitting.Progress",
    "save": "fitting.save_module",
    "select_inducing": "initialisation.select_inducing",
    "suggest_controls": "fitting.suggest_controls",
    "Suggestions": "fitting.Suggestions",
    "tierney_kadane": "diagnostics.tierney_kadane",
    "UpdateResult": "fitting.UpdateResult",
}

# A library that is silent unless its user gives handlers.
_logging.getLogger(__name__).addHandler(_logging.NullHandler())

# `__init__.pyi` lists the public names. They are imported when they are first used, so that the
# command line can answer `--help` without waiting for JAX.
_find, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__getattr__ = _refuse_old_names(__name__, _MOVED, _find)
