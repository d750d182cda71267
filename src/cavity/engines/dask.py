"""Parts of a table on the workers of a Dask cluster, with the bits of one process."""

import contextlib
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar
from uuid import uuid4

import jax

from cavity.engines.cluster import Cluster, distributed
from cavity.engines.packed import unpacked
from cavity.engines.workers import Outcome, Setting, environment, perform
from cavity.learning.engines.base import AbstractEngine, AbstractPartWork, Part
from cavity.learning.engines.kept import Lost
from cavity.learning.failures import EngineError
from cavity.numerics.text import plural
from cavity.numerics.validation import check_whole

T = TypeVar("T")

# Seconds between looks at the cluster while nothing arrives, and of silence until parts that do
# not come are given to other workers too (or four times what the slowest part took, if longer).
LOOK, LATE = 1.0, 10.0
# Seconds in which a result must come at first, twice as many each time until it is given up: where
# a worker ends just then, Dask may wait for ever.
FETCH, FETCHES = 2.0, 6
# Results fetched in one message at the most, all of which are in memory at a time.
TOGETHER = 8


class Dask(AbstractEngine):
    """Applies functions to parts in the processes of a Dask cluster, of one host or of many.

    The results have the same bits as in one process, whichever worker does which part, where all
    processors are of one kind. A part goes to the worker that had it in the last pass, or to
    another where that one has gone; where a worker ends in the middle, its parts are done again.
    Workers that come later take part from the next pass on.

    Workers have one thread, and the versions of cavity, JAX, numpy and Python of this process; the
    scheduler has cavity too. Dask sends pickled functions: whoever reaches the scheduler can run
    code on the workers, so the network must be trusted, or closed by TLS.

    Args:
        client: a `distributed.Client` of a cluster.
        patience: seconds to wait for a worker where there is none.
        attempts: how often a part may fail before the fit ends. Work that ends its worker is given
            to some more by Dask (`distributed.scheduler.allowed-failures`), which is one failure.

    Raises:
        ImportError: where `distributed` is not installed, naming the extra.
        TypeError: for what is no client, or an asynchronous one.
        ValueError: for no patience or no attempts.
    """

    def __init__(self, client: Any, *, patience: float = 300.0, attempts: int = 3):
        if not isinstance(client, distributed().Client) or client.asynchronous:
            raise TypeError(
                "client must be a distributed.Client that is not asynchronous, such as "
                f"distributed.Client('tcp://host:8786'); given {type(client).__name__}"
            )
        if not patience > 0.0:
            raise ValueError(f"patience must be a positive number of seconds, given {patience!r}")
        check_whole("attempts", attempts, 1)
        self.cluster = Cluster(client)
        self.patience, self.attempts = patience, attempts
        self.parts = 0
        """Parts of the last table."""

    @property
    def processes(self) -> int:
        """Worker processes that have done a part."""
        return len(self.cluster.processes)

    @property
    def retries(self) -> int:
        """How often a part was done again, because its worker was lost, failed or was late."""
        return self.cluster.retries

    def each(self, work: Callable[[Part], T], parts: Sequence[Part]) -> Iterator[tuple[int, T]]:
        self.parts = len(parts)
        tasks = _Pass(self.cluster, work, parts, patience=self.patience, attempts=self.attempts)
        try:
            yield from tasks.results()
        finally:
            tasks.end()


