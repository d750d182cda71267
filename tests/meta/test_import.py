"""What is not used is not imported: heavy packages wait until something needs them.

`import cavity` loads none of its own modules, so the names are touched as well.
"""

import json
import subprocess
import sys

import pytest

import cavity

COMMAND_LINE = ("polars", "matplotlib", "typer", "jinja2", "safetensors", "blackjax")
HEAVY = ("scipy.optimize", "sklearn", "pandas", "optax", "rich", "distributed", *COMMAND_LINE)
NAMES = set(cavity.__all__)
FLOOR_5 = (
    "cavity.estimators",
    "cavity.tables",
    "cavity.persistence",
    "cavity.report",
    "cavity.cli",
)
# `fitting` has the checkpoints, which are files.
INTERFACES = {
    n for n in NAMES if getattr(getattr(cavity, n), "__module__", "").startswith(FLOOR_5)
} | {"fitting"}


SCRIPT = """
import json, sys
phases = []

def reached():
    phases.append(sorted(sys.modules))

import cavity
reached()
import jax, equinox
reached()
before = dict(jax.config.values)
for names in json.loads(sys.argv[1]):
    for name in names:
        getattr(cavity, name)
    cavity.kernels.RBF
    reached()
from jax._src import xla_bridge
changed = dict(jax.config.values) != before
print(json.dumps([phases, changed, xla_bridge.backends_are_initialized()]))
"""


@pytest.fixture(scope="module")
def fresh():
    """What a fresh process holds after each phase, and what has happened to JAX at its end."""
    names = json.dumps([sorted(NAMES - INTERFACES), sorted(INTERFACES)])
    command = [sys.executable, "-c", SCRIPT, names]
    run = subprocess.run(command, capture_output=True, check=True, text=True)
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def library(fresh):
    """What models, inference and learning load beyond jax and equinox."""
    return set(fresh[0][2]) - set(fresh[0][1])


@pytest.fixture(scope="module")
def interfaces(fresh):
    """What estimators and files load beyond jax and equinox."""
    return set(fresh[0][3]) - set(fresh[0][1])


def test_import_alone_loads_next_to_nothing(fresh):
    found = set(fresh[0][0])
    assert not found & {"jax", "numpy", "scipy"}
    of_names = {"cavity.numerics", "cavity.numerics.renamed"}  # messages for old names
    assert {name for name in found if name.startswith("cavity")} == {"cavity", *of_names}


def test_the_names_load_the_library(library):
    """So that what follows tells something."""
    floors = (
        "kernels.base",
        "inference.energy",
        "models.gp",
        "learning.run.fit",
        "learning.infer",
    )
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


def test_import_changes_no_setting(fresh):
    """Neither the precision nor the number of threads changes because the package is there."""
    assert not fresh[1]


def test_import_starts_no_device(fresh):
    """No array is made at import: it would be float32 for ever, and wake the backend."""
    assert not fresh[2]
