"""A recording to its conditioning, against the reference's values (make_golden.py); what is refused; `conds.pt`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadtest import torch_file
from models.backend import mx
from models.chatterbox.reference.conditioning import ReferenceEncoder, check_conditioning, read_conds
from models.chatterbox.reference.front_ends import kaldi_fbank, resample_hann, resample_soxr, set_loudness
from models.contract import Cancelled, Conditioning, UnusableReferenceError, WeightsError
from tests.models.chatterbox.reference.builder import distance, encoder, golden, small, speech

NAMES = ["s3gen_mel", "s3gen_speaker", "s3gen_tokens", "t3_prompt", "t3_speaker"]


def condition(pcm: np.ndarray, rate: int, made: ReferenceEncoder | None = None) -> dict[str, np.ndarray]:
    """The arrays, after as many pauses as there were."""
    made = made or encoder()
    *pauses, last = made.condition(pcm, rate, lambda: False)
    assert isinstance(last, Conditioning)
    assert pauses and not any(pauses)
    check_conditioning(last, made.config)
    return dict(last.arrays)


def test_a_recording_is_heard_as_by_the_reference() -> None:
    """Its 65 mel frames are not twice its 33 tokens: 32 are kept, and the 64 frames that are theirs."""
    found, wanted = condition(golden()["pcm"], 24_000), golden()
    assert sorted(found) == NAMES
    assert found["t3_prompt"].tolist() == wanted["t3_prompt"].tolist()
    assert len(found["t3_prompt"]) == 33
    assert found["s3gen_tokens"].tolist() == wanted["s3gen_tokens"].tolist()
    assert len(found["s3gen_tokens"]) == 32
    assert found["s3gen_mel"].shape == (64, 80)
    assert distance(found["s3gen_mel"][::4], wanted["s3gen_mel"][:16]) < 1e-4
    # Trap: with soxr's resampler in torchaudio's place, 7e-4.
    assert distance(found["s3gen_speaker"], wanted["s3gen_speaker"]) < 1e-4
    assert distance(found["t3_speaker"], wanted["t3_speaker"]) < 1e-4


def test_which_part_hears_what() -> None:
    """T3's encoder hears soxr's resampling, and all of it; S3Gen's Hann's, and ten seconds."""
    pcm = speech(12, 24_000)
    found, low = condition(pcm, 24_000), resample_soxr(pcm, 24_000, 16_000)
    assert np.array_equal(found["t3_speaker"], encoder().voice_encoder.embed(low))
    clear = resample_hann(pcm[:240_000], 24_000, 16_000)
    speaker = np.array(encoder().speaker(mx.array(kaldi_fbank(clear))[None])[0])
    assert np.array_equal(found["s3gen_speaker"], speaker)
    changed = condition(np.concatenate([pcm[:240_000], speech(2, 24_000, seed=7)]), 24_000)
    assert not np.allclose(changed["t3_speaker"], found["t3_speaker"], atol=1e-5)
    for name in set(NAMES) - {"t3_speaker"}:
        assert np.array_equal(changed[name], found[name]), name


@pytest.mark.parametrize(
    ("variant", "prompt", "seconds", "counts"),
    [
        ("chatterbox", 10.0, 12.0, (150, 250)),
        ("chatterbox", 10.0, 4.0, (100, 100)),
        ("chatterbox", 3.0, 12.0, (150, 75)),
        ("chatterbox-turbo", 10.0, 17.0, (375, 250)),
        ("chatterbox-turbo", 10.0, 5.2, (130, 130)),
    ],
)
def test_prompt_lengths(variant: Any, prompt: float, seconds: float, counts: tuple[int, int]) -> None:
    """Six seconds for T3 (Turbo: fifteen), ten for S3Gen, or fewer if so configured."""
    found = condition(speech(seconds, 24_000), 24_000, encoder(variant, prompt))
    assert (len(found["t3_prompt"]), len(found["s3gen_tokens"])) == counts


def test_a_shorter_prompt_leaves_the_rest_as_it_was() -> None:
    pcm = speech(8, 24_000)
    whole, short = condition(pcm, 24_000), condition(pcm, 24_000, encoder("chatterbox", 3.0))
    for name in ("t3_speaker", "t3_prompt", "s3gen_speaker"):
        assert np.array_equal(whole[name], short[name])
    # But for the last frames, which reach over the cut.
    assert np.allclose(whole["s3gen_mel"][:146], short["s3gen_mel"][:146], atol=1e-5)


def test_turbo_is_deaf_to_loudness() -> None:
    pcm = speech(6, 24_000)
    soft = condition(pcm * np.float32(0.2), 24_000, encoder("chatterbox-turbo"))
    loud = condition(pcm, 24_000, encoder("chatterbox-turbo"))
    for name in NAMES:
        assert np.allclose(soft[name], loud[name], atol=1e-2 * np.abs(loud[name]).max()), name
    plain = condition(set_loudness(pcm, 24_000, -27.0), 24_000)
    assert np.allclose(plain["s3gen_mel"], loud["s3gen_mel"], atol=1e-3)
    assert not np.allclose(condition(pcm, 24_000)["s3gen_mel"], loud["s3gen_mel"], atol=0.1)


def test_only_thirty_seconds_are_read() -> None:
    pcm = speech(31, 8_000)
    assert np.array_equal(condition(pcm, 8_000)["t3_speaker"], condition(pcm[: 30 * 8_000], 8_000)["t3_speaker"])


@pytest.mark.parametrize(
    ("pcm", "rate", "message"),
    [
        (speech(0.9, 24_000), 24_000, r"has 0\.9 seconds; at least 1 are needed"),
        (np.zeros(0, np.float32), 24_000, r"has 0\.0 seconds"),
        (np.zeros(48_000, np.float32), 24_000, "is silent; speech louder than -60 dBFS"),
        (speech(2, 24_000) * np.float32(1e-4), 24_000, "is silent"),
        (np.full(48_000, np.nan, np.float32), 24_000, "finite mono samples"),
        (np.zeros((2, 48_000), np.float32), 24_000, "finite mono samples"),
        (speech(2, 4_000), 4_000, "4000 Hz; 8000 to 192000 Hz are accepted"),
    ],
)
def test_what_no_voice_can_be_made_of(pcm: np.ndarray, rate: int, message: str) -> None:
    with pytest.raises(UnusableReferenceError, match=message):
        next(encoder().condition(pcm, rate, lambda: False))


def test_turbo_needs_more_than_five_seconds() -> None:
    made = encoder("chatterbox-turbo")
    assert made.reference_seconds == (5.0, 30.0)
    with pytest.raises(UnusableReferenceError, match=r"has 5\.0 seconds; more than 5 are needed"):
        next(made.condition(speech(5, 24_000), 24_000, lambda: False))


def test_it_can_be_cancelled_after_every_part() -> None:
    pcm = speech(1, 24_000)
    count = len(list(encoder().condition(pcm, 24_000, lambda: False)))
    # Resampling, two speaker vectors, and each layer of the tokenizer, twice; then the result.
    assert count == 3 + 2 * 2 + 1
    for k in range(count):
        left = iter([False] * k + [True])
        steps = encoder().condition(pcm, 24_000, lambda left=left: next(left))  # type: ignore[misc]
        with pytest.raises(Cancelled):
            list(steps)


@pytest.mark.parametrize("seconds", [0.5, 10.5])
def test_a_prompt_has_one_to_ten_seconds(seconds: float) -> None:
    with pytest.raises(ValueError, match="1 to 10 seconds"):
        ReferenceEncoder(small(), seconds)


@cache
def _sound() -> dict[str, np.ndarray]:
    return condition(golden()["pcm"], 24_000)


Change = Callable[[dict[str, np.ndarray]], object]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("t3_speaker"), "missing t3_speaker"),
        (lambda a: a.update(more=np.zeros(1)), "unexpected more"),
        (
            lambda a: a.update(t3_speaker=a["t3_speaker"][None]),
            r"t3_speaker is float32 \(1, 256\), not float32 \(256,\)",
        ),
        (lambda a: a.update(s3gen_mel=a["s3gen_mel"][:-1]), r"s3gen_mel is float32 \(63, 80\), not float32 \(64, 80\)"),
        (lambda a: a.update(t3_prompt=np.zeros(151, np.int32)), r"t3_prompt is int32 \(151,\), not int32 \(150,\)"),
        (lambda a: a.update(t3_prompt=np.zeros(0, np.int32)), r"t3_prompt is int32 \(0,\)"),
        (lambda a: a.update(t3_prompt=a["t3_prompt"].astype(np.int64)), "t3_prompt is int64"),
        (lambda a: a.update(t3_prompt=np.full(9, 6561, np.int32)), "t3_prompt has ids outside 0 to 6560"),
        (lambda a: a.update(s3gen_speaker=np.full(24, np.inf, np.float32)), "s3gen_speaker has values that are not"),
    ],
)
def test_a_conditioning_that_does_not_fit_is_named(change: Change, message: str) -> None:
    arrays = dict(_sound())
    change(arrays)
    with pytest.raises(WeightsError, match=message):
        check_conditioning(Conditioning(arrays), small())


def _write(path: Path, t3: dict[str, Any], gen: dict[str, Any]) -> Path:
    """A file as `torch.save` writes one, of numpy arrays and None."""
    torch_file.write(path, {"t3": t3, "gen": gen})
    return path


def _conds(frames: int = 20) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reference's file has None for missing values, and a batch of one everywhere."""
    draw = np.random.RandomState(1)
    t3 = {
        "speaker_emb": draw.standard_normal((1, 256)).astype(np.float32),
        "clap_emb": None,
        "cond_prompt_speech_tokens": draw.randint(0, 6561, (1, 150)),
        "cond_prompt_speech_emb": None,
        "emotion_adv": np.full((1, 1, 1), 0.5, np.float32),
    }
    gen = {
        "prompt_token": draw.randint(0, 6561, (1, 10)),
        "prompt_token_len": np.array([10]),
        "prompt_feat": draw.standard_normal((1, frames, 80)).astype(np.float32),
        "prompt_feat_len": None,
        "embedding": draw.standard_normal((1, 24)).astype(np.float32),
    }
    return t3, gen


