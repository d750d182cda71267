"""Checkpoints of a fit: recorded evaluations and states, from which it can be resumed.

The state of L-BFGS-B cannot be saved, but it evaluates the same points whenever it gets the same
values. So every evaluation is recorded, and a resumed fit repeats its search with the recorded
values as far as they reach. Iterations of this package save their state instead, and searches that
have ended save their result. A `Store` decides where all this is stored.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from cavity.learning.data.fingerprint import fingerprint, to_text
from cavity.learning.data.training_data import AbstractTrainingData
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.mcmc import MCMC
from cavity.learning.optimisers.lbfgs import Minimum
from cavity.models.base import AbstractModel

# A tree that can be saved: dictionaries, lists, tuples, arrays, numbers, strings and None.
State = dict[str, Any]

# States are written every so many seconds at most, and take this share of the time at most.
SECONDS, SHARE = 1.0, 0.01


@runtime_checkable
class Journal(Protocol):
    """Records one after another, of which the last may be lost but none is ever wrong."""

    def read(self) -> bytes | None:
        """The next record; None after the last."""
        ...

    def unread(self) -> None:
        """Goes back to before the record that was read last."""
        ...

    def write(self, record: bytes) -> None:
        """Puts a record after those that were read or written, in place of whatever followed."""
        ...

    def sync(self) -> None:
        """Makes what was written outlast the machine, not only the process."""
        ...

    def close(self) -> None:
        """Ends the work on it."""
        ...


@runtime_checkable
class Store(Protocol):
    """Storage for the progress of a fit: `cavity.fitting.Checkpoint` is one, in a folder.

    Trees are dictionaries, lists, tuples, arrays, numbers, strings and None.
    """

    def part(self, name: str) -> "Store":
        """A store within the store, for a fit that is part of another."""
        ...

    def claim(self, problem: Mapping[str, Any]) -> None:
        """Begins to keep the fit of a problem; refuses where another is kept."""
        ...

    def load(self, name: str) -> Any:
        """The tree that was saved last under a name; None if there is none."""
        ...

    def save(self, name: str, tree: Any) -> None:
        """Saves a tree, whole or not at all."""
        ...

    def journal(self, name: str) -> Journal:
        """The journal of a name, from its beginning."""
        ...

    def forget(self, name: str) -> None:
        """Removes what was saved under a name, or its journal."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """An objective whose evaluations leave something behind for later ones."""

    jitter: float
    finite_value: bool
    defined: bool
    undefined: bool

    @property
    def carries(self) -> bool:
        """True if the state holds more than the jitter and whether the value was finite."""
        ...

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient."""
        ...

    def state(self) -> State:
        """State of the objective, as a tree that can be saved."""
        ...

    def restore(self, state: State) -> None:
        """Restores the state that was saved."""
        ...


class Searches:
    """The searches of one fit, which are always made in the same order.

    Args:
        store: where they are kept; None for nowhere.
    """

    def __init__(self, store: Store | None = None):
        self.store, self.made = store, 0

    def next(self) -> "Search":
        """Record of the next search."""
        self.made += 1
        return Search(self.store, f"{self.made:03d}")


class Search:
    """Saved record of one search.

    Args:
        store: where; None for nowhere.
        name: of the search within the fit.
    """

    def __init__(self, store: Store | None = None, name: str = ""):
        self.store, self.name = store, name
        self.due = time.perf_counter() + SECONDS

    def ended(self, objective: Resumable) -> Minimum | None:
        """Saved result of the search, with the objective as it was then; None before its end."""
        kept = None if self.store is None else self.store.load(f"{self.name}-end")
        if kept is None:
            return None
        objective.restore(kept["objective"])
        found = kept["minimum"]
        history = tuple(map(float, found["history"]))
        return Minimum(**found | {"objective": float(found["objective"]), "history": history})

    def end(self, minimum: Minimum, objective: Resumable) -> None:
        """Saves the result of the search and deletes its journal; does nothing if interrupted."""
        if self.store is None or minimum.interrupted:
            return
        found = vars(minimum) | {"history": np.asarray(minimum.history, np.float64)}
        self.store.save(f"{self.name}-end", {"minimum": found, "objective": objective.state()})
        self.store.forget(f"{self.name}-journal")
        self.store.forget(f"{self.name}-state")

    def state(self) -> Any:
        """The state that was kept last; None if none was."""
        return None if self.store is None else self.store.load(f"{self.name}-state")

    def forget_state(self) -> None:
        """Keeps no state for now."""
        if self.store is not None:
            self.store.forget(f"{self.name}-state")

    def offer(self, state: Callable[[], Any]) -> None:
        """Keeps a state if it is time to."""
        if self.store is not None and time.perf_counter() >= self.due:
            self.keep(state)

    def keep(self, state: Callable[[], Any]) -> None:
        """Keeps a state; none if it is None."""
        if self.store is None:
            return
        began = time.perf_counter()
        tree = state()
        if tree is not None:
            self.store.save(f"{self.name}-state", tree)
        now = time.perf_counter()
        self.due = now + max(SECONDS, (now - began) / SHARE)

    @contextlib.contextmanager
    def recorded(
        self, objective: Resumable
    ) -> Iterator[Callable[[np.ndarray], tuple[float, np.ndarray]]]:
        """The objective, which answers from the record as far as that reaches."""
        if self.store is None:
            yield objective
            return
        journal = self.store.journal(f"{self.name}-journal")
        fn = Recorded(objective, journal, self)
        try:
            yield fn
        finally:
            fn.catch_up()  # where the record had all of the search
            journal.close()


