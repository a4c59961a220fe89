"""`nightingale transcribe`: write down what is spoken in a recording, in this process."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from app.cli.command import USAGE_ERROR, CommandError, configure_logging, number, read_file
from app.cli.interrupt import run_interruptible
from app.config import Settings

if TYPE_CHECKING:
    from app.recognition.service import RecognitionOptions
    from app.recognition.transcript import TranscriptOptions


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command to argparse."""
    transcribe = commands.add_parser("transcribe", parents=[common], help="write down what is spoken in a recording")
    transcribe.add_argument(
        "file", metavar="FILE", nargs="?", help="recording: WAV, FLAC, MP3, Ogg, MP4, ...; - is standard input"
    )
    transcribe.add_argument("--mic", action="store_true", help="record from the microphone until the first pause")
    transcribe.add_argument("--model", help="model (default: one that is installed)")
    transcribe.add_argument("--language", metavar="LANG", help="language that is spoken (default: detected)")
    transcribe.add_argument(
        "--task", choices=("transcribe", "translate"), default="transcribe", help="translate: write English"
    )
    transcribe.add_argument(
        "--format",
        choices=("text", "json", "srt", "vtt", "verbose_json"),
        default="text",
        help="form of the output (default text)",
    )
    transcribe.add_argument("--words", action="store_true", help="time each word, for verbose_json and subtitles")
    transcribe.add_argument("--prompt", metavar="TEXT", default="", help="text that comes before, or words to expect")
    transcribe.add_argument("--temperature", type=number(0, 1), metavar="X", default=0.0, help="0 to 1 (default 0)")
    transcribe.add_argument("--cut", action="store_true", help="cut the recording at its pauses, and leave silence out")
    transcribe.set_defaults(run=run, computes=True)


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
