"""From an ONNX export of Kokoro-82M to arrays by the official checkpoint's names.

Read are exports whose nodes have the names of the reference's modules, as `kokoro-v1.0.int8.onnx` has (kokoro-onnx),
with weights of 8 bits or floats. A weight of 8 bits is (q - zero) * scale: it differs from the official number by up to
half a step of its scale.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from models.contract import WeightsError
from models.importing.onnx import Graph, Node

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

_QUANTIZED: Final = "_quantized"
# Layers that the exporter numbers, as ALBERT repeats one of them.
_REPEATED: Final = re.compile(r"(query|key|value|dense|ffn|ffn_output|LayerNorm)_\d+$")
# Prefixes of the exporter's wrapper.
_WRAPPERS: Final = (
    (re.compile(r"^decoder\.decoder\."), "decoder."),
    (re.compile(r"^encoder\.(F0|N|shared|F0_proj|N_proj)(?=\.|$)"), r"predictor.\1"),
    (re.compile(r"^encoder\."), ""),
)
# Constants that the graph uses as they are in the checkpoint.
_PLAIN: Final = re.compile(
    r"(?:decoder|encoder)\.(.*\.(?:bias|gamma|beta|alpha[12]\.\d|LayerNorm\.weight|full_layer_layer_norm\.weight))"
)
# Convolutions to which the reference applies no weight norm.
_NO_NORM: Final = re.compile(r".*(noise_convs\.\d|F0_proj|N_proj)\.weight")
# Numbers of the largest array that a graph needs besides weights: positions, tables of the inverse transform.
_COMPUTED: Final = 1024


def read_export(graph: Graph, source: str) -> dict[str, Floats]:
    """Return the arrays of the checkpoint by their official names, weight norm unfolded.

    The network is not checked: `load_weights` does that. Raises WeightsError, which names `source`, for constants that
    no layer reads and for layers of another form.
    """
    found: dict[str, Floats] = {}
    # A layer has its constants to itself; weight norm adds a number a row.
    left_over = 2 * sum(array.size for array in graph.constants.values())
    try:
        for name, values in _arrays(graph):
            array = np.ascontiguousarray(values, np.float32)
            if name in found and not np.array_equal(found[name], array):
                raise WeightsError(f"{source}: two values of {name[:80]}")
            left_over -= 0 if name in found else array.size
            if left_over < 0:
                raise WeightsError(f"{source}: layers share their constants")
            found[name] = array
    except (ValueError, IndexError) as error:
        raise WeightsError(f"{source}: a layer of another form: {error}") from None
    left = [name for name, array in graph.constants.items() if name not in graph.read and array.size > _COMPUTED]
    if left or not found:
        such = f"; {len(left)} constants are of no layer, such as {left[0][:80]}" if left else ""
        raise WeightsError(f"{source}: not an export of Kokoro whose layers are known{such}")
    return dict(_unfolded(found))


def _arrays(graph: Graph) -> Iterator[tuple[str, Array]]:
    zeros = {
        node.inputs[1]: node.inputs[2]
        for node in graph.nodes
        if node.kind == "DequantizeLinear" and len(node.inputs) > 2
    }
    for node in graph.nodes:
        module = _REPEATED.sub(r"\1", _module(node.name))
        weight = next((name for name in node.inputs[:2] if name in graph.constants), "")
        if node.kind in ("LSTM", "DynamicQuantizeLSTM"):
            yield from _lstm(graph, node, module)
        elif not weight or "stft" in node.name:
            continue
        elif node.kind == "Gather" and graph.constants[weight].ndim == 2:
            yield f"{module}.weight", _numbers(graph, weight, zeros.get(_scale(weight)))
        elif node.kind in ("MatMul", "MatMulInteger"):
            zero = node.inputs[3] if node.kind == "MatMulInteger" else None
            yield f"{module}.weight", _numbers(graph, weight, zero).T
        elif node.kind in ("Conv", "ConvTranspose", "ConvInteger"):
            zero = node.inputs[3] if node.kind == "ConvInteger" else None
            yield f"{module}.weight", _numbers(graph, weight, zero, axis=0)
    for name in graph.constants:
        if match := _PLAIN.fullmatch(name):
            yield match[1], graph.value(name)


def _module(node: str) -> str:
    """Return the reference's module of a node's name: decoder.encode.conv1 of /decoder/decoder/encode/conv1/Conv."""
    joined: list[str] = []
    for part in node.strip("/").split("/")[:-1]:
        if joined and part.startswith(f"{joined[-1]}."):  # asr_res/asr_res.0, cnn.0/cnn.0.1
            joined.pop()
        joined.append(part)
    name = ".".join(joined)
    for pattern, replacement in _WRAPPERS:
        name = pattern.sub(replacement, name)
    return name


def _scale(weight: str) -> str:
    return f"{weight.removesuffix(_QUANTIZED)}_scale"


def _numbers(graph: Graph, weight: str, zero: str | None, axis: int = -1) -> Array:
    """Return a weight as it is, or one of 8 bits in floats; its scales lie along `axis`."""
    values = graph.value(weight)
    if not weight.endswith(_QUANTIZED):
        return values
    shape = [1] * values.ndim
    shape[axis] = -1
    sides = [graph.value(_scale(weight))] + ([] if zero is None else [graph.value(zero)])
    if any(side.size not in (1, values.shape[axis]) for side in sides):
        raise WeightsError(f"'{weight[:80]}' has scales of another size")
    scale, *offset = (side.astype(np.float32).reshape(shape if side.ndim else ()) for side in sides)
    return (values.astype(np.float32) - (offset[0] if offset else 0)) * scale


def _lstm(graph: Graph, node: Node, module: str) -> Iterator[tuple[str, Array]]:
    """Yield the arrays of both directions: ONNX's gates are i o f c, PyTorch's i f c o; 8 bits are transposed, too."""
    kinds = {"weight_ih": 1, "weight_hh": 2}
    for direction, suffix in enumerate(("_l0", "_l0_reverse")):
        for number, (kind, place) in enumerate(kinds.items()):
            values = graph.value(node.inputs[place])[direction]
            if node.kind == "DynamicQuantizeLSTM":
                scale, zero = (graph.value(node.inputs[8 + 2 * number + each])[direction] for each in (0, 1))
                values = ((values.astype(np.float32) - zero.astype(np.float32)) * scale).T
            yield f"{module}.{kind}{suffix}", _gates(values)
        for kind, bias in zip(("bias_ih", "bias_hh"), np.split(graph.value(node.inputs[3])[direction], 2), strict=True):
            yield f"{module}.{kind}{suffix}", _gates(bias)


def _gates(array: Array) -> Array:
    input_gate, output_gate, forget_gate, cell = np.split(array, 4)
    return np.concatenate([input_gate, forget_gate, cell, output_gate])


def _unfolded(found: dict[str, Floats]) -> Iterator[tuple[str, Floats]]:
    """Yield weights of convolutions as g and v, g * v / |v|, where the official file has them so."""
    for name, array in found.items():
        if array.ndim != 3 or not name.endswith(".weight") or _NO_NORM.fullmatch(name):
            yield name, array
            continue
        norm = np.sqrt(np.square(array, dtype=np.float64).sum(axis=(1, 2), keepdims=True))
        yield f"{name}_g", norm.astype(np.float32)
        yield f"{name}_v", np.where(norm == 0, np.float32(1), array)
