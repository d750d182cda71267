"""`cavity fit` and `cavity show`."""

import contextlib
import signal

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning

from cavity.cli import fit as cli_fit
from cavity.cli import gp as cli_gp
from cavity.cli import session
from cavity.cli import use as cli_use
from cavity.cli.gp import check_kernel
from cavity.estimators.regressor import GPRegressor
from cavity.tables.schema import encode
from cavity.tables.table_model import TableModel
from tests.cli.conftest import people, run

IDENTITY = ["command", "version", "seconds", "warnings", "model"]
SETTINGS = ["task", "likelihood", "kernel", "method", "power", "power_table", "n_inducing"]
SETTINGS += ["inducing_kind", "bracket", "verdict", "priors"]
DATA = ["n_rows", "inputs", "targets", "classes"]
ENDING = ["converged", "message", "log_evidence", "iterations", "evaluations", "jitter", "sites"]
KEYS = [*IDENTITY, *SETTINGS, *DATA, *ENDING, "parameters", "test"]
METRICS = ["rmse", "mae", "nlpd", "smse", "smll", "crps"]
METRICS += ["coverage_50", "coverage_90", "coverage_95"]


def fit(table, *options, target="weight", out="m.cavity"):
    return run("fit", table, "--target", target, "--out", out, "--max-iterations", 3, *options)


def test_json_has_exactly_the_promised_keys(here, tables):
    done = fit(
        *(tables / "train.csv", "--ignore", "spare", "--ignore", "noise", "--json"),
        *("--test", tables / "test.parquet", "--inducing", "auto"),
    )
    record = done.json
    assert done.code == 0
    assert sorted(record) == sorted(KEYS)
    assert record["command"] == "fit"
    assert record["model"] == "m.cavity"
    assert (record["task"], record["likelihood"]) == ("regression", "gaussian")
    assert (record["kernel"], record["method"], record["power"]) == ("rbf", "power_ep", 0.5)
    assert record["power_table"] is record["bracket"] is record["verdict"] is None
    assert record["n_inducing"] is None
    assert record["n_rows"] == 30
    assert record["inputs"] == ["height", "smoker", "colour"]
    assert record["targets"] == ["weight"]
    assert record["classes"] is None
    assert sorted(record["sites"]) == ["converged", "finished_by", "residual", "skipped", "sweeps"]
    assert sorted(record["test"]) == sorted(METRICS)
    assert len(record["parameters"]["kernel.lengthscale"]) == 3
    assert isinstance(record["parameters"]["likelihood.variance"], float)
    assert isinstance(record["log_evidence"], float)


@pytest.mark.slow
def test_a_power_chosen_from_the_table(here, tables):
    options = ("--ignore", "spare", "--ignore", "noise", "--power", "auto", "--inducing", 5)
    done = fit(tables / "train.csv", *options, "--json")
    table = done.json["power_table"]
    assert [trial["power"] for trial in table] == [1.0, 0.5, 0.0]
    assert [trial["power"] for trial in table if trial["chosen"]] == [done.json["power"]]
    keys = ["chosen", "fitted", "left_out", "log_density", "log_evidence", "power", "tested"]
    assert sorted(table[0]) == keys
    shown = run("show", "m.cavity").out
    assert "powers compared, by the mean log density of 7 rows held out" in shown
    assert shown.count("chosen") == 1


@pytest.mark.slow
def test_as_many_inducing_points_as_are_enough(here, tables, monkeypatch):
    monkeypatch.setattr(cli_gp, "FULL_ROWS", 20)
    monkeypatch.setattr("cavity.estimators.settings.FULL_ROWS", 20)
    monkeypatch.setattr("cavity.estimators.settings.FIRST", 5)
    options = ("--ignore", "spare", "--ignore", "noise", "--inducing", "enough")
    done = fit(tables / "train.csv", *options, "--json")
    record = done.json
    assert sorted(record["bracket"]) == ["lower", "per_row", "proved", "upper"]
    assert record["bracket"]["proved"] is True
    assert record["bracket"]["lower"] <= record["bracket"]["upper"]
    assert record["n_inducing"] >= 5
    assert "enough" in record["verdict"]
    assert "points are added until they are enough" in done.err
    assert record["verdict"] in run("show", "m.cavity").out


