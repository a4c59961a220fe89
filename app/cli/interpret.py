"""`nightingale interpret`: speech in one language in, from the microphone or a file, speech in another out."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from typing import IO, TYPE_CHECKING, Any, Final

from app.cli.command import USAGE_ERROR, CommandError, configure_logging, print_failure, read_file
from app.cli.interrupt import run_interruptible
from app.config import Settings
from app.errors import ConsentMissingError

if TYPE_CHECKING:
    from app.audio.vad import Samples
    from app.cli.local import LocalInterpretation
    from app.cli.playback import Destination
    from app.interpretation.events import Event
    from app.interpretation.options import InterpretationOptions
    from app.interpretation.session import Interpretation

# Seconds of a recording that are handed over at once.
CHUNK_SECONDS: Final = 0.2


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Interpret until the recording ends, or the command is interrupted. Raises CommandError, ServiceError, OSError."""
    from app.cli.playback import check_output

    if arguments.text and (arguments.output is not None or arguments.format is not None):
        raise CommandError("--text speaks nothing: leave -o and --format out", USAGE_ERROR)
    check_output(arguments.output, arguments.format)
    if arguments.pcm is not None and arguments.file is None:
        raise CommandError("--pcm needs FILE, or - for standard input", USAGE_ERROR)
    if arguments.clone_voice and not arguments.consent:
        raise ConsentMissingError("a voice is cloned only with its speaker's consent: say --consent once you have it")
    configure_logging(settings)
    from app.interpretation.options import InterpretationOptions
    from app.speech.options import SpeechOptions

    options = InterpretationOptions(
        speech=SpeechOptions.of(arguments, translate_to=arguments.to),
        recognition_model=arguments.recognition_model,
        prompt=arguments.prompt,
        clone_voice=arguments.clone_voice,
        consent=arguments.consent,
        partials=False,
    )
    return run_interruptible(_interpret(arguments, settings, options))


async def _interpret(arguments: argparse.Namespace, settings: Settings, options: InterpretationOptions) -> int:
    from app.cli.local import open_interpretation

    data = None
    if arguments.file is not None and arguments.pcm is None:
        data = read_file(arguments.file, settings.max_recording_bytes)
    async with open_interpretation(settings, options) as local:
        local.session.muted = arguments.text
        return await _run(arguments, local, data)


async def _run(arguments: argparse.Namespace, local: LocalInterpretation, data: bytes | None) -> int:
    teller = _Teller(arguments, local.session)
    feeding = asyncio.create_task(_feed(local.session, _audio(arguments, local, data)))
    try:
        async for event in local.session:
            await teller.tell(event)
        await feeding
        await teller.close()
    except asyncio.CancelledError:
        if arguments.file is None:
            # Ctrl-C is the usual end of a microphone: what was spoken stays.
            await teller.close(empty=True)
        raise
    except BaseException:
        # The cause of an end without a reason.
        if feeding.done() and not feeding.cancelled() and (error := feeding.exception()) is not None:
            raise error from None
        raise
    finally:
        feeding.cancel()
        teller.abandon()
    return 1 if teller.failed else 0


async def _feed(session: Interpretation, audio: AsyncIterator[Samples]) -> None:
    try:
        async for pcm in audio:
            await session.push(pcm)
    finally:
        await session.finish()


async def _audio(
    arguments: argparse.Namespace, local: LocalInterpretation, data: bytes | None
) -> AsyncIterator[Samples]:
    """Yield the audio that is to be interpreted, at SAMPLE_RATE."""
    from app.audio.vad import SAMPLE_RATE

    if data is not None:
        pcm = await local.decode(data)
        size = round(CHUNK_SECONDS * SAMPLE_RATE)
        for start in range(0, pcm.size, size):
            yield pcm[start : start + size]
    elif arguments.file is not None:
        async for piece in _bare_samples(arguments.file, arguments.pcm):
            yield piece
    else:
        from app.cli.microphone import Microphone

        with Microphone() as microphone:
            print("Speak; Ctrl-C ends.", file=sys.stderr)
            while True:
                yield await asyncio.to_thread(microphone.read)


async def _bare_samples(name: str, rate: int) -> AsyncIterator[Samples]:
    """Yield 16-bit samples as they arrive."""
    from app.audio.samples import SampleReader
    from app.audio.vad import SAMPLE_RATE

    reader = SampleReader("pcm16", rate, SAMPLE_RATE)
    size = round(CHUNK_SECONDS * rate) * 2
    file: IO[bytes] = sys.stdin.buffer if name == "-" else open(name, "rb")  # noqa: PTH123, SIM115, ASYNC230
    try:
        # A program that writes to a pipe is heard as it writes.
        read = getattr(file, "read1", file.read)
        while piece := await asyncio.to_thread(read, size):
            yield reader.push(piece)
        yield reader.push(b"", last=True)
    finally:
        if name != "-":
            file.close()


class _Teller:
    """Writer of the text, and of the speech in its place in time. `failed`: a sentence was left out for an error."""

    def __init__(self, arguments: argparse.Namespace, session: Interpretation) -> None:
        self.failed = False
        self._arguments = arguments
        self._session = session
        self._out: Destination | None = None
        self._text = sys.stderr if str(arguments.output) == "-" else sys.stdout
        # A file has silence where nobody speaks; a loudspeaker waits by itself.
        self._timed = arguments.output is not None
        self._written = 0.0

    async def tell(self, event: Event) -> None:
        """Write what is told."""
        from app.interpretation.events import SentenceDone, SpeechPart, TranslatedPart, VoiceCloned
        from app.recognition.events import LiveUtterance, UtteranceFailed

        match event:
            case TranslatedPart(source_text=source, text=text):
                print(f"{source}\n→ {text}", file=self._text, flush=True)
            case SpeechPart():
                await self._play(event)
            case VoiceCloned(error=None):
                print("From now on in the voice of who speaks.", file=sys.stderr)
            case VoiceCloned(error=error) if error is not None:
                print_failure(error.message)
            case LiveUtterance(warning=warning) if warning is not None:
                print_failure(warning)
            case SentenceDone(error=error) | UtteranceFailed(error=error) if error is not None:
                self.failed = True
                print_failure(error.message)

    async def _play(self, part: Any) -> None:
        import numpy as np

        from app.cli.playback import open_destination

        rate = part.stream.speech.synthesizer.sample_rate
        if self._out is None:
            output, name = self._arguments.output, self._arguments.format
            self._out = await asyncio.to_thread(open_destination, output, name, rate, live=True)
        silence = round((part.start - self._written) * rate) if self._timed else 0
        if silence > 0:
            await asyncio.to_thread(self._out.write, np.zeros(silence, np.float32))
        self._session.delivered(part)
        # Off the event loop: a sound device makes its writer wait.
        await asyncio.to_thread(self._out.write, part.chunk.pcm)
        self._written = part.start + part.chunk.duration

    async def close(self, *, empty: bool = False) -> None:
        """Make the speech final. Raises CommandError if there is none, unless it may be `empty`."""
        out, self._out = self._out, None
        if out is not None:
            await asyncio.to_thread(out.close)
        elif self._timed and not empty:
            raise CommandError("nothing was said that could be interpreted")

    def abandon(self) -> None:
        """Leave no half file behind."""
        if self._out is not None:
            self._out.abandon()
