"""Speech tokens to samples while the tokens are still coming.

Each chunk of tokens is encoded and solved together with the recording and the last `window` tokens before it, since
attention looks both ways and no result can be kept. Only the frames at its end are new. Noise is drawn by absolute
frame, so that a frame has the same noise in every chunk. Three rules join the chunks without a seam:

* mel: the last frames of a chunk are held back and, when the next chunk has solved them again, crossfaded;
* excitation: frames that were heard or are crossfaded keep theirs, and the oscillators' phase goes on from it;
* samples: the vocoder hears enough frames before a chunk for its start to be exact, and its samples are crossfaded
  with those that the previous chunk had made of the frames held back.

The window bounds the cost of a chunk: without it, N tokens cost N^2. Encoder and decoder then attend to the recording
and the nearest `window` tokens, instead of to all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat

import numpy as np

from models.backend import bucket, mx, on_cpu
from models.chatterbox.config import FRAMES_PER_TOKEN
from models.chatterbox.s3gen.flow import Flow
from models.chatterbox.s3gen.level import cut_end, fade_in, loudest, mel_level, steady_gain
from models.chatterbox.s3gen.noise import Draw, NoiseAhead, frame_noise, random_phases
from models.chatterbox.s3gen.source import PITCH_REACH
from models.chatterbox.s3gen.vocoder import FRAME_BUCKETS, MAX_AMPLITUDE, Carried, Vocoder
from models.contract import AudioChunk, Cancelled, IsCancelled, Pcm
from models.layers.mel import Floats
from models.timeline import Stage, Timeline

LOOKAHEAD = 3  # tokens that the encoder hears beyond those it speaks
SCHEDULE = (12, 25, 50, 75)  # new tokens of each chunk; the last number repeats
WINDOW = 50  # tokens before a chunk that are computed again
HELD = 8  # frames of a chunk that wait for the next: 160 ms
# Held frames that keep their excitation; their samples are crossfaded. The pitch of the others is predicted again: it
# depends on later frames, and an error of pitch would shift the phase of all that follows.
FADE = HELD - PITCH_REACH
CONTEXT = 10  # frames before a chunk that the vocoder hears again; with 16, samples change by less than 1e-5


@dataclass(frozen=True, eq=False)
class Prompt:
    """Recording that S3Gen continues: `tokens` [P], `mel` [2P, mels], `speaker` [192]."""

    tokens: Sequence[int]
    mel: mx.array
    speaker: mx.array

    @cached_property
    def level(self) -> float:
        """Level of its speech in dB: see `mel_level`."""
        return mel_level(np.array(self.mel))[0]


class MelStream:
    """Mel frames of one sentence to samples, piece by piece; holds the state between the pieces."""

    def __init__(self, vocoder: Vocoder, seed: int) -> None:
        self._vocoder, self._seed = vocoder, seed
        self._phases = random_phases(seed, vocoder.harmonics)
        self._carried: Carried | None = None
        self._first = 0  # frame of _mel's first row
        self._mel: mx.array | None = None  # frames heard again, and those held back
        self._held: mx.array | None = None  # samples of the frames to crossfade
        self.place = 0  # frames spoken; the next piece begins here

    def speak(self, mel: mx.array, *, last: bool) -> mx.array:
        """Return the next samples [N], of mel [1, F, mels] from frame `place` on.

        All frames are spoken if it is the `last` piece, else all but HELD, which the next piece solves
        again. Raises ValueError for a piece that is not the last and not longer than HELD.
        """
        size = self._vocoder.samples_per_frame
        end = self.place + mel.shape[1]
        if mel.shape[1] <= (0 if last else HELD):
            raise ValueError(f"{mel.shape[1]} frames are too few to speak")
        if self._mel is not None:
            context = self.place - self._first
            old = self._mel[:, context:]
            held = min(old.shape[1], mel.shape[1])
            weight = _rise(held)[None, :, None]
            blended = old[:, :held] * (1 - weight) + mel[:, :held] * weight
            mel = mx.concatenate([self._mel[:, :context], blended, mel[:, held:]], axis=1)
        known = 0 if self._carried is None else self._carried.source.shape[1] // size
        noise = frame_noise(self._seed, Draw.EXCITATION, self._first + known, mel.shape[1] - known, size)
        spoken = self._vocoder(mel, self._phases, noise, self._carried)
        pcm = spoken.pcm[0, (self.place - self._first) * size :]
        if self._held is not None:
            faded = min(self._held.size, pcm.size)
            weight = _rise(faded)
            start = self._held[:faded] * (1 - weight) + pcm[:faded] * weight
            pcm = mx.concatenate([start, pcm[faded:]])
        if last:
            self.place = end
            return pcm
        stop = end - HELD
        samples, place = (stop - self.place) * size, max(0, stop - CONTEXT)
        ready = end - (HELD - FADE)  # frames from here on get their excitation from the next piece
        source = spoken.source[:, (place - self._first) * size : (ready - self._first) * size]
        turn = ready - self._first - known
        self._carried = Carried(source, spoken.turns[:, turn : turn + 1])
        self._held = pcm[samples : samples + FADE * size]
        self._mel, self._first, self.place = mel[:, place - self._first :], place, stop
        mx.async_eval(self._carried.source, self._carried.turns, self._held, self._mel)
        return pcm[:samples]


def _rise(count: int) -> mx.array:
    """Return `count` weights of a raised cosine from 0 to 1, neither end included."""
    return 0.5 - 0.5 * mx.cos(mx.arange(1, count + 1) * (np.pi / (count + 1)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechStreamer:
    """Tokens to samples with one flow and vocoder. Holds no state of a sentence.

    `schedule` says how many new tokens make each chunk, the last number repeating; `window` how many before them are
    computed again; `steps` of the flow (None: its own). `steady` holds the loudness to the recording's, `cut` cuts a
    noisy end off. Raises ValueError for chunks too short for what is held back.
    """

    flow: Flow
    vocoder: Vocoder
    schedule: tuple[int, ...] = SCHEDULE
    window: int = WINDOW
    steps: int | None = None
    steady: bool = True
    cut: bool = True

    def __post_init__(self) -> None:
        least = HELD // FRAMES_PER_TOKEN
        if any(size <= least for size in self.schedule) or self.window < least:
            raise ValueError(f"chunks must be longer than {least} tokens, and the window no shorter")

    def stream(
        self,
        tokens: Iterable[int | None],
        prompt: Prompt,
        seed: int,
        timeline: Timeline,
        cancelled: IsCancelled,
        *,
        whole: bool = False,
    ) -> Iterator[AudioChunk | None]:
        """Speak `tokens` as they come.

        Args:
            tokens: speech tokens, and None while the next is not known.
            prompt: the recording.
            seed: of the noise and the phases.
            timeline: gets the time of each stage.
            cancelled: asked before each stage and step.
            whole: speak all tokens as one chunk.

        Yields:
            Chunks of 960 samples a token together, less the cut end, and None where the thread may do other work. The
            last chunk is marked, and may be empty.

        Raises:
            Cancelled: if `cancelled` says so.
        """
        synthesis = _Synthesis(self, prompt, seed, timeline, cancelled)
        schedule = () if whole else self.schedule
        known: list[int] = []
        done = 0
        for token in tokens:
            if token is None:
                yield None
                continue
            if not known:
                synthesis.prepare()
            known.append(token)
            if schedule and len(known) >= done + schedule[0] + LOOKAHEAD:
                yield from synthesis.speak(known, done, last=False)
                done += schedule[0]
                schedule = schedule[1:] or schedule
        if known:
            yield from synthesis.speak(known, done, last=True)
        else:
            yield AudioChunk(np.zeros(0, dtype=np.float32))

    def vocoder_shapes(self, most: int) -> list[tuple[int, int]]:
        """Return the vocoder's shapes for sentences of up to `most` tokens: buckets of frames, and frames carried.

        For `Vocoder.warm` on a GPU; streamed or spoken as a whole.
        """
        shapes = set()
        for count in range(1, most + 1):
            done, first, known = 0, 0, 0
            sizes = chain(self.schedule, repeat(self.schedule[-1])) if self.schedule else repeat(most)
            for size in sizes:
                if count < done + size + LOOKAHEAD:
                    break
                done += size
                end = FRAMES_PER_TOKEN * done
                shapes.add((bucket(end - first, FRAME_BUCKETS), known))
                first = max(0, end - HELD - CONTEXT)
                known = end - (HELD - FADE) - first
            frames = FRAMES_PER_TOKEN * count
            shapes |= {(bucket(frames - first, FRAME_BUCKETS), known), (bucket(frames, FRAME_BUCKETS), 0)}
        return sorted(shapes)


def _compute(*arrays: mx.array) -> None:
    """Begin with arrays, and on a CPU wait for them: a stage takes long there, and other work may come after it.

    A GPU is sent the next stage meanwhile, so that it never waits for the host. The last stage waits for all of them.
    """
    (mx.eval if on_cpu() else mx.async_eval)(*arrays)


class _Synthesis:
    """State of one `SpeechStreamer.stream`."""

    def __init__(
        self, streamer: SpeechStreamer, prompt: Prompt, seed: int, timeline: Timeline, cancelled: IsCancelled
    ) -> None:
        self._streamer, self._prompt = streamer, prompt
        self._timeline, self._cancelled = timeline, cancelled
        self._wave = MelStream(streamer.vocoder, seed)
        self._loud, self._gain = 0.0, 0.0
        self._heard: list[Floats] = []
        mels = prompt.mel.shape[1]
        self._prompt_noise, self._noise = (NoiseAhead(seed, draw, mels) for draw in (Draw.PROMPT_MEL, Draw.MEL))

    def prepare(self) -> None:
        """Begin with what needs no tokens, while they are drawn."""
        self._prompt_noise.reserve(self._prompt.mel.shape[0])
        self._noise.reserve(1)

    def speak(self, known: list[int], done: int, *, last: bool) -> Iterator[AudioChunk | None]:
        """Speak the tokens after `done` of the known ones; a `last` chunk speaks all of them."""
        streamer, prompt, timeline = self._streamer, self._prompt, self._timeline
        start = max(0, done - streamer.window)
        self._check()
        with timeline.measure(Stage.S3GEN_ENCODE):
            mu = streamer.flow.encode(prompt.tokens, known[start:], finalize=last)
            mx.async_eval(mu)
            frames = mu.shape[1] - prompt.mel.shape[0]
            before = self._prompt_noise.frames(0, prompt.mel.shape[0])
            here = self._noise.frames(start * FRAMES_PER_TOKEN, frames)
            noise = mx.concatenate([before, here], axis=1)
            _compute(mu, noise)
        yield None
        states = streamer.flow.steps(mu, prompt.mel, prompt.speaker, noise, streamer.steps)
        state = mu
        while True:
            self._check()
            with timeline.measure(Stage.S3GEN_FLOW):
                following = next(states, None)
                if following is None:
                    break
                state = following
                _compute(state)
            yield None
        mel = state[:, prompt.mel.shape[0] + self._wave.place - start * FRAMES_PER_TOKEN :]
        self._check()
        with timeline.measure(Stage.VOCODER):
            spoken, size = self._wave.place, streamer.vocoder.samples_per_frame
            pcm = np.array(self._wave.speak(mel, last=last))
            pcm = self._finish(pcm, np.array(mel[0, : self._wave.place - spoken]), spoken * size, last)
        yield AudioChunk(pcm, last=last)

    def _finish(self, pcm: Pcm, mel: Floats, place: int, last: bool) -> Pcm:
        """Finish a chunk's samples, of which the first is sample `place` and whose frames are `mel` [F, mels]."""
        if self._streamer.steady:
            pcm = self._steady(pcm, mel)
        pcm = fade_in(pcm, place)
        if self._streamer.cut:
            self._loud = max(self._loud, loudest(pcm))
            if last:
                pcm = cut_end(pcm, self._loud)
        return pcm

    def _steady(self, pcm: Pcm, mel: Floats) -> Pcm:
        """Hold the loudness of pcm: the gain moves in a straight line to the one that all frames so far give."""
        self._heard.append(mel)
        before, self._gain = self._gain, steady_gain(self._prompt.level, *mel_level(np.concatenate(self._heard)))
        if before in (0.0, self._gain):
            curve = np.full(1, self._gain, dtype=np.float32)
        else:
            curve = np.linspace(before, self._gain, len(pcm), dtype=np.float32)
        louder: Pcm = np.clip(pcm * curve, -MAX_AMPLITUDE, MAX_AMPLITUDE)
        return louder

    def _check(self) -> None:
        if self._cancelled():
            raise Cancelled("cancelled while speaking")
