"""Encoding on another thread, where it takes longer than the switch of threads."""

from __future__ import annotations

import asyncio

from app.audio.encoders import Encoder, Float32

# Two seconds at 24 kHz: some tens of microseconds for encoders that only round.
INLINE_SAMPLES = 48_000


async def encode(encoder: Encoder, pcm: Float32 | None, *, last: bool = False) -> bytes:
    """Return `pcm` encoded, and the end of the stream with `last` or without `pcm`."""

    def work() -> bytes:
        begun = b"" if pcm is None else encoder.encode(pcm)
        return begun + encoder.finish() if last or pcm is None else begun

    if encoder.quick and (pcm is None or pcm.size <= INLINE_SAMPLES):
        return work()
    return await asyncio.to_thread(work)
