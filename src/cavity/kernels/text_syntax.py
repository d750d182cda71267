"""Texts of kernels as expressions of Python: what is one, and the names in it."""

import ast
import json
import keyword
import re
from typing import Any

from cavity.kernels.patch_text import CONV
from cavity.numerics.text import one_line

# Bounds of a text: characters, and parts within parts.
LONGEST, DEEPEST = 100_000, 300
SHOWN = 200  # characters of a text in messages


class Mentioned(ast.NodeVisitor):
    """Columns and words in an expression, and whether it gives a parameter a value.

    Attributes:
        columns: names and numbers of columns.
        words: names of kernels.
        values: whether a kernel has arguments by name.

    Raises:
        ValueError: for what is no expression.
    """

    def __init__(self, text: str):
        self.columns: list[str] = []
        self.words: set[str] = set()
        self.values = False
        self.visit(expression(text))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.columns += filter(None, map(name_of, elements(node.slice)))
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        self.words.add(node.id)

    def visit_Call(self, node: ast.Call) -> None:
        self.values |= bool(node.keywords) and name_of(node.func) != CONV
        self.generic_visit(node)


def name_of(node: ast.expr) -> str | None:
    """A name, in quotes or not, or a whole number; None for any other expression."""
    value = literal(node, str, int)
    name = ast.unparse(node) if value is None else str(value)
    return name if value is not None or name.isidentifier() else None


def elements(node: ast.expr) -> list[ast.expr]:
    """The elements of a tuple, or what is none."""
    return node.elts if isinstance(node, ast.Tuple) else [node]


def literal(node: ast.expr, *kinds: type) -> Any:
    """The value that an expression writes down; None where it is of none of these types."""
    try:
        value = ast.literal_eval(node)
    except (TypeError, ValueError):
        return None
    return value if type(value) in kinds else None


def expression(text: str) -> ast.expr:
    """The expression that a text is.

    Raises:
        ValueError: for what is none, and for one that is too long or too deep; with what to write
            in place of an older form.
    """
    if len(text) > LONGEST:
        raise ValueError(f"cannot read a kernel of {len(text)} characters: the limit is {LONGEST}")
    tree = _syntax(text)
    if tree is None:
        newer = _newer(text)
        if newer != text and _syntax(newer) is not None:
            raise error(text, f"write {newer}")
        raise error(text, _fault(text))
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise error(text, f"more than {DEEPEST} parts within parts")
    return tree


def _syntax(text: str) -> ast.expr | None:
    try:
        return ast.parse(one_line(text), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _fault(text: str) -> str:
    """The fault of a text that is no expression."""
    kernels = "expected a kernel's name, a positive number or '('"
    if not text.strip() or text.rstrip().endswith(("+", "*")):
        return f"{kernels}, found the end"
    if re.search(r"\[\s*\]", text):
        return "no column is named in []"
    try:
        ast.parse(one_line(text), mode="eval")
    except SyntaxError as error:
        return f"{error.msg}; kernels combine with + and *, such as rbf + linear[0]"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or "it is too deep"
    return kernels


def _newer(text: str) -> str:
    """A text in which sizes are tuples and names that are none of Python stand in quotes."""

    def in_quotes(columns: re.Match[str]) -> str:
        names = [name.strip() for name in columns[1].split(",")]
        return f"[{', '.join(map(column_text, names))}]" if all(names) else columns[0]

    text = re.sub(r"\[([^\[\]\"']*)\]", in_quotes, text)
    text = re.sub(r"\b(\d+)\s*x\s*(\d+)\s*x\s*(\d+)\b", r"(\1, \2, \3)", text)
    text = re.sub(r"\b(\d+)\s*x\s*(\d+)\b", r"(\1, \2)", text)
    text = re.sub(r"\bchannels\s*=\s*(joint|pooled)\b", r'channels="\1"', text)
    return re.sub(r"\b(positions|weights)\b(?!\s*=)", r"\1=True", text)


def column_text(name: str) -> str:
    """The name of a column as it stands in a text: in quotes unless Python would read it."""
    plain = name.isidentifier() and name.isascii() and not keyword.iskeyword(name)
    if plain or (name.isdecimal() and name == str(int(name))):
        return name
    return json.dumps(name, ensure_ascii=False)


def error(text: str, what: str) -> ValueError:
    """The error about a text."""
    shown = repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")
    return ValueError(f"cannot read the kernel {shown}: {what}")
