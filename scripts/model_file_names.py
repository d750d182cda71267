"""Writes the tables of docs/model-files.md: names that a model file may hold, and their fields.

`python scripts/model_file_names.py` writes them; with `--check` it fails where they are others.
"""

import sys
from pathlib import Path

from cavity.persistence.known_classes import fields_of, known_classes

PAGE = Path(__file__).parents[1] / "docs" / "model-files.md"
START, END = "<!-- names -->\n", "<!-- end of names -->\n"
GROUPS = {
    "kernels": "Kernels",
    "means": "Mean functions",
    "inducing": "Inducing variables",
    "likelihoods": "Likelihoods",
    "weights": "Priors of weights",
    "models": "Models and posteriors",
    "inference": "Parts of posteriors",
    "parameters": "Parts of priors",
    "methods": "Methods",
    "priors": "Priors of parameters",
    "fits": "What is known of a fit",
}


def tables() -> str:
    """A table for each group of names."""
    known = known_classes()
    found = []
    for group, title in GROUPS.items():
        rows = [
            f"| `{name}` | {', '.join(f'`{field}`' for field in fields_of(cls)) or 'none'} |"
            for name, cls in sorted(known.items())
            if name.split(".")[0] == group
        ]
        found.append("\n".join([f"### {title}", "", "| name | fields |", "|---|---|", *rows]))
    missing = {name.split(".")[0] for name in known} - set(GROUPS)
    if missing:
        raise SystemExit(f"groups of names without a title: {', '.join(sorted(missing))}")
    return "\n\n".join(found) + "\n"


def with_tables(text: str) -> str:
    """The text of the page with the tables of now."""
    before, rest = text.split(START)
    return before + START + "\n" + tables() + "\n" + END + rest.split(END)[1]


def main() -> None:
    """Writes the page, or checks it."""
    text = PAGE.read_text()
    new = with_tables(text)
    if sys.argv[1:] == ["--check"]:
        raise SystemExit(0 if new == text else f"{PAGE} has other names: write them anew")
    PAGE.write_text(new)


if __name__ == "__main__":
    main()
