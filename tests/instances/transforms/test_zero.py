"""Updates by Adam on the host's processor: states, bytes over time, processors."""

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.instances.transforms.zero import on_zero


def small(nbytes: int) -> lt.Graph:
    tensors = (
        lt.Tensor(name="w", nbytes=nbytes, kind="weight", initial=True, final=True),
        lt.Tensor(name="g", nbytes=nbytes, kind="gradient"),
    )
    backward = lt.Op(name="b", kind="MatMulBackward", reads=(0,), writes=(1,), duration_ns=77, workspace=5)
    update = lt.Op(name="u", kind="Update", reads=(0, 1), writes=(0,), duration_ns=9)
    return lt.Graph(name="small", tensors=tensors, ops=(backward, update))


def test_an_update_moves_its_bytes_at_the_hosts_bandwidth() -> None:
    found = on_zero(small(1050))
    backward, update = found.ops
    state = found.tensors[2]
    assert (state.nbytes, state.kind, state.initial, state.final) == (6300, "state", True, True)
    assert (update.reads, update.writes) == ((1, 2), (0, 2))
    # 1050 bytes of gradient and of weight, 6300 read and written, 105 bytes per ns
    assert update.modes == (lt.Mode(duration_ns=2 * 10 + 2 * 60, processors=("cpu",)),)
    assert backward.modes == (lt.Mode(duration_ns=77, workspace=5, processors=("gpu",)),)


def test_the_option_is_part_of_the_source() -> None:
    found = lt.load("gen:unet?train=1&node=zero")
    assert lt.load(found.source or "") == found
    assert found == on_zero(lt.load("gen:unet?train=1"))
    with pytest.raises(lt.InstanceError, match="found several modes or tiers"):
        on_zero(lt.load("gen:chain?n=3&node=optane"))
    with pytest.raises(lt.InstanceError, match="found no op of kind Update, expected a training graph"):
        on_zero(lt.load("gen:chain?n=3"))
    graph = small(8)
    wrong = replace(graph.ops[1], writes=(1,))
    with pytest.raises(lt.InstanceError, match="op 1 'u': found 1 tensors written, expected one weight"):
        on_zero(replace(graph, ops=(graph.ops[0], wrong)))
