"""Runs the examples, and keeps what they print and draw for the gallery of the documentation.

    python -m scripts.examples                  all of them, as `make examples` does
    python -m scripts.examples outliers         one; --to FOLDER for another place

Each runs in a process and an empty folder of its own, with warnings as errors. The site is built
from what is kept here; a test compares the text with that of a new run.
"""

import argparse
import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "docs" / "gallery"
# Text stays text, and the same picture is the same file.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "cavity", "figure.constrained_layout.use": True}


def shorter(picture: str) -> str:
    """An SVG with two digits after each point, which no eye can tell from six."""
    return re.sub(r"(\d\.\d{2})\d+", r"\1", picture)


def run(name: str, folder: Path) -> None:
    """Runs one example in an empty folder; writes NAME.txt and, of a figure, NAME.svg."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.show = lambda: None  # figures are kept instead
    said = io.StringIO()
    kept = (contextlib.redirect_stdout(said), matplotlib.rc_context(STYLE))
    with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty), kept[0], kept[1]:
        runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        for number in plt.get_fignums():
            drawn = io.StringIO()
            plt.figure(number).savefig(drawn, metadata={"Date": None})
            (folder / f"{name}.svg").write_text(shorter(drawn.getvalue()))
    (folder / f"{name}.txt").write_text(said.getvalue())


def main() -> int:
    """Runs one example here, or each of several in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--to", type=Path, default=GALLERY)
    given = parser.parse_args()
    folder = given.to.resolve()
    if len(given.names) == 1:
        run(given.names[0], folder)
        return 0
    failed = []
    for name in given.names or sorted(p.stem for p in (ROOT / "examples").glob("*.py")):
        print(name, flush=True)
        command = [sys.executable, "-W", "error", __file__, name, "--to", str(folder)]
        environment = os.environ | {"JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cpu")}
        if subprocess.run(command, env=environment, check=False).returncode:
            failed.append(name)
    if failed:
        print("failed:", *failed)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
