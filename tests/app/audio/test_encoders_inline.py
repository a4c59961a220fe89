"""Place of encoding: the event loop's thread, only while that is short."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

from app.audio.encoders import FORMATS, INLINE_SAMPLES, encode, make_encoder


class Thread:
    """An encoder that says which thread it was called on."""

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick

    def encode(self, pcm: np.ndarray) -> bytes:
        return b"here " if threading.current_thread() is threading.main_thread() else b"there "

    def finish(self) -> bytes:
        return self.encode(np.empty(0)) + b"end"


def encoded(encoder: Thread, samples: int | None, *, last: bool = False) -> bytes:
    pcm = None if samples is None else np.zeros(samples, np.float32)
    return asyncio.run(encode(encoder, pcm, last=last))


@pytest.mark.parametrize(
    ("quick", "samples", "where"),
    [(True, INLINE_SAMPLES, b"here "), (True, INLINE_SAMPLES + 1, b"there "), (False, 1, b"there ")],
)
def test_only_what_is_short_is_done_at_once(quick: bool, samples: int, where: bytes) -> None:
    assert encoded(Thread(quick=quick), samples) == where
    assert encoded(Thread(quick=quick), samples, last=True) == where + where + b"end"


@pytest.mark.parametrize(("quick", "where"), [(True, b"here "), (False, b"there ")])
def test_the_end_of_a_stream(quick: bool, where: bytes) -> None:
    assert encoded(Thread(quick=quick), None) == where + b"end"


def test_who_is_quick() -> None:
    assert {name for name in FORMATS if make_encoder(name, 24_000, 24_000).quick} == {"pcm", "wav"}
    assert not make_encoder("wav", 24_000, 16_000).quick
