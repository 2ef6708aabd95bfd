"""The methods of problem `minio`, in the order in which they are listed."""

from __future__ import annotations

from ..method import Method

_ORDER = ("order", "postorder-io (default), postorder, liu, rec-expand, full-rec-expand, or reference")
_JACQUELIN = "Jacquelin, Marchal, Robert, Ucar, IPDPS 2011"
_MARCHAL = "Marchal, McCauley, Simon, Vivien, IPDPS workshops 2017"


def _rule(name: str, summary: str) -> Method:
    return Method(
        name=name,
        problem="minio",
        run=f".minio.rules:solve_{name.replace('-', '_')}",
        summary=summary,
        source=_JACQUELIN,
        options=(_ORDER,),
    )


def _by_order(name: str, summary: str) -> Method:
    return Method(
        name=name,
        problem="minio",
        run=f".minio.rules:solve_{name.replace('-', '_')}",
        summary=summary,
        source=_MARCHAL,
    )


MINIO_METHODS = (
    Method(
        name="auto",
        problem="minio",
        run=".minio.models:solve_auto",
        summary="bounds by least peaks of subtrees, every order with every rule, to 5,000 ops benders",
        exact=True,
    ),
    Method(
        name="benders",
        problem="minio",
        run=".minio.models:solve_benders",
        summary="what to write under cuts of subtrees, Liu's algorithm for the order",
        exact=True,
        engine="cpsat",
    ),
    Method(
        name="cpsat",
        problem="minio",
        run=".minio.models:solve_joint",
        summary="order and evictions together, as intervals, from the best of the rules",
        exact=True,
        engine="cpsat",
    ),
    Method(
        name="milp",
        problem="minio",
        run=".minio.models:solve_milp",
        summary="a given order: the fewest bytes, by linear programming if files are divisible",
        options=(_ORDER,),
        engine="highs",
    ),
    Method(
        name="postorder",
        problem="minio",
        run=".minio.rules:solve_postorder",
        summary="the post-order that writes the fewest bytes of divisible files; furthest in the future",
        source="Agullo, Guermouche, L'Excellent, SIAM J. Sci. Comput. 31, 2010",
    ),
    _by_order("opt-min-mem", "Liu's order, of the least peak; furthest in the future"),
    _by_order("rec-expand", "Liu's order after at most two expansions for each op; furthest in the future"),
    _by_order("full-rec-expand", "Liu's order after all expansions; furthest in the future"),
    _rule("furthest", "a given order, evict what is used last: least for divisible files"),
    _rule("first-fit", "a given order, evict the furthest file that is large enough"),
    _rule("best-fit", "a given order, evict the file closest to what is needed"),
    _rule("first-fill", "a given order, evict the furthest file that is not too large"),
    _rule("best-fill", "a given order, evict the largest file that is not too large"),
    _rule("best-k", "a given order, evict the set among the 5 furthest files closest to what is needed"),
)
