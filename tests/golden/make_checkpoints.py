"""Write checkpoints as PyTorch writes them. `python -m tests.golden.make_checkpoints`.

tensors.pth and legacy.pth are for the reader; tiny.pth and tiny.pt are a Kokoro of a few thousand weights in the
official layout, and a voice pack of it.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import torch

from tests.models.kokoro.builder import TINY, official_arrays, voice_pack

FOLDER = Path(__file__).parent


def tensors() -> dict[str, object]:
    """Every kind of tensor a checkpoint may hold; test_checkpoint spells out the values."""
    count = torch.arange(24, dtype=torch.float32)
    linear = torch.nn.Linear(3, 2)
    with torch.no_grad():
        linear.weight.copy_(count[:6].view(2, 3))
        linear.bias.copy_(count[6:8])
    grid = count.view(4, 6)
    return {
        "net": linear.state_dict(),  # carries _metadata
        "nested": OrderedDict(deep={"double": count.double()[:3] / 3, "long": torch.arange(3)}),
        "half": count[:5].half() / 2,
        "bfloat16": count[:5].bfloat16() / 4,
        "flags": torch.tensor([True, False]),
        "bytes": torch.tensor([0, 255], dtype=torch.uint8),
        "transposed": grid.t(),
        "slice": grid[1:3, ::2],
        "scalar": torch.tensor(7.0),
        "empty": torch.zeros(0, 4),
        "parameter": torch.nn.Parameter(count[:2]),
    }


def main() -> None:
    """Write the four files."""
    torch.save(tensors(), FOLDER / "tensors.pth")
    torch.save({"w": torch.ones(2)}, FOLDER / "legacy.pth", _use_new_zipfile_serialization=False)
    parts: dict[str, dict[str, torch.Tensor]] = {}
    for name, array in official_arrays(TINY, seed=0).items():
        part, rest = name.split(".", 1)
        parts.setdefault(part, OrderedDict())[f"module.{rest}"] = torch.from_numpy(array).half()
    torch.save(parts, FOLDER / "tiny.pth")
    torch.save(torch.from_numpy(voice_pack(TINY, seed=1, rows=12))[:, None], FOLDER / "tiny.pt")


if __name__ == "__main__":
    main()