def test_not_converged_is_done_with_a_warning(here, tables):
    done = fit(tables / "train.csv", "--ignore", "colour", "--json")
    assert done.code == 0
    assert done.json["converged"] is False
    assert done.json["test"] is None
    assert "not converged" in done.err
    assert any("not converged" in warning for warning in done.json["warnings"])


def test_text_says_what_was_learned_and_where_it_is(here, tables):
    done = fit(tables / "train.csv", "--ignore", "spare", "--ignore", "noise")
    assert done.code == 0
    for part in ("30 rows, 3 inputs", "kernel.lengthscale[colour]", "written to m.cavity"):
        assert part in done.out
    assert (here / "m.cavity").exists()


def test_is_the_estimator_on_the_same_numbers(tables, model):
    fitted, table = TableModel.load(model), people()
    X = table.select("height", "smoker", "colour")
    gp = GPRegressor(random_state=0, max_iterations=5)
    with pytest.warns(ConvergenceWarning):
        gp.fit(X, table["weight"].to_numpy())
    mean, std = gp.predict(X, return_std=True)
    out = fitted.predictive(encode(table, fitted.schema).X)
    np.testing.assert_array_equal(out.mean[:, 0], mean)
    np.testing.assert_array_equal(out.std[:, 0], std)
    assert fitted.record["log_evidence"] == gp.log_evidence_


def test_saved_and_loaded_predicts_bit_for_bit_the_same(here, tables):
    """The model in memory and the one on disk; what fit reports on a test table and evaluate."""
    done = fit(
        *(tables / "train.csv", "--ignore", "spare", "--ignore", "noise", "--json"),
        *("--test", tables / "test.csv"),
    )
    again = run("evaluate", "m.cavity", tables / "test.csv", "--json")
    assert again.json["metrics"] == done.json["test"]


def test_show_repeats_the_record(model, tables):
    shown = run("show", model, "--json").json
    assert sorted(shown) == sorted(KEYS)
    assert shown["command"] == "show"
    assert shown["inputs"] == ["height", "smoker", "colour"]
    assert shown["parameters"]["kernel.variance"] > 0
    told = run("show", model).out
    assert "log evidence" in told
    assert "weak ones of variances, lengthscales and noise" in told


def test_priors_are_switched_off_by_a_word(here, tables):
    weak = fit(tables / "train.csv", "--json").json
    none = fit(tables / "train.csv", "--priors", "none", "--json").json
    assert (weak["priors"], none["priors"]) == ("weak", "none")
    assert weak["log_evidence"] != none["log_evidence"]
    assert "weak" not in run("show", "m.cavity").out


def test_same_seed_same_model(here, tables):
    options = (tables / "train.csv", "--inducing", 6, "--seed", 5, "--restarts", 1, "--json")
    first, second = fit(*options).json, fit(*options, out="n.cavity").json
    for key in ("log_evidence", "parameters", "evaluations"):
        assert first[key] == second[key]
    assert (here / "m.cavity").exists()
    assert first["n_inducing"] == 6


def test_several_targets_have_parameters_in_their_own_units(two_targets):
    values = run("show", two_targets, "--json").json["parameters"]
    weight, spare = values["likelihood.variance"]
    assert weight > 1e3 * spare
    assert len(values["mean.value"]) == 2
    assert abs(values["mean.value"][0] - 70) < 30
    assert abs(values["mean.value"][1]) < 0.1


