"""Model files of the code before the engine was rebuilt: they load and predict the same."""

import jax
import numpy as np
import polars as pl
import pytest

from cavity.persistence import model_file
from cavity.tables.table_model import TableModel
from tests.cli.conftest import run
from tests.persistence.fixtures.models import write


def columns(path):
    """The numeric columns of a file of predictions."""
    return pl.read_csv(path).select(pl.selectors.numeric())


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", write.COMMANDS)
def test_model_files_of_the_command_line(name, tmp_path):
    model, out = write.unpacked(name, tmp_path), tmp_path / "out.csv"
    done = run("predict", model, write.NEW, "--density", "--out", out)
    assert done.code == 0, done.err
    found, expected = columns(out), columns(write.FOLDER / f"{name}.csv")
    assert found.columns == expected.columns
    np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-12, atol=1e-13)
    # and they say what they hold
    shown = run("show", model)
    assert shown.code == 0
    assert "log evidence" in shown.out


@pytest.mark.slow
def test_embeddings(tmp_path):
    model, out = write.unpacked(write.EMBEDDING, tmp_path), tmp_path / "out.csv"
    expected = np.loadtxt(write.FOLDER / f"{write.EMBEDDING}.csv", delimiter=",")
    np.testing.assert_allclose(write.columns_at(model), expected, rtol=1e-10)
    # where the search for a row's point ends is not part of the format
    done = run("embed", model, write.NEW, "--out", out)
    assert done.code == 0, done.err
    assert columns(out).columns == ["mean_1", "std_1", "mean_2", "std_2"]
    assert "embedding of 4 columns in 2 dimensions" in run("show", model).out


@pytest.mark.parametrize("name", write.POSTERIORS)
def test_saved_posteriors(name, tmp_path):
    expected = np.loadtxt(write.FOLDER / f"{name}.csv", delimiter=",")
    with jax.enable_x64(True):
        posterior, about = model_file.load(write.unpacked(name, tmp_path))
        found = write.moments(posterior)
    assert about == {"kind": name}
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_what_is_saved_again_is_the_same(tmp_path):
    for name in write.COMMANDS:
        loaded = TableModel.load(write.unpacked(name, tmp_path))
        loaded.save(tmp_path / name)
        again = TableModel.load(tmp_path / name)
        assert again.record == loaded.record
        first, second = jax.tree.leaves(loaded.posterior), jax.tree.leaves(again.posterior)
        assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
