"""`__all__` is what a module gives: complete, importable, sorted."""

import importlib
import inspect
import subprocess
import sys
import tomllib

import pytest

from tests.meta.source import modules

PACKAGES = [name for name, module in modules().items() if module.is_package]
each_package = pytest.mark.parametrize("name", PACKAGES)


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
    }


@each_package
def test_all_is_importable(name):
    package = importlib.import_module(name)
    missing = [n for n in getattr(package, "__all__", []) if not hasattr(package, n)]
    assert not missing


@each_package
def test_all_is_complete(name):
    package = importlib.import_module(name)
    assert public(package) <= set(getattr(package, "__all__", []))


@each_package
def test_all_is_sorted_without_repeats(name):
    exported = list(getattr(importlib.import_module(name), "__all__", []))
    by = None if name == "cavity" else order  # the root's is made from its stub
    assert exported == sorted(set(exported), key=by)


def test_root_shows_what_it_exports():
    """Names that load lazily are listed by `dir` too, in a process that has used none."""
    code = "import cavity; assert set(cavity.__all__) <= set(dir(cavity)), dir(cavity)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_version_is_that_of_the_project(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    cavity = importlib.import_module("cavity")
    assert cavity.__version__ == project["version"]
