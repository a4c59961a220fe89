"""Parts of a recording that are recognized at once: encoder and decoder take the windows of all of them together."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from models.backend import mx
from models.layers.mel import Floats
from models.whisper.decoding import Decoded, DecodingOptions
from models.whisper.steps import Memory

EncodeWindows = Callable[[Sequence[Floats]], Generator[None, None, list[Memory]]]
DecodeWindows = Callable[[Memory, DecodingOptions], Generator[None, None, list[Decoded]]]

T = TypeVar("T")
Given = TypeVar("Given")
Found = TypeVar("Found")


@dataclass(slots=True, eq=False)
class _Wait(Generic[Given, Found]):
    """A window that waits, and what it waits for."""

    given: Given
    found: Found | None = None

    def until_found(self) -> Generator[None, None, Found]:
        while self.found is None:
            yield
        return self.found


class Batch:
    """Windows of several parts. All are encoded together, and those with the same options decoded together.

    Greedy tokens of each are those that it has alone, where rounding does not decide between two of them.
    """

    def __init__(self, encode_windows: EncodeWindows, decode_windows: DecodeWindows) -> None:
        self._encode_windows, self._decode_windows = encode_windows, decode_windows
        self._unheard: list[_Wait[Floats, Memory]] = []
        self._undecoded: dict[DecodingOptions, list[_Wait[Memory, Decoded]]] = defaultdict(list)
        self._last: _Wait[Floats, Memory] | _Wait[Memory, Decoded] | None = None

    def encode(self, mel: Floats) -> Generator[None, None, Memory]:
        """Wait until `together` has encoded a window [frames, mels], as long as the others."""
        self._last = wait = _Wait[Floats, Memory](mel)
        self._unheard.append(wait)
        return (yield from wait.until_found())

    def decode(self, memory: Memory, options: DecodingOptions) -> Generator[None, None, Decoded]:
        """Wait until `together` has decoded this window, at temperature 0."""
        self._last = wait = _Wait[Memory, Decoded](memory)
        self._undecoded[options].append(wait)
        return (yield from wait.until_found())

    def together(self, runs: Sequence[Iterator[T | None]]) -> Iterator[T | None]:
        """Yield the items of all runs, those of the first first, and None where the thread may turn to other work.

        Each run goes on until it waits or ends. Then all windows that wait for the encoder are encoded or, if there are
        none, those that wait for the decoder are decoded.
        """
        found: list[deque[T]] = [deque() for _ in runs]
        waits: dict[int, _Wait[Floats, Memory] | _Wait[Memory, Decoded]] = {}
        live = dict(enumerate(runs))
        place = 0
        while live:
            for number, run in list(live.items()):
                if number in waits and waits[number].found is None:
                    continue
                last = self._last
                for item in run:
                    if item is not None:
                        found[number].append(item)
                    elif self._last is not None and self._last is not last:
                        waits[number] = self._last
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
            yield from self._encode() if self._unheard else self._decode()

    def _encode(self) -> Iterator[None]:
        windows, self._unheard = self._unheard, []
        memories = yield from self._encode_windows([window.given for window in windows])
        for window, memory in zip(windows, memories, strict=True):
            window.found = memory

    def _decode(self) -> Iterator[None]:
        waiting, self._undecoded = self._undecoded, defaultdict(list)
        for options, windows in waiting.items():
            memories = zip(*(window.given for window in windows), strict=True)
            memory = windows[0].given if len(windows) == 1 else [mx.concatenate(list(parts)) for parts in memories]
            transcripts = yield from self._decode_windows(memory, options)
            for window, transcript in zip(windows, transcripts, strict=True):
                window.found = transcript
