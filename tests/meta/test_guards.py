"""What is public computes in double precision, or with one BLAS thread at least."""

import functools
import inspect
from typing import Any

import jax
import numpy as np
import pytest
from sklearn.base import BaseEstimator

import cavity
from cavity.learning import blas_threads
from cavity.learning.blas_threads import one_blas_thread, with_one_blas_thread
from cavity.learning.double_precision import double_precision, in_double
from cavity.learning.guards import guarded_by

ESTIMATORS = [
    found
    for found in map(functools.partial(getattr, cavity), cavity.__all__)
    if isinstance(found, type) and issubclass(found, BaseEstimator)
]
# Of functions whose result is no array that was computed.
UNGUARDED = {"GPForecaster.time_map": "holds the posterior, whose methods are guarded"}
LIBRARY = [
    "bracket",
    "draw_inputs",
    "examine",
    "fit",
    "function_parts",
    "improve_marginals",
    "infer",
    "initial_inducing",
    "integrate",
    "kernel_components",
    "network_at_mode",
    "probability_zero",
    "sample",
    "select_inducing",
    "suggest",
    "suggest_controls",
    "tierney_kadane",
    "update",
]
# Those that compute nothing, or call JAX on floors below the limit of threads.
PLAIN = [
    "cluster_blocks",
    "coefficients",
    "compressed",
    "estimate_cost",
    "integrated_parameters",
    "load",
    "load_module",
    "save_module",
]


def methods(estimator):
    """Public methods and properties of cavity's classes, as functions by their names."""
    for name, _ in inspect.getmembers_static(estimator):
        home = next(c for c in estimator.__mro__ if name in vars(c))
        if name.startswith("_") or not home.__module__.startswith("cavity."):
            continue
        member = vars(home)[name]
        member = member.fget if isinstance(member, property) else member
        member = getattr(member, "__func__", member)
        if inspect.isfunction(member):
            yield f"{home.__name__}.{name}", member


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda c: c.__name__)
def test_public_methods_of_estimators_are_in_double(estimator):
    found = dict(methods(estimator))
    assert any(name.endswith(".fit") for name in found)
    bare = {
        name for name, member in found.items() if vars(member).get("guard") != double_precision
    }
    assert bare <= set(UNGUARDED)


def test_the_estimators_are_these():
    assert len(ESTIMATORS) == 11


PLACES = (cavity, cavity.diagnostics, cavity.fitting, cavity.initialisation)
FUNCTIONS: dict[str, Any] = {
    name: member
    for place in PLACES
    for name in place.__all__
    if inspect.isroutine(member := getattr(place, name))
}


@pytest.mark.parametrize("name", LIBRARY)
def test_functions_of_the_library_have_one_blas_thread(name):
    assert FUNCTIONS[name].guard == one_blas_thread


def test_every_other_function_of_the_library_is_known():
    assert set(FUNCTIONS) == {*LIBRARY, *PLAIN}


def state():
    """Whether numbers have 64 bits, and whether BLAS is held to one thread."""
    return bool(jax.config.jax_enable_x64), blas_threads._ONE_THREAD.users > 0


class Guarded:
    """Of every kind that is decorated."""

    @in_double
    def method(self, deep, *, twice=False):
        """What it says."""
        return (state(), self.method(not deep)) if deep else state()

    @property
    @in_double
    def entry(self):
        return state()

    @classmethod
    @in_double
    def made(cls):
        return cls, state()

    @functools.cached_property
    @with_one_blas_thread
    def kept(self):
        return state()


@pytest.mark.x32
def test_guards_hold_inside_and_end():
    guarded, nothing, inside = Guarded(), (False, False), (True, True)
    assert state() == nothing
    assert guarded.method(deep=True) == (inside, inside)
    assert guarded.entry == inside
    assert Guarded.made() == (Guarded, inside)
    assert guarded.kept == (False, True)
    assert state() == nothing


def test_a_guard_ends_where_its_function_fails():
    before = state()
    with pytest.raises(ZeroDivisionError):
        in_double(lambda: 1 / 0)()
    assert state() == before


def test_signatures_and_docstrings_stay():
    assert str(inspect.signature(Guarded.method)) == "(self, deep, *, twice=False)"
    assert Guarded.method.__doc__ == "What it says."
    assert list(inspect.signature(cavity.GPRegressor.predict).parameters) == [
        *("self", "X", "return_std", "return_cov", "noise_variance", "exposure", "engine")
    ]
    assert "power" in inspect.signature(cavity.fit).parameters


def test_generators_are_refused():
    def rows():
        yield 1

    for decorate in (in_double, with_one_blas_thread, guarded_by(one_blas_thread)):
        with pytest.raises(TypeError, match="rows is a generator"):
            decorate(rows)


@pytest.mark.x32
def test_predictions_are_in_double_and_jax_is_not():
    X = np.linspace(0.0, 1.0, 12)[:, None]
    model = cavity.GPRegressor(max_iterations=0).fit(X, np.sin(4.0 * X[:, 0]))
    mean, cov = model.predict(X, return_cov=True)
    found = [
        mean,
        cov,
        model.predict_quantiles(X, [0.1]),
        model.sample_y(X),
        *model.kernel_.lengthscale,
    ]
    assert all(type(a) in (np.ndarray, np.float64) and a.dtype == np.float64 for a in found)
    assert not jax.config.jax_enable_x64
    assert jax.numpy.ones(1).dtype == np.float32
