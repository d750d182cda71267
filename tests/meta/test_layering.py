"""Imports point downwards only, and each floor has its own third-party packages.

The folders of the package are the floors. A module imports from its own floor or below; inside
`kernels`, `inducing`, `likelihoods` and `models`, siblings import only `base` (inducing: also
`gaussian_integral`; likelihoods: `log_link`, `predictive` and `support`; models:
`coupled_classes`, `deep`, `inputs`, `latent`, `latent_gp`, `linear`, `posterior`, `process` and
`state_space`);
`kernels.text_form`, its neighbours, `kernels.expectations` and `kernels.random_fourier`, which
name kernels, import them.
No module but the root's own `__init__` imports the root package.
Floors 0 to 3 import only jax, numpy, equinox and jaxtyping; solvers of fixed points may use scipy
too. scipy, optax, scikit-learn, threadpoolctl and blackjax enter at floor 4, all inside
functions; the rest of the dependencies at floor 5, dask and distributed inside functions.
`drawing` uses numpy, and matplotlib inside functions.
"""

import ast
import sys
import tomllib

from tests.meta.source import ROOT, modules

FLOORS = {
    "numerics": 0,
    "parameters": 0,
    "drawing": 0,
    "kernels": 1,
    "means": 1,
    "inducing": 1,
    "likelihoods": 1,
    "weights": 1,
    "inference": 2,
    "models": 3,
    "learning": 4,
    "families": 4,
    "persistence": 5,
    "engines": 5,
    "columns": 5,
    "estimators": 5,
    "tables": 5,
    "plots": 5,
    "report": 5,
    "cli": 5,
    "diagnostics": 5,
    "fitting": 5,
    "initialisation": 5,
    "__main__": 5,
    "_version": 5,
}
SHARED_BY_SIBLINGS = {
    "kernels": {"base", "parts"},
    "inducing": {"base", "gaussian_integral"},
    "likelihoods": {"base", "by_quadrature", "capabilities", "log_link", "predictive", "support"},
    "models": {
        "base",
        "contributions",
        "coupled_classes",
        "drawn_weights",
        "deep",
        "inputs",
        "latent",
        "latent_gp",
        "linear",
        "mixture_posterior",
        "network",
        "posterior",
        "process",
        "state_space",
    },
}
COLLECTORS = (
    "cavity.kernels.words",
    "cavity.kernels.text_syntax",
    "cavity.kernels.text_form",
    "cavity.kernels.text_writing",
    "cavity.kernels.expectations",
    "cavity.kernels.random_fourier",
    "cavity.kernels.part_sums",
    "cavity.kernels.sum_over",
)
CORE = {"jax", "numpy", "equinox", "jaxtyping"}
LEARNING = CORE | {"scipy", "optax", "sklearn", "threadpoolctl", "blackjax"}
LAZY_ON_FLOOR_4 = {"scipy", "optax", "sklearn", "blackjax"}  # each costs import time
LAZY_ON_FLOOR_5 = {"dask", "distributed"}  # an extra


def dependencies():
    """What pyproject.toml lets users have, by the name one imports."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = project["dependencies"] + extras["mcmc"] + extras["dask"]
    names = {line.split(">")[0].strip() for line in declared}
    return {"sklearn" if name == "scikit-learn" else name for name in names}


def folder(name):
    """The first part of a dotted name below the root package, None for the root itself."""
    return name.split(".")[1] if "." in name else None


def imports(module):
    """Pairs of an imported dotted name and whether it waits in a function, or is for types."""
    inside = {
        id(node)
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or for_types(function)
        for node in ast.walk(function)
    }
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name}: relative import on line {node.lineno}"
            yield from ((resolve(node.module, a.name), id(node) in inside) for a in node.names)


def for_types(node):
    """True for `if TYPE_CHECKING`."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def resolve(package, name):
    """The module that `from package import name` reads."""
    full = f"{package}.{name}"
    return full if full in modules() else package


def own(module):
    return [name for name, _ in imports(module) if name.split(".")[0] == "cavity"]


