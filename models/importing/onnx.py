"""Nodes and constants of an ONNX file: what a converter of weights reads. No graph is run.

Source: onnx.proto of ONNX (numbers of fields and of data types), and the wire format of Protocol Buffers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from models.contract import WeightsError

Array = npt.NDArray[Any]

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_TYPES: Final = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8"}
# Fields of a tensor that hold its numbers where they are not one block of bytes, by data type.
_LISTS: Final = {4: "<f4", 10: "<f8"}
MAX_AXES: Final = 8
# Parts of one message. A graph of Kokoro has some thousand nodes and constants.
MAX_PARTS: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class Node:
    """One operation: `kind` is ONNX's op_type, `inputs` name constants or other nodes' outputs ("": left out)."""

    name: str
    kind: str
    inputs: tuple[str, ...]


@dataclass(slots=True)
class Graph:
    """A model's graph. `read` holds the names of the constants that `value` returned."""

    nodes: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)

    def value(self, name: str) -> Array:
        """Return a constant. Raises WeightsError if the graph has none of that name."""
        if name not in self.constants:
            raise WeightsError(f"the ONNX graph has no constant '{name[:80]}'")
        self.read.add(name)
        return self.constants[name]


def read_graph(data: bytes, source: str) -> Graph:
    """Read an ONNX file. Raises WeightsError, which names `source`, for anything else and for a file that is cut."""
    graph = Graph()
    try:
        model = dict(_fields(memoryview(data)))
        for number, value in _fields(_bytes(model[7])):
            if number == 1:
                node = _node(_bytes(value))
                graph.nodes.append(node)
            elif number == 5:
                name, array = _tensor(_bytes(value))
                graph.constants[name] = array
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise WeightsError(f"{source}: not a whole ONNX file: {error}") from None
    return graph


def _node(data: memoryview) -> Node:
    inputs, name, kind = [], "", ""
    for number, value in _fields(data):
        if number == 1:
            inputs.append(_text(value))
        elif number == 3:
            name = _text(value)
        elif number == 4:
            kind = _text(value)
    return Node(name, kind, tuple(inputs))


def _tensor(data: memoryview) -> tuple[str, Array]:
    shape: list[int] = []
    kind, name, raw = 0, "", memoryview(b"")
    layout = None
    for number, value in _fields(data):
        if number == 1:
            shape += [value] if isinstance(value, int) else list(_varints(value))
        elif number == 2 and isinstance(value, int):
            kind = value
        elif number == 8:
            name = _text(value)
        elif number == 9:
            raw, layout = _bytes(value), None
        elif number in _LISTS:
            raw, layout = _bytes(value), _LISTS[number]
        elif number in (5, 7):  # integers of any width, as varints
            numbers = [value] if isinstance(value, int) else list(_varints(_bytes(value)))
            raw, layout = memoryview(np.array(numbers, np.uint64).view(np.int64).tobytes()), "<i8"
        elif number == 13:
            raise ValueError(f"the numbers of {name or 'a constant'} are in another file")
    if kind not in _TYPES:
        raise ValueError(f"constant {name[:80]} has the data type {kind}")
    if len(shape) > MAX_AXES:
        raise ValueError(f"constant {name[:80]} has {len(shape)} axes")
    array = np.frombuffer(raw, layout or _TYPES[kind])
    if array.size != math.prod(shape):
        raise ValueError(f"constant {name[:80]} has {array.size} numbers, not {shape}")
    return name, array.astype(_TYPES[kind], copy=False).reshape(shape)


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number and value of each field of a message."""
    at = parts = 0
    while at < len(data):
        parts += 1
        if parts > MAX_PARTS:
            raise ValueError(f"a message of more than {MAX_PARTS} parts")
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED_32, _FIXED_64):
            size = 4 if wire == _FIXED_32 else 8
        else:
            raise ValueError(f"wire type {wire}")
        if at + size > len(data):
            raise ValueError(f"it ends {at + size - len(data)} bytes early")
        yield number, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for count in range(10):
        byte = data[at + count]
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, at + count + 1
    raise ValueError("a number has more than ten bytes")


def _varints(data: int | memoryview) -> Iterator[int]:
    view, at = _bytes(data), 0
    if len(view) > MAX_PARTS:
        raise ValueError(f"a list of more than {MAX_PARTS} bytes")
    while at < len(view):
        value, at = _varint(view, at)
        yield value


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise TypeError("a number where bytes are expected")
    return value


def _text(value: int | memoryview) -> str:
    return str(_bytes(value), "utf-8")
