"""Parts of a recording that are recognized at once: one pass of the decoder reads the windows of all of them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from models.backend import mx
from models.whisper.decoding import Decoded, DecodingOptions
from models.whisper.steps import Memory

DecodeWindows = Callable[[Memory, DecodingOptions], Generator[None, None, list[Decoded]]]

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Window:
    """An encoded window that waits to be decoded, and its transcript."""

    memory: Memory
    found: Decoded | None = None


class Batch:
    """Windows of several parts. Those with the same options are decoded together by `decode_windows`.

    Greedy tokens of each are those that it has alone, where rounding does not decide between two of them.
    """

    def __init__(self, decode_windows: DecodeWindows) -> None:
        self._decode_windows = decode_windows
        self._waiting: dict[DecodingOptions, list[_Window]] = defaultdict(list)
        self._asked = 0

    def decode(self, memory: Memory, options: DecodingOptions) -> Generator[None, None, Decoded]:
        """Wait until `together` has decoded this window, at temperature 0."""
        window = _Window(memory)
        self._waiting[options].append(window)
        self._asked += 1
        while window.found is None:
            yield
        return window.found

    def together(self, runs: Sequence[Iterator[T | None]]) -> Iterator[T | None]:
        """Yield the items of all runs, those of the first first, and None where the thread may turn to other work.

        Each run goes on until it waits for the decoder or ends; then all that wait are decoded.
        """
        found: list[deque[T]] = [deque() for _ in runs]
        live = dict(enumerate(runs))
        place = 0
        while live:
            for number, run in list(live.items()):
                asked = self._asked
                for item in run:
                    if item is not None:
                        found[number].append(item)
                    elif self._asked > asked:
                        break
                    else:
                        yield None
                else:
                    del live[number]
            while place < len(runs):
                while found[place]:
                    yield found[place].popleft()
                if place in live:
                    break
                place += 1
            yield from self._decode()

    def _decode(self) -> Iterator[None]:
        waiting, self._waiting = self._waiting, defaultdict(list)
        for options, windows in waiting.items():
            memories = zip(*(window.memory for window in windows), strict=True)
            memory = windows[0].memory if len(windows) == 1 else [mx.concatenate(list(parts)) for parts in memories]
            transcripts = yield from self._decode_windows(memory, options)
            for window, transcript in zip(windows, transcripts, strict=True):
                window.found = transcript
