"""Write nllb.npz: transformers' values for nllb_cases. `.venv-parity/bin/python -m tests.golden.make_nllb`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch

from models.nllb.config import load_config
from tests.golden.nllb_cases import BEAMS, LIMIT, LOUDNESS, SEED, inputs
from tests.models.nllb.builder import TINY, official_arrays, write_config
from tests.models.nllb.reference import Reference


def main() -> None:
    """Arrays are named by the number of the input; hypotheses of a beam search are padded with -1."""
    known = {key: value for key, value in TINY.items() if key not in ("model_type", "transformers_version", "dropout")}
    reference = Reference(known, SEED)
    with tempfile.TemporaryDirectory() as folder:
        arrays = official_arrays(load_config(write_config(Path(folder))), SEED, LOUDNESS)
    state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    missing = reference.model.load_state_dict(state, strict=False)
    assert not missing.unexpected_keys
    assert all("embed_tokens" in name or name == "lm_head.weight" for name in missing.missing_keys)
    found: dict[str, np.ndarray] = {}
    for k, (source, target) in enumerate(inputs()):
        found[f"{k}/encoded"] = reference.encode([source])[0]
        found[f"{k}/logits"] = reference.logits(source, [2, target, *source[1:3]])
        found[f"{k}/greedy"] = np.array(reference.generate(source, target, 1, LIMIT)[0][0], np.int32)
        found[f"{k}/unrepeated"] = np.array(
            reference.generate(source, target, 1, LIMIT, no_repeat_ngram_size=3)[0][0], np.int32
        )
        tokens, scores = reference.generate(source, target, BEAMS, LIMIT)
        table = np.full((BEAMS, LIMIT), -1, np.int32)
        for row, hypothesis in enumerate(tokens):
            table[row, : len(hypothesis)] = hypothesis
        found[f"{k}/beams"], found[f"{k}/scores"] = table, np.array(scores, np.float32)
    np.savez_compressed(Path(__file__).with_name("nllb.npz"), **found)


if __name__ == "__main__":
    main()
