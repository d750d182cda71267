"""Display of the progress of a fit."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from cavity.learning.optimisers.lbfgs import GracefulStop, Progress
from cavity.tables.row_source import Passes


@contextlib.contextmanager
def progress(*, evidence: bool, passes: Passes | None = None) -> Iterator[Callable]:
    """A moving line on standard error, where that is a terminal; yields what to call."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("compiling", total=None)
        said = ["compiling"]

        def show(step: Progress) -> None:
            value = f", log evidence {-step.objective:.2f}" if evidence else ""
            said[0] = f"iteration {step.iteration}{value}"
            bar.update(task, description=said[0])

        def watch(done: int) -> None:
            assert passes is not None
            text = f"{said[0]}, pass {passes.begun} over the table"
            bar.update(task, description=text, completed=done, total=passes.rows)

        if passes is not None:
            passes.watch = watch
        yield show


def interruptible(
    watch: Callable[[int], None], asked: Callable[[], bool], ended: list[int]
) -> Callable[[int], None]:
    """Ends a pass over a long table where that is asked for, and notes it."""

    def watched(done: int) -> None:
        watch(done)
        if asked():
            ended.append(done)
            raise GracefulStop

    return watched