class _Pass(Generic[T]):
    """The tasks of one pass over the parts."""

    def __init__(
        self,
        cluster: Cluster,
        work: Callable[[Part], T],
        parts: Sequence[Part],
        *,
        patience: float,
        attempts: int,
    ):
        self.cluster, self.work = cluster, work
        self.patience, self.attempts = patience, attempts
        self.parts = {part.index: part for part in parts}
        self.setting = Setting(environment(), bool(jax.config.read("jax_enable_x64")))
        self.shared: Any = None
        self.name = f"cavity-{uuid4().hex}"
        self.tasks: dict[str, tuple[int, Any]] = {}
        self.fetches: Counter[str] = Counter()
        self.keys: list[str] = []
        self.done: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.failures: dict[int, int] = dict.fromkeys(self.parts, 0)
        self.asked: dict[int, str] = {}
        self.late: Counter[int] = Counter()
        self.idle: set[str] = set()
        # Parts of a worker that ended, whichever of them ended it: they are tried one at a time.
        self.suspects: list[int] = []
        self.alone = -1
        self.addresses: set[str] = set()
        self.slowest = 0.0
        self.heard = time.monotonic()

    def results(self) -> Iterator[tuple[int, T]]:
        """Results as they come, each once."""
        workers = self._workers()
        self.cluster.tell_of_idle(len(workers), len(self.parts))
        home = isinstance(self.work, AbstractPartWork) and self.work.reads_kept
        self.asked = self.cluster.preferred([*self.parts.values()], workers, at_home=home)
        for address in dict.fromkeys(self.asked.values()):
            own = [index for index, asked in self.asked.items() if asked == address]
            self._submit(own, (address,), strictly=home)
        waiting = set(self.parts)
        while waiting:
            if self.suspects and not self.tasks:
                self.alone = self.suspects.pop(0)
                self._again(self.alone, "")
            try:
                keys = self._arrived()
            except queue.Empty:
                self._look(waiting)
                continue
            self.heard = time.monotonic()
            for index, outcome in self._outcomes(keys, waiting):
                waiting.discard(index)
                yield index, unpacked(outcome.value)

    def _outcomes(self, keys: Sequence[str], waiting: set[int]) -> Iterator[tuple[int, Outcome]]:
        """What came of tasks, where it is waited for and there."""
        fetched = self._fetched(keys)
        for key in keys:
            index, future = self.tasks.pop(key)
            known = fetched.get(key)
            try:
                outcome = self._outcome(index, future, known) if index in waiting else None
            finally:
                if key not in self.tasks:
                    future.release()  # which tracebacks would keep, and what waits within Dask
            if outcome is not None:
                yield index, outcome
            elif key not in self.tasks:
                self.cluster.client.cancel([future])

    def end(self) -> None:
        """Cancels what is still on its way, and counts what Dask did again."""
        if self.cluster.client.status != "running":
            return
        left = [future for _, future in self.tasks.values()]
        self.tasks.clear()
        if left:
            self.cluster.client.cancel(left)
        for future in left:
            future.release()
        gone = self.addresses - set(self.cluster.workers())
        self.cluster.retries += self.cluster.lost_tasks(gone, self.keys)

    def _workers(self) -> tuple[str, ...]:
        """The workers that are there; waits for one.

        Raises:
            EngineError: where none comes.
        """
        start = time.monotonic()
        while not (workers := self.cluster.workers()):
            if time.monotonic() - start > self.patience:
                raise EngineError(
                    f"the Dask cluster has had no worker for {self.patience:g} seconds; start "
                    "some, by dask worker or cluster.scale, or give the engine more patience"
                )
            time.sleep(min(LOOK, self.patience))
        self.addresses.update(workers)
        return workers

    def _submit(
        self, indices: Sequence[int], workers: Sequence[str], *, strictly: bool = False
    ) -> None:
        """Gives parts to one of some workers; unless strictly, to any other that is idle."""
        if not self.cluster.is_there(self.shared):
            self.shared = self.cluster.shipped(self.work, "the model", everywhere=True)
        count = len(indices)
        keys = [f"{self.name}-{len(self.keys) + number}" for number in range(count)]
        futures = self.cluster.client.map(
            perform,
            [self.setting] * count,
            [self.cluster.sent(self.parts[index]) for index in indices],
            [self.shared] * count,
            key=keys,
            workers=list(workers) or None,
            allow_other_workers=bool(workers) and not strictly,
            pure=False,
            retries=0,
        )
        self.keys += keys
        for index, future in zip(indices, futures, strict=True):
            self._expect(index, future)

    def _arrived(self) -> list[str]:
        """Tasks that have ended: one at least, with some that have by now.

        Raises:
            queue.Empty: where none ends for a while.
        """
        keys = [self.done.get(timeout=LOOK)]
        with contextlib.suppress(queue.Empty):
            while len(keys) < TOGETHER:
                keys.append(self.done.get_nowait())
        return [key for key in dict.fromkeys(keys) if key in self.tasks]

    def _fetched(self, keys: Sequence[str]) -> dict[str, Outcome]:
        """What came of tasks, of as many as can be had in one message from each worker."""
        futures = {key: self.tasks[key][1] for key in keys}
        ready = {key: future for key, future in futures.items() if future.status == "finished"}
        if not ready:
            return {}
        try:
            found: dict[str, Outcome | None] = self.cluster.gathered(ready, FETCH)
        except Exception:  # each is fetched alone, and says what is wrong with it
            return {}
        return {key: outcome for key, outcome in found.items() if outcome is not None}

    def _expect(self, index: int, future: Any) -> None:
        """Waits for the end of a task; what waits holds no future, which would keep its result."""
        self.tasks[future.key] = index, future
        future.add_done_callback(lambda future: self.done.put(future.key))

    def _again(self, index: int, but: str) -> None:
        """Gives a part to another worker than one, if there is another."""
        others = [address for address in self._workers() if address != but]
        self._submit([index], others)

    def _look(self, waiting: set[int]) -> None:
        """Looks at the cluster while nothing comes; what is idle or late goes to others too."""
        self._workers()
        at_work = {key for keys in self.cluster.client.processing().values() for key in keys}
        idle = {key for key, (_, f) in self.tasks.items() if key not in at_work and not f.done()}
        # Once all workers had gone, Dask gives tasks that prefer one of them to no new one.
        for key in sorted(idle & self.idle):
            index, future = self.tasks.pop(key)
            self.cluster.client.cancel([future])
            self._lost(index)
        self.idle = idle
        quiet = time.monotonic() - self.heard
        if self.slowest and quiet > max(LATE, 4.0 * self.slowest):
            self.heard = time.monotonic()
            for index in sorted(waiting):
                self.late[index] += 1
                self.cluster.late[self.asked[index]] = self.heard
                self._lost(index)

    def _outcome(self, index: int, future: Any, known: Outcome | None) -> Outcome | None:
        """What came of a task, known or not; None where the part is still to come."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        self.fetches[future.key] += 1
        seconds = FETCH * 2.0 ** (self.fetches[future.key] - 1)
        try:
            outcome: Outcome = future.result(timeout=seconds) if known is None else known
        except TimeoutError:
            if future.status == "finished" and self.fetches[future.key] < FETCHES:
                self._expect(index, future)
            else:
                self._lost(index)
            return None
        except FutureCancelledError:
            self._lost(index)
            return None
        except KilledWorker as killed:
            if index != self.alone:
                self.suspects.append(index)
                self.cluster.retries += 1
                return None
            address = killed.last_worker.address
            reason = f"worker processes ended while they had it, the last one {address}"
            self._failed(index, f"{reason}: they were killed, or out of memory", address)
            return None
        except Exception as error:
            raise EngineError(
                f"Dask could not run the work on {self._called(index)} ({type(error).__name__}: "
                f"{error}); cavity and what the parts need must be installed on the scheduler and "
                "on all workers"
            ) from error
        return self._checked(index, outcome)

    def _checked(self, index: int, outcome: Outcome) -> Outcome | None:
        """An outcome without an error; None where it has one for which another worker may do."""
        if outcome.error is None:
            self.cluster.places[index] = outcome.address
            self.cluster.processes.add((outcome.address, outcome.process))
            self.slowest = max(self.slowest, outcome.seconds)
            return outcome
        error = unpacked(outcome.error)
        if isinstance(error, Lost) and self._left_at_home(index, outcome.address):
            return None
        if not outcome.elsewhere:
            raise error
        self.cluster.retries += 1
        reason = f"on the worker {outcome.address}: {type(error).__name__}: {error}"
        self._failed(index, reason, outcome.address, error)
        return None

    def _left_at_home(self, index: int, address: str) -> bool:
        """Whether a part without its sites at a worker is left to the one that has them.

        Dask gives parts to idle workers, and parts that are late are given to others. A worker
        that is late for the second time is no longer waited for.
        """
        home = self.asked[index]
        if home == address or self.late[index] > 1 or home not in self._workers():
            return False
        if all(index != other for other, _ in self.tasks.values()):
            self._submit([index], (home,), strictly=True)
        return True

    def _called(self, index: int) -> str:
        return self.parts[index].name or "the table"

    def _lost(self, index: int) -> None:
        """Gives a part whose result was lost to another worker."""
        self.cluster.retries += 1
        self._again(index, self.asked[index])

    def _failed(
        self, index: int, reason: str, address: str, error: Exception | None = None
    ) -> None:
        """Counts a failure of a part, and gives it to another worker unless there were enough."""
        self.failures[index] += 1
        if self.failures[index] < self.attempts:
            self._again(index, address)
            return
        times = plural(self.failures[index], "time")
        told = f"{self._called(index)} failed {times}; the last time {reason}"
        raise EngineError(told) from error
