"""The directive `example`: picture, program and output of an example, and both for download.

```{example} outliers
```

Nothing runs: output and picture are those that `make examples` left in `docs/gallery`. The
notebook is made here, of the program's parts between blank lines at its outermost level.
"""

import ast
import itertools
import json
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parent.parent.parent
GALLERY = ROOT / "docs" / "gallery"


class Example(SphinxDirective):
    """The example that the argument names."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        source = ROOT / "examples" / f"{name}.py"
        output, picture = GALLERY / f"{name}.txt", GALLERY / f"{name}.svg"
        for file in (source, output):
            self.env.note_dependency(str(file))
        content = nodes.container(classes=["example"])
        if picture.exists():
            content += nodes.image(uri=f"/gallery/{picture.name}", alt=f"What {name}.py draws")
            self.env.note_dependency(str(picture))
        depth = "../" * self.env.docname.count("/")
        links = "".join(
            f'<a href="{depth}examples/{name}.{end}" download>{text}</a>'
            for end, text in (("py", "Download the program"), ("ipynb", "Download the notebook"))
        )
        code = nodes.literal_block(source.read_text(), source.read_text(), language="python")
        said = nodes.literal_block(output.read_text(), output.read_text(), language="text")
        label = nodes.paragraph("", "It prints:")
        return [
            content,
            code,
            label,
            said,
            nodes.raw("", f'<p class="downloads">{links}</p>', format="html"),
        ]


def cells(source):
    """The docstring, and pieces of the program: imports, definitions, and what is between."""
    tree, lines = ast.parse(source), source.splitlines()
    body = tree.body[1:]
    pieces, start = [], body[0].lineno - 1
    for before, after in itertools.pairwise(body):
        if after.lineno - before.end_lineno > 1 and not is_import(after):
            first = before.end_lineno
            pieces.append("\n".join(lines[start:first]).strip("\n"))
            start = first
    pieces.append("\n".join(lines[start:]).strip("\n"))
    return ast.get_docstring(tree), pieces


def is_import(statement):
    return isinstance(statement, ast.Import | ast.ImportFrom)


def notebook(name):
    """A notebook (nbformat 4.5) of an example; output and picture stand at its end."""
    text, pieces = cells((ROOT / "examples" / f"{name}.py").read_text())
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": (GALLERY / f"{name}.txt").read_text()}
    ]
    picture = GALLERY / f"{name}.svg"
    if picture.exists():
        shown = {"image/svg+xml": picture.read_text()}
        outputs.append({"output_type": "display_data", "data": shown, "metadata": {}})
    made = [{"cell_type": "markdown", "id": "text", "metadata": {}, "source": text}]
    made += [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": outputs if number == len(pieces) - 1 else [],
            "source": piece,
        }
        for number, piece in enumerate(pieces)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write(app, exception):
    """Writes programs and notebooks beside the pages that link to them."""
    if exception or app.builder.format != "html":
        return
    folder = Path(app.outdir) / "examples"
    folder.mkdir(exist_ok=True)
    for source in sorted((ROOT / "examples").glob("*.py")):
        (folder / source.name).write_text(source.read_text())
        if (GALLERY / f"{source.stem}.txt").exists():
            text = json.dumps(notebook(source.stem), indent=1, ensure_ascii=False)
            (folder / f"{source.stem}.ipynb").write_text(text + "\n")


def setup(app):
    app.add_directive("example", Example)
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
