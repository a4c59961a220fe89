"""`nightingale translate`: translate a text in this process."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from app.cli.command import configure_logging, integer, read_stdin
from app.cli.interrupt import run_interruptible
from app.config import Settings
from app.errors import EmptyInputError


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    """Describe the command to argparse."""
    translate = commands.add_parser("translate", parents=[common], help="translate a text")
    translate.add_argument("text", metavar="TEXT", help="what to translate; - reads it from standard input")
    translate.add_argument("--target", metavar="LANG", required=True, help="language: fr, fra_Latn, French, ...")
    translate.add_argument("--source", metavar="LANG", default="auto", help="language of TEXT (default: detected)")
    translate.add_argument("--model", help="model (default: nllb-200-distilled-600m)")
    translate.add_argument("--format", choices=("text", "markdown", "html"), default="text", help="what TEXT is")
    translate.add_argument("--beams", type=integer(1, 8), default=1, help="hypotheses to keep, 1 to 8 (default 1)")
    translate.set_defaults(run=run, computes=True)


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the translation; return the exit status. Raises ServiceError and CommandError."""
    text = arguments.text if arguments.text != "-" else read_stdin()
    if not text.strip():
        raise EmptyInputError("there is no text to translate")
    configure_logging(settings)
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
