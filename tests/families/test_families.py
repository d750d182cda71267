"""The table of families: what it names exists, and its advice can be followed."""

import dataclasses
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer.main
from typer.testing import CliRunner

import cavity
from cavity.cli.app import app, fit_with
from cavity.cli.asked import ask
from cavity.cli.fitting import AbstractFitting
from cavity.cli.opened import opened
from cavity.cli.request import Request, option_of
from cavity.estimators import asked_priors
from cavity.estimators.deep import BY_NAME
from cavity.estimators.images import AUTO
from cavity.estimators.registry import METHODS, REGRESSION, likelihood_names, named_likelihood
from cavity.families import gp, images, options, weights
from cavity.families.base import Family, Option, Rule, Setting, loaded
from cavity.families.table import FAMILIES
from cavity.families.values import Whole
from cavity.learning.initialisation.images import SUMS
from cavity.learning.initialisation.inducing_kinds import KINDS
from cavity.learning.initialisation.linear import PRIORS
from cavity.models.state_space.forecast import PROPAGATIONS
from cavity.numerics.linalg import MOST_JITTER
from cavity.persistence.errors import StorageError
from cavity.report.convergence import unconverged
from cavity.tables.table_model import TableModel
from tests.meta.source import modules

ADVICE = [
    (family, message)
    for family in FAMILIES
    for message in (
        family.needs_target,
        *family.unused.values(),
        *(rule.message for rule in family.rules),
    )
]
TASKS = [(family, task) for family in FAMILIES for task in family.estimators]
GENERAL = {option_of(f.name) for f in dataclasses.fields(Request)} - {"--options", "--table"}


def fit_options():
    """The options of `cavity fit`."""
    command = typer.main.get_command(app).commands["fit"]  # type: ignore[attr-defined]
    return {option for each in command.params for option in each.opts}


@pytest.mark.parametrize(("family", "task"), TASKS, ids=lambda one: getattr(one, "several", one))
def test_settings_are_the_parameters_of_the_estimators(family, task):
    """Names and defaults; and each stands in the docstring of its class."""
    estimator = loaded(family.estimators[task])
    parameters = inspect.signature(estimator).parameters.values()
    settings = family.settings_of(task)
    # what is shown of a fit is no setting of it
    assert {each.name: each.default for each in settings} == {
        p.name: p.default for p in parameters if p.name not in estimator.not_kept
    }
    assert len({each.name for each in settings}) == len(settings)
    documented = inspect.getdoc(estimator)
    assert documented is not None
    # classifiers refer to the settings of regressors
    if task == REGRESSION:
        assert [s.name for s in settings if f"    {s.name}: " not in documented] == []


def test_the_page_says_which_settings_have_no_option():
    page = (Path(cavity.__file__).parents[2] / "docs/guides/command-line.md").read_text()
    section = page.split("## Settings of Python alone")[1].split("##")[0]
    named = set(re.findall(r"`(\w+)`", section.split("And of commands")[0]))
    alone = {
        setting.name
        for family, task in TASKS
        for setting in family.settings_of(task)
        if setting.option is None
    }
    assert named == alone


def test_every_estimator_is_of_a_family():
    named = {path.partition(":")[2] for family in FAMILIES for path in family.estimators.values()}
    root = [getattr(cavity, name) for name in dir(cavity)]
    assert named == {one.__name__ for one in root if hasattr(one, "get_params")}


def test_defaults_are_values_that_settings_take():
    for family, task in TASKS:
        for each in family.settings_of(task):
            each.values.check(each.name, each.default)


def test_what_families_name_exists():
    for family in FAMILIES:
        assert issubclass(loaded(family.fitting), AbstractFitting)
        assert set(family.unused) <= fit_options()
        assert not set(family.unused) & set(family.options), family.several
        assert {rule.option for rule in family.rules} <= {*family.options, *GENERAL}


