"""Diagnostics of fitted models: bounds, corrections, parts, coefficients, and what a fit costs."""

from cavity.learning.cost import Cost, estimate_cost
from cavity.learning.diagnostics.bracket import Bracket, bracket
from cavity.learning.diagnostics.examination import Examination
from cavity.learning.diagnostics.function_parts import FunctionParts, function_parts
from cavity.learning.diagnostics.kernel_components import KernelComponents, kernel_components
from cavity.learning.diagnostics.marginal_corrections import ImprovedMarginals, improve_marginals
from cavity.learning.diagnostics.probability_zero import probability_zero
from cavity.learning.diagnostics.tierney_kadane import tierney_kadane
from cavity.models.integrated_parameters import ParameterMarginal, integrated_parameters
from cavity.models.linear.coefficients import Coefficients, coefficients

__all__ = [
    "Bracket",
    "Coefficients",
    "Cost",
    "Examination",
    "FunctionParts",
    "ImprovedMarginals",
    "KernelComponents",
    "ParameterMarginal",
    "bracket",
    "coefficients",
    "estimate_cost",
    "function_parts",
    "improve_marginals",
    "integrated_parameters",
    "kernel_components",
    "probability_zero",
    "tierney_kadane",
]


def __dir__() -> list[str]:
    return __all__
