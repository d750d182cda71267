"""Habits that no tool checks for us."""

import ast
import re
import tomllib

import pytest

from tests.meta.source import ROOT, files, modules

THIS = "tests/meta/test_house.py"  # it must spell what it forbids
TEXT = {".py", ".md", ".toml", ".cff", ".sh", ".html", ".jinja", ".csv", ".json", ".txt", ""}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|root|home/\w+|Users/\w+|mnt)/")
LARGEST = 1_000_000

if files() is None:
    pytest.skip("not a git checkout: no list of the repository's files", allow_module_level=True)


def lines():
    """Every line of every text file of the repository, with its place."""
    for path in files():
        if path.suffix in TEXT and str(path) != THIS:
            text = (ROOT / path).read_text(encoding="utf-8")
            yield from ((f"{path}:{i}", line) for i, line in enumerate(text.splitlines(), 1))


def test_nothing_is_left_for_later():
    assert not [place for place, line in lines() if UNFINISHED.search(line)]


def test_no_paths_of_one_machine():
    assert not [place for place, line in lines() if MACHINE_PATH.search(line)]


def test_no_large_file():
    large = {str(p): (ROOT / p).stat().st_size for p in files()}
    assert not {name: size for name, size in large.items() if size > LARGEST}


def test_nothing_built_is_kept():
    built = re.compile(r"(^|/)(__pycache__|\.venv|_build|dist|\.pytest_cache)/|\.(pyc|pkl|whl)$")
    assert not [str(path) for path in files() if built.search(str(path))]


def test_the_power_is_called_power():
    """`alpha` means three other things in this field: no argument and no field has that name.

    Forecasters have the argument names of sktime.
    """
    wrong = []
    for module in modules().values():
        if module.name == "cavity.estimators.forecaster":
            continue
        arguments = [n.arg for n in ast.walk(module.tree) if isinstance(n, ast.arg)]
        fields = [n.target for n in ast.walk(module.tree) if isinstance(n, ast.AnnAssign)]
        names = arguments + [f.id for f in fields if isinstance(f, ast.Name)]
        wrong += [module.name] if "alpha" in names else []
    assert not wrong


def test_every_folder_of_tests_is_a_package():
    """Without `__init__.py` two test files of one name would be taken for the same."""
    folders = {p.parent for p in files() if p.parts[0] == "tests" and p.suffix == ".py"}
    assert not [str(f) for f in folders if not (ROOT / f / "__init__.py").exists()]


def test_one_version_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_links_between_pages_lead_somewhere():
    link = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
    broken = []
    for page in (p for p in files() if p.suffix == ".md"):
        for target in link.findall((ROOT / page).read_text()):
            if not (ROOT / page.parent / target).exists():
                broken.append(f"{page}: {target}")
    assert not broken
