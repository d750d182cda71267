"""Files of the command line: none that is read is overwritten, and all are regular files."""

import inspect
import os
import typing

import polars as pl
import pytest
from typer.models import ArgumentInfo, ParameterInfo

from cavity.cli.app import app
from cavity.cli.request import Request
from cavity.cli.session import File
from tests.cli.conftest import people, run

COMMANDS = {command.callback.__name__: command.callback for command in app.registered_commands}
# What a command needs beside files, after the first of them.
NEEDED = {"fit": ("--target", "weight"), "forecast": ("--steps", 1), "plot": ("function",)}
# What values of options are called that are files or folders.
PATHS = {"MODEL", "TABLE", "CANDIDATES", "OUT", "FILE", "DIR"}


def options(name):
    """The options of a command by name: its mark, if it is a file, and what typer knows of it."""
    declared = inspect.get_annotations(Request if name == "fit" else COMMANDS[name])
    found = {}
    for option, annotation in declared.items():
        parts = typing.get_args(annotation)
        known = [part for part in parts if isinstance(part, ParameterInfo)]
        if known:
            found[option] = next((part for part in parts if isinstance(part, File)), None), *known
    return found


def pairs():
    """Every command with each of its files that are read."""
    return [
        (name, option)
        for name in COMMANDS
        for option, (mark, _) in options(name).items()
        if mark and not mark.written and any(m.written for m, _ in options(name).values() if m)
    ]


def test_every_file_among_the_options_is_marked():
    for name in COMMANDS:
        for option, (mark, declared) in options(name).items():
            assert (declared.metavar in PATHS) == (mark is not None), (name, option)
    assert len(pairs()) >= 20


@pytest.mark.parametrize(("name", "option"), pairs())
def test_no_output_is_an_input(here, name, option):
    """Under its own name, another name, and a link; `update` may replace its model."""
    (here / "in.csv").write_text("weight\n1\n")
    os.symlink("in.csv", here / "link.csv")
    for out in ("in.csv", "./in.csv", "link.csv"):
        first, *others = command_line(name, option, out)
        done = run(name, first, *NEEDED.get(name, ()), *others)
        if (name, option) == ("update", "model"):
            assert "itself" not in done.err
        else:
            assert done.code == 2
            assert "itself" in done.err
        assert (here / "in.csv").read_text() == "weight\n1\n"


def command_line(name, option, out):
    """Arguments of a command in which one of the files that are read is `in.csv`."""
    for place, (mark, declared) in options(name).items():
        argument = isinstance(declared, ArgumentInfo)
        if mark and (argument or mark.written or place == option):
            value = out if mark.written else "in.csv" if place == option else f"{place}.csv"
            yield from (value,) if argument else (f"--{place}", value)


@pytest.fixture
def pipe(here):
    """A pipe that nobody writes to, and links to it."""
    os.mkfifo(here / "pipe")
    for name in ("p.csv", "p.parquet", "p.cavity"):
        os.symlink("pipe", here / name)
    return here


def refused(done):
    assert done.code == 1, done
    assert done.json["error"]["kind"] == "io"
    assert "a pipe or a device" in done.json["error"]["message"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("rows", [(), ("--batch-rows", 10)], ids=["whole", "in parts"])
def test_tables_that_are_no_regular_files(pipe, model, ending, rows):
    """Neither pipes, which would be waited for, nor devices, which may never end."""
    os.symlink("/dev/zero", f"zero.{ending}")
    for table in (f"p.{ending}", f"zero.{ending}"):
        fit = ("--target", "weight", "--out", "m.cavity", "--json")
        refused(run("fit", table, *fit, *rows))
        refused(run("evaluate", model, table, "--json", *rows))


def test_models_that_are_no_regular_files(pipe, tables):
    for model in ("p.cavity", "/dev/zero"):
        refused(run("show", model, "--json"))
        refused(run("update", model, tables / "test.csv", "--out", "n.cavity", "--json"))


def test_nothing_but_a_regular_file_is_replaced(pipe, model, tables):
    os.symlink("/dev/null", "null.csv")
    for name in ("p.csv", "null.csv"):
        refused(run("predict", model, tables / "test.csv", "--out", name, "--json"))
        refused(run("report", model, tables / "test.csv", "--out", name, "--json"))
        fit = ("fit", tables / "train.csv", "--target", "weight", "--json")
        refused(run(*fit, "--out", name))
    refused(run("compress", model, "/dev/null", "--json"))
    assert (pipe / "pipe").is_fifo()
    assert not os.path.isfile("/dev/null")


def test_behind_a_link_the_file_is_replaced(here, model, tables):
    (here / "folder").mkdir()
    for target in ("folder/p.csv", "folder/new.csv"):
        os.symlink(target, here / "link.csv")
        assert run("predict", model, tables / "test.csv", "--out", "link.csv").code == 0
        assert os.readlink("link.csv") == target
        assert len(pl.read_csv(target)) == 12
        os.unlink("link.csv")


def test_a_checkpoint_in_the_place_of_the_model(here):
    people(5).write_csv("t.csv")
    done = run("fit t.csv --target weight --out m.cavity --checkpoint m.cavity")
    assert done.code == 2
    assert "folder of the checkpoint itself" in done.err
