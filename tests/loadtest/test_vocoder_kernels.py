"""The measurement of the vocoder's kernels; there is no GPU here, so that both networks compute plainly."""

from __future__ import annotations

import pytest

from loadtest import vocoder_kernels
from models.chatterbox.s3gen.vocoder import HiFT

made = vocoder_kernels.network


def wrong(network: HiFT) -> HiFT:
    """A network whose last convolution is another."""
    network.conv_post.bias = network.conv_post.bias + 1.0
    return network


def test_every_size_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = vocoder_kernels.table(1, (3, 5)).splitlines()
    assert lines[0].endswith("kernels in use: False")
    assert [line.split(" | ")[0] for line in lines[4:]] == ["| 3", "| 5"]
    assert not any("DIFFERS" in line for line in lines)
    monkeypatch.setattr(vocoder_kernels, "network", lambda *, half: wrong(made(half=half)) if half else made(half=half))
    assert "DIFFERS" in vocoder_kernels.table(1, (3,))
