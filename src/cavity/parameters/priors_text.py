"""Priors as they print: `lognormal(1, 0.5)`."""

import ast
import inspect
from typing import Any, get_args

import numpy as np

from cavity.parameters.priors import Flat, Prior

NAMES: dict[str, Any] = {each.__name__.lower(): each for each in get_args(Prior)}


def prior_of(text: str) -> Prior:
    """The prior of a text.

    Args:
        text: a name in small letters, and numbers, or tuples or lists with one for each entry.

    Raises:
        ValueError: for a name that no prior has, and numbers that it does not take.

    Example:
        >>> print(prior_of("lognormal(1, 0.5)"))
        lognormal(1, 0.5)
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        call = None
    if isinstance(call, ast.Name):
        call = ast.Call(call, [], [])
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"'{text}' is no prior, such as lognormal(1, 0.5)")
    if call.func.id not in NAMES:
        raise ValueError(f"there is no prior '{call.func.id}'; known: {', '.join(NAMES)}")
    made = NAMES[call.func.id]
    takes = ", ".join(inspect.signature(made).parameters) or "no numbers"
    try:
        given = [_number(each) for each in call.args]
        named = {str(each.arg): _number(each.value) for each in call.keywords}
        return Flat() if made is Flat and not (given or named) else made(*given, **named)
    except TypeError:
        raise ValueError(f"{call.func.id} takes {takes}, given '{text}'") from None


def _number(node: ast.expr) -> Any:
    """A number, or a tuple of numbers.

    Raises:
        ValueError: for anything else.
    """
    try:
        value = ast.literal_eval(node)
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError, SyntaxError, OverflowError):
        array = np.array(np.nan)
    if not np.all(np.isfinite(array)) or isinstance(value, bool | str):
        raise ValueError(f"'{ast.unparse(node)}' is no number, and no tuple of numbers")
    return _tuples(array.tolist())


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
