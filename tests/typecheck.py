"""The run-time type checker that the import hook of conftest.py puts on every function."""

import functools

from beartype import BeartypeConf, beartype

# An int is welcome where a float is asked for, as for every static type checker.
MADE = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function):
    """The function with checks that are written when it is first called.

    Most of the price of an import with the hook is checks of functions that this process never
    calls.
    """
    made = []

    @functools.wraps(function)
    def call(*args, **kwargs):
        if not made:
            made.append(MADE(function))
        return made[0](*args, **kwargs)

    return call
