"""Where measured numbers come from, as machines and graphs state it: read strictly."""

from __future__ import annotations

from typing import Any

from ...models.measurement import BESIDE, Measurement, Transfer
from .strict_json import TEXT, Field, check_object, check_rows, is_list, is_positive, required

_COUNT = required(Field(is_positive, "an integer >= 1"))

_MEASUREMENT = {
    "device": required(TEXT),
    "date": required(TEXT),
    "versions": required(
        Field(
            lambda value: type(value) is dict and all(type(x) is str for x in value.values()),
            "an object from names to versions (strings)",
        )
    ),
    "repetitions": _COUNT,
    "conditions": TEXT,
    "transfers": Field(is_list, "a list of transfers"),
}
_TRANSFER = {
    "src": required(TEXT),
    "dst": required(TEXT),
    "nbytes": _COUNT,
    "duration_ns": _COUNT,
    "beside": Field(lambda value: value in BESIDE, f"one of {', '.join(BESIDE)}"),
}


def measurement_from_dict(data: Any, where: str = "provenance") -> Measurement:
    """Return the measurement of a JSON object as `Measurement.to_dict` makes it.

    Raises
    ------
    InstanceError
        If a key is unknown or missing, or a value wrong.
    """
    check_object(data, _MEASUREMENT, where)
    transfers = data.get("transfers", [])
    check_rows(transfers, _TRANSFER, where, "transfer", key="src")
    return Measurement(**{**data, "transfers": tuple(Transfer(**row) for row in transfers)})
