"""Warm-up: run every shape that a GPU will get, once. Each new shape costs kernels, plans or a trace there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from models.backend import bucket, mx
from models.chatterbox.config import FRAMES_PER_TOKEN
from models.chatterbox.s3gen.flow import TOKEN_BUCKETS, Flow
from models.chatterbox.s3gen.streaming import SCHEDULE, WINDOW, SpeechStreamer
from models.chatterbox.t3 import sampling
from models.chatterbox.t3.decoder import PROMPT_BUCKETS, T3Decoder
from models.chatterbox.t3.state import MAX_TOKENS, DecodeRequest, VoicePrompt
from models.contract import Conditioning, Sampling

MAX_PROMPT_TOKENS = 250  # speech tokens of a recording: ten seconds
MAX_TEXT_TOKENS = 320  # text tokens of a sentence
_NEW = max(SCHEDULE) + 3  # tokens of a chunk, and the encoder's lookahead

Steps = Iterator[tuple[str, Callable[[], None]]]


def decoder_steps(decoder: T3Decoder, voice: Conditioning) -> Steps:
    """Yield each length of prompt and each size of the cache, with guidance and without."""
    config = decoder.config
    before = config.perceiver_queries + 2 if config.perceiver else 1 + config.prompt_tokens
    longest = bucket(before + MAX_TEXT_TOKENS, PROMPT_BUCKETS)
    spoken = VoicePrompt(mx.array(voice.arrays["t3_speaker"]), mx.array(voice.arrays["t3_prompt"]))
    for weight in (None, 0.0) if config.guided else (None,):
        rules = sampling.rules(config, Sampling(cfg_weight=weight))

        def run(text: int, room: int, rules: sampling.Rules = rules) -> None:
            decoder.warm(DecodeRequest([1] * text, spoken, rules), room)

        for size in PROMPT_BUCKETS:
            if before + 8 <= size <= longest:
                yield f"prompt={size} guided={rules.guided}", partial(run, size - before - 4, 0)
        for room, rows in decoder.warm_shapes():
            if (rows == 2) == rules.guided:
                yield f"room={room} guided={rules.guided}", partial(run, 4, room)


def flow_steps(flow: Flow) -> Steps:
    """Yield each number of tokens, prompt and window included, as a chunk between others and as the last."""

    def run(size: int) -> None:
        prompt = min(size // 2, MAX_PROMPT_TOKENS)
        mel = mx.zeros((prompt * FRAMES_PER_TOKEN, flow.config.mels))
        speaker = mx.ones(flow.config.speaker.size)
        for finalize in (False, True):
            mu = flow.encode([0] * prompt, [0] * (size - prompt), finalize=finalize)
            mx.eval(flow.solve(mu, mel, speaker, mx.zeros_like(mu)))

    for size in TOKEN_BUCKETS:
        yield f"tokens={size}", partial(run, size)
        if size >= MAX_PROMPT_TOKENS + WINDOW + _NEW:
            return


def vocoder_steps(streamers: Collection[SpeechStreamer]) -> Steps:
    """Yield each number of frames of a chunk, with the excitation of the frames before and without."""
    shapes = {shape for streamer in streamers for shape in streamer.vocoder_shapes(MAX_TOKENS)}
    for streamer in list(streamers)[:1]:
        for frames, known in sorted(shapes):
            yield f"frames={frames} carried={known}", partial(streamer.vocoder.warm, frames, known)
