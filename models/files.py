"""Files of text to read, and output files, which are written whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from .errors import InstanceError, UsageError

_READ: ContextVar[set[str] | None] = ContextVar("files read", default=None)


@contextmanager
def noting_files() -> Iterator[None]:
    """Note which files are read from now on, for `files_read`."""
    token = _READ.set(set())
    try:
        yield
    finally:
        _READ.reset(token)


def note_file(path: str | os.PathLike[str]) -> None:
    """Note that a file is read, if anybody asked for it."""
    if (found := _READ.get()) is not None:
        found.add(os.path.realpath(os.fsdecode(path)))


def files_read() -> set[str]:
    """Return the files that were read within `noting_files`, links followed."""
    return set(_READ.get() or ())


def read_text(path: str | os.PathLike[str], expected: str) -> str:
    """Return the text of a file.

    Raises
    ------
    InstanceError
        If it cannot be read as UTF-8; the message says what file is `expected`.
    """
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "bytes that are not UTF-8"
        raise InstanceError(f"{os.fspath(path)}: found {reason}, expected {expected}") from None


def check_writable(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path stands for, if one can be written there.

    To be called before long work whose result goes to the path. Nothing is written.

    Raises
    ------
    UsageError
        If the folder is missing or not writable, or the path is a folder or a device.
    """
    try:
        target = Path(os.path.realpath(path))
        folder = target.parent
        if not target.name or target.is_dir():
            raise UsageError(f"{path}: found a folder, expected a file to write")
        if not folder.is_dir():
            raise UsageError(f"{path}: found no folder {str(folder)!r}, expected an existing one")
        if target.exists() and not target.is_file():
            raise UsageError(f"{path}: found a device or pipe, expected a regular file to write")
    except (OSError, ValueError) as error:
        raise _not_writable(path, error) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{path}: found a folder without write permission, expected a writable one")
    if target.exists() and not os.access(target, os.W_OK):
        raise UsageError(f"{path}: found a read-only file, expected a writable one")
    return target


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that it has either its old content or all of the new one, whatever happens.

    The bytes go to a temporary file in the same folder, which then takes the place of the target. A
    symbolic link is followed.

    Parameters
    ----------
    path
        The file to make or replace; its folder must exist.

    Raises
    ------
    UsageError
        If it cannot be written; nothing half-written is left.
    """
    target = check_writable(path)
    spare = target.parent / f".lowtide-{secrets.token_hex(8)}.tmp"
    try:
        try:
            with open(spare, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(spare, target)
        except OSError as error:
            raise _not_writable(path, error) from None
    except BaseException:
        spare.unlink(missing_ok=True)
        raise


def write_packed(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file as `write_whole` does, gzipped if its name ends in ``.gz``."""
    write_whole(path, compress(content) if os.fspath(path).endswith(".gz") else content)


def compress(content: bytes) -> bytes:
    """Return the gzip form of the bytes; the same bytes always give the same form."""
    buffer = io.BytesIO()
    # GzipFile, unlike gzip.compress, writes the same header (no name, time 0) in every Python version.
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=9, mtime=0) as file:
        file.write(content)
    return buffer.getvalue()


def _not_writable(path: str | os.PathLike[str], error: OSError | ValueError) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) else error
    return UsageError(f"{os.fspath(path)!r}: found {reason}, expected a path that can be written")
