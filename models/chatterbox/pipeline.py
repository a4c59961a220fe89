"""Text to audio in any recorded voice: T3 draws tokens, and S3Gen speaks them while T3 draws more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

from models.backend import mx, on_cpu
from models.chatterbox import warmup
from models.chatterbox.config import (
    SAMPLE_RATE,
    SILENCE_TOKEN,
    VARIANTS,
    ChatterboxConfig,
    Variant,
    load_config,
)
from models.chatterbox.reference.conditioning import ReferenceEncoder, check_conditioning, read_conds
from models.chatterbox.s3gen import weights as s3gen_weights
from models.chatterbox.s3gen.flow import Flow
from models.chatterbox.s3gen.streaming import LOOKAHEAD, Prompt, SpeechStreamer
from models.chatterbox.s3gen.vocoder import HiFT, Vocoder
from models.chatterbox.t3 import sampling
from models.chatterbox.t3 import weights as t3_weights
from models.chatterbox.t3.decoder import T3Decoder
from models.chatterbox.t3.draft_model import SmallT3
from models.chatterbox.t3.drafts import Draft, Lookup
from models.chatterbox.t3.kernels.choice import choose_attend, choose_draw, choose_step
from models.chatterbox.t3.network import T3
from models.chatterbox.t3.state import MAX_TOKENS, DecodeRequest, VoicePrompt
from models.chatterbox.text import TextTokenizer, load_tokenizer, normalize
from models.checkpoint import raise_problems, read_arrays
from models.contract import (
    AudioChunk,
    Conditioning,
    Description,
    IsCancelled,
    ModelRequestError,
    ModelSpec,
    Pcm,
    Progress,
    Reads,
    Sampling,
    SpeechRequest,
    UnknownVoiceError,
    Voice,
    WeightsError,
    warm_up,
)
from models.native.transformer import weight_bits
from models.timeline import Timeline

logger = logging.getLogger(__name__)

BUILT_IN = "default"  # the voice of conds.pt
MAX_CHARACTERS = 300  # of one sentence: beyond some 350 the models begin to babble
# New tokens of each chunk, the last number repeating. A first sentence begins with a small chunk, to be heard soon.
FIRST_SCHEDULE, LATER_SCHEDULE = (10, 25, 50, 75), (25, 50, 75)
# Turbo was trained to end in three tokens of silence.
TURBO_END = (SILENCE_TOKEN,) * 3
# Length in seconds of the recording that S3Gen continues. Each adds 50 mel frames to every call of its decoder.
PROMPT_SECONDS = 6.0
_S3GEN = ("flow.", "mel2wav.", "speaker_encoder.", "tokenizer.")
LOOKUP = "lookup"


def describe(spec: ModelSpec) -> Description:
    """Return the languages, parameters and voice of a checkpoint from its config. Raises WeightsError."""
    return _description(load_config(spec.files.get("config"), _variant(spec.name)))


def _description(config: ChatterboxConfig) -> Description:
    return Description(
        ("en-us",), frozenset(sampling.defaults(config.t3)), (Voice(BUILT_IN, "en-us"),), BUILT_IN, clones=True
    )


def load(spec: ModelSpec) -> ChatterboxSynthesizer:
    """Load a checkpoint: spec.files has "t3", "s3gen", "voice_encoder", "voice", the tokenizer's and maybe "config".

    With `spec.dtype` bfloat16 a GPU computes T3 and the flow's decoder in it. A CPU's native kernels read T3's weights
    in it. If the CPU multiplies in it, they make the products of the flow's decoder and of the vocoder in it.
    `spec.draft` is "lookup", or a folder with a smaller T3 (config.json, and t3_cfg.safetensors). Raises WeightsError.
    """
    files, variant = spec.files, _variant(spec.name)
    config = load_config(files.get("config"), variant)
    half = spec.dtype == "bfloat16" and not on_cpu()
    bits = weight_bits(spec.dtype, spec.bits)
    if spec.steps < 0:
        raise WeightsError(f"{spec.name}: the flow takes at least one step, not {spec.steps}")
    network = _load_t3(config, files["t3"], half, bits)
    arrays = read_arrays(files["s3gen"])
    raise_problems([f"unexpected {name}" for name in sorted(arrays) if not name.startswith(_S3GEN)], files["s3gen"])
    flow = Flow(config)
    s3gen_weights.load_flow(flow, arrays, files["s3gen"], bfloat16=spec.dtype == "bfloat16")
    hift = HiFT(config.vocoder, config.mels)
    if spec.dtype == "bfloat16":
        hift.multiply_in_bfloat16()
    s3gen_weights.load_vocoder(hift, arrays, files["s3gen"])
    encoder = ReferenceEncoder(config, PROMPT_SECONDS)
    encoder.load(read_arrays(files["voice_encoder"]), arrays, f"{files['voice_encoder']}, {files['s3gen']}")
    voice = read_conds(files["voice"], config)
    decoder = T3Decoder(
        network,
        cache_bits=spec.cache_bits,
        step=choose_step(network) if not spec.cache_bits and not spec.draft else None,
        next_token=choose_draw(config.t3) if not spec.draft else None,
        draft=_draft(spec.draft, config, half, bits),
    )
    tokenizer = load_tokenizer(files, config.t3)
    return ChatterboxSynthesizer(config, tokenizer, decoder, flow, Vocoder(hift), encoder, voice, steps=spec.steps)


def _variant(name: str) -> Variant:
    for variant in VARIANTS:
        if name == variant:
            return variant
    raise WeightsError(f"{name} is no variant of Chatterbox; known are {', '.join(VARIANTS)}")


def _load_t3(config: ChatterboxConfig, path: str, half: bool, bits: int) -> T3:
    network = T3(config.t3)
    t3_weights.load_weights(network, read_arrays(path), path, mx.bfloat16 if half else mx.float32)
    network.lower(bits)
    network.attend = choose_attend(network)
    return network


def _draft(name: str, config: ChatterboxConfig, half: bool, bits: int) -> Draft | None:
    if not name:
        return None
    if name == LOOKUP:
        return Lookup()
    folder = Path(name)
    if not folder.is_dir():
        raise WeightsError(f"a draft is '{LOOKUP}' or a folder with a smaller T3, not {name!r}")
    smaller = load_config(folder / "config.json", config.variant)
    return SmallT3(_load_t3(smaller, str(folder / "t3_cfg.safetensors"), half, bits))


class ChatterboxSynthesizer:
    """A loaded Chatterbox. Implements `models.contract.Synthesizer` and `models.contract.VoiceCloner`."""

    sample_rate = SAMPLE_RATE
    reads: Reads = "text"
    symbols: frozenset[str] = frozenset()
    max_phonemes = MAX_CHARACTERS
    changes_speed = False
    watermarked = True
    default_voice = BUILT_IN

    def __init__(
        self,
        config: ChatterboxConfig,
        tokenizer: TextTokenizer,
        decoder: T3Decoder,
        flow: Flow,
        vocoder: Vocoder,
        encoder: ReferenceEncoder,
        voice: Conditioning,
        *,
        steps: int = 0,
    ) -> None:
        self.config = config
        known = _description(config)
        self.languages, self.parameters, self.voices = known.languages, known.parameters, known.voices
        self.reference_seconds = encoder.reference_seconds
        self._tokenizer, self._decoder, self._encoder = tokenizer, decoder, encoder
        self._flow = flow
        streamer = SpeechStreamer(flow=flow, vocoder=vocoder, schedule=FIRST_SCHEDULE, steps=steps or None)
        self._streamers = {True: streamer, False: replace(streamer, schedule=LATER_SCHEDULE)}
        self._voice = voice
        self._prepared = WeakKeyDictionary[Conditioning, tuple[VoicePrompt, Prompt]]()
        self._turbo = config.variant == "chatterbox-turbo"

    def check_voice(self, voice: str) -> None:
        """Raise UnknownVoiceError unless `voice` is the built-in one."""
        if voice != BUILT_IN:
            raise UnknownVoiceError(f"Unknown voice '{voice[:100]}'; built in is '{BUILT_IN}', others are cloned.")

    def check_conditioning(self, conditioning: Conditioning) -> None:
        """Raise WeightsError naming an array that is missing, extra or misshapen. Safe on any thread."""
        check_conditioning(conditioning, self.config)

    def condition(
        self, pcm: Pcm, sample_rate: int, timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[Conditioning | None]:
        """Make a voice from a recording: float32 mono [samples]; None between its stages."""
        return self._encoder.condition(pcm, sample_rate, cancelled)

    def stream(self, request: SpeechRequest, timeline: Timeline, cancelled: IsCancelled) -> Iterator[AudioChunk | None]:
        """Yield a sentence's chunks as they are spoken, and None where the thread may do other work.

        Raises ModelRequestError for a speed other than 1, which the models do not have, and for a first sentence
        without anything to read (a later one is left out); Cancelled between steps and stages.
        """
        if request.speed != 1.0:
            raise ModelRequestError(f"Chatterbox speaks at speed 1 only, not {request.speed:g}")
        return self._stream(request, timeline, cancelled)

    def _stream(
        self,
        request: SpeechRequest,
        timeline: Timeline,
        cancelled: IsCancelled,
        *,
        limit: int = MAX_TOKENS,
        exact: bool = False,
        whole: bool = False,
    ) -> Generator[AudioChunk | None, None, None]:
        if request.conditioning is None:
            self.check_voice(request.voice)
        text = self._tokenizer.encode(normalize(request.text, turbo=self._turbo))
        if not text and not request.first:
            # The reply has begun: a sentence of signs alone must not end it.
            logger.warning("a sentence holds nothing that can be read aloud, and is left out")
            yield AudioChunk(np.zeros(0, np.float32))
            return
        if not text:
            raise ModelRequestError(f"nothing in {request.text[:80]!r} can be read aloud")
        voice, prompt = self._prompts(request.conditioning or self._voice)
        rules = sampling.rules(self.config.t3, request.sampling, exact=exact)
        wanted = DecodeRequest(text, voice, rules, request.seed, limit)
        tokens = chain(self._decoder.decode(wanted, timeline, cancelled), TURBO_END if self._turbo else ())
        yield from self._streamers[request.first].stream(tokens, prompt, request.seed, timeline, cancelled, whole=whole)

    def _prompts(self, conditioning: Conditioning) -> tuple[VoicePrompt, Prompt]:
        """Return a voice as T3 and S3Gen read it; its arrays stay on the device as long as the conditioning is kept."""
        if conditioning not in self._prepared:
            names = ("t3_speaker", "t3_prompt", "s3gen_mel", "s3gen_speaker")
            speaker, prompt, mel, s3gen_speaker = (mx.array(conditioning.arrays[name]) for name in names)
            tokens = conditioning.arrays["s3gen_tokens"].tolist()
            self._prepared[conditioning] = VoicePrompt(speaker, prompt), Prompt(tokens, mel, s3gen_speaker)
        return self._prepared[conditioning]

    def forced(
        self, text: str, tokens: int, sampling: Sampling, seed: int, timeline: Timeline, *, whole: bool = False
    ) -> Generator[AudioChunk | None, None, None]:
        """Speak so many `tokens` in the built-in voice, whatever the text: for benchmarks."""
        request = SpeechRequest(text, "", BUILT_IN, seed=seed, sampling=sampling)
        return self._stream(request, timeline, lambda: False, limit=tokens, exact=True, whole=whole)

    def warm(self, progress: Progress) -> None:
        """Run every shape that requests need; on the CPU, where shapes cost nothing, a few words."""
        warm_up(list(self._warm_steps()), progress)

    def _warm_steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        if not on_cpu():
            yield from warmup.decoder_steps(self._decoder, self._voice)
            yield from warmup.flow_steps(self._flow)
            yield from warmup.vocoder_steps(self._streamers.values())
        for first in (True,) if on_cpu() else (True, False):
            yield f"sentence first={first}", partial(self._warm_sentence, first)

    def _warm_sentence(self, first: bool) -> None:
        """Speak a sentence of two chunks, the second a short one."""
        request = SpeechRequest("Warm.", "", BUILT_IN, first=first)
        most = self._streamers[first].schedule[0] + LOOKAHEAD + 2
        for _ in self._stream(request, Timeline(), lambda: False, limit=most, exact=True):
            pass
