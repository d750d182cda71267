"""Files that appear whole or not at all, and regular files only."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for writing that takes its name only once it is complete and on disk.

    The bytes go to a temporary file in the same folder, which is synced and renamed at the end;
    a process killed on the way leaves what was under the name before. If the block raises, the
    temporary file is removed. Behind a link it is the file that is replaced, not the link.

    Raises:
        OSError: if the folder cannot be written, or the name is that of a folder, a pipe or a
            device.
    """
    path = _behind_links(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder")
    check_regular(path)
    temporary = path.parent / f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Holds a file, so that others who hold it wait; nothing where the system has no such locks.

    A file that another one has taken the name of meanwhile is still held: compare contents then.

    Raises:
        OSError: if the file cannot be read.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with path.open("rb") as file:
        with contextlib.suppress(OSError):  # some network folders know no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def check_regular(path: Path) -> None:
    """Check before opening: accepts regular files, folders and names without a file.

    Raises:
        OSError: for a pipe, a device or a socket, also behind a link: opening one may wait for
            ever, and reading it may never end.
    """
    if _is_other(path):
        raise OSError(
            errno.EINVAL,
            "it is a pipe or a device; give a regular file, such as one with a copy of what "
            "comes out of it",
        )


def regular_bytes(path: Path) -> bytes:
    """Contents of a regular file.

    Raises:
        OSError: if it cannot be read, or is something else.
    """
    check_regular(path)
    return path.read_bytes()


def _is_other(path: Path) -> bool:
    """True if the path exists and is neither a regular file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _behind_links(path: Path) -> Path:
    """The file that a name stands for."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _sync_folder(folder: Path) -> None:
    """Makes a rename in a folder last; where folders cannot be opened, the system sees to it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def reason(error: OSError) -> str:
    """Reason of the system for its refusal, in its own words and without the path."""
    return error.strerror.lower() if error.strerror else str(error)


def why_not_writable(path: Path) -> str | None:
    """Reason why a file cannot be written, to be asked before long work; None if it can."""
    if path.is_dir():
        return f"{path} is a folder; give the name of a file"
    if _is_other(path):
        return f"{path} is a pipe or a device; give the name of a file"
    path = _behind_links(path)
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}; create it first, or choose another"
    if not os.access(path.parent, os.W_OK):
        return f"the folder {path.parent} cannot be written; choose another"
    return None
