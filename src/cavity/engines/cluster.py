"""A Dask cluster as an engine sees it: who is there, who has which part, and what was sent."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cavity.engines.packed import LARGE, Packed, packed
from cavity.learning.engines.base import Part
from cavity.learning.failures import EngineError
from cavity.numerics.callers import warn_caller
from cavity.numerics.text import plural

# Seconds in which a worker that was late is given nothing, where there are others.
REST = 60.0
# A pattern of the warning about workers without work.
IDLE = ".*have nothing to do"
# Addresses of this computer.
LOOPBACK = ("tcp://127.", "tls://127.")


def distributed() -> Any:
    """The package of clusters.

    Raises:
        ImportError: naming the extra, where it is not installed.
    """
    try:
        import distributed
    except ImportError:
        raise ImportError(
            "cavity.engines.Dask needs distributed, which is not installed: "
            'pip install "cavity[dask]"'
        ) from None
    return distributed


class Cluster:
    """A cluster, and what is remembered of it from pass to pass.

    Args:
        client: a `distributed.Client`.

    Attributes:
        processes: address and number of every worker process that has done a part.
        retries: how often a part had to be done again.
    """

    def __init__(self, client: Any):
        self.client = client
        self.processes: set[tuple[str, int]] = set()
        self.retries, self.told = 0, False
        self.known: tuple[str, ...] = ()
        self.places: dict[int, str] = {}
        self.late: dict[str, float] = {}
        self.parts: dict[int, tuple[Part, Any]] = {}

    def workers(self) -> tuple[str, ...]:
        """Addresses of the workers that are there.

        Raises:
            EngineError: where the scheduler does not answer.
        """
        try:
            if self.client.status == "running":
                self.known = tuple(sorted(self.client.nthreads()))
                return self.known
        except OSError:
            pass
        raise EngineError(
            "the Dask scheduler does not answer, or its client was closed; a fit with a "
            "checkpoint goes on where it was, with a new client"
        )

    def awake(self, workers: Sequence[str]) -> Sequence[str]:
        """The workers that were not late, as stopped ones are, or not for a while; or all."""
        since = time.monotonic() - REST
        found = [address for address in workers if self.late.get(address, since) <= since]
        return found or workers

    def preferred(
        self, parts: Sequence[Part], workers: Sequence[str], *, at_home: bool
    ) -> dict[int, str]:
        """A worker for each part: that of the last pass, where it is there.

        Args:
            parts: the parts.
            workers: the workers.
            at_home: whether that one alone will do; otherwise none gets more than its share.
        """
        workers = workers if at_home else self.awake(workers)
        share = len(parts) if at_home else -(-len(parts) // len(workers))
        load = Counter(dict.fromkeys(workers, 0))
        found: dict[int, str] = {}
        for part in parts:
            last = self.places.get(part.index, "")
            if last in load and load[last] < share:
                found[part.index] = last
                load[last] += 1
        for part in parts:
            if part.index not in found:
                found[part.index] = min(workers, key=load.__getitem__)
                load[found[part.index]] += 1
        return found

    def tell_of_idle(self, workers: int, parts: int) -> None:
        """Warns, once, where there are more workers than parts."""
        if workers > parts and not self.told:
            self.told = True
            warn_caller(
                f"{plural(workers, 'worker process', 'worker processes')} share "
                f"{plural(parts, 'part')}, so that {workers - parts} of them have nothing to do: "
                "give the table in more parts, or start fewer workers"
            )

    def sent(self, part: Part) -> Any:
        """A part as workers get it: packed, or a future of that, for all passes."""
        known, kept = self.parts.get(part.index, (None, None))
        if known is not part or not self.is_there(kept):
            kept = self.shipped(part, part.name or "the table", everywhere=False)
            self.parts[part.index] = part, kept
        return kept

    def shipped(self, tree: Any, name: str, *, everywhere: bool) -> Any:
        """Anything as tasks take it: packed, or a future of that where it is large.

        Raises:
            TypeError: for what cannot be pickled.
        """
        try:
            whole = packed(tree)
        except Exception as error:
            raise TypeError(
                f"{name} cannot be sent to another process ({error}); give functions and classes "
                "of a module, which open what they read when they are called"
            ) from None
        if whole.size <= LARGE:
            return whole
        (kept,) = self.client.scatter([whole], broadcast=everywhere, hash=False)
        return kept

    def is_there(self, shipped: Any) -> bool:
        """Whether what was shipped can still be had: futures are lost with their workers."""
        if isinstance(shipped, Packed):
            return True
        return shipped is not None and shipped.status == "finished"

    def gathered(self, futures: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """The results of several tasks by key; None for one that failed.

        They come straight from workers on this computer, which takes half as long as by way of
        the scheduler, and otherwise as the client is set to (`direct_to_workers`).

        Raises:
            Exception: where they do not come within so many seconds, or a connection breaks.
        """
        addresses = self.client.scheduler.address, *self.known
        near = all(address.startswith(LOOPBACK) for address in addresses)
        how = {"errors": "skip", "direct": near or None, "asynchronous": True}
        return self.client.sync(
            lambda: self.client.gather(futures, **how),
            asynchronous=False,
            callback_timeout=seconds,
        )

    def lost_tasks(self, addresses: Iterable[str], keys: Iterable[str]) -> int:
        """How many of these tasks Dask had to give to others, because their workers ended."""
        wanted, count = set(keys), 0
        for address in addresses:
            for _, event in self.client.get_events(address) or ():
                if event.get("action") == "remove-worker":
                    there = (*event["processing-tasks"], *event["lost-computed-tasks"])
                    count += len(wanted.intersection(there))
        return count
