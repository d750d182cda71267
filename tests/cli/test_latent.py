"""`cavity fit --model latent`, and the commands on such a model."""

import re

import numpy as np
import polars as pl
import pytest

from cavity.cli.embed import _as_whole
from tests.cli.conftest import run
from tests.estimators.test_embedding import FULL, MISSING, T, Y

NAMES = ["a", "b", "c", "d", "e"]


def table(values):
    columns = dict(zip(NAMES, values.T, strict=True))
    series = [pl.Series(name, column, nan_to_null=True) for name, column in columns.items()]
    side = np.where(T > 0, "right", "left")
    return pl.DataFrame([*series, pl.Series("side", side), pl.Series("t", T)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with missing cells, and an embedding of it."""
    path = tmp_path_factory.mktemp("latent")
    table(Y).write_csv(path / "t.csv")
    done = run(
        *("fit", path / "t.csv", "--out", path / "m.cavity", "--json", "--model", "latent"),
        *("--inducing", 8, "--max-iterations", 25, "--ignore", "side", "--ignore", "t"),
    )
    assert done.code == 0, done.err
    return path, done


def test_fit_and_show(folder):
    path, done = folder
    record = done.json
    assert record["task"] == "embedding"
    assert (record["power"], record["components"], record["n_inducing"]) == (0.0, 2, 8)
    assert record["columns"] == NAMES
    assert record["constant"] == ["e"]
    assert record["missing"] == MISSING.sum()
    assert sum(record["relevance"]) == pytest.approx(1.0)
    # the dimension that counts most has the shortest lengthscale, in units of how rows spread
    assert len(record["parameters"]["kernel.lengthscale"]) == 2
    again = run("show", path / "m.cavity", "--json").json
    for name in ("parameters", "relevance", "log_evidence"):
        assert again[name] == record[name]
    shown = run("show", path / "m.cavity").out
    assert "embedding of 5 columns in 2 dimensions" in shown
    assert re.search(r"dimension 1 +\d\d\.\d %", shown)


@pytest.mark.slow
def test_embed(folder):
    path, _ = folder
    done = run("embed", path / "m.cavity", path / "t.csv", "--out", path / "e.csv", "--density")
    assert done.code == 0, done.err
    found = pl.read_csv(path / "e.csv")
    assert found.columns == ["mean_1", "std_1", "mean_2", "std_2", "log_density"]
    assert np.all(np.isfinite(found.to_numpy()))
    # along the first dimension the curve is run through
    assert abs(np.corrcoef(found["mean_1"], T)[0, 1]) > 0.8


@pytest.mark.slow
def test_impute(folder):
    path, _ = folder
    done = run("impute", path / "m.cavity", path / "t.csv", "--out", path / "i.csv", "--std")
    assert done.code == 0, done.err
    assert f"{MISSING.sum()} missing cells in {MISSING.any(axis=1).sum()} rows" in done.out
    found = pl.read_csv(path / "i.csv")
    assert found.columns == [*NAMES, "side", "t", *(f"std_{name}" for name in NAMES)]
    values, std = found[NAMES].to_numpy(), found[:, 7:].to_numpy().astype(float)
    np.testing.assert_allclose(values[~MISSING], FULL[~MISSING], rtol=1e-12)
    np.testing.assert_array_equal(np.isnan(std), ~MISSING)
    scale = FULL[:, :4].std(axis=0)
    wrong = ((values - FULL)[:, :4] / scale)[MISSING[:, :4]]
    assert np.sqrt(np.mean(wrong**2)) < 0.5
    assert found["side"].to_list() == table(Y)["side"].to_list()


def test_imputed_whole_numbers_are_whole():
    given = np.array([1.0, np.nan, 3.0])
    assert _as_whole(np.array([1.0, 2.4, 3.0]), given).tolist() == [1, 2, 3]
    assert _as_whole(np.array([1.5, 2.4]), np.array([1.5, np.nan]))[1] == 2.4
    assert _as_whole(np.array([1.0, 0.4]), np.array([1.0, np.nan]))[1] == 0.4


def test_latent_points_keep_columns_of_the_table(folder):
    path, _ = folder
    keep = ("--out", path / "k.csv", "--keep", "side")
    done = run("embed", path / "m.cavity", path / "t.csv", *keep, "--json")
    assert done.json["columns"][:2] == ["side", "mean_1"]
    assert pl.read_csv(path / "k.csv")["side"].to_list() == table(Y)["side"].to_list()


@pytest.mark.slow
def test_truth_values(here):
    """Missing ones are filled in by chances, and no intervals are claimed for them."""
    cells = np.where(MISSING, None, np.median(FULL, axis=0) < FULL).tolist()
    truth = pl.DataFrame(cells, schema=NAMES, orient="row").drop("e")
    truth.write_csv("t.csv")
    options = "--components 1 --likelihood bernoulli --inducing 8 --max-iterations 15"
    assert run(f"fit t.csv --model latent --out m.cavity {options}").code == 0
    assert run("impute m.cavity t.csv --out i.csv").code == 0
    filled = pl.read_csv("i.csv").to_numpy()
    observed = ~MISSING[:, :4]
    assert np.all(np.isin(filled[observed], (0.0, 1.0)))
    assert np.all((filled > 0) & (filled < 1) == ~observed)
    assert run("report m.cavity t.csv --out r.html --json").json["figures"] == [
        "latent_map",
        "latent_relevance",
    ]
    assert '<td class="n">–</td>' in (here / "r.html").read_text()


@pytest.mark.slow
def test_a_row_without_values_is_noted(folder):
    path, _ = folder
    rows = (
        table(Y)
        .with_row_index()
        .with_columns(
            [pl.when(pl.col("index") == 2).then(None).otherwise(pl.col(n)).alias(n) for n in NAMES]
        )
    )
    rows.drop("index").write_parquet(path / "gap.parquet")
    done = run("impute", path / "m.cavity", path / "gap.parquet", "--out", path / "g.parquet")
    assert done.code == 0, done.err
    assert "1 row has no value in any column of the model (the first is row 3)" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("colour", ["side", "t", None])
def test_report(folder, colour):
    path, _ = folder
    options = [] if colour is None else ["--colour", colour]
    done = run("report", path / "m.cavity", path / "t.csv", "--out", path / "r.html", *options)
    assert done.code == 0, done.err
    page = (path / "r.html").read_text()
    assert "Embedding of 5 columns" in page
    assert "Entries predicted from others" in page
    assert (f"coloured by {colour}" in page) == (colour is not None)
    assert '<td class="name">dimension 2</td>' in page
    assert "constant in the fit" in page
    assert "inducing.Z" not in page


REFUSED = {
    "--target y": ("--target", "has no target"),
    "--components 0": ("--components", "greater than or equal to 1"),
    "--method laplace": ("--method", "chooses its method"),
    "--inducing full": ("--inducing", "needs inducing points"),
    "--power 2": ("--power", "between 0 and 1"),
    "--drop-missing": ("--drop-missing", "missing cells are allowed"),
    "--kernel rbff": ("--kernel", "rbff"),
    "--likelihood softmax": ("--likelihood", "latent functions"),
    "--steps 3": ("--steps", "add --model deep"),
    "--resume": ("--resume", "--checkpoint DIR"),
}


@pytest.mark.parametrize("options", REFUSED)
def test_options_that_do_not_go_together(here, options):
    done = run(f"fit t.csv --model latent --out m.cavity {options}")
    assert done.code == 2
    assert done.out == ""
    for part in REFUSED[options]:
        assert re.search(part, " ".join(done.err.replace("│", " ").split()))


@pytest.mark.parametrize("option", ["--components 2", "--column a"])
def test_options_of_embeddings_alone(here, option):
    done = run(f"fit t.csv --target y --out m.cavity {option}")
    assert done.code == 2
    assert "add --model latent" in done.err


def gone(row=None, column=None):
    values = FULL.copy()
    if row is not None:
        values[row] = np.nan
    if column is not None:
        values[:, column] = np.nan
    return table(values).select(NAMES)


UNUSABLE = {
    "text": (table(Y), "", "column 'side' holds text, and .* numbers; .* --ignore side"),
    "dates": (
        gone().with_columns(pl.date(2020, 1, 1).alias("day")),
        "",
        "column 'day' holds dates or times, .* --ignore day",
    ),
    "empty row": (gone(row=3), "", r"row 4 \(counted from 1\) has no value in any column"),
    "empty column": (gone(column=2), "", "column 'c' is empty in every row"),
    "one row": (gone()[:1], "", "has one row, and an embedding needs two"),
    "many components": (gone(), "--components 5", "more than the 4 columns to embed .1 more"),
    "no such column": (gone(), "--column f", "no column 'f'"),
    "counts": (gone(), "--likelihood poisson", "column .a., row 1: .* likelihood Poisson takes"),
}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_tables_that_cannot_be_used(here, kind):
    rows, options, message = UNUSABLE[kind]
    rows.write_csv("t.csv")
    done = run(f"fit t.csv --model latent --out m.cavity {options}")
    assert done.code == 1
    assert re.search(f"^error: .*{message}", done.err)
    assert not (here / "m.cavity").exists()


def test_models_of_another_kind(folder, model, tables):
    path, _ = folder
    done = run("predict", path / "m.cavity", path / "t.csv", "--out", path / "p.csv")
    assert (done.code, done.out) == (1, "")
    assert (
        "holds an embedding, and 'cavity predict' is not for it; use 'cavity embed'," in done.err
    )
    done = run("embed", model, tables / "test.csv", "--out", path / "p.csv")
    assert done.code == 1
    assert (
        "holds a regression, and 'cavity embed' is not for it; use 'cavity predict'," in done.err
    )
    done = run("report", model, tables / "test.csv", "--out", path / "r.html", "--colour", "x")
    assert done.code == 2


def test_a_table_without_a_column(folder):
    path, _ = folder
    table(Y).drop("b").write_csv(path / "less.csv")
    done = run("embed", path / "m.cavity", path / "less.csv", "--out", path / "e.csv")
    assert done.code == 1
    assert "the table has no column 'b'" in done.err


def test_a_cut_file(folder):
    path, _ = folder
    data = (path / "m.cavity").read_bytes()
    (path / "cut.cavity").write_bytes(data[: len(data) // 2])
    done = run("embed", path / "cut.cavity", path / "t.csv", "--out", path / "e.csv")
    assert done.code == 1
    assert "cut.cavity" in done.err
    assert len(done.err.splitlines()) == 1
