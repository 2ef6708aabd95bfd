"""Graphs built by name: the same as by index, and errors that say where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lowtide as lt


def test_names_give_the_graph_that_indices_give() -> None:
    g = lt.GraphBuilder("net", accounting="replace")
    x = g.tensor("x", "4kB")
    w = g.tensor("w", 10, kind="weight")
    y = g.tensor("y", "1KiB", kind="output", final=True)
    conv = g.op(
        "conv", reads=[x, w], writes=[y], duration="1.5us", workspace="2B", kind="Conv", inplace={x: y}
    )
    g.op("update", reads=[w], writes=[w], after=[conv])
    expected = lt.Graph(
        name="other name",
        accounting=lt.Accounting.REPLACE,
        tensors=(
            lt.Tensor(name="x", nbytes=4000, initial=True),
            lt.Tensor(name="w", nbytes=10, kind="weight", initial=True),
            lt.Tensor(name="y", nbytes=1024, kind="output", final=True),
        ),
        ops=(
            lt.Op(
                name="conv",
                kind="Conv",
                duration_ns=1500,
                workspace=2,
                reads=(0, 1),
                writes=(2,),
                inplace=((0, 2),),
            ),
            lt.Op(name="update", reads=(1,), writes=(1,), after=(0,)),
        ),
    )
    assert g.build() == expected


def test_what_is_said_of_initial_holds() -> None:
    g = lt.GraphBuilder()
    g.tensor("unused", 1, initial=False)
    g.tensor("state", 1, kind="state", initial=False)
    g.tensor("scratch", 1, initial=True)
    g.op("a", writes=["state", "scratch"])
    assert [t.initial for t in g.build().tensors] == [False, False, True]


def with_x() -> lt.GraphBuilder:
    g = lt.GraphBuilder("net")
    g.op("load", writes=[g.tensor("xray", 1)])
    return g


INDEX: Any = [0]
LIST: Any = ["xray"]
WRONG: dict[str, tuple[Callable[[lt.GraphBuilder], object], str]] = {
    "tensor twice": (
        lambda g: g.tensor("xray", 1),
        "graph 'net': found a second tensor 'xray', expected unique names",
    ),
    "op twice": (lambda g: g.op("load"), "graph 'net': found a second op 'load', expected unique names"),
    "near name": (
        lambda g: g.op("f", reads=["xrai"]),
        "op 'f', reads: found unknown tensor 'xrai', did you mean xray?",
    ),
    "a text": (
        lambda g: g.op("f", reads="xray"),
        "op 'f', reads: found 'xray', expected a list of names, as in ['xray']",
    ),
    "an index": (
        lambda g: g.op("f", writes=INDEX),
        "op 'f', writes: found unknown tensor 0, expected one of xray",
    ),
    "after": (lambda g: g.op("f", after=["g"]), "op 'f', after: found unknown op 'g', expected one of load"),
    "size": (
        lambda g: g.tensor("y", "4 cats"),
        "tensor 'y', nbytes: found '4 cats', expected bytes such as 4096",
    ),
    "kind": (lambda g: g.tensor("y", 1, kind="gas"), "tensor 'y', kind: found 'gas', expected one of input"),
    "duration": (
        lambda g: g.op("f", duration="3 h"),
        "op 'f', duration: found '3 h', expected nanoseconds such as 40",
    ),
    "zero": (lambda g: g.op("f", duration=0), "op 'f', duration: found 0, expected an integer >= 1"),
    "inplace": (lambda g: g.op("f", inplace=LIST), "op 'f', inplace: found ['xray'], expected a mapping"),
    "twice": (lambda g: (g.op("f", reads=["xray", "xray"]), g.build()), "op 1 'f', reads: found 0 twice"),
    "accounting": (
        lambda g: lt.GraphBuilder(accounting="x").build(),
        "accounting: found 'x', expected one of",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_and_where(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(lt.InstanceError) as info:
        call(with_x())
    assert str(info.value).startswith(message)


def test_what_failed_was_not_added() -> None:
    g = with_x()
    with pytest.raises(lt.InstanceError):
        g.op("f", reads=["nothing"])
    with pytest.raises(lt.InstanceError):
        g.tensor("y", -1)
    graph = g.build()
    assert (len(graph.ops), len(graph.tensors)) == (1, 1)
