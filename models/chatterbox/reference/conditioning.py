"""A recording, or an official `conds.pt`, to the arrays that condition T3 and S3Gen.

The inputs of each part are the reference's. T3's prompt and the voice encoder get the 16 kHz that soxr makes; S3Gen's
tokenizer and speaker encoder the 16 kHz that torchaudio's Hann sinc makes of the first ten seconds. Turbo's recordings
are first set to -27 LUFS. The speaker vector is made of ten seconds; S3Gen's prompt may be shorter, since each second
of it adds 50 mel frames to every call of the decoder.

Sources: chatterbox 0.1.7 tts.py and tts_turbo.py `prepare_conditionals`, models/s3gen/s3gen.py `embed_ref`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from models.backend import mx
from models.chatterbox.config import (
    FRAMES_PER_TOKEN,
    REFERENCE_RATE,
    SAMPLE_RATE,
    SPEECH_TOKENS,
    TOKEN_RATE,
    ChatterboxConfig,
)
from models.chatterbox.reference.front_ends import (
    kaldi_fbank,
    prompt_mel,
    resample_hann,
    resample_soxr,
    set_loudness,
    token_mel,
)
from models.chatterbox.reference.speaker import SpeakerEncoder
from models.chatterbox.reference.tokenizer import SpeechTokenizer
from models.chatterbox.reference.voice_encoder import VoiceEncoder
from models.chatterbox.reference.weights import load_speaker, load_tokenizer, load_voice_encoder
from models.checkpoint import raise_problems, read_arrays
from models.contract import Cancelled, Conditioning, IsCancelled, Pcm, UnusableReferenceError, WeightsError
from models.layers.mel import Floats

Ints = npt.NDArray[np.int32]

MAX_RECORDING_SECONDS = 30.0  # seconds of a recording that are read
MAX_PROMPT_SECONDS = 10.0  # seconds for S3Gen's speaker vector, and at most for its prompt
MIN_PROMPT_SECONDS = 1.0
TURBO_LOUDNESS = -27.0  # LUFS
RATES = (8_000, 192_000)
_SILENT = 1e-3  # root mean square of the loudest 100 ms (-60 dBFS)
# Names of a Conditioning's arrays -> in the official file.
_OFFICIAL = {
    "t3_speaker": "t3.speaker_emb",
    "t3_prompt": "t3.cond_prompt_speech_tokens",
    "s3gen_tokens": "gen.prompt_token",
    "s3gen_mel": "gen.prompt_feat",
    "s3gen_speaker": "gen.embedding",
}
_TOKENS = ("t3_prompt", "s3gen_tokens")
# Other arrays it may hold: the arrays' lengths, an emotion that requests replace, and arrays that nothing reads.
_UNREAD = ("t3.emotion_adv", "t3.clap_emb", "t3.cond_prompt_speech_emb", "gen.prompt_token_len", "gen.prompt_feat_len")


class ReferenceEncoder:
    """Voice encoder, speech tokenizer and speaker encoder of one checkpoint, and their front ends.

    `prompt_seconds`, in [1, 10], bounds S3Gen's prompt; the reference uses 10.
    """

    def __init__(self, config: ChatterboxConfig, prompt_seconds: float = MAX_PROMPT_SECONDS) -> None:
        if not MIN_PROMPT_SECONDS <= prompt_seconds <= MAX_PROMPT_SECONDS:
            raise ValueError(
                f"a prompt has {MIN_PROMPT_SECONDS:g} to {MAX_PROMPT_SECONDS:g} seconds, not {prompt_seconds:g}"
            )
        self.config = config
        self.voice_encoder = VoiceEncoder(config.voice_encoder)
        self.tokenizer = SpeechTokenizer(config.tokenizer)
        self.speaker = SpeakerEncoder(config.speaker)
        self._prompt_seconds = prompt_seconds
        self._turbo = config.variant == "chatterbox-turbo"

    def load(self, voice: Mapping[str, mx.array], s3gen: Mapping[str, mx.array], source: str) -> None:
        """Read the official arrays of the voice encoder's file and of S3Gen's, whose other arrays are ignored.

        Raises WeightsError naming what is missing, extra or misshapen.
        """
        load_voice_encoder(self.voice_encoder, voice, f"{source}: voice encoder")
        load_speaker(self.speaker, s3gen, source)
        load_tokenizer(self.tokenizer, s3gen, source)

    @property
    def reference_seconds(self) -> tuple[float, float]:
        """Shortest length of a recording that is accepted, and the longest that is read."""
        return (5.0 if self._turbo else 1.0), MAX_RECORDING_SECONDS

    def condition(self, pcm: Pcm, sample_rate: int, cancelled: IsCancelled) -> Iterator[Conditioning | None]:
        """Make a Conditioning of float32 mono pcm [N] at `sample_rate` Hz; yield None after every part of the work.

        Raises UnusableReferenceError, and Cancelled between parts.
        """
        for found in self._parts(pcm, sample_rate):
            if cancelled():
                raise Cancelled("the voice is no longer wanted")
            yield found

    def _parts(self, pcm: Pcm, sample_rate: int) -> Iterator[Conditioning | None]:
        self._check(pcm, sample_rate)
        pcm = pcm[: int(MAX_RECORDING_SECONDS * sample_rate)].astype(np.float32)
        heard = resample_soxr(pcm, sample_rate, SAMPLE_RATE)
        if self._turbo:
            heard = set_loudness(heard, SAMPLE_RATE, TURBO_LOUDNESS)
        low = resample_soxr(heard, SAMPLE_RATE, REFERENCE_RATE)
        spoken = heard[: int(MAX_PROMPT_SECONDS * SAMPLE_RATE)]
        clear = resample_hann(spoken, SAMPLE_RATE, REFERENCE_RATE)
        found: dict[str, npt.NDArray[Any]] = {}
        yield None
        found["t3_speaker"] = self.voice_encoder.embed(low)
        yield None
        features = kaldi_fbank(clear, self.config.speaker.mels)
        found["s3gen_speaker"] = np.array(self.speaker(mx.array(features)[None])[0])
        yield None
        limit = self.config.t3.prompt_tokens
        prompt = yield from self._tokens(low[: limit * REFERENCE_RATE // TOKEN_RATE])
        found["t3_prompt"] = prompt[:limit]
        if self._prompt_seconds < MAX_PROMPT_SECONDS:
            spoken = spoken[: int(self._prompt_seconds * SAMPLE_RATE)]
            clear = resample_hann(spoken, SAMPLE_RATE, REFERENCE_RATE)
        tokens = yield from self._tokens(clear)
        found["s3gen_tokens"], found["s3gen_mel"] = _paired(tokens, prompt_mel(spoken, self.config.mels))
        if not all(np.isfinite(array).all() for array in found.values()):
            raise UnusableReferenceError("no voice can be made of this recording; clear speech is expected")
        yield Conditioning(found)

    def _tokens(self, pcm: Pcm) -> Generator[None, None, Ints]:
        return self.tokenizer.encode(token_mel(pcm, self.config.tokenizer.mels))

    def _check(self, pcm: Pcm, sample_rate: int) -> None:
        least, _ = self.reference_seconds
        if not RATES[0] <= sample_rate <= RATES[1]:
            raise UnusableReferenceError(f"a recording of {sample_rate} Hz; {RATES[0]} to {RATES[1]} Hz are accepted")
        if pcm.ndim != 1 or not np.isfinite(pcm).all():
            raise UnusableReferenceError("the recording is not a sequence of finite mono samples")
        seconds = len(pcm) / sample_rate
        if seconds < least or (self._turbo and seconds == least):
            more = "more than" if self._turbo else "at least"
            raise UnusableReferenceError(f"the recording has {seconds:.1f} seconds; {more} {least:g} are needed")
        read = pcm[: int(MAX_RECORDING_SECONDS * sample_rate)]
        size = sample_rate // 10
        blocks = read[: len(read) // size * size].reshape(-1, size).astype(np.float64)
        if np.sqrt(np.mean(blocks**2, axis=1)).max() < _SILENT:
            raise UnusableReferenceError("the recording is silent; speech louder than -60 dBFS is needed")


def check_conditioning(conditioning: Conditioning, config: ChatterboxConfig) -> None:
    """Raise WeightsError naming an array that is missing, extra or misshapen, or has values out of range."""
    arrays = conditioning.arrays
    problems = [f"missing {name}" for name in _OFFICIAL if name not in arrays]
    problems += [f"unexpected {name}" for name in sorted(set(arrays) - set(_OFFICIAL))]
    raise_problems(problems, "conditioning")
    prompt, tokens = arrays["t3_prompt"].size, arrays["s3gen_tokens"].size
    shapes: dict[str, tuple[int, ...]] = {
        "t3_speaker": (config.t3.speaker,),
        "t3_prompt": (min(max(prompt, 1), config.t3.prompt_tokens),),
        "s3gen_tokens": (max(tokens, 1),),
        "s3gen_mel": (FRAMES_PER_TOKEN * max(tokens, 1), config.mels),
        "s3gen_speaker": (config.speaker.size,),
    }
    for name, shape in shapes.items():
        array, kind = arrays[name], np.int32 if name in _TOKENS else np.float32
        if array.shape != shape or array.dtype != kind:
            problems.append(f"{name} is {array.dtype} {array.shape}, not {np.dtype(kind)} {shape}")
        elif name in _TOKENS and not (array.min() >= 0 and array.max() < SPEECH_TOKENS):
            problems.append(f"{name} has ids outside 0 to {SPEECH_TOKENS - 1}")
        elif not np.isfinite(array).all():
            problems.append(f"{name} has values that are not finite")
    raise_problems(problems, "conditioning")


def read_conds(path: str | Path, config: ChatterboxConfig) -> Conditioning:
    """Read the voice in an official `conds.pt`. Raises WeightsError naming what is missing, unknown or misshapen."""
    arrays = read_arrays(path, optional=True)
    problems = [f"missing {name}" for name in _OFFICIAL.values() if name not in arrays]
    problems += [f"unexpected {name}" for name in sorted(set(arrays) - set(_OFFICIAL.values()) - set(_UNREAD))]
    raise_problems(problems, str(path))
    found: dict[str, npt.NDArray[Any]] = {}
    for ours, name in _OFFICIAL.items():
        array = np.array(arrays[name].astype(mx.int32 if ours in _TOKENS else mx.float32))
        if ours in _TOKENS and not bool(mx.all(arrays[name] == mx.array(array))):
            problems.append(f"{name} has ids that are not whole")
        if array.ndim < 2 or array.shape[0] != 1:
            problems.append(f"{name} has shape {array.shape}; one voice, [1, ...], is expected")
        else:
            found[ours] = array[0]
    raise_problems(problems, str(path))
    found["s3gen_tokens"], found["s3gen_mel"] = _paired(found["s3gen_tokens"], found["s3gen_mel"])
    conditioning = Conditioning(found)
    try:
        check_conditioning(conditioning, config)
    except WeightsError as error:
        raise WeightsError(f"{path}: {error}") from error
    return conditioning


def _paired(tokens: Ints, mel: Floats) -> tuple[Ints, Floats]:
    """Cut tokens [P] and mel frames [2P, mels] of the same speech to the same length."""
    count = min(len(tokens), len(mel) // FRAMES_PER_TOKEN)
    return tokens[:count], mel[: FRAMES_PER_TOKEN * count]
