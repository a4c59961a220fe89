"""Rules by which official arrays become parameters of a network."""

from __future__ import annotations

import numpy as np
from mlx import nn

from models.backend import mx
from models.chatterbox import weights


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


def test_each_rule() -> None:
    network = Part()
    found = weights.sources(network, RULES, [(r"^(\w+)$", r"part.\1")], "x.")
    assert weights.official_shapes(found) == SHAPES
    draw = np.random.RandomState(0)
    arrays = {name: mx.array(draw.standard_normal(shape).astype(np.float32)) for name, shape in SHAPES.items()}
    weights.load_arrays(network, arrays, found, "file")
    official = {name.removeprefix("x.part."): np.array(array) for name, array in arrays.items()}
    assert np.array_equal(np.array(network.qk), np.concatenate([official["q"], official["k"]]))
    assert np.array_equal(np.array(network.turned), official["turned"].T)
    assert np.array_equal(np.array(network.conv), official["conv"].transpose(0, 2, 1))
    assert np.array_equal(np.array(network.plane), official["plane"].transpose(0, 3, 2, 1))
    assert np.array_equal(np.array(network.point), official["point"][:, :, 0])
    assert np.array_equal(np.array(network.bias), official["bias"])
