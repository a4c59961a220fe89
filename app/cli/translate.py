"""`nightingale translate`: translate a text in this process."""

from __future__ import annotations

import argparse
import sys

from app.cli.command import configure_logging, read_stdin
from app.cli.interrupt import run_interruptible
from app.config import Settings
from app.errors import EmptyInputError


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
