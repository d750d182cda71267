"""What every estimator of every family keeps to, from the table of families alone."""

import inspect
import re

import numpy as np
import pytest
from sklearn.base import clone

from cavity.families.base import loaded
from cavity.families.table import FAMILIES
from cavity.families.values import Anything, Names, Number, Truth, Whole, WholeOrNames

ESTIMATORS = [(family, task) for family in FAMILIES for task in family.estimators]
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.uniform(-1.0, 1.0, (12, 4)), RANDOM.standard_normal(12)
DATA = {
    "regression": (X, Y),
    "classification": (X, Y > 0.0),
    "embedding": (X,),
    "forecast": (Y,),
}
# Settings without which there is nothing to fit.
NEEDED = {"image_shape": (2, 2)}


def wrong_values(values):
    """Values that a setting does not take."""
    if isinstance(values, Whole):
        found = [values.least - 1, values.least + 0.5, str(values.least), True]
        return found if values.none else [*found, None]
    if isinstance(values, Number):
        return [-1e-3, np.nan, "1", True, *([] if np.isinf(values.most) else [2 * values.most])]
    if isinstance(values, Names):
        return ["nonsense"] if values.objects else ["nonsense", 3, None]
    return ["yes", 1, None] if isinstance(values, Truth) else []


WRONG = [
    pytest.param(family, task, each.name, value, id=f"{task}-{family.several}-{each.name}-{value}")
    for family, task in ESTIMATORS
    for each in family.settings
    for value in wrong_values(each.values)
]


def made(family, task, **settings):
    known = {each.name for each in family.settings_of(task)}
    needed = {name: value for name, value in NEEDED.items() if name in known}
    return loaded(family.estimators[task])(**needed | settings)


@pytest.mark.parametrize(("family", "task", "name", "value"), WRONG)
def test_values_that_a_setting_does_not_take_are_refused(family, task, name, value):
    """Before any work, naming the setting and what was given."""
    with pytest.raises(ValueError, match=f"^{name} must be .*given {re.escape(repr(value))}"):
        made(family, task, **{name: value}).fit(*DATA[task])


def test_every_kind_of_values_is_looked_at():
    kinds = {type(each.values) for family, _ in ESTIMATORS for each in family.settings}
    assert kinds == {Anything, Names, Number, Truth, Whole, WholeOrNames}


@pytest.mark.parametrize(("family", "task"), ESTIMATORS)
def test_init_only_assigns(family, task):
    kind = loaded(family.estimators[task])
    names = set(inspect.signature(kind).parameters)
    for name in names:
        value = object()
        estimator = kind(**{name: value})
        assert getattr(estimator, name) is value
        assert set(vars(estimator)) == names
        assert clone(kind(**{name: 3})).get_params()[name] == 3
