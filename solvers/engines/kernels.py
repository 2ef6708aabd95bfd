"""Compiled kernels: one decorator for all of them, and where what it compiled is kept.

A *kernel* is a function that Python calls and numba compiles; `kernel` decorates it, and `inner` what only
kernels call. The types of a kernel's arguments are those of its annotations, so that it can be compiled
before anything is there to call it with:

=====================================  ============================================
``int``, ``float``, ``bool``           64-bit numbers and truth values
``NDArray[np.int64]``                  a contiguous array of one dimension
``Annotated[NDArray[np.int64], 2]``    one of two dimensions (in C's order)
``Annotated[Any, NDArray[np.int64]]``  the latter, where plain Python is given lists
``Annotated[Any, ROW]``                a table: a contiguous array of rows that `record` declares
a ``NamedTuple``, ``tuple[...]``       of these, field by field
=====================================  ============================================

What is compiled lies in ``FOLDER/kernels/PYTHON-NUMBA/MODULE-HASH``, where the hash is that of the kernel's
file and of the files with kernels that it imports, and of their places, so that a kernel may call those of
other files: a change in any of them is another folder, whatever the files' times. The folder is that of
``LOWTIDE_CACHE_DIR``; else of numba's own ``NUMBA_CACHE_DIR``; else ``lowtide`` in the user's folder for
caches. Nothing is written beside the sources. Within a folder numba tells processors apart: machines of
several kinds can share it.

Without a compiler (``NUMBA_DISABLE_JIT=1``) kernels are plain Python, and so is ``kernel.py_func`` always.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import logging
import os
import re
import stat
import sys
import tempfile
from collections import namedtuple
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numba
import numpy as np

from ...models.errors import BackendUnavailable
from .tried import TRIED, warn_if_untried

warn_if_untried("numba")
try:  # from its inside: what is not a promise of numba's
    from numba.core import caching, types
    from numba.core.registry import CPUDispatcher, cpu_target
    from numba.core.types.containers import BaseTuple
    from numba.np.numpy_support import from_dtype

    caching._CacheLocator, caching.CompileResultCacheImpl._locator_classes, caching.FunctionCache  # noqa: B018
except (ImportError, AttributeError) as error:
    low, high = TRIED["numba"]
    raise BackendUnavailable(
        f"numba: found version {numba.__version__}, whose inside is another one ({error}), expected "
        f">={low},<{high}; try: pip install 'numba>={low},<{high}'"
    ) from None

PACKAGE = __name__.partition(".solvers.")[0]


def kernel(function: Callable[..., Any]) -> Any:
    """Return a function compiled; numba keeps it on disk once it is.

    Parameters
    ----------
    function
        Its arguments are annotated as the module says.
    """
    return _compiled(function)


def kernel_in_place(function: Callable[..., Any]) -> Any:
    """Return a function compiled that makes and returns no arrays, nor does what it calls.

    Numba counts no references then: functions that pass each other many arrays run up to five times as fast.
    What it calls must be its own, since it is compiled like that too.
    """
    return _compiled(function, _nrt=False)


def _compiled(function: Callable[..., Any], **flags: bool) -> Any:
    compiled = numba.njit(nogil=True, **flags)(function)
    if not numba.config.DISABLE_JIT:
        compiled._cache = _Cache(function)
    return compiled


def inner(function: Callable[..., Any]) -> Any:
    """Return a function that only kernels call: it compiles in two thirds of the time."""
    compiled = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)
    if not numba.config.DISABLE_JIT:
        compiled.__class__ = _Inner
    return compiled


class _Inner(CPUDispatcher):  # type: ignore[misc]
    """What kernels call; from Python it is plain: numba would crash without a way in."""

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


def record(**fields: str) -> Any:
    """Return the type of the rows of a table, 64-bit integers: ``table[k].name`` in Python as in kernels.

    Parameters
    ----------
    fields
        By name, what it says, in which unit.

    Raises
    ------
    ValueError
        If a name is one of numpy's own: plain Python would read that instead.
    """
    if taken := [name for name in fields if hasattr(np.record, name)]:
        raise ValueError(f"record: found fields {taken}, expected none that every row of numpy has already")
    rows = np.dtype([(name, np.int64) for name in fields], align=True)
    return np.dtype((np.record, rows))


def rows(**described: str | tuple[int, str]) -> Any:
    """Return by name the number of the rows of a table, 64-bit integers: ``table[ROWS.name, k]``.

    Parameters
    ----------
    described
        By name, what it says, in which unit; with the number of rows where it has several.

    Examples
    --------
    >>> rows(size="by tensor, bytes", queue=(8, "by place: tensors"), time="ns")
    Rows(size=0, queue=1, time=9)
    """
    counts = [1 if isinstance(x, str) else x[0] for x in described.values()]
    named: Any = namedtuple("Rows", described)  # type: ignore[misc]
    return named(*accumulate(counts[:-1], initial=0))


def kernels_of(module: str) -> list[Any]:
    """Return the kernels of a module by name, importing it now; none without a compiler.

    Parameters
    ----------
    module
        As it is imported; with a leading dot relative to ``lowtide.solvers``.
    """
    found = vars(importlib.import_module(module, f"{PACKAGE}.solvers"))
    kernels = {id(item): item for item in found.values() if isinstance(getattr(item, "_cache", None), _Cache)}
    return sorted(kernels.values(), key=lambda item: str(item.__name__))


def is_loaded(function: Any) -> bool:
    """Return whether a kernel is compiled in this process already."""
    return bool(getattr(function, "overloads", False))


def plain(function: Any) -> Any:
    """Return the plain Python of a kernel."""
    return getattr(function, "py_func", function)


def name_of(compiled: Any) -> str:
    """Return the name of a kernel for people: its file and function."""
    return f"{compiled.py_func.__module__.rpartition('.')[2]}.{compiled.__name__}"


def is_kept(compiled: Any) -> bool:
    """Return whether a kernel lies compiled on disk, for this processor."""
    kept = compiled._cache
    key = kept._index_key(signature_of(compiled.py_func), cpu_target.target_context.codegen())
    try:
        name = kept._cache_file._load_index().get(key)
        return name is not None and Path(kept.cache_path, name).exists()
    except Exception:  # a damaged index: unpickling it raises anything
        return False


def can_keep(compiled: Any) -> bool:
    """Return whether the folder of a kernel can be written."""
    try:
        compiled._cache._impl.locator.ensure_cache_path()
    except OSError:
        return False
    return True


def compile_kernel(compiled: Any) -> None:
    """Compile a kernel, or load it from disk, for the types of its annotations."""
    compiled.compile(signature_of(compiled.py_func))


@cache  # asked before every solve, of all kernels that it may reach
def signature_of(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the types of a kernel's arguments.

    Raises
    ------
    TypeError
        If one is not annotated, or with what the module does not list.
    """
    hints = get_type_hints(function, include_extras=True)
    names = list(inspect.signature(function).parameters)
    missing = [name for name in names if name not in hints]
    if missing:
        raise TypeError(f"kernel {function.__name__}: found no annotation of {missing}, expected all")
    return tuple(_type(hints[name]) for name in names)


