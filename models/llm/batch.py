"""Sequences that a language model writes at once, and what it remembers of prompts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from mlx import nn

from models.backend import mx
from models.contract import GenerationRequest
from models.llm.library import import_module, stream

PREFILL_STEP = 256  # most tokens of a prompt that are read in one turn: a sentence to speak waits no longer
MIN_PREFILL_STEP = 16
TURN_SECONDS = 0.5  # in which they should be read: far into a prompt a processor needs many times as long for a token
TINY = 1e-9  # what is less becomes 0 or infinite in float32, and tokens are drawn blindly
MAX_SEQUENCES = 8  # that are written at once; more wait
MAX_CACHES = 32  # conversations that are remembered
CACHE_BYTES = 1 << 30  # of keys and values that are remembered after their request ended


@dataclass(slots=True)
class GeneratedToken:
    """A token that was written. `logprobs` [vocabulary] only where the request asks for them."""

    id: int
    logprobs: mx.array | None
    finish_reason: str | None


@dataclass(slots=True, eq=False)
class Sequence:
    """A request in the batch. `tokens` were written and not read yet; `cached` is the length of the known prompt."""

    request: GenerationRequest
    uid: int
    cached: int
    tokens: list[GeneratedToken] = field(default_factory=list)
    ended: bool = False
    begun: bool = False


class SequenceBatch:
    """Sequences of one model, on the thread that owns MLX: each `step` writes one token of each."""

    def __init__(self, model: nn.Module, tokenizer: Any) -> None:
        generate, cache = import_module("generate"), import_module("models.cache")
        self._samplers = import_module("sample_utils")
        self._cache = cache
        self._generator = generate.BatchGenerator(
            model,
            stream=stream(),
            prefill_step_size=PREFILL_STEP,
            completion_batch_size=MAX_SEQUENCES,
            prefill_batch_size=1,
        )
        self._stop = generate.make_stop_sequences(tokenizer)
        self._remembered = cache.LRUPromptCache(max_size=MAX_CACHES, max_bytes=CACHE_BYTES)
        self._sequences: dict[int, Sequence] = {}

    def insert(self, request: GenerationRequest, *, max_tokens: int) -> Sequence:
        """Add a request, of which at most `max_tokens` are written.

        Tokens of its prompt that were read before, for the same owner, are not read again.
        """
        prompt = list(request.prompt)
        known, rest = self._remembered.fetch_nearest_cache(request.owner, prompt)
        if known is not None and not rest:  # the model must read one token to go on from it
            if self._cache.can_trim_prompt_cache(known):
                self._cache.trim_prompt_cache(known, 1)
                rest = prompt[-1:]
            else:
                known, rest = None, prompt
        cached, sampler = len(prompt) - len(rest), None
        if request.temperature != 0:
            choices = max(request.temperature, TINY), max(request.top_p, TINY), request.min_p
            sampler = self._samplers.make_sampler(*choices, top_k=request.top_k)
        (uid,) = self._generator.insert(
            [rest],
            max_tokens=[max_tokens],
            caches=None if known is None else [known],
            all_tokens=[prompt[:cached]],
            samplers=[sampler],
            logits_processors=[self._processors(request)],
            stop_sequences=[self._stop],
        )
        sequence = self._sequences[uid] = Sequence(request, uid, cached)
        return sequence

    def step(self) -> None:
        """Read a part of a prompt, and write one token of each sequence whose prompt is read."""
        begun = time.perf_counter()
        reading, responses = self._generator.next()
        seconds, size = time.perf_counter() - begun, self._generator.prefill_step_size
        if reading and seconds > TURN_SECONDS:
            self._generator.prefill_step_size = max(MIN_PREFILL_STEP, size // 2)
        elif reading and seconds < TURN_SECONDS / 4:
            self._generator.prefill_step_size = min(PREFILL_STEP, size * 2)
        for response in responses:
            sequence = self._sequences[response.uid]
            sequence.begun = True
            logprobs = None if sequence.request.logprobs is None else response.logprobs
            sequence.tokens.append(GeneratedToken(response.token, logprobs, response.finish_reason))
            if response.finish_reason is not None:
                sequence.ended = True
                self._remember(sequence, response.all_tokens, response.prompt_cache)

    def remove(self, sequence: Sequence) -> None:
        """Write no more of a sequence. What was read and written of it is remembered."""
        self._sequences.pop(sequence.uid, None)
        if not sequence.ended:
            sequence.ended = True
            removed = self._generator.remove([sequence.uid], return_prompt_caches=sequence.begun)
            for cache, tokens in removed.values():
                self._remember(sequence, tokens, cache)

    def _remember(self, sequence: Sequence, tokens: list[int], cache: list[Any]) -> None:
        if tokens:
            self._remembered.insert_cache(sequence.request.owner, list(tokens), cache)

    def _processors(self, request: GenerationRequest) -> list[Any]:
        processors: list[Any] = self._samplers.make_logits_processors(
            dict(request.logit_bias) or None,
            request.repetition_penalty if request.repetition_penalty != 1.0 else None,
            presence_penalty=request.presence_penalty or None,
            frequency_penalty=request.frequency_penalty or None,
        )
        return processors
