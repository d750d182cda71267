"""The code of the README, the guides and the docstrings runs as printed, and so do the examples.

Examples print what the gallery shows: words exactly, and numbers up to rounding of their last
digits, which differ between processors.

Blocks marked ```python run in order, one page after another's own start; other libraries' code
is marked ```py and is not ours to run.
"""

import doctest
import importlib
import inspect
import re
import subprocess
import sys

import pytest

from cavity import kernels, likelihoods, means
from cavity.estimators.registry import LIKELIHOODS
from cavity.families.weights import PRIORS as WEIGHT_PRIORS
from cavity.kernels.words import WORDS
from cavity.parameters.priors_text import NAMES
from tests.meta.source import ROOT, modules

README = ROOT / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [p for p in sorted((ROOT / "docs").rglob("*.md")) if BLOCK.search(p.read_text())]
WITH_DOCTEST = [name for name, m in modules().items() if ">>>" in m.text]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
GALLERY = ROOT / "docs" / "gallery"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def name(path):
    return str(path.relative_to(ROOT))


def run(command, folder):
    """Runs in an empty folder, and shows the end of what was said when it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def run_page(page, folder):
    script = folder / "page.py"
    script.write_text("\n".join(BLOCK.findall(page.read_text())))
    run([sys.executable, "-W", "error", str(script)], folder)


@pytest.mark.slow
def test_readme(tmp_path):
    run_page(README, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page(page, tmp_path):
    run_page(page, tmp_path)


@pytest.mark.parametrize("module", WITH_DOCTEST)
def test_docstring_examples(module):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    report = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=flags)
    for example in doctest.DocTestFinder().find(importlib.import_module(module)):
        runner.run(example, out=report.append)
    assert not runner.failures, "".join(report)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_example(example, tmp_path):
    command = [sys.executable, "-W", "error", "-m", "scripts.examples", example.stem]
    run([*command, "--to", str(tmp_path)], ROOT)
    said = (tmp_path / f"{example.stem}.txt").read_text()
    kept = (GALLERY / f"{example.stem}.txt").read_text()
    assert words(said) == words(kept)
    for new, old in zip(NUMBER.findall(said), NUMBER.findall(kept), strict=True):
        unit = 10.0 ** -len(old.partition(".")[2])
        assert abs(float(new) - float(old)) <= max(2 * unit, 0.03 * abs(float(old))), said


def words(text):
    """A text without its numbers, and without the space around them."""
    return " ".join(NUMBER.sub(" # ", text).split())


def test_gallery_has_every_example():
    index = (GALLERY / "index.md").read_text()
    for example in EXAMPLES:
        stem = example.stem
        assert f":link: {stem}\n" in index, f"{stem} is not in docs/gallery/index.md"
        assert f"```{{example}} {stem}\n" in (GALLERY / f"{stem}.md").read_text()
        for end in ("txt", "svg"):
            size = (GALLERY / f"{stem}.{end}").stat().st_size
            assert 0 < size < 100_000, f"{stem}.{end} has {size} bytes; make it smaller"
        assert len(example.read_text().splitlines()) <= 60


def test_every_name_has_its_place():
    page = (ROOT / "docs" / "names.md").read_text()
    classes = [
        name
        for place, base in (
            (kernels, kernels.AbstractKernel),
            (likelihoods, likelihoods.AbstractLikelihood),
            (means, means.AbstractMean),
        )
        for name in place.__all__
        if inspect.isclass(getattr(place, name))
        and issubclass(getattr(place, name), base)
        and not name.startswith("Abstract")
    ]
    known = {*WORDS, *LIKELIHOODS, *NAMES, *WEIGHT_PRIORS} | set(classes) - {"Integrated"}
    left = {name for name in known if f"`{name}`" not in page and f".{name}>`" not in page}
    assert not left, "run python -m scripts.names"
