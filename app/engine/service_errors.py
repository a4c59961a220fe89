"""Errors of texts and models, raised as the service's own errors: one table for speech and translation."""

from __future__ import annotations

from app import errors
from app.text.errors import (
    GlossaryError,
    LexiconError,
    MarkupError,
    NothingToSpeakError,
    PhonemizerUnavailableError,
    TextError,
    UnsupportedLanguageError,
)
from models.contract import (
    InputTooLongError,
    ModelRequestError,
    OutsideCoverageError,
    UnknownLanguageError,
    UnknownVoiceError,
)

# Error of a text or a model, the service's error, and the parameter at fault (None: the one that error names itself).
# The first class that fits decides: a base class stands after those derived from it.
_TABLE: tuple[tuple[type[Exception], type[errors.ServiceError], str | None], ...] = (
    (NothingToSpeakError, errors.NothingToSpeakError, None),
    (MarkupError, errors.MarkupError, None),
    (UnsupportedLanguageError, errors.UnsupportedLanguageError, None),
    (PhonemizerUnavailableError, errors.UnavailableError, None),
    (GlossaryError, errors.InvalidRequestError, "glossary"),
    (LexiconError, errors.InvalidLexiconError, None),
    (TextError, errors.InvalidRequestError, "input"),
    (UnknownVoiceError, errors.UnknownVoiceError, None),
    (UnknownLanguageError, errors.UnsupportedLanguageError, "target"),
    (OutsideCoverageError, errors.OutsideCoverageError, None),
    (InputTooLongError, errors.TextTooLongError, None),
    (ModelRequestError, errors.InvalidRequestError, None),
)


# Errors of texts and models that `service_error` takes.
REQUEST_ERRORS = (TextError, ModelRequestError)


def service_error(error: Exception, prefix: str = "", *, text_param: str = "input") -> errors.ServiceError:
    """Return the service's error for one of REQUEST_ERRORS. Its message begins with `prefix`.

    `text_param` is the surface's name for a text that is too long.
    """
    kind, param = next((service, param) for own, service, param in _TABLE if isinstance(error, own))
    if kind is errors.TextTooLongError:
        param = text_param
    return kind(f"{prefix}{error}", param=param)
