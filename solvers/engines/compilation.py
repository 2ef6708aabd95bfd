"""Kernels compiled ahead, once per installation, in as many processes as there are cores.

Compiling takes up to a quarter of a minute a kernel, which is not to come out of the time that a method is
given. A method names the modules of the kernels that it calls (`Method.kernels`); `prepare` compiles what of
them does not lie on disk, and `compile_all` what any method names. A module is compiled by one process at a
time, under a lock on its folder: others wait for it and then find it. Whatever is interrupted, each kernel
that was done stays.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from ..context import available_cores
from .kernels import PACKAGE, cache_folder, can_keep, compile_kernel, is_kept, kernels_of, name_of

COMPILING_SECONDS = 1.0
"""Seconds that compiling the kernels of one module takes, at least."""

LONG = (
    "window_kernel",
    "list_kernel",
    "filling_kernel",
    "planner_kernel",
    "simulator_kernel",
    "ideals_kernel",
    "label_kernel",
)
"""Modules whose kernels take longest, 6 to 25 s: they are begun first, so that no process ends up alone."""


@dataclass(frozen=True, kw_only=True)
class Compilation:
    """What was compiled, and what there was.

    Attributes
    ----------
    folder
        Where it is kept.
    compiled
        Kernels by name, with the seconds that each took.
    present
        Those that lay on disk.
    seconds
        In all.
    """

    folder: Path
    compiled: tuple[tuple[str, float], ...]
    present: tuple[str, ...]
    seconds: float


def compile_all(*, jobs: int | None = None, progress: Callable[[str], None] | None = None) -> Compilation:
    """Compile the kernels that any method names and that do not lie on disk.

    Parameters
    ----------
    jobs
        Processes at a time; default: the cores that this process may use.
    progress
        Called with a line of text now and then.
    """
    from ..registry import methods

    names = sorted({name for method in methods() for name in method.kernels})
    return prepare(names, jobs=jobs, progress=progress)


def prepare(
    modules: Iterable[str], *, jobs: int | None = None, progress: Callable[[str], None] | None = None
) -> Compilation:
    """Import modules with kernels, and compile those of them that do not lie on disk.

    Where their folder cannot be written they are compiled for this process alone.

    Parameters
    ----------
    modules
        See `kernels_of`.
    jobs, progress
        As for `compile_all`.
    """
    begun = time.perf_counter()
    kernels = {module: kernels_of(module) for module in modules}
    missing = {name: [k for k in some if not _is_there(k)] for name, some in kernels.items()}
    missing = {name: some for name, some in missing.items() if some}
    left = {name_of(kernel) for some in missing.values() for kernel in some}
    compiled: list[tuple[str, float]] = []
    if missing:
        tell = progress or (lambda line: None)
        tell(f"compiling {len(left)} kernels (once)")
        apart = [name for name, some in missing.items() if can_keep(some[0])]
        count = min(jobs or available_cores(), len(apart))
        if count > 1 and sys.executable:
            apart.sort(key=lambda name: (_rank(name), name))
            with contextlib.closing(_in_processes(apart, count)) as working:
                for done in working:
                    compiled += done
                    tell(f"compiled {len(compiled)} of {len(left)} kernels")
        for some in missing.values():  # what no other process could do
            compiled += _compile_module(some)
    names = {name_of(kernel) for some in kernels.values() for kernel in some}
    present = tuple(sorted(names - {name for name, _ in compiled}))
    return Compilation(
        folder=cache_folder(),
        compiled=tuple(compiled),
        present=present,
        seconds=time.perf_counter() - begun,
    )


def estimated_seconds(modules: Iterable[str]) -> float:
    """Return the seconds that compiling what of the modules is not on disk takes at least."""
    return COMPILING_SECONDS * sum(not all(map(_is_there, kernels_of(module))) for module in modules)


def _is_there(kernel: Any) -> bool:
    if not kernel.overloads and kernel not in _FOUND and is_kept(kernel):
        _FOUND.add(kernel)
    return bool(kernel.overloads) or kernel in _FOUND


_FOUND: set[Any] = set()
"""Kernels that lay on disk when this process looked: it is asked before every solve."""


def _rank(module: str) -> int:
    name = module.rpartition(".")[2]
    return LONG.index(name) if name in LONG else len(LONG)


def _compile_module(kernels: Sequence[Any]) -> list[tuple[str, float]]:
    """Compile in this process what does not lie on disk of one module's kernels; return it, with seconds."""
    compiled = []
    with _lock(Path(kernels[0]._cache.cache_path)):
        for kernel in [kernel for kernel in kernels if not _is_there(kernel)]:
            begun = time.perf_counter()
            compile_kernel(kernel)  # at once where one before has called it
            compiled.append((name_of(kernel), time.perf_counter() - begun))
    return compiled


_CHILD = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    f"from {PACKAGE}.solvers.engines.compilation import serve; serve()"
)
"""Ctrl-C is this process's to see: it ends the others."""


def _in_processes(modules: Sequence[str], count: int) -> Generator[list[tuple[str, float]], None, None]:
    """Yield what is compiled of each module, by so many processes."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # this process compiles what is left then, and says what is wrong
            text=True,
        )
        for _ in range(count)
    ]
    idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
    for process in processes:
        idle.put(process)

    def work(module: str) -> list[tuple[str, float]]:
        process = idle.get()
        try:
            print(module, file=process.stdin, flush=True)
            line = process.stdout.readline() if process.stdout else ""
        except OSError:
            line = ""
        idle.put(process)
        return [(name, seconds) for name, seconds in json.loads(line or "[]")]

    try:
        with ThreadPoolExecutor(count) as pool:
            try:
                waiting = [pool.submit(work, module) for module in modules]
                yield from (future.result() for future in as_completed(waiting))
            finally:
                for process in processes:
                    process.kill()
    finally:
        for process in processes:
            process.communicate()


def serve() -> None:
    """Compile the kernels of the modules that standard input names; write names and seconds, a line each."""
    for line in sys.stdin:
        print(json.dumps(_compile_module(kernels_of(line.strip()))), flush=True)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes; where that cannot be done, go on without."""
    file: IO[bytes] | None = None
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("ab")
    if file is None:
        yield
        return
    with file:
        with contextlib.suppress(OSError):
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
        yield
