"""`cavity fit --checkpoint DIR --resume`: what a fit that is killed leaves, and how it goes on."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

from tests.cli.conftest import run
from tests.cli.test_fit import interrupt_at

LEARNED = ("log_evidence", "parameters", "iterations", "evaluations", "message", "jitter", "sites")
KILLS = 20


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


def progress(folder):
    """What a checkpoint holds: files of searches that ended, and bytes of the others' records."""
    names = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
    sizes = []
    for name in names:
        try:
            sizes.append((name, os.path.getsize(name)))
        except FileNotFoundError:  # a search has just ended
            continue
    return sorted(s for s in sizes if s[0].endswith(("-end", "-journal")) and s[1])


def killed(command, folder, delay, **options):
    """Kills a process some time after it has added to a checkpoint; its end if it did end."""
    before = progress(folder)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    while process.poll() is None and progress(folder) == before:
        time.sleep(0.002)
    time.sleep(delay)
    process.kill()
    out, err = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), err.decode()
    return json.loads(out) if process.returncode == 0 else None


@pytest.mark.slow
def test_a_fit_killed_at_twenty_random_moments_loses_nothing(tmp_path):
    """Every process adds to the record before it is killed, and the last ends as if alone."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, (1500, 2))
    y = np.sin(x[:, 0]) * np.cos(x[:, 1]) + 0.1 * rng.standard_normal(1500)
    pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y}).write_csv(tmp_path / "t.csv")
    options = {"cwd": tmp_path, "env": os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}}
    command = [sys.executable, "-m", "cavity", "fit", "t.csv", "--target", "y", "--json"]
    command += ["--inducing", "50", "--restarts", "1", "--out"]
    alone = subprocess.run([*command, "alone.cavity"], capture_output=True, check=True, **options)
    whole = json.loads(alone.stdout)
    command += ["killed.cavity", "--checkpoint", "kept", "--resume"]
    moments, records = random.Random(1), [progress(tmp_path / "kept")]
    for _ in range(KILLS):
        delay = moments.uniform(0.0, 0.3)
        assert killed(command, tmp_path / "kept", delay, **options) is None, "done too soon"
        records.append(progress(tmp_path / "kept"))
        assert records[-1] != records[-2]
        assert not (tmp_path / "killed.cavity").exists()
    last = subprocess.run(command, capture_output=True, check=True, **options)
    found = json.loads(last.stdout)
    assert {name: found[name] for name in LEARNED} == {name: whole[name] for name in LEARNED}
