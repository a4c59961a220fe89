"""Peer of the interpreter, as people write it: Silero VAD, faster-whisper, CTranslate2 and Kokoro, one after another.

It runs in one process, without a socket, and its phonemes cost it nothing. Its checkpoints write one fixed text (see
`fixed_sentence`). Each part has the number format that is fastest here. What is measured, and the recording of a
sentence that both sides hear, are here too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from app.audio.vad import SAMPLE_RATE, Samples, VoiceDetector
from app.interpretation.options import DETECTION
from loadtest import nllb_peers
from loadtest.peers import Commands
from models.backend import cpu_count

# PyTorch and the peer's packages are imported inside its own process.

SENTENCE, TRANSLATION = "The train to Paris leaves at nine.", "Le train pour Paris part à neuf heures."
NAME = "cascade"
POINTS = ("text", "translation", "first audio")
FRAME = SAMPLE_RATE // 50
# Seconds of silence after the speech of a sentence.
REST = 0.5
TRIALS = 3
SPEECH_RATE = 24_000

T = TypeVar("T")
Row = dict[str, float]
"""Seconds from the end of a spoken sentence to each of POINTS, and of each stage; "audio": seconds of speech."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A spoken sentence, [samples] at SAMPLE_RATE; its last word ends at sample `end`."""

    pcm: Samples
    end: int

    def frames(self, begun: float) -> Iterator[tuple[Samples, float]]:
        """Yield frames without end, and the moment at which each is there: the sentence, then silence."""
        start = 0
        while True:
            frame = np.zeros(FRAME, np.float32)
            piece = self.pcm[start : start + FRAME]
            frame[: piece.size] = piece
            start += FRAME
            yield frame, begun + start / SAMPLE_RATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Parts of the peer.

    `whisper` and `nllb` are folders of CTranslate2's, to be computed on `device` in the fastest of `kinds`. `phonemes`:
    their number. `end`: the token of the time at the end of a transcript.
    """

    whisper: Path
    nllb: Path
    phonemes: int
    end: int
    device: str
    kinds: Sequence[str]


def check(side: str, text: str, translation: str) -> None:
    """Raise SystemExit unless a side wrote what it should."""
    if (text.strip(), translation) != (SENTENCE, TRANSLATION):
        raise SystemExit(f"{side} wrote {text!r} and {translation!r}")


def fastest(name: str, kinds: Sequence[str], make: Callable[[str], T], work: Callable[[T], object]) -> T:
    """Return what `make` makes of the one of `kinds` with which `work` takes least; print the times.

    A kind that raises RuntimeError is left out: PyTorch's LSTM in bfloat16 does on a processor with AVX2 alone. Raises
    RuntimeError where no kind is left.
    """
    best: tuple[float, T] | None = None
    times = []
    for kind in kinds:
        try:
            made, taken = make(kind), []
            for _ in range(TRIALS + 1):
                begun = time.perf_counter()
                work(made)
                taken.append(time.perf_counter() - begun)
        except RuntimeError as error:
            times.append(f"{kind} not here ({error})")
            continue
        median = statistics.median(taken[1:])
        times.append(f"{kind} {median * 1e3:.0f} ms")
        if best is None or median < best[0]:
            best = median, made
    print(f"{NAME}, {name}: {', '.join(times)}", flush=True)
    if best is None:
        raise RuntimeError(f"{name} cannot be computed: {', '.join(times)}")
    return best[1]


class Cascade:
    """The peer. It waits for the end of the sentence, then transcribes, translates and speaks."""

    def __init__(self, setup: Setup, recording: Recording) -> None:
        import torch
        from ctranslate2 import Translator, get_supported_compute_types
        from faster_whisper import WhisperModel
        from tokenizers import Tokenizer

        from loadtest.kokoro_peers import pytorch
        from loadtest.kokoro_reference import random_ids

        device, threads = setup.device, cpu_count()
        torch.set_num_threads(threads)
        known = get_supported_compute_types(device)
        kinds = [kind for kind in setup.kinds if kind in known]
        nllb = nllb_peers.SIZES["nllb"]
        self._names = nllb_peers.token_names(nllb)
        self._ids = {name: id_ for id_, name in enumerate(self._names)}
        self._first, self._target = nllb.first, [self._names[id_] for id_ in nllb.start[1:]]
        self._tokenizer = Tokenizer.from_file(str(setup.nllb / "tokenizer.json"))
        self._phonemes, self._end = random_ids(setup.phonemes), setup.end
        self._whisper: Any = fastest(
            "recognition",
            kinds,
            lambda kind: WhisperModel(str(setup.whisper), device=device, compute_type=kind, cpu_threads=threads),
            lambda model: self._hear(model, recording.pcm),
        )
        self._nllb: Any = fastest(
            "translation",
            kinds,
            lambda kind: Translator(str(setup.nllb), device=device, compute_type=kind, intra_threads=threads),
            lambda model: self._translate(model, SENTENCE),
        )
        self._speak = fastest(
            "speech",
            ("float32", "bfloat16"),
            lambda kind: pytorch(device, autocast=kind == "bfloat16"),
            lambda model: model(self._phonemes),
        )

    def interpret(self, recording: Recording, count: int, pause: float) -> list[Row]:
        """Interpret the recording `count` times, each as it comes."""
        return [self._sentence(recording, pause) for _ in range(count)]

    def _sentence(self, recording: Recording, pause: float) -> Row:
        time.sleep(REST)
        detector = VoiceDetector(replace(DETECTION, min_silence=pause))
        heard: list[Samples] = []
        begun = time.monotonic()
        end = begun + recording.end / SAMPLE_RATE
        spans = []
        for frame, moment in recording.frames(begun):
            time.sleep(max(0.0, moment - time.monotonic()))
            heard.append(frame)
            spans = detector.push(frame)
            if spans:
                break
        utterance = np.concatenate(heard)[spans[0].start : spans[0].end]
        stopped = time.monotonic()
        text = self._hear(self._whisper, utterance)
        written = time.monotonic()
        translation = self._translate(self._nllb, text)
        translated = time.monotonic()
        samples = self._speak(self._phonemes)
        said = time.monotonic()
        check(NAME, text, translation)
        row = dict(zip(POINTS, (written - end, translated - end, said - end), strict=True))
        row |= {"vad": stopped - end, "recognize": written - stopped}
        return row | {"translate": translated - written, "speak": said - translated, "audio": samples / SPEECH_RATE}

    def _hear(self, model: Any, pcm: Samples) -> str:
        segments, _ = model.transcribe(
            pcm,
            language="en",
            beam_size=1,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
            suppress_tokens=[-1, self._end],  # without times the text ends by itself
        )
        return "".join(segment.text for segment in segments)

    def _translate(self, model: Any, text: str) -> str:
        words = self._tokenizer.encode(text.strip(), add_special_tokens=False).ids
        source = [self._names[id_] for id_ in (self._first, *words, nllb_peers.END)]
        (found,) = model.translate_batch([source], target_prefix=[self._target], beam_size=1)
        tokens = found.hypotheses[0][len(self._target) :]
        return str(self._tokenizer.decode([self._ids[token] for token in tokens])).strip()


def commands(setup: Setup, recording: Recording) -> Commands:
    """Return the commands of the peer, in its own process."""
    return {"interpret": Cascade(setup, recording).interpret}
