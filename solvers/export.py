"""Write the model that a method would solve, for other solvers, for reports and for bug reports."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..formulations.pyomo_terms import silent_pyomo
from ..models.errors import UsageError
from ..models.files import check_writable, write_whole
from ..models.problems.problem import Problem
from .build import build, export_of
from .texts import text_of

SUFFIXES = {"milp": (".mps", ".lp"), "cpsat": (".pb.txt", ".pbtxt", ".pb")}
"""Formats: of MILP models by Pyomo, with the names of the formulation; of CP-SAT models protocol buffers as
text, or binary."""


def export_model(
    problem: Problem,
    method: str | None,
    path: str | os.PathLike[str],
    *,
    part: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Write the model of a method, or the problem itself as a text, to a file, whole or not at all.

    All values in it are in the greatest common divisor of the sizes (and of the durations). It has no hint
    and no bounds but those of the formulation; models of `makespan` end with the best list schedule that is
    found within a minute. What a model is about, if its optimum is not the problem's, says `Export.scope`.

    Parameters
    ----------
    problem
        What the model states.
    method
        One that builds a model: a message lists them where it is another one. None: the text that states the
        problem (`lowtide.solvers.texts`).
    path
        Its suffix is the format: ``.mps`` or ``.lp`` for a MILP, ``.pb.txt`` (or ``.pbtxt``) or the
        binary ``.pb`` for CP-SAT; without a method ``.mzn`` for MiniZinc, ``.sm`` or ``.mm`` for PSPLIB.
    part
        Of `offsets`: pools, and stretches of time that no lifetime connects, are independent parts, each
        with a model of its own; which one, counted from 0 by pool, then time. Needed if there are several.
    options
        Those of the method on which its model depends, as texts.

    Raises
    ------
    UsageError
        If the problem or the method has no model, the model is too large, the suffix is of another kind, the
        file cannot be written, or there is no such part, or none is named and there are several.
    """
    if method is None:
        write_whole(path, text_of(problem, path, part=part, options=options or {}).encode())
        return
    export = export_of(problem, method, part)
    kind = export.engine
    suffix = next((x for x in SUFFIXES[kind] if Path(path).name.endswith(x)), None)
    if suffix is None:
        expected = ", ".join(SUFFIXES[kind])
        raise UsageError(f"{path}: found another suffix, expected {expected} for method {method}")
    check_writable(path)
    built = build(problem, method, part=part, rows=False, options=options)
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        # CP-SAT writes text if and only if the name ends in "txt".
        draft = Path(folder) / ("model.pb.txt" if suffix == ".pbtxt" else f"model{suffix}")
        _write(built.model, kind, draft)
        write_whole(path, draft.read_bytes())


def _write(model: Any, kind: str, path: Path) -> None:
    if kind == "milp":
        with silent_pyomo():
            model.write(str(path), io_options={"symbolic_solver_labels": True})
        if path.suffix == ".mps":  # glpsol knows no sense of objectives; without a word all minimize
            text = path.read_text("utf-8")
            path.write_text(text.replace("OBJSENSE\n MIN\n", "", 1), "utf-8")
    elif not model.export_to_file(str(path)):
        raise RuntimeError("CP-SAT could not write the model")
