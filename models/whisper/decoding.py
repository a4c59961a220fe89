"""From one encoded window to its transcript: prompt, search, measures of trust, and tries at rising temperatures."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

import numpy as np

from models.contract import IsCancelled, RecognitionTask
from models.whisper.drafts import search_draft
from models.whisper.rules import TokenRules, log_sum_exp
from models.whisper.search import Beam, Sampled, SearchState, WindowTask, greedy, search
from models.whisper.steps import Memory, Steps
from models.whisper.text import WhisperTokenizer

# Cost of the tries at rising temperatures, the first pass included, in first passes. In steps of one hypothesis, the
# encoder costs _ENCODER and another sample in a step _SAMPLE of one: Whisper tiny and base on two cores.
_FALLBACK = 3
_ENCODER = 60
_SAMPLE = 0.4


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """Options of one window, as openai-whisper's.

    `language` is one of the tokenizer's codes. At `temperature` 0, `beams` hypotheses are kept, with `patience`; above,
    the best of `best_of` samples is taken, drawn by `seed`. `prompt` are tokens of earlier text, `prefix` those with
    which the transcript begins. `limit` is the most tokens of the transcript, half of the model's at most, which is the
    default. `draft` are text tokens that were probably said: greedy search of one window verifies them.
    """

    language: str = "en"
    task: RecognitionTask = "transcribe"
    temperature: float = 0.0
    beams: int = 1
    patience: float = 1.0
    best_of: int = 1
    prompt: tuple[int, ...] = ()
    prefix: tuple[int, ...] = ()
    timestamps: bool = True
    suppress_blank: bool = True
    latest_start: float | None = 1.0
    limit: int | None = None
    draft: tuple[int, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Decoded:
    """Transcript of one window, its tokens without prompt and end, and how far it can be trusted.

    `logprobs` are those of the tokens. `average_logprob` is the mean log-probability of the tokens and the end.
    `no_speech` is the probability that nobody spoke. `compression_ratio` is large for text that repeats itself.
    `accepted` counts the tokens of the draft that are in the transcript, `used` those that lie before its end. `steps`
    are those of the longest hypothesis.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    text: str
    average_logprob: float
    no_speech: float
    temperature: float
    compression_ratio: float
    accepted: int = 0
    used: int = 0
    steps: int = 0


