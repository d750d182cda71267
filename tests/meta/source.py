"""The package's source and the repository's files, as the tests of this folder read them."""

import ast
import dataclasses
import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "cavity"


@dataclasses.dataclass(frozen=True)
class Module:
    """One source file: its dotted name, its path, its text and its syntax tree."""

    name: str
    path: Path
    text: str

    @functools.cached_property
    def tree(self):
        return ast.parse(self.text, filename=str(self.path))

    @property
    def is_package(self):
        return self.path.name == "__init__.py"


@functools.cache
def modules():
    """Every module of the package, by dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, path.read_text())
    return found


@functools.cache
def files():
    """Every file that is, or would be, in the repository, relative to its root.

    None where the tests run outside a git checkout (from a source archive, say).
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    names = [Path(name) for name in listing.stdout.split("\0") if name]
    return [name for name in names if (ROOT / name).is_file()]
