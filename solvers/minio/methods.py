"""The room of problem `minio`, out-of-core execution of trees and other graphs with the least I/O."""

from __future__ import annotations

from ...models.problems.minio import MinIO
from ..method import BOUND, OPTIMUM, PYOMO_SOLVER, Export, Method, Option, family
from ..peak.methods import PEAK_KERNELS
from ..room import Room

_OF_TREES = ("postorder", "liu", "postorder-io", "rec-expand", "full-rec-expand")
_ORDERS = ("suited", "reference", *_OF_TREES, "greedy", "least-peak")
_ORDER = Option(
    "order",
    "suited",
    f"reference; of trees {', '.join(_OF_TREES)}; of other graphs greedy, least-peak; suited: "
    "postorder-io or least-peak",
    choices=_ORDERS,
)

ROOM = Room(
    problem=MinIO,
    methods=(
        Method(
            "auto",
            ".minio.auto:solve_auto",
            "trees: bounds, every order with every rule, benders; graphs: least peaks, rules, search, models",
            proves=OPTIMUM,
            kernels=PEAK_KERNELS,
            late=True,
        ),
        Method(
            "benders",
            ".minio.models:solve_benders",
            "what to write under cuts of subtrees, Liu's algorithm for the order",
            proves=OPTIMUM,
            kernels=PEAK_KERNELS,
            engine="cpsat",
            model=Export(
                "minio.cuts_cpsat",
                ".minio.stated:cut",
                scope="what meets the cuts that are found in a minute",
                decode=".minio.stated:by_parts",
            ),
        ),
        Method(
            "cpsat",
            ".minio.models:solve_joint",
            "order and evictions together, as intervals, from the best of the rules",
            proves=OPTIMUM,
            kernels=PEAK_KERNELS,
            engine="cpsat",
            model=Export("minio.joint_cpsat", ".minio.stated:stated"),
        ),
        Method(
            "cpsat-steps",
            ".minio.models:solve_steps",
            "any graph: order and memory at each step, from the best of the rules",
            proves=OPTIMUM,
            kernels=PEAK_KERNELS,
            engine="cpsat",
            model=Export("minio.steps_cpsat", ".minio.stated:in_steps"),
        ),
        Method(
            "local-search",
            ".minio.local_search:solve_local_search",
            "any graph: annealing over orders, evict what is used last in each",
            proves=BOUND,
            kernels=PEAK_KERNELS,
            options=(_ORDER, Option("runs", 20, "after which it ends by itself")),
        ),
        Method(
            "states",
            ".minio.states:solve_states",
            "any graph, whole tensors: best-first search over ops run, what is away and what was written",
            proves=OPTIMUM,
            kernels=PEAK_KERNELS,
        ),
        Method(
            "milp",
            ".minio.models:solve_milp",
            "a given order: the fewest bytes, by linear programming if files are divisible",
            proves=BOUND,
            kernels=PEAK_KERNELS,
            options=(_ORDER, PYOMO_SOLVER),
            engine="highs",
            model=Export("minio.order_milp", ".minio.stated:ordered", scope="traversals in one order"),
        ),
        Method(
            "postorder",
            ".minio.rules:solve_by_order",
            "the post-order that writes the fewest bytes of divisible files; furthest in the future",
            proves=BOUND,
            kernels=PEAK_KERNELS,
            source="Agullo, Guermouche, L'Excellent, SIAM J. Sci. Comput. 31, 2010",
        ),
        *family(
            ".minio.rules:solve_by_order",
            ("opt-min-mem", "Liu's order, of the least peak; furthest in the future"),
            ("rec-expand", "Liu's order after at most two expansions for each op; furthest in the future"),
            ("full-rec-expand", "Liu's order after all expansions; furthest in the future"),
            proves=BOUND,
            kernels=PEAK_KERNELS,
            source="Marchal, McCauley, Simon, Vivien, IPDPS workshops 2017",
        ),
        *family(
            ".minio.rules:solve_by_rule",
            ("furthest", "a given order, evict what is used last: least for divisible files"),
            ("first-fit", "a given order, evict the furthest file that is large enough"),
            ("best-fit", "a given order, evict the file closest to what is needed"),
            ("first-fill", "a given order, evict the furthest file that is not too large"),
            ("best-fill", "a given order, evict the largest file that is not too large"),
            ("best-k", "a given order, evict the set among the 5 furthest files closest to what is needed"),
            proves=BOUND,
            kernels=PEAK_KERNELS,
            source="Jacquelin, Marchal, Robert, Ucar, IPDPS 2011",
            options=(_ORDER,),
        ),
    ),
    bare={"cpsat": ".bare:trees"},
    judging=4.0,
    shared=("peak",),
)
