"""`nightingale say`: speak a text, or the stream of a language model, to the loudspeaker, a file or stdout."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable
from io import FileIO
from typing import TYPE_CHECKING, Any

from app.cli.command import (
    USAGE_ERROR,
    CommandError,
    add_command,
    add_option,
    configure_logging,
    print_failure,
    print_unused,
    read_stdin,
)
from app.cli.interrupt import run_interruptible
from app.cli.lexicon import LexiconFile, given_lexicons
from app.config import Settings
from app.errors import EmptyInputError, NothingToSpeakError
from models.contract import SAMPLING_RANGES, Sampling, Synthesizer

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from app.cli.local import LocalSpeech
    from app.llm_text.events import Broken, Failed
    from app.speech.document import InputType
    from app.speech.options import SpeechOptions


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command to argparse."""
    say = add_command(commands, common, "say", run)
    for name, bounds in SAMPLING_RANGES.items():
        low, high = map(float, bounds)
        help_ = f"{low:g} to {high:g}, for models that take it (default: the model's)"
        add_option(say, f"--{name.replace('_', '-')}", {"range": (low, high), "metavar": "X", "help": help_})


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Speak; return the exit status. Raises ServiceError and CommandError."""
    from app.cli.playback import check_output

    check_output(arguments.output, arguments.format)
    arguments.lexicon = given_lexicons(arguments.lexicon)
    if arguments.input == "stream-json":
        from app.llm_text.events import read_lines

        # Raw: a thread that waits in a buffered file holds its lock, and the process could not end.
        name = arguments.text or "-"
        with FileIO(sys.stdin.fileno(), closefd=False) if name == "-" else FileIO(name) as file:
            configure_logging(settings)
            return run_interruptible(_narrate_to(arguments, settings, read_lines(file)))
    if arguments.text is None:
        raise CommandError("the following arguments are required: TEXT (see nightingale say --help)", USAGE_ERROR)
    text = arguments.text if arguments.text != "-" else read_stdin()
    if not text.strip():
        raise EmptyInputError("there is no text to say")
    configure_logging(settings)
    run_interruptible(_say_to(arguments, settings, text))
    return 0


def _speech_options(arguments: argparse.Namespace, synthesizer: Synthesizer) -> SpeechOptions:
    """Return the options of the speech, and print a speed that the model does not reach."""
    from app.speech.options import SpeechOptions, unused_speed

    speed = 1.0 if arguments.speed is None else arguments.speed
    print_unused(unused_speed(speed, synthesizer))
    return SpeechOptions.of(
        arguments,
        speed=speed,
        sampling=Sampling(**{name: getattr(arguments, name) for name in SAMPLING_RANGES}),
        lexicons=tuple(each.lexicon if isinstance(each, LexiconFile) else each for each in arguments.lexicon),
        lexicon={},
        voice_marks=True,
    )


def _open_speech(arguments: argparse.Namespace, settings: Settings) -> AbstractAsyncContextManager[LocalSpeech]:
    from app.cli.local import open_speech

    translate = arguments.translate_to is not None
    return open_speech(settings, arguments.model, translate=translate, translate_model=arguments.translate_model)


async def _say_to(arguments: argparse.Namespace, settings: Settings, text: str) -> None:
    from app.cli.playback import destination
    from models.timeline import Timeline

    input_type: InputType = "ssml" if arguments.input == "ssml" else "auto"
    async with (
        _open_speech(arguments, settings) as speech,
        destination(arguments, speech.synthesizer.sample_rate) as out,
    ):
        options = _speech_options(arguments, speech.synthesizer)
        async for pcm in speech.speak(text, options, Timeline(), input_type):
            # Off the event loop: a sound device makes its writer wait.
            await asyncio.to_thread(out.write, pcm)


async def _narrate_to(arguments: argparse.Namespace, settings: Settings, lines: Iterable[bytes]) -> int:
    from app.cli.playback import destination
    from app.cli.stream_json import narrate
    from models.timeline import Timeline

    async with _open_speech(arguments, settings) as speech:
        stream = await speech.open(_speech_options(arguments, speech.synthesizer), Timeline())
        live = arguments.output is None
        try:
            async with destination(arguments, speech.synthesizer.sample_rate, live=live) as out:
                whole = await narrate(lines, stream, out, report=_report, live=live)
        except NothingToSpeakError:
            raise CommandError("the stream held nothing to say") from None
        finally:
            stream.close("cancelled")
    return 0 if whole else 1


def _report(event: Broken | Failed) -> None:
    """Print what was wrong with a line."""
    from app.llm_text.events import Broken

    reason = event.reason if isinstance(event, Broken) else f"the model failed: {event.message}"
    print_failure(f"line {event.line}: {reason}")
