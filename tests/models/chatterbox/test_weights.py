"""Rules by which official arrays become parameters of a network."""

from __future__ import annotations

import numpy as np
import pytest
from mlx import nn

from models.backend import mx
from models.chatterbox import weights
from models.contract import WeightsError


class Part(nn.Module):
    """Products and convolutions, one for each rule, and a bias without any."""

    def __init__(self) -> None:
        super().__init__()
        self.qk = mx.zeros((4, 3))
        self.turned = mx.zeros((2, 5))
        self.conv = mx.zeros((2, 7, 3))
        self.plane = mx.zeros((2, 3, 5, 4))
        self.point = mx.zeros((2, 3))
        self.bias = mx.zeros((2,))


RULES = (
    weights.joined("part.qk", "part.q", "part.k"),
    weights.transposed(r"part\.turned"),
    weights.channels_last(r"part\.(conv|plane)"),
    weights.pointwise("part.point"),
)
SHAPES = {
    "x.part.q": (2, 3),
    "x.part.k": (2, 3),
    "x.part.turned": (5, 2),
    "x.part.conv": (2, 3, 7),
    "x.part.plane": (2, 4, 5, 3),
    "x.part.point": (2, 3, 1),
    "x.part.bias": (2,),
}


def load(change: dict[str, mx.array | None]) -> tuple[Part, dict[str, np.ndarray]]:
    network = Part()
    found = weights.sources(network, RULES, [(r"^(\w+)$", r"part.\1")], "x.")
    assert weights.official_shapes(found) == SHAPES
    draw = np.random.RandomState(0)
    arrays = {name: mx.array(draw.standard_normal(shape).astype(np.float32)) for name, shape in SHAPES.items()}
    kept = {name: array for name, array in (arrays | change).items() if array is not None}
    weights.load_arrays(network, kept, found, "file")
    return network, {name.removeprefix("x.part."): np.array(array) for name, array in arrays.items()}


def test_each_rule() -> None:
    network, official = load({})
    assert np.array_equal(np.array(network.qk), np.concatenate([official["q"], official["k"]]))
    assert np.array_equal(np.array(network.turned), official["turned"].T)
    assert np.array_equal(np.array(network.conv), official["conv"].transpose(0, 2, 1))
    assert np.array_equal(np.array(network.plane), official["plane"].transpose(0, 3, 2, 1))
    assert np.array_equal(np.array(network.point), official["point"][:, :, 0])
    assert np.array_equal(np.array(network.bias), official["bias"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x.part.k": None}, r"file: missing x\.part\.k \(2, 3\)"),
        ({"x.part.more": mx.zeros((1,))}, r"unexpected x\.part\.more \(1,\)"),
        ({"x.part.conv": mx.zeros((2, 7, 3))}, r"x\.part\.conv has shape \(2, 7, 3\), not \(2, 3, 7\)"),
    ],
)
def test_strict(change: dict[str, mx.array | None], message: str) -> None:
    with pytest.raises(WeightsError, match=message):
        load(change)
