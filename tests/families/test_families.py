"""The table of families: what it names exists, and its advice can be followed."""

import re
import subprocess
import sys

import pytest
import typer.main

from cavity.cli.app import app
from cavity.cli.asked_family import asked_family, option_of
from cavity.cli.request import Request
from cavity.estimators import asked_priors
from cavity.estimators.images import AUTO
from cavity.estimators.registry import REGRESSION, likelihood_names, named_likelihood
from cavity.families import gp, images, weights
from cavity.families.base import Family, Rule
from cavity.families.table import FAMILIES
from cavity.learning.initialisation.images import SUMS
from cavity.learning.initialisation.linear import PRIORS

ADVICE = [
    (family.several, message)
    for family in FAMILIES
    for message in (
        family.needs_target,
        *family.unused.values(),
        *(rule.message for rule in family.rules),
    )
]


def fit_options():
    """The options of `cavity fit`."""
    command = typer.main.get_command(app).commands["fit"]  # type: ignore[attr-defined]
    return {option for each in command.params for option in each.opts}


def test_settings_and_options_of_families_exist():
    options = fit_options()
    for family in FAMILIES:
        for setting in (*family.unused, *family.values, *family.options):
            assert hasattr(Request, setting), (family.called, setting)
            assert option_of(setting) in options
        assert set(family.options.values()) == {option_of(each) for each in family.options}
        assert {rule.option for rule in family.rules} <= options


@pytest.mark.parametrize(("several", "message"), ADVICE)
def test_advice_names_options_that_exist(several, message):
    assert set(re.findall(r"--[a-z][a-z-]*", message)) <= fit_options()
    fields = set(re.findall(r"\{(\w+)\}", message))
    assert all(hasattr(Request, field) for field in fields), several


def test_names_are_those_that_the_library_knows():
    assert weights.PRIORS == PRIORS
    assert (*SUMS, AUTO) == images.PARTS
    assert gp.GP.values["priors"] == asked_priors.PRIORS
    names = likelihood_names(REGRESSION)
    assert tuple(n for n in names if named_likelihood(n).latents > 1) == weights.SEVERAL


@pytest.mark.parametrize("line", ["import cavity.families.table", "fit --help"])
def test_the_table_and_the_help_need_no_jax(line):
    work = line if "import" in line else f"from cavity.cli.app import app\napp({line.split()})"
    code = f"import sys\ntry:\n    {work.replace(chr(10), chr(10) + '    ')}\nexcept SystemExit:\n"
    code += "    pass\nprint(sorted({'jax', 'sklearn'} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_a_family_of_ones_own_is_asked_for_like_the_others():
    """Given as an argument: nothing registers itself."""
    mine = Family(
        name="mine",
        called="a model of mine",
        several="models of mine",
        options={"components": "--components"},
        unused={"mean": "it has no mean: leave it out"},
        rules=(Rule(lambda asked: asked.seed == 13, "--seed", "{seed} is unlucky: another"),),
    )
    other = Family("other", "another", "others")

    def asked(**options):
        given = {"table": "t", "out": "o", "targets": ["y"], "model": "mine"} | options
        return asked_family(Request(**given), (mine, other))

    assert asked(components=3) is mine
    assert asked(model="other") is other
    refused = {
        "unlucky": {"seed": 13},
        "no mean": {"mean": "zero"},
        "it is for models of mine: add --model mine": {"model": "other", "components": 3},
        "name at least one column": {"targets": None},
        "one of \\['mine', 'other'\\]": {"model": "gp"},
    }
    for message, options in refused.items():
        with pytest.raises(typer.BadParameter, match=message):
            asked(**options)
