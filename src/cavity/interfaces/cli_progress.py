"""What is seen of a fit while it works."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from cavity.learning.optimise import Progress


@contextlib.contextmanager
def progress(*, evidence: bool) -> Iterator[Callable[[Progress], None]]:
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

        def show(step: Progress) -> None:
            value = f", log evidence {-step.objective:.2f}" if evidence else ""
            bar.update(task, description=f"iteration {step.iteration}{value}")

        yield show
