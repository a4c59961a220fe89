"""Variables of a CTranslate2 model (model.bin): what a converter of weights reads.

Source: `ModelSpec._serialize` in ctranslate2/specs/model_spec.py, binary version 6.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from models.contract import WeightsError

Array = npt.NDArray[Any]

VERSION: Final = 6
MAX_AXES: Final = 8
# Variables of a file, and other names of them. The largest Whisper has some thousand of both.
MAX_VARIABLES: Final = 1 << 14
_TYPES: Final = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2", 5: "<u2"}
_BFLOAT16: Final = 5


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return int(value)

    def count(self) -> int:
        if (found := self.number("I")) > MAX_VARIABLES:
            raise ValueError(f"{found} variables")
        return found

    def text(self) -> str:
        return self.take(self.number("H")).rstrip(b"\0").decode()

    def take(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self.data):
            raise ValueError(f"it ends {self.at - len(self.data)} bytes early; is a part missing?")
        return self.data[self.at - size : self.at]


def read_model(data: bytes, source: str) -> tuple[str, dict[str, Array]]:
    """Return the name of the specification, such as WhisperSpec, and the variables in floats, or int32.

    Weights of 8 and 16 bits are divided by their scales. Raises WeightsError, which names `source`, for anything else,
    and for a file that is cut or goes on behind its end.
    """
    reader = _Reader(data)
    try:
        if (version := reader.number("I")) != VERSION:
            raise ValueError(f"binary version {version}, not {VERSION}")
        name, _ = reader.text(), reader.number("I")
        stored = dict(_variable(reader) for _ in range(reader.count()))
        arrays = {key: _dequantized(stored, key) for key in stored if not key.endswith("_scale")}
        size = sum(array.nbytes for array in arrays.values())
        for _ in range(reader.count()):
            alias, target = reader.text(), reader.text()
            if not alias.endswith("_scale"):
                arrays[alias] = arrays[target]
        if reader.at != len(data):
            raise ValueError(f"{len(data) - reader.at} bytes follow its end")
        # A decoder's embeddings may be its output, too; each name would be written as an array of its own.
        if sum(array.nbytes for array in arrays.values()) > 2 * size:
            raise ValueError("its variables have too many names")
        return name, arrays
    except (ValueError, KeyError, struct.error) as error:
        raise WeightsError(f"{source}: not a whole model of CTranslate2: {error}") from None


def _variable(reader: _Reader) -> tuple[str, Array]:
    key = reader.text()
    axes = reader.number("B")
    if axes > MAX_AXES:
        raise ValueError(f"{key[:80]} has {axes} axes")
    shape = [reader.number("I") for _ in range(axes)]
    kind, size = reader.number("B"), reader.number("I")
    array = np.frombuffer(reader.take(size), _TYPES[kind])
    if array.size != math.prod(shape):
        raise ValueError(f"{key[:80]} has {array.size} numbers, not {shape}")
    if kind == _BFLOAT16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return key, array.reshape(shape)


def _dequantized(arrays: dict[str, Array], key: str) -> Array:
    """Return an array, divided by its scale: one for each row, or one for all."""
    array, scale = arrays[key], arrays.get(f"{key}_scale")
    if scale is None:
        return array
    divisor = np.asarray(scale, np.float32)
    if divisor.size not in (1, len(array) if array.ndim else 1):
        raise ValueError(f"{key[:80]} has {divisor.size} scales")
    result: Array = array.astype(np.float32) / divisor.reshape(-1, *[1] * (array.ndim - 1) if divisor.ndim else ())
    return result
