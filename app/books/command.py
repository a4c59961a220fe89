"""`nightingale book`: make an audiobook of a document, in this process or on a server. The same command goes on."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import shutil
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tqdm import tqdm  # type: ignore[import-untyped]

from app.cli.command import USAGE_ERROR, CommandError, configure_logging, number, read_file
from app.cli.interrupt import run_interruptible
from app.cli.lexicon import LexiconFile, add_lexicon_option, given_lexicons
from app.cli.server_client import add_server_arguments
from app.config import Settings

if TYPE_CHECKING:
    from app.books.types import Job, JobOptions, ResultFormat
    from app.cli.local import LocalSpeech

_FORMATS: Final[dict[str, ResultFormat]] = {".m4b": "m4b", ".m4a": "m4b", ".mp3": "mp3", ".zip": "chapters"}
_BAR: Final = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}, {remaining} left{postfix}"


class Bar:
    """Progress of a job on standard error, where that is a terminal."""

    def __init__(self, name: str) -> None:
        self._bar = tqdm(total=1.0, desc=name, bar_format=_BAR, disable=None)

    def show(self, progress: float, seconds: float, status: str) -> None:
        """Show how far it is, in [0, 1], and the seconds of audio that were made."""
        self._bar.set_postfix_str(f"{seconds / 60:.1f} min of audio, {status.replace('_', ' ')}", refresh=False)
        self._bar.n = progress
        self._bar.refresh()

    def close(self) -> None:
        """Leave the line as it is."""
        self._bar.close()


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command to argparse."""
    book = commands.add_parser("book", parents=[common], help="make an audiobook of a document")
    book.add_argument("file", metavar="FILE", help="document: .txt .md .html .epub .docx .srt .vtt")
    book.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True, help=".m4b or .mp3 with chapters, or .zip of them"
    )
    add_server_arguments(book, "this process makes it")
    book.add_argument("--model", help="model (default: see `nightingale models list`)")
    book.add_argument("--voice", help="voice, or a blend such as 'am_michael(2)+af_heart(1)'")
    book.add_argument("--lang", help="language (default: the document's, or the voice's)")
    book.add_argument("--any-language", action="store_true", help="speak it though the model was not made for it")
    book.add_argument("--to", dest="translate_to", metavar="LANG", help="translate first: fr, French, ...")
    book.add_argument("--source", metavar="LANG", help="language of the document, to be translated")
    book.add_argument("--translate-model", metavar="MODEL", help="translation model")
    book.add_argument("--speed", type=number(0.25, 4.0), default=1.0, help="0.25 to 4 (default 1)")
    add_lexicon_option(book)
    book.add_argument("--title", help="in place of the document's own")
    book.add_argument("--author", help="in place of the document's own")
    book.add_argument(
        "--subtitles", action="append", choices=("srt", "vtt"), default=[], help="write these, too, beside the output"
    )
    book.set_defaults(run=run, computes=True)


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Make the book; return the exit status. Raises CommandError, ServiceError and OSError."""
    suffix = arguments.output.suffix.lower()
    if suffix not in _FORMATS:
        raise CommandError(f"'{arguments.output.name}' must end in {', '.join(_FORMATS)}", USAGE_ERROR)
    if not arguments.output.absolute().parent.is_dir():
        raise CommandError(f"there is no folder {arguments.output.parent}")
    for place in (arguments.output, *(arguments.output.with_suffix(f".{kind}") for kind in arguments.subtitles)):
        if place.exists() and Path(arguments.file).exists() and place.samefile(arguments.file):
            raise CommandError(f"{place} would be written over the document: give -o another name", USAGE_ERROR)
    from app.books.types import JobOptions

    names = JobOptions.model_fields.keys() & vars(arguments).keys()
    options = JobOptions.model_validate(
        {name: getattr(arguments, name) for name in names} | {"format": _FORMATS[suffix]}
    )
    data = read_file(arguments.file, settings.max_document_bytes, "max_document_bytes")
    name = Path(arguments.file).name
    lexicons = given_lexicons(arguments.lexicon)
    configure_logging(settings)
    if arguments.url is None:
        options = options.model_copy(update={"lexicons": _keep(settings, lexicons)})
        run_interruptible(_make_here(settings, name, data, options, arguments.output))
        return 0
    from app.books.client import BookClient
    from app.cli.server_client import ServerClient, read_key

    client = BookClient(ServerClient(arguments.url, read_key(arguments.key_file)), Bar(name), lexicons)
    run_interruptible(client.make(name, data, options, arguments.output))
    return 0


def _keep(settings: Settings, lexicons: list[str | LexiconFile]) -> tuple[str, ...]:
    """Return the ids of lexicons. Files are kept under their names, so that the same command finds them again."""
    from app.lexicons.store import LexiconStore

    if not lexicons:
        return ()
    store = LexiconStore(settings.data_dir / "lexicons", most=settings.max_lexicons)
    known = {each.name: each.id for each in store.lexicons() if each.owner is None}
    for each in lexicons:
        if isinstance(each, LexiconFile) and each.name not in known:
            known[each.name] = store.add(each.name, each.lexicon, None).id
    return tuple(known[each.name] if isinstance(each, LexiconFile) else each for each in lexicons)


def fingerprint(name: str, data: bytes, options: JobOptions) -> str:
    """Return what tells a command by its document and its options, so that the same one goes on."""
    digest = hashlib.sha256(data)
    digest.update(f"\0{name}\0{options.model_dump_json()}".encode())
    return digest.hexdigest()[:32]


def outputs(names: list[str], output: Path) -> list[tuple[str, Path]]:
    """Return each result of a job with its place: the first is `output`, the others lie beside it."""
    beside = [(name, output.with_suffix(Path(name).suffix)) for name in names[1:]]
    return [(names[0], output), *beside]


async def _make_here(settings: Settings, name: str, data: bytes, options: JobOptions, output: Path) -> None:
    from app.books.runner import JobRunner
    from app.books.service import JobService, NewJob

    place = settings.data_dir / "books" / fingerprint(name, data, options)
    bar = Bar(name)
    try:
        async with _open_speech(settings, options) as speech:
            jobs = JobService(settings.model_copy(update={"jobs": True}), speech.service, place)
            runner = JobRunner(jobs)
            try:
                kept = await jobs.jobs(None, 1)
                job = kept[0] if kept else await jobs.create(NewJob(name, options, {}), data)
                runner.start()
                job = await _follow(jobs, job, bar)
                await asyncio.to_thread(_take_results, jobs.results(job.id), job, output)
            finally:
                await runner.stop()
                jobs.close()
    except asyncio.CancelledError:
        print("\nnightingale: the same command goes on where this one stopped", file=sys.stderr)
        raise
    finally:
        bar.close()
    await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)


def _open_speech(settings: Settings, options: JobOptions) -> AbstractAsyncContextManager[LocalSpeech]:
    from app.cli.local import open_speech

    translate = options.translate_to is not None
    return open_speech(settings, options.model, translate=translate, translate_model=options.translate_model)


async def _follow(jobs: Any, job: Job, bar: Bar) -> Job:
    """Show the progress of a job until it ends; return it. Raises CommandError if it failed."""
    while not job.ended:
        bar.show(job.progress, job.totals.seconds, job.status)
        await asyncio.sleep(0.2)
        job = await jobs.get(job.id)
    bar.show(job.progress, job.totals.seconds, job.status)
    for warning in job.warnings:
        tqdm.write(f"nightingale: {warning}", file=sys.stderr)
    for error in job.errors:
        tqdm.write(f"nightingale: {described(error.line, error.message)}", file=sys.stderr)
    if job.status != "completed":
        await jobs.remove(job.id)
        raise CommandError(job.errors[0].message if job.errors else f"the job is {job.status}")
    return job


def described(line: int | None, message: str) -> str:
    """Return a line about a passage that was left out, or about the job."""
    return message if line is None else f"passage {line} was left out: {message}"


def _take_results(folder: Path, job: Job, output: Path) -> None:
    for name, place in outputs([file.name for file in job.files], output):
        partial = place.with_name(place.name + ".partial")
        shutil.copyfile(folder / name, partial)
        partial.replace(place)
