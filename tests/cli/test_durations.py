"""What commands say of durations: the same words in text and JSON, and a warning of another device's."""

from __future__ import annotations

import json

import pytest

from lowtide.__main__ import main

SPEC = "gen:unet?depth=1&train=1"
SOLVE = ("--method", "demand-lru", "--device", "200MiB")


def output_of(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, dict[str, str], str]:
    """Return the durations that a command prints, its JSON object, and its notes."""
    assert main([*words]) == 0
    text, notes = capsys.readouterr()
    (line,) = (line for line in text.splitlines() if line.startswith("durations "))
    assert main([*words, "--json"]) == 0
    return line.partition(" ")[2].strip(), json.loads(capsys.readouterr().out), notes


@pytest.mark.parametrize(
    ("words", "durations", "warning"),
    [
        (("show", f"{SPEC}&durations=l4"), "roofline of l4, fp32", ""),
        (("show", "gen:chain"), "given", ""),
        (("solve", "placement", SPEC, "--machine", "l4", *SOLVE), "roofline of l4, fp32", ""),
        (
            ("solve", "placement", f"{SPEC}&durations=given", "--machine", "l4", *SOLVE),
            "roofline of a100-40g at its peak rates, fp32",
            "not of machine 'l4': durations=l4 takes those of its device",
        ),
        (
            ("solve", "placement", SPEC, "--machine", "h200-node", *SOLVE),
            "roofline of a100-40g at its peak rates, fp32",
            "not of machine 'h200-node': add a [compute] table",
        ),
        (("solve", "makespan", f"{SPEC}&durations=l4", "--method", "list"), "roofline of l4, fp32", ""),
    ],
)
def test_commands_say_where_durations_come_from(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], durations: str, warning: str
) -> None:
    text, record, notes = output_of(capsys, *words)
    assert text == record["durations"] == durations
    assert warning in notes
    assert notes.count("durations are") == bool(warning)


def test_results_in_bytes_say_nothing_of_durations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "peak", SPEC, "--method", "reference", "--json"]) == 0
    assert "durations" not in json.loads(capsys.readouterr().out)


def test_machines_show_their_rates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "h100-80g"]) == 0
    text = capsys.readouterr().out
    assert "bf16    989.5 TOP/s     60 %" in text
    assert "a kernel's launch takes 3 µs" in text
    assert "source: NVIDIA H100 SXM data sheet, recalled" in text
    assert main(["show", "h100-80g", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compute"]["operations_per_s"]["fp32"] == 67 * 10**12
