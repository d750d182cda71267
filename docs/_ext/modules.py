"""The directive `modules`: the reference of every public module of a package, in one page.

```{modules} cavity.inference
```
"""

import importlib
import pkgutil

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


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
   :exclude-members: {", ".join(at_the_root(f"{prefix}{name}"))}
```"""
        self.state.nested_parse(StringList(page.splitlines(), source=name), 0, section)
        return section


def at_the_root(module):
    """Names of a module that the root package exports: their place is its page."""
    root = importlib.import_module("cavity")
    origin = {name: getattr(getattr(root, name), "__module__", None) for name in root.__all__}
    return [name for name, place in origin.items() if place == module]


def setup(app):
    app.add_directive("modules", Modules)
    return {"version": "1", "parallel_read_safe": True}
