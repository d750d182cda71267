"""The abstract bound over an order: stores in, a number and beliefs out.

Where values depend on inducing variables, the messages of a layer need what is believed of the
one below, and a state that of the one before. Such a bound goes through its layers, or along its
paths, once; nodes and sampled paths average whole bounds, each with its own posterior. No other
file of the engine adds energies.
"""

import abc
from typing import NamedTuple

import equinox as eqx

from cavity.inference.factors.base import Beliefs, Stores
from cavity.numerics.types import Scalar


class Bounded(NamedTuple):
    """A bound at some stores.

    Attributes:
        log_evidence: all that it adds to the log evidence, in nats.
        beliefs: about its variables.
    """

    log_evidence: Scalar
    beliefs: Beliefs


class AbstractOrderedBound(eqx.Module):
    """A lower bound of a log evidence, by an order of its variables.

    To implement:
        the field `start` and `__call__(stores)`.

    Attributes:
        start: the stores that a search starts from, all of them moved by an optimiser.
    """

    start: eqx.AbstractVar[Stores]

    @abc.abstractmethod
    def __call__(self, stores: Stores) -> Bounded:
        """The bound, and the beliefs about its variables."""
