"""The command line as a user runs it: tables in a folder, a command, what it printed and wrote."""

import dataclasses
import json
import shlex

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from cavity.cli.app import app

COLUMNS = ("height", "smoker", "colour", "weight", "spare", "noise")


@dataclasses.dataclass(frozen=True)
class Ran:
    """A command that has run."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """The one object on standard output."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self.out
        return json.loads(lines[0], parse_constant=pytest.fail)


def run(*arguments):
    """Runs `cavity ...` in this process; one string is split as a shell would."""
    words = shlex.split(arguments[0]) if len(arguments) == 1 else [str(a) for a in arguments]
    result = CliRunner().invoke(app, words, prog_name="cavity")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def people(n=30, seed=3):
    """A table of numbers, truth values and categories, with two targets and noise variances."""
    random = np.random.default_rng(seed)
    height, smoker = random.uniform(1.5, 2.0, n), random.random(n) < 0.5
    colour = random.choice(["blue", "green", "red"], n)
    weight = 70 + 100 * (height - 1.75) + 5 * smoker + random.standard_normal(n)
    spare = 1e-3 * np.sin(9 * height) + 1e-4 * random.standard_normal(n)
    noise = random.uniform(0.5, 2.0, n)
    parts = (height, smoker, colour, weight, spare, noise)
    return pl.DataFrame(dict(zip(COLUMNS, parts, strict=True)))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def tables(tmp_path_factory):
    """A folder with train.csv, test.csv and test.parquet."""
    folder = tmp_path_factory.mktemp("tables")
    people().write_csv(folder / "train.csv")
    people(12, seed=4).write_csv(folder / "test.csv")
    people(12, seed=4).write_parquet(folder / "test.parquet")
    return folder


@pytest.fixture(scope="session")
def model(tables):
    """A model of one target, with three kinds of inputs."""
    path = tables / "one.cavity"
    done = run(
        *("fit", tables / "train.csv", "--target", "weight", "--out", path, "--json"),
        *("--ignore", "spare", "--ignore", "noise", "--max-iterations", 5),
    )
    assert done.code == 0, done.err
    return path


@pytest.fixture(scope="session")
def two_targets(tables):
    """A model of two targets of very different scale, with inducing points."""
    path = tables / "two.cavity"
    done = run(
        *("fit", tables / "train.csv", "--target", "weight", "--target", "spare", "--out", path),
        *("--ignore", "noise", "--inducing", 8, "--max-iterations", 5),
    )
    assert done.code == 0, done.err
    return path


@pytest.fixture(scope="session")
def classes(tables):
    """A model that tells smokers apart."""
    path = tables / "classes.cavity"
    done = run(
        *("fit", tables / "train.csv", "--target", "smoker", "--out", path, "--json"),
        *("--ignore", "spare", "--ignore", "noise", "--max-iterations", 3),
    )
    assert done.code == 0, done.err
    return path