def test_an_option_is_of_one_kind_in_all_families():
    kinds = {}
    for family in FAMILIES:
        assert not set(family.options) & GENERAL
        for name, setting in family.options.items():
            assert setting.option is not None
            assert kinds.setdefault(name, setting.option.kind) == setting.option.kind, name
    assert set(kinds) | GENERAL | {"--json", "--help", "table"} == fit_options() | {"--help"}


@pytest.mark.parametrize(("family", "message"), ADVICE)
def test_advice_names_options_that_exist(family, message):
    """Where it is shown: those of the family, or of a request."""
    named = set(re.findall(r"--[a-z][a-z-]*", message))
    assert named <= {*family.options, *GENERAL}
    known = {each.name for each in family.options.values()} | {"model", "task"}
    assert set(re.findall(r"\{(\w+)", message)) <= known


def test_names_are_those_that_the_library_knows():
    assert weights.PRIORS == PRIORS
    assert (*SUMS, AUTO) == images.PARTS
    assert asked_priors.PRIORS == gp.PRIORS
    assert tuple(METHODS) == gp.METHODS
    assert gp.KINDS == KINDS
    assert tuple(PROPAGATIONS) == ("paths", *options.RULES)
    assert tuple(BY_NAME) == options.RULES
    assert options.MOST_JITTER == MOST_JITTER
    names = likelihood_names(REGRESSION)
    assert tuple(n for n in names if named_likelihood(n).latents > 1) == weights.SEVERAL


@pytest.mark.parametrize("line", ["import cavity.families.table", "fit --help"])
def test_the_table_and_the_help_need_no_jax(line):
    work = line if "import" in line else f"from cavity.cli.app import app\napp({line.split()})"
    code = f"import sys\ntry:\n    {work.replace(chr(10), chr(10) + '    ')}\nexcept SystemExit:\n"
    code += "    pass\nprint(sorted({'jax', 'sklearn'} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_no_file_but_its_own_asks_for_a_family():
    """Neither by name nor by the object: what differs is in the table."""
    names = "|".join(re.escape(each.name) for each in FAMILIES)
    asks = re.compile(rf"(family|model|\.name) (==|!=|in) .?[\"']({names})[\"']")
    for name, module in modules().items():
        if not name.startswith("cavity.families"):
            assert not asks.search(module.path.read_text()), name


# ----------------------------------------------------------------------- a family of one's own

# Given as an argument: nothing registers itself.
NEAREST = Family(
    name="nearest",
    called="a model of neighbours",
    several="models of neighbours",
    estimators={"regression": "tests.families.nearest:NearestRegressor"},
    settings=(
        Setting("n_rows", 3, Whole(1), Option("--rows", "N", "Rows to look at.", "whole")),
        options.POWER,
        options.LIKELIHOOD,
        options.RANDOM_STATE,
    ),
    unused={"--ignore": "it ignores nothing: leave it out"},
    rules=(Rule(lambda asked: asked["n_rows"] == 13, "--rows", "{n_rows} is unlucky: another"),),
)
OTHER = Family("other", "another", "others", estimators={"regression": "no.such:Thing"})


def asked(given=None, **fields):
    fields = {"table": "t", "out": "o", "targets": ["y"], "model": "nearest"} | fields
    return ask(Request(**fields, options=given or {}), (NEAREST, OTHER))


def test_a_family_of_ones_own_is_asked_for_like_the_others():
    found = asked({"--rows": 4})
    assert found.family is NEAREST
    assert found.parameters == {"n_rows": 4, "random_state": 0}
    assert (found["n_rows"], found["power"]) == (4, 0.5)
    assert asked(model="other").family is OTHER


@pytest.mark.parametrize(
    ("message", "given", "fields"),
    [
        ("13 is unlucky", {"--rows": 13}, {}),
        ("ignores nothing", {}, {"ignore": ["x"]}),
        ("it is for models of neighbours: add --model nearest", {"--rows": 3}, {"model": "other"}),
        ("name at least one column", {}, {"targets": None}),
        (r"one of \['nearest', 'other'\]", {}, {"model": "gp"}),
        ("between 0 and 1, given 2", {"--power": "2"}, {}),
        ("auto is for Gaussian processes", {"--power": "auto"}, {}),
        (r"one of \['regression'\], given 'classification'", {}, {"task": "classification"}),
    ],
)
def test_what_makes_no_sense_is_refused(message, given, fields):
    with pytest.raises(typer.BadParameter, match=message):
        asked(given, **fields)


