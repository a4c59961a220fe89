"""`nightingale voices`: add, list and remove cloned voices, beside a running server or without one.

The user owns the machine: voices of all keys are listed and removed, and an added voice belongs to no key.

Each function carries out one action and returns the exit status. Failures are raised as ServiceError.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from app.cli.interrupt import run_interruptible
from app.config import Settings
from app.errors import BodyTooLargeError, ConsentMissingError, UnknownVoiceError

if TYPE_CHECKING:
    from app.voices.store import VoiceStore


def add_voice(arguments: argparse.Namespace, settings: Settings) -> int:
    """Make a voice from a file and print its id."""
    from app.audio.decode import AudioDecoder
    from app.voices.service import MIN_SECONDS, new_voice
    from app.voices.store import SAMPLE_RATE

    if not arguments.consent:
        raise ConsentMissingError("a voice is cloned only with its speaker's consent: say --consent once you have it")
    voice = new_voice(arguments.name, consent=True, language=arguments.lang, gender=arguments.gender)
    with arguments.file.open("rb") as file:
        data = file.read(settings.max_upload_bytes + 1)
    if len(data) > settings.max_upload_bytes:
        raise BodyTooLargeError(f"{arguments.file} is too large; at most {settings.max_upload_bytes} bytes are read")
    with AudioDecoder(sample_rate=SAMPLE_RATE, min_seconds=MIN_SECONDS, max_seconds=settings.voice_seconds) as decoder:
        recording = run_interruptible(decoder.decode(data))
    stored = _store(settings).add(voice.name, recording.pcm, language=voice.language, gender=voice.gender)
    if recording.cut:
        print(f"nightingale: the first {recording.seconds:g} seconds of it are used", file=sys.stderr)
    print(stored.id)
    return 0


def list_voices(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print every cloned voice, the oldest first."""
    found = _store(settings).voices()
    if arguments.json:
        print(json.dumps([asdict(voice) for voice in found], indent=2))
        return 0
    for voice in found:
        owner = None if voice.owner is None else f"of key '{voice.owner}'"
        said = ", ".join(part for part in (f"{voice.seconds:g} s", voice.language, voice.gender, owner) if part)
        print(f"{voice.id} {voice.name} ({said})")
    return 0


def remove_voices(arguments: argparse.Namespace, settings: Settings) -> int:
    """Delete voices. Raises UnknownVoiceError for ids that do not exist, after the others are deleted."""
    store = _store(settings)
    missing = [voice for voice in arguments.ids if not store.remove(voice)]
    if missing:
        raise UnknownVoiceError(f"no such voice: {', '.join(missing)}")
    return 0


def _store(settings: Settings) -> VoiceStore:
    from app.voices.store import VoiceStore

    return VoiceStore(settings.data_dir / "voices", max_voices=settings.max_voices)