INNER = [module for name, module in modules().items() if name != "cavity"]


def test_every_module_belongs_to_a_floor():
    assert not [m.name for m in INNER if folder(m.name) not in FLOORS]


def test_no_import_of_the_root_package():
    assert not [m.name for m in INNER if "cavity" in own(m)]


def test_imports_point_downwards():
    upwards = []
    for module in INNER:
        floor = FLOORS[folder(module.name)]
        higher = {name for name in own(module) if "." in name and FLOORS[folder(name)] > floor}
        upwards += [f"{module.name} (floor {floor}) imports {name}" for name in sorted(higher)]
    assert not upwards


def test_siblings_import_only_what_they_share():
    strange = []
    for module in INNER:
        mine = folder(module.name)
        if (
            mine not in SHARED_BY_SIBLINGS
            or module.is_package
            or module.name.startswith(COLLECTORS)
        ):
            continue
        shared = SHARED_BY_SIBLINGS[mine]
        siblings = {name for name in own(module) if folder(name) == mine}
        private = {n for n in siblings if n.split(".")[2:3] not in [[s] for s in shared]}
        strange += [f"{module.name} imports {name}" for name in sorted(private)]
    assert not strange


def test_third_party_packages_by_floor():
    wrong = []
    for module in INNER:
        floor = FLOORS[folder(module.name)]
        allowed = CORE if floor <= 3 else LEARNING if floor == 4 else dependencies()
        solves = module.name.startswith("cavity.inference.solvers.")
        allowed = allowed | {"scipy"} if solves else allowed
        draws = folder(module.name) == "drawing"
        allowed = {"numpy", "matplotlib"} if draws else allowed
        # the names of pictures load lazily, as those of the root do
        allowed = allowed | {"lazy_loader"} if module.name == "cavity.plots" else allowed
        # which is there where times of its kind were saved
        allowed = (
            allowed | {"pandas"} if module.name == "cavity.estimators.kept_times" else allowed
        )
        used = {(name.split(".")[0], late) for name, late in imports(module)}
        used = {(name, late) for name, late in used if name not in sys.stdlib_module_names}
        strange = {name for name, _ in used} - allowed - {"cavity"}
        wrong += [f"{module.name} (floor {floor}) imports {name}" for name in sorted(strange)]
        late = LAZY_ON_FLOOR_4 | {"matplotlib"} if floor <= 4 else LAZY_ON_FLOOR_5
        early = {name for name, inside in used if not inside} & late
        wrong += [f"{module.name} must import {n} inside functions" for n in sorted(early)]
    assert not wrong


def without_ends(needs):
    """What is left of a graph of imports when everything that needs nothing left is removed."""
    while needs:
        done = {name for name, wanted in needs.items() if not wanted & needs.keys()}
        if not done:
            return needs
        needs = {name: wanted for name, wanted in needs.items() if name not in done}
    return {}


def test_no_import_cycle():
    """Every chain of imports ends: no module needs itself."""
    assert not sorted(without_ends({m.name: set(own(m)) - {m.name} for m in INNER}))


def test_no_circle_of_top_folders():
    """The floors hold between folders too: no two folders import each other."""
    needs = {}
    for module in INNER:
        wanted = {folder(name) for name in own(module) if "." in name}
        needs.setdefault(folder(module.name), set()).update(wanted - {folder(module.name)})
    assert not without_ends(needs)


def room(name):
    """A folder of a floor, or a loose file of it: `learning.data` of its modules."""
    parts = name.split(".")[1:]
    return ".".join(parts[:2])


def test_no_circle_of_rooms():
    """Nor do the folders of a floor import each other, in however many steps."""
    needs = {}
    for module in INNER:
        if module.is_package:
            continue
        wanted = {room(name) for name in own(module) if "." in name} - {room(module.name)}
        needs.setdefault(room(module.name), set()).update(wanted)
    assert not without_ends(needs)


def test_dependencies_are_those_of_the_floors():
    assert dependencies() >= LEARNING
