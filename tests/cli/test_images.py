"""`cavity fit --image-shape`, and uses of such a model."""

import numpy as np
import polars as pl
import pytest

import cavity
from cavity.tables.table_model import TableModel
from tests.cli.conftest import run
from tests.estimators.test_images import bars

FIT = ("--target", "kind", "--image-shape", "7x7", "--kernel", "conv3", "--parts", "invariant")
SMALL = ("--inducing", 8, "--max-iterations", 5)


def table(n: int, seed: int) -> pl.DataFrame:
    images, labels = bars(n, seed)
    pixels = {f"p{i}": column for i, column in enumerate(images.reshape(n, -1).T)}
    return pl.DataFrame({"kind": labels} | pixels)


@pytest.fixture(scope="module")
def bars_model(tmp_path_factory):
    """A model of images, the folder of its tables, and what the fit said."""
    folder = tmp_path_factory.mktemp("images")
    table(40, 0).write_csv(folder / "train.csv")
    table(60, 1).write_csv(folder / "test.csv")
    done = run(
        *("fit", folder / "train.csv", *FIT, *SMALL, "--out", folder / "m.cavity"),
        *("--test", folder / "test.csv", "--json"),
    )
    assert done.code == 0, done.err
    return folder, done.json


def test_a_fit_is_that_of_the_estimator(bars_model):
    folder, record = bars_model
    assert record["kernel"] == "conv3x3 (invariant) of images 7x7"
    assert record["test"]["error"] < 0.1
    images, labels = bars(40, 0)
    own = cavity.ConvGPClassifier(
        kernel="conv3", parts="invariant", n_inducing=8, max_iterations=5, random_state=0
    ).fit(images, labels)
    np.testing.assert_allclose(record["log_evidence"], own.log_evidence_, rtol=1e-6)
    assert TableModel.load(folder / "m.cavity").classes == ("0", "1")


@pytest.mark.slow
def test_a_report_draws_no_slices_along_pixels(bars_model):
    folder, _ = bars_model
    made = run(
        "report", folder / "m.cavity", folder / "test.csv", "--out", folder / "r.html", "--json"
    )
    assert made.code == 0, made.err
    figures = made.json["figures"]
    assert not any("along" in name or "relevance" in name for name in figures)
    assert {"inducing_patches", "least_expected"} <= set(figures)
    assert not {"weights", "places"} & set(figures)  # places do not matter
    assert "pixels of images" in (folder / "r.html").read_text()


def test_a_model_of_images_is_not_updated(bars_model):
    folder, _ = bars_model
    done = run(
        "update", folder / "m.cavity", folder / "test.csv", "--out", folder / "u.cavity", "--json"
    )
    assert done.code == 1
    assert "a model of images" in done.err + done.out


def test_what_is_refused(bars_model):
    folder, _ = bars_model
    fit = ("fit", folder / "train.csv", "--target", "kind", "--out", folder / "n.cavity")

    def why(*options):
        done = run(*fit, *options)
        assert done.code == 2, done.err
        return done.err

    assert "like 28x28" in why("--image-shape", "7")
    assert "48 pixels, and the table has 49" in why("--image-shape", "6x8")
    shaped = ("--image-shape", "7x7")
    assert "conv5 + rbf" in why(*shaped, "--kernel", "rbf + linear")
    assert "larger than the image" in why(*shaped, "--kernel", "conv8")
    assert "invariant" in why(*shaped, "--parts", "place")
    for kernel in ("conv5", "conv3x7 + rbf", "rbf + conv(rbf, (3, 3), image=(7, 7))"):
        assert "give --image-shape" in why("--kernel", kernel)
    assert "add --image-shape" in why("--parts", "weighted")
    assert "'power_ep'" in why(*shaped, "--method", "laplace")
    assert "one of ['classification']" in why(*shaped, "--task", "regression")
    assert "not for classification" in why(*shaped, "--likelihood", "poisson")
    assert "give a number" in why(*shaped, "--power", "auto")
    assert "leave it out" in why(*shaped, "--model", "deep")
    assert "all rows in memory" in why(*shaped, "--batch-rows", 10)
    assert "number of inducing patches" in why(*shaped, "--inducing", "full")
