"""The progress of a fit, shown by rich in terminals and notebooks, and told to the logger."""

import contextlib
import dataclasses
import importlib.util
import logging
import time
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from cavity.learning.optimisers.lbfgs import Progress
from cavity.numerics.callers import LOGGER
from cavity.numerics.text import plural

# What shows a text and how many iterations are done of how many.
Show = Callable[[str, Progress], None]
# Seconds between lines where nothing can move, such as in a file.
BETWEEN_LINES = 5.0


@dataclasses.dataclass(eq=False, repr=False)
class AbstractShown:
    """An estimator whose fits may be watched.

    Attributes:
        verbose: 1 to show the progress of a fit on standard error or in a notebook, 0 for nothing.
            It changes nothing in the fit and is not kept in files.
    """

    verbose: object = dataclasses.field(default=0, kw_only=True)

    # Parameters that files do not hold, because they decide nothing.
    not_kept: ClassVar[tuple[str, ...]] = ("verbose",)

    @contextlib.contextmanager
    def _shown(
        self, callback: Callable[[Progress], None] | None
    ) -> Iterator[Callable[[Progress], None] | None]:
        """The callback of a fit that shows it as it is asked.

        Args:
            callback: the user's; called as well.

        Raises:
            ValueError: for another `verbose` than 0 or 1.
        """
        wanted, name = checked_verbose(self.verbose), type(self).__name__
        if not (wanted or LOGGER.isEnabledFor(logging.INFO)):
            yield callback
            return
        so_far = _SoFar(name)
        with _display(name) if wanted else contextlib.nullcontext() as show:

            def each(step: Progress) -> None:
                text = so_far.after(step)
                LOGGER.debug("%s: %s", name, text)
                if show is not None:
                    show(text, step)
                if callback is not None:
                    callback(step)

            yield each
        LOGGER.info("%s", so_far.summary)
        if wanted:
            _say(so_far.summary)


def checked_verbose(verbose: object) -> bool:
    """True to show progress.

    Raises:
        ValueError: for anything else than 0, 1 and truth values.
    """
    known = isinstance(verbose, bool | int | np.bool_ | np.integer) and verbose in (0, 1)
    if not known:
        raise ValueError(f"verbose is 1 to show progress, or 0 for nothing, given {verbose!r}")
    return bool(verbose)


class _SoFar:
    """Knowledge of a fit while it goes on."""

    def __init__(self, name: str):
        self.name, self.began, self.stages, self.done = name, time.perf_counter(), 0, 0
        self.last: Progress | None = None

    def after(self, step: Progress) -> str:
        """A text of a step; each stage of a fit counts its iterations from the first on."""
        if self.last is None or step.iteration <= self.last.iteration:
            self.stages += 1
        self.last, self.done = step, self.done + 1
        stage = f"stage {self.stages}, " if self.stages > 1 else ""
        return f"{stage}iteration {step.iteration}, objective {step.objective:.6g} nats"

    @property
    def summary(self) -> str:
        seconds = f"{time.perf_counter() - self.began:.1f} s"
        if self.last is None:
            return f"{self.name}: fitted in {seconds}, without iterations"
        stages = f" in {plural(self.stages, 'stage')}" if self.stages > 1 else ""
        done = plural(self.done, "iteration")
        return f"{self.name}: {done}{stages}, {seconds}, objective {self.last.objective:.6g} nats"


def _say(text: str) -> None:
    from rich.console import Console

    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def _display(name: str) -> Iterator[Show]:
    """A moving line in a terminal or notebook, and some lines anywhere else."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    # in notebooks lines of rich move by widgets
    widgets = importlib.util.find_spec("ipywidgets") is not None
    if not (widgets if console.is_jupyter else console.is_terminal):
        yield _lines(name)
        return
    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), text, BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"{name}: compiling", total=None)

        def show(text: str, step: Progress) -> None:
            total = step.max_iterations or None
            bar.update(task, description=f"{name}: {text}", completed=step.iteration, total=total)

        yield show


def _lines(name: str) -> Show:
    last = time.perf_counter()

    def show(text: str, step: Progress) -> None:
        nonlocal last
        if time.perf_counter() - last >= BETWEEN_LINES:
            last = time.perf_counter()
            _say(f"{name}: {text}")

    return show
