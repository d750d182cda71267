"""Work on a part in a process of Dask's: what it must be like, and what it sends back."""

import functools
import os
import platform
import time
import traceback
from importlib.metadata import version
from typing import Any, NamedTuple

import jax

from cavity.engines.packed import Packed, packed, unpacked
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.engines.kept import kept_in
from cavity.learning.failures import EngineError


class Environment(NamedTuple):
    """What decides the last bits of a result, and what a process must have in common with others.

    Attributes:
        python: its version, without the last number.
        cavity: the version of this package.
        jax: that of JAX.
        jaxlib: that of its compiler.
        numpy: that of numpy.
        flags: the words of XLA_FLAGS.
    """

    python: str
    cavity: str
    jax: str
    jaxlib: str
    numpy: str
    flags: str

    def difference(self, wanted: "Environment") -> str:
        """The first thing in which a process is not as wanted, in words; empty for none."""
        for name, here, there in zip(self._fields, self, wanted, strict=True):
            if here != there:
                what = "XLA_FLAGS" if name == "flags" else name
                return (
                    f"has {what} {here or 'unset'}, and the process of the fit {there or 'unset'}"
                )
        return ""


@functools.cache
def environment() -> Environment:
    """That of this process."""
    flags = sorted(os.environ.get("XLA_FLAGS", "").split())
    return Environment(
        python=".".join(platform.python_version_tuple()[:2]),
        cavity=version("cavity"),
        jax=version("jax"),
        jaxlib=version("jaxlib"),
        numpy=version("numpy"),
        flags=" ".join(flags),
    )


class Setting(NamedTuple):
    """In what the work is done, the same on all workers.

    Attributes:
        environment: of the process of the fit.
        double: whether numbers have 64 bits.
    """

    environment: Environment
    double: bool


class Outcome(NamedTuple):
    """What a worker sends back; trees are packed, to be read in the precision of the fit.

    Attributes:
        address: the worker's.
        process: the number of its process.
        seconds: how long it took.
        value: the result; empty after an error.
        error: the error; None without one.
        elsewhere: whether another process may do better.
    """

    address: str
    process: int
    seconds: float
    value: Packed = Packed()
    error: Packed | None = None
    elsewhere: bool = False


def perform(setting: Setting, part: Packed, work: Packed) -> Outcome:
    """Applies work to a part, both packed, in a worker of Dask's. It never raises."""
    from distributed import get_worker

    worker, start = get_worker(), time.monotonic()

    def outcome(**found: Any) -> Outcome:
        return Outcome(worker.address, os.getpid(), time.monotonic() - start, **found)

    refused = _refusal(worker.address, worker.state.nthreads, setting.environment)
    if refused:
        return outcome(error=packed(EngineError(refused)))
    try:
        keeping = kept_in(worker.local_directory)  # which Dask clears
        with jax.enable_x64(setting.double), one_blas_thread(), keeping:
            return outcome(value=packed(unpacked(work)(unpacked(part))))
    except Exception as error:
        elsewhere = isinstance(error, OSError | MemoryError)
        return outcome(error=_packed_error(error, worker.address), elsewhere=elsewhere)


@functools.cache
def _refusal(address: str, threads: int, wanted: Environment) -> str:
    """Why a worker cannot take part, in words; empty where it can."""
    if threads != 1:
        return (
            f"the worker {address} has {threads} threads, and each of them would work with all "
            "cores: start workers with one, by --nthreads 1 or threads_per_worker=1"
        )
    difference = environment().difference(wanted)
    return f"the worker {address} {difference}: they must be the same" if difference else ""


def _packed_error(error: Exception, address: str) -> Packed:
    """An error with the lines where it was raised; one that cannot be sent as its words."""
    lines = "".join(traceback.format_exception(error))
    error.add_note(f"Raised by the worker {address}:\n{lines}")
    try:
        sent = packed(error)
        unpacked(sent)
    except Exception:
        return packed(RuntimeError(f"{type(error).__name__}: {error}"))
    return sent
