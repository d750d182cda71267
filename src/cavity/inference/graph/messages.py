"""Products of messages, and messages about a linear transform of a variable."""

from typing import TypeVar, cast

import jax
import jax.numpy as jnp

from cavity.inference.graph.base import AbstractMessages, Messages

M = TypeVar("M", bound=AbstractMessages)


def added(a: M, b: M) -> M:
    """The product of messages; if only one shares precisions between outputs, it is unshared."""
    if a.shift.shape != b.shift.shape:
        a, b = cast(M, _unshared(cast(Messages, a))), cast(M, _unshared(cast(Messages, b)))
    return jax.tree.map(jnp.add, a, b)


def _unshared(m: Messages) -> Messages:
    groups, replicas, size = m.shift.shape
    precision = jnp.repeat(m.precision, replicas, axis=0)
    return Messages(m.shift.reshape(groups * replicas, 1, size), precision, m.log_scale)
