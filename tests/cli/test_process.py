"""The command in a process of its own: start-up, standard streams, signals."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

from cavity.tables.table_model import TableModel
from tests.cli.conftest import people


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """That of the tests, with a cache folder of its own."""
    own = {"JAX_COMPILATION_CACHE_DIR", "TF_CPP_MIN_LOG_LEVEL"}
    kept = {k: v for k, v in os.environ.items() if k not in own}
    return kept | {"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}


def cavity(*arguments, **options):
    command = [sys.executable, "-m", "cavity", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def test_version(environment):
    done = cavity("--version", env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("cavity ")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["fit", "--help"], ["fit"]])
def test_quick_answers_import_nothing_slow(arguments, environment):
    code = (
        "import atexit, sys\n"
        "from cavity.cli.app import main\n"
        "slow = {'jax', 'numpy', 'sklearn', 'polars', 'matplotlib', 'scipy'}\n"
        "atexit.register(lambda: sys.stderr.write(f'SLOW {slow & set(sys.modules)}'))\n"
        f"sys.argv = ['cavity', *{arguments}]\n"
        "main()"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.stderr.endswith("SLOW set()")
    assert done.returncode == (2 if arguments == ["fit"] else 0)


@pytest.mark.slow
def test_one_object_on_standard_output_and_a_cache(model, tables, environment):
    """And no word on standard error, also where programs are read from the cache."""
    for _ in range(2):
        done = cavity("evaluate", model, tables / "test.csv", "--json", env=environment)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["command"] == "evaluate"
        assert done.stderr == ""
    assert os.listdir(os.path.join(environment["XDG_CACHE_HOME"], "cavity"))


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_does_no_harm(model, tables, environment, tmp_path):
    (tmp_path / "file").write_text("")
    environment = environment | {"XDG_CACHE_HOME": str(tmp_path / "file")}
    done = cavity("show", model, "--json", env=environment)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("options", [("--help",), ("show", "none.cavity", "--json")])
def test_a_pipe_that_nobody_reads(options, environment):
    """As of `cavity ... | head` once head has enough: the end, and not a word of it."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "cavity", *options]
    with os.fdopen(writer, "wb") as pipe:
        kept = {"stdout": pipe, "stderr": subprocess.PIPE, "text": True, "env": environment}
        done = subprocess.run(command, timeout=120, **kept)
    assert "Error" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 1


@pytest.mark.slow
def test_a_full_cache_is_not_spoken_of(model, tables, environment, tmp_path):
    """A folder of programs that can be made, in which nothing can be kept."""
    code = (
        "import os, resource, signal, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (600, resource.RLIM_INFINITY))\n"
        "from cavity.cli.app import main\n"
        f"sys.argv = ['cavity', 'evaluate', {str(model)!r}, {str(tables / 'test.csv')!r}]\n"
        "main()"
    )
    environment = environment | {"XDG_CACHE_HOME": str(tmp_path)}
    # without bytecode, which Python would leave cut in the source folder
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_exit_codes_of_a_process(environment, tmp_path):
    assert cavity("show", tmp_path / "none", env=environment).returncode == 1
    assert cavity("show", env=environment).returncode == 2


def test_a_killed_save_leaves_the_old_model(model, environment, tmp_path):
    """And a file is opened without what only estimators need, which takes a second to import."""
    path = tmp_path / "m.cavity"
    path.write_bytes(model.read_bytes())
    code = (
        "import os, sys\n"
        "from cavity.cli.opened import opened\n"
        "fitted = opened(sys.argv[1], 'show').model\n"
        "assert not {'sklearn', 'pandas', 'scipy.stats'} & set(sys.modules)\n"
        "os.fsync = lambda _: os.kill(os.getpid(), 9)\n"
        "fitted.save(sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], env=environment)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == model.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_a_long_fit(environment, tmp_path, number):
    people(1200).write_csv(tmp_path / "t.csv")
    command = [sys.executable, "-m", "cavity", "fit", "t.csv", "--target", "weight"]
    command += ["--out", "m.cavity", "--inducing", "full", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes)
    assert "may take" in process.stderr.readline()
    time.sleep(2.0)
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert json.loads(out)["converged"] is False
    assert "best model so far" in err
    assert TableModel.load(tmp_path / "m.cavity").record["n_rows"] == 1200


@pytest.mark.slow
def test_updates_that_are_killed_and_repeated(environment, tmp_path):
    """Each of some updates is killed at a random moment and repeated until it succeeds.

    The last model is the undisturbed one to the last bit.
    """
    for name in ("train", "0", "1", "2"):
        people(20, seed=len(name) + ord(name[0])).write_csv(tmp_path / f"{name}.csv")
    ignored = ("--ignore", "spare", "--ignore", "noise")
    options = ("--inducing", 5, "--max-iterations", 2, *ignored, "--out", "m.cavity")
    here = {"cwd": tmp_path, "env": environment}
    assert cavity("fit", "train.csv", "--target", "weight", *options, **here).returncode == 0
    shutil.copy(tmp_path / "m.cavity", tmp_path / "n.cavity")
    random, took = np.random.default_rng(0), 0.0
    for name in ("0", "1", "2"):
        began = time.monotonic()
        done = cavity("update", "n.cavity", f"{name}.csv", "--out", "n.cavity", **here)
        assert done.returncode == 0, done.stderr
        took = time.monotonic() - began
        command = [sys.executable, "-m", "cavity", "update", "m.cavity", f"{name}.csv"]
        for _ in range(2):
            process = subprocess.Popen([*command, "--out", "m.cavity"], **here)
            time.sleep(random.uniform(0.5, 1.1) * took)
            process.kill()
            process.wait()
        done = cavity("update", "m.cavity", f"{name}.csv", "--out", "m.cavity", **here)
        assert done.returncode == 0, done.stderr
    killed, undisturbed = (TableModel.load(tmp_path / f"{name}.cavity") for name in "mn")
    assert killed.record == undisturbed.record
    ours, wanted = (jax.tree.leaves(model.posterior) for model in (killed, undisturbed))
    for given, expected in zip(ours, wanted, strict=True):
        np.testing.assert_array_equal(given, expected)
