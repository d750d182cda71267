"""Compiled programs that small data need not wait for."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

P = ParamSpec("P")
T = TypeVar("T")

# Array entries up to which a program takes longer to compile than to run some hundred times.
SMALL = 2**15
# XLA's emitters of fused loops double the time to compile for the CPU; programs without them give
# the same results, at large sizes more slowly.
QUICK: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False}


def compiled(fn: Callable[P, T]) -> Callable[P, T]:
    """`fn` compiled as by `eqx.filter_jit`; for few array entries in a way that is quicker.

    Called while another program is being traced, it is the plain one.
    """
    whole = eqx.filter_jit(fn)

    @functools.cache
    def quick() -> Callable[P, T]:
        options: Any = {"compiler_options": QUICK} if _understood() else {}
        return eqx.filter_jit(fn, **options)

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        # a new array is a tracer in a program that is being traced
        leaves = [*jax.tree.leaves((args, kwargs)), jnp.zeros(())]
        if any(isinstance(leaf, Tracer) for leaf in leaves):
            return whole(*args, **kwargs)
        size = sum(leaf.size for leaf in leaves if eqx.is_array(leaf))
        return (quick() if size <= SMALL else whole)(*args, **kwargs)

    return call


@functools.cache
def _understood() -> bool:
    """Whether the options are for this device and the installed XLA knows them."""
    if jax.default_backend() != "cpu":
        return False
    try:
        jax.jit(lambda x: x, compiler_options=QUICK).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:  # which other options are met with
        return False
    return True
