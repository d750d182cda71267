"""The directive `modules`: the reference of every public module of a package, in one page.

```{modules} cavity.inference
```
"""

import importlib
import pkgutil

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

PLACES = ("", ".diagnostics", ".initialisation", ".fitting")


class Modules(SphinxDirective):
    """One section per module of the package named by its argument."""

    required_arguments = 1

    def run(self):
        package = importlib.import_module(self.arguments[0])
        prefix = f"{package.__name__}."
        modules = pkgutil.walk_packages(package.__path__, prefix)
        names = [m.name.removeprefix(prefix) for m in modules if not m.ispkg]
        return [self.section(prefix, name) for name in sorted(names) if name[0] != "_"]

    def section(self, prefix, name):
        section = nodes.section(ids=[nodes.make_id(f"{prefix}{name}")])
        title = ": ".join(part.replace("_", " ") for part in name.split("."))
        section += nodes.title(text=title.capitalize())
        page = f"""```{{eval-rst}}
.. automodule:: {prefix}{name}
   :members:
   :show-inheritance:
   :exclude-members: {", ".join(told_elsewhere(f"{prefix}{name}"))}
```"""
        self.state.nested_parse(StringList(page.splitlines(), source=name), 0, section)
        return section


def told_elsewhere(module):
    """Names of a module that the root package or a namespace of its own page exports."""
    places = [importlib.import_module(f"cavity{place}") for place in PLACES]
    exported = [(name, getattr(place, name)) for place in places for name in place.__all__]
    return [name for name, value in exported if getattr(value, "__module__", None) == module]


def setup(app):
    app.add_directive("modules", Modules)
    return {"version": "1", "parallel_read_safe": True}