@pytest.mark.parametrize(
    ("model", "option", "typed", "setting", "value"),
    [
        ("gp", "--inducing", "full", "n_inducing", None),
        ("gp", "--power", "auto", "power", "auto"),
        ("linear", "--integrate", "noise,prior", "integrate", ["noise", "prior"]),
        ("linear", "--mean", "zero", "fit_intercept", False),
        ("network", "--hidden", "10,5", "hidden", (10, 5)),
        ("state-space", "--method", "power_ep", "hidden", "chain"),
        ("state-space", "--method", "tied", "hidden", "tied"),
    ],
)
def test_what_is_typed_becomes_a_setting(model, option, typed, setting, value):
    request = Request("t.csv", "m.cavity", ["y"], model, seed=7, options={option: typed})
    assert ask(request, FAMILIES).parameters == {setting: value, "random_state": 7}


@pytest.mark.parametrize("option", ["--method", "--kernel", "--inducing", "--mean", "--restarts"])
def test_a_default_that_is_typed_asks_for_nothing(option):
    """Also where the family has no use for the option."""
    typed = {option: FAMILIES[0].options[option].default}
    for family in FAMILIES:
        fields = {"table": "t", "out": "o", "targets": ["y"], "model": family.name}
        if option in family.unused and not family.chosen_by:
            fields["targets"] = fields["targets"] if family.needs_target else None
            assert ask(Request(**fields, options=typed), FAMILIES).given == {}


def test_every_family_says_what_it_means_not_to_converge():
    sites = {"converged": True}
    for more in ({"sites": sites}, {"layers": []}, {"batch": 10}, {"mcmc": {}}, {"states": 2}):
        found = unconverged({"converged": False, **more})
        assert found is not None
        assert not found.serious or "mcmc" in more


def test_files_of_no_known_task_are_refused_by_what_they_are(tmp_path):
    path = str(tmp_path / "bare.cavity")
    model = cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Gaussian())
    posterior = cavity.infer(model, np.zeros((1, 1)), np.zeros(1)).posterior
    cavity.fitting.save_module(path, posterior, {"a": 1})
    with pytest.raises(StorageError, match="without the description of its table"):
        opened(path, "embed")
    for task in (["x"], "weird"):
        cavity.fitting.save_module(path, posterior, {"record": {"task": task}, "schema": {}})
        with pytest.raises(StorageError, match="damaged"):
            opened(path, "show")
    cavity.fitting.save_module(path, posterior, {"record": {"task": "embedding"}, "schema": {}})
    with pytest.raises(StorageError, match="an embedding, and 'cavity predict' is not for it"):
        opened(path, "predict")
    with pytest.raises(StorageError, match="of the task embedding, and one of regression or"):
        TableModel.load(path)


def test_a_family_of_ones_own_is_fitted_by_the_command(tmp_path, monkeypatch):
    """With its option in the help, and a model file that the other commands read."""
    monkeypatch.chdir(tmp_path)
    x = np.linspace(0.0, 1.0, 8)
    pl.DataFrame({"x": x, "y": np.sin(x)}).write_csv("t.csv")
    mine = typer.Typer()
    mine.command()(fit_with((NEAREST, OTHER)))
    words = ["t.csv", "--target", "y", "--out", "m.cavity", "--model", "nearest", "--rows", "8"]
    done = CliRunner().invoke(mine, [*words, "--json"])
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["kernel"], record["n_rows"]) == ("nearest", 8)
    assert "--rows" in CliRunner().invoke(mine, ["--help"]).stdout
    shown = CliRunner().invoke(app, ["show", "m.cavity", "--json"])
    assert json.loads(shown.stdout)["log_evidence"] == record["log_evidence"]
