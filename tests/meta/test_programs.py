"""`scripts/check_programs.py`, which `make lint` runs: a page becomes a program in its lines."""

import importlib.util

import pytest

from tests.meta.source import ROOT

SCRIPT = ROOT / "scripts" / "check_programs.py"
PAGE = """# A title

```python
import cavity
```

Words.

```text
cavity fit
```

```python
cavity.fit

cavity.infer
```
"""


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("check_programs", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_a_page_is_one_program_in_its_lines(script):
    lines = script.program_of(PAGE).split("\n")
    assert len(lines) == PAGE.count("\n") + 1
    code = {line: text for line, text in enumerate(lines, 1) if text}
    assert code == {4: "import cavity", 14: "cavity.fit", 16: "cavity.infer"}


def test_the_pages_with_programs_are_checked(script):
    named = script.pages([])
    assert "README.md" in named
    assert "docs/guides/regression.md" in named
    assert "docs/theory/notation.md" not in named


@pytest.mark.slow
def test_faults_are_told_with_their_lines(script):
    wrong = {"page.md": "import cavity\n\ncavity.GPRegressor(kernel=3)\n"}
    (fault,) = script.faults_of(wrong)
    assert (fault.program, fault.line) == ("page.md", 3)
    assert "kernel" in fault.message


def test_lint_runs_it():
    assert "scripts/check_programs.py" in (ROOT / "Makefile").read_text()
