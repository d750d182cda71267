"""Formulas as MathML, which browsers show by themselves: no script and no network is needed."""

import functools

from docutils import nodes
from math_core import LatexToMathML
from sphinx.util.math import get_node_equation_number


@functools.cache
def converter():
    return LatexToMathML()


def convert(source, *, display):
    """MathML of a formula in LaTeX; one that is not understood stops the build."""
    return converter().convert_with_local_state(source, displaystyle=display)


def visit_inline(translator, node):
    translator.body.append(convert(node.astext(), display=False))
    raise nodes.SkipNode


def visit_block(translator, node):
    start = translator.starttag(node, "div", CLASS="math formula")
    number = ""
    if node["number"]:
        number = f'<span class="eqno">({get_node_equation_number(translator, node)})</span>'
    translator.body.append(f"{start}{number}{convert(node.astext(), display=True)}</div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