@pytest.mark.parametrize("frames", [20, 21])
def test_an_official_voice_is_read(tmp_path: Path, frames: int) -> None:
    """An odd frame, which the reference may leave, is cut off."""
    t3, gen = _conds(frames)
    found = read_conds(_write(tmp_path / "conds.pt", t3, gen), small()).arrays
    assert sorted(found) == NAMES
    assert np.array_equal(found["t3_speaker"], t3["speaker_emb"][0])
    assert np.array_equal(found["t3_prompt"], t3["cond_prompt_speech_tokens"][0])
    assert np.array_equal(found["s3gen_tokens"], gen["prompt_token"][0])
    assert np.array_equal(found["s3gen_mel"], gen["prompt_feat"][0, :20])
    assert np.array_equal(found["s3gen_speaker"], gen["embedding"][0])
    assert found["t3_prompt"].dtype == np.int32


def test_tokens_saved_as_numbers_are_read(tmp_path: Path) -> None:
    """The reference turns them to its float type, in place, when it speaks."""
    t3, gen = _conds()
    whole = gen["prompt_token"]
    gen["prompt_token"] = whole.astype(np.float32)
    assert np.array_equal(read_conds(_write(tmp_path / "a.pt", t3, gen), small()).arrays["s3gen_tokens"], whole[0])
    gen["prompt_token"][0, 0] += 0.5
    with pytest.raises(WeightsError, match=r"gen\.prompt_token has ids that are not whole"):
        read_conds(_write(tmp_path / "b.pt", t3, gen), small())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t3, gen: t3.pop("speaker_emb"), r"conds\.pt: missing t3\.speaker_emb"),
        (lambda t3, gen: t3.update(cond_prompt_speech_tokens=None), r"missing t3\.cond_prompt_speech_tokens"),
        (lambda t3, gen: gen.update(more=np.zeros(3, np.float32)), r"unexpected gen\.more"),
        (lambda t3, gen: gen.update(embedding=np.zeros((2, 24), np.float32)), r"gen\.embedding has shape \(2, 24\)"),
        (lambda t3, gen: gen.update(embedding=np.zeros((1, 9), np.float32)), "s3gen_speaker is float32"),
        (lambda t3, gen: gen.update(prompt_token=np.full((1, 10), 6562)), "s3gen_tokens has ids outside"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, change: Callable[..., object], message: str) -> None:
    t3, gen = _conds()
    change(t3, gen)
    with pytest.raises(WeightsError, match=message):
        read_conds(_write(tmp_path / "conds.pt", t3, gen), small())
