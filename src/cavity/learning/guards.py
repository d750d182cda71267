"""Guards: what is set while a function runs, and as it was before once it returns."""

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


def guarded_by(context: Callable[[], AbstractContextManager]) -> Callable[[Function], Function]:
    """A decorator whose functions run in a context, entered anew for every call.

    What it decorates keeps its signature and its docstring. Of a property, a cached property or a
    class method it decorates the function within. Guarded functions may call each other.

    Args:
        context: gives the context; it is kept as `guard` of the functions that are decorated.

    Raises:
        TypeError: by the decorator, for a generator, which would run after the context has ended.
    """

    def decorate(function: Function) -> Function:
        if inspect.isgeneratorfunction(function):
            raise TypeError(
                f"{function.__name__} is a generator, which runs after its call has returned: use "
                "the guard within it, by `with`"
            )

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with context():
                return function(*args, **kwargs)

        vars(guarded)["guard"] = context
        return cast(Function, guarded)

    return decorate
