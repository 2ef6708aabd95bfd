r"""Largest parallel memory as a linear program: the cut of most bytes of `network`.

Data, variables, rows (1) to (4): see `network`. Minimize the gain that is lost, in units: the greatest common
divisor of all bytes. The matrix is totally unimodular, so vertices are cuts. Where a tensor has several last
accesses, or there are fewer processors, the optimum is an upper bound of the memory.

Source: Marchal, Nagy, Simon and Vivien, IPDPS 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...models.problems.parallel_memory import Moment
from ..linear_program import LinearProgram, ProgramBuilder, PyomoProgram, as_pyomo
from .cut_milp import unit_of
from .network import CutNetwork

ENGINE = "milp"
BYTES_PER_TERM = 600
"""Bytes of memory for each coefficient of the model while it is built and solved, about."""


@dataclass(frozen=True, kw_only=True)
class CutProgram:
    """The program, the bytes of one of its units, and the bytes that its costs leave out."""

    program: LinearProgram
    network: CutNetwork
    unit: int
    constant: int

    @cached_property
    def pyomo(self) -> PyomoProgram:
        """The program with a variable for each node of the network, and all of the objective."""
        nodes = {node: node for node in range(len(self.program.cost))}
        return as_pyomo(self.program, {"p": nodes}, -self.constant // self.unit)

    @property
    def model(self) -> Any:
        """The Pyomo model."""
        return self.pyomo.model


def build(network: CutNetwork) -> CutProgram:
    """Return the program: minimize the negative gain."""
    (gains, constant), unit = network.gains(), unit_of(network)
    builder = ProgramBuilder(unit, 1)
    for gain in gains:
        builder.variable(1, 1, -gain // unit)
    for u, v in network.orders:
        builder.row([(u, 1), (v, -1)], 0, 1)
    return CutProgram(program=builder.done(), network=network, unit=unit, constant=constant)


def decode(built: CutProgram, value: Callable[[Any], float]) -> Moment:
    """Return the moment of a solution."""
    return built.network.moment([x > 0.5 for x in built.pyomo.values(value)])
