"""Errors of models, raised as the service's own errors: one table for speech, translation and recognition."""

from __future__ import annotations

from app import errors
from models import contract

# Error of a model, the service's error, and the parameter at fault (None: the one that error names itself).
# The first class that fits decides: a base class stands after those derived from it.
_TABLE: tuple[tuple[type[contract.ModelRequestError], type[errors.ServiceError], str | None], ...] = (
    (contract.UnknownVoiceError, errors.UnknownVoiceError, None),
    (contract.UnknownLanguageError, errors.UnsupportedLanguageError, "target"),
    (contract.OutsideCoverageError, errors.OutsideCoverageError, None),
    (contract.InputTooLongError, errors.TextTooLongError, None),
    (contract.ModelRequestError, errors.InvalidRequestError, None),
)


def service_error(
    error: contract.ModelRequestError, prefix: str = "", *, text_param: str = "input"
) -> errors.ServiceError:
    """Return the service's error for a request that a model refused. Its message begins with `prefix`.

    `text_param` is the surface's name for a text that is too long.
    """
    kind, param = next((service, param) for own, service, param in _TABLE if isinstance(error, own))
    if kind is errors.TextTooLongError:
        param = text_param
    return kind(f"{prefix}{error}", param=param)
