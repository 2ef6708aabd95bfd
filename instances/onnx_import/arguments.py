"""Operands that are arguments of an operator rather than data: shapes, axes, limits.

If such an operand does not depend on the content of a graph input it is folded into the op and vanishes.
"""

from __future__ import annotations

ARGUMENTS: dict[str, frozenset[int]] = {
    op_type: frozenset(positions)
    for op_type, positions in {
        "AffineGrid": (1,),
        "CenterCropPad": (1,),
        "Clip": (1, 2),
        "Col2Im": (1, 2),
        "ConstantOfShape": (0,),
        "CumSum": (1,),
        "DFT": (1, 2),
        "Dropout": (1, 2),
        "Expand": (1,),
        "If": (0,),
        "Loop": (0, 1),
        "MaxUnpool": (2,),
        "NonMaxSuppression": (2, 3, 4),
        "OneHot": (1,),
        "Pad": (1, 2, 3),
        "Range": (0, 1, 2),
        "ReduceL1": (1,),
        "ReduceL2": (1,),
        "ReduceLogSum": (1,),
        "ReduceLogSumExp": (1,),
        "ReduceMax": (1,),
        "ReduceMean": (1,),
        "ReduceMin": (1,),
        "ReduceProd": (1,),
        "ReduceSum": (1,),
        "ReduceSumSquare": (1,),
        "Reshape": (1,),
        "Resize": (1, 2, 3),
        "SequenceAt": (1,),
        "SequenceErase": (1,),
        "SequenceInsert": (2,),
        "Slice": (1, 2, 3, 4),
        "Split": (1,),
        "SplitToSequence": (1,),
        "Squeeze": (1,),
        "Tile": (1,),
        "TopK": (1,),
        "Trilu": (1,),
        "Unsqueeze": (1,),
        "Upsample": (1,),
    }.items()
}
"""ONNX operator -> positions of its operands that are arguments."""

NO_ARGUMENTS: frozenset[int] = frozenset()
