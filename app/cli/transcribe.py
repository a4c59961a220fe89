"""`nightingale transcribe`: write down what is spoken in a recording, in this process."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from app.cli.command import USAGE_ERROR, CommandError, configure_logging, read_file
from app.cli.interrupt import run_interruptible
from app.config import Settings

if TYPE_CHECKING:
    from app.recognition.service import RecognitionOptions
    from app.recognition.transcript import TranscriptOptions


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the transcript; return the exit status. Raises CommandError, ServiceError and OSError."""
    if arguments.mic == (arguments.file is not None):
        raise CommandError("give either FILE or --mic (see nightingale transcribe --help)", USAGE_ERROR)
    configure_logging(settings)
    if arguments.mic:
        from app.cli.microphone import record

        data = record(settings.recognition_seconds)
    else:
        data = read_file(arguments.file, settings.max_recording_bytes)
    from app.audio.vad import SPEECH
    from app.recognition.service import RecognitionOptions
    from app.recognition.transcript import TranscriptOptions

    options = RecognitionOptions(
        model=arguments.model,
        language=arguments.language,
        task=arguments.task,
        prompt=arguments.prompt,
        temperature=arguments.temperature,
        word_times=arguments.words,
        chunks=SPEECH if arguments.cut else None,
    )
    form = TranscriptOptions(arguments.format, words=arguments.words)
    run_interruptible(_print(settings, data, options, form))
    return 0


async def _print(settings: Settings, data: bytes, options: RecognitionOptions, form: TranscriptOptions) -> None:
    """Print a text as it is recognized, and other forms at the end."""
    from app.cli.local import open_recognition
    from app.recognition.transcript import Deltas

    async with open_recognition(settings, data, options) as stream:
        if form.format != "text":
            text, _ = (await stream.transcript()).render(form)
            sys.stdout.write(text if text.endswith("\n") else text + "\n")
        else:
            deltas = Deltas()
            async for segment in stream:
                sys.stdout.write(deltas.push(segment.text))
                sys.stdout.flush()
            sys.stdout.write("\n")
        if stream.warning is not None:
            print(f"nightingale: {stream.warning}", file=sys.stderr)
