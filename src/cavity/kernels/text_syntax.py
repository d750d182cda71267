"""Texts of kernels as expressions of Python: what is one, and the names in it."""

import ast
import json
import keyword
import re

from cavity.kernels.patch_text import CONV
from cavity.numerics.text import one_line

# Bounds of a text: characters, and parts within parts.
LONGEST, DEEPEST = 100_000, 300
SHOWN = 200  # characters of a text in messages


def columns_in(text: str) -> list[str | int]:
    """The columns that a text names, by name or number.

    Raises:
        ValueError: for what is no expression.
    """
    found = []
    for node in ast.walk(expression(text)):
        if isinstance(node, ast.Subscript):
            index = node.slice
            found += index.elts if isinstance(index, ast.Tuple) else [index]
    names = [getattr(node, "id", getattr(node, "value", None)) for node in found]
    return [name for name in names if isinstance(name, str | int)]


def words_in(text: str) -> set[str]:
    """The names of kernels in a text.

    Raises:
        ValueError: for what is no expression.
    """
    tree = expression(text)
    indices = [node.slice for node in ast.walk(tree) if isinstance(node, ast.Subscript)]
    columns = {id(name) for index in indices for name in ast.walk(index)}
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {node.id for node in names if id(node) not in columns}


def gives_values(text: str) -> bool:
    """True if a text gives a parameter a value.

    Raises:
        ValueError: for what is no expression.
    """
    calls = (node for node in ast.walk(expression(text)) if isinstance(node, ast.Call))
    own = (
        call for call in calls if not (isinstance(call.func, ast.Name) and call.func.id == CONV)
    )
    return any(call.keywords for call in own)


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
