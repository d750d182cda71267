"""Parts are asked what they can do; their classes are not tested.

`isinstance` on a method, factor, belief, view, model, data set or likelihood stands only where an
argument of the user is checked, and in `likelihoods/capabilities.py`.
"""

import ast

from tests.meta.source import modules

# Packages whose classes are parts that say themselves what they can do.
PARTS = (
    "cavity.inference",
    "cavity.learning.data",
    "cavity.learning.methods.mcmc",
    "cavity.learning.methods.base",
    "cavity.likelihoods",
    "cavity.models",
)
# Where an argument of the user is checked, or may be of several kinds.
ARGUMENTS = {
    "cavity.estimators.deep": {"AbstractPropagation"},
    "cavity.estimators.latent_settings": {
        "AbstractLikelihood",
        "AbstractMethod",
        "PowerEP",
        "TiedPowerEP",
    },
    "cavity.estimators.registry": {"AbstractLikelihood", "AbstractMethod", "MCMC"},
    "cavity.learning.data.given": {"BatchedData", "Batches", "Parts"},
    "cavity.learning.data.parts": {"Parts"},
    "cavity.learning.data.batches": {"Batches", "HasShape"},
    "cavity.learning.mcmc.checks": {"AbstractGP"},
    "cavity.learning.diagnostics.examined": {"GP"},
    "cavity.learning.initialisation.asked_inducing": {"Inducing"},
    "cavity.learning.diagnostics.probability_zero": {"LinearModel"},
    "cavity.learning.diagnostics.tierney_kadane": {"Laplace"},
    "cavity.learning.dispatch": {"AbstractMethod", "MCMC"},
    "cavity.learning.mcmc.inputs": {"GP"},
    "cavity.learning.plans.state_space": {"PowerEP", "TiedPowerEP"},
    "cavity.learning.streaming.settings": {"Posterior"},
    "cavity.models.compression": {"Posterior"},
    "cavity.models.deep.deep_gp": {"AbstractLikelihood", "Layer"},
    "cavity.models.integrated_parameters": {"LinearModel", "MixturePosterior", "Posterior"},
    "cavity.models.latent.gplvm": {"SiteEncoder"},
    "cavity.models.linear.coefficients": {"LinearModel", "MixturePosterior", "Posterior"},
    "cavity.models.linear.linear_model": {"AbstractLikelihood"},
    "cavity.models.network.checks": {"AbstractLikelihood"},
    "cavity.models.state_space.gpssm": {"AbstractMean"},
    "cavity.plots.subjects": {
        "AbstractModel",
        "AbstractPosterior",
        "LatentPosterior",
        "Network",
        "StateSpacePosterior",
    },
}
# Leaves of a tree of sites, as `jax.tree.map` asks for them.
LEAVES = {
    "cavity.inference.factors.slots": {
        "ChainMoments",
        "ChainSites",
        "HiddenSites",
        "InputMoments",
        "LayeredMoments",
        "TiedSite",
    },
    "cavity.inference.solvers.rowwise": {"AbstractSites"},
    "cavity.inference.solvers.site_coordinates": {"AbstractSites"},
    "cavity.learning.diagnostics.examined": {"ScalarSites"},
}
CAPABILITIES = "cavity.likelihoods.capabilities"
MOST_ANY = 0.04


def classes_of_parts():
    """Names of the classes that are not to be tested."""
    return {
        node.name
        for name, module in modules().items()
        if name.startswith(PARTS)
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    }


def isinstance_calls(module):
    """Pairs of a class that `isinstance` tests for, and the line."""
    for node in ast.walk(module.tree):
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if called and node.func.id == "isinstance":
            names = (n for n in ast.walk(node.args[1]) if isinstance(n, ast.Name))
            yield from ((name.id, node.lineno) for name in names)


def test_no_type_tests_of_parts():
    parts, wrong = classes_of_parts(), []
    for name, module in modules().items():
        allowed = set().union(*(table.get(name, ()) for table in (ARGUMENTS, LEAVES)))
        wrong += [
            f"{name}:{line} isinstance of {tested}"
            for tested, line in isinstance_calls(module)
            if tested in parts - allowed and name != CAPABILITIES
        ]
    assert not wrong, "\n".join(wrong)


def test_no_hasattr():
    wrong = [
        f"{name}:{node.lineno}"
        for name, module in modules().items()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "hasattr"
    ]
    assert not wrong


def annotations(module):
    """Every annotation of an argument, a result or a field."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            yield node.returns
        elif isinstance(node, ast.AnnAssign):
            yield node.annotation


def test_few_annotations_say_nothing():
    every = [a for module in modules().values() for a in annotations(module)]
    empty = [a for a in every if isinstance(a, ast.Name) and a.id == "Any"]
    assert len(empty) < MOST_ANY * len(every)
