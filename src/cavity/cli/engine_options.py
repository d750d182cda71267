"""The options --processes and --scheduler: what works on the parts of a table."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from cavity.cli.session import Session, usage
from cavity.learning.engines.base import AbstractEngine, InProcess, Part
from cavity.persistence.errors import DataError
from cavity.tables.row_source import Passes

T = TypeVar("T")

# Seconds in which a scheduler must answer.
ANSWER = 20


@contextlib.contextmanager
def engine_of(
    session: Session, processes: int | None, scheduler: str | None
) -> Iterator[AbstractEngine | None]:
    """What works on the parts of a table while a command runs; None where nothing was asked for.

    Args:
        session: for warnings of the engine.
        processes: number of processes to start.
        scheduler: address of a Dask scheduler.

    Raises:
        UsageError: for both, and where Dask is needed and not installed.
        DataError: for a scheduler that does not answer.
    """
    if processes is not None and scheduler is not None:
        raise usage("--scheduler", "it has workers of its own: leave --processes out")
    if scheduler is None and processes in (None, 1):
        yield None if processes is None else InProcess()
        return
    try:
        import distributed
    except ImportError:
        option = "--scheduler" if processes is None else "--processes"
        raise usage(option, 'it needs Dask: pip install "cavity[dask]"') from None
    from cavity.engines.cluster import IDLE
    from cavity.engines.dask import Dask

    with contextlib.ExitStack() as opened:
        if scheduler is None:
            address: Any = opened.enter_context(_cluster(int(processes or 1)))
        else:
            address = scheduler
        try:
            client = distributed.Client(address, timeout=ANSWER, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise DataError(
                f"no Dask scheduler answers at {scheduler} within {ANSWER} seconds "
                f"({error}); start one by: dask scheduler",
                kind="io",
            ) from None
        opened.enter_context(client)
        opened.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("always", IDLE)
        warnings.showwarning = lambda message, *_, **__: session.warn(str(message))
        yield Dask(client)


def _cluster(processes: int) -> Any:
    """A cluster of processes on this computer, of one thread each."""
    import distributed
    from dask import config

    # a worker that ends is started again however long the fit takes
    config.set({"distributed.deploy.lost-worker-timeout": "1d"})
    return distributed.LocalCluster(
        n_workers=processes,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=":0",
        silence_logs=50,
        preload="cavity.engines.uninterrupted",
    )


class Watched(AbstractEngine):
    """An engine whose passes are told of.

    Args:
        engine: the engine.
        passes: told of each pass, and of its parts that are done.
    """

    def __init__(self, engine: AbstractEngine, passes: Passes):
        self.engine, self.passes = engine, passes

    @property
    def processes(self) -> int:
        return self.engine.processes

    @property
    def retries(self) -> int:
        return self.engine.retries

    def each(self, work: Callable[[Part], T], parts: Sequence[Part]) -> Iterator[tuple[int, T]]:
        passes = self.passes
        passes.begun += 1
        passes.watch(0)
        for done, found in enumerate(self.engine.each(work, parts), 1):
            yield found
            passes.watch(passes.rows * done // len(parts))
