"""Whisper's real weights against openai-whisper: encoder, texts and times of words of people (`make test-real`)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import soundfile
import soxr
from safetensors.numpy import load_file

from models.backend import mx
from models.contract import ModelSpec, RecognitionRequest
from models.timeline import Timeline
from models.whisper.pipeline import WhisperRecognizer, load
from tests.models.whisper.builder import drain, padded_samples

if TYPE_CHECKING:
    from whisper.model import Whisper

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1_200),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]

MODELS = Path(__file__).parents[2] / "build" / "real" / "models"
RECORDINGS = Path(__file__).parents[1] / "golden"
ENCODER = 2e-3
# Parts of the hub's names, and of OpenAI's.
NAMES = (
    ("model.", ""), (".layers.", ".blocks."), (".encoder_attn_layer_norm.", ".cross_attn_ln."),
    (".self_attn_layer_norm.", ".attn_ln."), (".final_layer_norm.", ".mlp_ln."), (".encoder_attn.", ".cross_attn."),
    (".self_attn.", ".attn."), (".q_proj.", ".query."), (".k_proj.", ".key."), (".v_proj.", ".value."),
    (".out_proj.", ".out."), (".fc1.", ".mlp.0."), (".fc2.", ".mlp.2."), ("encoder.layer_norm.", "encoder.ln_post."),
    ("decoder.layer_norm.", "decoder.ln."), ("embed_tokens.", "token_embedding."),
    ("embed_positions.weight", "positional_embedding"),
)  # fmt: skip


def samples(name: str) -> np.ndarray:
    data, rate = soundfile.read(RECORDINGS / name, dtype="float32", always_2d=True)
    found: np.ndarray = soxr.resample(data.mean(axis=1), rate, 16_000)
    return found


@cache
def pair(size: str) -> tuple[WhisperRecognizer, Whisper]:
    """Ours and the reference, with the same weights in float32."""
    import torch
    from whisper import _ALIGNMENT_HEADS
    from whisper.model import ModelDimensions, Whisper

    folder = MODELS / f"whisper-{size}"
    names = {"config": "config.json", "weights": "model.safetensors", "tokenizer": "tokenizer.json",
             "generation": "generation_config.json"}  # fmt: skip
    files = {role: str(folder / name) for role, name in names.items()}
    ours = load(ModelSpec(f"whisper-{size}", "whisper", files))
    dims = {name: getattr(ours.config, name) for name in ModelDimensions.__dataclass_fields__}
    reference = Whisper(ModelDimensions(**dims)).eval()
    state = {}
    for name, array in load_file(files["weights"]).items():
        own = name
        for hub, openai in NAMES:
            own = own.replace(hub, openai)
        state[own] = torch.from_numpy(array.astype(np.float32))
    reference.load_state_dict(state)
    reference.set_alignment_heads(_ALIGNMENT_HEADS[size])
    return ours, reference


@pytest.mark.parametrize("size", ["tiny.en", "base"])
def test_encoder(size: str) -> None:
    import torch
    from whisper.audio import log_mel_spectrogram, pad_or_trim

    ours, reference = pair(size)
    pcm = samples("person.ogg")
    with torch.inference_mode():
        wanted = reference.encoder(log_mel_spectrogram(pad_or_trim(pcm))[None]).numpy()
    mel = drain(padded_samples(pcm, 80, 3000))
    found = np.array(ours.network.encoder(mx.array(mel)[None]))
    assert np.abs(wanted).max() > 5
    assert np.abs(found - wanted).max() < ENCODER


@pytest.mark.parametrize("size", ["tiny.en", "base"])
@pytest.mark.parametrize(("recording", "word"), [("person.ogg", "country"), ("sonnet.mp3", "tomb")])
def test_texts_and_times_of_words(size: str, recording: str, word: str) -> None:
    import whisper

    ours, reference = pair(size)
    pcm = samples(recording)
    wanted = whisper.transcribe(reference, pcm, language="en", word_timestamps=True, fp16=False, temperature=0.0)
    request = RecognitionRequest(pcm, "en", word_times=True, temperature=0.0)
    segments = [one for one in ours.recognize(request, Timeline(), lambda: False) if one is not None]
    assert "".join(one.text for one in segments).strip() == wanted["text"].strip()
    assert re.search(rf"\b{word}\b", wanted["text"], re.IGNORECASE)
    found = [(one.text, one.start, one.end) for segment in segments for one in segment.words]
    theirs = [(one["word"], one["start"], one["end"]) for segment in wanted["segments"] for one in segment["words"]]
    assert [one[0] for one in found] == [one[0] for one in theirs]
    apart = np.abs(np.array([one[1:] for one in found]) - np.array([one[1:] for one in theirs]))
    assert len(found) > 20
    assert apart.max() < 1e-3