Decode = Callable[[DecodingOptions], Generator[None, None, Decoded]]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Bounds of trust. None: the measure is not looked at.

    A transcript is tried again at a higher temperature if it compresses better than `compression_ratio`, or if its mean
    log-probability is below `logprob`. A window is silent if `no_speech` is exceeded and that mean is low.
    """

    compression_ratio: float | None = 2.4
    logprob: float | None = -1.0
    no_speech: float | None = 0.6

    def refuses(self, found: Decoded) -> bool:
        """Return whether the transcript must be tried again."""
        unlikely = self.logprob is not None and found.average_logprob < self.logprob
        if unlikely and self.no_speech is not None and found.no_speech > self.no_speech:
            return False
        return unlikely or (self.compression_ratio is not None and found.compression_ratio > self.compression_ratio)

    def is_silent(self, found: Decoded) -> bool:
        """Return whether nobody spoke in the window."""
        if self.no_speech is None or found.no_speech <= self.no_speech:
            return False
        return self.logprob is None or found.average_logprob <= self.logprob


def decode_with_fallback(
    decode: Decode,
    options: DecodingOptions,
    temperatures: tuple[float, ...],
    thresholds: Thresholds,
    prompt: tuple[int, ...] = (),
) -> Generator[None, None, Decoded]:
    """Decode at rising temperatures until a transcript is trusted. The last whole one is taken in any case.

    All tries together cost at most _FALLBACK times the first pass. Steps are counted, not seconds: a loaded machine
    must not change the text.

    Args:
        decode: Decodes the window.
        options: Of the first try.
        temperatures: In the order in which they are tried.
        thresholds: What is trusted.
        prompt: That of later tries. Text of the window before may be what a text repeats, so they begin without it, and
            at the first temperature again.
    """
    found = yield from decode(replace(options, temperature=temperatures[0]))
    left = float((_FALLBACK - 1) * (_ENCODER + found.steps))
    again = temperatures[:1] if len(temperatures) > 1 and options.prompt != prompt else ()
    rest = temperatures[1:]
    fit = max(1, int(left / (1 + _SAMPLE * (options.best_of - 1)) / max(1, found.steps)))
    fit = min(fit, len(rest))  # few tries must not all be cautious
    spread = [rest[math.ceil(number * (len(rest) + 1) / (fit + 1)) - 1] for number in range(1, fit + 1)]
    for temperature in (*again, *spread):
        step = 1 + _SAMPLE * ((options.best_of if temperature else options.beams) - 1)
        most = int(left / step)
        limited = options.limit is None or most < options.limit
        if not thresholds.refuses(found) or most < 1:
            break
        limit = most if limited else options.limit
        tried = yield from decode(replace(options, temperature=temperature, prompt=prompt, limit=limit))
        if limited and len(tried.tokens) >= most:  # it was cut off
            break
        found, left = tried, left - step * tried.steps
    return found


def prompt_tokens(tokenizer: WhisperTokenizer, options: DecodingOptions, context: int) -> tuple[list[int], int]:
    """Return the tokens before the transcript, for a decoder of `context` tokens, and the place that tells silence."""
    tokens = tokenizer.start_sequence(options.language, options.task, timestamps=options.timestamps)
    if options.prefix:
        room = context // 2 - (options.limit or context // 2)
        tokens += options.prefix[-room:] if room else options.prefix[-(context // 2) :]
    before = [tokenizer.start_of_previous, *options.prompt[-(context // 2 - 1) :]] if options.prompt else []
    return before + tokens, len(before) if tokenizer.official else len(before + tokens) - 1


def compression_ratio(text: str) -> float:
    """Return the bytes of `text` over those of its compression by zlib."""
    data = text.encode("utf-8")
    return len(data) / len(zlib.compress(data))


def decode(
    steps: Steps, tokenizer: WhisperTokenizer, memory: Memory, options: DecodingOptions, cancelled: IsCancelled
) -> Generator[None, None, list[Decoded]]:
    """Decode the windows in `memory` with the same options. Yields every few steps; raises Cancelled between them."""
    context = steps.config.n_text_ctx
    prompt, start = prompt_tokens(tokenizer, options, context)
    limit = min(options.limit or context, context // 2, context + 1 - len(prompt))
    windows = memory[0].shape[0]
    states = [_state(tokenizer, options, window) for window in range(windows)]
    rules = TokenRules.of(
        tokenizer, timestamps=options.timestamps, suppress_blank=options.suppress_blank, latest=options.latest_start
    )
    tasks = [WindowTask(prompt, start, limit)] * windows
    accepted, used, state = 0, 0, states[0]
    if options.draft and windows == 1 and isinstance(state, Sampled) and options.temperature == 0:
        leading = [tokenizer.first_timestamp] if options.timestamps else []  # the likeliest beginning
        draft = [*leading, *options.draft]
        verified = yield from search_draft(steps, memory, tasks[0], state, rules, draft, cancelled)
        first = [verified.first]
        began = state.sampled[0][:1] == leading[:1]
        accepted = verified.accepted - (len(leading) if began else 0)
        used = max(0, verified.used - len(leading))
    elif steps.ahead and options.temperature == 0 and options.beams == 1:
        rows = [state for state in states if isinstance(state, Sampled)]
        first = yield from greedy(steps, memory, tasks, rows, rules, cancelled)
    else:
        first = yield from search(steps, memory, tasks, states, rules, cancelled)
    found = []
    for state, logits in zip(states, first, strict=True):
        hypotheses = state.hypotheses()
        best = max(hypotheses, key=lambda one: one.score())
        # Language tokens are not suppressed; where one comes out, the text that is measured has its name.
        text = tokenizer.decode_all([token for token in best.tokens if token < tokenizer.first_timestamp]).strip()
        silence = math.exp(float(logits[tokenizer.silence] - log_sum_exp(logits)[0]))
        average = best.sum_logprob / (len(best.tokens) + 1)
        ratio = compression_ratio(text)
        found.append(
            Decoded(
                tuple(best.tokens), tuple(best.logprobs), text, average, silence, options.temperature, ratio,
                max(0, accepted), used, 1 + max(len(one.tokens) for one in hypotheses),
            )
        )  # fmt: skip
    return found


def _state(tokenizer: WhisperTokenizer, options: DecodingOptions, window: int) -> SearchState:
    if options.temperature == 0 and options.beams > 1:
        return Beam(options.beams, tokenizer.end, options.patience)
    rows = options.best_of if options.temperature > 0 else 1
    draw = np.random.default_rng((options.seed, window, round(options.temperature * 1000)))
    return Sampled(rows, tokenizer.end, options.temperature, draw)


def detect_language(steps: Steps, tokenizer: WhisperTokenizer, memory: Memory) -> dict[str, float]:
    """Return the probability of each language for the first window in `memory`."""
    first = [part[:1] for part in memory]
    _, logits, _ = steps.begin([[tokenizer.start]], first, 1, 8, 0)
    scores = logits[0, tokenizer.first_language : tokenizer.first_language + len(tokenizer.languages)]
    shares = np.exp(scores - log_sum_exp(scores))
    return dict(zip(tokenizer.languages, shares.tolist(), strict=True))
