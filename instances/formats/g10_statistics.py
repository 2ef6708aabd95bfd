"""Training iterations as the artifact of G10 (MICRO 2023, platformxlab/G10) writes them down.

Its program leaves a folder ``statistics`` for every configuration that it simulates; two of its files are
read (results/README.md there says what they hold):

* ``tensors.config``: one line per tensor, ``tensor5 Is weight (global)?: 0, Size in byte: 4096,
  Range:0--4096``;
* ``kernels.config``: per kernel its number and name, ``Execution Time: `` in cycles of the GPU, then the
  lines of its input and of its output tensors.

Kernels become ops in their order; cycles become ns at the clock that the artifact assumes, 1200 MHz, rounded.
Global tensors are weights, initial and final. A local tensor whose first access reads it is an input of the
iteration; one that is written by one kernel and read by none is workspace (the artifact lists workspaces
as tensors); all others are activations. The address ranges, and the files about layers and intervals, say
nothing that the graph needs.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from ...models.errors import InstanceError
from ...models.graph import Graph, Op, Tensor
from ..options import Parameter
from .strict_json import read_bytes, show

CLOCK_MHZ = 1200
"""Of the GPU in the artifact's configurations."""

PARAMETERS = {"clock_mhz": Parameter(CLOCK_MHZ, "clock of the GPU", least=1)}

_TENSOR = re.compile(
    r"tensor(\d{1,18}) Is weight \(global\)\?: ([01]), Size in byte: (\d{1,18}), Range:-?\d+---?\d+"
)
_KERNEL = re.compile(r"Kernel ID: (\d{1,18}), Name: (\S+)")
_TIME = re.compile(r"Execution Time: (\d{1,18})")
_LISTS = {"Input Tensors:": "reads", "Output Tensors:": "writes"}


@dataclass
class _Kernel:
    """What the file says about a kernel; tensors by their numbers."""

    name: str
    line: int
    cycles: int | None = None
    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)


def read_g10(folder: str | os.PathLike[str], clock_mhz: int = CLOCK_MHZ) -> Graph:
    """Return the graph of a configuration's folder, or of its folder ``statistics``.

    Parameters
    ----------
    folder
        With ``statistics/tensors.config`` and ``statistics/kernels.config``, or with the two themselves.
    clock_mhz
        Of the GPU, to turn cycles into time.

    Raises
    ------
    InstanceError
        If a file is missing, or a line is not what the artifact writes; the message has file and line.
    """
    base = Path(folder)
    inner = base / "statistics" if (base / "statistics").is_dir() else base
    sizes, weights = _read_tensors(inner / "tensors.config")
    kernels = _read_kernels(inner / "kernels.config", sizes)
    number = {t: k for k, t in enumerate(sorted(sizes))}
    named = base.resolve()
    return Graph(
        name=(named.parent if named.name == "statistics" else named).name,
        provenance={"source": "statistics of the artifact of G10 (MICRO 2023)", "clock_mhz": clock_mhz},
        tensors=tuple(_tensors(sizes, weights, kernels)),
        ops=tuple(
            Op(
                name=f"{k}:{kernel.name}",
                kind=kernel.name,
                duration_ns=max(1, (2 * (kernel.cycles or 0) * 1000 + clock_mhz) // (2 * clock_mhz)),
                reads=tuple(number[t] for t in kernel.reads),
                writes=tuple(number[t] for t in kernel.writes),
            )
            for k, kernel in enumerate(kernels)
        ),
    )


def _lines(path: Path) -> list[str]:
    """Return the lines of a file."""
    try:
        return read_bytes(path).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InstanceError(f"{path}: found {error.reason}, expected text in UTF-8") from None


def _read_tensors(path: Path) -> tuple[dict[int, int], set[int]]:
    """Return bytes by number, and which tensors are global."""
    sizes: dict[int, int] = {}
    weights = set()
    for at, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        match = _TENSOR.fullmatch(line.strip())
        if match is None:
            raise InstanceError(f"{path}:{at}: found {show(line)}, expected a line of a tensor")
        t = int(match[1])
        if t in sizes:
            raise InstanceError(f"{path}:{at}: found tensor {t} twice, expected it once")
        sizes[t] = int(match[3])
        if match[2] == "1":
            weights.add(t)
    if not sizes:
        raise InstanceError(f"{path}: found no tensor, expected some")
    return sizes, weights


def _read_kernels(path: Path, sizes: dict[int, int]) -> list[_Kernel]:
    """Return the kernels in their order."""
    kernels: list[_Kernel] = []
    part = ""
    for at, line in enumerate(_lines(path), 1):
        text = line.strip()
        if match := _KERNEL.fullmatch(text):
            if int(match[1]) != len(kernels):
                raise InstanceError(f"{path}:{at}: found kernel {match[1]}, expected kernel {len(kernels)}")
            kernels.append(_Kernel(name=match[2], line=at))
            part = ""
        elif match := _TIME.fullmatch(text):
            _current(kernels, path, at).cycles = int(match[1])
        elif text in _LISTS:
            part = _LISTS[text]
        elif match := _TENSOR.fullmatch(text):
            t = int(match[1])
            if sizes.get(t) != int(match[3]):
                raise InstanceError(
                    f"{path}:{at}: found tensor {t} with {match[3]} bytes, expected "
                    f"{sizes.get(t, 'no such tensor')} as in tensors.config"
                )
            if not part:
                raise InstanceError(f"{path}:{at}: found a tensor, expected it in a list of tensors")
            getattr(_current(kernels, path, at), part).append(t)
        elif text.startswith("tensor"):
            raise InstanceError(f"{path}:{at}: found {show(line)}, expected a line of a tensor")
    for k, kernel in enumerate(kernels):
        if kernel.cycles is None:
            raise InstanceError(f"{path}:{kernel.line}: found kernel {k} without Execution Time, expected it")
    if not kernels:
        raise InstanceError(f"{path}: found no kernel, expected some")
    return kernels


def _current(kernels: list[_Kernel], path: Path, at: int) -> _Kernel:
    if not kernels:
        raise InstanceError(f"{path}:{at}: found a part of a kernel, expected Kernel ID first")
    return kernels[-1]


def _tensors(sizes: dict[int, int], weights: set[int], kernels: list[_Kernel]) -> list[Tensor]:
    """Return the tensors by number, with their kinds."""
    first_reads: dict[int, bool] = {}
    read = set()
    for kernel in kernels:
        for t in kernel.reads:
            first_reads.setdefault(t, True)
        for t in kernel.writes:
            first_reads.setdefault(t, False)
        read |= set(kernel.reads)
    tensors = []
    for t in sorted(sizes):
        weight, initial = t in weights, first_reads.get(t, False)
        kind = "weight" if weight else "input" if initial else "activation" if t in read else "workspace"
        tensors.append(
            Tensor(name=f"t{t}", nbytes=sizes[t], kind=kind, initial=weight or initial, final=weight)
        )
    return tensors
