"""Directives of the reference: every public module of a package in one page, and tables of names.

```{modules} cavity.inference
```

```{names} cavity.kernels
```

begins a page with a table of its names, each with its first sentence and a link.
"""

import importlib
import inspect
import pkgutil

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

PLACES = ("", ".diagnostics", ".initialisation", ".fitting")


class Modules(SphinxDirective):
    """One section per module of the package named by its argument."""

    required_arguments = 1

    def run(self):
        prefix, names = public_modules(self.arguments[0])
        table = [row for name in names for row in rows(f"{prefix}{name}")]
        return [*parsed(self, table), *[self.section(prefix, name) for name in names]]

    def section(self, prefix, name):
        section = nodes.section(ids=[nodes.make_id(f"{prefix}{name}")])
        title = ": ".join(part.replace("_", " ") for part in name.split("."))
        section += nodes.title(text=title.capitalize())
        page = f"""```{{eval-rst}}
.. automodule:: {prefix}{name}
   :members:
   :show-inheritance:
   :exclude-members: {", ".join(told for told, _ in told_elsewhere(f"{prefix}{name}"))}
```"""
        self.state.nested_parse(StringList(page.splitlines(), source=name), 0, section)
        return section


class Names(SphinxDirective):
    """A table of the public names of the modules that are given, or of some of these names."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self):
        only = " ".join(self.content).split()
        table = [row for module in self.arguments[0].split() for row in rows(module, only)]
        return parsed(self, table)


def public_modules(package):
    """The prefix of a package's modules, and their names without it, sorted."""
    package = importlib.import_module(package)
    prefix = f"{package.__name__}."
    modules = pkgutil.walk_packages(package.__path__, prefix)
    names = [m.name.removeprefix(prefix) for m in modules if not m.ispkg]
    return prefix, sorted(name for name in names if name[0] != "_")


def rows(module, only=()):
    """A row for each documented class and function that a module exports or, if none, has."""
    found = importlib.import_module(module)
    exported = only or getattr(found, "__all__", None)
    own = (
        []
        if exported
        else [k for k, v in vars(found).items() if k[0] != "_" and is_own(v, module)]
    )
    elsewhere = {} if exported else dict(told_elsewhere(module))
    for name in exported or own:
        value = getattr(found, name)
        if inspect.ismodule(value) or not inspect.getdoc(value) or not callable(value):
            continue
        said = " ".join(inspect.getdoc(value).split("\n\n")[0].split()).replace("|", "\\|")
        yield f"| {{py:obj}}`~{elsewhere.get(name, module)}.{name}` | {said} |"


def is_own(value, module):
    return getattr(value, "__module__", None) == module and callable(value)


def parsed(directive, table):
    """The nodes of a table in Markdown."""
    if not table:
        return []
    holder = nodes.container(classes=["names"])
    page = ["| name | |", "|---|---|", *table]
    directive.state.nested_parse(StringList(page, source="names"), 0, holder)
    return [holder]


def told_elsewhere(module):
    """Names of a module that the root or a namespace of its own page exports, and which."""
    places = [importlib.import_module(f"cavity{place}") for place in PLACES]
    exported = [(name, place) for place in places for name in place.__all__]
    return [
        (name, place.__name__)
        for name, place in exported
        if getattr(getattr(place, name), "__module__", None) == module
    ]


def setup(app):
    app.add_directive("modules", Modules)
    app.add_directive("names", Names)
    return {"version": "1", "parallel_read_safe": True}
