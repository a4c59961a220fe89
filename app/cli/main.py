"""The command `nightingale`: serve, say, translate, bench; voices (add, list, remove), models (list, pull, verify),
extras (list, install).

Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Every failure is one line on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import socket
import sys
from collections.abc import Iterable, Sequence
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from app import __version__, extras
from app.cli import models as models_commands
from app.cli import voices as voices_commands
from app.cli.interrupt import run_interruptible
from app.config import Settings, SettingsError, load_settings
from app.errors import EmptyInputError, InvalidRequestError, NothingToSpeakError, ServiceError
from models.contract import SAMPLING_RANGES, Sampling
from models.native import cache_folder
from models.private import FolderError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from app.cli.local import LocalSpeech
    from app.cli.playback import Destination
    from app.llm_text.events import Broken, Failed
    from app.speech.options import SpeechOptions

USAGE_ERROR = 2
INTERRUPTED = 130


class CommandError(Exception):
    """A command that cannot be carried out; the message is one line."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


class _Parser(argparse.ArgumentParser):
    """argparse, with one line instead of the whole usage before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.run is None:
        parser.print_help()
        return 0
    debug = False
    try:
        settings = load_settings(arguments.config)
        debug = settings.log_level == "debug"
        if getattr(arguments, "computes", False):
            cache_folder()  # models load later and on another thread: a folder that cannot be had is said now
        status: int = arguments.run(arguments, settings)
    except SettingsError as error:
        return _fail(str(error), USAGE_ERROR)
    except FolderError as error:
        return _fail(str(error), USAGE_ERROR)
    except CommandError as error:
        return _fail(str(error), error.status)
    except InvalidRequestError as error:
        return _fail(error.message, USAGE_ERROR)
    except ServiceError as error:
        # The person at this terminal may know it all; a server's clients are not told the cause.
        cause = str(error.__cause__ or "")
        return _fail(error.message if cause in error.message else f"{error.message} {cause}")
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain once more while it exits.
        sys.stdout = None
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}")
    except Exception as error:
        if debug:
            raise
        return _fail(f"{type(error).__name__}: {error} (NIGHTINGALE_LOG_LEVEL=debug shows where)")
    return status


def _fail(message: str, status: int = 1) -> int:
    print(f"nightingale: {' '.join(message.split())}", file=sys.stderr)
    return status


def _parser() -> _Parser:
    parser = _Parser(
        prog="nightingale",
        description="Low-latency local speech and translation.",
        epilog="To begin: `nightingale say 'Good evening.'` speaks, and `nightingale serve` runs the server, whose "
        "page is at http://127.0.0.1:8000 then. `nightingale COMMAND --help` says more of one command.",
    )
    parser.set_defaults(run=None)
    parser.add_argument("--version", action="version", version=f"nightingale {__version__}")
    common = _Parser(add_help=False)
    common.add_argument("--config", metavar="FILE", type=Path, help="settings file (TOML)")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    serve = commands.add_parser("serve", parents=[common], help="run the server")
    serve.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    serve.add_argument("--port", type=_integer(0, 65_535), help="port to listen on (default 8000; 0: any free one)")
    serve.add_argument("--wyoming-host", help="address to listen on for Wyoming's clients (default 127.0.0.1)")
    serve.add_argument(
        "--wyoming-port",
        type=_integer(0, 65_535),
        help="listen for Wyoming's clients, too (usually 10200; default: not)",
    )
    serve.add_argument(
        "--replicas",
        type=_integer(0, 1_000),
        help="serve from so many processes, under Ray (needs the extra 'cluster'; default: from this one)",
    )
    serve.add_argument(
        "--max-replicas", type=_integer(0, 1_000), help="how many they may become under load (default: no more)"
    )
    serve.set_defaults(run=_serve, computes=True)

    say = commands.add_parser("say", parents=[common], help="speak a text: play it, or write a file")
    say.add_argument("text", metavar="TEXT", nargs="?", help="what to say; - reads it from standard input")
    say.add_argument(
        "--from",
        dest="input",
        choices=("text", "stream-json"),
        default="text",
        help="stream-json: TEXT names a file (default -, standard input) of lines as a language model's program or API "
        "streams them, spoken as they arrive",
    )
    say.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="write FILE (.wav .flac .mp3 .opus .aac .pcm .mulaw .alaw); - for stdout",
    )
    say.add_argument("--format", metavar="NAME", help="format of the output (default: FILE's suffix, wav for stdout)")
    say.add_argument("--model", help="model (default: see `nightingale models list`)")
    say.add_argument("--voice", help="voice, or a blend such as 'rms(2)+slt(1)'")
    say.add_argument("--speed", type=_number(0.25, 4.0), default=1.0, help="0.25 to 4 (default 1)")
    say.add_argument("--lang", help="language (default: the voice's)")
    say.add_argument("--any-language", action="store_true", help="speak it though the model was not made for it")
    say.add_argument("--translate-to", metavar="LANG", help="translate first: fr, fra_Latn, French, ...")
    say.add_argument("--source", metavar="LANG", help="language of the text, to be translated (default: detected)")
    say.add_argument("--translate-model", metavar="MODEL", help="translation model (default: nllb-200-distilled-600m)")
    say.add_argument("--seed", type=_integer(0, 2**32 - 1), default=0, help="same seed, same audio (default 0)")
    for name, (low, high) in SAMPLING_RANGES.items():
        say.add_argument(
            f"--{name.replace('_', '-')}",
            type=_number(low, high),
            metavar="X",
            help=f"{low:g} to {high:g}, for models that take it (default: the model's)",
        )
    say.set_defaults(run=_say, computes=True)

    translate = commands.add_parser("translate", parents=[common], help="translate a text")
    translate.add_argument("text", metavar="TEXT", help="what to translate; - reads it from standard input")
    translate.add_argument("--target", metavar="LANG", required=True, help="language: fr, fra_Latn, French, ...")
    translate.add_argument("--source", metavar="LANG", default="auto", help="language of TEXT (default: detected)")
    translate.add_argument("--model", help="model (default: nllb-200-distilled-600m)")
    translate.add_argument("--format", choices=("text", "markdown", "html"), default="text", help="what TEXT is")
    translate.add_argument("--beams", type=_integer(1, 8), default=1, help="hypotheses to keep, 1 to 8 (default 1)")
    translate.set_defaults(run=_translate, computes=True)

    voices = commands.add_parser("voices", help="add, list and remove voices made from recordings")
    voices_commands.add_arguments(voices.add_subparsers(title="actions", metavar="ACTION", required=True), common)

    extra = commands.add_parser("extras", help="list and install optional parts")
    extras.add_arguments(extra.add_subparsers(title="actions", metavar="ACTION", required=True), common)

    models = commands.add_parser("models", help="list, pull and verify models")
    models_commands.add_arguments(models.add_subparsers(title="actions", metavar="ACTION", required=True), common)

    bench = commands.add_parser("bench", parents=[common], help="time a model, stage by stage")
    bench.add_argument("--model", help="model (default: see `nightingale models list`)")
    bench.add_argument("--voice", help="voice (default: the model's)")
    bench.add_argument("--repeat", type=_integer(1, 1000), default=5, help="timed runs per sentence (default 5)")
    bench.add_argument("--json", action="store_true", help="print JSON")
    bench.set_defaults(run=_bench, computes=True)
    return parser


def _integer(low: int, high: int) -> Any:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {low} to {high}")
        return value

    return parse


def _number(low: float, high: float) -> Any:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number from {low:g} to {high:g}")
        return value

    return parse


# Each command imports its own parts: `--version` and `models list` need no MLX.


def _serve(arguments: argparse.Namespace, settings: Settings) -> int:
    names = ("host", "port", "wyoming_host", "wyoming_port", "replicas", "max_replicas")
    given = {name: getattr(arguments, name) for name in names}
    settings = settings.model_copy(update={key: value for key, value in given.items() if value is not None})
    _check_address(settings.host, settings.port)
    if settings.wyoming_port is not None:
        _check_address(settings.wyoming_host, settings.wyoming_port)
    from app.engine.catalog import Catalog
    from app.server.serve import serve

    catalog = Catalog(settings)
    for name in (catalog.default(), catalog.default_translator(), *settings.preload):
        # A misspelled model must end here, not in the middle of the start.
        catalog.resolve(name)

    if settings.replicas:
        from app.server.cluster.replicas import serve as serve_replicas

        serve_replicas(settings)
    else:
        serve(settings, catalog)
    return 0


def _check_address(host: str, port: int) -> None:
    """Say in one line, before any model is loaded, that the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CommandError(
            f"cannot listen on {host} port {port}: {reason}; choose another with --host or --port"
        ) from None


