"""Write house.npz: results of the reference's modules with the house model's weights.

`python -m tests.golden.make_house`, in the environment of `make parity`. For each utterance and voice: durations, F0 in
Hz, energy, and the waveform as int16 of `peak`, made with the noise of `reference.merged_noise` for `seed`: the first
under which no STFT bin of the source is within MARGIN of the branch of its phase, where rounding would choose.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from tests.models.kokoro.house import HOUSE, UTTERANCES, VOICES
from tests.models.kokoro.reference import house_reference

MARGIN = 1e-6


def main() -> None:
    """Arrays are named utterance/voice/array."""
    torch.set_num_threads(1)
    reference, values = house_reference(HOUSE)
    from safetensors.numpy import load_file

    packs, found = load_file(str(HOUSE / "voices.safetensors")), {}
    for name, phonemes in UTTERANCES.items():
        ids = [0, *(values["vocab"][character] for character in phonemes), 0]
        for voice in VOICES:
            for seed in range(200):
                spoken = reference.speak(ids, packs[voice].astype(np.float32), seed)
                if reference._stft.margin > MARGIN:
                    break
            else:
                raise SystemExit(f"{name}/{voice}: every seed comes near a branch")
            peak = np.float32(np.abs(spoken.waveform).max())
            found |= {
                f"{name}/{voice}/durations": spoken.durations.astype(np.uint8),
                f"{name}/{voice}/f0": spoken.f0,
                f"{name}/{voice}/energy": spoken.energy,
                f"{name}/{voice}/peak": peak,
                f"{name}/{voice}/seed": np.int64(seed),
                f"{name}/{voice}/waveform": np.rint(spoken.waveform / peak * 32767).astype(np.int16),
            }
    np.savez_compressed(Path(__file__).parent / "house.npz", **found)


if __name__ == "__main__":
    main()
