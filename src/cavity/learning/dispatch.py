"""The one place where the method that a user gave is told from settings of Markov chains."""

from collections.abc import Callable
from typing import TypeVar

from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.mcmc import MCMC

T = TypeVar("T")


def dispatch(
    method: object, approximate: Callable[[AbstractMethod], T], sample: Callable[[MCMC], T]
) -> T:
    """Call one function for a method, or another for settings of Markov chains.

    Args:
        method: what the user gave.
        approximate: called with a method.
        sample: called with settings of Markov chains.

    Raises:
        TypeError: for what is neither.
    """
    if not isinstance(method, AbstractMethod | MCMC):
        raise TypeError(f"method must be an object such as cavity.PowerEP(), given {method!r}")
    return method.chosen(approximate, sample)


def check_sampler(given: object) -> None:
    """Raises TypeError unless the sampler is an `MCMC` object."""
    if not isinstance(given, MCMC):
        raise TypeError(
            f"sampler must be settings of Markov chains, cavity.MCMC(...), given {given!r}"
        )
