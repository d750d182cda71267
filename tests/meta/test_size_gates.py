"""Size gates: a file has at most 400 lines, a function 60, nesting 3.

How it is counted. A file's lines are all its lines. A function's lines run from its `def` to
its last line, its docstring left out; a nested function counts in the one around it and for
itself. Nesting is the number of compound statements (`if`, `for`, `while`, `with`, `try`,
`match`) around a statement within its function; `elif` and `except` stay on the level of their
`if` and `try`, and a nested function or class starts again at zero.

When a gate bites, look for the missing idea; do not cut a function in two halves that only make
sense together.
"""

import ast
import functools

from tests.meta.source import ROOT

LINES_PER_FILE = 400
LINES_PER_FUNCTION = 60
NESTING = 3

# tuples: asking each node of the source for a union of types takes seconds
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPE = (*FUNCTION, ast.ClassDef, ast.Lambda)
COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
BODIES = ("body", "orelse", "finalbody", "handlers", "cases")

FOLDERS = ("src", "tests", "benchmarks", "examples", "docs")
SOURCES = sorted(p for name in FOLDERS for p in (ROOT / name).rglob("*.py"))


def name(path):
    return str(path.relative_to(ROOT))


@functools.cache
def functions(path):
    """Of a file; only statements have functions in them, so that expressions are passed over."""
    found, left = [], [ast.parse(path.read_text())]
    while left:
        node = left.pop()
        left += [child for part in BODIES for child in getattr(node, part, ())]
        found += [node] if isinstance(node, FUNCTION) else []
    return found


def length(function):
    """Lines of a function without its docstring."""
    total = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        total -= first.end_lineno - first.lineno + 1
    return total


def nesting(node):
    """The deepest stack of compound statements below a node."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, SCOPE):
            continue
        is_elif = isinstance(child, ast.If) and isinstance(node, ast.If) and child in node.orelse
        step = isinstance(child, COMPOUND) and not (is_elif and len(node.orelse) == 1)
        deepest = max(deepest, step + nesting(child))
    return deepest


def test_no_file_is_too_long():
    sizes = {name(p): len(p.read_text().splitlines()) for p in SOURCES}
    assert not {path: size for path, size in sizes.items() if size > LINES_PER_FILE}


def test_no_function_is_too_long():
    sizes = {f"{name(p)}:{f.name}": length(f) for p in SOURCES for f in functions(p)}
    assert not {place: size for place, size in sizes.items() if size > LINES_PER_FUNCTION}


def test_nothing_is_nested_too_deeply():
    depths = {f"{name(p)}:{f.name}": nesting(f) for p in SOURCES for f in functions(p)}
    assert not {place: depth for place, depth in depths.items() if depth > NESTING}


def test_the_count_of_nesting():
    code = """
def f(x):
    for a in x:          # 1
        if a:            # 2
            pass
        elif x:          # 2
            with a:      # 3
                pass
        else:
            if x:        # 2: the same tree as an elif
                pass
    def g():
        try:             # 1 of g
            pass
        except OSError:  # stays on 1
            pass
"""
    outer, inner = (n for n in ast.walk(ast.parse(code)) if isinstance(n, FUNCTION))
    assert (nesting(outer), nesting(inner)) == (3, 1)
