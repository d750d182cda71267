"""Checkpoints on disk: a folder in which a fit keeps what it has done."""

import contextlib
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cavity.persistence import model_file as storage
from cavity.persistence.atomic_file import check_regular, reason, regular_bytes, whole_file
from cavity.persistence.errors import StorageError

MARKER, PROBLEM = "cavity-checkpoint", "problem"
FORMAT = "cavity-checkpoint/1"
ABOUT = f"""{FORMAT}
What a fit by cavity has done so far. Resuming goes on from here; once the model is saved, or to
begin anew, this folder can be deleted.
"""
# Starting values that were computed from the data may differ by rounding on another machine.
ROUNDING = 1e-9
# A difference of settings is quoted up to so many letters.
SHORT = 60


class Checkpoint:
    """A folder that lets a fit go on after its process was killed, at whatever moment.

    A fit that goes on ends exactly as one that never stopped: where it was killed in the middle
    of a search, the search is retraced from recorded evaluations. Writing takes one or two
    per cent of the time. The folder holds 16 bytes for each parameter and evaluation of the
    search under way; it is left when the fit is done, and can then be deleted.

    One folder is for one fit, and for one process at a time.

    Args:
        folder: the folder; made if need be, and otherwise empty at first.
        resume: whether to go on from what the folder holds. Where it holds nothing yet, the fit
            begins, so that one and the same program can be started again until it is done.

    Example:
        >>> import tempfile, cavity, jax, numpy as np
        >>> X = np.linspace(0.0, 3.0, 20)[:, None]
        >>> model = cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Gaussian())
        >>> with tempfile.TemporaryDirectory() as folder, jax.enable_x64(True):
        ...     kept = cavity.fitting.Checkpoint(folder, resume=True)
        ...     result = cavity.fit(model, X, np.sin(X[:, 0]), checkpoint=kept)
        >>> result.converged
        True
    """

    def __init__(self, folder: str | os.PathLike[str], *, resume: bool = False):
        self.folder, self.resume = Path(folder), bool(resume)
        self._opened = False

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.folder)!r}, resume={self.resume})"

    def open(self) -> None:
        """Makes the folder ready; to be called before long work, and otherwise by `fit`.

        Raises:
            StorageError: of kind "io" if the folder cannot be used, holds other files, or holds
                a checkpoint and `resume` is False; of kind "model" if another version wrote it.
        """
        if self._opened:
            return
        try:
            self._prepare()
        except OSError as error:
            raise StorageError(
                f"cannot keep a checkpoint in {self.folder}: {reason(error)}; choose another "
                "folder",
                kind="io",
            ) from None
        self._opened = True

    def _prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        marker = self.folder / MARKER
        # left by a process that was killed while it wrote; in folders of others nothing is ours
        for left in self.folder.glob(".*.tmp" if marker.exists() else f".{MARKER}.*.tmp"):
            left.unlink(missing_ok=True)
        if not marker.exists():
            if any(self.folder.iterdir()):
                raise StorageError(
                    f"{self.folder} holds files that are no checkpoint; give a new folder, or an "
                    "empty one",
                    kind="io",
                )
            with whole_file(marker) as file:
                file.write(ABOUT.encode())
        elif not self.resume and self._begun():
            raise self._taken()
        elif regular_bytes(marker).split(b"\n")[0] != FORMAT.encode():
            raise StorageError(
                f"the checkpoint in {self.folder} was written by another version of cavity; go on "
                "with that one, or delete the folder to begin anew"
            )

    def _begun(self) -> bool:
        """True if the folder holds anything worth keeping."""
        return self._holds("**/*")

    def _holds(self, pattern: str) -> bool:
        held = [p for p in self.folder.glob(pattern) if p.name not in (MARKER, PROBLEM)]
        return any(p.is_file() and p.stat().st_size > 0 for p in held)

    def _another(self, differs: str) -> StorageError:
        return StorageError(
            f"the checkpoint in {self.folder} is that of another fit: {differs}. Repeat what "
            "began it, or give another folder, or delete this one to begin anew"
        )

    def _taken(self) -> StorageError:
        return StorageError(
            f"{self.folder} holds a checkpoint already: to go on from it say so (resume=True, on "
            "the command line --resume); to begin anew choose another folder or delete this one",
            kind="io",
        )

    # ----------------------------------------------------------- what a fit asks of a store

    def part(self, name: str) -> "Checkpoint":
        """A folder within the folder, for a fit that is part of another.

        Raises:
            StorageError: as `open`, and if the folder keeps a fit without parts.
        """
        self.open()
        if self._holds("*"):
            raise self._another("it did not try several starts, this one does")
        return Checkpoint(self.folder / name, resume=self.resume)

    def claim(self, problem: Mapping[str, Any]) -> None:
        """Begins to keep the fit of a problem, or to go on with it.

        Raises:
            StorageError: as `open`, and if the folder keeps the fit of another problem.
        """
        self.open()
        known = self.load(PROBLEM)
        if known is None and self._begun():
            raise self._another("it tried several starts, this one does not")
        if known is None or not self._begun():
            self.save(PROBLEM, dict(problem))
            return
        if not self.resume:
            raise self._taken()
        differ = [_difference(name, known.get(name), problem[name]) for name in problem]
        found = [words for words in differ if words]
        if found:
            raise self._another("; ".join(found))

    def load(self, name: str) -> Any:
        """The tree that was saved under a name; None if there is none.

        Raises:
            StorageError: if its file is damaged.
        """
        path = self._path(name)
        if not path.exists():
            return None
        try:
            return storage.load_module(path)[0]
        except StorageError:
            raise StorageError(
                f"the file {path} of the checkpoint is damaged; delete it, and what it held is "
                "computed again"
            ) from None

    def save(self, name: str, tree: Any) -> None:
        """Saves a tree, whole or not at all.

        Raises:
            StorageError: if it cannot be written.
        """
        storage.save_module(self._path(name), tree, {})

    def journal(self, name: str) -> "FileJournal":
        """The journal of a name, from its beginning."""
        return FileJournal(self._path(name))

    def forget(self, name: str) -> None:
        """Removes what was saved under a name, or its journal."""
        with contextlib.suppress(OSError):  # it does no harm
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / name


