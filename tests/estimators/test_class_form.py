"""Whether classes are coupled where a user left that open: the rule, and what is said."""

import functools

import numpy as np
import pytest

import cavity
from cavity.estimators import class_form
from cavity.estimators.class_form import AFFORDABLE, affordable_form
from cavity.estimators.settings import Settings
from cavity.learning.cost import CLASS_EVALUATIONS, COUPLED_SECONDS, coupled_seconds
from cavity.likelihoods import Bernoulli, MultinomialProbit, Softmax
from cavity.likelihoods.capabilities import number_of_classes
from cavity.models.coupled_classes import SparseClasses
from cavity.report.leave_one_out import quick_inference_on, single_rows
from cavity.tables.files import read_table
from cavity.tables.schema import encode
from cavity.tables.table_model import TableModel
from tests.cli.conftest import here, run  # noqa: F401
from tests.estimators.test_many_classes import NEW, X, Y

pytestmark = pytest.mark.filterwarnings("ignore:.*not converged")
SPARSE = {"n_inducing": 8, "max_iterations": 2, "random_state": 0}
INDEPENDENT = {"method": cavity.PowerEP(coupled=False), "power": 1.0}


def chosen(likelihood=MultinomialProbit(7), rows=2000, **settings):
    classes = number_of_classes(likelihood)
    given = Settings(likelihood=likelihood, task="classification", classes=classes, **settings)
    return affordable_form(given, rows, 2)


def test_seconds_grow_with_what_the_precision_costs():
    size = 49 * 2000 * 200.0**2 + 1400.0**3
    each = COUPLED_SECONDS * size
    assert coupled_seconds(2000, 7, 200) == pytest.approx(CLASS_EVALUATIONS * each)
    assert coupled_seconds(2000, 7, 200, max_iterations=9) == pytest.approx(10 * each)


def test_classes_are_independent_where_coupled_ones_take_three_minutes():
    found = chosen()
    assert found.method == cavity.PowerEP(coupled=False)
    assert found.power == 1.0
    assert found.seconds == coupled_seconds(2000, 7, 200) > AFFORDABLE
    assert coupled_seconds(2000, 7, found.points) <= AFFORDABLE
    assert coupled_seconds(2000, 7, found.points + 1) > AFFORDABLE
    # so many points, or so few iterations, are affordable
    assert chosen(n_inducing=found.points) is None
    assert chosen(n_inducing=found.points + 1) is not None
    assert chosen(max_iterations=1) is None
    assert chosen(power=1.0) is not None
    assert str(found.points) in str(found)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": cavity.PowerEP()},
        {"method": cavity.PowerEP(coupled=True)},
        {"method": cavity.PowerEP(coupled=False)},
        {"method": "tied"},
        {"power": 0.0},
        {"power": np.full(2000, 0.5)},
        {"n_inducing": None},
        {"rows": 1000},
        {"likelihood": MultinomialProbit(3), "rows": 1500, "n_inducing": 100},
        {"likelihood": Softmax(7)},
        {"likelihood": Bernoulli()},
    ],
)
def test_everything_else_stays_as_it_was_asked_for(settings):
    assert chosen(**settings) is None


@functools.cache
def fitted(**settings):
    return cavity.GPClassifier(**SPARSE, **settings).fit(X, Y)


@pytest.fixture
def impatient(monkeypatch):
    """Nothing is affordable."""
    monkeypatch.setattr(class_form, "AFFORDABLE", 0.0)


@pytest.mark.slow
def test_the_choice_is_that_of_the_explicit_method_and_is_said(impatient):
    by_itself = cavity.GPClassifier(**SPARSE).fit(X, Y)
    asked = fitted(**INDEPENDENT)
    np.testing.assert_array_equal(by_itself.predict_proba(NEW), asked.predict_proba(NEW))
    np.testing.assert_array_equal(by_itself.leave_one_out(X, Y), asked.leave_one_out(X, Y))
    assert (by_itself.method_, by_itself.power_) == (cavity.PowerEP(coupled=False), 1.0)
    line = "; classes are independent in the posterior, at power 1: coupled ones would take about "
    assert by_itself.message_.startswith(asked.message_ + line)
    assert by_itself.message_.endswith("method=cavity.PowerEP(coupled=True)")
    assert (by_itself.method, by_itself.power) == ("power_ep", 0.5)


@pytest.mark.slow
def test_coupled_classes_asked_for_are_had(impatient):
    asked = cavity.GPClassifier(method=cavity.PowerEP(coupled=True), **SPARSE).fit(X, Y)
    assert (asked.method_, asked.power_) == (cavity.PowerEP(), 0.5)
    assert "independent" not in asked.message_
    assert isinstance(asked.posterior_.process, SparseClasses)


@pytest.mark.slow
def test_the_command_line_says_it_and_remembers(impatient, here):  # noqa: F811
    rows = "\n".join(f"{a},{b},{label}" for (a, b), label in zip(X, Y, strict=True))
    (here / "t.csv").write_text(f"a,b,kind\n{rows}\n")
    words = "fit t.csv --target kind --out m.cavity --inducing 8 --max-iterations 2"
    done = run(words)
    line = "classes are independent in the posterior, at power 1: coupled ones would take about"
    assert done.code == 0
    assert done.err.count(line) == 1
    assert "8 inducing points, independent classes, power 1" in done.out
    model = TableModel.load("m.cavity")
    assert (model.record["coupled"], model.record["power"]) == (False, 1.0)
    expected = fitted(**INDEPENDENT).leave_one_out(X, Y)
    encoded = encode(read_table("t.csv"), model.schema)
    # numbers go through text
    single, _ = single_rows(model, *quick_inference_on(model, encoded))
    np.testing.assert_allclose(single.densities[:, 0], expected, rtol=1e-5)
