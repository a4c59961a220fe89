"""Weights of an ONNX export: of 8 bits, of LSTMs and of weight norm, in a graph of a few nodes that the test writes."""

from __future__ import annotations

import numpy as np
import pytest

from models.contract import WeightsError
from models.importing.kokoro import read_export
from models.importing.onnx import read_graph

TYPES = {"float32": 1, "uint8": 2, "int8": 3}


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def chunk(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def node(name: str, kind: str, *inputs: str) -> bytes:
    return chunk(1, b"".join(chunk(1, each) for each in inputs) + chunk(3, name) + chunk(4, kind))


def tensor(name: str, array: np.ndarray) -> bytes:
    shape = b"".join(chunk(1, size) for size in array.shape)
    return chunk(5, shape + chunk(2, TYPES[str(array.dtype)]) + chunk(8, name) + chunk(9, array.tobytes()))


def model(*parts: bytes) -> bytes:
    return chunk(1, 8) + chunk(7, b"".join(parts))


def scaled(stem: str, values: list[object], scale: object, zero: object, kind: type = np.uint8) -> list[bytes]:
    return [
        tensor(f"{stem}_quantized", np.array(values, kind)),
        tensor(f"{stem}_scale", np.array(scale, np.float32)),
        tensor(f"{stem}_zero_point", np.array(zero, kind)),
    ]


def test_weights_get_their_official_names_and_values() -> None:
    hidden = np.arange(8, dtype=np.float32).reshape(1, 8, 1)  # gates i o f c, two rows each
    both = np.concatenate([hidden, hidden + 8])
    graph = model(
        node("/encoder/bert/embeddings/word_embeddings/Gather", "Gather", "e_quantized", "ids"),
        node("/encoder/bert/embeddings/word_embeddings/Dequantize", "DequantizeLinear", "x", "e_scale", "e_zero_point"),
        *scaled("e", [[3, 5]], 0.5, 1),
        node("/encoder/bert/query_3/MatMul_quant", "MatMulInteger", "x", "q_quantized", "x_zero", "q_zero_point"),
        *scaled("q", [[1, 2, 3]], [1, 2, 3], [0, 0, 1]),
        node("/decoder/decoder/encode/conv1/Conv", "Conv", "x", "c"),
        tensor("c", np.array([[[3.0, 4.0]]], np.float32)),
        node("/encoder/predictor/lstm/LSTM", "LSTM", "x", "w", "w", "b"),
        tensor("w", both),
        tensor("b", np.arange(32, dtype=np.float32).reshape(2, 16)),
        tensor("decoder.decoder.encode.conv1.bias", np.array([7.0], np.float32)),
    )
    found = {name: array.tolist() for name, array in read_export(read_graph(graph, "x"), "x").items()}
    assert found["bert.embeddings.word_embeddings.weight"] == [[1.0, 2.0]]
    assert found["bert.query.weight"] == [[1.0], [4.0], [6.0]]
    assert found["decoder.encode.conv1.weight_g"] == [[[5.0]]]
    assert found["decoder.encode.conv1.weight_v"] == [[[3.0, 4.0]]]
    assert found["decoder.encode.conv1.bias"] == [7.0]
    assert np.ravel(found["predictor.lstm.weight_ih_l0_reverse"]).tolist() == [8, 9, 12, 13, 14, 15, 10, 11]
    assert found["predictor.lstm.bias_hh_l0"] == [8, 9, 12, 13, 14, 15, 10, 11]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (model(tensor("w", np.zeros(2000, np.float32))), "1 constants are of no layer, such as w"),
        (model(node("/a/b/MatMul", "MatMul", "x", "y")), "not an export of Kokoro"),
        (model(tensor("w", np.zeros(4, np.float32)))[:-3], "ends 3 bytes early"),
        (model(chunk(5, chunk(1, 3) + chunk(2, 1) + chunk(8, "w") + chunk(9, bytes(8)))), "2 numbers, not"),
        (model(chunk(5, chunk(2, 1) + chunk(8, "w") + chunk(13, b"x"))), "in another file"),
        (b"\xff" * 40, "not a whole ONNX file"),
        (
            model(
                tensor("w", np.ones((2, 2), np.float32)), *(node(f"/a/{k}/MatMul", "MatMul", "x", "w") for k in "bcd")
            ),
            "share their constants",
        ),
    ],
)
def test_other_files_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        read_export(read_graph(data, "x"), "x")
