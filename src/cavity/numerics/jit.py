"""Compiled programs: quick to compile, optimised where they are used much, never too many.

A program is a function for arguments of one structure, with what is not an array fixed, and of
the same shapes. Small data need not wait for an optimising compiler: programs are compiled without
its passes first, and again with all of them once they have been called so often that this pays.
That depends on calls and sizes alone, never on time, so that the same calls give the same bits.
Programs that were not used for long are dropped, so that no process grows of them.
"""

import functools
import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer, get_opaque_trace_state
from jax.lib import __version__ as jaxlib_version  # type: ignore[attr-defined]

from cavity.numerics.forking import refuse_lost_threads
from cavity.numerics.program_size import ProgramSize, program_size

P = ParamSpec("P")
T = TypeVar("T")

# XLA's emitters of fused loops double the time to compile for the CPU, the passes of its compiler
# do so once more, and each of several parts of a program takes memory maps of its own. Sums in a
# tree are a quarter of the rest, and stay: without them searches at the smallest noise end early.
QUICK: dict[str, Any] = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
}
# Array entries that a program must have computed, for each of its operations, before the passes
# pay: they take three milliseconds for an operation, and spare a third of a nanosecond an entry.
ENTRIES_PER_OPERATION = 10_000_000
# Rows or columns beyond which programs have all passes at once: what is computed outweighs them
# soon.
FEW_ROWS = 2048
# Programs kept. Each takes some megabytes, and dozens of the 65,530 memory maps that Linux allows.
MOST_PROGRAMS = 150
# Releases of jaxlib, from the first to before the second, that share factorisations and solves of
# a batch out among the threads of the pool that they run in, and wait for them there. Where as
# many of them run side by side as there are threads, all wait and none works, for ever.
STOPS = (0, 10, 0), (0, 11, 1)


def stops_in_batches(version: str) -> bool:
    """True for releases of jaxlib that may hang in factorisations of batches."""
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
    """`fn` compiled for each structure and shapes of its arguments.

    Arrays, JAX's and numpy's, are the program's arguments, and all else is fixed in it. Called
    while another program is being traced, it is the plain one. A function made anew for each call
    has a program for each.
    """
    return _compiled(fn, again=True)


def compiled_once(fn: Callable[P, T]) -> Callable[P, T]:
    """`compiled`, but never anew: the same bits in processes that have called it less often."""
    return _compiled(fn, again=False)


def _compiled(fn: Callable[P, T], *, again: bool) -> Callable[P, T]:
    part = eqx.filter_jit(fn)

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        taken = _taken_apart((args, kwargs))
        if _is_traced(taken.arrays):
            return part(*args, **kwargs)
        return PROGRAMS.run(_Key(fn, taken), taken.arrays, again=again)

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
        taken = _taken_apart((fixed, {}))
        self.arrays = [jnp.asarray(leaf) for leaf in taken.arrays]
        self.fixed = _Key(fn, taken._replace(arrays=self.arrays))

    def __call__(self, *args: Any) -> T:
        """The function's value; arguments are trees of arrays, numpy's or JAX's."""
        taken = _taken_apart((args, {}))
        key, arrays = _Key(self.fixed.fn, taken, self.fixed), self.arrays + taken.arrays
        return key.value(arrays) if _is_traced(taken.arrays) else PROGRAMS.run(key, arrays)


class _Taken(NamedTuple):
    """Arguments taken apart.

    Attributes:
        structure: of the tree of positional arguments and those by name.
        static: leaves that are no arrays, by their places.
        arrays: the other leaves.
        count: the number of leaves.
    """

    structure: Any
    static: tuple[tuple[int, Any], ...]
    arrays: list[Any]
    count: int

    def together(self, arrays: list[Any]) -> Any:
        """The arguments with other arrays."""
        leaves, left = [ARRAY] * self.count, iter(arrays)
        for place, leaf in self.static:
            leaves[place] = leaf
        leaves = [next(left) if leaf is ARRAY else leaf for leaf in leaves]
        return jax.tree.unflatten(self.structure, leaves)


