"""Compiled programs that small data need not wait for."""

import functools
import re
import warnings
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.lib import __version__ as jaxlib_version  # type: ignore[attr-defined]

P = ParamSpec("P")
T = TypeVar("T")

# Array entries up to which a program takes longer to compile than to run some hundred times.
SMALL = 2**15
# XLA's emitters of fused loops double the time to compile for the CPU; programs without them give
# the same results, at large sizes more slowly. Sums in a tree are a quarter of the rest, and stay:
# without them searches at the smallest noise end early.
QUICK: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False}
# Releases of jaxlib, from the first to before the second, that share factorisations and solves of
# a batch out among the threads of the pool that they run in, and wait for them there. Where as
# many of them run side by side as there are threads, all wait and none works, for ever.
STOPS = (0, 10, 0), (0, 11, 1)


def stops_in_batches(version: str) -> bool:
    """Whether this release of jaxlib may stop forever in factorisations of batches."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return found is not None and STOPS[0] <= tuple(map(int, found.groups())) < STOPS[1]


if stops_in_batches(jaxlib_version):
    warnings.warn(
        f"jaxlib {jaxlib_version} may stop forever on machines of few cores, in "
        "factorisations of several matrices at a time: install jax 0.11.1 or newer, or with "
        "Python 3.11 jax 0.9.2",
        RuntimeWarning,
        stacklevel=2,
    )


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


class Bound(Generic[T]):
    """A function compiled with its first arguments given once and for all.

    They are taken apart once and not at every call, which is what a call mostly costs the host.
    Bound functions whose fixed arguments differ in their arrays' values only share a program.

    Args:
        fn: the function.
        fixed: its first arguments, of any kind.
    """

    def __init__(self, fn: Callable[..., T], *fixed: Any):
        arrays, static = eqx.partition(fixed, eqx.is_array)
        leaves, structure = jax.tree.flatten(arrays)
        self.arrays = [jnp.asarray(leaf) for leaf in leaves]
        self.key = _Static(fn, structure, static)
        small = sum(leaf.size for leaf in self.arrays) <= SMALL
        self.run = _run_bound(quick=small and _understood())

    def __call__(self, *args: Any) -> T:
        """The function's value; arguments are trees of arrays, numpy's or JAX's."""
        return self.run(self.key, self.arrays, args)


class _Static:
    """What a bound function is compiled for; equal ones share a program."""

    def __init__(self, fn: Callable[..., Any], structure: Any, static: Any):
        leaves, outer = jax.tree.flatten(static)
        self.fn, self.structure, self.static = fn, structure, static
        self.parts = (fn, structure, outer, tuple(leaves))
        self.hash = hash(self.parts)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Static) and self.parts == other.parts)


def shapes_of(fn: Callable[..., T], *args: Any) -> T:
    """What `fn` gives for these arguments, with shapes in the place of arrays.

    The function is traced once for all arguments of one structure and the same shapes, so that
    one asked for again and again must be the same object, and no closure.
    """
    arrays, static = eqx.partition(args, lambda x: eqx.is_array(x) or isinstance(x, np.ndarray))
    leaves, structure = jax.tree.flatten(arrays)
    kinds = [jax.typeof(leaf) for leaf in leaves]
    shapes = tuple(
        jax.ShapeDtypeStruct(kind.shape, kind.dtype, weak_type=kind.weak_type) for kind in kinds
    )
    wide = jnp.zeros(()).dtype
    return _shapes(_Static(fn, structure, static), shapes, wide)


@functools.lru_cache(maxsize=256)
def _shapes(key: _Static, shapes: tuple[jax.ShapeDtypeStruct, ...], wide: Any) -> Any:
    del wide  # the precision of new arrays, which is another key

    def of(leaves: tuple) -> Any:
        args = eqx.combine(jax.tree.unflatten(key.structure, leaves), key.static)
        return key.fn(*args)

    return eqx.filter_eval_shape(of, shapes)


@functools.cache
def _run_bound(*, quick: bool) -> Callable[..., Any]:
    def run(key: _Static, arrays: list[Any], args: tuple) -> Any:
        fixed = eqx.combine(jax.tree.unflatten(key.structure, arrays), key.static)
        return key.fn(*fixed, *args)

    options: Any = {"compiler_options": QUICK} if quick else {}
    return jax.jit(run, static_argnums=0, **options)


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
