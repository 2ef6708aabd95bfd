"""Results as pandas frames: what happens in a plan, or what lies where in an allocation, a row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..models.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from ..models.plan import ByteRange
    from ..models.result import Result

PLAN_COLUMNS = ("action", "start", "end", "op", "tensor", "nbytes", "mode", "processor", "src", "dst")
BUFFER_COLUMNS = ("id", "pool", "lower", "upper", "size", "offset")


def result_frame(result: Result) -> pd.DataFrame:
    """Return the answer of a result as a frame, by time.

    Returns
    -------
    pandas.DataFrame
        Of an allocation one row per buffer: id, pool, lifetime ``[lower, upper)``, size and offset in bytes.
        Of a plan one row per run, copy and free: names of op or tensor, ``[start, end)`` in ns, the number of
        the op's mode and its processor, the bytes that are copied or released, and the tiers ``src`` and
        ``dst``. The index of the plan's actions is that of ``plan.runs``, ``plan.copies``, ``plan.frees``.

    Raises
    ------
    UsageError
        If the result has no answer.
    """
    import pandas as pd

    if result.allocation is not None and result.buffers is not None:
        places = result.allocation
        rows: list[dict[str, Any]] = [
            {**{key: getattr(b, key) for key in BUFFER_COLUMNS[:-1]}, "offset": places[b.id]}
            for b in result.buffers.buffers
        ]
        return pd.DataFrame(rows, columns=list(BUFFER_COLUMNS)).sort_values(
            ["lower", "offset"], kind="stable"
        )
    if result.plan is None or result.graph is None:
        raise UsageError(f"result of {result.problem}: found no plan ({result.status}), expected one")
    ops, tensors, plan = result.graph.ops, result.graph.tensors, result.plan

    def size(tensor: int, some: ByteRange | None) -> int:
        return tensors[tensor].nbytes if some is None else some[1] - some[0]

    rows = [
        {"action": "run", "start": r.start, "end": r.end, "op": ops[r.op].name}
        | {"mode": r.mode, "processor": r.processor}
        for r in plan.runs
    ]
    rows += [
        {"action": "copy", "start": c.start, "end": c.end, "tensor": tensors[c.tensor].name}
        | {"nbytes": size(c.tensor, c.bytes), "src": c.src, "dst": c.dst}
        for c in plan.copies
    ]
    rows += [
        {"action": "free", "start": f.time, "end": f.time, "tensor": tensors[f.tensor].name}
        | {"nbytes": size(f.tensor, f.bytes), "src": f.tier}
        for f in plan.frees
    ]
    index = [k for some in (plan.runs, plan.copies, plan.frees) for k in range(len(some))]
    frame = pd.DataFrame(rows, columns=list(PLAN_COLUMNS), index=index)
    whole = dict.fromkeys(("start", "end", "nbytes", "mode"), "Int64")
    return frame.astype(whole).sort_values(["start", "end"], kind="stable")
