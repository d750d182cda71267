"""The command line with worker processes that it starts: the bits of one process."""

import os
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from tests.cli.conftest import people, run
from tests.cli.test_parts import labels

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning:distributed"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning:asyncio"),
]
pytest.importorskip("distributed", reason="the extra cavity[dask] is not installed")
FIT = "--ignore spare --ignore noise --inducing 6 --max-iterations 4 --json"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = labels(people(90))
    for i, start in enumerate(range(0, 90, 30)):
        table[start : start + 30].write_parquet(f"p{i}.parquet")
    return tmp_path


def done(words):
    ran = run(words)
    assert ran.code == 0, ran.err
    return ran.json


@pytest.mark.parametrize(
    "target", ["weight --ignore kind", "kind --ignore weight --method power_ep"]
)
def test_two_processes_write_the_same_model(files, target):
    fits = [
        done(f"fit p*.parquet --target {target} --out m{n}.cavity {FIT} --processes {n}")
        for n in (1, 2)
    ]
    told = [{"processes", "seconds", "model"} ^ {*fit} for fit in fits]
    assert told[0] == told[1]
    assert [fit["processes"] for fit in fits] == [1, 2]
    assert fits[0]["log_evidence"] == fits[1]["log_evidence"]
    assert fits[0]["parameters"] == fits[1]["parameters"]
    words = "p*.parquet --processes"
    scores = [done(f"evaluate m2.cavity {words} {n} --json")["metrics"] for n in (1, 2)]
    assert scores[0] == scores[1]
    for n in (1, 2):
        done(f"predict m1.cavity {words} {n} --out o{n}.parquet --json")
    assert pl.read_parquet("o1.parquet").equals(pl.read_parquet("o2.parquet"))


def test_an_error_names_file_and_process(files):
    done(f"fit p*.parquet --target weight --ignore kind --out m.cavity {FIT}")
    table = pl.read_parquet("p1.parquet").with_columns(pl.lit("tall").alias("height"))
    table.write_parquet("p1.parquet")
    ran = run("evaluate m.cavity p*.parquet --processes 2 --json")
    assert ran.code == 1
    assert ran.json["error"]["kind"] == "data"
    assert "p1.parquet: column 'height', row 1: 'tall'" in ran.json["error"]["message"]
    assert "raised by the worker tcp://127.0.0.1" in ran.json["error"]["message"]


def some_are_left(group):
    """Whether a process of a group is there."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_interrupt_reaches_the_command_alone(files):
    """Ctrl-C of a terminal goes to all processes of the command."""
    words = [sys.executable, "-m", "cavity", "fit", "p*.parquet", "--target", "weight", "--ignore"]
    words += ["kind", "--inducing", "6", "--out", "m.cavity", "--processes", "2"]
    how = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, start_new_session=True, **how) as command:
        assert "rows at a time" in command.stderr.readline()
        time.sleep(5.0)
        os.killpg(command.pid, signal.SIGINT)
        told = command.communicate(timeout=120)[1]
    assert command.returncode in (0, 130), told  # it may have ended before
    assert "Traceback" not in told
    end = time.monotonic() + 30.0
    while some_are_left(command.pid):
        assert time.monotonic() < end
        time.sleep(0.2)


def test_a_worker_that_is_killed_is_no_matter(files, monkeypatch):
    """Its parts are done again, and told of."""
    from cavity.cli import engine_options

    begun = []

    def watch(self, work, parts):
        begun.append(work)
        if len(begun) == 6:
            (worker, *_) = self.engine.cluster.client.run(os.getpid).values()
            os.kill(worker, signal.SIGKILL)
        return passed(self, work, parts)

    passed = engine_options.Watched.each
    words = f"fit p*.parquet --target weight --ignore kind --out m.cavity {FIT} --processes"
    alone = done(f"{words} 1")
    monkeypatch.setattr(engine_options.Watched, "each", watch)
    found = done(f"{words} 2")
    assert len(begun) > 6
    assert found["log_evidence"] == alone["log_evidence"]
    assert found["retries"] > 0
