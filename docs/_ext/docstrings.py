"""Renders the package's docstrings: Google sections whose text is Markdown with LaTeX.

A docstring writes mathematics as `$...$` and `$$...$$`, code as `...` in single backticks, and an
indented example after a line that ends with a colon. This turns them into reStructuredText
before napoleon reads the sections.
"""

import itertools
import re

# Displayed mathematics, code, inline mathematics; what is none of them is prose.
TOKEN = re.compile(r"(\$\$.+?\$\$|``[^`]+``|:\w+:`[^`]+`|`[^`]+`|\$[^$]+?\$)", re.DOTALL)
SECTION = re.compile(r"(Args|Attributes|Examples?|Note|Raises|References|Returns|To implement):$")


def display(source, indent):
    """A display-mathematics directive at the depth of the paragraph it stands in."""
    body = " ".join(source.strip("$").split())
    return f"\n\n{indent}.. math::\n\n{indent}   {body}\n\n{indent}"


def prose(text):
    """Text in which characters that would start reStructuredText markup stand for themselves."""
    text = re.sub(r"\|", r"\\|", text)
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", text)


def paragraph(text):
    """One docstring's text as reStructuredText."""
    parts = []
    for i, part in enumerate(TOKEN.split(text)):
        if not i % 2:
            parts.append(prose(part))
        elif part.startswith("$$"):
            line = "".join(parts).rsplit("\n", 1)[-1]
            parts.append(display(part, re.match(r"\s*", line).group()))
        elif part.startswith("$"):
            parts.append(f":math:`{' '.join(part.strip('$').split())}`")
        else:
            parts.append(part if part.startswith((":", "``")) else f"`{part}`")
    return "".join(parts)


def depth(line):
    return len(line) - len(line.lstrip())


def literal(lines):
    """Marks an indented block after a line that ends with a colon as code, untouched by markup.

    Yields pairs of whether the lines are code, and the lines.
    """
    text, i = [], 0
    while i < len(lines):
        line = lines[i]
        text.append(line)
        opens = line.rstrip().endswith(":") and not SECTION.match(line.strip())
        if opens and i + 2 < len(lines) and not lines[i + 1].strip():
            end = i + 2
            while end < len(lines) and (not lines[end].strip() or depth(lines[end]) > depth(line)):
                end += 1
            if end > i + 2 and lines[i + 2].strip():
                text[-1] = line.rstrip() + ":"
                yield False, text
                yield True, ["", *lines[i + 2 : end], ""]
                text, i = [], end
                continue
        i += 1
    yield False, text


def without_tests(lines):
    """Splits doctest lines, in which no markup is looked for, from the text around them."""
    code, marked = False, []
    for line in lines:
        code = line.lstrip().startswith(">>>") or (code and bool(line.strip()))
        marked.append((code, line))
    for is_code, group in itertools.groupby(marked, key=lambda pair: pair[0]):
        yield is_code, [line for _, line in group]


def document(app, what, name, obj, options, lines):
    """Rewrites a docstring's lines in place; called by autodoc before napoleon."""
    if what == "module" and lines:
        lines[0] = re.sub(r"^Floor \d: (.)", lambda m: m.group(1).upper(), lines[0])
    if what == "class":  # the fields of a module are the arguments of its constructor
        lines[:] = ["Args:" if line == "Attributes:" else line for line in lines]
    result = []
    for code, block in literal(list(lines)):
        for test, chunk in [(True, block)] if code else without_tests(block):
            result += chunk if test else paragraph("\n".join(chunk)).split("\n")
    lines[:] = result


# An array annotation is a union of JAX's and numpy's arrays; it is written Float[Array, "N D"].
SHORTER = (
    (re.compile(r"~?\b(jaxtyping|jaxlib\._jax|numpy|jax)\."), ""),
    (re.compile(r"(\w+)\[Array, ('[^']*')\] \| \1\[ndarray, \2\]"), r"\1[Array, \2]"),
    (re.compile(r"\bArray \| ndarray\b"), "Array"),
)


def shorten(annotation):
    for pattern, replacement in SHORTER:
        annotation = pattern.sub(replacement, annotation)
    return annotation


def sign(app, what, name, obj, options, signature, returns):
    """Shortens the annotations of a signature to what the source says."""
    return signature and shorten(signature), returns and shorten(returns)


def skip(app, what, name, obj, skipped, options):
    """Leaves out methods of scikit-learn alone: metadata routing, data frames as output."""
    return True if re.fullmatch(r"set_(\w+_request|output)|get_metadata_routing", name) else None


def setup(app):
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", document, priority=400)  # napoleon: 500
    app.connect("autodoc-process-signature", sign)
    app.connect("autodoc-skip-member", skip)
    return {"version": "1", "parallel_read_safe": True}
