"""Pickles that hold plain data alone: dicts, lists, tuples, texts, numbers, truth values and None.

An interpreter of the opcodes that pickle protocols 2 to 5 use for plain data, written for files of strangers.
It has no opcode that names a class, calls a function or reserves memory by a number in the file. What takes
memory is in the file: time and memory grow linearly with its length. `pickle` itself can refuse all classes,
but reserves what ``LONG_BINPUT`` and ``BYTEARRAY8`` ask for.

Source: the comments of ``Lib/pickletools.py`` of CPython 3.11 [read].
"""

from __future__ import annotations

import pickle
import pickletools
import struct
from typing import Any

from ...models.errors import InstanceError

_NAMES = {ord(row.code): row.name for row in pickletools.opcodes}
_BINGET, _LONG_BINGET, _MEMOIZE, _MARK = b"hj\x94("
_DICT, _LIST, _SETITEMS, _SHORT_TEXT, _STOP = b"}]u\x8c."
_IGNORED = {pickle.PROTO[0]: 1, pickle.FRAME[0]: 8}
_INTEGERS = {pickle.BININT1[0]: 1, pickle.BININT2[0]: 2, pickle.BININT[0]: 4}
_TEXTS = {pickle.BINUNICODE[0]: 4, pickle.BINUNICODE8[0]: 8}
_PUTS = {pickle.BINPUT[0]: 1, pickle.LONG_BINPUT[0]: 4}
_TUPLES = {pickle.EMPTY_TUPLE[0]: 0, pickle.TUPLE1[0]: 1, pickle.TUPLE2[0]: 2, pickle.TUPLE3[0]: 3}
_CONSTANTS = {pickle.NONE[0]: None, pickle.NEWTRUE[0]: True, pickle.NEWFALSE[0]: False}


class _NotPlainError(Exception):
    """An opcode makes something else than plain data."""


def parse_pickle(content: bytes, where: str) -> Any:
    """Return the value of a pickle that holds plain data.

    Raises
    ------
    InstanceError
        If it is no complete pickle, or has anything else in it: one line with the offset.

    Examples
    --------
    >>> import pickle
    >>> from lowtide.instances.formats.plain_pickle import parse_pickle
    >>> parse_pickle(pickle.dumps({"a": [1, (2, None)]}), "a.pickle")
    {'a': [1, (2, None)]}
    """
    at = began = 0
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}
    try:
        while True:
            began = at
            code = content[at]
            at += 1
            if code == _BINGET:
                stack.append(memo[content[at]])
                at += 1
            elif code == _LONG_BINGET:
                stack.append(memo[int.from_bytes(content[at : at + 4], "little")])
                at += 4
            elif code in _INTEGERS:
                size = _INTEGERS[code]
                stack.append(int.from_bytes(content[at : at + size], "little", signed=size == 4))
                at += size
            elif code == _MEMOIZE:
                memo[len(memo)] = stack[-1]
            elif code == _SHORT_TEXT:
                end = at + 1 + content[at]
                stack.append(content[at + 1 : end].decode())
                at = end
            elif code == _DICT:
                stack.append({})
            elif code == _LIST:
                stack.append([])
            elif code == _MARK:
                marks.append(len(stack))
            elif code == _SETITEMS:
                _set(stack, marks.pop())
            elif code == _STOP:
                (value,) = stack
                return value
            else:
                at = _other(code, content, at, stack, marks, memo)
    except (IndexError, KeyError, TypeError, ValueError, struct.error):
        fault = (
            f"found a wrong {_NAMES.get(content[began], 'byte')} at"
            if began < len(content)
            else "found its end at"
        )
        raise InstanceError(
            f"{where}: {fault} offset {began}, expected a complete pickle of plain data"
        ) from None
    except _NotPlainError:
        found = _NAMES.get(content[began], f"byte {content[began]:#04x}")
        expected = "expected dicts, lists, tuples, texts and numbers alone"
        raise InstanceError(f"{where}: found {found} at offset {began} of the pickle, {expected}") from None


def _other(
    code: int, content: bytes, at: int, stack: list[Any], marks: list[int], memo: dict[int, Any]
) -> int:
    """Do what one of the rarer opcodes says; return where the next one is.

    A slice that leaves the content is shorter, and the next opcode is not there: so it ends.
    """
    if code == pickle.LONG1[0]:
        end = at + 1 + content[at]
        stack.append(int.from_bytes(content[at + 1 : end], "little", signed=True))
        return end
    if code in _IGNORED:
        return at + _IGNORED[code]
    if code in _CONSTANTS:
        stack.append(_CONSTANTS[code])
    elif code in _TUPLES:
        first = len(stack) - _TUPLES[code]
        if first < (marks[-1] if marks else 0):
            raise IndexError
        stack[first:] = [tuple(stack[first:])]
    elif code == pickle.TUPLE[0]:
        first = marks.pop()
        stack[first:] = [tuple(stack[first:])]
    elif code in (pickle.APPEND[0], pickle.APPENDS[0]):
        first = len(stack) - 1 if code == pickle.APPEND[0] else marks.pop()
        if first < 1 or type(stack[first - 1]) is not list:
            raise TypeError
        stack[first - 1].extend(stack[first:])
        del stack[first:]
    elif code == pickle.SETITEM[0]:
        _set(stack, len(stack) - 2)
    elif code in _TEXTS:
        begin = at + _TEXTS[code]
        end = begin + int.from_bytes(content[at:begin], "little")
        stack.append(content[begin:end].decode())
        return end
    elif code in _PUTS:
        end = at + _PUTS[code]
        memo[int.from_bytes(content[at:end], "little")] = stack[-1]
        return end
    elif code == pickle.BINFLOAT[0]:
        stack.append(*struct.unpack(">d", content[at : at + 8]))
        return at + 8
    else:
        raise _NotPlainError
    return at


def _set(stack: list[Any], first: int) -> None:
    """Put keys and values, which stand on the stack from `first`, into the dict below them.

    Keys of other types than texts could be made to collide; hashes of texts differ from process to process.
    """
    keys = stack[first::2]
    if first < 1 or type(stack[first - 1]) is not dict or {*map(type, keys)} - {str}:
        raise TypeError
    stack[first - 1].update(zip(keys, stack[first + 1 :: 2], strict=True))
    del stack[first:]
