"""Inducing variables as estimators are asked for them."""

import pytest
from sklearn.base import clone

import cavity
from cavity.estimators.settings import Settings
from cavity.initialisation import Inducing
from tests.estimators.problem import problem


def test_inducing_variables_are_asked_for_in_one_place():
    """A short form is where variables start; the object is cloned, used and checked."""
    short = Settings(inducing="kmeans").variables
    assert (short.start, short.kind, short.learn, short.most) == ("kmeans", "points", True, 1000)
    given = Inducing("kmeans", learn=False)
    assert Settings(inducing=given).variables is given
    model = clone(cavity.GPRegressor(n_inducing=6, inducing=Inducing(kind="windows", learn=False)))
    X, y = problem()
    model.set_params(max_iterations=0).fit(X, y)
    assert type(model.inducing_).__name__ == "Windows"
    for wrong, words in (
        (Inducing(kind="splines"), "the kind of inducing variables must be one of"),
        (Inducing("middle"), "inducing must be one of"),
        (Inducing(X[:3], kind="waves"), "kind='waves' of Inducing .* set n_inducing"),
    ):
        with pytest.raises(ValueError, match=words):
            model.set_params(inducing=wrong).fit(X, y)
