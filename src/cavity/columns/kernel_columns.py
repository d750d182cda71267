"""Columns in the texts of kernels."""

import ast
from collections.abc import Mapping, Sequence

from cavity.numerics.text import one_line


def with_numbers(kernel: str, places: Mapping[str, Sequence[int]]) -> str:
    """A kernel's text with the numbers of columns in the place of names.

    Args:
        kernel: such as `rbf[age, "body mass index"]`.
        places: numbers by name, several where a column is several inputs.

    Returns:
        The text as it is where it is no expression: who reads it says what is wrong.
    """
    try:
        tree = ast.parse(one_line(kernel), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return kernel
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            index = node.slice
            listed = index.elts if isinstance(index, ast.Tuple) else [index]
            found = []
            for each in listed:
                name = str(getattr(each, "id", getattr(each, "value", "")))
                found += map(ast.Constant, places[name]) if name in places else [each]
            node.slice = found[0] if len(found) == 1 else ast.Tuple(found, ast.Load())
    return ast.unparse(tree)
