"""Makes the pictures of the guide on plots: runs its program and keeps what each part draws.

python docs/guides/plots/make.py
"""

import re
from pathlib import Path

from matplotlib import pyplot

from cavity.report.svg import in_style, svg_of

GUIDE = Path(__file__).parent.parent / "plots.md"
PART = re.compile(r"^```python\n(?P<code>.*?)^```|^!\[[^\]]*\]\((?P<file>[^)]*)\)", re.M | re.S)


def main() -> None:
    """Writes every picture beside this file."""
    names: dict[str, object] = {}
    pyplot.switch_backend("agg")
    with in_style():
        for part in PART.finditer(GUIDE.read_text()):
            if part["code"] is not None:
                pyplot.close("all")
                exec(compile(part["code"], str(GUIDE), "exec"), names)  # noqa: S102
            else:
                file = GUIDE.parent / part["file"]
                file.write_text(svg_of(pyplot.gcf()) + "\n")
                print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