def test_known_noise_takes_the_place_of_a_learned_one(here, tables):
    done = fit(tables / "train.csv", "--noise-column", "noise", "--ignore", "spare", "--json")
    assert done.code == 0
    assert "noise" not in done.json["inputs"]
    predicted = run("predict", "m.cavity", tables / "test.csv", "--out", "p.csv")
    assert predicted.code == 0
    learned = run("show", "m.cavity", "--json").json["parameters"]
    assert learned == done.json["parameters"]
    assert sorted(learned) == ["kernel.lengthscale", "kernel.variance", "mean.value"]
    assert "likelihood.variance" not in run("show", "m.cavity").out
    latent = pl.read_csv("p.csv")["std"].to_numpy() ** 2 - people(12, 4)["noise"].to_numpy()
    assert np.all(latent > 0)


@pytest.mark.slow
def test_kernels_name_columns(here, tables):
    kernel = 'rbf[height] + 2*linear["colour=red",smoker] * matern32[0]'
    done = fit(tables / "train.csv", "--kernel", kernel, "--json")
    assert done.code == 0
    assert done.json["kernel"] == (
        'rbf[height] + 2 * linear["colour=red",smoker] * matern32[height]'
    )
    done = fit(tables / "train.csv", "--kernel", "rbf[smoker,colour]", "--json")
    features = 'smoker,"colour=blue","colour=green","colour=red"'
    assert done.json["kernel"] == f"rbf[{features}]"


def test_constraints_of_parameters(here, tables):
    options = ("--fix", "likelihood.variance=2", "--bound", "kernel.kernel.variance=:50")
    kernel = ("--kernel", "rbf(lengthscale=0.4, fixed=True)[height]", "--ignore", "colour")
    prior = ("--prior", "mean.value=normal(70, 5)", "--inducing", 5)
    done = fit(tables / "train.csv", *options, *kernel, *prior, "--json")
    assert done.code == 0, done.err
    asked = {
        "kernel.kernel.lengthscale": "fixed",
        "likelihood.variance": "fixed at 2",
        "kernel.kernel.variance": "below 50",
        "mean.value": "prior normal(70, 5)",
    }
    assert done.json["constraints"] == asked
    assert done.json["kernel"] == "rbf[height]"
    learned = done.json["parameters"]
    assert learned["likelihood.variance"] == 2.0
    assert learned["kernel.kernel.lengthscale"] == [0.4]
    assert learned["kernel.kernel.variance"] < 50.0
    assert "constraint    kernel.kernel.lengthscale fixed" in run("show", "m.cavity").out
    assert (
        "the model holds kernel"
        in run("update", "m.cavity", tables / "train.csv", "--out", "n.cavity").err
    )


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--fix", "=2", "not a name and a value, with = between them"),
        ("--fix", "likelihood.variance=much", "takes numbers, given 'much'"),
        ("--bound", "kernel.variance=3", "LOW:HIGH, such as 0.1:10, given '3'"),
        ("--prior", "kernel.variance=lognorm(1, 2)", "there is no prior 'lognorm'"),
        ("--fix", "noise=1", "no parameter 'noise': known: kernel.variance"),
        ("--kernel", "rbf[body mass index]", 'write rbf["body mass index"]'),
        ("--kernel", "rbf(lengthscale=0)", "must lie in (0, inf)"),
    ],
)
def test_constraints_that_are_refused(here, tables, option, value, message):
    done = fit(tables / "train.csv", option, value)
    assert done.code in (1, 2)
    assert message in " ".join(done.err.split())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mean", ["zero", "linear"])
def test_means(here, tables, mean):
    done = fit(tables / "train.csv", "--mean", mean, "--ignore", "colour", "--json")
    assert done.code == 0
    names = {name for name in done.json["parameters"] if name.startswith("mean.")}
    parts = "weights", "bias", "weight_deviations", "bias_deviation", "centre"
    assert names == ({f"mean.{part}" for part in parts} if mean == "linear" else set())


def test_rows_with_missing_cells_are_left_out_on_request(here):
    table = people().with_columns(height=pl.Series([None, None, *people()["height"][2:]]))
    table.write_csv("gaps.csv")
    refused = fit("gaps.csv", "--json")
    assert refused.code == 1
    assert "row 1" in refused.json["error"]["message"]
    done = fit("gaps.csv", "--drop-missing", "--json")
    assert done.code == 0
    assert done.json["n_rows"] == 28
    assert any("2 of 30 rows" in warning for warning in done.json["warnings"])