def _log(settings: Settings) -> None:
    """Warnings of the models (a missing BLAS costs minutes); what the service logs arrives here as an error anyway."""
    debug = settings.log_level == "debug"
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING, format="nightingale: %(message)s")
    if not debug:
        logging.getLogger("app").setLevel(logging.CRITICAL)


def _say(arguments: argparse.Namespace, settings: Settings) -> int:
    _check_output(arguments)
    if arguments.input == "stream-json":
        from app.llm_text.events import read_lines

        # Raw: a thread that waits in a buffered file holds its lock, and the process could not end.
        with _open_raw(arguments.text or "-") as file:
            _log(settings)
            return run_interruptible(_narrate_to(arguments, settings, read_lines(file)))
    if arguments.text is None:
        raise CommandError("the following arguments are required: TEXT (see nightingale say --help)", USAGE_ERROR)
    text = arguments.text if arguments.text != "-" else _read_stdin()
    if not text.strip():
        raise EmptyInputError("there is no text to say")
    _log(settings)
    run_interruptible(_say_to(arguments, settings, text))
    return 0


def _check_output(arguments: argparse.Namespace) -> None:
    """Refuse an output that cannot be written before a model is loaded for nothing."""
    from app.audio.encoders import check_format
    from app.cli.playback import file_format

    if arguments.format is not None:
        if arguments.output is None:
            raise CommandError("--format needs -o FILE, or -o - for standard output", USAGE_ERROR)
        check_format(arguments.format)
    elif arguments.output is not None and str(arguments.output) != "-":
        file_format(arguments.output)


