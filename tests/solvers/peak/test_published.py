"""Published orders and SERENITY: hand-worked cases of each rule, and the enumeration of every order."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given

from lowtide.models.derived.memory import sequential_memory
from lowtide.models.derived.precedence import check_order
from lowtide.models.graph import Graph, Op, Tensor
from lowtide.models.problems.peak import Peak
from lowtide.solvers.context import Context
from lowtide.solvers.peak.orders import inductor, xla
from lowtide.solvers.peak.orders.serenity import solve_serenity
from lowtide.solvers.registry import METHODS
from tests.effort import many
from tests.oracles.brute_force import brute_force_peak, order_peak
from tests.problems.peak import DEFAULTS
from tests.strategies import graphs, random_graph

CHECKED = many(100)
RULES: dict[str, Callable[[Graph], tuple[int, ...]]] = {
    "inductor-lpmf": inductor.least_peak_first,
    "inductor-dfs": inductor.depth_first,
    "inductor-bfs": inductor.breadth_first,
    "xla-list": xla.list_order,
    "xla-dfs": xla.depth_first,
    "xla-post-order": xla.plain_post_order,
    "xla-bfs": xla.breadth_first,
}


def graph_of(sizes: dict[str, int], ops: dict[str, str], final: str) -> Graph:
    """Return a graph with one tensor per op; `ops` names what each op reads, letter by letter."""
    index = {name: t for t, name in enumerate(sizes)}
    return Graph(
        name="by hand",
        tensors=tuple(Tensor(name=x, nbytes=n, final=x in final) for x, n in sizes.items()),
        ops=tuple(
            Op(name=name, reads=tuple(index[x] for x in reads), writes=(index[name],))
            for name, reads in ops.items()
        ),
    )


def named(graph: Graph, order: tuple[int, ...]) -> str:
    return "".join(graph.ops[v].name for v in order)


def documented() -> Graph:
    """The example in the comment of XLA's list scheduler: b and f make two units, all others one."""
    return graph_of(
        {"a": 1, "b": 2, "c": 1, "d": 1, "e": 1, "f": 2, "g": 1},
        {"a": "", "b": "a", "c": "b", "d": "a", "e": "a", "f": "de", "g": "cf"},
        final="g",
    )


def test_xla_list_defers_the_larger_output_as_its_comment_says() -> None:
    """The comment gives a d e f b c g; d and e are equals, of which the later one to enter goes first."""
    assert named(documented(), xla.list_order(documented())) == "aedfbcg"


def test_xla_list_prefers_more_users_among_equal_bytes() -> None:
    graph = graph_of(
        {"a": 2, "b": 2, "c": 1, "d": 1, "e": 1},
        {"a": "", "b": "", "c": "b", "d": "b", "e": "acd"},
        final="e",
    )
    assert named(graph, xla.list_order(graph)) == "bdcae"


def test_xla_list_takes_up_an_op_whose_operand_has_one_use_left() -> None:
    """After x and y, c frees nothing (a has another use); once b has run, c frees a and goes before z."""
    graph = graph_of(
        {"a": 8, "b": 1, "c": 4, "z": 2, "e": 1},
        {"a": "", "b": "a", "c": "a", "z": "", "e": "bcz"},
        final="e",
    )
    assert named(graph, xla.list_order(graph)) == "zabce"


def test_xla_dfs_visits_extra_users_before_bytes() -> None:
    """m has two users more than one (extra 1), k has more bytes: m first, then k."""
    graph = graph_of(
        {"k": 9, "m": 1, "p": 1, "q": 1, "r": 1},
        {"k": "", "m": "", "p": "m", "q": "m", "r": "kpq"},
        final="r",
    )
    assert named(graph, xla.depth_first(graph)) == "mpqkr"
    assert named(graph, xla.plain_post_order(graph)) == "kmpqr"


def test_xla_dfs_visits_more_total_bytes_first() -> None:
    graph = graph_of({"a": 1, "b": 5, "c": 3, "d": 1}, {"a": "", "b": "a", "c": "", "d": "cb"}, final="d")
    assert named(graph, xla.depth_first(graph)) == "abcd"
    assert named(graph, xla.plain_post_order(graph)) == "cabd"


def test_xla_post_order_visits_control_edges_before_operands_and_outputs_last() -> None:
    graph = Graph(
        name="control",
        tensors=tuple(Tensor(name=x, nbytes=1, final=x == "y") for x in "xyz"),
        ops=(
            Op(name="a", writes=(0,)),
            Op(name="b"),
            Op(name="c"),
            Op(name="d", reads=(0,), writes=(1,), after=(1, 2)),
            Op(name="e", writes=(2,)),
        ),
    )
    assert named(graph, xla.plain_post_order(graph)) == "bcade"
    assert named(graph, xla.breadth_first(graph)) == "abced"


def test_lpmf_picks_the_least_increase_of_what_fits_then_the_smallest() -> None:
    """b and c exceed the highest memory so far: c is smaller. Then d fits in the gap that c leaves, b not."""
    graph = graph_of(
        {"a": 2, "b": 6, "c": 4, "d": 1, "e": 1},
        {"a": "", "b": "a", "c": "a", "d": "c", "e": "bd"},
        final="e",
    )
    assert named(graph, inductor.least_peak_first(graph)) == "acdbe"


