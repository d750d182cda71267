"""`import cavity` stays light: what costs import time waits until it is used."""

import subprocess
import sys

import pytest

HEAVY = (
    "scipy.optimize",
    "sklearn",
    "polars",
    "pandas",
    "matplotlib",
    "optax",
    "typer",
    "rich",
    "jinja2",
    "safetensors",
    "blackjax",
)


def loaded_after(code):
    """The modules a fresh process holds after running some code."""
    code += "\nimport sys; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return set(run.stdout.split())


@pytest.fixture(scope="module")
def extra():
    """What `import cavity` loads beyond what jax and equinox do."""
    return loaded_after("import cavity") - loaded_after("import jax, equinox")


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_packages_wait(extra, name):
    assert name not in extra


def test_floor_5_waits(extra):
    assert not {name for name in extra if name.startswith("cavity.interfaces.")}


def test_import_changes_no_setting():
    """Neither the precision nor the number of threads changes because the package is there."""
    code = (
        "import jax; before = dict(jax.config.values)\n"
        "import cavity; assert dict(jax.config.values) == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_import_starts_no_device():
    """No array is made at import: it would be float32 for ever, and wake the backend."""
    code = (
        "import cavity; from jax._src import xla_bridge\n"
        "assert not xla_bridge.backends_are_initialized()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