def _open_output(arguments: argparse.Namespace, sample_rate: int, *, live: bool = False) -> Destination:
    from app.cli.playback import open_file, open_output, open_player

    if arguments.output is None:
        return open_player(sample_rate, live=live)
    if str(arguments.output) == "-":
        return open_output(arguments.format or "wav", sample_rate)
    return open_file(arguments.output, sample_rate, arguments.format)


def _speech_options(arguments: argparse.Namespace) -> SpeechOptions:
    from app.speech.options import SpeechOptions

    return SpeechOptions(
        model=arguments.model,
        voice=arguments.voice,
        lang=arguments.lang,
        any_language=arguments.any_language,
        speed=arguments.speed,
        seed=arguments.seed,
        sampling=Sampling(**{name: getattr(arguments, name) for name in SAMPLING_RANGES}),
        translate_to=arguments.translate_to,
        source=arguments.source,
        translate_model=arguments.translate_model,
    )


def _open_speech(arguments: argparse.Namespace, settings: Settings) -> AbstractAsyncContextManager[LocalSpeech]:
    from app.cli.local import open_speech

    translate = arguments.translate_to is not None
    return open_speech(settings, arguments.model, translate=translate, translate_model=arguments.translate_model)


async def _say_to(arguments: argparse.Namespace, settings: Settings, text: str) -> None:
    from app.cli.playback import PlaybackError
    from models.timeline import Timeline

    async with _open_speech(arguments, settings) as speech:
        try:
            out = _open_output(arguments, speech.synthesizer.sample_rate)
            try:
                async for pcm in speech.speak(text, _speech_options(arguments), Timeline()):
                    # Off the event loop: a sound device makes its writer wait.
                    await asyncio.to_thread(out.write, pcm)
            except BaseException:
                out.abandon()
                raise
            await asyncio.to_thread(out.close)
        except PlaybackError as error:
            raise CommandError(str(error)) from None


async def _narrate_to(arguments: argparse.Namespace, settings: Settings, lines: Iterable[bytes]) -> int:
    from app.cli.playback import PlaybackError
    from app.cli.stream_json import narrate
    from models.timeline import Timeline

    async with _open_speech(arguments, settings) as speech:
        stream = await speech.open(_speech_options(arguments), Timeline())
        live = arguments.output is None
        try:
            out = _open_output(arguments, speech.synthesizer.sample_rate, live=live)
            try:
                whole = await narrate(lines, stream, out, report=_report, live=live)
            except BaseException:
                out.abandon()
                raise
            await asyncio.to_thread(out.close)
        except NothingToSpeakError:
            raise CommandError("the stream held nothing to say") from None
        except PlaybackError as error:
            raise CommandError(str(error)) from None
        finally:
            stream.close("cancelled")
    return 0 if whole else 1


def _report(event: Broken | Failed) -> None:
    """Say what was wrong with a line, and go on."""
    from app.llm_text.events import Broken

    reason = event.reason if isinstance(event, Broken) else f"the model failed: {event.message}"
    _fail(f"line {event.line}: {reason}")


def _open_raw(name: str) -> FileIO:
    return FileIO(sys.stdin.fileno(), closefd=False) if name == "-" else FileIO(name)


def _read_stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(f"standard input is not UTF-8 (byte {error.start})", USAGE_ERROR) from None


def _translate(arguments: argparse.Namespace, settings: Settings) -> int:
    text = arguments.text if arguments.text != "-" else _read_stdin()
    if not text.strip():
        raise EmptyInputError("there is no text to translate")
    _log(settings)
    from app.cli.local import translate
    from app.translation.plan import TranslationOptions

    options = TranslationOptions(
        target=arguments.target,
        source=arguments.source,
        model=arguments.model,
        beams=arguments.beams,
        format=arguments.format,
    )
    translated = run_interruptible(translate(settings, text, options)).text
    sys.stdout.write(translated if translated.endswith("\n") else translated + "\n")
    return 0


def _bench(arguments: argparse.Namespace, settings: Settings) -> int:
    from app.cli.bench import run

    _log(settings)
    report = run_interruptible(run(settings, model=arguments.model, voice=arguments.voice, repeat=arguments.repeat))
    print(json.dumps(report.as_dict(), indent=2) if arguments.json else report.as_table())
    return 0