class Recorded:
    """An objective whose evaluations are recorded, and not made again where they are known.

    Sites that warm-start the next evaluation are too large for the record. Where there are some,
    it is used up to the evaluation after which they were kept last.

    Args:
        objective: the objective.
        journal: the record.
        search: where sites are kept.
    """

    def __init__(self, objective: Resumable, journal: Journal, search: Search):
        self.objective, self.journal, self.search = objective, journal, search
        self.count, self.replaying = 0, True
        self.kept = search.state() if objective.carries else None
        self.known = np.inf
        if objective.carries:
            self.known = 0 if self.kept is None else self.kept["count"]

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient."""
        found = self._recalled(x) if self.replaying else None
        if found is None:
            self.catch_up()
            found = self.objective(x)
            o = self.objective
            head = (o.jitter, float(o.finite_value), found[0])
            self.journal.write(np.concatenate([head, x, found[1]]).astype("<f8").tobytes())
            self.search.offer(self._state)
        self.count += 1
        return found

    def _recalled(self, x: np.ndarray) -> tuple[float, np.ndarray] | None:
        """The recorded answer; None where the record ends, or is of another point."""
        record = self.journal.read() if self.count < self.known else None
        if record is None:
            return None
        numbers = np.frombuffer(record, "<f8").astype(np.float64)
        (jitter, finite, value), rest = numbers[:3], numbers[3:]
        if rest[: x.size].tobytes() != x.tobytes() or rest.size != 2 * x.size:
            self.journal.unread()
            self.search.forget_state()  # of the path that is left here
            return None
        self.objective.jitter, self.objective.finite_value = float(jitter), bool(finite)
        self.objective.defined |= bool(np.isfinite(value))
        self.objective.undefined |= not (finite or np.isfinite(value))
        return float(value), rest[x.size :]

    def catch_up(self) -> None:
        """Puts the objective where the recorded evaluations left it."""
        if not self.replaying:
            return
        self.replaying = False
        if self.kept is None or self.count == 0:
            return
        last = (self.objective.jitter, self.objective.finite_value)
        self.objective.restore(self.kept["objective"])
        self.objective.jitter, self.objective.finite_value = last

    def _state(self) -> dict[str, Any] | None:
        self.journal.sync()
        if not self.objective.carries:
            return None
        return {"count": self.count + 1, "objective": self.objective.state()}


def leaves(tree: Any) -> list[np.ndarray]:
    """The arrays of a tree, to be kept."""
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def refilled(tree: Any, arrays: list[np.ndarray]) -> Any:
    """A tree with other arrays in the place of its own, of the same types."""
    old, structure = jax.tree.flatten(tree)
    new = [jnp.asarray(a, jnp.result_type(o)) for o, a in zip(old, arrays, strict=True)]
    return jax.tree.unflatten(structure, new)


# ------------------------------------------------------------------------ what is fitted


def open_for(
    store: object,
    model: AbstractModel,
    data: AbstractTrainingData,
    method: AbstractMethod | MCMC,
    settings: Mapping[str, object],
) -> None:
    """Opens a store for a fit, which begins or goes on.

    Raises:
        TypeError: for what is no store.
        ValueError: where the store keeps the fit of another problem, saying what differs.
    """
    if not isinstance(store, Store):
        raise TypeError(
            "checkpoint must be a cavity.fitting.Checkpoint, such as "
            f"cavity.fitting.Checkpoint('folder'), given {store!r}"
        )
    start = [np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(model)]
    store.claim(
        {
            "version of cavity": version("cavity"),
            "number of rows": int(data.length),
            **data.fingerprint(),
            "power": fingerprint((data.power, data.exemplar.rows.power)),
            "method": to_text(method),
            "model": to_text(model, arrays=False),
            "starting values of the parameters": np.concatenate([*start, np.zeros(0)]),
            **{name: to_text(value) for name, value in settings.items()},
        }
    )
