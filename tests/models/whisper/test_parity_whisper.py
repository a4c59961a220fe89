"""Whisper at full size against openai-whisper, on shared random weights (`make parity`).

Weights go through a file as OpenAI's. Tokens, segments, seek, texts and languages must be equal; encoder and logits
1e-4 of the largest number, probabilities 1e-5. A mel is within 1e-6 of the reference's in double precision: rounded to
float32 as it is, that one is up to 2e-5 away itself.
`WHISPER_PARITY=base:30,large-v3:3` names further sizes, and how many inputs of each are decoded; `PARITY=full` decodes
all of the tiny model's. Transcripts are bounded, so that two processors need minutes and no more.

On a GPU both compute there, with `MLX_ENABLE_TF32=0`. With `-s`, each size and search prints a line as it ends; SIGINT
stops a run, and prints the line of what is under way, too.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from models.backend import mx, on_cpu
from models.timeline import Timeline
from models.whisper import features
from models.whisper.alignment import median_filter, warp
from models.whisper.decoding import DecodingOptions, Thresholds, decode, detect_language
from models.whisper.network import Whisper
from models.whisper.pipeline import WhisperRecognizer, _Window
from models.whisper.rules import TimestampRules
from models.whisper.steps import Memory
from models.whisper.text import WhisperTokenizer
from models.whisper.transcribe import Transcriber, TranscriptionOptions
from models.whisper.weights import load_weights, read_checkpoint
from tests.models.whisper.builder import config, drain, padded_samples
from tests.parity import sample_or_all

if TYPE_CHECKING:
    import torch

pytestmark = [
    pytest.mark.parity,
    pytest.mark.timeout(7200),
    # The reference leaves files open, and calls numpy in an older way.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]

RELATIVE = 1e-4
LIMIT = 24
GIVEN = {
    name: int(count)
    for name, count in (item.split(":") for item in os.environ.get("WHISPER_PARITY", "").split(",") if item)
}
SIZES = {"tiny": sample_or_all(3, 6)} | GIVEN
# Which inputs the sample decodes, by beams: together they have every kind of `options`.
SAMPLE = {1: (1, 3, 4), 5: (2, 3, 4)}
RECORDINGS = sample_or_all([(5, True)], [(1, False), (5, False), (1, True), (5, True)])


def assets() -> Path:
    """Folder of openai-whisper's files of ranks."""
    import whisper

    return Path(whisper.__file__).parent / "assets"


def ranks(vocabulary: int) -> Path:
    return assets() / ("multilingual.tiktoken" if vocabulary >= 51865 else "gpt2.tiktoken")


class Pair:
    """The reference and our recognizer, with the same weights."""

    def __init__(self, size: str, folder: Path) -> None:
        from tests.models.whisper.openai_reference import DEVICE, random_model, save, sound

        assert on_cpu() or os.environ.get("MLX_ENABLE_TF32") == "0", "a GPU's products must be float32's"
        self.size, self.sound, self.device = size, sound, DEVICE
        self.theirs = random_model(size)
        path = folder / f"{size}.pt"
        save(self.theirs, path)
        dims, arrays, heads = read_checkpoint({"weights": str(path)}, size)
        path.unlink()
        network = Whisper(dims)
        load_weights(network, arrays, "reference")
        arrays.clear()
        network.lower()
        self.ours = WhisperRecognizer(dims, network, WhisperTokenizer(ranks(dims.n_vocab), dims), heads)
        self.encoded = cache(self._encode)

    def _encode(self, number: int) -> tuple[torch.Tensor, Memory, float]:
        """Encoder outputs of one input by both, and how far apart they are."""
        import torch
        from whisper.audio import log_mel_spectrogram, pad_or_trim

        pcm = self.sound(1.5 + number, number)
        mels = self.ours.config.n_mels
        mel = drain(padded_samples(pcm, mels, 3000))
        wanted = log_mel_spectrogram(pad_or_trim(pcm), mels)
        exact = precise_mel(pad_or_trim(pcm), mels)
        assert np.abs(mel - exact).max() < 1e-6
        assert np.abs(wanted.numpy().T - exact).max() < 3e-5
        with torch.inference_mode():
            heard = self.theirs.encoder(wanted[None].to(self.device))
        found = self.ours.network.encoder(mx.array(mel)[None])
        apart = distance(np.array(found), heard.cpu().numpy())
        return heard.clone(), self.ours.network.decoder.memories(found), apart


