"""Warnings at the line of the call."""

import inspect

import pytest

from cavity.numerics.callers import warn_caller

WITHIN = """
def inner():
    warn_caller("look here", RuntimeWarning)

def outer():
    inner()
"""


@pytest.mark.parametrize("name", ["inner", "outer"])
def test_a_warning_is_shown_where_the_package_was_called(name):
    space = {"__name__": "cavity.somewhere", "warn_caller": inspect.unwrap(warn_caller)}
    exec(WITHIN, space)
    with pytest.warns(RuntimeWarning, match="look here") as found:
        space[name]()
    line = inspect.currentframe().f_lineno - 1
    assert (found[0].filename, found[0].lineno) == (__file__, line)
