"""Loudness of voices after EBU R 128, and the gain that brings each of them to one target."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final

import av
from av.filter import Graph

from app.audio.pcm import amplify
from models.contract import AudioChunk, Pcm

# Seconds of a voice's speech that are measured. Its gain then stays.
MEASURED: Final = 30.0
# Voices of a client whose loudness is kept.
MAX_VOICES: Final = 64
# Largest change of the level, in decibels.
MAX_CHANGE: Final = 20.0
# Loudness of an FFmpeg filter that has measured no sound yet: the absolute gate of ITU-R BS.1770.
_NO_SOUND: Final = -70.0


class LoudnessMeter:
    """Integrated loudness of mono samples in LUFS, by FFmpeg's filter `ebur128` (ITU-R BS.1770, EBU Tech 3341)."""

    def __init__(self, sample_rate: int) -> None:
        self.loudness: float | None = None
        """LUFS of what was measured. None: no sound of 0.4 s yet."""
        self._rate = sample_rate
        self._count = 0
        self._graph: Graph | None = Graph()
        source = self._graph.add_abuffer(format="flt", sample_rate=sample_rate, layout="mono")
        meter, sink = self._graph.add("ebur128", "metadata=1"), self._graph.add("abuffersink")
        source.link_to(meter)
        meter.link_to(sink)
        self._graph.configure()

    def push(self, pcm: Pcm) -> None:
        """Measure float32 [samples] that follow the last ones, up to MEASURED seconds in all. Not thread-safe."""
        if self._graph is None or not pcm.size:
            return
        frame = av.AudioFrame.from_ndarray(pcm[None], format="flt", layout="mono")
        frame.sample_rate, frame.pts = self._rate, self._count
        self._count += pcm.size
        self._graph.push(frame)
        while True:
            try:
                measured = float(self._graph.pull().metadata["lavfi.r128.I"])
            except (av.BlockingIOError, av.EOFError):
                break
            self.loudness = measured if measured > _NO_SOUND else None
        if self._count > MEASURED * self._rate and self.loudness is not None:
            self._graph = None


class Leveller:
    """Gain of voices: each speaks at the target. The last MAX_VOICES of each client are known.

    Clients share nothing: what one has a voice speak must not change its level for others.
    """

    def __init__(self, target: float, run: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        """`target` in LUFS. `run` runs a function on a thread, one after the other."""
        self._target = target
        self._run = run
        self._meters: dict[str | None, OrderedDict[tuple[str, str], LoudnessMeter]] = {}

    async def level(
        self, chunks: AsyncIterator[AudioChunk], client: str | None, voice: tuple[str, str], sample_rate: int
    ) -> AsyncIterator[AudioChunk]:
        """Yield the audio of a sentence at the target.

        The first sentence of a voice comes once it is whole: nothing else tells how loud the voice is. Later ones come
        at once, with the gain of what the voice spoke before. `client`: name of the key; None: there are no keys.
        `voice`: model and voice that speak it.
        """
        meters = self._meters.setdefault(client, OrderedDict())
        if voice not in meters:
            meters[voice] = LoudnessMeter(sample_rate)
        meters.move_to_end(voice)
        meter = meters[voice]
        if len(meters) > MAX_VOICES:
            meters.popitem(last=False)
        if meter.loudness is None:
            sentence = [chunk async for chunk in chunks]
            for chunk in sentence:
                await self._run(partial(meter.push, chunk.pcm))
            for chunk in sentence:
                yield self._louder(chunk, meter.loudness)
            return
        loudness = meter.loudness
        async for chunk in chunks:
            yield self._louder(chunk, loudness)
            await self._run(partial(meter.push, chunk.pcm))

    def _louder(self, chunk: AudioChunk, loudness: float | None) -> AudioChunk:
        change = 0.0 if loudness is None else min(max(self._target - loudness, -MAX_CHANGE), MAX_CHANGE)
        return replace(chunk, pcm=amplify(chunk.pcm, 10 ** (change / 20)))
