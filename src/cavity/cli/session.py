"""Running of commands: their output, errors and exit codes."""

import contextlib
import dataclasses
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple, NoReturn, get_args

import typer

from cavity.numerics.text import told
from cavity.persistence.atomic_file import reason
from cavity.persistence.errors import DataError, StorageError

INTERRUPTED = 130


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Result of a command: a record for programs, the same as text, and an exit code."""

    record: Mapping[str, Any]
    text: str
    code: int = 0


@dataclasses.dataclass
class Session:
    """One run of a command; warnings and notes go to standard error."""

    command: str
    began: float
    warnings: list[str] = dataclasses.field(default_factory=list)

    def warn(self, message: str) -> None:
        """Add a warning about the result."""
        self.warnings.append(told(message, keep="\n"))
        self.note(f"warning: {self.warnings[-1]}")

    def note(self, message: str) -> None:
        """Write a passing note to standard error."""
        typer.echo(told(message, keep="\n"), err=True)

    @property
    def seconds(self) -> float:
        """Since the command began."""
        return time.perf_counter() - self.began


def run(command: str, work: Callable[[Session], Outcome], *, as_json: bool) -> None:
    """Runs a command and ends as the command line promises.

    Args:
        command: its name.
        work: does it; usage errors are typer's.
        as_json: print one JSON object instead of text.
    """
    session = Session(command, time.perf_counter())
    try:
        with _handled_by(signal.default_int_handler, signal.SIGTERM):
            outcome = work(session)
    except KeyboardInterrupt as error:
        typer.echo(": ".join(["interrupted", *filter(None, [str(error)])]), err=True)
        raise typer.Exit(INTERRUPTED) from None
    except (DataError, StorageError) as error:
        _fail(session, error.kind, f"{error}{_place(error)}", as_json=as_json)
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        _fail(session, "io", named + reason(error), as_json=as_json)
    except (MemoryError, RuntimeError) as error:
        _fail(session, "numerical", _numerical(error), as_json=as_json)
    except ValueError as error:
        _fail(session, "data", f"{error}{_place(error)}", as_json=as_json)
    if as_json:
        typer.echo(as_line({**_head(command), **_tail(session), **outcome.record}))
    else:
        typer.echo("\n".join(map(told, outcome.text.split("\n"))))
    raise typer.Exit(outcome.code)


# What asks a process to end: Ctrl-C, and schedulers and containers.
ENDING = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def _handled_by(handler: Callable[[int, Any], Any], *signals: signal.Signals) -> Iterator[bool]:
    """Signals go to a handler, where this is the main thread: others cannot have any."""
    here = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, handler) for number in signals if here}
    try:
        yield here
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _fail(session: Session, kind: str, message: str, *, as_json: bool) -> NoReturn:
    message = told(message, keep="\n")
    typer.echo(f"error: {message}", err=True)
    if as_json:
        typer.echo(as_line(_head(session.command) | {"error": {"kind": kind, "message": message}}))
    raise typer.Exit(1)


def _place(error: Exception) -> str:
    """The process that raised an error, where it was another one and has noted it."""
    notes: list[str] = getattr(error, "__notes__", [])
    lines = [note.split("\n")[0].removesuffix(":") for note in notes]
    return "".join(f" (r{line[1:]})" for line in lines if line.startswith("Raised by the worker"))


def _numerical(error: Exception) -> str:
    """The message about a failed computation; anything but our own is passed on as a bug."""
    from cavity.learning.infer import NumericalError

    if isinstance(error, NumericalError | MemoryError) and str(error):
        return str(error)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return "there is not enough memory; ask for fewer inducing points, such as --inducing 100"
    raise error


def _head(command: str) -> dict[str, Any]:
    return {"command": command, "version": version("cavity")}


def _tail(session: Session) -> dict[str, Any]:
    return {"seconds": session.seconds, "warnings": session.warnings}


def as_line(record: Mapping[str, Any]) -> str:
    """A record as one line of JSON, numbers that are not finite as null."""
    finite = json.loads(json.dumps(record), parse_constant=lambda _: None)
    return json.dumps(finite, allow_nan=False)


def usage(option: str, message: str) -> typer.BadParameter:
    """A complaint about the command line itself."""
    return typer.BadParameter(message, param_hint=option)


@contextlib.contextmanager
def blaming(option: str) -> Iterator[None]:
    """Turns errors about settings into usage errors about the option that set them."""
    try:
        yield
    except (ValueError, ImportError, RecursionError) as error:
        raise usage(option, str(error)) from None


class File(NamedTuple):
    """Marks an option of a command, in its annotation, as the name of a file.

    Attributes:
        what: the file is.
        written: whether it is written, and not read.
        replaces: of one that is written, the name of the option whose file it may replace.
    """

    what: str
    written: bool = False
    replaces: str | None = None


def refuse_overwriting(declared: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """A usage error if a result would take the place of a file that is read.

    Args:
        declared: the annotations of a command's options by name.
        given: their values.
    """
    files = [
        (name, mark, given[name])
        for name, annotation in declared.items()
        for mark in get_args(annotation)
        if isinstance(mark, File) and given[name] is not None
    ]
    written = [(mark.replaces, path) for _, mark, path in files if mark.written]
    for name, mark, path in files:
        for replaces, out in written:
            if not mark.written and name != replaces and _is_among(out, path):
                raise usage("--out", f"{out} is the {mark.what} itself; choose another name")


def _is_among(one: str, given: str) -> bool:
    """True if a file is the one of another name, or one of those that a pattern stands for."""
    from cavity.tables.batched import table_files

    found: tuple[str, ...] = (given,)
    with contextlib.suppress(DataError):  # of a pattern of no file
        found = table_files(given)
    return any(_same_file(one, path) for path in found)


def _same_file(one: str, other: str) -> bool:
    """True if two names are of one file, also one that is yet to be written."""
    with contextlib.suppress(OSError):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


@contextlib.contextmanager
def patient_interrupts(keeping: str) -> Iterator[Callable[[], bool]]:
    """Lets the first Ctrl-C or SIGTERM wait; the second interrupts as usual.

    Args:
        keeping: what the first one keeps, to be said.

    Yields:
        Whether there was one.
    """
    pressed: list[int] = []

    def remember(number: int, _: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)
        # buffered streams must not be written to from within a signal
        os.write(2, f"\ninterrupted: keeping {keeping} (again to stop at once)\n".encode())

    with _handled_by(remember, *ENDING):
        yield lambda: bool(pressed)