_NUMBERS = {int: types.int64, float: types.float64, bool: types.boolean}


def _type(hint: Any, dimensions: int = 1) -> Any:
    if hint in _NUMBERS:
        return _NUMBERS[hint]
    if get_origin(hint) is Annotated:
        plain, said = get_args(hint)
        if isinstance(said, np.dtype):
            return types.Array(from_dtype(said), 1, "C")
        return _type(plain, said) if isinstance(said, int) else _type(said)
    if get_origin(hint) is np.ndarray:
        (scalar,) = get_args(get_args(hint)[1])
        return types.Array(from_dtype(np.dtype(scalar)), dimensions, "C")
    if get_origin(hint) is tuple:
        return BaseTuple.from_types([_type(field) for field in get_args(hint)])
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        fields = get_type_hints(hint, include_extras=True)
        return BaseTuple.from_types([_type(fields[name]) for name in hint._fields], hint)
    raise TypeError(f"kernel: found an argument of type {hint}, expected one of those that the module lists")


def cache_folder() -> Path:
    """Return the folder of the user that kernels are kept in."""
    named = os.environ.get("LOWTIDE_CACHE_DIR") or numba.config.CACHE_DIR
    if named:
        return Path(named).absolute() / "kernels"
    if os.name == "nt":
        own = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        own = Path.home() / "Library" / "Caches"
    else:
        own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = own / "lowtide"
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(nearest, os.W_OK) and not folder.exists():
        folder = _temporary() or folder
    return folder / "kernels"