class FileJournal:
    """Records in a file, each after its length and checksum; ends before the first broken one.

    A process that is killed while it writes leaves a broken record at the end, which the next
    one overwrites.

    Args:
        path: the file; made if need be.
    """

    HEAD = struct.Struct("<II")

    def __init__(self, path: Path):
        self.path = path
        self.place = self.before = 0  # the ends of the last record, and of the one before it
        try:
            check_regular(path)
            self.file = path.open("r+b" if path.exists() else "x+b")
        except OSError as error:
            raise self._failed(error) from None
        self.size = path.stat().st_size

    def read(self) -> bytes | None:
        """The next record; None after the last whole one."""
        self.file.seek(self.place)
        head = self.file.read(self.HEAD.size)
        if len(head) < self.HEAD.size:
            return None
        length, checksum = self.HEAD.unpack(head)
        if length == 0 or self.place + self.HEAD.size + length > self.size:
            return None
        record = self.file.read(length)
        if zlib.crc32(record) != checksum:
            return None
        self.before, self.place = self.place, self.place + self.HEAD.size + length
        return record

    def unread(self) -> None:
        """Goes back to before the record that was read last."""
        self.place = self.before

    def write(self, record: bytes) -> None:
        """Puts a record after those that were read or written, in place of whatever followed.

        Raises:
            StorageError: if the disk is full, or the file gone.
        """
        try:
            if self.size != self.place:
                self.file.truncate(self.place)
            self.file.seek(self.place)
            self.file.write(self.HEAD.pack(len(record), zlib.crc32(record)) + record)
            self.file.flush()
        except OSError as error:
            raise self._failed(error) from None
        self.before, self.place = self.place, self.place + self.HEAD.size + len(record)
        self.size = self.place

    def sync(self) -> None:
        """Makes what was written outlast the machine, not only the process."""
        try:
            os.fsync(self.file.fileno())
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """Closes the file."""
        with contextlib.suppress(OSError):  # what is not on disk now is computed again
            self.file.close()

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(
            f"cannot write the checkpoint {self.path}: {reason(error)}; what was written before "
            "is good, so make room and resume",
            kind="io",
        )


def _difference(name: str, kept: Any, now: Any) -> str:
    """Description of a part of the problem that differs from the checkpoint's, or nothing."""
    array = isinstance(now, np.ndarray)
    if array and kept is not None and np.shape(kept) == now.shape:
        same = np.allclose(kept, now, rtol=ROUNDING, atol=0.0, equal_nan=True)
    else:
        same = not array and kept == now
    if same:
        return ""
    texts = (str(kept), str(now))
    quotable = all(len(t) <= SHORT and "\n" not in t and "sha256" not in t for t in texts)
    if array or not quotable:
        return f"{name} not the same"
    return f"{name} {texts[0]} there, {texts[1]} now"
