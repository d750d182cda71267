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
        names = [m.name for m in pkgutil.iter_modules(package.__path__) if m.name[0] != "_"]
        return [self.section(package.__name__, name) for name in names]

    def section(self, package, name):
        section = nodes.section(ids=[nodes.make_id(f"{package}.{name}")])
        section += nodes.title(text=name.replace("_", " ").capitalize())
        page = f"""```{{eval-rst}}
.. automodule:: {package}.{name}
   :members:
   :show-inheritance:
   :exclude-members: {", ".join(at_the_root(f"{package}.{name}"))}
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