def precise_mel(pcm: np.ndarray, mels: int) -> np.ndarray:
    """The reference's spectrogram [frames, mels] with all sums in double precision."""
    from whisper.audio import mel_filters

    frames = np.lib.stride_tricks.sliding_window_view(np.pad(pcm.astype(np.float64), 200, mode="reflect"), 400)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    power = np.abs(np.fft.rfft(frames[:-1:160] * window)) ** 2
    log = np.log10(np.maximum(power @ mel_filters("cpu", mels).numpy().T.astype(np.float64), 1e-10))
    found: np.ndarray = (np.maximum(log, log.max() - 8) + 4) / 4
    return found


def distance(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.max(np.abs(found - wanted)) / np.max(np.abs(wanted)))


@pytest.fixture(scope="module", params=SIZES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    made = Pair(request.param, tmp_path_factory.mktemp("whisper"))
    yield made
    made.encoded.cache_clear()  # gigabytes


def test_encoder_and_logits(pair: Pair) -> None:
    import torch

    started, encoder, worst = time.perf_counter(), 0.0, 0.0
    network = pair.ours.network
    for number in range(min(3, SIZES[pair.size])):
        heard, memory, apart = pair.encoded(number)
        ids = [pair.ours.tokenizer.start, 50300, 50359, 11, 7 + number, 999]
        with torch.inference_mode():
            wanted = pair.theirs.logits(torch.tensor([ids], device=pair.device), heard).cpu().numpy()
        hidden, past = network.decoder(mx.array([ids[:4]]), mx.array([0]), network.allocate(1, 8), memory)
        rows = [hidden]
        for at in (4, 5):
            hidden, past = network.decoder(mx.array([ids[at : at + 1]]), mx.array([at]), past, memory)
            rows.append(hidden)
        logits = network.decoder.token_embedding.logits(mx.concatenate(rows, axis=1))
        encoder, worst = max(encoder, apart), max(worst, distance(np.array(logits), wanted))
    seconds = time.perf_counter() - started
    print(
        f"\n{pair.size}: relative difference of encoder {encoder:.1e}, of logits {worst:.1e}; {seconds:.1f} s",
        flush=True,
    )
    assert max(encoder, worst) < RELATIVE


def options(number: int, beams: int, multilingual: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of one input, for the reference and for us: tasks, languages, prompts, timestamps, patience."""
    language = ("en", "fr", "zh", "de")[number % 4] if multilingual else "en"
    common: dict[str, Any] = {"language": language, "task": "transcribe"}
    if multilingual and number % 5 == 4:
        common["task"] = "translate"
    if number % 3 == 2:
        common["prompt"] = list(range(100, 100 + 20 * number))
    if number % 4 == 3:
        common["prefix"] = [11, 12]
    theirs = common | {
        "without_timestamps": number % 2 == 1,
        "sample_len": 200 if number == 1 else LIMIT,
        "fp16": False,
    }
    ours = common | {"timestamps": number % 2 == 0, "limit": theirs["sample_len"], "beams": beams}
    if beams > 1:
        theirs |= {"beam_size": beams, "patience": 1.0 + number % 2}
        ours |= {"patience": 1.0 + number % 2}
    for key in ("prompt", "prefix"):
        if key in ours:
            ours[key] = tuple(ours[key])
    return theirs, ours


def near_tie(pair: Pair, number: int, theirs: dict[str, Any], tokens: list[int], wanted: list[int]) -> str:
    """With how much noise in its logits the reference, too, gives our tokens up to the first other one."""
    from whisper.decoding import DecodingOptions as TheirOptions

    from tests.models.whisper.openai_reference import shaken

    heard = pair.encoded(number)[0]
    first = [*(one == other for one, other in zip(tokens, wanted, strict=False)), False].index(False) + 1
    for noise in (1e-6, 1e-5, 1e-4):
        for _ in range(4):
            if shaken(pair.theirs, heard, TheirOptions(**theirs), noise)[:first] == tokens[:first]:
                return f"with noise of {noise:.0e} the reference goes this way, too"
    return "none"


@pytest.mark.parametrize("beams", [1, 5])
def test_windows(pair: Pair, beams: int) -> None:
    from whisper.decoding import DecodingOptions as TheirOptions

    steps, tokenizer = pair.ours.steps, pair.ours.tokenizer
    started, count, ended, encoder = time.perf_counter(), 0, 0, 0.0
    seen, different = set(), []
    try:
        for number in SAMPLE[beams] if SIZES[pair.size] == 3 else range(SIZES[pair.size]):
            heard, memory, apart = pair.encoded(number)
            theirs, ours = options(number, beams, pair.ours.config.multilingual)
            wanted = pair.theirs.decode(heard, TheirOptions(**theirs))[0]
            found = drain(decode(steps, tokenizer, memory, DecodingOptions(**ours), lambda: False))[0]
            count, encoder = count + 1, max(encoder, apart)
            if list(found.tokens) != wanted.tokens:
                tokens = list(found.tokens)
                near = near_tie(pair, number, theirs, tokens, wanted.tokens) if len(different) < 3 else "not looked for"
                different.append(f"input {number}: {tokens}, not {wanted.tokens}; near tie: {near}")
                continue
            assert found.text == wanted.text
            average = pytest.approx(wanted.avg_logprob, abs=1e-5 * max(1, abs(wanted.avg_logprob)))
            assert found.average_logprob == average
            assert found.no_speech == pytest.approx(wanted.no_speech_prob, rel=1e-3)
            assert found.compression_ratio == pytest.approx(wanted.compression_ratio)
            seen.update(found.tokens)
            ended += len(found.tokens) < ours["limit"]
    finally:
        print(
            f"\n{pair.size}, {beams} beams: {count} inputs, {count - len(different)} identical, {ended} ended, "
            f"{len(seen)} different tokens; encoder {encoder:.1e}; {time.perf_counter() - started:.1f} s",
            *different,
            sep="\n",
            flush=True,
        )
    assert not different
    assert len(seen) > min(20, 2 * count), "transcripts that say nothing would prove little"


def test_languages(pair: Pair) -> None:
    if not pair.ours.config.multilingual:
        pytest.skip("an English model")
    for number in range(min(4, SIZES[pair.size])):
        heard, memory, _ = pair.encoded(number)
        _, [wanted] = pair.theirs.detect_language(heard)
        found = detect_language(pair.ours.steps, pair.ours.tokenizer, memory)
        assert max(found, key=lambda code: found[code]) == max(wanted, key=lambda code: wanted[code])
        assert all(found[code] == pytest.approx(wanted[code], rel=1e-3, abs=1e-6) for code in wanted)


@pytest.mark.parametrize(("beams", "word_times"), RECORDINGS)
def test_a_recording(pair: Pair, beams: int, word_times: bool) -> None:
    """Segments, seek, text and word times of several windows, with the text before each."""
    if on_cpu() and pair.size.startswith(("large", "medium")):
        pytest.skip("windows of this size are compared one by one")
    if word_times and pair.device != "cpu":
        pytest.skip("on a GPU the reference's kernels align words in single precision")
    started = time.perf_counter()
    pcm = pair.sound(47, 3)
    theirs = pair.theirs.transcribe(
        pcm,
        language="en",
        temperature=0.0,
        fp16=False,
        word_timestamps=word_times,
        initial_prompt="Ann and Bob",
        sample_len=LIMIT,
        beam_size=beams if beams > 1 else None,
        logprob_threshold=None,
        no_speech_threshold=None,
    )
    one = pair.ours
    mel = drain(features.recording(pcm, one.config.n_mels, 3000))
    prompt = tuple(one.tokenizer.encode_prompt("Ann and Bob"))
    chosen = TranscriptionOptions(
        DecodingOptions(language="en", prompt=prompt, limit=LIMIT, beams=beams),
        (0.0,),
        Thresholds(2.4, None, None),
        word_times=word_times,
    )
    run = Transcriber(_Window(one, mel, Timeline()), one.tokenizer, chosen, content=len(pcm) // 160, window=3000).run()
    found = [(item.seek, segment) for item in run if item is not None for segment in item.segments]
    assert len(found) == len(theirs["segments"]) > 1
    for (seek, segment), wanted in zip(found, theirs["segments"], strict=True):
        assert (seek, segment.tokens) == (wanted["seek"], wanted["tokens"])
        assert (segment.start, segment.end) == pytest.approx((wanted["start"], wanted["end"]))
        words = wanted.get("words", [])
        assert [word.word for word in segment.words] == [word["word"] for word in words]
        for word, each in zip(segment.words, words, strict=True):
            assert (word.start, word.end) == pytest.approx((each["start"], each["end"]), abs=1e-6)
            assert word.probability == pytest.approx(each["probability"], rel=1e-3, abs=1e-6)
    text = one.tokenizer.decode([token for _, segment in found for token in segment.tokens])
    assert text == theirs["text"]
    seconds = time.perf_counter() - started
    kind = "segments and words" if word_times else "segments"
    print(f"\n{pair.size}, {beams} beams: {len(found)} {kind} of a recording identical; {seconds:.1f} s", flush=True)


@pytest.mark.parametrize("vocabulary", [51864, 51865, 51866])
def test_tokens(vocabulary: int) -> None:
    """Ids, texts, words and suppressed tokens; on sentences, and on letters of many scripts."""
    from whisper.tokenizer import get_tokenizer

    multilingual, count = vocabulary >= 51865, 100 if vocabulary == 51866 else 99
    ours = WhisperTokenizer(ranks(vocabulary), config(n_vocab=vocabulary))
    theirs = get_tokenizer(multilingual, num_languages=count, language="en", task="transcribe")
    assert list(theirs.non_speech_tokens) == ours.not_speech
    assert ours.first_timestamp == theirs.timestamp_begin
    if multilingual:
        assert sorted(theirs.all_language_codes) == sorted(ours.languages)
        assert list(theirs.sot_sequence) == ours.start_sequence("en", "transcribe", timestamps=True)
    rng = random.Random(vocabulary)
    words = Path(__file__).read_text(encoding="utf-8").split()
    scripts = (
        (32, 127),
        (0xA0, 0x250),
        (0x370, 0x530),
        (0x5D0, 0x600),
        (0x900, 0x980),
        (0xE00, 0xE60),
        (0x3040, 0x3100),
    )
    letters = [chr(c) for r in (*scripts, (0x4E00, 0x5200), (0xAC00, 0xAD00), (0x1F300, 0x1F320)) for c in range(*r)]
    texts = [" ".join(rng.choices(words, k=20)) for _ in range(1000)]
    texts += ["".join(rng.choices(letters, k=40)) for _ in range(3000)]
    texts += ["".join(rng.choices("aabc  '\n\t.,!?s1290tl", k=60)) for _ in range(1000)]
    for text in texts:
        assert ours.encode(text) == theirs.encode(text, disallowed_special=())
    for language in ("en", "zh"):
        split = get_tokenizer(multilingual, num_languages=count, language=language, task="transcribe")
        for number in range(300):
            ids = [rng.randrange(50256) for _ in range(20)] if number % 2 else ours.encode(rng.choice(texts))
            ids.append(ours.end)
            assert ours.decode_all(ids) == split.decode_with_timestamps(ids)
            assert ours.split_words(ids, language if multilingual else "en") == split.split_to_word_tokens(ids)


def test_timestamp_rules() -> None:
    import torch
    from whisper.decoding import ApplyTimestampRules
    from whisper.tokenizer import get_tokenizer

    theirs = get_tokenizer(True, num_languages=99, language="en", task="transcribe")
    first, end = theirs.timestamp_begin, theirs.eot
    rng = np.random.default_rng(0)
    for latest in (50, None):
        rules = TimestampRules(end, first, theirs.no_timestamps, latest)
        reference = ApplyTimestampRules(theirs, 2, latest)
        for number in range(60):
            times = sorted(rng.integers(first, first + 1500, 3).tolist())
            sampled = [times[0], 5, times[1], times[1], 6, 7, times[2], 9][: number % 9]
            logits = rng.standard_normal((1, 51865)).astype(np.float32) * 3
            wanted = torch.from_numpy(logits.copy())
            reference.apply(wanted, torch.tensor([[1, 2, *sampled]]))
            rules.apply(logits, [sampled])
            assert np.array_equal(logits, wanted.numpy())


def test_median_and_path() -> None:
    import torch
    from whisper.timing import dtw_cpu
    from whisper.timing import median_filter as their_filter

    rng = np.random.default_rng(0)
    for shape in ((5, 90), (40, 700), (90, 40)):
        x = rng.standard_normal(shape).astype(np.float32)
        assert np.array_equal(median_filter(x), their_filter(torch.from_numpy(x), 7).numpy())
        for cost in (x.astype(np.float64), np.round(x * 2).astype(np.float64)):
            assert np.array_equal(np.stack(warp(cost)), dtw_cpu(cost))
