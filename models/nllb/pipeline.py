"""Sentences to translations: grouping, search, and a second try where a translation is visibly wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from models.backend import bucket, mx, on_cpu, token_model_dtype
from models.checkpoint import read_arrays
from models.contract import (
    Hypothesis,
    InputTooLongError,
    IsCancelled,
    ModelRequestError,
    ModelSpec,
    Progress,
    Translation,
    TranslationRequest,
    WeightsError,
    warm_up,
)
from models.native import kernels
from models.native.transformer import GROUP, weight_bits
from models.nllb import repair, search, steps
from models.nllb.config import NllbConfig, load_config
from models.nllb.network import Nllb
from models.nllb.search import Finished, TranslationHypothesis, TranslationTask
from models.nllb.steps import (
    BATCH_BUCKETS,
    DRAFT_BUCKETS,
    MAX_TOKENS,
    SOURCE_BUCKETS,
    CompiledM2M100,
    length_cap,
)
from models.nllb.text import NllbTokenizer, TranslationTokenizer
from models.nllb.vocabulary import OutputProjection
from models.nllb.weights import load_weights
from models.timeline import Stage, Timeline

if TYPE_CHECKING:
    from models.nllb.coverage import Coverage

logger = logging.getLogger(__name__)

MAX_BATCH = 32
MAX_BEAMS = 8


def load(spec: ModelSpec) -> NllbTranslator:
    """Load a checkpoint: spec.files has "config", "weights", "tokenizer"; "coverage" of a demonstrator.

    M2M-100 and SMaLL-100 have "vocabulary" too, and a SentencePiece model as "tokenizer".

    The CPU computes in float32; with `spec.dtype` bfloat16 its native kernels read weights in it. Raises WeightsError.
    """
    config = load_config(spec.files["config"])
    tokenizer = _tokenizer(spec, config)
    coverage = None
    if "coverage" in spec.files:
        from models.nllb.coverage import Coverage

        coverage = Coverage.read(Path(spec.files["coverage"]))
    if spec.bits not in (0, 4, 8):
        raise WeightsError(f"{spec.name}: weights can have 4 or 8 bits (0: as they are), not {spec.bits}")
    if spec.bits and any(width % GROUP for width in (config.d_model, config.encoder_ffn_dim, config.decoder_ffn_dim)):
        raise WeightsError(f"{spec.name}: only widths that are multiples of {GROUP} can be quantized")
    if on_cpu() and spec.bits and not kernels.available():
        logger.warning("%s: weights of %d bits are slower on this CPU, not faster", spec.name, spec.bits)
    network = Nllb(config)
    dtype = token_model_dtype(spec.dtype)
    load_weights(network, read_arrays(spec.files["weights"]), spec.files["weights"], dtype)
    network.lower(weight_bits(spec.dtype, spec.bits))
    # A demonstrator's vocabulary is as short as a shortlist, and not in the order of frequency.
    shortlist = spec.shortlist if coverage is None else 0
    return NllbTranslator(config, network, tokenizer, coverage=coverage, shortlist=shortlist)


def _tokenizer(spec: ModelSpec, config: NllbConfig) -> TranslationTokenizer:
    if "vocabulary" not in spec.files:
        return NllbTokenizer(spec.files["tokenizer"], config)
    from models.nllb.m2m100 import M2m100Tokenizer  # loads SentencePiece

    model, vocabulary = spec.files["tokenizer"], spec.files["vocabulary"]
    return M2m100Tokenizer(model, vocabulary, config, target_first=spec.target_first)


@dataclass(slots=True)
class _SourceText:
    """One text to translate. With `capitals` it was in capitals, and its translation will be.

    `guarded` texts get the draft and the repair of capitals; clauses of a second try do not. `first` holds the first
    try's translations.
    """

    index: int
    request: TranslationRequest
    text: str
    source: list[int]
    capitals: bool = False
    guarded: bool = True
    first: list[TranslationHypothesis] = field(default_factory=list)


class NllbTranslator:
    """A loaded NLLB. Implements `models.contract.Translator`.

    On a GPU shapes are padded to buckets, since each new shape is compiled there. Translations equal the unpadded ones.
    On the CPU a new shape costs nothing: nothing is padded, unless `padded` is true.
    """

    max_batch = MAX_BATCH

    def __init__(
        self,
        config: NllbConfig,
        network: Nllb,
        tokenizer: TranslationTokenizer,
        *,
        coverage: Coverage | None = None,
        shortlist: int = 0,
        padded: bool | None = None,
    ) -> None:
        self.config, self.network, self.tokenizer = config, network, tokenizer
        self.languages: list[str] = list(tokenizer.languages)
        self._coverage, self._shortlist = coverage, shortlist
        self._padded = not on_cpu() if padded is None else padded
        self.compiled = CompiledM2M100(network, padded=self._padded)
        self._heads: dict[str, OutputProjection] = {}

    def targets(self, source: str) -> list[str]:
        """Return the languages, without `source` itself, to which it translates from `source`."""
        if self._coverage is not None:
            return [target for one, target in self._coverage.pairs if one == source]
        return [language for language in self.languages if language != source]

    def check(self, request: TranslationRequest) -> None:
        """Raise ModelRequestError for a request that this model cannot serve. Safe on any thread; touches no array."""
        self.tokenizer.language(request.source)
        self.tokenizer.language(request.target)
        if not 1 <= request.beams <= MAX_BEAMS:
            raise ModelRequestError(f"beams must be between 1 and {MAX_BEAMS}, not {request.beams}")
        if not 0 <= request.alternatives < request.beams:
            raise ModelRequestError(
                f"alternatives must be fewer than the {request.beams} beams, not {request.alternatives}"
            )
        if request.draft and request.beams > 1:
            raise ModelRequestError("a draft is verified by greedy search: it takes beams=1")
        count = len(self._encode(request, request.text))
        if count > self.config.max_position_embeddings:
            raise InputTooLongError(
                f"{count} tokens in one sentence; at most {self.config.max_position_embeddings} are accepted"
            )
        if self._coverage is not None and request.text.strip():
            self._coverage.check(request.text, request.source, request.target)

    def translate(
        self, batch: Sequence[TranslationRequest], timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[Translation | None]:
        """Yield each translation as soon as it is complete, None every few steps.

        A translation that loops gets a second try without repeated n-grams; one that is much too short, a second try
        clause by clause. Text in capitals is translated in ordinary letters. Raises ModelRequestError before the first
        item, Cancelled between steps.
        """
        if len(batch) > self.max_batch:
            raise ModelRequestError(f"{len(batch)} sentences in one batch; at most {self.max_batch} are accepted")
        for request in batch:
            self.check(request)
        works = []
        for index, request in enumerate(batch):
            if request.text.strip():
                works.append(self._prepare(index, request, request.text))
            else:
                yield Translation(index, Hypothesis(request.text, float("nan")))
        again: list[_SourceText] = []
        short: list[_SourceText] = []
        for item in self._search(works, 0, timeline, cancelled):
            if item is None:
                yield None
                continue
            work, found = item
            looped = found[0].stopped or repair.loops(found[0].tokens)
            if looped and not repair.has_loop(work.source):
                work.first = found
                again.append(work)
            elif repair.too_short(len(found[0].tokens), len(work.source) - 2) and len(repair.clauses(work.text)) > 1:
                work.first = found
                short.append(work)
            else:
                yield self._translation(work, found)
        for item in self._search(again, repair.NO_REPEAT, timeline, cancelled):
            yield None if item is None else self._translation(item[0], self._unlooped(*item))
        yield from self._by_clauses(short, timeline, cancelled)

    def _encode(self, request: TranslationRequest, text: str) -> list[int]:
        return self.tokenizer.encode(text, request.target if self.tokenizer.target_first else request.source)

    def _prepare(self, index: int, request: TranslationRequest, text: str, *, guarded: bool = True) -> _SourceText:
        capitals = guarded and self._coverage is None and repair.is_capitals(text)
        if capitals:
            text = repair.sentence_case(text, request.source)
        source = self._encode(request, text)
        if len(source) > self.config.max_position_embeddings:  # ordinary letters may be more tokens than capitals
            capitals, text = False, request.text
            source = self._encode(request, text)
        return _SourceText(index, request, text, source, capitals, guarded)

    def _sentence(self, work: _SourceText, ngram: int) -> TranslationTask:
        limit = length_cap(len(work.source), self.config.max_position_embeddings)
        draft = []
        for token in work.request.draft if not ngram and work.guarded else ():
            if not 0 <= token < self.config.vocab_size:
                break
            draft.append(token)
        should_stop = repair.loops if not repair.has_loop(work.source) else (lambda _tokens: False)
        target = None if self.tokenizer.target_first else self.tokenizer.language(work.request.target)
        return TranslationTask(work.source, target, limit, draft, should_stop)

    def _search(
        self, works: Sequence[_SourceText], ngram: int, timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[tuple[_SourceText, list[TranslationHypothesis]] | None]:
        """Search for all of `works`, in groups of one pass each, short ones first."""
        for members in self._groups(works, ngram):
            sentences = [self._sentence(work, ngram) for work in members]
            beams = members[0].request.beams
            longest = max(sentence.limit for sentence in sentences)
            with timeline.measure(Stage.TRANSLATE_ENCODE):
                sources = [work.source for work in members]
                group = self.compiled.encode(sources, self._head(members[0].request.target), longest, beams)
                found: Iterator[Finished | None]
                if beams > 1:
                    found = search.beam(self.compiled, group, sentences, beams, cancelled, ngram=ngram)
                elif ngram:
                    found = search.greedy_no_repeat(self.compiled, group, sentences, ngram, cancelled)
                else:
                    found = search.greedy(self.compiled, group, sentences, cancelled)
                group.wait()
            while True:
                with timeline.measure(Stage.TRANSLATE_DECODE):
                    try:
                        item = next(found)
                    except StopIteration:
                        break
                yield None if item is None else (members[item[0]], item[1])

    def _groups(self, works: Sequence[_SourceText], ngram: int) -> list[list[_SourceText]]:
        """Group sentences of similar length, equal beams and one shortlist; a sentence with a draft is alone."""
        groups: list[list[_SourceText]] = []
        open_: dict[tuple[int, str], list[_SourceText]] = {}
        for work in sorted(works, key=lambda work: len(work.source)):
            beams = work.request.beams
            alone = bool(work.request.draft) and not ngram and work.guarded
            key = (beams, self._script(work.request.target))
            group = open_.get(key)
            size = len(work.source)
            if self._padded:
                size = bucket(size, SOURCE_BUCKETS)
            if (
                group is None
                or alone
                or (len(group) + 1) * beams > max(MAX_BATCH, beams)
                or (len(group) + 1) * beams * size > max(MAX_TOKENS, beams * size)
                or size > 4 * len(group[0].source) + 16
            ):
                group = []
                groups.append(group)
                if not alone:
                    open_[key] = group
            group.append(work)
        return groups

    def _script(self, target: str) -> str:
        return target[4:] if self._shortlist else ""

    def _head(self, target: str) -> OutputProjection:
        """Return the projection for the language `target`: onto its script's shortlist, or onto all tokens."""
        script = self._script(target)
        if script not in self._heads:
            ids = self.tokenizer.shortlist(script, self._shortlist) if script else None
            self._heads[script] = self.network.shared.head(ids, self._shortlist, self.tokenizer.unused)
        return self._heads[script]

    def _unlooped(self, work: _SourceText, found: list[TranslationHypothesis]) -> list[TranslationHypothesis]:
        """Return the second try or, if that loops too, the first with its repetition cut to one occurrence."""
        if not repair.loops(found[0].tokens) and found[0].ended:
            for kept, first in zip(found, work.first, strict=False):
                kept.accepted = first.accepted
            return found
        best = work.first[0]
        return [
            TranslationHypothesis(repair.cut_loop(best.tokens), best.score, accepted=best.accepted),
            *work.first[1:],
        ]

    def _by_clauses(
        self, works: Sequence[_SourceText], timeline: Timeline, cancelled: IsCancelled
    ) -> Iterator[Translation | None]:
        """Translate each clause of `works` on its own; keep the first try where that gives no more tokens."""
        clauses = {work.index: repair.clauses(work.text) for work in works}
        parts = {work.index: [""] * len(clauses[work.index]) for work in works}
        tokens = dict.fromkeys(parts, 0)
        pieces = [(work, k) for work in works for k in range(len(clauses[work.index]))]
        queue = [
            self._prepare(n, work.request, clauses[work.index][k], guarded=False) for n, (work, k) in enumerate(pieces)
        ]
        for item in self._search(queue, 0, timeline, cancelled):
            if item is None:
                yield None
                continue
            piece, found = item
            work, k = pieces[piece.index]
            best = repair.cut_loop(found[0].tokens)
            parts[work.index][k] = self.tokenizer.decode(best)
            tokens[work.index] += len(best)
        for work in works:
            whole = self._translation(work, work.first)
            if tokens[work.index] > len(work.first[0].tokens):
                text = repair.rejoin(parts[work.index], clauses[work.index], work.request.target)
                text = repair.capitals(text, work.request.target) if work.capitals else text
                whole = Translation(work.index, Hypothesis(text, float("nan")), (), len(work.source))
            yield whole

    def _translation(self, work: _SourceText, found: Sequence[TranslationHypothesis]) -> Translation:
        """Return a search's result in the contract's form, without alternatives of the same text."""
        shown: list[Hypothesis] = []
        for one in found:
            text = self.tokenizer.decode(one.tokens)
            text = repair.capitals(text, work.request.target) if work.capitals else text
            if all(text != other.text for other in shown):
                shown.append(Hypothesis(text, one.score, tuple(one.tokens)))
        others = tuple(shown[1 : 1 + work.request.alternatives])
        return Translation(work.index, shown[0], others, len(work.source), found[0].accepted)

    def warm(self, progress: Progress) -> None:
        """Run every shape that requests can need; on the CPU, where shapes cost nothing, one of each kind."""
        limit = self.config.max_position_embeddings
        sizes = [size for size in SOURCE_BUCKETS if size < limit] + [limit]
        shapes = [(batch, size) for size in sizes for batch in BATCH_BUCKETS if batch * size <= max(MAX_TOKENS, size)]
        if not self._padded:
            shapes = [(2, min(16, limit))]
        head = self._head(self.languages[0])
        warm_up(
            [(f"batch={batch} source={size}", partial(self._warm, batch, size, head)) for batch, size in shapes],
            progress,
        )

    def _warm(self, batch: int, size: int, head: OutputProjection) -> None:
        """Run encoder, prompt, step and candidates of one shape; with a batch of one, also drafts of every length."""
        longest = length_cap(size, self.config.max_position_embeddings)
        run = self.compiled.encode([[steps.PAD] * size] * batch, head, longest)
        start = 1 if self.tokenizer.target_first else 2
        prompt, token = np.full((batch, start), steps.END, np.int32), np.full((batch, 1), steps.END, np.int32)
        order = mx.arange(batch)
        following, place = self.compiled.step(mx.array(prompt), mx.array([0]), run)
        mx.eval(self.compiled.step(following[:, None], place, run), run.past)
        mx.eval(self.compiled.best(mx.array(prompt), mx.array([0]), order, run))
        mx.eval(self.compiled.best(mx.array(token), mx.array([start]), order, run))
        if batch == 1 or not self._padded:
            room = run.past[0].shape[2]
            for length in [n for n in DRAFT_BUCKETS if n < room] + [room]:
                draft = mx.full((run.rows, length), steps.PAD, dtype=mx.int32)
                mx.eval(self.compiled.verify(draft, mx.array([0]), run))
        if batch > 1:
            run.select(list(range(batch // 2)))
            mx.eval(run.past, run.memory)
