"""Chakra traces by the package protobuf, from a description of the fields of its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "AttributeProto": {
        "name": (1, "string"),
        "double_val": (3, "double"),
        "float_val": (5, "float"),
        "int32_val": (7, "int32"),
        "int64_val": (9, "int64"),
        "uint64_val": (13, "uint64"),
        "bool_val": (27, "bool"),
        "string_val": (29, "string"),
    },
    "IOInfo": {"values": (1, "string"), "shapes": (2, "string"), "types": (3, "string")},
    "GlobalMetadata": {"version": (1, "string"), "attr": (2, "*AttributeProto")},
    "Node": {
        "id": (1, "uint64"),
        "name": (2, "string"),
        "type": (3, "int32"),  # an enum, which has the same encoding
        "ctrl_deps": (4, "*uint64"),
        "data_deps": (5, "*uint64"),
        "start_time_micros": (6, "uint64"),
        "duration_micros": (7, "uint64"),
        "inputs": (8, "IOInfo"),
        "outputs": (9, "IOInfo"),
        "attr": (10, "*AttributeProto"),
    },
}


def messages() -> dict[str, Any]:
    """Return the classes of the messages."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="ChakraProtoMsg", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, rows in MESSAGES.items():
        message = file.message_type.add(name=name)
        for key, (number, kind) in rows.items():
            plain = kind.removeprefix("*")
            label = kinds.LABEL_REPEATED if kind != plain else kinds.LABEL_OPTIONAL
            if plain in MESSAGES:
                message.field.add(
                    name=key,
                    number=number,
                    label=label,
                    type=kinds.TYPE_MESSAGE,
                    type_name=f".ChakraProtoMsg.{plain}",
                )
            else:
                message.field.add(
                    name=key, number=number, label=label, type=kinds.Type.Value(f"TYPE_{plain.upper()}")
                )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindFileByName("et.proto").message_types_by_name
    return {name: message_factory.GetMessageClass(found[name]) for name in MESSAGES}


def trace(*nodes: Mapping[str, Any]) -> bytes:
    """Return a file of nodes with these fields."""
    classes = messages()
    metadata = classes["GlobalMetadata"](version="0.0.4", attr=[{"name": "schema", "string_val": "1.0"}])
    out = b""
    for message in (metadata, *(classes["Node"](**node) for node in nodes)):
        content = message.SerializeToString()
        size = len(content)
        while size >= 0x80:
            out += bytes([size & 0x7F | 0x80])
            size >>= 7
        out += bytes([size]) + content
    return out