def _temporary() -> Path | None:
    """Return a folder for this user alone where none can be made at home; None if somebody else has it."""
    if not hasattr(os, "getuid"):
        return None
    folder = Path(tempfile.gettempdir()) / f"lowtide-{os.getuid()}"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
        # What is compiled is loaded as code: no one else may have written it.
        if stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o022:
            return folder
    return None


_IMPORT = re.compile(r"^ *from (\.+)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


@cache
def _imported(file: Path) -> frozenset[Path]:
    """Return the files of its package that a file imports (relative imports, by text)."""
    found = set()
    for dots, module, names in _IMPORT.findall(file.read_text(encoding="utf-8")):
        base = file.parents[len(dots) - 1].joinpath(*module.split("."))
        found.add(base.with_suffix(".py"))
        found.update(base / f"{name}.py" for name in re.findall(r"\w+", names))
    return frozenset(path for path in found if path.exists())


@cache
def _sources(file: Path) -> tuple[Path, ...]:
    """Return a file and the files with kernels that it imports, and so on, by path."""
    here = Path(__file__).resolve()
    found, waiting = {file}, [file]
    while waiting:
        for path in _imported(waiting.pop()):
            if path not in found and path != here and here in _imported(path):
                found.add(path)
                waiting.append(path)
    return tuple(sorted(found))


def _said(file: Path) -> str:
    """Return a file's path within the package, which what numba keeps names; else its name."""
    root = Path(__file__).resolve().parents[2]
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name


@cache
def _folder(file: Path) -> Path:
    """Return the folder of the compiled kernels of a file."""
    digest = hashlib.sha256(inspect.getsource(_compiled).encode())
    for path in _sources(file):
        text = path.read_bytes()
        digest.update(b"%d %s\n" % (len(text), _said(path).encode()) + text)
    python = f"{sys.implementation.cache_tag}-numba-{numba.__version__}"
    return cache_folder() / python / f"{file.stem}-{digest.hexdigest()[:16]}"


class _Locator(caching._CacheLocator):  # type: ignore[misc]
    """Where numba keeps the kernels of a file: a folder named after what they are compiled from."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._line = function.__code__.co_firstlineno
        self._path = _folder(Path(file).resolve())

    def get_cache_path(self) -> str:
        return str(self._path)

    def get_source_stamp(self) -> str:
        return ""  # the folder's name says it

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _Locator | None:
        return cls(function, file) if Path(file).exists() else None


class _Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator, *caching.CompileResultCacheImpl._locator_classes)


class _Cache(caching.FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function; where it cannot be written, what is compiled serves this process."""

    _impl_class = _Implementation

    def load_overload(self, signature: Any, context: Any) -> Any:
        try:
            return super().load_overload(signature, context)
        except OSError:
            return None
        except Exception as error:  # what was cut short, or names what is gone: unpickling it raises anything
            logging.getLogger("lowtide").debug("kernel %s is compiled anew: %s", self, error)
            with contextlib.suppress(OSError):
                Path(self._cache_file._index_path).unlink(missing_ok=True)
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        try:
            super().save_overload(signature, data)
        except OSError as error:
            logging.getLogger("lowtide").debug("kernel %s is not kept: %s", self, error)
