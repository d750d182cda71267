"""What every test shares: precision, threads, shape checks, data and random numbers.

Environment: CAVITY_TYPECHECK=0 leaves the run-time shape checks out; CAVITY_DATA names the
folder of the real data sets (default ../shared/data beside the repository); CAVITY_TEST_TIMES
names a folder for the table of what each test uses (tests/compile_times.py).
"""

import ctypes
import gc
import itertools
import os
from pathlib import Path

# Compile time is most of a small test's time; the kernels' speed is not. Subprocesses inherit it.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "Agg")
# Idle BLAS threads spin, and xdist runs one process per core.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import hypothesis
import jax
import numpy as np
import pytest
import threadpoolctl
from jaxtyping import install_import_hook

# The variables above come too late where a pytest plugin has loaded numpy already.
THREADS = threadpoolctl.threadpool_limits(1, user_api="blas")

jax.config.update("jax_enable_x64", True)

# Compilation makes first examples slow, and a failure must come back in the next run.
hypothesis.settings.register_profile("cavity", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("cavity")

if os.environ.get("CAVITY_TYPECHECK", "1") != "0":
    from tests import typecheck

    install_import_hook("cavity", f"{typecheck.__name__}.checked")

from tests import compile_times, selection

pytest_addoption = selection.pytest_addoption
pytest_collection_modifyitems = selection.pytest_collection_modifyitems

ROOT = Path(__file__).parent.parent
MOST_MAPS = 30_000
MOST_BYTES = 1_200_000_000
TESTS = itertools.count()

# Tracing makes very many short-lived objects; looking through all others for each few hundred of
# them is a twentieth of the tests' time.
gc.set_threshold(20_000, 20, 20)


def pytest_collection_finish():
    """Takes all that was imported and collected out of later looks for garbage: most of memory."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish():
    """Leaves nothing to look through at the end, where pytest collects garbage ten times over."""
    gc.freeze()


def pytest_configure(config):
    """Records what each test uses, where that is asked for."""
    selection.check_tenth(config)
    folder = os.environ.get("CAVITY_TEST_TIMES")
    if folder:
        config.pluginmanager.register(compile_times.Recorder(folder), "compile_times")


@pytest.fixture(autouse=True)
def precision(request):
    """Tests run in float64; those marked `x32` in a fresh session's default."""
    if request.node.get_closest_marker("x32") is None:
        yield
        return
    jax.config.update("jax_enable_x64", False)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", True)


@pytest.fixture(autouse=True)
def room_for_programs():
    """Forgets compiled programs before the process runs out of memory maps, or takes 2 GB.

    Each program holds a few maps, Linux allows 65,530, and the compiler dies without a word
    beyond. Looked at after every tenth test, because the look takes milliseconds.
    """
    yield
    if next(TESTS) % 10 == 0 and (maps_held() > MOST_MAPS or bytes_held() > MOST_BYTES):
        forget_programs()


def maps_held():
    """The memory maps of this process; 0 where they cannot be counted."""
    maps = Path("/proc/self/maps")
    return len(maps.read_bytes().splitlines()) if maps.exists() else 0


def bytes_held():
    """The resident memory of this process; 0 where it is not told."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0


def forget_programs():
    """Drops all compiled programs, and gives the memory that they leave free back."""
    from cavity.numerics.jit import PROGRAMS

    PROGRAMS.forget()
    jax.clear_caches()
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


@pytest.fixture
def rng():
    """Random numbers, the same in every run."""
    return np.random.default_rng(20170925)


@pytest.fixture
def key():
    """A JAX random key, the same in every run."""
    return jax.random.key(20170925)


@pytest.fixture(scope="session")
def root():
    """The repository's folder."""
    return ROOT


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real data sets; the test skips where there is none."""
    folder = Path(os.environ.get("CAVITY_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"real data sets are not there: no folder {folder} (set CAVITY_DATA)")
    return folder
