"""What is not used is not imported: heavy packages wait until something needs them.

`import cavity` loads none of its own modules, so the names are touched as well.
"""

import subprocess
import sys

import pytest

import cavity

COMMAND_LINE = ("polars", "matplotlib", "typer", "jinja2", "safetensors", "blackjax")
HEAVY = ("scipy.optimize", "sklearn", "pandas", "optax", "rich", *COMMAND_LINE)
NAMES = set(cavity.__all__)
FLOOR_5 = (
    "cavity.estimators",
    "cavity.tables",
    "cavity.persistence",
    "cavity.report",
    "cavity.cli",
)
INTERFACES = {
    n for n in NAMES if getattr(getattr(cavity, n), "__module__", "").startswith(FLOOR_5)
}


def touch(names):
    """Code that uses public names."""
    return f"import cavity\nfor name in {sorted(names)}: getattr(cavity, name)\n"


def loaded_after(code):
    """The modules a fresh process holds after running some code."""
    code += "\nimport sys; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return set(run.stdout.split())


@pytest.fixture(scope="module")
def numerical():
    """What every use of the library needs anyway."""
    return loaded_after("import jax, equinox")


@pytest.fixture(scope="module")
def library(numerical):
    """What models, inference and learning load beyond jax and equinox."""
    return loaded_after(touch(NAMES - INTERFACES) + "cavity.kernels.RBF") - numerical


@pytest.fixture(scope="module")
def interfaces(numerical):
    """What estimators and files load beyond jax and equinox."""
    return loaded_after(touch(INTERFACES)) - numerical


def test_import_alone_loads_next_to_nothing():
    found = loaded_after("import cavity")
    assert not found & {"jax", "numpy", "scipy"}
    assert {name for name in found if name.startswith("cavity")} == {"cavity"}


def test_the_names_load_the_library(library):
    """So that what follows tells something."""
    floors = ("kernels.base", "inference.energy", "models.gp", "learning.fit", "learning.infer")
    assert library >= {f"cavity.{name}" for name in floors}


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_packages_wait(library, name):
    assert name not in library


def test_floor_5_waits(library):
    assert not {name for name in library if name.startswith(FLOOR_5)}


@pytest.mark.parametrize("name", COMMAND_LINE)
def test_estimators_leave_the_command_line_alone(interfaces, name):
    assert {"sklearn", "cavity.estimators.base"} <= interfaces
    assert name not in interfaces


def test_import_changes_no_setting():
    """Neither the precision nor the number of threads changes because the package is there."""
    code = f"import jax; before = dict(jax.config.values)\n{touch(NAMES)}"
    code += "assert dict(jax.config.values) == before"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_starts_no_device():
    """No array is made at import: it would be float32 for ever, and wake the backend."""
    code = f"{touch(NAMES)}from jax._src import xla_bridge\n"
    code += "assert not xla_bridge.backends_are_initialized()"
    subprocess.run([sys.executable, "-c", code], check=True)