# Settings of JAX that programs depend on, beside the precision.
SETTINGS = (
    "jax_default_device",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_debug_nans",
)
# stands for an array among leaves
ARRAY: Any = object()
# what JAX's state is where nothing is being traced
OUTSIDE = get_opaque_trace_state(convention="flax")


def _taken_apart(tree: Any) -> _Taken:
    leaves, structure = jax.tree.flatten(tree)
    arrays = [leaf for leaf in leaves if _is_array(leaf)]
    static = ()
    if len(arrays) < len(leaves):
        static = tuple((i, leaf) for i, leaf in enumerate(leaves) if not _is_array(leaf))
    return _Taken(structure, static, arrays, len(leaves))


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def _is_traced(arrays: list[Any]) -> bool:
    """True inside a program that is being traced, with or without traced arguments.

    Also true under `jax.disable_jit()`, where nothing is compiled.
    """
    config: Any = jax.config
    within = get_opaque_trace_state(convention="flax") != OUTSIDE
    return within or config.jax_disable_jit or any(isinstance(leaf, Tracer) for leaf in arrays)


class _Key:
    """Key of a compiled program; calls with equal keys share the program.

    Args:
        fn: the function.
        taken: its arguments, or those that are not bound.
        bound: the key of the function with those that are; None for none.
    """

    def __init__(self, fn: Callable[..., Any], taken: _Taken, bound: "_Key | None" = None):
        self.fn, self.bound = fn, bound
        self.structure, self.static = taken.structure, taken.static
        kinds = tuple(map(_kind, taken.arrays))
        constants = tuple((place, *_constant(leaf)) for place, leaf in self.static)
        self.parts = (fn, bound, self.structure, constants, kinds, *_settings())
        self.hash = hash(self.parts)
        self.count = taken.count

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Key) and self.parts == other.parts)

    def value(self, arrays: list[Any]) -> Any:
        """The function's value for arguments with these arrays."""
        bound = ()
        if self.bound is not None:
            first = len(arrays) - (self.count - len(self.static))
            (bound, _), arrays = self.bound.taken().together(arrays[:first]), arrays[first:]
        args, kwargs = self.taken().together(arrays)
        return self.fn(*bound, *args, **kwargs)

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.fn, "__name__", "run")

    def taken(self) -> _Taken:
        """The arguments without their arrays."""
        return _Taken(self.structure, self.static, [], self.count)


def _constant(leaf: Any) -> tuple[type, Any]:
    """Key of a constant, which distinguishes equal numbers of different types or signs."""
    return type(leaf), leaf.hex() if isinstance(leaf, float) else leaf


def _kind(leaf: Any) -> tuple[Any, ...]:
    """The properties of an array on which a program depends: shape, type and device."""
    if isinstance(leaf, jax.Array):
        array: Any = leaf
        return array.aval, array.sharding if _several_devices() else None
    return leaf.shape, leaf.dtype


@functools.cache
def _several_devices() -> bool:
    return jax.default_backend() != "cpu" or jax.device_count() > 1


def _settings() -> tuple[Any, ...]:
    """The global settings of JAX on which a program depends."""
    config: Any = jax.config
    wide = jax.dtypes.canonicalize_dtype(np.float64)
    return wide, *(getattr(config, name, None) for name in SETTINGS)


