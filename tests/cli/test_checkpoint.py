"""`cavity fit --checkpoint DIR --resume`: what a fit that is killed leaves, and how it goes on."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import people, run
from tests.cli.test_fit import interrupt_at

LEARNED = ("log_evidence", "parameters", "iterations", "evaluations", "message", "jitter", "sites")


def fit(tables, *options, out="m.cavity"):
    table = ("fit", tables / "train.csv", "--target", "weight", "--out", out, "--json")
    return run(*table, "--ignore", "colour", "--max-iterations", 4, *options)


def test_an_interrupted_fit_goes_on_where_it_was(here, tables, monkeypatch):
    options = ("--checkpoint", "kept", "--resume")
    with monkeypatch.context() as patch:
        interrupt_at(patch, 2)
        stopped = fit(tables, *options)
    assert stopped.code == 130
    assert "--resume goes on from here" in stopped.err
    assert stopped.json["iterations"] == 2
    found, whole = fit(tables, *options).json, fit(tables, out="n.cavity").json
    assert {name: found[name] for name in LEARNED} == {name: whole[name] for name in LEARNED}
    assert (here / "m.cavity").stat().st_size > 0


def test_a_checkpoint_is_not_begun_anew_unasked(here, tables):
    assert fit(tables, "--checkpoint", "kept").code == 0
    again = fit(tables, "--checkpoint", "kept")
    assert again.code == 1
    assert again.json["error"]["kind"] == "io"
    assert "--resume" in again.json["error"]["message"]
    other = fit(tables, "--checkpoint", "kept", "--resume", "--power", 0.1, "--inducing", 5)
    assert other.code == 1
    assert "is that of another fit" in other.json["error"]["message"]


def test_resume_needs_a_folder(here, tables):
    done = fit(tables, "--resume")
    assert (done.code, done.out) == (2, "")
    assert "--checkpoint" in done.err


def test_a_folder_that_cannot_be_is_refused_before_any_work(here, tables):
    (here / "file").write_text("")
    done = fit(tables, "--checkpoint", "file")
    assert done.code == 1
    assert "choose another" in done.json["error"]["message"]


# ------------------------------------------------------------------------ killed for real

SCRIPT = """
import json, sys, time
import jax, numpy as np
import cavity
from cavity import inducing, kernels, likelihoods
from cavity.learning.progress import checkpoint as checkpoints
from cavity.learning.objectives.evidence import Objective

def slowly(self, x, evaluate=Objective.__call__):
    time.sleep(0.05)  # so that kills land inside the fit on any machine
    return evaluate(self, x)

Objective.__call__ = slowly
task, folder = sys.argv[1:]
checkpoints.SECONDS, checkpoints.SHARE = 0.05, 1.0
rng = np.random.default_rng(0)
X = rng.uniform(0.0, 10.0, (1200, 2))
y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.standard_normal(1200)
likelihood, options = likelihoods.Gaussian(0.5), {"n_restarts": 3}
if task == "classification":
    X, y, likelihood = X[:200], (y[:200] > 0.0).astype(float), likelihoods.Bernoulli()
    options = {"max_iterations": 15}
with jax.enable_x64(True):
    points = inducing.Points(X[:40])
    model = cavity.GP(kernels.RBF(1.0, [1.0, 1.0]), likelihood, points)
    kept = None if folder == "none" else cavity.fitting.Checkpoint(folder, resume=True)
    found = cavity.fit(model, X, y, checkpoint=kept, **options)
    mean, var = found.posterior.marginals(X[:50])
    leaves = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(found.model)]
    record = [found.objective, found.history, found.n_evaluations, found.message, found.jitter]
print(json.dumps([*record, leaves, mean.tolist(), var.tolist()]))
"""


def held(folder, parts):
    """What a checkpoint holds: files and their sizes and times."""
    sizes = []
    for at, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # a search has just ended
                found = os.stat(os.path.join(at, name))
                sizes.append((at, name, found.st_size, found.st_mtime_ns))
    return sorted(s for s in sizes if s[1].endswith(parts) and s[2])


def kill(command, folder, delay, parts, environment):
    """Kills a process some time after it has added to a checkpoint; whether it had ended."""
    before = held(folder, parts)
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "env": environment}
    process = subprocess.Popen(command, **options)
    while process.poll() is None and held(folder, parts) == before:
        time.sleep(0.002)
    time.sleep(delay)
    process.kill()
    err = process.communicate()[1]
    assert process.returncode in (0, -signal.SIGKILL), err.decode()
    return process.returncode == 0


def output(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def survives(command, folder, kills, parts, environment):
    """What a command gives that is killed at random moments and repeated until it is done.

    On a busy machine a fit may end before its next kill; it is then repeated from its end.
    """
    moments = random.Random(1)
    for i in range(kills):
        if kill(command, folder, moments.uniform(0.0, 0.15), parts, environment):
            assert i > 0, "the fit is too short for a kill"
            break
    return output(command, environment)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """That of the tests, with a folder of its own for compiled programs."""
    folder = str(tmp_path_factory.mktemp("cache"))
    cache = {"JAX_COMPILATION_CACHE_DIR": folder, "XDG_CACHE_HOME": folder}
    return os.environ | cache | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "kills", "parts"),
    [
        ("regression", 5, ("-end", "-journal")),
        ("classification", 3, ("-end", "-state")),
    ],
)
def test_a_fit_killed_at_random_moments_loses_nothing(task, kills, parts, tmp_path, environment):
    """Every process adds to the checkpoint before it is killed; the last ends as if alone."""
    command = [sys.executable, "-c", SCRIPT, task]
    whole = output([*command, "none"], environment)
    folder = str(tmp_path / "kept")
    assert survives([*command, folder], folder, kills, parts, environment) == whole


@pytest.mark.slow
def test_the_command_killed_at_random_moments_loses_nothing(tmp_path, environment):
    people(400).write_csv(tmp_path / "t.csv")
    command = [sys.executable, "-m", "cavity", "fit", str(tmp_path / "t.csv"), "--json"]
    command += ["--target", "weight", "--inducing", "30", "--out", str(tmp_path / "m.cavity")]
    whole = output(command, environment)
    folder = str(tmp_path / "kept")
    command += ["--checkpoint", folder, "--resume"]
    found = survives(command, folder, 3, ("-end", "-journal"), environment)
    assert {name: found[name] for name in LEARNED} == {name: whole[name] for name in LEARNED}
