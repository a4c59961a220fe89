"""Write layers.npz: PyTorch's values for the shapes of layer_cases. `python -m tests.golden.make_layers`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from tests.golden import layer_cases, torch_layers


def main() -> None:
    """Every array is named kind/case/array."""
    torch.manual_seed(0)
    kinds = {
        "conv": (torch_layers.conv, layer_cases.CONV),
        "transposed": (torch_layers.transposed, layer_cases.TRANSPOSED),
        "lstm": (torch_layers.lstm, layer_cases.LSTM),
        "adain": (torch_layers.adain, layer_cases.ADAIN),
        "attention": (torch_layers.attention, layer_cases.ATTENTION),
        "analysis": (torch_layers.analysis, layer_cases.STFT),
        "synthesis": (torch_layers.synthesis, layer_cases.STFT),
    }
    found = {
        f"{kind}/{name}/{key}": value
        for kind, (reference, cases) in kinds.items()
        for name, case in cases.items()
        for key, value in reference(case).items()
    }
    for kind, reference in (("layer_norm", torch_layers.layer_norm), ("gelu", torch_layers.gelu)):
        found |= {f"{kind}/only/{key}": value for key, value in reference().items()}
    np.savez_compressed(Path(__file__).with_name("layers.npz"), **found)


if __name__ == "__main__":
    main()
