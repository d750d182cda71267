"""The programs of the README and of the pages under docs, checked by pyright in basic mode.

Blocks marked ```python of a page are one program. It keeps the lines of its page, so that faults
are told with these. Programs that are wrong on purpose follow, of which each must be found.
Usage: python scripts/check_programs.py [PAGE ...]
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SETTINGS = {
    "pythonVersion": "3.11",
    "typeCheckingMode": "basic",
    "extraPaths": [str(ROOT / "src")],
    "reportMissingImports": "warning",
    "reportMissingModuleSource": "none",
}
FITTED = "import cavity\nmodel = cavity.GPRegressor()\n"
# Programs with a fault in their last line.
WRONG = (
    "import cavity\ncavity.GPRegressor(kernel=3)",
    "import cavity\ncavity.GPClassifier(likelihood=0.5)",
    "import cavity\ncavity.GPForecaster(max_iterations='many')",
    "import cavity\ncavity.GPRegressor(kernl='rbf')",
    "import cavity\ncavity.GP(kernel=3, likelihood=cavity.likelihoods.Gaussian())",
    "import cavity\ncavity.suggest(None, [[1.0]], criterion=3)",
    f"{FITTED}mean, deviation = model.predict([[1.0]]).missing",
    f"{FITTED}model.predict([[1.0]], return_std=True).mean()",
    f"{FITTED}model.predict([[1.0]], return_cov=True).mean()",
    f"{FITTED}model.predict_latent([[1.0]], return_std=True).mean()",
    "import cavity\ncavity.GPEmbedding().transform([[1.0]], return_std=True).mean()",
)
# Programs of overloads, which are right.
RIGHT = (
    f"{FITTED}model.predict([[1.0]]).mean()",
    f"{FITTED}mean, cov = model.predict([[1.0]], return_cov=True)\ncov.mean()",
    f"{FITTED}flag = len('text') > 3\nmodel.predict([[1.0]], return_std=flag)",
)


class Fault(NamedTuple):
    """A fault that pyright finds.

    Attributes:
        program: the name of the program.
        line: from 1 on.
        message: what is wrong.
    """

    program: str
    line: int
    message: str


def program_of(page: str) -> str:
    """The code of a page, in its lines; all other lines are empty."""
    kept = [""] * (page.count("\n") + 1)
    for block in BLOCK.finditer(page):
        first = page.count("\n", 0, block.start(1))
        lines = block.group(1).split("\n")
        kept[first : first + len(lines)] = lines
    return "\n".join(kept)


def faults_of(programs: dict[str, str]) -> list[Fault]:
    """The faults of programs by name.

    Raises:
        RuntimeError: where pyright does not run.
    """
    with tempfile.TemporaryDirectory() as folder:
        named = {f"program_{i}.py": name for i, name in enumerate(programs)}
        for file, name in named.items():
            (Path(folder) / file).write_text(programs[name])
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(SETTINGS))
        pyright = Path(sys.executable).with_name("pyright")
        command = [pyright, "--pythonpath", sys.executable, "--outputjson", "--project", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            said = json.loads(done.stdout)["generalDiagnostics"]
        except ValueError:
            raise RuntimeError(f"pyright said: {done.stdout}{done.stderr}") from None
        return [
            Fault(
                named[Path(each["file"]).name],
                each["range"]["start"]["line"] + 1,
                each["message"].split("\n")[0],
            )
            for each in said
            if each["severity"] == "error"
        ]


def pages(given: list[str]) -> dict[str, str]:
    """The programs of pages by their names; of all of them where none is given."""
    every = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    chosen = [Path(name).resolve() for name in given] or every
    programs = {str(p.relative_to(ROOT)): program_of(p.read_text()) for p in chosen}
    return {name: program for name, program in programs.items() if program.strip()}


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def main(given: list[str]) -> int:
    """Says what is wrong; 1 where something is."""
    programs = pages(given)
    samples = {f"wrong {i}": text for i, text in enumerate(WRONG)}
    right = {f"right {i}": text for i, text in enumerate(RIGHT)}
    faults = faults_of({**programs, **samples, **right})
    told = [fault for fault in faults if fault.program not in samples]
    found = {(f.program, f.line) for f in faults}
    missed = [text for name, text in samples.items() if (name, text.count("\n") + 1) not in found]
    for fault in told:
        _say(f"{fault.program}:{fault.line}: {fault.message}")
    for text in missed:
        _say(f"no fault is found in the last line of: {text!r}")
    if not (told or missed):
        _say(f"{len(programs)} pages, {len(samples)} wrong programs: all as they should be")
    return 1 if told or missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