class Program:
    """One function for arguments of one structure and the same shapes.

    It is compiled when it is called first; threads that call it at the same time wait.

    Args:
        key: what it is a program of.
        again: whether it is compiled with all passes once calls have paid for them.

    Attributes:
        size: its operations, and the array entries that a call computes.
        optimised: whether it was compiled with all passes.
    """

    out: _Taken
    size: ProgramSize
    traced: Any
    calls_left: int

    def __init__(self, key: _Key, *, again: bool):
        self.key, self.again, self.lock = key, again, threading.Lock()
        self.compiled: Any = None
        self.optimised = False

    def __call__(self, arrays: list[Any]) -> Any:
        """The function's value for arguments with these arrays."""
        if not self.optimised:
            with self.lock:
                self.prepare(arrays)
        return self.out.together(self.compiled(arrays))

    def prepare(self, arrays: list[Any]) -> None:
        """Compiles for the first call, and again where calls have paid for all passes."""
        if self.compiled is None:
            self.trace(arrays)
            many = any(n > FEW_ROWS for array in arrays for n in array.shape)
            self.compile(all_passes=many or self.calls_left < 1 or not _understood())
        elif not self.optimised and self.again:
            self.calls_left -= 1
            if self.calls_left < 0:
                self.compile(all_passes=True)

    def trace(self, arrays: list[Any]) -> None:
        """Writes down the operations, and counts them."""

        def run(arrays: list[Any]) -> list[Any]:
            out = _taken_apart(self.key.value(arrays))
            self.out = out._replace(arrays=[])
            return out.arrays

        run.__name__ = self.key.name
        self.traced = jax.jit(run).trace(arrays)
        self.size = program_size(self.traced.jaxpr)
        self.calls_left = ENTRIES_PER_OPERATION * self.size.operations // (self.size.entries + 1)

    def compile(self, *, all_passes: bool) -> None:
        """Compiles what was traced, which is not needed any more after all passes."""
        options = None if all_passes else QUICK
        self.compiled = self.traced.lower().compile(compiler_options=options)
        if all_passes:
            self.traced, self.optimised = None, True


class Programs:
    """The programs that are kept: those used last.

    Args:
        most: how many there are at the most.
    """

    def __init__(self, most: int):
        self.most, self.lock = most, threading.Lock()
        self.kept: OrderedDict[_Key, Program] = OrderedDict()

    def run(self, key: _Key, arrays: list[Any], *, again: bool = True) -> Any:
        """The value of a program, which is made where there is none yet."""
        refuse_lost_threads()
        with self.lock:
            program = self.kept.get(key)
            if program is None:
                program = self.kept[key] = Program(key, again=again)
            else:
                self.kept.move_to_end(key)
            while len(self.kept) > self.most:
                self.kept.popitem(last=False)
        return program(arrays)

    def forget(self) -> None:
        """Drops all programs."""
        with self.lock:
            self.kept.clear()


PROGRAMS = Programs(MOST_PROGRAMS)


def shapes_of(fn: Callable[..., T], *args: Any) -> T:
    """Result of `fn` for these arguments, with shapes in place of arrays.

    The function is traced once for all arguments of one structure and the same shapes, so that
    one asked for again and again must be the same object, and no closure.
    """
    taken = _taken_apart((args, {}))
    if any(isinstance(leaf, Tracer) for leaf in taken.arrays):
        return eqx.filter_eval_shape(fn, *args)
    kinds = [jax.typeof(leaf) for leaf in taken.arrays]
    shapes = tuple(
        jax.ShapeDtypeStruct(kind.shape, kind.dtype, weak_type=kind.weak_type) for kind in kinds
    )
    return _shapes(_Key(fn, taken), shapes)


@functools.lru_cache(maxsize=256)
def _shapes(key: _Key, shapes: tuple[jax.ShapeDtypeStruct, ...]) -> Any:
    return eqx.filter_eval_shape(lambda leaves: key.value(list(leaves)), shapes)


@functools.cache
def _understood() -> bool:
    """True if the options are for this device and the installed XLA knows them."""
    if jax.default_backend() != "cpu":
        return False
    try:
        jax.jit(lambda x: x, compiler_options=QUICK).lower(0.0).compile()
    except jax.errors.JaxRuntimeError:  # which other options are met with
        return False
    return True
