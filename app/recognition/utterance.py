"""One utterance while it is spoken: what of its text is final, and which of its audio must be recognized again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from app.audio.vad import SAMPLE_RATE
from app.recognition.agreement import LocalAgreement, Policy, Words, join, words_of
from models.contract import (
    ModelRequestError,
    RecognitionRequest,
    RecognizedSegment,
    RecognizedToken,
    RecognizedWord,
    Recognizer,
)
from models.timeline import Timeline

# Seconds of audio after which what is final leaves the buffer at the end of a sentence, and after which at any word.
TRIM: Final = 10.0
MAX_WINDOW_SECONDS: Final = 15.0
# Seconds at the end of the audio whose words are never forced to be final: they may be half spoken.
UNSURE: Final = 1.5
# Seconds of audio that stay where nothing was recognized.
KEPT: Final = 1.0
# Seconds of audio after a voice that a recognizer needs to hear its end.
MARGIN: Final = 0.1
# Compression of a text above which it repeats itself, and mean log-probability below which it is guessed.
LOOP: Final = 2.4
GUESS: Final = -1.0
# Characters of earlier text that are told the recognizer: a longer prompt may lock it in repetitions.
PROMPT: Final = 200
_SENTENCE_ENDS: Final = (".", "?", "!", "\u3002", "\uff1f", "\uff01", "\u2026")


class OpenUtterance:
    """Utterance `number`. Samples count from the first of the stream; those before `begin` need not be read again.

    `end`: sample at which it ended; None: it is being spoken. `covered`: sample to which the last hypothesis reaches.
    `heard`: sample at which its last voice ends. `voiced`: whether enough of a voice was heard. `timeline`: times of
    all its hypotheses. `unsure`: text of the last one was left out, as the model does not know the voice. `ended`:
    moment (perf_counter) at which its end was known.
    """

    def __init__(self, number: int, start: int, policy: Policy | None = None) -> None:
        self.number, self.start, self.begin = number, start, start
        self.end: int | None = None
        self.covered = self.heard = start
        self.voiced = self.unsure = False
        # First sample of each voice, and the one behind its last; None: it goes on.
        self._voices: list[tuple[int, int | None]] = []
        self.timeline = Timeline()
        self.ended = 0.0
        self.language: str | None = None
        self._agreement = LocalAgreement() if policy is None else policy
        self._settled: Words = []
        self._segments: list[RecognizedSegment] = []
        # Segments of the last hypothesis, if they are those of the audio from `begin` on.
        self._last: Sequence[RecognizedSegment] | None = None

    @property
    def last(self) -> Sequence[RecognizedSegment] | None:
        """Segments of the last hypothesis, if nothing was said after it: those of the final text."""
        return self._last if self.covers(self.covered) and is_plausible(self._last or ()) else None

    @property
    def words(self) -> tuple[RecognizedWord, ...]:
        """All words of the last hypothesis."""
        return (*self._settled, *self._agreement.agreed, *self._agreement.pending)

    @property
    def committed(self) -> str:
        """Text that will not change."""
        return join((*self._settled, *self._agreement.agreed))

    @property
    def pending(self) -> str:
        """Text after the committed one, which may change; with the space between the two."""
        return join(self.words)[len(self.committed) :]

    def request(self, whole: RecognitionRequest, recognizer: Recognizer) -> RecognitionRequest:
        """Return the request for a hypothesis: `whole`, which has the audio from `begin` on, with what is known of it.

        Earlier text is a prompt. Final words are a prefix where the policy continues them and the model takes so much
        audio; else the last hypothesis is a draft.
        """
        earlier = join(self._settled)[-PROMPT:]
        request = replace(whole, prompt=" ".join(filter(None, (whole.prompt, earlier))))
        known = self._agreement
        if known.continues:
            text = join(known.agreed)
            prefix = recognizer.encode_text(text) if text else ()
            continued = replace(request, temperature=0.0, prefix=prefix, word_times=True)
            try:
                recognizer.check(continued)
            except ModelRequestError:
                pass  # more audio than one window
            else:
                return continued
        text = join((*known.agreed, *known.pending))
        draft = recognizer.encode_text(text) if text else ()
        # Times tell where the audio of final words ends.
        word_times = whole.word_times or whole.pcm.size > TRIM * SAMPLE_RATE
        return replace(request, draft=draft, word_times=word_times)

    def speak(self, begin: int, voice: int) -> None:
        """Note that a voice starts at sample `voice`; the silence before `begin` is not read if it is the first one."""
        if not self.voiced:
            self.voiced, self.begin = True, max(self.begin, begin)
        self._voices.append((voice, None))

    def pause(self, sample: int) -> None:
        """Note that the voice ends before a sample."""
        if self._voices:
            start, _ = self._voices.pop()
            self._voices.append((start, max(start + 1, sample)))

    def voices(self, end: int) -> tuple[tuple[int, int], ...]:
        """Return the spans of voice in the audio from `begin` to `end`, counted from `begin`."""
        spans = ((max(a, self.begin), end if b is None else min(b, end)) for a, b in self._voices)
        return tuple((a - self.begin, b - self.begin) for a, b in spans if a < b)

    @property
    def ends_sentence(self) -> bool:
        """Whether the text ends with a sentence, and nothing was said after it."""
        return self.covers(self.covered) and join(self.words).endswith(_SENTENCE_ENDS)

    def covers(self, sample: int) -> bool:
        """Whether a hypothesis that reaches to `sample` has heard all that was said."""
        return sample >= self.heard + MARGIN * SAMPLE_RATE or (self.end is not None and sample >= self.end)

    def take(self, segments: Sequence[RecognizedSegment], covered: int) -> None:
        """Take a hypothesis: segments of the audio from `begin` to sample `covered`, their times in the stream."""
        self.covered, self._last = covered, segments
        self._note_language(segments)
        words = list(words_of(segments))
        self._agreement.push(words, covered / SAMPLE_RATE)
        if covered - self.begin > TRIM * SAMPLE_RATE:
            self._trim(segments, words)

    def skip(self, to: int) -> None:
        """Let the audio up to sample `to` leave the buffer: nothing is said after the last hypothesis."""
        agreement = self._agreement
        words = agreement.cut(len(agreement.agreed) + len(agreement.pending))
        if words:
            self._segments += _segment(words, self._last or (), self.language)
            self._settled += words
        self.covered = to
        self._drop(to - round(KEPT * SAMPLE_RATE))

    def _drop(self, before: int) -> None:
        self.begin, self._last = max(self.begin, before), None

    def finish(self, segments: Sequence[RecognizedSegment]) -> tuple[str, tuple[RecognizedSegment, ...]]:
        """Return the final text and its segments, from those of the audio from `begin` to the end."""
        self._note_language(segments)
        words = list(words_of(segments))
        agreed = self._agreement.agreed
        rest = self._agreement.beyond(words)
        if join([*agreed, *rest]) == join(words):
            result = list(segments)
        else:
            result = _segment([*agreed, *rest], segments, self.language) if agreed or rest else []
        return join([*self._settled, *agreed, *rest]), (*self._segments, *result)

    def _note_language(self, segments: Sequence[RecognizedSegment]) -> None:
        if segments:
            self.language = segments[0].language

    def _trim(self, segments: Sequence[RecognizedSegment], words: Words) -> None:
        """Let the audio of words that are final leave the buffer, if there is too much of it."""
        agreement = self._agreement
        full = self.covered - self.begin > MAX_WINDOW_SECONDS * SAMPLE_RATE
        count = _last_sentence(agreement.agreed, segments)
        if not count and full:
            sure = self.covered / SAMPLE_RATE - UNSURE
            count = len(agreement.agreed) or sum(1 for _ in takewhile(lambda word: word.end <= sure, words))
            if not count and not words:
                self._drop(self.covered - round(KEPT * SAMPLE_RATE))
        if not count:
            return
        # Times of the last hypothesis: those of a shorter one end where its audio did.
        place = agreement.place(count, words) if agreement.agreed else count
        cut = words[place - 1].end if place else agreement.agreed[count - 1].end
        gone = agreement.cut(count)
        self._segments += _segment(gone, segments, self.language)
        self._settled += gone
        self._drop(min(round(cut * SAMPLE_RATE), self.covered))


def is_plausible(segments: Iterable[RecognizedSegment]) -> bool:
    """Whether a text looks like speech: not a loop, and not a guess (openai-whisper's thresholds)."""
    return all(segment.compression <= LOOP and segment.mean_logprob >= GUESS for segment in segments)


def _last_sentence(agreed: Words, segments: Sequence[RecognizedSegment]) -> int:
    """Return how many agreed words there are to the end of the last sentence or segment among them."""
    ends = {round(segment.end, 2) for segment in segments}
    for count in range(len(agreed), 0, -1):
        word = agreed[count - 1]
        if word.text.rstrip().endswith(_SENTENCE_ENDS) or round(word.end, 2) in ends:
            return count
    return 0


def _segment(words: Words, segments: Sequence[RecognizedSegment], language: str | None) -> list[RecognizedSegment]:
    """Return a segment with these words of a hypothesis. It has their tokens if the hypothesis begins with them."""
    text = "".join(word.text for word in words)
    if not segments:
        return [RecognizedSegment(words[0].start, words[-1].end, text, language or "")]
    timed = tuple(words) if any(segment.words for segment in segments) else ()
    result = replace(segments[0], start=words[0].start, end=words[-1].end, text=text, words=timed, tokens=())
    if not "".join(segment.text for segment in segments).startswith(text):
        return [result]
    tokens: list[RecognizedToken] = []
    left = len(text.encode())
    for token in (token for segment in segments for token in segment.tokens):
        if left <= 0:
            break
        tokens.append(token)
        left -= len(token.text)
    return [replace(result, tokens=tuple(tokens))]
