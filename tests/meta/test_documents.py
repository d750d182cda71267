"""The code of the README, the guides and the docstrings runs as printed, and so do the examples.

Blocks marked ```python run in order, one page after another's own start; other libraries' code
is marked ```py and is not ours to run.
"""

import doctest
import importlib
import re
import subprocess
import sys

import pytest

from tests.meta.source import ROOT, modules

README = ROOT / "README.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [p for p in sorted((ROOT / "docs").rglob("*.md")) if BLOCK.search(p.read_text())]
WITH_DOCTEST = [name for name, m in modules().items() if ">>>" in m.text]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


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
    run([sys.executable, "-W", "error", str(example)], tmp_path)