@pytest.mark.parametrize("rows", [1, 2])
def test_hardly_any_rows(here, rows):
    people(rows).drop("colour").write_csv("tiny.csv")
    assert fit("tiny.csv", "--json").json["n_rows"] == rows


def test_more_inducing_points_than_rows(here, tables):
    assert fit(tables / "train.csv", "--inducing", 500, "--json").json["n_inducing"] == 30


def test_a_truth_value_can_be_regressed_on_request(here, tables):
    done = fit(tables / "train.csv", "--task", "regression", "--json", target="smoker")
    assert done.code == 0
    assert (done.json["task"], done.json["classes"]) == ("regression", None)


# ------------------------------------------------------------------------- interruption


def interrupt_at(monkeypatch, iteration, number=signal.SIGINT):
    """Lets Ctrl-C be pressed in the middle of an iteration, or another signal come."""

    @contextlib.contextmanager
    def progress(*, evidence, passes=None):
        def show(step):
            if step.iteration == iteration:
                signal.raise_signal(number)

        yield show

    monkeypatch.setattr(cli_fit, "progress", progress)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_fit_writes_its_best_model(here, tables, monkeypatch, number):
    interrupt_at(monkeypatch, 2, number)
    before = signal.getsignal(number)
    done = run(
        *("fit", tables / "train.csv", "--target", "weight", "--out", "m.cavity", "--json"),
        *("--ignore", "colour"),
    )
    assert done.code == 130
    assert done.json["iterations"] == 2
    assert done.json["converged"] is False
    assert "best model so far" in done.err
    assert run("show", "m.cavity", "--json").json["iterations"] == 2
    assert signal.getsignal(number) is before


def test_a_second_termination_ends_at_once(here, tables, monkeypatch):
    """And without a model, also where it comes before there is one."""

    def learned(*_):
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(cli_fit, "learned", learned)
    done = fit(tables / "train.csv", "--json")
    assert (done.code, done.out) == (130, "")
    assert "interrupted" in done.err
    assert not list(here.iterdir())
    with session.patient_interrupts("nothing") as asked:
        signal.raise_signal(signal.SIGTERM)
        assert asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)


def test_a_termination_leaves_no_half_a_file(here, model, tables, monkeypatch):
    """Of a command other than a fit: what it was writing is gone."""

    def predicted(*_, **__):
        assert [p.name for p in here.iterdir() if p.name.endswith(".tmp")]
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(cli_use, "prediction_columns", predicted)
    done = run("predict", model, tables / "test.csv", "--out", "p.csv")
    assert done.code == 130
    assert not list(here.iterdir())


def test_interrupted_before_there_is_a_model(here, tables, monkeypatch):
    def learned(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_fit, "learned", learned)
    done = fit(tables / "train.csv", "--json")
    assert (done.code, done.out) == (130, "")
    assert "interrupted" in done.err
    assert not (here / "m.cavity").exists()


def test_a_period_that_the_data_do_not_show_is_named(here):
    x = np.linspace(0.0, 1.0, 30)
    noise = 0.01 * np.random.default_rng(0).standard_normal(30)
    pl.DataFrame({"day": x, "weight": x + noise}).write_csv("line.csv")
    done = fit("line.csv", "--kernel", "periodic[day]", "--json")
    (unseen,) = done.json["unseen_periods"]
    assert unseen["column"] == "day"
    assert not unseen["aliased"]
    assert unseen["period"] > unseen["longest"] == pytest.approx(30 / 29)
    assert "is longer than the data (1.034)" in done.json["message"]
    assert "is longer than the data (1.034)" in run("show", "m.cavity").out


def test_a_column_of_many_digits_is_looked_up_in_the_table():
    for column in ("[123456]", f'["{"9" * 5000}"]', "[0]"):
        check_kernel(f"rbf{column}")
