"""Synthesizers that the ear is judged by: flite, espeak-ng and the house voice, each 16 kHz int16 [samples].

A speaker is a name such as `flite:rms`, `espeak:en-us+f2` or `house:af_heart`. Rate and pitch are drawn for each text.
"""

from __future__ import annotations

import ctypes
import random
import shutil
import subprocess
import tempfile
import wave
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import soxr

RATE = 16_000
Audio = npt.NDArray[np.int16]
Speak = Callable[[str, random.Random], Audio]

# British English is `en` in espeak-ng's data, and `en-gb` only with a region.
_ESPEAK = [
    f"espeak:{voice}{variant}" for voice in ("en-us", "en") for variant in ("", "+m1", "+m3", "+m5", "+f1", "+f3")
]
_ACCENTS = ("en-029", "en-gb-x-rp", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-us-nyc")
_VARIANTS = ("m2", "m4", "m6", "m8", "f2", "f5", "klatt", "klatt3", "klatt5", "Andy", "linda", "steph", "whisperf")
_VARIED = [
    *(f"espeak:{accent}{variant}" for accent in _ACCENTS for variant in ("", "+m3", "+f3")),
    *(f"espeak:en-us+{variant}" for variant in _VARIANTS),
]
HOUSE = ("house:af_heart", "house:am_michael", "house:bf_emma", "house:bm_fable")  # its English voices
TRAINED = ("flite:rms", "flite:slt", "flite:kal", *HOUSE, *_ESPEAK, "espeak:en-us+croak", *_VARIED)
# Voices, one synthesizer's and another's, that training never hears.
HELD_OUT = ("flite:awb", "flite:kal16", "espeak:en-us+m7", "espeak:en-us+f4", "espeak:en-gb-scotland+f2")
_EDGE = 0.003  # of full scale: what is quieter at the ends is silence
_PAD = 0.1  # seconds of it that stay


def trimmed(audio: Audio) -> Audio:
    """Return audio with at most _PAD seconds of silence at either end; empty if all is silence."""
    loud = np.flatnonzero(np.abs(audio.astype(np.int32)) > _EDGE * 32768)
    pad = round(_PAD * RATE)
    return audio[max(0, loud[0] - pad) : loud[-1] + pad] if loud.size else audio[:0]


def speaker(name: str) -> Speak:
    """Return the function that speaks as `name`. Raises ValueError for an unknown synthesizer."""
    kind, _, voice = name.partition(":")
    if kind == "flite":
        return partial(_flite, voice)
    if kind == "espeak":
        return partial(_espeak, voice)
    if kind == "house":
        return partial(_house, voice)
    raise ValueError(f"speaker {name!r} is of no known synthesizer: flite, espeak, house")


def _resampled(audio: Audio, rate: int) -> Audio:
    return audio if rate == RATE else np.asarray(soxr.resample(audio, rate, RATE), np.int16)


def _flite(voice: str, text: str, rng: random.Random) -> Audio:
    stretch = rng.uniform(0.85, 1.2)
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        command = ["flite", "-voice", voice, "--setf", f"duration_stretch={stretch:.2f}", "-t", text, "-o", file.name]
        subprocess.run(command, check=True, capture_output=True)
        with wave.open(file.name) as reader:
            return _resampled(np.frombuffer(reader.readframes(reader.getnframes()), np.int16), reader.getframerate())


# Numbers of speak_lib.h: espeak_PARAMETER, espeak_POSITION_TYPE, the flag of UTF-8, synchronous output.
_RATE, _PITCH, _RANGE = 1, 3, 4
_CHARACTERS, _UTF8, _SYNCHRONOUS = 1, 1, 2
_WORD = 1  # espeak_EVENT_TYPE; 0 ends a list of events


class _Event(ctypes.Structure):
    """espeak_EVENT of speak_lib.h; `place` is that of the text in characters from 1, `at` of the audio in ms."""

    _fields_ = (
        ("type", ctypes.c_int), ("id", ctypes.c_uint), ("place", ctypes.c_int), ("length", ctypes.c_int),
        ("at", ctypes.c_int), ("sample", ctypes.c_int), ("user", ctypes.c_void_p), ("value", ctypes.c_char * 8),
    )  # fmt: skip


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


class _Espeak:
    """The library, one for a process. `starts` holds the second at which each word of the last text begins, by
    its first character.

    Raises OSError where it does not start.
    """

    def __init__(self) -> None:
        import espeakng_loader

        # The library has one state for a process, and the product's phonemizer uses it: this is a copy of its own.
        with tempfile.TemporaryDirectory() as folder:
            self._library = ctypes.CDLL(shutil.copy(espeakng_loader.get_library_path(), folder))
        data = str(espeakng_loader.get_data_path()).encode()
        self.rate = self._library.espeak_Initialize(_SYNCHRONOUS, 0, data, 0)
        if self.rate <= 0:
            raise OSError("espeak-ng does not start")
        self._parts: list[Audio] = []
        self.starts: dict[int, float] = {}
        self._callback = _CALLBACK(self._take)
        self._library.espeak_SetSynthCallback(self._callback)

    def _take(self, samples: ctypes._Pointer[ctypes.c_short], count: int, events: ctypes._Pointer[_Event]) -> int:
        number = 0
        while events[number].type:
            if events[number].type == _WORD:
                self.starts.setdefault(events[number].place - 1, events[number].at / 1000)
            number += 1
        if samples and count:
            self._parts.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    def speak(self, voice: str, text: str, rate: int, pitch: int, spread: int) -> Audio:
        """Return a text's audio; words a minute, pitch and its range in [0, 99]. Raises OSError for no such voice."""
        if self._library.espeak_SetVoiceByName(voice.encode()):
            raise OSError(f"espeak-ng has no voice {voice!r}")
        for parameter, value in ((_RATE, rate), (_PITCH, pitch), (_RANGE, spread)):
            self._library.espeak_SetParameter(parameter, value, 0)
        self._parts, self.starts = [], {}
        raw = text.encode()
        self._library.espeak_Synth(raw, len(raw) + 1, 0, _CHARACTERS, 0, _UTF8, None, None)
        self._library.espeak_Synchronize()
        return np.concatenate(self._parts) if self._parts else np.zeros(0, np.int16)


@cache
def _espeak_library() -> _Espeak:
    return _Espeak()


def _espeak(voice: str, text: str, rng: random.Random) -> Audio:
    return espeak_words(voice, text, rng)[0]


def espeak_words(voice: str, text: str, rng: random.Random) -> tuple[Audio, dict[int, float]]:
    """Return the audio of a text by espeak-ng, and for the first character of each word the second of its beginning."""
    library = _espeak_library()
    rate, pitch, spread = rng.randint(120, 230), rng.randint(25, 75), rng.randint(30, 70)
    audio = _resampled(library.speak(voice, text, rate, pitch, spread), library.rate)
    return audio, dict(library.starts)


@cache
def _house_model() -> Any:
    from models.contract import ModelSpec
    from models.kokoro.pipeline import load

    folder = Path("models/house")
    files = {"config": "config.json", "weights": "model.safetensors", "voices": "voices.safetensors"}
    spec = ModelSpec("house", "kokoro", {role: str(folder / name) for role, name in files.items()})
    return load(spec)


def _house(voice: str, text: str, rng: random.Random) -> Audio:
    from models.contract import SpeechRequest
    from models.timeline import Timeline
    from training.ear.texts import phonemes_of

    synthesizer, phonemes = _house_model(), phonemes_of(text, "en-gb" if voice.startswith("b") else "en-us")
    if not phonemes:
        return np.zeros(0, np.int16)
    request = SpeechRequest(text, phonemes, voice, speed=rng.uniform(0.8, 1.25), seed=rng.getrandbits(30))
    chunks = synthesizer.stream(request, Timeline(), lambda: False)
    pcm = np.concatenate([chunk.pcm for chunk in chunks if chunk is not None])
    audio = soxr.resample(pcm, synthesizer.sample_rate, RATE)
    return np.asarray(np.clip(audio * 32767, -32768, 32767), np.int16)