def test_lpmf_begins_with_the_bytes_of_all_outputs_as_highest() -> None:
    """p and q both fit under the ten bytes of the output; q frees more than p after it has run."""
    graph = Graph(
        name="outputs",
        tensors=(
            Tensor(name="x", nbytes=5, initial=True),
            Tensor(name="p", nbytes=1),
            Tensor(name="q", nbytes=3),
            Tensor(name="y", nbytes=10, final=True),
        ),
        ops=(
            Op(name="p", writes=(1,)),
            Op(name="q", reads=(0,), writes=(2,)),
            Op(name="y", reads=(1, 2), writes=(3,)),
        ),
    )
    assert named(graph, inductor.least_peak_first(graph)) == "qpy"


def test_inductor_bfs_compares_the_places_of_predecessors() -> None:
    """c needs place 1, d place 0: d first although it stands later."""
    graph = graph_of(
        {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1},
        {"a": "", "b": "", "c": "b", "d": "a", "e": "cd"},
        final="e",
    )
    assert named(graph, inductor.breadth_first(graph)) == "abdce"
    assert named(graph, xla.breadth_first(graph)) == "abdce"


def test_inductor_dfs_visits_few_bytes_first_everywhere() -> None:
    """Bytes read and written: a 4, b 1, c 5, d 3, e 4: first b; then d (with b done); a; e; c."""
    graph = graph_of(
        {"a": 4, "b": 1, "c": 1, "d": 2, "e": 1},
        {"a": "", "b": "", "c": "a", "d": "b", "e": "cd"},
        final="e",
    )
    assert named(graph, inductor.depth_first(graph)) == "bdace"


@CHECKED
@given(graphs(max_ops=7))
def test_every_order_is_valid_and_not_below_the_optimum(graph: Graph) -> None:
    optimum, _ = brute_force_peak(graph)
    for rule in RULES.values():
        order = rule(graph)
        check_order(graph, order)
        assert order_peak(graph, order) >= optimum


def test_methods_give_the_best_of_their_orders() -> None:
    methods = {m.name: m for m in METHODS if m.problem == "peak"}
    for seed in range(20):
        graph = random_graph(Random(seed), min_ops=12, max_ops=12, max_tensors=14)
        peaks = {name: sequential_memory(graph).peak(rule(graph)) for name, rule in RULES.items()}
        peaks["inductor"] = min(
            sequential_memory(graph).peak(range(12)), *(p for x, p in peaks.items() if x[0] == "i")
        )
        peaks["xla"] = min(peaks[f"xla-{x}"] for x in ("list", "dfs", "post-order"))
        for name, peak in peaks.items():
            context = Context(problem=Peak(graph), options=DEFAULTS)
            methods[name].load()(Peak(graph), context)
            assert context.incumbent == peak, name
            assert context.bound is None


@CHECKED
@given(graphs(max_ops=7))
def test_serenity_is_exact_however_few_signatures_it_starts_with(graph: Graph) -> None:
    optimum, _ = brute_force_peak(graph)
    for signatures in (1, 3, 4096):
        context = Context(problem=Peak(graph), options={"signatures": signatures})
        assert solve_serenity(Peak(graph), context).reason is None
        assert context.answer is not None
        assert context.incumbent == context.bound == order_peak(graph, context.answer) == optimum


def test_serenity_halves_the_budget_and_returns() -> None:
    """Eight independent pairs: 4**8 executed sets, almost all of which a small budget cuts off."""
    pairs = {f"{x}{i}": 9 if x == "a" else 1 for i in range(8) for x in "ab"}
    index = {name: t for t, name in enumerate(pairs)}
    graph = Graph(
        name="pairs",
        tensors=tuple(Tensor(name=x, nbytes=n) for x, n in pairs.items()),
        ops=(
            *(Op(name=f"a{i}", writes=(index[f"a{i}"],)) for i in range(8)),
            *(Op(name=f"b{i}", reads=(index[f"a{i}"],), writes=(index[f"b{i}"],)) for i in range(8)),
            Op(name="end", reads=tuple(index[f"b{i}"] for i in range(8))),
        ),
    )
    context = Context(problem=Peak(graph), options={"signatures": 100})
    assert solve_serenity(Peak(graph), context).reason is None
    assert context.incumbent == context.bound == 17


def test_serenity_keeps_what_it_has_when_the_time_is_up() -> None:
    graph = random_graph(Random(3), min_ops=20, max_ops=20, max_tensors=20)
    context = Context(problem=Peak(graph), time_limit=0.0, options=DEFAULTS)
    assert solve_serenity(Peak(graph), context).reason == "time"
    assert context.incumbent == sequential_memory(graph).peak(xla.breadth_first(graph))


def test_graph_without_ops() -> None:
    graph = Graph(name="empty", tensors=(Tensor(name="w", nbytes=7, initial=True, final=True),), ops=())
    for method in METHODS:
        if method.problem == "peak" and method.name.split("-")[0] in ("inductor", "xla", "serenity"):
            context = Context(problem=Peak(graph), options=DEFAULTS)
            method.load()(Peak(graph), context)
            assert context.incumbent == 7


@pytest.mark.parametrize("rule", RULES)
def test_rules_repeat_themselves(rule: str) -> None:
    graph = random_graph(Random(5), min_ops=40, max_ops=40, max_tensors=40)
    assert RULES[rule](graph) == RULES[rule](graph)
