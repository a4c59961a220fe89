"""The LSTMs against PyTorch's values (tests/golden/make_layers.py)."""

from __future__ import annotations

import numpy as np
import pytest

from models.backend import mx
from models.layers import lstm
from models.layers.conv import PaddingMask
from tests.golden.layer_cases import LSTM
from tests.models.layers import checks
from tests.models.layers.checks import TOLERANCE, golden


@pytest.mark.parametrize("extra", [0, 7])
@pytest.mark.parametrize("name", LSTM)
def test_lstm_equals_torch(name: str, extra: int) -> None:
    """Padding may hold rubbish, and more rows than the longest sequence."""
    assert checks.lstm(LSTM[name], golden("lstm", name), extra) < TOLERANCE


def test_no_mask_means_every_row() -> None:
    values = golden("lstm", "full")
    assert checks.distance(checks.lstm_layer(values)(mx.array(values["x"]), PaddingMask()), values["y"]) < TOLERANCE


def test_the_backward_direction_starts_at_the_true_end() -> None:
    """Trap: run over the padding first, the backward half would differ on the last valid row."""
    values, valid, hidden = golden("lstm", "full"), 9, LSTM["full"].hidden
    layer = checks.lstm_layer(values)
    x = mx.pad(mx.array(values["x"]), ((0, 0), (0, 5), (0, 0)), constant_values=2.0)
    masked = np.array(layer(x, checks.valid((valid, valid), valid + 5)))[:, valid - 1, hidden:]
    careless = np.array(layer(x, PaddingMask()))[:, valid - 1, hidden:]
    assert checks.distance(masked, values["y"][:, -1, hidden:]) < TOLERANCE
    assert checks.distance(careless, values["y"][:, -1, hidden:]) > 0.05


def test_one_direction_is_the_forward_half() -> None:
    values, hidden = golden("lstm", "full"), LSTM["full"].hidden
    layer = lstm.LSTM(values["weight_ih_l0"].shape[1], hidden)
    layer.wx, layer.wh = mx.array(values["weight_ih_l0"].T), mx.array(values["weight_hh_l0"].T)
    layer.bias = mx.array(values["bias_ih_l0"] + values["bias_hh_l0"])
    assert checks.distance(layer(mx.array(values["x"])), values["y"][:, :, :hidden]) < TOLERANCE
