"""The house model, its golden utterances, and the pieces of its pipeline that the tests run apart."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from models.backend import mx
from models.contract import ModelSpec
from models.kokoro.network import Kokoro
from models.kokoro.pipeline import KokoroSynthesizer, load
from models.layers.conv import PaddingMask

HOUSE = Path(__file__).parents[3] / "models/house"
VOICES = ("am_michael", "af_heart")
# Misaki's alphabet: "Hello.", "Good morning!", "One, two."
UTTERANCES = {"hello": "həlˈO.", "morning": "ɡˌʊd mˈɔɹnɪŋ!", "numbers": "wˈʌn, tˈu."}
FILES = {"config": "config.json", "weights": "model.safetensors", "voices": "voices.safetensors"}
SPEC = ModelSpec("house", "kokoro", {role: str(HOUSE / name) for role, name in FILES.items()})


@cache
def house() -> KokoroSynthesizer:
    """Loaded once; unpadded."""
    return load(SPEC)


@cache
def padded_house() -> KokoroSynthesizer:
    """The same weights, every shape padded to its bucket, as on a GPU."""
    model = house()
    return KokoroSynthesizer(model.config, model.network, model._packs, padded=True)


def tokens(phonemes: str) -> list[int]:
    """Ids with the two boundary tokens."""
    vocab = house().config.vocab
    return [0, *(vocab[character] for character in phonemes), 0]


def style_row(voice: str) -> np.ndarray:
    """Style [1, 2 * style_dim] of a voice of one row."""
    return house()._packs[voice][:1]


def distance(ours: mx.array | np.ndarray, reference: mx.array | np.ndarray) -> float:
    """|ours - reference| / |reference|, shapes equal."""
    a, b = np.asarray(ours, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    assert a.shape == b.shape
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def _counted(rows: int, bucket: int | None) -> tuple[PaddingMask, int]:
    return (PaddingMask(), rows) if bucket is None else (PaddingMask.of(mx.array([[[rows]]]), bucket), bucket)


def _widen(x: mx.array, rows: int, rubbish: float) -> mx.array:
    """x [B, L, ...] to `rows`, filled with what padding may hold."""
    return mx.pad(x, [(0, 0), (0, rows - x.shape[1])] + [(0, 0)] * (x.ndim - 2), constant_values=rubbish)


def prosody(
    network: Kokoro, ids: list[int], style: np.ndarray, durations: np.ndarray | None = None, *, padded: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Expected frames per token (unrounded), F0, energy and aligned text features [1, F, hidden].

    `durations` chooses the frames per token instead of rounding; `padded` adds 9 tokens and 30 frames of padding.
    """
    count, predictor = len(ids), mx.array(style[:, network.style_dim :])
    spoken = _counted(count, count + 9 if padded else None)[0]
    given = mx.array([ids + [5] * (9 if padded else 0)])
    hidden = network.bert_encoder(network.bert(given, spoken))
    encoded, expected = network.predictor.durations(hidden, predictor, spoken)
    expected = np.array(expected)[0, :count]
    frames = np.maximum(np.rint(expected), 1).astype(int) if durations is None else durations
    total = int(frames.sum())
    at = mx.array(np.repeat(np.arange(count), frames))
    valid, rows = _counted(total, total + 30 if padded else None)
    aligned = _widen(mx.take(encoded, at, axis=1), rows, 3.0)
    f0, energy = network.predictor.curves(aligned, predictor, valid)
    text = mx.take(network.text_encoder(given, spoken), at, axis=1)
    return expected, np.array(f0)[0, : 2 * total], np.array(energy)[0, : 2 * total], np.array(text)


def decode(
    network: Kokoro,
    text: np.ndarray,
    f0: np.ndarray,
    energy: np.ndarray,
    style: np.ndarray,
    noise: np.ndarray,
    bucket: int | None = None,
) -> np.ndarray:
    """Samples [frames * 600] from text features [1, frames, hidden] and curves [2 * frames], padded to `bucket`.

    `noise` is the merged noise [frames * 600]. Padding is filled with rubbish that must not be heard.
    """
    frames, row = text.shape[1], mx.array(style[:, : network.style_dim])
    valid, rows = _counted(frames, bucket)
    padded = _widen(mx.array(text), rows, 0.0)
    curve = _widen(mx.array(f0)[None], 2 * rows, 90.0)
    features = network.decoder.features(padded, curve, _widen(mx.array(energy)[None], 2 * rows, 2.0), row, valid)
    steps = None if bucket is None else mx.array([[2 * frames]])
    drawn = _widen(mx.array(noise)[None], 600 * rows, 1.0)
    return np.array(network.decoder.generator(features, row, curve, drawn, steps))[0, : 600 * frames]
