"""`__all__` is what a module gives: complete, importable, sorted."""

import importlib
import inspect
import re
import subprocess
import sys
import tomllib

import pytest

from tests.meta.source import modules

# Modules that users import from, though they are no packages.
ALONE = ("cavity.means", "cavity.parameters.priors")


def packages():
    named = [name for name, module in modules().items() if module.is_package or name in ALONE]
    return [importlib.import_module(name) for name in named]


def order(name):
    """Constants, then classes, then the rest; each part by natural order, as ruff sorts."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2
    digits = "".join(c if c.isdigit() else " " for c in name).split()
    letters = "".join(" " if c.isdigit() else c for c in name).split()
    return kind, letters[:1], [int(d) for d in digits], name


def public(module):
    """Names without an underscore of what the package itself defines, modules left out."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and str(getattr(value, "__module__", "")).startswith("cavity")
        and (module.__name__ not in ALONE or value.__module__ == module.__name__)
    }


def test_nothing_else_is_listed():
    """Neither submodules nor what a namespace imports; `dir` sorts by the alphabet."""
    spaces = [n for n in importlib.import_module("cavity").__all__ if n[0].islower()]
    found = [importlib.import_module(f"cavity.{n}") for n in spaces if f"cavity.{n}" in modules()]
    assert len(found) > 8
    for module in [*found, *map(importlib.import_module, ALONE)]:
        assert dir(module) == sorted(module.__all__), module.__name__


def exported(package):
    return list(getattr(package, "__all__", []))


def test_all_is_importable():
    missing = [(p.__name__, n) for p in packages() for n in exported(p) if not hasattr(p, n)]
    assert not missing


def test_all_is_complete():
    hidden = {p.__name__: public(p) - set(exported(p)) for p in packages()}
    assert not {name: left for name, left in hidden.items() if left}


def test_all_is_sorted_without_repeats():
    for package in packages():
        # the root's is made from its stub
        by = None if package.__name__ == "cavity" else order
        assert exported(package) == sorted(set(exported(package)), key=by), package.__name__


def test_submodules_of_the_root_need_no_other_import():
    """`cavity.parameters.priors` lies in `cavity.parameters`, which must have loaded it."""
    names = "parameters.priors.flat", "kernels.RBF", "inducing.Points", "diagnostics.bracket"
    code = "; ".join(["import cavity", *(f"cavity.{name}" for name in names)])
    subprocess.run([sys.executable, "-c", code], check=True)


def test_root_shows_what_it_exports():
    """Names that load lazily are listed by `dir` too, in a process that has used none."""
    code = "import cavity; assert set(cavity.__all__) <= set(dir(cavity)), dir(cavity)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_version_is_that_of_the_project(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    cavity = importlib.import_module("cavity")
    assert cavity.__version__ == project["version"]


@pytest.mark.parametrize(
    ("package", "old", "new"),
    [
        ("models", "FullPosterior", "Posterior"),
        ("models", "DrawsPosterior", "SampledPosterior"),
        ("likelihoods", "DrawsPredictive", "MixturePredictive"),
    ],
)
def test_old_names_say_the_new_ones(package, old, new):
    module = importlib.import_module(f"cavity.{package}")
    with pytest.raises(AttributeError, match=rf"cavity\.{package}\.{old} is now .*\.{new}$"):
        getattr(module, old)
    with pytest.raises(AttributeError, match="no attribute 'Posteriour'"):
        module.Posteriour


def test_names_that_left_the_root_say_where_they_are():
    cavity = importlib.import_module("cavity")
    for old, new in cavity._MOVED.items():
        assert old not in cavity.__all__
        with pytest.raises(AttributeError, match=rf"^cavity\.{old} is now cavity\.{new}$"):
            getattr(cavity, old)
        place, _, name = f"cavity.{new}".rpartition(".")
        assert name in importlib.import_module(place).__all__


def test_the_page_has_the_table_of_names(root):
    """`docs/coming-from.md` and the code name the same places."""
    page = (root / "docs" / "coming-from.md").read_text()
    rows = re.findall(r"^\| `cavity\.(\w+)` \| `cavity\.([\w.]+)` \|$", page, re.MULTILINE)
    assert dict(rows) == importlib.import_module("cavity")._MOVED


def test_the_root_is_small():
    """What most people need, parts and engines of tables among it; the rest is in namespaces."""
    assert len([n for n in importlib.import_module("cavity").__all__ if n[0] != "_"]) <= 44
